//! The values in a call's arguments that are repeated as headers, and the headers that a server gets for them.

use std::borrow::Cow;

use http::{HeaderMap, HeaderName, HeaderValue};
use serde_json::value::RawValue;

use super::{Annotation, ArgumentType, ParamHeaders, Property};
use crate::defaults;
use crate::mcp::headers;
use crate::mcp::object::{self, Members};

/// Why arguments cannot be repeated as headers.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ArgumentError {
    /// An object names a member twice: a header could only repeat one of them.
    #[error("an object in the arguments names a member twice")]
    Ambiguous,
    /// A value is not of the type that its schema says, or an integer beyond ±(2^53−1).
    #[error("the argument that header {header} repeats must be {expected}")]
    WrongType {
        /// The name of the header.
        header: HeaderName,
        /// What the schema says, in words.
        expected: &'static str,
    },
    /// The headers would be larger than [`defaults::HEADER_BYTES_MAX`].
    #[error("the argument that header {header} repeats is too long: all together may have {max} bytes")]
    TooLong {
        /// The name of the header.
        header: HeaderName,
        /// The most that all headers may have.
        max: usize,
    },
}

impl ParamHeaders {
    /// Sets in `map` the header of each annotated argument, in place of any other value, and removes those of arguments
    /// that are absent or null.
    ///
    /// After an error `map` is of no use.
    pub fn write(&self, arguments: Option<&RawValue>, map: &mut HeaderMap) -> Result<(), ArgumentError> {
        let mut room = defaults::HEADER_BYTES_MAX;
        for Argument { annotation, value } in self.arguments(arguments)? {
            let header = &annotation.header;
            let Some(value) = value else {
                map.remove(header);
                continue;
            };
            let text = annotation.text(value)?;
            let encoded = headers::encode(&text);
            room = room
                .checked_sub(header.as_str().len() + encoded.len())
                .ok_or_else(|| ArgumentError::TooLong {
                    header: header.clone(),
                    max: defaults::HEADER_BYTES_MAX,
                })?;
            let encoded = HeaderValue::from_str(&encoded).map_err(|_| annotation.wrong_type())?;
            map.insert(header, encoded);
        }
        Ok(())
    }

    /// Every annotated argument.
    pub(super) fn arguments<'a>(&'a self, arguments: Option<&'a RawValue>) -> Result<Vec<Argument<'a>>, ArgumentError> {
        let mut found = Vec::new();
        look_up(&self.0, arguments, &mut found)?;
        Ok(found)
    }
}

/// An annotated argument of a call.
#[derive(Debug)]
pub(super) struct Argument<'a> {
    pub(super) annotation: &'a Annotation,
    /// Its value, unless it is absent or null.
    pub(super) value: Option<&'a RawValue>,
}

impl Annotation {
    /// What the header says for `value`.
    pub(super) fn text<'v>(&self, value: &'v RawValue) -> Result<Cow<'v, str>, ArgumentError> {
        let text = match self.of {
            ArgumentType::String => object::string(value),
            ArgumentType::Integer => integer(value.get()).map(|number| Cow::Owned(number.to_string())),
            ArgumentType::Boolean => Some(value.get())
                .filter(|text| matches!(*text, "true" | "false"))
                .map(Cow::Borrowed),
        };
        text.ok_or_else(|| self.wrong_type())
    }

    fn wrong_type(&self) -> ArgumentError {
        ArgumentError::WrongType {
            header: self.header.clone(),
            expected: match self.of {
                ArgumentType::String => "a string",
                ArgumentType::Integer => "an integer within ±(2^53-1)",
                ArgumentType::Boolean => "true or false",
            },
        }
    }
}

/// The integer that a JSON number is, if it is one within ±(2^53−1): `42.0` and `4.2e1` are 42.
pub(super) fn integer(json: &str) -> Option<i64> {
    if let Ok(number) = serde_json::from_str::<i64>(json) {
        return (-INTEGER_MAX..=INTEGER_MAX).contains(&number).then_some(number);
    }
    let number: f64 = serde_json::from_str(json).ok()?;
    // Integers within these bounds are exact in both types.
    (number.fract() == 0.0 && number.abs() <= INTEGER_MAX as f64).then_some(number as i64)
}

/// The largest integer that readers agree upon which take every number for a 64-bit float.
const INTEGER_MAX: i64 = (1 << 53) - 1;

