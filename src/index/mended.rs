//! Descriptors as readers can take them.

use serde_json::value::RawValue;

use crate::mcp::object::{Members, ObjectWriter};

/// `descriptor` without members that may be absent and are null instead: many servers write them so, and readers that
/// follow the schema refuse the whole list for one. What the protocol does not know stays, null or not.
pub(super) fn without_nulls(descriptor: Box<RawValue>) -> Box<RawValue> {
    if !descriptor.get().contains("null") {
        return descriptor;
    }
    let Some(members) = Members::parse(descriptor.get()) else {
        return descriptor;
    };
    let says_nothing = |name: &str, value: &RawValue| value.get() == "null" && MAY_BE_ABSENT.contains(&name);
    if !members.iter().any(|(name, value)| says_nothing(name, value)) {
        return descriptor;
    }
    let mut out = Vec::with_capacity(descriptor.get().len());
    let mut object = ObjectWriter::open(&mut out);
    for (name, value) in members.iter().filter(|(name, value)| !says_nothing(name, value)) {
        object.member(name, value.get());
    }
    object.close();
    let mended = String::from_utf8(out)
        .ok()
        .and_then(|text| RawValue::from_string(text).ok());
    mended.unwrap_or(descriptor)
}

/// Members of tools, resources, templates and prompts that every revision lets be absent.
const MAY_BE_ABSENT: [&str; 10] = [
    "title",
    "description",
    "icons",
    "annotations",
    "_meta",
    "outputSchema",
    "execution",
    "mimeType",
    "size",
    "arguments",
];

#[cfg(test)]
mod tests {
    use super::*;

    fn mended(descriptor: &str) -> String {
        without_nulls(serde_json::from_str(descriptor).unwrap())
            .get()
            .to_owned()
    }

    #[test]
    fn null_members_that_may_be_absent_go_and_every_other_stays_as_it_was_written() {
        assert_eq!(
            mended(
                r#"{ "name":"t", "description":null, "k":null, "icons": null, "inputSchema":{"default":null}, "n":1.50 }"#
            ),
            r#"{"name":"t","k":null,"inputSchema":{"default":null},"n":1.50}"#
        );
        for untouched in [
            r#"{ "name":"t", "description":"null" }"#,
            r#"{ "name":"t", "k":null }"#,
            r#"{ "name":"t" }"#,
            "[null]",
        ] {
            assert_eq!(mended(untouched), untouched);
        }
    }
}
