//! `nullable`, a word of OpenAPI, in schemas of results. JSON Schema does not know it, so that it says nothing there; but
//! a widespread validator refuses a schema that has it beside no `type`, and clients that make validators of what they
//! are listed refuse the whole list then.

use serde_json::value::RawValue;

use super::{OF_SCHEMAS, OF_SCHEMAS_BY_NAME};
use crate::mcp::object::{self, Members, ObjectWriter};

/// `tool`, a descriptor, without each `nullable` in its `outputSchema` that stands beside no `type`. `None` where there is
/// none.
pub fn without_idle_nullable(tool: &str) -> Option<String> {
    if !tool.contains("nullable") {
        return None;
    }
    let schema = Members::parse(tool)?.get("outputSchema")?;
    let mut out = Vec::with_capacity(schema.get().len());
    let is_other = schema_without(schema.get(), &mut out);
    let mended = is_other.then(|| String::from_utf8(out).ok()).flatten()?;
    Some(object::replace_value(tool, schema, &mended))
}

/// Writes `schema` to `out`, and tells whether anything was left out.
fn schema_without(schema: &str, out: &mut Vec<u8>) -> bool {
    let Some(members) = Members::parse(schema).filter(|_| schema.contains("nullable")) else {
        out.extend_from_slice(schema.as_bytes());
        return false;
    };
    let is_idle = members.get("type").is_none();
    let mut is_other = false;
    let mut object = ObjectWriter::open(out);
    for (name, value) in members.iter() {
        match name {
            "nullable" if is_idle => is_other = true,
            name if OF_SCHEMAS_BY_NAME.contains(&name) => is_other |= each_without(value.get(), object.name(name)),
            name if OF_SCHEMAS.contains(&name) => is_other |= schemas_without(value.get(), object.name(name)),
            name => object.member(name, value.get()),
        }
    }
    object.close();
    is_other
}

/// The same of an object of schemas.
fn each_without(schemas: &str, out: &mut Vec<u8>) -> bool {
    let Some(parts) = Members::parse(schemas) else {
        out.extend_from_slice(schemas.as_bytes());
        return false;
    };
    let mut is_other = false;
    let mut object = ObjectWriter::open(out);
    for (name, schema) in parts.iter() {
        is_other |= schema_without(schema.get(), object.name(name));
    }
    object.close();
    is_other
}

/// The same of a schema or a list of some.
fn schemas_without(schemas: &str, out: &mut Vec<u8>) -> bool {
    let list: Option<Vec<&RawValue>> = Some(schemas)
        .filter(|schemas| schemas.starts_with('['))
        .and_then(|schemas| serde_json::from_str(schemas).ok());
    let Some(list) = list else {
        return schema_without(schemas, out);
    };
    let mut is_other = false;
    out.push(b'[');
    for (place, schema) in list.into_iter().enumerate() {
        if place > 0 {
            out.push(b',');
        }
        is_other |= schema_without(schema.get(), out);
    }
    out.push(b']');
    is_other
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mended(schema: &str) -> Option<String> {
        let tool = format!(r#"{{ "name":"nullable", "outputSchema":{schema},"k" : 1.0}}"#);
        let mended = without_idle_nullable(&tool)?;
        let (before, after) = (r#"{ "name":"nullable", "outputSchema":"#, r#","k" : 1.0}"#);
        Some(
            mended
                .strip_prefix(before)
                .unwrap()
                .strip_suffix(after)
                .unwrap()
                .to_owned(),
        )
    }

    #[test]
    fn it_is_left_out_beside_no_type_wherever_a_schema_stands_and_all_else_stays() {
        for (schema, expected) in [
            (r#"{"nullable":true}"#, "{}"),
            (
                r##"{"type":"object","properties":{"a":{"$ref":"#/$defs/b","nullable":true},"nullable":{"nullable":false,"const":1.0}}}"##,
                r##"{"type":"object","properties":{"a":{"$ref":"#/$defs/b"},"nullable":{"const":1.0}}}"##,
            ),
            (
                r#"{"type":"object","items":[{"nullable":true},true],"anyOf":[{"not":{"nullable":true,"enum":[1e2]}}]}"#,
                r#"{"type":"object","items":[{},true],"anyOf":[{"not":{"enum":[1e2]}}]}"#,
            ),
        ] {
            assert_eq!(mended(schema).as_deref(), Some(expected), "{schema}");
        }
    }

    #[test]
    fn it_stays_beside_a_type_and_where_it_is_no_keyword() {
        for schema in [
            r#"{"type":"object","properties":{"a":{"type":"string","nullable":true}}}"#,
            r#"{"type":"object","properties":{"nullable":{"type":"string"}}}"#,
            r#"{"type":"object","default":{"nullable":true},"enum":[{"nullable":true}]}"#,
            r#"{"type":"object","properties":[{"nullable":true}]}"#,
            r#"[{"nullable":true}]"#,
            "7",
        ] {
            assert_eq!(mended(schema), None, "{schema}");
        }
        assert_eq!(
            without_idle_nullable(r#"{"name":"a","inputSchema":{"nullable":true}}"#),
            None
        );
    }
}
