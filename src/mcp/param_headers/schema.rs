//! The annotations in a tool's `inputSchema`.

mod walk;

use serde_json::value::RawValue;

use super::ParamHeaders;
use crate::defaults;
use walk::{KEYWORD, walk};

/// Why the annotations of a tool cannot be used. Clients must then do without the tool (2026-07-28, Streamable HTTP).
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidAnnotation {
    /// The schema is no JSON object that can be read.
    #[error("its inputSchema cannot be read")]
    Unreadable,
    /// The annotation's value is no string.
    #[error("an x-mcp-header is not a string")]
    NotAString,
    /// The annotation's value cannot be part of a header's name (RFC 9110, token).
    #[error("x-mcp-header {0:?} is not a name for a header: only letters, digits and !#$%&'*+-.^_`|~ are")]
    NotAToken(String),
    /// Two annotations give the same name; case does not count.
    #[error("x-mcp-header {0:?} is given to two properties")]
    Repeated(String),
    /// The annotated property is of another type.
    #[error("x-mcp-header {0:?} is on a property whose type is not string, integer or boolean")]
    WrongType(String),
    /// The annotation is somewhere else than on a property that `properties` alone lead to.
    #[error("an x-mcp-header is on something else than a property that is reached by properties alone")]
    Misplaced,
    /// A member that decides about the annotations occurs twice.
    #[error("its inputSchema names a member twice beside an x-mcp-header")]
    Ambiguous,
    /// There are more annotations than [`defaults::PARAM_HEADERS_MAX`].
    #[error("it has more than {} x-mcp-header", defaults::PARAM_HEADERS_MAX)]
    TooMany,
    /// An annotation stands deeper than [`defaults::PARAM_HEADER_DEPTH_MAX`] properties.
    #[error("an x-mcp-header is deeper than {} properties", defaults::PARAM_HEADER_DEPTH_MAX)]
    TooDeep,
}

impl InvalidAnnotation {
    /// One CamelCase word.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Unreadable => "Unreadable",
            Self::NotAString => "NotAString",
            Self::NotAToken(_) => "NotAToken",
            Self::Repeated(_) => "Repeated",
            Self::WrongType(_) => "WrongType",
            Self::Misplaced => "Misplaced",
            Self::Ambiguous => "Ambiguous",
            Self::TooMany => "TooMany",
            Self::TooDeep => "TooDeep",
        }
    }
}

pub(super) fn may_be_annotated(json: &str) -> bool {
    json.contains(KEYWORD) || json.contains("\\u")
}

pub(super) fn read(schema: &RawValue) -> Result<Option<ParamHeaders>, InvalidAnnotation> {
    let text = schema.get();
    match walk(text) {
        // Nothing that clients would take for an annotation.
        Err(_) if !text.contains(KEYWORD) => Ok(None),
        Err(_) => Err(InvalidAnnotation::Unreadable),
        Ok((_, findings)) if findings.annotations.is_empty() => Ok(None),
        Ok((properties, findings)) => match findings.fault {
            Some(fault) => Err(fault),
            None if findings.ambiguous => Err(InvalidAnnotation::Ambiguous),
            None => Ok(Some(ParamHeaders(properties))),
        },
    }
}

pub(super) fn without_annotations(schema: &RawValue) -> Option<String> {
    let text = schema.get();
    let (_, findings) = walk(text).ok()?;
    let mut out = String::with_capacity(text.len());
    let mut rest = 0;
    for value in findings.annotations {
        let start = (value.get().as_ptr() as usize).checked_sub(text.as_ptr() as usize)?;
        // No quotation mark can be inside this name, so the one before its last opens it.
        let (name, _) = text.get(rest..start)?.rsplit_once('"')?;
        let (before, _) = name.rsplit_once('"')?;
        out.push_str(before.trim_end());
        rest = start + value.get().len();
        if out.ends_with(',') {
            out.pop();
            continue;
        }
        let after = text.get(rest..)?.trim_start();
        let after = after.strip_prefix(',').unwrap_or(after);
        rest = text.len() - after.len();
    }
    out.push_str(text.get(rest..)?);
    Some(out)
}

#[cfg(test)]
mod tests;
