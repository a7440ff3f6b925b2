//! Extensions of the protocol that a federation declares.

use kube::KubeSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// An extension of the protocol (SEP-2133).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
pub struct Extension {
    /// Its id, such as `com.example/thing`. Those of MCP itself are declared by what the members do; of these,
    /// `io.modelcontextprotocol/tasks`, `ui` and `skills` may be named, to declare them in any case and with other settings.
    #[schemars(length(min = 3, max = 128))]
    #[x_kube(
        validation = Rule::new("self.matches('^[A-Za-z]([A-Za-z0-9-]*[A-Za-z0-9])?([.][A-Za-z]([A-Za-z0-9-]*[A-Za-z0-9])?)*/\
                                [A-Za-z0-9]([A-Za-z0-9_.-]*[A-Za-z0-9])?$')")
            .message("id must be PREFIX/NAME: a domain of yours, turned round, and a name of letters, digits, '_', '-' \
                      and '.', such as com.example/thing"),
        validation = Rule::new("!self.matches('^[^./]+[.](modelcontextprotocol|mcp)[./]') \
                                || self in ['io.modelcontextprotocol/tasks', 'io.modelcontextprotocol/ui', \
                                            'io.modelcontextprotocol/skills']")
            .message("id is reserved for MCP itself, and not one of those that are served here (tasks, ui and skills of \
                      io.modelcontextprotocol); use a domain of yours")
    )]
    pub id: String,
    /// What is declared of it; nothing when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "anything")]
    pub settings: Option<Map<String, Value>>,
}

fn anything(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    schemars::json_schema!({"type": "object", "x-kubernetes-preserve-unknown-fields": true})
}
