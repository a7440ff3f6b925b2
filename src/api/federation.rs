//! `MCPFederation`: one endpoint over chosen servers.

use std::collections::BTreeMap;

use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::condition::Condition;
use super::duration::Duration;
use super::environment::SecretRef;
use super::server::{duration, duration_or_zero};

/// Which servers stand behind the endpoint, and who may connect to it.
#[derive(CustomResource, Clone, Debug, PartialEq, Serialize, Deserialize, KubeSchema)]
#[kube(
    group = "mcpfleet.dev",
    version = "v1alpha1",
    kind = "MCPFederation",
    plural = "mcpfederations",
    singular = "mcpfederation",
    shortname = "mcpfed",
    category = "mcp",
    namespaced,
    status = "MCPFederationStatus",
    derive = "PartialEq",
    cel,
    doc = "One MCP endpoint over chosen servers: their tools, resources and prompts merged, names kept apart.",
    printcolumn(name = "Ready", type_ = "string", json_path = ".status.conditions[?(@.type=='Ready')].status"),
    printcolumn(name = "Reason", type_ = "string", json_path = ".status.conditions[?(@.type=='Ready')].reason"),
    printcolumn(name = "Tools", type_ = "integer", json_path = ".status.index.tools"),
    printcolumn(name = "Degraded", type_ = "string", json_path = ".status.conditions[?(@.type=='Degraded')].status"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp"),
    printcolumn(name = "URL", type_ = "string", json_path = ".status.url", priority = 1),
    validation = super::name_rule()
)]
#[x_kube(
    validation = Rule::new("has(self.access)")
        .message("access is required, nothing is open by omission; set access: {anonymous: {}} to let everyone in who \
                  reaches the gateway, or access: {apiKeys: {secretRef: {name: NAME}}} to let in who has a key of that \
                  Secret")
        .reason(Reason::FieldValueRequired)
        .field_path(".access")
)]
#[serde(rename_all = "camelCase")]
pub struct MCPFederationSpec {
    /// Which install owns this object: the one started with the same --class.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 63))]
    pub class: Option<String>,
    /// The servers behind this endpoint. Higher priority first, then by name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 256))]
    #[x_kube(
        merge_strategy = ListMerge::Map(vec!["name".into()]),
        validation = Rule::new("self.all(a, !has(a.prefix) || a.prefix == '' \
                                || self.exists_one(b, has(b.prefix) && b.prefix == a.prefix))")
            .message("two members have the same prefix; give each its own, or an empty one")
    )]
    pub members: Vec<Member>,
    /// Who may connect. Required in a cluster, where nothing is open by omission.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub access: Option<Access>,
    /// Which clients are served, by the revision of the protocol that they speak.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub protocol: Option<Protocol>,
    /// Sessions of Legacy clients, which start with a handshake (up to 2025-11-25). Others have none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sessions: Option<Sessions>,
    /// Answers that take their time, which come as event streams to clients that take those.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub streaming: Option<Streaming>,
    /// Streams on which clients hear of changes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub notifications: Option<Notifications>,
    /// How much clients may ask for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limits: Option<Limits>,
}

/// One or more servers inside a federation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new("has(self.server) != has(self.selector)").message("set exactly one of server and selector"),
    validation = Rule::new("!has(self.prefix) || has(self.server)")
        .message("prefix goes only with server; selected servers are prefixed with their own names; remove it")
        .field_path(".prefix"),
    validation = Rule::new("!has(self.prefix) || self.prefix == '' || (!self.prefix.contains('__') \
                            && self.prefix.matches('^[A-Za-z0-9]([A-Za-z0-9_-]{0,30}[A-Za-z0-9])?$'))")
        .message("prefix must be at most 32 letters, digits, '_' or '-', start and end with a letter or digit, and \
                  not contain '__'")
        .field_path(".prefix")
)]
pub struct Member {
    /// Name of the member, unique in the federation.
    #[schemars(length(min = 1, max = 63))]
    #[x_kube(
        validation = Rule::new("self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')")
            .message("a member's name must be a-z, 0-9 and '-', and start and end with a letter or digit")
    )]
    pub name: String,
    /// One server by name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server: Option<ServerRef>,
    /// All servers of this namespace that have these labels.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub selector: Option<LabelSelector>,
    /// Higher goes first, and wins where two members offer the same name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority: Option<i32>,
    /// Put before the names of the member's tools and prompts, as in `github__list_repos`; the server's name when
    /// absent, nothing when empty.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 32))]
    pub prefix: Option<String>,
}

/// A server by name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ServerRef {
    /// Name of the MCPServer.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
    /// Its namespace; the federation's own when absent. The server must allow it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 63))]
    pub namespace: Option<String>,
}

/// Labels that an object must have; an empty selector matches everything.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LabelSelector {
    /// Every one of these labels must be there with this value.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "labels")]
    pub match_labels: BTreeMap<String, String>,
}

