//! Any input schema and any arguments: the headers that repeat arguments are those that are accepted for them.
//!
//! The schema ends with the first line feed.

use http::{HeaderMap, HeaderValue};
use mcpfleet::defaults;
use mcpfleet::mcp::ParamHeaders;
use mcpfleet::mcp::param_headers::{may_be_annotated, without_annotations};
use serde_json::value::RawValue;

use super::json;

pub fn check(data: &[u8]) {
    let (schema, arguments) = match data.iter().position(|byte| *byte == b'\n') {
        Some(end) => (&data[..end], json::value(&data[end + 1..])),
        None => (data, None),
    };
    let Some(schema) = json::value(schema) else {
        return;
    };
    let read = ParamHeaders::read(schema);
    if !may_be_annotated(schema.get()) {
        assert_eq!(read, Ok(None), "what cannot be annotated is not");
    }
    if let Some(bare) = without_annotations(schema) {
        let bare = RawValue::from_string(bare).expect("a schema is JSON");
        assert_eq!(ParamHeaders::read(&bare), Ok(None), "no annotation is left in {bare}");
    }
    if let Ok(Some(annotated)) = read {
        assert!(may_be_annotated(schema.get()));
        agree(&annotated, arguments);
    }
}

fn agree(annotated: &ParamHeaders, arguments: Option<&RawValue>) {
    let mut map = HeaderMap::new();
    map.insert("mcp-param-unrelated", HeaderValue::from_static("1"));
    if annotated.write(arguments, &mut map).is_err() {
        return;
    }
    map.remove("mcp-param-unrelated");
    assert!(map.len() <= defaults::PARAM_HEADERS_MAX);
    assert_eq!(annotated.check(arguments, &map), Ok(()), "what is written is accepted");
    for (name, value) in &map {
        let mut without = map.clone();
        without.remove(name);
        assert!(annotated.check(arguments, &without).is_err(), "{name} is missing");
        let mut twice = map.clone();
        twice.append(name, value.clone());
        assert!(annotated.check(arguments, &twice).is_err(), "{name} is there twice");
        let mut other = map.clone();
        other.insert(
            name,
            HeaderValue::from_bytes(&[value.as_bytes(), b"x"].concat()).expect("a value"),
        );
        assert!(annotated.check(arguments, &other).is_err(), "{name} differs");
    }
}
