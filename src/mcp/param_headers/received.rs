//! Headers that a client sent, held against the arguments that they repeat.

use http::{HeaderMap, HeaderName};
use serde_json::value::RawValue;

use super::arguments::{Argument, integer};
use super::{ArgumentError, ArgumentType, ParamHeaders};
use crate::mcp::headers;

/// Why a call is refused for its headers (2026-07-28, Streamable HTTP, server validation).
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HeaderMismatch {
    /// The arguments are such that no headers could repeat them.
    #[error(transparent)]
    Argument(#[from] ArgumentError),
    /// There is a value and no header.
    #[error("header {0} is missing: it must repeat its argument")]
    Missing(HeaderName),
    /// There is a header and no value: who reads the header only would be misled.
    #[error("header {0} is sent without the argument that it repeats")]
    WithoutArgument(HeaderName),
    /// The header is there more than once.
    #[error("header {0} is sent more than once")]
    Repeated(HeaderName),
    /// The header has characters that must be encoded, or is encoded wrongly.
    #[error("header {0} is malformed: it must be printable ASCII or =?base64?…?= over UTF-8")]
    Malformed(HeaderName),
    /// Header and value differ.
    #[error("header {0} does not match the argument that it repeats")]
    Differs(HeaderName),
}

impl ParamHeaders {
    /// Checks that the headers in `map` repeat the annotated `arguments`, all of them and nothing else. Other
    /// `Mcp-Param-*` mean nothing and are ignored.
    pub fn check(&self, arguments: Option<&RawValue>, map: &HeaderMap) -> Result<(), HeaderMismatch> {
        for argument in self.arguments(arguments)? {
            check(&argument, map)?;
        }
        Ok(())
    }
}

fn check(argument: &Argument<'_>, map: &HeaderMap) -> Result<(), HeaderMismatch> {
    let header = &argument.annotation.header;
    let mut sent = map.get_all(header).iter();
    let (value, sent) = match (argument.value, sent.next(), sent.next()) {
        (_, Some(_), Some(_)) => return Err(HeaderMismatch::Repeated(header.clone())),
        (None, None, _) => return Ok(()),
        (None, Some(_), None) => return Err(HeaderMismatch::WithoutArgument(header.clone())),
        (Some(_), None, _) => return Err(HeaderMismatch::Missing(header.clone())),
        (Some(value), Some(sent), None) => (value, sent),
    };
    let expected = argument.annotation.text(value)?;
    let sent =
        headers::decode(sent.as_bytes().trim_ascii()).ok_or_else(|| HeaderMismatch::Malformed(header.clone()))?;
    let matches = match argument.annotation.of {
        ArgumentType::Integer => integer(&sent) == integer(&expected),
        ArgumentType::String | ArgumentType::Boolean => sent == expected,
    };
    if !matches {
        return Err(HeaderMismatch::Differs(header.clone()));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;
    use proptest::prelude::*;

    use super::*;
    use crate::mcp::param_headers::tests::{raw, route};

    /// `ok`, or the kind of mismatch.
    fn checked(arguments: &str, sent: &[(&'static str, &[u8])]) -> String {
        let mut map = HeaderMap::new();
        for (name, value) in sent {
            map.append(*name, HeaderValue::from_bytes(value).unwrap());
        }
        match route().check(Some(raw(arguments)), &map) {
            Ok(()) => "ok".into(),
            Err(mismatch) => {
                let text = format!("{mismatch:?}");
                text.split(['(', ' ']).next().unwrap_or_default().to_owned()
            }
        }
    }

    #[test]
    fn headers_that_repeat_the_arguments_pass() {
        type Case<'a> = (&'a str, &'a [(&'static str, &'a [u8])]);
        let cases: [Case<'_>; 11] = [
            (r#"{"region": "us"}"#, &[("mcp-param-region", b"us")]),
            (r#"{"region": "u s"}"#, &[("mcp-param-region", b" u s\t")]),
            (r#"{"region": ""}"#, &[("mcp-param-region", b"")]),
            (r#"{"region": ""}"#, &[("mcp-param-region", b"=?base64??=")]),
            (
                r#"{"region": "Gr\u00fc\u00dfe"}"#,
                &[("mcp-param-region", b"=?base64?R3LDvMOfZQ==?=")],
            ),
            (r#"{"region": "us"}"#, &[("mcp-param-region", b"=?base64?dXM=?=")]),
            (r#"{"limit": 42}"#, &[("mcp-param-limit", b"42.0")]),
            (r#"{"limit": 42.0}"#, &[("mcp-param-limit", b"42")]),
            (r#"{"dry": false}"#, &[("mcp-param-dry-run", b"false")]),
            (r#"{"scope": {"tenant": "acme"}}"#, &[("mcp-param-tenant", b"acme")]),
            (r#"{"limit": null, "scope": null}"#, &[]),
        ];
        for (arguments, sent) in cases {
            assert_eq!(checked(arguments, sent), "ok", "{arguments} {sent:?}");
        }
    }

    #[test]
    fn each_way_to_differ_is_told_apart() {
        type Case<'a> = (&'a str, &'a [(&'static str, &'a [u8])], &'a str);
        let cases: [Case<'_>; 20] = [
            (r#"{"region": "us"}"#, &[], "Missing"),
            (r#"{"scope": {"tenant": "acme"}}"#, &[], "Missing"),
            ("{}", &[("mcp-param-limit", b"5")], "WithoutArgument"),
            (r#"{"limit": null}"#, &[("mcp-param-limit", b"5")], "WithoutArgument"),
            (r#"{"scope": []}"#, &[("mcp-param-tenant", b"acme")], "WithoutArgument"),
            (r#"{"region": "US"}"#, &[("mcp-param-region", b"us")], "Differs"),
            (r#"{"region": "42"}"#, &[("mcp-param-region", b"42.0")], "Differs"),
            (
                r#"{"region": "us"}"#,
                &[("mcp-param-region", b"=?BASE64?dXM=?=")],
                "Differs",
            ),
            (r#"{"region": "us"}"#, &[("mcp-param-region", b"us, us")], "Differs"),
            (r#"{"limit": 42}"#, &[("mcp-param-limit", b"43")], "Differs"),
            (r#"{"limit": 42}"#, &[("mcp-param-limit", b"")], "Differs"),
            (r#"{"dry": true}"#, &[("mcp-param-dry-run", b"True")], "Differs"),
            (
                r#"{"region": "us"}"#,
                &[("mcp-param-region", b"us"), ("mcp-param-region", b"us")],
                "Repeated",
            ),
            (
                r#"{"region": "\u00e9"}"#,
                &[("mcp-param-region", b"\xc3\xa9")],
                "Malformed",
            ),
            (r#"{"region": "\u00e9"}"#, &[("mcp-param-region", b"\xe9")], "Malformed"),
            (
                r#"{"region": "us"}"#,
                &[("mcp-param-region", b"=?base64?dXM?=")],
                "Malformed",
            ),
            (
                r#"{"region": "us"}"#,
                &[("mcp-param-region", b"=?base64?d*M=?=")],
                "Malformed",
            ),
            (
                r#"{"region": "us"}"#,
                &[("mcp-param-region", b"=?base64?/w==?=")],
                "Malformed",
            ),
            (r#"{"limit": 1.5}"#, &[("mcp-param-limit", b"1.5")], "Argument"),
            (
                r#"{"region": "a", "region": "b"}"#,
                &[("mcp-param-region", b"a")],
                "Argument",
            ),
        ];
        for (arguments, sent, expected) in cases {
            assert_eq!(checked(arguments, sent), expected, "{arguments} {sent:?}");
        }
    }

    #[test]
    fn headers_that_no_annotation_speaks_of_are_ignored() {
        let sent: &[(&'static str, &[u8])] = &[
            ("mcp-param-region", b"us"),
            ("mcp-param-q", b"\xff"),
            ("mcp-param-q", b"twice"),
        ];
        assert_eq!(checked(r#"{"region": "us", "q": "z"}"#, sent), "ok");
    }

    proptest! {
        #[test]
        fn what_is_written_for_arguments_passes_for_them_and_for_no_others(
            region in any::<String>(),
            other in any::<String>(),
            limit in -INTEGER_MAX..=INTEGER_MAX,
            dry in any::<bool>(),
        ) {
            let arguments = |region: &str| {
                let text = serde_json::json!({"region": region, "limit": limit, "dry": dry}).to_string();
                RawValue::from_string(text).unwrap()
            };
            let mut map = HeaderMap::new();
            route().write(Some(&arguments(&region)), &mut map).unwrap();
            prop_assert_eq!(route().check(Some(&arguments(&region)), &map), Ok(()));
            prop_assert_eq!(route().check(Some(&arguments(&other)), &map).is_ok(), region == other);
        }
    }

    const INTEGER_MAX: i64 = (1 << 53) - 1;
}
