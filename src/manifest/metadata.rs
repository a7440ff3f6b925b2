//! Names, namespaces and labels, as Kubernetes takes them.

use std::collections::BTreeMap;

use serde_json::Value;

use super::path::Path;
use super::schema::Finding;
use crate::api::DEFAULT_NAMESPACE;

/// What is wrong with an object's metadata, beyond its types.
///
/// The names of our own kinds are left to their rules, which are narrower.
pub(super) fn check(object: &Value, own_kind: bool) -> Vec<Finding> {
    let mut findings = Vec::new();
    let Some(metadata) = object.get("metadata") else {
        return findings;
    };
    let mut refuse = |path: Path, message: &str| {
        findings.push(Finding {
            path,
            message: message.into(),
            breaks: true,
        });
    };
    let path = Path::of_fields("metadata");
    let name = metadata.get("name").and_then(Value::as_str);
    if !own_kind && name.is_some_and(|name| !is_subdomain(name)) {
        refuse(
            path.field("name"),
            "must be at most 253 characters of a-z, 0-9, '-' and '.', in parts that start and end with a letter or \
             digit",
        );
    }
    let namespace = metadata.get("namespace").and_then(Value::as_str);
    if namespace.is_some_and(|namespace| !is_label(namespace)) {
        refuse(
            path.field("namespace"),
            "must be at most 63 characters of a-z, 0-9 and '-', and start and end with a letter or digit",
        );
    }
    for (map, values) in [("labels", true), ("annotations", false)] {
        for (key, value) in metadata.get(map).and_then(Value::as_object).into_iter().flatten() {
            if !is_qualified(key) {
                refuse(
                    path.field(map),
                    &format!(
                        "the key `{key}` must be at most 63 letters, digits, '-', '_' or '.', after a prefix such as \
                         example.com/ if any"
                    ),
                );
            }
            if values && value.as_str().is_some_and(|value| !is_label_value(value)) {
                refuse(
                    path.field(map),
                    &format!(
                        "a label's value must be at most 63 letters, digits, '-', '_' or '.', and start and end with a \
                         letter or digit; change that of `{key}`"
                    ),
                );
            }
        }
    }
    findings
}

/// The object's namespace and name, as far as they can be read; a namespace left out is written down.
pub(super) fn settle(object: &mut Value) -> Option<(String, String)> {
    let metadata = object.get_mut("metadata")?.as_object_mut()?;
    let name = metadata.get("name")?.as_str()?.to_owned();
    let namespace = metadata.entry("namespace").or_insert_with(|| DEFAULT_NAMESPACE.into());
    Some((namespace.as_str()?.to_owned(), name))
}

/// The label that Kubernetes itself gives to each namespace.
pub(super) const NAMESPACE_NAME_LABEL: &str = "kubernetes.io/metadata.name";

/// The labels of a namespace where there is no cluster that could give it more.
pub fn namespace_labels(namespace: &str) -> BTreeMap<String, String> {
    BTreeMap::from([(NAMESPACE_NAME_LABEL.to_owned(), namespace.to_owned())])
}

/// RFC 1123 label.
fn is_label(text: &str) -> bool {
    text.len() <= 63 && is_word(text, |b| b.is_ascii_lowercase() || b.is_ascii_digit(), |b| b == b'-')
}

/// RFC 1123 subdomain, as Kubernetes uses it for names.
fn is_subdomain(text: &str) -> bool {
    let part = |part| is_word(part, |b| b.is_ascii_lowercase() || b.is_ascii_digit(), |b| b == b'-');
    text.len() <= 253 && text.split('.').all(part)
}

/// A label's value: empty, or a word.
fn is_label_value(text: &str) -> bool {
    text.is_empty() || is_name_part(text)
}

/// A label's or an annotation's key: a name, after an optional subdomain and a slash.
fn is_qualified(text: &str) -> bool {
    match text.split_once('/') {
        Some((prefix, name)) => is_subdomain(prefix) && is_name_part(name),
        None => is_name_part(text),
    }
}

fn is_name_part(text: &str) -> bool {
    text.len() <= 63 && is_word(text, |b| b.is_ascii_alphanumeric(), |b| b"-_.".contains(&b))
}

fn is_word(text: &str, edge: impl Fn(u8) -> bool, inner: impl Fn(u8) -> bool) -> bool {
    let bytes = text.as_bytes();
    let edges = bytes.first().is_some_and(|b| edge(*b)) && bytes.last().is_some_and(|b| edge(*b));
    edges && bytes.iter().all(|b| edge(*b) || inner(*b))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn names_and_labels_are_those_that_kubernetes_takes() {
        let paths = |metadata: Value, own| {
            let findings = check(&json!({ "metadata": metadata }), own);
            findings
                .into_iter()
                .map(|finding| finding.path.to_string())
                .collect::<Vec<_>>()
        };
        let good = json!({"name": "a.b-c", "namespace": "team-1", "labels": {"a": "", "x.io/y_z": "V.1"}, "annotations": {"a/b": "any text"}});
        assert!(paths(good, false).is_empty());
        let bad = json!({"name": "A", "namespace": "a.b", "labels": {"a b": "x", "c": "-"}, "annotations": {"/": "x"}});
        let expected = [
            "metadata.name",
            "metadata.namespace",
            "metadata.labels",
            "metadata.labels",
            "metadata.annotations",
        ];
        assert_eq!(paths(bad, false), expected);
        assert!(paths(json!({"name": "A"}), true).is_empty());
        assert_eq!(paths(json!({"name": "a".repeat(254)}), false), ["metadata.name"]);
    }

    #[test]
    fn the_namespace_is_default_where_none_is_named() {
        let mut object = json!({"metadata": {"name": "a"}});
        assert_eq!(settle(&mut object), Some(("default".into(), "a".into())));
        assert_eq!(object["metadata"]["namespace"], "default");
        assert_eq!(settle(&mut json!({"metadata": {}})), None);
    }
}
