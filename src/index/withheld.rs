//! What is not offered: entries whose names would act on whatever shows them, those whose schemas or other members make
//! clients refuse the whole list, tools whose `x-mcp-header` annotations are wrong, which are left out where the
//! annotations bind, and mended where they do not, skills that hosts could not use, what is listed twice, and lists that
//! their server does not give, or not to their end.

use std::sync::Arc;

use super::item::Item;
use super::list::List;
use super::mended;
use super::skills::{self, EntryError};
use crate::mcp::descriptor_types::WrongType;
use crate::mcp::param_headers::{self, InvalidAnnotation, ParamHeaders};
use crate::mcp::printable::acts_on_the_line;
use crate::mcp::tool_schema::{self, SchemaDefect};
use crate::mcp::{Members, object, printable};

/// An entry that its server lists and that is not offered, or a whole list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Withheld {
    /// The list that it stands in, or that it is.
    pub list: List,
    /// Its name or URI, cut and with control characters written as escapes: it ends up in logs and status. Of a list the
    /// method.
    pub name: String,
    /// Why.
    pub cause: Defect,
}

/// What is wrong with what is not offered.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Defect {
    /// Its name does something to the lines that it stands in, on a person's terminal as in a model's prompt.
    #[error("its name or URI has control characters; the server must name it without")]
    Name,
    /// What it is known by is no URI, for which clients would refuse all resources.
    #[error("its uri is none ({0}); the server must give it one, such as file:///a or memo://a")]
    Uri(url::ParseError),
    /// A member is not what the protocol says, for which clients would refuse the whole list.
    #[error(transparent)]
    Type(#[from] WrongType),
    /// Half a character stands in it somewhere, which many readers take for no JSON at all.
    #[error("it has half of a surrogate pair in it; the server must write whole characters")]
    Surrogate,
    /// Its annotations bind, and cannot be followed.
    #[error(transparent)]
    Annotation(#[from] InvalidAnnotation),
    /// Clients cannot read its schemas, and would refuse all tools for it.
    #[error(transparent)]
    Schema(#[from] SchemaDefect),
    /// It is a skill with an entry that hosts must not load.
    #[error("a skill that hosts could not use: {0}")]
    Skill(#[from] EntryError),
    /// It is a list that the server declares and answers with an error, which says this.
    #[error("the server answers with an error: {0}; what it listed before is served for a while")]
    List(String),
    /// It is a list that the server declares and fails to give, which says how.
    #[error("{0}; it is asked for again, and what it listed before is served for a while")]
    Unread(String),
    /// It is a list that goes on after so many pages or entries.
    #[error("it goes on after {0}, more of which are not read; the server must list less")]
    Cut(String),
    /// Another entry of the list before it is called the same.
    #[error("the server lists it twice; the first is offered, and it must give one of them another name or URI")]
    Twice,
}

/// Whether a server's annotations bind us, as its client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Annotations {
    /// Modern over HTTP: clients must do without a tool that is wrongly annotated (2026-07-28, Streamable HTTP).
    Binding,
    /// Legacy or over stdio, where annotations say nothing and nobody checks them: the tool is as good as without, and
    /// is offered without, since Modern clients of ours would have to leave it out as it is.
    Inert,
}

impl Item {
    /// The entry of `list` as it is offered, or why it is not.
    ///
    /// # Errors
    /// Its name has control characters, clients could not read it, a tool's annotations are wrong, or it is a skill that
    /// hosts must not load.
    pub fn offered(self, list: List, annotations: Annotations) -> Result<Self, Withheld> {
        if let Some(defect) = self.defect(list) {
            return Err(Withheld::new(list, &self.key, defect));
        }
        match list {
            List::Tools => self.annotated(annotations),
            List::Resources | List::Templates | List::Prompts | List::Skills => Ok(self),
        }
    }

    /// Why no client could use it.
    fn defect(&self, list: List) -> Option<Defect> {
        let raw = self.raw.get();
        if self.key.chars().any(acts_on_the_line) {
            return Some(Defect::Name);
        }
        let own = match list {
            List::Tools => tool_schema::defect(raw).map(Defect::Schema),
            List::Resources => url::Url::parse(&self.key).err().map(Defect::Uri),
            List::Skills => skills::Entry::read(raw)
                .and_then(|entry| entry.check_fields())
                .err()
                .map(Defect::Skill),
            List::Templates | List::Prompts => None,
        };
        let of_types = || mended::kind(list)?.wrong(raw, "").map(Defect::Type);
        let of_text = || has_half_characters(raw).then_some(Defect::Surrogate);
        of_text().or(own).or_else(of_types)
    }

    /// The tool with its annotations read.
    fn annotated(mut self, annotations: Annotations) -> Result<Self, Withheld> {
        let tool = self.raw.get();
        let tool = Some(tool).filter(|tool| param_headers::may_be_annotated(tool));
        let Some(schema) = tool.and_then(Members::parse).and_then(|tool| tool.get("inputSchema")) else {
            return Ok(self);
        };
        match (ParamHeaders::read(schema), annotations) {
            (Ok(None), _) => {}
            (Ok(Some(found)), _) => self.param_headers = Some(Arc::new(found)),
            (Err(cause), Annotations::Binding) => return Err(Withheld::new(List::Tools, &self.key, cause.into())),
            (Err(cause), Annotations::Inert) => {
                let mended = param_headers::without_annotations(schema)
                    .map(|mended| object::replace_value(self.raw.get(), schema, &mended))
                    .and_then(|tool| serde_json::value::RawValue::from_string(tool).ok());
                match mended {
                    Some(raw) => self.raw = raw,
                    None => return Err(Withheld::new(List::Tools, &self.key, cause.into())),
                }
            }
        }
        Ok(self)
    }
}

impl Withheld {
    /// The entry of `list` that is called `name`, and why it is not offered.
    pub fn new(list: List, name: &str, cause: Defect) -> Self {
        Self {
            list,
            name: printable(name, NAME_MAX),
            cause,
        }
    }
}

impl Defect {
    /// One CamelCase word.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Name => "InvalidName",
            Self::Uri(_) => "InvalidUri",
            Self::Type(_) => "WrongType",
            Self::Surrogate => "HalfCharacter",
            Self::Annotation(annotation) => annotation.reason(),
            Self::Schema(schema) => schema.reason(),
            Self::Skill(entry) => entry.reason(),
            Self::List(_) => "ListRefused",
            Self::Unread(_) => "ListUnread",
            Self::Cut(_) => "ListCut",
            Self::Twice => "ListedTwice",
        }
    }
}

