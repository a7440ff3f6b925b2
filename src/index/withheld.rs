//! What is not offered: tools whose names would act on whatever shows them, those whose schemas make clients refuse the
//! whole list, and those whose `x-mcp-header` annotations are wrong, which are left out where the annotations bind, and
//! mended where they do not; skills that hosts could not use; and lists that their server does not give.

use std::sync::Arc;

use super::catalog::Item;
use super::skills::{self, EntryError};
use crate::mcp::param_headers::{self, InvalidAnnotation, ParamHeaders};
use crate::mcp::printable::acts_on_the_line;
use crate::mcp::tool_schema::{self, SchemaDefect};
use crate::mcp::{Members, object, printable};

/// A tool or a skill that its server lists and that is not offered, or a whole list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Withheld {
    /// Its name, or the URI of a skill, cut and with control characters written as escapes: it ends up in logs and status.
    /// Of a list the method.
    pub name: String,
    /// Why.
    pub cause: Defect,
}

/// What is wrong with what is not offered.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Defect {
    /// Its name does something to the lines that it stands in, on a person's terminal as in a model's prompt.
    #[error("its name has control characters; the server must name it without")]
    Name,
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
    /// The tool as it is offered, or why it is not.
    ///
    /// # Errors
    /// Its name has control characters, its schemas cannot be used, or its annotations are wrong.
    pub fn offered(self, annotations: Annotations) -> Result<Self, Withheld> {
        if self.key.chars().any(acts_on_the_line) {
            return Err(Withheld::new(&self.key, Defect::Name));
        }
        if let Some(defect) = tool_schema::defect(self.raw.get()) {
            return Err(Withheld::new(&self.key, defect.into()));
        }
        self.annotated(annotations)
    }

    /// The skill as it is offered, or why it is not.
    ///
    /// # Errors
    /// Its entry is one that hosts must not load.
    pub fn offered_skill(self) -> Result<Self, Withheld> {
        match skills::Entry::read(self.raw.get()) {
            Ok(_) => Ok(self),
            Err(cause) => Err(Withheld::new(&self.key, cause.into())),
        }
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
            (Err(cause), Annotations::Binding) => return Err(Withheld::new(&self.key, cause.into())),
            (Err(cause), Annotations::Inert) => {
                let mended = param_headers::without_annotations(schema)
                    .map(|mended| object::replace_value(self.raw.get(), schema, &mended))
                    .and_then(|tool| serde_json::value::RawValue::from_string(tool).ok());
                match mended {
                    Some(raw) => self.raw = raw,
                    None => return Err(Withheld::new(&self.key, cause.into())),
                }
            }
        }
        Ok(self)
    }
}

impl Withheld {
    pub(super) fn new(name: &str, cause: Defect) -> Self {
        Self {
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
            Self::Annotation(annotation) => annotation.reason(),
            Self::Schema(schema) => schema.reason(),
            Self::Skill(entry) => entry.reason(),
            Self::List(_) => "ListRefused",
        }
    }
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
        Item::read(List::Tools, raw).unwrap().offered(annotations)
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
    fn right_annotations_are_kept_wherever_they_come_from() {
        for annotations in [Annotations::Binding, Annotations::Inert] {
            let item = offered(RIGHT, annotations).unwrap();
            assert_eq!(item.raw.get(), RIGHT);
            assert!(item.param_headers.is_some());
        }
    }
}
