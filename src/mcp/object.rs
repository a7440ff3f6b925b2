//! JSON objects whose members' values stay as they were written.

use std::borrow::Cow;
use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

/// The members of an object in their order, values raw. A name that occurs twice is an error: two readers could
/// take different ones.
#[derive(Debug, Default)]
pub struct Members<'a>(Vec<(Cow<'a, str>, &'a RawValue)>);

impl<'a> Members<'a> {
    /// The members of `object`, or `None` if it is no object or names a member twice.
    pub fn parse(object: &'a str) -> Option<Self> {
        serde_json::from_str(object).ok()
    }

    /// The value of `name`.
    pub fn get(&self, name: &str) -> Option<&'a RawValue> {
        self.0.iter().find(|(n, _)| n == name).map(|(_, value)| *value)
    }

    /// The value of `name`, if it is a string.
    pub fn string(&self, name: &str) -> Option<Cow<'a, str>> {
        string(self.get(name)?)
    }

    /// Each name with its value.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &'a RawValue)> {
        self.0.iter().map(|(name, value)| (name.as_ref(), *value))
    }
}

/// A string, borrowed where it has no escapes: an optional `Cow` would always be owned.
#[derive(Debug, serde::Deserialize)]
pub struct Text<'a>(#[serde(borrow)] Cow<'a, str>);

impl Text<'_> {
    /// The string.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Writes an object member by member.
#[derive(Debug)]
pub struct ObjectWriter<'o> {
    out: &'o mut Vec<u8>,
    first: bool,
}

impl<'o> ObjectWriter<'o> {
    /// Opens an object at the end of `out`.
    pub fn open(out: &'o mut Vec<u8>) -> Self {
        out.push(b'{');
        Self { out, first: true }
    }

    /// Writes a member whose value is JSON text.
    pub fn member(&mut self, name: &str, json: &str) {
        self.name(name).extend_from_slice(json.as_bytes());
    }

    /// Writes a member whose value is a string.
    pub fn string(&mut self, name: &str, value: &str) {
        write_string(self.name(name), value);
    }

    /// Writes a member's name, and gives the place where its JSON value goes.
    pub fn name(&mut self, name: &str) -> &mut Vec<u8> {
        if !std::mem::take(&mut self.first) {
            self.out.push(b',');
        }
        write_string(self.out, name);
        self.out.push(b':');
        self.out
    }

    /// Closes the object.
    pub fn close(self) {
        self.out.push(b'}');
    }
}

/// The text of a raw JSON string.
pub fn string(raw: &RawValue) -> Option<Cow<'_, str>> {
    let text = raw.get();
    let inner = text.strip_prefix('"')?.strip_suffix('"')?;
    if inner.contains('\\') {
        return serde_json::from_str(text).ok().map(Cow::Owned);
    }
    Some(Cow::Borrowed(inner))
}

/// `object` with `value`, one of its members' values, replaced by `json`; every other byte stays.
pub fn replace_value(object: &str, value: &RawValue, json: &str) -> String {
    let start = (value.get().as_ptr() as usize).wrapping_sub(object.as_ptr() as usize);
    let parts = object
        .get(..start)
        .zip(object.get(start.saturating_add(value.get().len())..));
    match parts {
        Some((head, tail)) => [head, json, tail].concat(),
        None => object.to_owned(),
    }
}

/// Writes `value` as a JSON string.
pub fn write_string(out: &mut Vec<u8>, value: &str) {
    // All bytes are looked at, many at a time: to stop at the first that needs an escape would take longer.
    let escapes = value.bytes().filter(|b| *b < 0x20 || *b == b'"' || *b == b'\\').count();
    if escapes == 0 {
        out.push(b'"');
        out.extend_from_slice(value.as_bytes());
        out.push(b'"');
    } else {
        out.extend_from_slice(serde_json::Value::from(value).to_string().as_bytes());
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Members<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct MembersVisitor;
        impl<'de> Visitor<'de> for MembersVisitor {
            type Value = Members<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut members: Vec<(Cow<'de, str>, &'de RawValue)> = Vec::with_capacity(8);
                while let Some(Text(name)) = map.next_key()? {
                    if members.len() < 32 && members.iter().any(|(n, _)| *n == name) {
                        return Err(serde::de::Error::custom(format_args!("duplicate member {name:?}")));
                    }
                    members.push((name, map.next_value()?));
                }
                // Small objects are checked as they come, without an allocation; large ones once, sorted.
                if members.len() > 32 {
                    let mut names: Vec<&str> = members.iter().map(|(n, _)| n.as_ref()).collect();
                    names.sort_unstable();
                    if names.windows(2).any(|pair| pair.first() == pair.last()) {
                        return Err(serde::de::Error::custom("duplicate member"));
                    }
                }
                Ok(Members(members))
            }
        }
        deserializer.deserialize_map(MembersVisitor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_stay_as_written() {
        let text = r#"{"a": 1.50, "b" : {"x": [1 , 2]}, "c\u0064": "\u00e9"}"#;
        let members = Members::parse(text).unwrap();
        assert_eq!(members.get("a").unwrap().get(), "1.50");
        assert_eq!(members.get("b").unwrap().get(), r#"{"x": [1 , 2]}"#);
        assert_eq!(members.string("cd").unwrap(), "é");
        assert_eq!(members.string("a"), None);
    }

    #[test]
    fn a_name_twice_is_refused_in_small_and_large_objects() {
        assert!(Members::parse(r#"{"a":1,"a":2}"#).is_none());
        let many: String = (0..100).map(|i| format!("\"m{i}\":{i},")).collect();
        assert!(Members::parse(&format!("{{{many}\"z\":1}}")).is_some());
        assert!(Members::parse(&format!("{{{many}\"m7\":1}}")).is_none());
        assert!(Members::parse("[]").is_none());
    }

    #[test]
    fn one_value_is_replaced_and_every_other_byte_stays() {
        let text = r#"{ "a":1 , "name" : "x", "b":{"name":"x"} }"#;
        let members = Members::parse(text).unwrap();
        let replaced = replace_value(text, members.get("name").unwrap(), "\"p__x\"");
        assert_eq!(replaced, r#"{ "a":1 , "name" : "p__x", "b":{"name":"x"} }"#);
    }

    #[test]
    fn strings_are_escaped_only_where_needed() {
        let mut out = Vec::new();
        let mut object = ObjectWriter::open(&mut out);
        object.string("plain", "é");
        object.string("quo\"te", "a\nb");
        object.member("raw", "[1]");
        object.close();
        assert_eq!(
            String::from_utf8(out).unwrap(),
            r#"{"plain":"é","quo\"te":"a\nb","raw":[1]}"#
        );
    }
}
