//! Tools whose `x-mcp-header` annotations are wrong: left out where the annotations bind, mended where they do not.

use std::sync::Arc;

use super::catalog::Item;
use crate::mcp::param_headers::{self, InvalidAnnotation, ParamHeaders};
use crate::mcp::{Members, object};

/// A tool that its server lists and that is not offered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Withheld {
    /// Its name, cut and without control characters: it ends up in logs and status.
    pub name: String,
    /// Why.
    pub cause: InvalidAnnotation,
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
    /// The tool with its annotations read.
    pub fn annotated(mut self, annotations: Annotations) -> Result<Self, Withheld> {
        let tool = self.raw.get();
        let tool = Some(tool).filter(|tool| param_headers::may_be_annotated(tool));
        let Some(schema) = tool.and_then(Members::parse).and_then(|tool| tool.get("inputSchema")) else {
            return Ok(self);
        };
        match (ParamHeaders::read(schema), annotations) {
            (Ok(None), _) => {}
            (Ok(Some(found)), _) => self.param_headers = Some(Arc::new(found)),
            (Err(cause), Annotations::Binding) => return Err(Withheld::new(&self.key, cause)),
            (Err(cause), Annotations::Inert) => {
                let mended = param_headers::without_annotations(schema)
                    .map(|mended| object::replace_value(self.raw.get(), schema, &mended))
                    .and_then(|tool| serde_json::value::RawValue::from_string(tool).ok());
                match mended {
                    Some(raw) => self.raw = raw,
                    None => return Err(Withheld::new(&self.key, cause)),
                }
            }
        }
        Ok(self)
    }
}

impl Withheld {
    fn new(name: &str, cause: InvalidAnnotation) -> Self {
        Self {
            name: name.chars().filter(|c| !c.is_control()).take(NAME_MAX).collect(),
            cause,
        }
    }
}

const NAME_MAX: usize = 128;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::index::List;

    const WRONG: &str = r#"{ "name": "t", "inputSchema": {"properties": {"a": {"x-mcp-header": "A b", "type": "string"}} } , "k": 1.0}"#;
    const RIGHT: &str = r#"{"name":"t","inputSchema":{"properties":{"a":{"x-mcp-header":"A","type":"string"}}}}"#;

    fn annotated(tool: &str, annotations: Annotations) -> Result<Item, Withheld> {
        let raw = serde_json::from_str(tool).unwrap();
        Item::read(List::Tools, raw).unwrap().annotated(annotations)
    }

    #[test]
    fn a_wrongly_annotated_tool_is_left_out_where_annotations_bind() {
        let withheld = annotated(WRONG, Annotations::Binding).unwrap_err();
        assert_eq!((withheld.name.as_str(), withheld.cause.reason()), ("t", "NotAToken"));
        let named = WRONG.replace(r#""t""#, &format!(r#""a\u001b{}""#, "b".repeat(500)));
        let withheld = annotated(&named, Annotations::Binding).unwrap_err();
        assert_eq!(withheld.name, format!("a{}", "b".repeat(127)));
    }

    #[test]
    fn elsewhere_it_is_offered_without_annotations_and_otherwise_as_it_was_written() {
        let item = annotated(WRONG, Annotations::Inert).unwrap();
        assert_eq!(
            item.raw.get(),
            r#"{ "name": "t", "inputSchema": {"properties": {"a": { "type": "string"}} } , "k": 1.0}"#
        );
        assert_eq!(item.param_headers, None);
        let unreadable = WRONG.replace("\"A b\"", r#""A b", "x": "\ud800""#);
        assert!(
            annotated(&unreadable, Annotations::Inert).is_err(),
            "nothing can be taken out of it"
        );
    }

    #[test]
    fn right_annotations_are_kept_wherever_they_come_from() {
        for annotations in [Annotations::Binding, Annotations::Inert] {
            let item = annotated(RIGHT, annotations).unwrap();
            assert_eq!(item.raw.get(), RIGHT);
            assert!(item.param_headers.is_some());
        }
    }
}
