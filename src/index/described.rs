//! The descriptor of an entry as clients see it.

use std::borrow::Cow;

use serde_json::Value;

use crate::api::federation::{ToolAnnotations, ToolOverride};
use crate::mcp::object::{self, Members, ObjectWriter};

/// `descriptor` with the entry called `name`; every other byte stays.
pub(super) fn renamed<'d>(descriptor: &'d str, name: &str) -> Cow<'d, str> {
    let Some(value) = Members::parse(descriptor).and_then(|members| members.get("name")) else {
        return Cow::Borrowed(descriptor);
    };
    let json = quoted(name);
    if value.get() == json {
        return Cow::Borrowed(descriptor);
    }
    Cow::Owned(object::replace_value(descriptor, value, &json))
}

/// The descriptor of a tool with what `shown` says in place of what its server says.
pub(super) fn overridden<'d>(descriptor: &'d str, shown: &ToolOverride) -> Cow<'d, str> {
    if shown.description.is_none() && shown.annotations.is_none() {
        return Cow::Borrowed(descriptor);
    }
    let Some(members) = Members::parse(descriptor) else {
        return Cow::Borrowed(descriptor);
    };
    let mut out = Vec::with_capacity(descriptor.len());
    let mut object = ObjectWriter::open(&mut out);
    let is_replaced = |name: &str| match name {
        "description" => shown.description.is_some(),
        "annotations" => shown.annotations.is_some(),
        _ => false,
    };
    for (name, value) in members.iter().filter(|(name, _)| !is_replaced(name)) {
        object.member(name, value.get());
    }
    if let Some(description) = &shown.description {
        object.string("description", description);
    }
    if let Some(annotations) = &shown.annotations {
        let own = members.get("annotations").map_or("{}", |own| own.get());
        object.member("annotations", &merged(own, annotations));
    }
    object.close();
    String::from_utf8(out).map_or(Cow::Borrowed(descriptor), Cow::Owned)
}

/// The annotations of a server, an object, with those of `said` in place of its own.
fn merged(own: &str, said: &ToolAnnotations) -> String {
    let own = Members::parse(own).unwrap_or_default();
    let Ok(Value::Object(said)) = serde_json::to_value(said) else {
        return "{}".to_owned();
    };
    let mut out = Vec::new();
    let mut object = ObjectWriter::open(&mut out);
    for (name, value) in own.iter().filter(|(name, _)| !said.contains_key(*name)) {
        object.member(name, value.get());
    }
    for (name, value) in &said {
        object.member(name, &value.to_string());
    }
    object.close();
    String::from_utf8_lossy(&out).into_owned()
}

fn quoted(text: &str) -> String {
    let mut json = Vec::with_capacity(text.len() + 2);
    object::write_string(&mut json, text);
    String::from_utf8_lossy(&json).into_owned()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_name_is_replaced_and_every_other_byte_stays() {
        let descriptor = r#"{ "name":"x" , "inputSchema":{"name":"x"}, "k": 1.0 }"#;
        assert_eq!(
            renamed(descriptor, "p__\"x"),
            r#"{ "name":"p__\"x" , "inputSchema":{"name":"x"}, "k": 1.0 }"#
        );
        assert!(matches!(renamed(descriptor, "x"), Cow::Borrowed(_)));
    }

    #[test]
    fn what_is_said_of_a_tool_stands_in_place_of_what_its_server_says_and_the_rest_stays() {
        let shown = serde_json::from_value(json!({
            "name": "x", "description": "ours", "annotations": {"readOnlyHint": true, "title": "X"},
        }));
        let shown: ToolOverride = shown.unwrap();
        let descriptor = r#"{"name":"x","description":"theirs","k":1.50,"annotations":{"title":"y","odd":[1.0 ]}}"#;
        assert_eq!(
            overridden(descriptor, &shown),
            r#"{"name":"x","k":1.50,"description":"ours","annotations":{"odd":[1.0 ],"title":"X","readOnlyHint":true}}"#
        );
        let bare = overridden(r#"{"name":"x"}"#, &shown);
        assert_eq!(
            bare,
            r#"{"name":"x","description":"ours","annotations":{"title":"X","readOnlyHint":true}}"#
        );
        let nothing = ToolOverride::default();
        assert!(matches!(overridden(descriptor, &nothing), Cow::Borrowed(_)));
    }
}
