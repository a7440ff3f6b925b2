//! Extensions of the protocol that a federation declares because its object says so.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use crate::api::MCPFederationSpec;

/// The settings of each extension that `spec` names, as JSON, by id.
pub(super) fn declared(spec: &MCPFederationSpec) -> BTreeMap<String, String> {
    let settings = |said: Option<&Map<String, Value>>| match said {
        Some(said) => Value::Object(said.clone()).to_string(),
        None => "{}".to_owned(),
    };
    let extensions = spec.extensions.iter();
    extensions
        .map(|extension| (extension.id.clone(), settings(extension.settings.as_ref())))
        .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_extension_without_settings_has_an_empty_object_of_them() {
        let spec = serde_json::from_value(json!({"extensions": [
            {"id": "com.acme/thing"}, {"id": "com.acme/other", "settings": {"levels": [1, {"deep": null}]}},
        ]}));
        let declared = declared(&spec.unwrap());
        assert_eq!(declared["com.acme/thing"], "{}");
        assert_eq!(declared["com.acme/other"], r#"{"levels":[1,{"deep":null}]}"#);
    }
}
