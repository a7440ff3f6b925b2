//! `MCPFederation`: one endpoint over chosen servers.

mod access;
mod discovery;
mod extension;
mod identity;
mod member;
mod serving;
mod skills;
mod status;

use kube::{CustomResource, KubeSchema};
use serde::{Deserialize, Serialize};

pub use access::{Access, AccessRule, Anonymous, ApiKeys, OriginPolicy, Origins};
pub use discovery::Discovery;
pub use extension::Extension;
pub use identity::{Icon, Identity, Theme};
pub use member::{Member, ServerRef, ToolAnnotations, ToolOverride, Tools, Visibility};
pub use serving::{
    Apps, Encoding, HideAppOnly, LegacyNames, Limits, Naming, Notifications, PrefixStrategy, Protocol, Results,
    Sessions, Streaming, UnsupportedVersion,
};
pub use skills::{SkillItem, SkillSource};
pub use status::{Clash, IndexStatus, MCPFederationStatus, MemberStatus, Renamed};

/// Which servers stand behind the endpoint, and who may connect to it.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
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
    validation = Rule::new("!has(self.naming) || !has(self.naming.separator) || !has(self.members) \
                            || self.members.all(m, !has(m.prefix) || !m.prefix.contains(self.naming.separator))")
        .message("a member's prefix contains naming.separator, so that nobody could tell where it ends; use another \
                  separator or another prefix")
        .field_path(".naming.separator"),
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
    /// How names of tools and prompts are kept apart.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub naming: Option<Naming>,
    /// How clients find what is not listed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub discovery: Option<Discovery>,
    /// What the federation says of itself to clients.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub identity: Option<Identity>,
    /// Extensions of the protocol that are declared to clients, beside those that members bring along.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32))]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["id".into()]))]
    pub extensions: Vec<Extension>,
    /// MCP Apps: tools with a user interface.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub apps: Option<Apps>,
    /// How results of tools are written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub results: Option<Results>,
    /// Skills that the federation serves itself, beside those of its members.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64))]
    pub skills: Vec<SkillSource>,
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
