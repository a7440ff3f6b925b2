//! `Mcp-Param-*`: arguments of a tool that are repeated as HTTP headers, where the tool's schema asks for it by
//! `x-mcp-header` (2026-07-28, Streamable HTTP, custom headers from tool parameters).

mod arguments;
mod received;
mod schema;

use http::HeaderName;
use serde_json::value::RawValue;

pub use arguments::ArgumentError;
pub use received::HeaderMismatch;
pub use schema::InvalidAnnotation;

/// The annotations of one tool: which of its arguments are repeated, and under which names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParamHeaders(Vec<Property>);

/// A property of a schema that is annotated, or has such properties inside.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Property {
    name: String,
    annotation: Option<Annotation>,
    inside: Vec<Self>,
}

/// One `x-mcp-header`.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Annotation {
    header: HeaderName,
    of: ArgumentType,
}

/// What an argument may be whose value is repeated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ArgumentType {
    String,
    Integer,
    Boolean,
}

impl ParamHeaders {
    /// Reads the annotations of a tool's `inputSchema`; `None` if it has none.
    pub fn read(input_schema: &RawValue) -> Result<Option<Self>, InvalidAnnotation> {
        schema::read(input_schema)
    }
}

/// A quick look that spares most tools the reading: false if `json` holds no annotation. Names may be written with
/// escapes.
pub fn may_be_annotated(json: &str) -> bool {
    schema::may_be_annotated(json)
}

/// `input_schema` without its annotations, valid or not, and otherwise byte for byte; `None` if it cannot be read.
pub fn without_annotations(input_schema: &RawValue) -> Option<String> {
    schema::without_annotations(input_schema)
}

#[cfg(test)]
mod tests {
    use super::*;

    pub(super) fn raw(json: &str) -> &RawValue {
        serde_json::from_str(json).unwrap()
    }

    /// The annotations of a tool that has each kind of them.
    pub(super) fn route() -> ParamHeaders {
        let schema = raw(r#"{"type": "object", "required": ["region"], "properties": {
                "region": {"type": "string", "x-mcp-header": "Region"},
                "limit": {"type": "integer", "x-mcp-header": "Limit"},
                "scope": {"type": "object", "properties": {"tenant": {"type": "string", "x-mcp-header": "Tenant"}}},
                "dry": {"type": "boolean", "x-mcp-header": "Dry-Run"},
                "q": {"type": "string"}}}"#);
        ParamHeaders::read(schema).unwrap().unwrap()
    }
}