/// Whether a string in it has half of a surrogate pair.
fn has_half_characters(json: &str) -> bool {
    let may_have = json.contains(r"\ud") || json.contains(r"\uD");
    may_have && serde_json::from_str::<serde_json::Value>(json).is_err()
}

const NAME_MAX: usize = 128;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::index::List;

    const WRONG: &str = r#"{ "name": "t", "inputSchema": {"type": "object", "properties": {"a": {"x-mcp-header": "A b", "type": "string"}} } , "k": 1.0}"#;
    const RIGHT: &str =
        r#"{"name":"t","inputSchema":{"type":"object","properties":{"a":{"x-mcp-header":"A","type":"string"}}}}"#;

    fn offered(tool: &str, annotations: Annotations) -> Result<Item, Withheld> {
        let raw = serde_json::from_str(tool).unwrap();
        Item::read(List::Tools, raw).unwrap().offered(List::Tools, annotations)
    }

    #[test]
    fn a_wrongly_annotated_tool_is_left_out_where_annotations_bind() {
        let withheld = offered(WRONG, Annotations::Binding).unwrap_err();
        assert_eq!((withheld.name.as_str(), withheld.cause.reason()), ("t", "NotAToken"));
        let named = WRONG.replace(r#""t""#, &format!(r#""{}""#, "b".repeat(500)));
        let withheld = offered(&named, Annotations::Binding).unwrap_err();
        assert_eq!(withheld.name, "b".repeat(128));
    }

    #[test]
    fn a_tool_whose_name_acts_on_the_line_is_left_out_everywhere_and_named_by_escapes() {
        for (written, shown) in [
            (r"a\u001b[2Jb", r"a\u{1b}[2Jb"),
            (r"a\nb", r"a\u{a}b"),
            (r"\u0000", r"\u{0}"),
            (r"a\u009bb", r"a\u{9b}b"),
            (r"a\u202eb", r"a\u{202e}b"),
        ] {
            for annotations in [Annotations::Binding, Annotations::Inert] {
                let withheld = offered(&format!(r#"{{"name":"{written}"}}"#), annotations).unwrap_err();
                assert_eq!((withheld.name.as_str(), &withheld.cause), (shown, &Defect::Name));
                assert_eq!(withheld.cause.reason(), "InvalidName");
            }
        }
        for name in ["list_repos", "a b", "文件", "admin.tools/list-1", "naïve"] {
            assert!(
                offered(
                    &format!(r#"{{"name":"{name}","inputSchema":{{"type":"object"}}}}"#),
                    Annotations::Inert
                )
                .is_ok(),
                "{name}"
            );
        }
    }

    #[test]
    fn elsewhere_it_is_offered_without_annotations_and_otherwise_as_it_was_written() {
        let item = offered(WRONG, Annotations::Inert).unwrap();
        assert_eq!(
            item.raw.get(),
            r#"{ "name": "t", "inputSchema": {"type": "object", "properties": {"a": { "type": "string"}} } , "k": 1.0}"#
        );
        assert_eq!(item.param_headers, None);
        let unreadable = WRONG.replace("\"A b\"", r#""A b", "x": "\ud800""#);
        assert!(
            offered(&unreadable, Annotations::Inert).is_err(),
            "nothing can be taken out of it"
        );
    }

    #[test]
    fn an_entry_that_makes_clients_refuse_its_list_is_left_out_of_it() {
        let reason = |list: List, entry: &str| {
            let item = Item::read(list, serde_json::from_str(entry).unwrap()).unwrap();
            let withheld = item.offered(list, Annotations::Inert).err()?;
            assert_eq!(withheld.list, list);
            Some(withheld.cause.reason())
        };
        for (list, entry, expected) in [
            (
                List::Tools,
                r#"{"name":"t","inputSchema":{"type":"object"},"title":1}"#,
                "WrongType",
            ),
            (
                List::Tools,
                r#"{"name":"t","inputSchema":{"type":"object","properties":[]}}"#,
                "SchemaPart",
            ),
            (
                List::Tools,
                r#"{"name":"t","inputSchema":{"type":"object"},"k":"\ud83d"}"#,
                "HalfCharacter",
            ),
            (List::Resources, r#"{"uri":"memo"}"#, "InvalidUri"),
            (List::Resources, r#"{"uri":"http://"}"#, "InvalidUri"),
            (List::Resources, r#"{"uri":"a:\nb"}"#, "InvalidName"),
            (List::Resources, r#"{"uri":"a:b","size":"1"}"#, "WrongType"),
            (List::Resources, r#"{"uri":"a:b","name":7}"#, "WrongType"),
            (List::Templates, r#"{"uriTemplate":"a:{b}","icons":"x"}"#, "WrongType"),
            (List::Prompts, r#"{"name":"p","arguments":["a"]}"#, "WrongType"),
            (List::Prompts, r#"{"name":"p\u001b"}"#, "InvalidName"),
        ] {
            assert_eq!(reason(list, entry), Some(expected), "{entry}");
        }
        for (list, entry) in [
            (
                List::Tools,
                r#"{"name":"t","inputSchema":{"type":"object","properties":null},"title":null}"#,
            ),
            (
                List::Tools,
                r#"{"name":"t","inputSchema":{"type":"object"},"k":"\ud83d\ude00"}"#,
            ),
            (List::Resources, r#"{"uri":"memo:a b"}"#),
            (List::Resources, r#"{"uri":"ui://a/b","name":null}"#),
            (List::Templates, r#"{"uriTemplate":"{+anything}"}"#),
            (List::Prompts, r#"{"name":"p","arguments":null}"#),
        ] {
            assert_eq!(reason(list, entry), None, "{entry}");
        }
    }

    #[test]
    fn right_annotations_are_kept_wherever_they_come_from() {
        for annotations in [Annotations::Binding, Annotations::Inert] {
            let item = offered(RIGHT, annotations).unwrap();
            assert_eq!(item.raw.get(), RIGHT);
            assert!(item.param_headers.is_some());
        }
    }
}
