use serde_json::{Value, json};

use super::*;
use crate::mcp::param_headers::ArgumentType;

fn read_text(schema: &str) -> Result<Option<ParamHeaders>, InvalidAnnotation> {
    ParamHeaders::read(serde_json::from_str(schema).unwrap())
}

fn read(schema: Value) -> Result<Option<ParamHeaders>, InvalidAnnotation> {
    read_text(&schema.to_string())
}

/// The one reason why a tool with these properties cannot be used.
fn reason(properties: Value) -> &'static str {
    read(json!({"type": "object", "properties": properties}))
        .unwrap_err()
        .reason()
}

fn region() -> Value {
    json!({"type": "string", "x-mcp-header": "Region"})
}

fn stripped(schema: &str) -> String {
    without_annotations(serde_json::from_str(schema).unwrap()).unwrap()
}

#[test]
fn annotations_are_found_at_any_depth_of_properties() {
    let read = read(json!({"type": "object", "properties": {
        "plain": {"type": "string"},
        "scope": {"properties": {"inner": {"properties": {"tenant": {"type": "string", "x-mcp-header": "Tenant"}}}}},
        "region": region(),
    }}));
    let ParamHeaders(properties) = read.unwrap().unwrap();
    assert_eq!(
        properties.iter().map(|p| p.name.as_str()).collect::<Vec<_>>(),
        ["scope", "region"],
        "only what matters is kept"
    );
    let annotation = properties[0].inside[0].inside[0].annotation.as_ref().unwrap();
    assert_eq!(annotation.header, "mcp-param-tenant");
    assert_eq!(annotation.of, ArgumentType::String);
}

#[test]
fn schemas_without_annotations_have_none_whatever_they_hold() {
    for schema in [
        r#"{"type": "object"}"#,
        "true",
        // Unreadable to a strict reader, but nothing in it can be taken for an annotation.
        r#"{"description": "\ud800", "properties": {"a": {"maximum": 1e999}}}"#,
        // A property, a definition and values that are called like the keyword.
        r#"{"properties": {"x-mcp-header": {"type": "string"}}}"#,
        r#"{"$defs": {"x-mcp-header": {"type": "string"}}, "patternProperties": {"x-mcp-header": {}}}"#,
        r#"{"properties": {"a": {"default": {"x-mcp-header": 1}, "examples": [{"x-mcp-header": "A"}],
            "enum": [{"x-mcp-header": "A"}], "const": {"x-mcp-header": "A"}}}}"#,
        r#"{"description": "x-mcp-header", "required": ["x-mcp-header"], "type": "object", "type": "object"}"#,
    ] {
        assert_eq!(read_text(schema), Ok(None), "{schema}");
    }
}

