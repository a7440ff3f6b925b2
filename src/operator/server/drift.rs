//! Whether a live object still is what we rendered, looking only at what we rendered.

use serde_json::Value;

/// Whether `live` has everything that `rendered` asks for. What others added does not matter.
///
/// Quantities that the API server writes in another form count as different; applying them again changes nothing there.
pub fn contains(live: &Value, rendered: &Value) -> bool {
    match (live, rendered) {
        (Value::Object(live), Value::Object(rendered)) => rendered
            .iter()
            .all(|(key, rendered)| live.get(key).is_some_and(|live| contains(live, rendered))),
        (Value::Array(live), Value::Array(rendered)) => rendered
            .iter()
            .all(|rendered| live.iter().any(|live| contains(live, rendered))),
        (live, rendered) => live == rendered,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_others_added_does_not_matter() {
        let live = json!({"a": 1, "list": [{"name": "x", "more": true}, {"name": "y"}], "extra": {}});
        assert!(contains(&live, &json!({"a": 1, "list": [{"name": "x"}]})));
    }

    #[test]
    fn what_was_changed_or_removed_is_seen() {
        let rendered = json!({"spec": {"image": "one", "args": ["a", "b"]}});
        assert!(!contains(
            &json!({"spec": {"image": "two", "args": ["a", "b"]}}),
            &rendered
        ));
        assert!(!contains(&json!({"spec": {"image": "one", "args": ["a"]}}), &rendered));
        assert!(!contains(&json!({"spec": {"image": "one"}}), &rendered));
    }
}