impl LabelSelector {
    /// Whether `labels` has every label asked for.
    pub fn matches(&self, labels: &BTreeMap<String, String>) -> bool {
        self.match_labels
            .iter()
            .all(|(key, value)| labels.get(key) == Some(value))
    }
}

/// Who may connect to a federation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new("has(self.anonymous) != has(self.apiKeys)")
        .message("set exactly one of anonymous and apiKeys: anonymous: {} lets everyone in who reaches the gateway, \
                  apiKeys: {secretRef: {name: NAME}} who has a key of that Secret")
)]
pub struct Access {
    /// Everyone who reaches the gateway may connect, without credentials.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub anonymous: Option<Anonymous>,
    /// Who presents an API key may connect, as `Authorization: Bearer KEY` or as `X-API-Key: KEY`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub api_keys: Option<ApiKeys>,
}

/// Access without credentials.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Anonymous {}

/// Access by API key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ApiKeys {
    /// The Secret with the keys: each entry's value is a key, and its name is who has it. A change is taken at once.
    pub secret_ref: SecretRef,
}

/// Which clients are served.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Protocol {
    /// False: clients of revisions up to 2025-11-25, which start with a handshake, are refused.
    #[serde(default = "enabled")]
    pub legacy: bool,
    /// What is answered to a handshake that asks for a revision which is not served. Default CounterOffer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub legacy_unsupported_version: Option<UnsupportedVersion>,
}

/// The answer to a handshake that asks for a revision which is not served.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum UnsupportedVersion {
    /// The newest Legacy revision, 2025-11-25, which the client may take or leave.
    CounterOffer,
    /// An error that names the revisions that are served.
    Reject,
}

/// Sessions of Legacy clients.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct Sessions {
    /// False: no session is given out, none is asked for, and each request stands for itself.
    #[serde(default = "enabled")]
    pub enabled: bool,
    /// How long a session is valid, such as 24h or 1h30m; the client must open another one then. Default 24h.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 32))]
    #[x_kube(validation = duration())]
    pub ttl: Option<Duration>,
}

/// Answers as event streams.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct Streaming {
    /// An answer that takes longer than this becomes an event stream; with 0s every one does. Default 2s.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 32))]
    #[x_kube(validation = duration_or_zero())]
    pub delay: Option<Duration>,
    /// A stream on which nothing happens says so this often, so that nobody on the way closes it. Default 15s.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 32))]
    #[x_kube(validation = duration())]
    pub keep_alive: Option<Duration>,
    /// How long a call goes on whose Legacy client went away, and how long what it said is kept after its answer, for
    /// that client to ask again. Default 30s.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 32))]
    #[x_kube(validation = duration())]
    pub resume: Option<Duration>,
}

/// Streams on which clients hear of changes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct Notifications {
    /// A stream on which nothing happens says so this often, so that nobody on the way closes it. Default 30s.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 32))]
    #[x_kube(validation = duration())]
    pub heartbeat: Option<Duration>,
    /// Changes that follow a first one within this time are told together. Default 100ms.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 32))]
    #[x_kube(validation = duration())]
    pub coalesce: Option<Duration>,
}

/// How much clients may ask for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Limits {
    /// Listens of Modern clients that are open at a time, in each replica. Default 1024.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 1_000_000))]
    pub listens: Option<i32>,
}

/// What is known of a federation.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct MCPFederationStatus {
    /// The generation of the spec that this status speaks of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Accepted, ResolvedRefs, Ready, Degraded.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["type".into()]))]
    pub conditions: Vec<Condition>,
    /// Where clients connect.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// Its members, at most 100 of them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub members: Vec<MemberStatus>,
    /// How many members the list above leaves out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub truncated: Option<i64>,
    /// What clients see, in numbers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub index: Option<IndexStatus>,
}

/// One member as the gateway sees it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MemberStatus {
    /// Name of the member; for selected servers the server's name.
    pub name: String,
    /// The server, as `namespace/name`.
    pub server: String,
    /// The prefix in use.
    pub prefix: String,
    /// Ready, Connecting, Failed, Disabled or NotFound.
    pub state: String,
    /// Legacy or Modern, once known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub era: Option<String>,
    /// Tools it contributes.
    #[serde(default)]
    pub tools: i64,
    /// Why it is not ready.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_error: Option<String>,
}

/// What clients of a federation see, in numbers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct IndexStatus {
    /// Tools.
    pub tools: i64,
    /// Resources.
    pub resources: i64,
    /// Resource templates.
    pub templates: i64,
    /// Prompts.
    pub prompts: i64,
}

fn enabled() -> bool {
    true
}

fn labels(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    schemars::json_schema!({
        "type": "object",
        "maxProperties": 32,
        "additionalProperties": {"type": "string", "maxLength": 63}
    })
}
