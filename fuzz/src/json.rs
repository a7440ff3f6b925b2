//! Looks at JSON that are independent of the code they judge.

use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;

/// The one JSON value that `data` is, as it was written.
pub fn value(data: &[u8]) -> Option<&RawValue> {
    serde_json::from_slice(data).ok()
}

/// The one JSON object that `data` is, if all its names are text and no member of it is there twice.
///
/// Escapes can spell halves of characters, which are no text (RFC 8259, section 8.2).
pub fn object(data: &[u8]) -> Option<&str> {
    let text = value(data)?.get();
    (text.starts_with('{') && is_unambiguous(text)).then_some(text)
}

/// Whether all names of the object `text` are text, and each is there once.
fn is_unambiguous(text: &str) -> bool {
    let Ok(Names(mut names)) = serde_json::from_str(text) else {
        return false;
    };
    let all = names.len();
    names.sort();
    names.dedup();
    names.len() == all
}

/// Where in `whole` its part `part` stands.
pub fn range(whole: &[u8], part: &str) -> std::ops::Range<usize> {
    let start = part.as_ptr() as usize - whole.as_ptr() as usize;
    let range = start..start + part.len();
    assert_eq!(&whole[range.clone()], part.as_bytes());
    range
}

struct Names(Vec<String>);

impl<'de> Deserialize<'de> for Names {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Reader;
        impl<'de> Visitor<'de> for Reader {
            type Value = Names;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Names, A::Error> {
                let mut names = Vec::new();
                while let Some((name, _)) = map.next_entry::<String, IgnoredAny>()? {
                    names.push(name);
                }
                Ok(Names(names))
            }
        }
        deserializer.deserialize_map(Reader)
    }
}
