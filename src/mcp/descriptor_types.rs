//! What the members of descriptors are by the protocol, as far as readers that follow its schemas look: they refuse a
//! whole list for one member of another type in one entry.
//!
//! All of it holds for every revision. Members that the protocol does not know are nobody's business.

use serde_json::value::RawValue;

use super::object::{self, Members, ObjectWriter};

/// What a value must be.
#[derive(Clone, Copy, Debug)]
pub enum Kind {
    Anything,
    Text,
    Flag,
    Whole,
    /// A number from 0 to 1.
    Share,
    /// A date with a time and an offset from UTC (RFC 3339).
    Moment,
    OneOf(&'static [&'static str]),
    /// An object of which only these members are known.
    Object(&'static [Member]),
    List(&'static Self),
    /// Schemas by name.
    Schemas,
}

/// A member of an object.
#[derive(Clone, Copy, Debug)]
pub struct Member {
    name: &'static str,
    kind: Kind,
    is_needed: bool,
}

/// A member that is not what it must be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{path} must be {expected}; the server must mend it")]
pub struct WrongType {
    /// Where it stands: `icons/0/src`.
    pub path: String,
    /// What it must be.
    pub expected: &'static str,
}

/// A descriptor of a tool; what else its schemas must be is in [`super::tool_schema`].
pub const TOOL: Kind = Kind::Object(&[
    needed("name", Kind::Text),
    may("title", Kind::Text),
    may("description", Kind::Text),
    may("icons", ICONS),
    may("inputSchema", SCHEMA),
    may("outputSchema", SCHEMA),
    may(
        "annotations",
        Kind::Object(&[
            may("title", Kind::Text),
            may("readOnlyHint", Kind::Flag),
            may("destructiveHint", Kind::Flag),
            may("idempotentHint", Kind::Flag),
            may("openWorldHint", Kind::Flag),
        ]),
    ),
    may("execution", Kind::Object(&[may("taskSupport", Kind::Text)])),
    may("_meta", OPEN),
]);

/// A descriptor of a resource.
pub const RESOURCE: Kind = Kind::Object(&[
    needed("uri", Kind::Text),
    needed("name", Kind::Text),
    may("title", Kind::Text),
    may("description", Kind::Text),
    may("mimeType", Kind::Text),
    may("size", Kind::Whole),
    may("icons", ICONS),
    may("annotations", ANNOTATIONS),
    may("_meta", OPEN),
]);

/// A descriptor of a resource template.
pub const TEMPLATE: Kind = Kind::Object(&[
    needed("uriTemplate", Kind::Text),
    needed("name", Kind::Text),
    may("title", Kind::Text),
    may("description", Kind::Text),
    may("mimeType", Kind::Text),
    may("icons", ICONS),
    may("annotations", ANNOTATIONS),
    may("_meta", OPEN),
]);

/// A descriptor of a prompt.
pub const PROMPT: Kind = Kind::Object(&[
    needed("name", Kind::Text),
    may("title", Kind::Text),
    may("description", Kind::Text),
    may("icons", ICONS),
    may(
        "arguments",
        Kind::List(&Kind::Object(&[
            needed("name", Kind::Text),
            may("title", Kind::Text),
            may("description", Kind::Text),
            may("required", Kind::Flag),
        ])),
    ),
    may("_meta", OPEN),
]);

impl Kind {
    /// The first part of `json`, which stands at `path`, that is not what it must be.
    pub fn wrong(self, json: &str, path: &str) -> Option<WrongType> {
        match self {
            Self::Object(members) => {
                let Some(values) = Members::parse(json) else {
                    return Some(self.expected(path));
                };
                members.iter().find_map(|member| {
                    let path = below(path, member.name);
                    match values.get(member.name) {
                        Some(value) => member.kind.wrong(value.get(), &path),
                        None if member.is_needed => Some(member.kind.expected(&path)),
                        None => None,
                    }
                })
            }
            Self::List(kind) => match serde_json::from_str::<Vec<&RawValue>>(json) {
                Ok(values) => {
                    let mut values = values.iter().enumerate();
                    values.find_map(|(place, value)| kind.wrong(value.get(), &below(path, &place.to_string())))
                }
                Err(_) => Some(self.expected(path)),
            },
            _ => (!self.is_kind_of(json)).then(|| self.expected(path)),
        }
    }

    /// `json` without members that may be absent and are null instead, and with objects for schemas that are only true
    /// or false, which mean the same and which not every reader takes. `None` if there are none.
    pub fn mended(self, json: &str) -> Option<String> {
        // Nearly all descriptors are right, and are not read for it.
        if !["null", "true", "false"].iter().any(|word| json.contains(word)) {
            return None;
        }
        match self {
            Self::Object(members) => {
                let values = Members::parse(json)?;
                rewritten(&values, |name, value| {
                    let Some(member) = members.iter().find(|member| member.name == name) else {
                        return Mended::Kept;
                    };
                    match member.kind.mended(value) {
                        _ if value == "null" && !member.is_needed => Mended::Dropped,
                        Some(mended) => Mended::Changed(mended),
                        None => Mended::Kept,
                    }
                })
            }
            Self::Schemas => rewritten(&Members::parse(json)?, |_, value| match value {
                "true" => Mended::Changed("{}".to_owned()),
                "false" => Mended::Changed(r#"{"not":{}}"#.to_owned()),
                _ => Mended::Kept,
            }),
            Self::List(kind) => {
                let values: Vec<&RawValue> = serde_json::from_str(json).ok()?;
                let mended: Vec<_> = values.iter().map(|value| kind.mended(value.get())).collect();
                mended.iter().any(Option::is_some).then(|| {
                    let values = values.iter().zip(&mended);
                    let values: Vec<_> = values
                        .map(|(value, mended)| mended.as_deref().unwrap_or_else(|| value.get()))
                        .collect();
                    format!("[{}]", values.join(","))
                })
            }
            _ => None,
        }
    }

    fn expected(self, path: &str) -> WrongType {
        WrongType {
            path: path.to_owned(),
            expected: match self {
                Self::Anything => "JSON",
                Self::Text => "a string",
                Self::Flag => "true or false",
                Self::Whole => "a whole number",
                Self::Share => "a number from 0 to 1",
                Self::Moment => "a date and time with its offset, such as 2026-07-28T12:00:00Z",
                Self::OneOf(_) => "a word that the protocol knows",
                Self::Object(_) | Self::Schemas => "an object that names no member twice",
                Self::List(_) => "a list",
            },
        }
    }

    fn is_kind_of(self, json: &str) -> bool {
        let number = || json.parse::<f64>().ok().filter(|number| number.is_finite());
        let text = || serde_json::from_str::<object::Text<'_>>(json).ok();
        match self {
            // Objects and lists are looked into.
            Self::Anything | Self::Object(_) | Self::List(_) | Self::Schemas => true,
            Self::Text => text().is_some(),
            Self::Flag => matches!(json, "true" | "false"),
            Self::Whole => number().is_some_and(|number| number.fract() == 0.0),
            Self::Share => number().is_some_and(|number| (0.0..=1.0).contains(&number)),
            Self::Moment => text().is_some_and(|text| is_moment(text.as_str())),
            Self::OneOf(words) => text().is_some_and(|text| words.contains(&text.as_str())),
        }
    }
}

const ICONS: Kind = Kind::List(&Kind::Object(&[
    needed("src", Kind::Text),
    may("mimeType", Kind::Text),
    may("sizes", Kind::List(&Kind::Text)),
    may("theme", Kind::OneOf(&["light", "dark"])),
]));

const ANNOTATIONS: Kind = Kind::Object(&[
    may("audience", Kind::List(&Kind::OneOf(&["user", "assistant"]))),
    may("priority", Kind::Share),
    may("lastModified", Kind::Moment),
]);

const SCHEMA: Kind = Kind::Object(&[
    may("properties", Kind::Schemas),
    may("required", Kind::Anything),
    may("$schema", Kind::Text),
]);

const OPEN: Kind = Kind::Object(&[]);

const fn needed(name: &'static str, kind: Kind) -> Member {
    Member {
        name,
        kind,
        is_needed: true,
    }
}

const fn may(name: &'static str, kind: Kind) -> Member {
    Member {
        name,
        kind,
        is_needed: false,
    }
}

enum Mended {
    Kept,
    Dropped,
    Changed(String),
}

/// The object of `values` with what `mend` makes of them, if it makes anything.
fn rewritten(values: &Members<'_>, mend: impl Fn(&str, &str) -> Mended) -> Option<String> {
    let mut is_other = false;
    let mut out = Vec::new();
    let mut writer = ObjectWriter::open(&mut out);
    for (name, value) in values.iter() {
        match mend(name, value.get()) {
            Mended::Kept => writer.member(name, value.get()),
            Mended::Dropped => is_other = true,
            Mended::Changed(mended) => {
                writer.member(name, &mended);
                is_other = true;
            }
        }
    }
    writer.close();
    is_other.then(|| String::from_utf8(out).ok())?
}

fn below(path: &str, name: &str) -> String {
    match path {
        "" => name.to_owned(),
        _ => format!("{path}/{name}"),
    }
}

/// Whether readers take `text` for a moment; libraries for dates take more ways to write one.
fn is_moment(text: &str) -> bool {
    let ends_in_offset = || {
        let offset = text.get(text.len().wrapping_sub(6)..).map(str::as_bytes);
        matches!(offset, Some([b'+' | b'-', _, _, b':', _, _]))
    };
    text.as_bytes().get(10) == Some(&b'T')
        && (text.ends_with('Z') || ends_in_offset())
        && text.parse::<jiff::Timestamp>().is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const KINDS: [(Kind, &str); 4] = [
        (TOOL, r#""name":"n","inputSchema":{"type":"object"}"#),
        (RESOURCE, r#""uri":"a:b","name":"n""#),
        (TEMPLATE, r#""uriTemplate":"a:{b}","name":"n""#),
        (PROMPT, r#""name":"n""#),
    ];

    fn wrong(kind: Kind, json: &str) -> Option<String> {
        kind.wrong(json, "").map(|wrong| wrong.path)
    }

    #[test]
    fn a_member_of_another_type_is_found_wherever_it_stands() {
        for (kind, least) in KINDS {
            for (more, path) in [
                (r#""title":1"#, "title"),
                (r#""description":["a"]"#, "description"),
                (r#""description":"\ud800""#, "description"),
                (r#""icons":{}"#, "icons"),
                (r#""icons":[1]"#, "icons/0"),
                (r#""icons":[{"src":"a:b"},{}]"#, "icons/1/src"),
                (r#""icons":[{"src":"a:b","sizes":"any"}]"#, "icons/0/sizes"),
                (r#""icons":[{"src":"a:b","theme":"blue"}]"#, "icons/0/theme"),
                (r#""_meta":[]"#, "_meta"),
                (r#""_meta":{"a":1,"a":2}"#, "_meta"),
            ] {
                let json = format!("{{{least},{more}}}");
                assert_eq!(wrong(kind, &json).as_deref(), Some(path), "{json}");
            }
        }
        for (kind, more, path) in [
            (TOOL, r#""annotations":1"#, "annotations"),
            (
                TOOL,
                r#""annotations":{"readOnlyHint":"yes"}"#,
                "annotations/readOnlyHint",
            ),
            (TOOL, r#""annotations":{"title":1}"#, "annotations/title"),
            (TOOL, r#""execution":"later""#, "execution"),
            (TOOL, r#""outputSchema":true"#, "outputSchema"),
            (TOOL, r#""outputSchema":{"$schema":7}"#, "outputSchema/$schema"),
            (RESOURCE, r#""mimeType":{}"#, "mimeType"),
            (RESOURCE, r#""size":"7""#, "size"),
            (RESOURCE, r#""size":1.5"#, "size"),
            (RESOURCE, r#""annotations":{"audience":"user"}"#, "annotations/audience"),
            (
                RESOURCE,
                r#""annotations":{"audience":["all"]}"#,
                "annotations/audience/0",
            ),
            (TEMPLATE, r#""annotations":{"priority":2}"#, "annotations/priority"),
            (
                TEMPLATE,
                r#""annotations":{"lastModified":"2026-07-28T12:00:00"}"#,
                "annotations/lastModified",
            ),
            (PROMPT, r#""arguments":{"a":{}}"#, "arguments"),
            (PROMPT, r#""arguments":[{"description":"d"}]"#, "arguments/0/name"),
            (
                PROMPT,
                r#""arguments":[{"name":"a","required":"no"}]"#,
                "arguments/0/required",
            ),
        ] {
            let (_, least) = KINDS
                .iter()
                .find(|(_, least)| kind.wrong(&format!("{{{least}}}"), "").is_none())
                .unwrap();
            let json = format!("{{{least},{more}}}");
            assert_eq!(wrong(kind, &json).as_deref(), Some(path), "{json}");
        }
        assert_eq!(wrong(RESOURCE, r#"{"uri":"a:b"}"#).as_deref(), Some("name"));
    }

    #[test]
    fn what_is_right_and_what_nobody_knows_is_left_alone() {
        for (kind, least) in KINDS {
            for more in [
                r#""title":"","description":"\u00e9","icons":[],"_meta":{"a":null}"#,
                r#""icons":[{"src":"a:b","mimeType":"image/png","sizes":["any"],"theme":"dark","x":1}]"#,
                r#""future":1,"name2":null"#,
            ] {
                let json = format!("{{{least},{more}}}");
                assert_eq!(wrong(kind, &json), None, "{json}");
                assert_eq!(kind.mended(&json), None, "{json}");
            }
        }
        let all = r#"{"uri":"a:b","name":"n","size":5.0,"annotations":{"audience":["user"],"priority":1,"lastModified":"2026-07-28T12:00:00.5+01:00"}}"#;
        assert_eq!(wrong(RESOURCE, all), None);
    }

    #[test]
    fn nulls_that_say_nothing_go_at_every_depth_and_every_other_value_stays_as_it_was_written() {
        for (kind, json, expected) in [
            (
                TOOL,
                r#"{ "name":"t", "description":null, "k":null, "icons": null, "inputSchema":{"default":null}, "n":1.50 }"#,
                r#"{"name":"t","k":null,"inputSchema":{"default":null},"n":1.50}"#,
            ),
            (
                TOOL,
                r#"{"name":"t","inputSchema":{"type":"object","properties":null,"required":null},"annotations":{"title":null,"x":null}}"#,
                r#"{"name":"t","inputSchema":{"type":"object"},"annotations":{"x":null}}"#,
            ),
            (
                TOOL,
                r#"{"name":"t","inputSchema":{"properties":{"a":true,"b":{"c":true},"d":false}}}"#,
                r#"{"name":"t","inputSchema":{"properties":{"a":{},"b":{"c":true},"d":{"not":{}}}}}"#,
            ),
            (
                RESOURCE,
                r#"{"uri":"a:b","name":"n","size":null,"icons":[{"src":"s","mimeType":null},{"src":"t" }]}"#,
                r#"{"uri":"a:b","name":"n","icons":[{"src":"s"},{"src":"t" }]}"#,
            ),
            (
                PROMPT,
                r#"{"name":"n","arguments":[{"name":"a","required":null,"description":null}]}"#,
                r#"{"name":"n","arguments":[{"name":"a"}]}"#,
            ),
        ] {
            assert_eq!(kind.mended(json).as_deref(), Some(expected));
        }
        for untouched in [
            r#"{ "name":"t", "description":"null" }"#,
            r#"{ "name":"t", "k":null }"#,
            r#"{ "name":"t" }"#,
            "[null]",
        ] {
            assert_eq!(TOOL.mended(untouched), None);
        }
    }
}
