use std::collections::BTreeSet;

use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::api::Duration;

#[test]
fn every_keyword_of_our_schemas_is_one_that_is_checked() {
    // A keyword that this reader does not know would be enforced in a cluster and ignored here.
    const KNOWN: [&str; 19] = [
        "additionalProperties",
        "default",
        "description",
        "enum",
        "format",
        "items",
        "maxItems",
        "maxLength",
        "maxProperties",
        "maximum",
        "minLength",
        "minimum",
        "properties",
        "required",
        "title",
        "type",
        "x-kubernetes-int-or-string",
        "x-kubernetes-preserve-unknown-fields",
        "x-kubernetes-validations",
    ];
    const LISTS: [&str; 2] = ["x-kubernetes-list-type", "x-kubernetes-list-map-keys"];
    let mut keywords = BTreeSet::new();
    for definition in api::definitions() {
        for version in definition.spec.versions {
            collect(
                &serde_json::to_value(version.schema.unwrap().open_api_v3_schema).unwrap(),
                &mut keywords,
            );
        }
    }
    let known: BTreeSet<String> = KNOWN
        .iter()
        .chain(&LISTS)
        .map(|keyword| (*keyword).to_owned())
        .collect();
    assert_eq!(keywords.difference(&known).collect::<Vec<_>>(), Vec::<&String>::new());
}

fn collect(schema: &Value, keywords: &mut BTreeSet<String>) {
    let Some(schema) = schema.as_object() else { return };
    keywords.extend(schema.keys().cloned());
    for property in schema
        .get("properties")
        .and_then(Value::as_object)
        .into_iter()
        .flat_map(|map| map.values())
    {
        collect(property, keywords);
    }
    for inner in ["items", "additionalProperties"] {
        collect(schema.get(inner).unwrap_or(&Value::Null), keywords);
    }
}

#[test]
fn the_metadata_of_every_kind_is_checked() {
    let kinds = Kinds::new();
    for name in ["Secret", "ConfigMap", "MCPServer", "MCPFederation"] {
        let kind = kinds.find(name).unwrap();
        let mut object = json!({"metadata": {"name": "a", "label": {}, "creationTimestamp": null}, "spec": {}});
        let paths: Vec<_> = kinds
            .check(kind, &mut object)
            .iter()
            .map(|finding| finding.path.to_string())
            .collect();
        assert!(paths.contains(&"metadata.label".to_owned()), "{name}: {paths:?}");
    }
}

#[test]
fn the_rules_see_the_defaults() {
    let kinds = Kinds::new();
    let kind = kinds.find("MCPServer").unwrap();
    let mut object = json!({"metadata": {"name": "a"}, "spec": {
        "remote": {"url": "https://a"}, "federation": {"allowedNamespaces": {}}}});
    assert_eq!(kinds.check(kind, &mut object), []);
}

#[test]
fn a_key_with_dots_is_one_step_of_a_path() {
    let kinds = Kinds::new();
    let kind = kinds.find("MCPServer").unwrap();
    let mut object = json!({"metadata": {"name": "a"}, "spec": {"container": {
        "image": "a", "transport": {"type": "StreamableHTTP"}, "resources": {"limits": {"nvidia.com/gpu": "x"}}}}});
    let findings = kinds.check(kind, &mut object);
    let paths: Vec<_> = findings.iter().map(|finding| finding.path.to_string()).collect();
    assert_eq!(paths, ["spec.container.resources.limits[nvidia.com/gpu]"]);
}

/// Whether an MCPServer with this `spec` is taken.
fn is_taken(spec: Value) -> bool {
    thread_local! {
        static KINDS: Kinds = Kinds::new();
    }
    let mut object = json!({"metadata": {"name": "a"}, "spec": spec});
    KINDS.with(|kinds| kinds.check(kinds.find("MCPServer").unwrap(), &mut object).is_empty())
}

proptest! {
    #[test]
    fn an_address_that_is_taken_can_be_called(rest in "(//)?([a-z0-9._-]{1,8}|[ -~é]{1,12})(:[0-9]{0,6})?([/?][ -~]{0,8})?") {
        let url = format!("https:{rest}");
        if is_taken(json!({"remote": {"url": url}})) {
            let uri: http::Uri = url.parse().unwrap();
            prop_assert!(uri.host().is_some_and(|host| !host.is_empty()));
            prop_assert!(!uri.authority().unwrap().as_str().contains('@'));
        }
    }

    #[test]
    fn a_header_that_is_taken_can_be_sent(name in "[ -~]{1,4}", value in "[\\t\\n -~é]{0,6}") {
        if is_taken(json!({"remote": {"url": "https://a", "headers": [{"name": name, "value": value}]}})) {
            prop_assert!(http::HeaderName::from_bytes(name.as_bytes()).is_ok());
            prop_assert!(http::HeaderValue::from_str(&value).is_ok());
        }
    }

    #[test]
    fn a_duration_that_is_taken_is_one(text in "([0-9]{1,12}[.]?[0-9]{0,10}(ns|ms|s|m|h|d)?){1,4}") {
        if is_taken(json!({"remote": {"url": "https://a"}, "timeouts": {"call": text}})) {
            let duration: Duration = text.parse().unwrap();
            prop_assert!(std::time::Duration::from(duration) > std::time::Duration::ZERO);
        }
    }
}

#[test]
fn extensions_have_a_domain_that_is_not_the_protocols_and_a_name() {
    let kinds = Kinds::new();
    let is_taken = |id: &str| {
        let spec = json!({"extensions": [{"id": id}], "access": {"anonymous": {}}});
        let mut object = json!({"metadata": {"name": "a"}, "spec": spec});
        kinds
            .check(kinds.find("MCPFederation").unwrap(), &mut object)
            .is_empty()
    };
    for id in [
        "io.modelcontextprotocol/tasks",
        "com.example/a.b.c",
        "org.example.api.v2/thing",
        "com.example/a_b",
        "com.my-shop/A",
        "local/x",
        "com.example.mcp/x",
    ] {
        assert!(is_taken(id), "{id}");
    }
    for id in [
        "tasks",
        "com.example/",
        "1com.example/x",
        "com.example-/x",
        "com..example/x",
        "com.example/.x",
        "com.example/x-",
        "com.example/my ext",
        "com.example/a/b",
        ".com/x",
        "io.modelcontextprotocol/other",
        "com.mcp/x",
        "dev.mcp.tools/x",
    ] {
        assert!(!is_taken(id), "{id}");
    }
}

#[test]
fn addresses_as_people_write_them_are_taken() {
    for url in [
        "https://mcp.example.com/mcp",
        "http://localhost:8080",
        "http://127.0.0.1:65535/a/b?x=1&y=%20",
        "http://[::1]:9/mcp",
        "https://my_host-1.internal/~user/mcp;v=1",
        "https://example.com?key=a@b",
    ] {
        assert!(is_taken(json!({"remote": {"url": url}})), "{url}");
    }
}
