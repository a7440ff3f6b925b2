//! What a federation says of itself to clients.

use crate::api::MCPFederationSpec;
use crate::mcp::object::ObjectWriter;

/// What a federation says of itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IdentityPlan {
    /// Its name, version and looks, as JSON (2025-11-25, `Implementation`).
    pub server_info: String,
    /// How to use it.
    pub instructions: Option<String>,
}

impl IdentityPlan {
    /// What `spec` of the federation called `name` says, over the defaults.
    pub fn of(name: &str, spec: &MCPFederationSpec) -> Self {
        let identity = spec.identity.clone().unwrap_or_default();
        let mut out = Vec::new();
        let mut info = ObjectWriter::open(&mut out);
        info.string("name", identity.name.as_deref().unwrap_or(name));
        if let Some(title) = &identity.title {
            info.string("title", title);
        }
        let version = identity.version.as_deref().unwrap_or(env!("CARGO_PKG_VERSION"));
        info.string("version", version);
        if !identity.icons.is_empty()
            && let Ok(icons) = serde_json::to_string(&identity.icons)
        {
            info.member("icons", &icons);
        }
        info.close();
        Self {
            server_info: String::from_utf8_lossy(&out).into_owned(),
            instructions: identity.instructions,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn info(identity: Value) -> Value {
        let spec = serde_json::from_value(json!({"identity": identity})).unwrap();
        serde_json::from_str(&IdentityPlan::of("fed", &spec).server_info).unwrap()
    }

    #[test]
    fn what_is_not_said_is_the_objects_name_and_our_version() {
        let ours = json!({"name": "fed", "version": env!("CARGO_PKG_VERSION")});
        assert_eq!(info(Value::Null), ours);
        assert_eq!(info(json!({"instructions": "ask"})), ours);
    }

    #[test]
    fn everything_that_is_said_is_told() {
        let icons =
            json!([{"src": "https://a.example/i.png", "mimeType": "image/png", "sizes": ["48x48"], "theme": "dark"}]);
        let said = json!({"name": "n", "title": "T", "version": "7", "icons": icons});
        assert_eq!(info(said.clone()), said);
    }
}
