use serde_json::json;

use super::*;

fn found(schema: Value, value: impl Into<Value>) -> Vec<String> {
    let schema = serde_json::from_value(schema).unwrap();
    let mut findings = Vec::new();
    check(&schema, &value.into(), &Path::default().field("x"), &mut findings);
    findings
        .into_iter()
        .map(|finding| format!("{}: {}", finding.path, finding.message))
        .collect()
}

#[test]
fn unknown_fields_are_refused_with_the_nearest_known_name() {
    let schema = json!({"type": "object", "properties": {"url": {"type": "string"}, "headers": {"type": "array"}}});
    assert_eq!(
        found(schema.clone(), json!({"uri": null})),
        ["x.uri: unknown field; did you mean `url`?"]
    );
    assert_eq!(
        found(schema, json!({"zzzzz": 1})),
        ["x.zzzzz: unknown field; known here are headers, url"]
    );
    let nothing = found(json!({"type": "object"}), json!({"a": 1}));
    assert_eq!(nothing, ["x.a: unknown field; none is known here, remove it"]);
}

#[test]
fn open_objects_take_any_field() {
    let preserved = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    assert!(found(preserved, json!({"a": 1})).is_empty());
    let any = json!({"type": "object", "additionalProperties": true});
    assert!(found(any, json!({"a": 1})).is_empty());
    let map = json!({"type": "object", "additionalProperties": {"type": "string"}, "maxProperties": 2});
    let problems = found(map, json!({"a/b": 1, "b": null, "c": "", "d": ""}));
    assert_eq!(
        problems,
        [
            "x: must have at most 2 entries, and has 3",
            "x[a/b]: must be a string, not a number; put it in quotes"
        ]
    );
}

#[test]
fn null_under_a_key_is_nothing_and_elsewhere_something() {
    let schema = json!({"type": "object", "required": ["a"], "properties": {
        "a": {"type": "string"}, "b": {"type": "array", "items": {"type": "string"}}}});
    assert_eq!(
        found(schema.clone(), json!({"a": null, "b": null})),
        ["x.a: is required"]
    );
    assert_eq!(
        found(schema, json!({"a": "", "b": [null]})),
        ["x.b[0]: must be a string, not null"]
    );
    let mut value = json!({"a": null, "b": [null, {"c": null}]});
    prune_nulls(&mut value);
    assert_eq!(value, json!({"b": [null, {}]}));
}

#[test]
fn numbers_keep_to_their_bounds_and_formats() {
    let schema = json!({"type": "integer", "format": "int32", "minimum": 0});
    assert!(found(schema.clone(), json!(2147483647)).is_empty());
    assert_eq!(
        found(schema.clone(), json!(2147483648_i64)),
        ["x: must be at most 2147483647"]
    );
    assert_eq!(found(schema.clone(), json!(-1)), ["x: must be at least 0"]);
    assert_eq!(found(schema, json!(1.5)), ["x: must be a whole number, not a fraction"]);
    assert!(found(json!({"type": "number"}), json!(1.5)).is_empty());
}

#[test]
fn only_what_leaves_the_object_whole_lets_its_rules_be_asked() {
    let schema: JSONSchemaProps = serde_json::from_value(json!({
        "type": "object", "properties": {"n": {"type": "integer", "maximum": 1}}
    }))
    .unwrap();
    let breaks = |value: Value| {
        let mut findings = Vec::new();
        check(&schema, &value, &Path::default(), &mut findings);
        findings.iter().map(|finding| finding.breaks).collect::<Vec<_>>()
    };
    assert_eq!(breaks(json!({"n": 2})), [false]);
    assert_eq!(breaks(json!({"n": "2"})), [true]);
}

#[test]
fn list_keys_are_unique() {
    let schema = json!({"type": "array", "items": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
        "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]});
    let problems = found(schema, json!([{"name": "a"}, {}, {"name": "b"}, {"name": "a"}]));
    assert_eq!(
        problems,
        ["x[3]: an entry above has the same name; remove one or rename it"]
    );
}

#[test]
fn bytes_are_base64() {
    let schema = json!({"type": "string", "format": "byte"});
    assert!(found(schema.clone(), json!("aGk=")).is_empty());
    assert_eq!(
        found(schema, json!("hi!")),
        ["x: must be base64; or put the text as it is under stringData"]
    );
}
