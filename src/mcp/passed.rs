//! Which federations the entries of a list, or a search, have passed. Gateways tell each other beside their lists, so that
//! those which are members of each other do not list what they gave away themselves, and come to rest; and beside their
//! searches, so that nobody finds that either. Ours, no part of the protocol.

use std::collections::HashMap;
use std::fmt;

use aws_lc_rs::digest::{SHA256, digest};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::meta;
use super::object::{Members, ObjectWriter};

/// The key in the `_meta` of a list's result.
pub const KEY: &str = "dev.mcpfleet/passed";

/// A federation as others know it: the same in all its replicas, and no other's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub struct Mark(u64);

/// What a federation says of the entries of a list.
#[derive(Debug)]
pub struct Passed {
    by: Mark,
    before: HashMap<String, Vec<Mark>>,
}

impl Mark {
    /// The mark of the federation `name` whose object, or whose process where there is none, is called `unique`.
    pub fn new(unique: &str, name: &str) -> Self {
        let digest = digest(&SHA256, format!("{unique}\0{name}").as_bytes());
        let first = digest.as_ref().iter().take(8);
        Self(first.fold(0, |mark, byte| mark << 8 | u64::from(*byte)))
    }

    fn parse(text: &str) -> Option<Self> {
        let is_written = text.len() == 16 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        is_written.then(|| u64::from_str_radix(text, 16).ok().map(Self))?
    }
}

impl fmt::Display for Mark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

impl Passed {
    /// Reads the `_meta` of a list's result. `None` where it says nothing, or not in this way.
    pub fn read(meta: &RawValue) -> Option<Self> {
        #[derive(Deserialize)]
        struct Said {
            by: String,
            #[serde(default)]
            before: HashMap<String, Vec<String>>,
        }
        let said: Said = serde_json::from_str(Members::parse(meta.get())?.get(KEY)?.get()).ok()?;
        let before = said.before.into_iter().map(|(key, marks)| {
            let marks = marks.iter().take(MARKS_MAX).filter_map(|mark| Mark::parse(mark));
            (key, marks.collect())
        });
        Some(Self {
            by: Mark::parse(&said.by)?,
            before: before.collect(),
        })
    }

    /// The federations that the entry of this key has passed, the last one first.
    pub fn of(&self, key: &str) -> Box<[Mark]> {
        let before = self.before.get(key).into_iter().flatten().copied();
        std::iter::once(self.by).chain(before).collect()
    }
}

/// The federations that a search with this `_meta` has passed, as far as it says so.
pub fn by_search(meta: Option<&Members<'_>>) -> Vec<Mark> {
    let said = meta.and_then(|meta| meta.get(meta::SEARCH_PASSED));
    let marks: Vec<String> = said
        .and_then(|said| serde_json::from_str(said.get()).ok())
        .unwrap_or_default();
    marks
        .iter()
        .take(MARKS_MAX)
        .filter_map(|mark| Mark::parse(mark))
        .collect()
}

/// Whether the client of a request with this `_meta` is a gateway, and wants to know.
pub fn is_asked_for(meta: Option<&Members<'_>>) -> bool {
    let said = meta.and_then(|meta| meta.get(meta::CLIENT_INFO));
    let name = said.and_then(|info| {
        Members::parse(info.get())?
            .string("name")
            .map(|name| name == meta::OWN_NAME)
    });
    name.unwrap_or(false)
}

/// Writes, into the `_meta` of a list's result, that it is `by` this federation, and what those of its `entries` had passed
/// that had passed any.
pub fn write<'e>(meta: &mut ObjectWriter<'_>, by: Mark, entries: impl Iterator<Item = (&'e str, &'e [Mark])>) {
    let mut said = ObjectWriter::open(meta.name(KEY));
    said.string("by", &by.to_string());
    let mut before = ObjectWriter::open(said.name("before"));
    for (key, marks) in entries.filter(|(_, marks)| !marks.is_empty()) {
        let marks: Vec<String> = marks.iter().map(|mark| format!("\"{mark}\"")).collect();
        before.member(key, &format!("[{}]", marks.join(",")));
    }
    before.close();
    said.close();
}

/// Most federations that an entry, or a search, is known to have passed: longer chains serve nobody.
const MARKS_MAX: usize = 32;

#[cfg(test)]
mod tests {
    use super::*;

    fn read(meta: &str) -> Option<Passed> {
        Passed::read(&serde_json::from_str::<Box<RawValue>>(meta).unwrap())
    }

    #[test]
    fn what_is_written_is_read_back() {
        let marks = ["a", "b", "c"].map(|name| Mark::new("unique", name));
        let [a, b, c] = marks;
        assert_ne!(a, Mark::new("other", "a"));
        let mut out = Vec::new();
        let mut meta = ObjectWriter::open(&mut out);
        write(&mut meta, a, [("far \"é\"", &[b, c][..]), ("near", &[])].into_iter());
        meta.close();
        let text = String::from_utf8(out).unwrap();
        assert!(!text.contains("near"), "{text}");
        let passed = read(&text).unwrap();
        assert_eq!(*passed.of("far \"é\""), [a, b, c]);
        assert_eq!(*passed.of("near"), [a]);
    }

    #[test]
    fn what_is_written_otherwise_says_nothing_and_what_is_too_long_is_cut() {
        for wrong in [
            "{}",
            "7",
            r#"{"dev.mcpfleet/passed":true}"#,
            r#"{"dev.mcpfleet/passed":{"by":"x"}}"#,
            r#"{"dev.mcpfleet/passed":{"by":"+000000000000001"}}"#,
            r#"{"dev.mcpfleet/passed":{"by":7}}"#,
        ] {
            assert!(read(wrong).is_none(), "{wrong}");
        }
        let mark = "\"00000000000000aa\"";
        let many = vec![mark; 100].join(",");
        let long = read(&format!(
            r#"{{"{KEY}":{{"by":{mark},"before":{{"k":["odd",{many}]}}}}}}"#
        ))
        .unwrap();
        assert_eq!(long.of("k").len(), MARKS_MAX);
        assert_eq!(
            read(&format!(r#"{{"{KEY}":{{"by":{mark}}}}}"#)).unwrap().of("k").len(),
            1
        );
    }

    #[test]
    fn a_search_has_passed_what_it_says_and_what_is_written_otherwise_says_nothing() {
        let marks = ["a", "b"].map(|name| Mark::new("unique", name));
        let read = |said: &str| by_search(Members::parse(&format!("{{\"{}\":{said}}}", meta::SEARCH_PASSED)).as_ref());
        assert_eq!(read(&format!(r#"["{}","odd","{}"]"#, marks[0], marks[1])), marks);
        for wrong in ["7", "{}", "[7]", r#""00000000000000aa""#] {
            assert!(read(wrong).is_empty(), "{wrong}");
        }
        let many = vec![r#""00000000000000aa""#; 100].join(",");
        assert_eq!(read(&format!("[{many}]")).len(), MARKS_MAX);
        assert!(by_search(None).is_empty());
    }

    #[test]
    fn only_gateways_ask() {
        let asks = |meta: &str| is_asked_for(Members::parse(meta).as_ref());
        assert!(asks(&format!(r#"{{"{}":{}}}"#, meta::CLIENT_INFO, meta::OWN_INFO)));
        for other in [
            "{}",
            r#"{"io.modelcontextprotocol/clientInfo":{"name":"c"}}"#,
            r#"{"io.modelcontextprotocol/clientInfo":7}"#,
        ] {
            assert!(!asks(other), "{other}");
        }
        assert!(!is_asked_for(None));
    }
}