fn look_up<'a>(
    properties: &'a [Property],
    object: Option<&'a RawValue>,
    found: &mut Vec<Argument<'a>>,
) -> Result<(), ArgumentError> {
    if properties.is_empty() {
        return Ok(());
    }
    let members = object
        .map(RawValue::get)
        .filter(|text| text.starts_with('{'))
        .map(|text| Members::parse(text).ok_or(ArgumentError::Ambiguous))
        .transpose()?;
    for property in properties {
        let value = members
            .as_ref()
            .and_then(|members| members.get(&property.name))
            .filter(|value| value.get() != "null");
        if let Some(annotation) = &property.annotation {
            found.push(Argument { annotation, value });
        }
        look_up(&property.inside, value, found)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mcp::param_headers::tests::{raw, route};

    fn written(arguments: &str) -> Result<HeaderMap, ArgumentError> {
        let mut map = HeaderMap::new();
        route().write(Some(raw(arguments)), &mut map).map(|()| map)
    }

    #[test]
    fn each_type_has_its_text_and_nested_values_are_found() {
        let map =
            written(r#"{"region": "us", "limit": -7, "dry": true, "scope": {"tenant": "acme", "other": 1}, "q": "z"}"#)
                .unwrap();
        let mut sent: Vec<_> = map
            .iter()
            .map(|(name, value)| (name.as_str(), value.to_str().unwrap()))
            .collect();
        sent.sort_unstable();
        assert_eq!(
            sent,
            [
                ("mcp-param-dry-run", "true"),
                ("mcp-param-limit", "-7"),
                ("mcp-param-region", "us"),
                ("mcp-param-tenant", "acme"),
            ]
        );
    }

    #[test]
    fn values_that_no_header_can_hold_as_they_are_get_encoded() {
        for (region, header) in [
            ("Grüße", "=?base64?R3LDvMOfZQ==?="),
            ("a\nb", "=?base64?YQpi?="),
            (" x ", "=?base64?IHgg?="),
            ("=?base64?hi?=", "=?base64?PT9iYXNlNjQ/aGk/PQ==?="),
            ("", ""),
        ] {
            let map = written(&serde_json::json!({"region": region}).to_string()).unwrap();
            assert_eq!(map["mcp-param-region"], header, "{region}");
        }
    }

    #[test]
    fn absent_and_null_arguments_have_no_header_whatever_stood_there() {
        let mut map = HeaderMap::new();
        for name in [
            "mcp-param-region",
            "mcp-param-tenant",
            "mcp-param-limit",
            "mcp-param-own",
        ] {
            map.append(name, HeaderValue::from_static("configured"));
            map.append(name, HeaderValue::from_static("twice"));
        }
        let arguments = raw(r#"{"region": null, "scope": "not an object", "limit": 1}"#);
        route().write(Some(arguments), &mut map).unwrap();
        assert_eq!(map.get_all("mcp-param-limit").iter().collect::<Vec<_>>(), ["1"]);
        assert_eq!(map.get("mcp-param-region"), None);
        assert_eq!(map.get("mcp-param-tenant"), None);
        assert_eq!(map["mcp-param-own"], "configured", "no annotation speaks of it");
        route().write(None, &mut map).unwrap();
        route().write(Some(raw("null")), &mut map).unwrap();
        assert_eq!(map.len(), 2, "only the other one is left: {map:?}");
    }

    #[test]
    fn integers_are_those_that_all_readers_agree_upon() {
        for (json, number) in [
            ("42", Some(42)),
            ("42.0", Some(42)),
            ("4.2e1", Some(42)),
            ("-0", Some(0)),
            ("-7", Some(-7)),
            ("9007199254740991", Some(9_007_199_254_740_991)),
            ("-9007199254740991", Some(-9_007_199_254_740_991)),
            ("9007199254740992", None),
            ("9007199254740993.0", None),
            ("-9007199254740992", None),
            ("12345678901234567890123", None),
            ("1e400", None),
            ("0.5", None),
            ("+42", None),
            ("0x2a", None),
            ("\"42\"", None),
            ("NaN", None),
            ("", None),
        ] {
            assert_eq!(integer(json), number, "{json}");
        }
    }

    #[test]
    fn what_cannot_be_represented_is_an_error() {
        for arguments in [
            r#"{"region": 1}"#,
            r#"{"region": {"a": "b"}}"#,
            r#"{"region": "\ud800"}"#,
            r#"{"limit": 1.5}"#,
            r#"{"limit": "1"}"#,
            r#"{"limit": 9007199254740992}"#,
            r#"{"dry": "true"}"#,
            r#"{"dry": 1}"#,
        ] {
            assert!(
                matches!(written(arguments), Err(ArgumentError::WrongType { .. })),
                "{arguments}"
            );
        }
        for arguments in [
            r#"{"region": "a", "region": "b"}"#,
            r#"{"scope": {"tenant": "a", "tenant": "b"}}"#,
        ] {
            assert_eq!(written(arguments), Err(ArgumentError::Ambiguous), "{arguments}");
        }
        let long = format!(r#"{{"region": "{}"}}"#, "a".repeat(defaults::HEADER_BYTES_MAX));
        assert!(matches!(written(&long), Err(ArgumentError::TooLong { .. })));
    }
}