#[test]
fn escapes_in_names_hide_nothing() {
    let schema = r#"{"\u0070roperties": {"a": {"t\u0079pe": "str\u0069ng", "x\u002dmcp-header": "\u0041"}}}"#;
    let ParamHeaders(properties) = read_text(schema).unwrap().unwrap();
    assert_eq!(
        properties[0].annotation.as_ref().unwrap().header.as_str(),
        "mcp-param-a"
    );
    assert!(stripped(schema).ends_with(r#"{"t\u0079pe": "str\u0069ng"}}}"#));
}

#[test]
fn names_must_be_tokens() {
    for name in [
        json!(""),
        json!("My Header"),
        json!("Region:Primary"),
        json!("Région"),
        json!("a\r\nb"),
        json!("a\u{7f}"),
        json!("(a)"),
        json!("a".repeat(70_000)),
    ] {
        assert_eq!(
            reason(json!({"a": {"type": "string", "x-mcp-header": name}})),
            "NotAToken",
            "{name}"
        );
    }
    for name in [json!(null), json!(7), json!(["A"]), json!({"name": "A"}), json!(true)] {
        assert_eq!(
            reason(json!({"a": {"type": "string", "x-mcp-header": name}})),
            "NotAString",
            "{name}"
        );
    }
    let every = "!#$%&'*+-.^_`|~09azAZ";
    assert!(read(json!({"properties": {"a": {"type": "string", "x-mcp-header": every}}})).is_ok());
}

#[test]
fn names_are_unique_without_regard_to_case() {
    let other = json!({"type": "integer", "x-mcp-header": "region"});
    assert_eq!(reason(json!({"a": region(), "b": region()})), "Repeated");
    assert_eq!(reason(json!({"a": region(), "b": other})), "Repeated");
    assert_eq!(
        reason(json!({"a": region(), "b": {"properties": {"c": other}}})),
        "Repeated"
    );
}

#[test]
fn only_strings_integers_and_booleans_can_be_repeated() {
    for type_ in [
        json!("number"),
        json!("array"),
        json!("object"),
        json!("null"),
        json!(["string", "null"]),
        json!(["string"]),
        json!("String"),
        json!(null),
    ] {
        assert_eq!(
            reason(json!({"a": {"type": type_, "x-mcp-header": "A"}})),
            "WrongType",
            "{type_}"
        );
    }
    assert_eq!(reason(json!({"a": {"x-mcp-header": "A"}})), "WrongType");
}

#[test]
fn annotations_belong_on_properties_that_are_reached_by_properties_alone() {
    for wrong in [
        json!({"type": "string", "x-mcp-header": "Region"}),
        json!({"items": region()}),
        json!({"prefixItems": [region()]}),
        json!({"contains": region()}),
        json!({"properties": {"a": {"type": "array", "items": region()}}}),
        json!({"properties": {"a": {"type": "array", "items": {"properties": {"b": region()}}}}}),
        json!({"properties": {"a": {"oneOf": [region(), {"type": "integer"}]}}}),
        json!({"anyOf": [{"properties": {"a": region()}}]}),
        json!({"allOf": [{"properties": {"a": region()}}]}),
        json!({"not": {"properties": {"a": region()}}}),
        json!({"if": {"properties": {"a": region()}}}),
        json!({"then": {"properties": {"a": region()}}}),
        json!({"else": {"properties": {"a": region()}}}),
        json!({"$defs": {"a": region()}, "properties": {"a": {"$ref": "#/$defs/a"}}}),
        json!({"definitions": {"a": {"properties": {"b": region()}}}}),
        json!({"additionalProperties": region()}),
        json!({"unevaluatedProperties": region()}),
        json!({"patternProperties": {"^a": region()}}),
        json!({"propertyNames": region()}),
        json!({"dependentSchemas": {"a": {"properties": {"b": region()}}}}),
        json!({"properties": {"x-mcp-header": {"type": "string", "x-mcp-header": "A", "items": region()}}}),
        json!({"properties": [region()]}),
        json!({"inventedKeyword": {"deep": [region()]}}),
    ] {
        assert_eq!(read(wrong.clone()), Err(InvalidAnnotation::Misplaced), "{wrong}");
    }
}

#[test]
fn members_that_decide_are_there_once() {
    for schema in [
        r#"{"properties": {"a": {"type": "string", "x-mcp-header": "A", "x-mcp-header": "B"}}}"#,
        r#"{"properties": {"a": {"type": "number", "type": "string", "x-mcp-header": "A"}}}"#,
        r#"{"properties": {"a": {"type": "string", "x-mcp-header": "A"}}, "properties": {}}"#,
        r#"{"properties": {"a": {"type": "string", "x-mcp-header": "A"}, "a": {"type": "string"}}}"#,
        r#"{"properties": {"a": {"type": "string"}, "\u0061": {"type": "string", "x-mcp-header": "A"}}}"#,
    ] {
        assert_eq!(read_text(schema), Err(InvalidAnnotation::Ambiguous), "{schema}");
    }
}

#[test]
fn number_and_depth_are_bounded() {
    let many = |count: usize| -> Value {
        let properties = (0..count).map(|i| {
            (
                format!("p{i}"),
                json!({"type": "string", "x-mcp-header": format!("H{i}")}),
            )
        });
        json!({"properties": Value::Object(properties.collect())})
    };
    assert!(read(many(defaults::PARAM_HEADERS_MAX)).is_ok());
    assert_eq!(
        read(many(defaults::PARAM_HEADERS_MAX + 1)),
        Err(InvalidAnnotation::TooMany)
    );
    let deep = |depth: usize| (0..depth).fold(region(), |inner, _| json!({"properties": {"p": inner}}));
    assert!(read(deep(defaults::PARAM_HEADER_DEPTH_MAX)).is_ok());
    assert_eq!(
        read(deep(defaults::PARAM_HEADER_DEPTH_MAX + 1)),
        Err(InvalidAnnotation::TooDeep)
    );
    let bottomless = format!(
        r#"{}{{"x-mcp-header":"A"}}{}"#,
        r#"{"properties":{"p":"#.repeat(1000),
        "}}".repeat(1000)
    );
    let read = ParamHeaders::read(&RawValue::from_string(bottomless).unwrap());
    assert_eq!(read, Err(InvalidAnnotation::Unreadable));
}

#[test]
fn what_is_told_of_a_name_is_cut_and_has_no_control_characters() {
    let name = format!("\u{1b}[31m{}", "long ".repeat(100));
    let told = read(json!({"properties": {"a": {"type": "string", "x-mcp-header": name}}}))
        .unwrap_err()
        .to_string();
    assert!(told.starts_with(r#"x-mcp-header "\u{1b}[31mlong"#), "{told}");
    assert!(told.len() < 200, "{told}");
}

#[test]
fn annotations_are_taken_out_and_every_other_byte_stays() {
    for (schema, expected) in [
        (r#"{"x-mcp-header":"A"}"#, "{}"),
        (r#"{ "x-mcp-header" : "A" }"#, "{}"),
        (
            r#"{"a": 1 , "x-mcp-header" : {"b": [1]} , "c": 1.50}"#,
            r#"{"a": 1  , "c": 1.50}"#,
        ),
        (r#"{"x-mcp-header": 1 , "c": "é"}"#, r#"{ "c": "é"}"#),
        (r#"{"a":"x,","x-mcp-header":"A"}"#, r#"{"a":"x,"}"#),
        (r#"{"x-mcp-header":"A","x-mcp-header":"B"}"#, "{}"),
        (r#"{"x-mcp-header":"A","x-mcp-header":"B","c":1}"#, r#"{"c":1}"#),
        (r#"{"a":1,"x-mcp-header":"A","x-mcp-header":"B"}"#, r#"{"a":1}"#),
        (
            r#"{"properties": {"x-mcp-header": {"type": "array", "items": {"x-mcp-header": ""}}}, "default": {"x-mcp-header": 1}}"#,
            r#"{"properties": {"x-mcp-header": {"type": "array", "items": {}}}, "default": {"x-mcp-header": 1}}"#,
        ),
    ] {
        assert_eq!(stripped(schema), expected, "{schema}");
        assert!(serde_json::from_str::<Value>(expected).is_ok());
    }
    let unreadable = r#"{"x-mcp-header": "A", "description": "\ud800"}"#;
    assert_eq!(without_annotations(serde_json::from_str(unreadable).unwrap()), None);
}
