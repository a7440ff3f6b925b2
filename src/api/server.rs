//! `MCPServer`: one server of the fleet.

use kube::core::Rule;
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::condition::Condition;
use super::delay::{Delay, delay};
use super::duration::Duration;
use super::source::{ContainerSource, PackageSource, RESERVED_HEADERS, RemoteSource};
use crate::mcp::Revision;

/// What the server is: exactly one of container, package and remote; and how it is used.
#[derive(CustomResource, Clone, Debug, PartialEq, Serialize, Deserialize, KubeSchema)]
#[kube(
    group = "mcpfleet.dev",
    version = "v1alpha1",
    kind = "MCPServer",
    plural = "mcpservers",
    singular = "mcpserver",
    shortname = "mcps",
    category = "mcp",
    namespaced,
    status = "MCPServerStatus",
    derive = "PartialEq",
    cel,
    doc = "One MCP server of the fleet: an image or a package that is run, or an address that is used.",
    scale(
        spec_replicas_path = ".spec.replicas",
        status_replicas_path = ".status.replicas",
        label_selector_path = ".status.selector"
    ),
    printcolumn(name = "Ready", type_ = "string", json_path = ".status.conditions[?(@.type=='Ready')].status"),
    printcolumn(name = "Reason", type_ = "string", json_path = ".status.conditions[?(@.type=='Ready')].reason"),
    printcolumn(name = "Tools", type_ = "integer", json_path = ".status.catalog.tools"),
    printcolumn(name = "Era", type_ = "string", json_path = ".status.serverInfo.era"),
    printcolumn(name = "Replicas", type_ = "integer", json_path = ".status.readyReplicas"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp"),
    printcolumn(name = "URL", type_ = "string", json_path = ".status.address.url", priority = 1),
    validation = super::name_rule()
)]
#[x_kube(
    // `package` is a word of CEL itself, and so written with underscores.
    validation = Rule::new("[has(self.container), has(self.__package__), has(self.remote)].filter(set, set).size() \
                            == 1")
        .message("set exactly one of container, package and remote"),
    validation = Rule::new(
        "!has(self.protocol) || self.protocol.era != 'Modern' || \
         !((has(self.remote) && has(self.remote.transport) && self.remote.transport.type == 'SSE') || \
           (has(self.container) && self.container.transport.type == 'SSE'))"
    )
    .message("SSE is a transport of Legacy servers; set era to Auto or Legacy, or transport.type to StreamableHTTP")
    .field_path(".protocol.era"),
    validation = Rule::new("!has(self.auth) || !has(self.__package__)")
        .message("a package is a process, which gets no headers; remove auth, or use a server that is reached over HTTP")
        .field_path(".auth"),
    validation = Rule::new("!has(self.cache) || !has(self.cache.identity) || self.cache.identity != 'User' \
                            || has(self.auth)")
        .message("identity: User needs auth.forward, without which the server cannot tell who asks; set \
                  auth.forward.headers, or remove identity")
        .field_path(".cache.identity")
)]
#[serde(rename_all = "camelCase")]
pub struct MCPServerSpec {
    /// Which install owns this object: the one started with the same --class.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 63))]
    pub class: Option<String>,
    /// Run the server from a container image, in pods behind a Service.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub container: Option<ContainerSource>,
    /// Run the server from an npm or PyPI package, started by npx or uvx.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub package: Option<PackageSource>,
    /// Use a server that runs elsewhere, by its address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remote: Option<RemoteSource>,
    /// How many pods run the server, where it is run from a container; `kubectl scale` sets it too.
    #[serde(default = "default_replicas")]
    #[schemars(range(min = 0, max = 1000))]
    pub replicas: i32,
    /// With whose credentials the server is asked, other than those in remote.headers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub auth: Option<Auth>,
    /// Which protocol is spoken with the server; the gateway finds out by itself where this is absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub protocol: Option<Protocol>,
    /// Whether the gateway listens for changes of what the server offers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub notifications: Option<Notifications>,
    /// How long the gateway waits for the server, in durations such as 500ms, 10s or 1h30m.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeouts: Option<Timeouts>,
    /// How fresh the lists of the server are kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache: Option<Cache>,
    /// What is done with lists that cannot be offered as they are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub catalog: Option<CatalogPolicy>,
    /// Which federations may use the server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub federation: Option<FederationPolicy>,
    /// True: the server is in no federation, and nothing of it is deleted.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub disabled: bool,
}

/// Which protocol is spoken with a server.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new("!has(self.version) || self.era != 'Auto'")
        .message("version goes with era: Modern or era: Legacy; set era, or remove version")
        .field_path(".era"),
    validation = Rule::new(format!(
        "!has(self.version) || self.era != 'Legacy' || self.version in ['{}']",
        Revision::LEGACY.map(Revision::as_str).join("', '")
    ))
    .message("with era: Legacy the version is 2024-11-05, 2025-03-26, 2025-06-18 or 2025-11-25; later ones go with \
              era: Modern")
    .field_path(".version"),
    validation = Rule::new(format!(
        "!has(self.version) || self.era != 'Modern' || self.version.matches('^[0-9]{{4}}-[0-9]{{2}}-[0-9]{{2}}$') && \
         self.version >= '{}'", Revision::LATEST
    ))
    .message("with era: Modern the version is 2026-07-28 or the date of a later one; earlier ones go with era: Legacy")
    .field_path(".version")
)]
pub struct Protocol {
    /// How the gateway comes to know what the server speaks.
    #[serde(default)]
    pub era: ProtocolEra,
    /// The revision that is spoken (Modern), or offered in the handshake (Legacy); the newest of the era by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 10))]
    pub version: Option<String>,
}

/// Eras of the protocol, as a server is pinned to them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum ProtocolEra {
    /// The server is asked.
    #[default]
    Auto,
    /// It is taken to speak 2026-07-28, and not asked, for servers that answer no discovery.
    Modern,
    /// It is offered a handshake at once, for servers that cannot bear a question before it.
    Legacy,
}

/// Whether the gateway listens for changes of a server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Notifications {
    /// False: no streams are held open to hear of changes; lists are read again when they are old (cache.ttl), and no
    /// resource is subscribed to.
    #[serde(default = "yes")]
    pub enabled: bool,
}

/// How long the gateway waits for a server; durations such as 500ms, 10s or 1h30m.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct Timeouts {
    /// Opening a connection, or starting a process and its handshake. Default 5s.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 32))]
    #[x_kube(validation = duration())]
    pub connect: Option<Duration>,
    /// Reading one page of a list of the server. Default 10s, also for 0s; -1s for as long as it takes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 32))]
    #[x_kube(validation = delay())]
    pub list: Option<Delay>,
    /// One tool call or prompt. No limit by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 32))]
    #[x_kube(validation = duration())]
    pub call: Option<Duration>,
    /// Reading one resource. Default 10s.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 32))]
    #[x_kube(validation = duration())]
    pub resource: Option<Duration>,
}

/// How fresh the lists of a server are kept. They are read again when the server says that they changed, when it was
/// connected to anew, and whenever the annotation mcpfleet.dev/refresh-at gets another value.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct Cache {
    /// Lists that are so old are read again, at most once a second. Default 60s, also for 0s. -1s: they are never
    /// taken for fresh, and read again every second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 32))]
    #[x_kube(validation = delay())]
    pub ttl: Option<Delay>,
    /// The last lists are served so long while the server is away; then it offers nothing. Default 10m;
    /// -1s for as long as it takes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 32))]
    #[x_kube(validation = delay())]
    pub stale_for: Option<Delay>,
    /// Whose lists they are. Default User where auth.forward is set, else Shared.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub identity: Option<CatalogIdentity>,
}

/// With whose credentials a server is asked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Auth {
    /// With those of whoever calls, as they present them.
    pub forward: Forward,
}

/// What of a client's request goes on to the server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new("self.headers.size() > 0")
        .message("name at least one header, for example Authorization, or remove auth")
        .field_path(".headers"),
    validation = Rule::new("self.headers.all(name, name.matches(\"^[A-Za-z0-9!#$%&'*+.^_`|~-]+$\"))")
        .message("each must be a header name, for example Authorization")
        .field_path(".headers"),
    validation = not_forwarded()
)]
pub struct Forward {
    /// Names of the headers that go on, with the values that the client sends; no others ever do. Values in
    /// remote.headers of the same names are for what nobody's request asks. The API key by which a federation lets
    /// somebody in goes on only if its header is named here.
    #[schemars(length(max = 16), inner(length(min = 1, max = 128)))]
    pub headers: Vec<String>,
}

/// Whose lists those of a server are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum CatalogIdentity {
    /// Everybody's: read once, without what callers present.
    Shared,
    /// Each caller's own, read with what auth.forward sends of its request when they are first needed, and kept apart from
    /// those of others; a caller is whoever access names, with the values of those headers.
    User,
}

/// What is done with lists that cannot be offered as they are.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CatalogPolicy {
    /// What is not offered when an entry of a list has a name, a schema or another member that clients could not use;
    /// status.catalog.withheld tells it. Default WithholdItem.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_invalid: Option<OnInvalid>,
}

/// What is not offered when an entry of a list cannot be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum OnInvalid {
    /// That entry, and all others are.
    WithholdItem,
    /// All that the server has, until it is mended.
    WithholdServer,
}

/// Which federations may have the server as a member.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FederationPolicy {
    /// The namespaces whose federations may use the server.
    #[serde(default)]
    pub allowed_namespaces: AllowedNamespaces,
}

/// The namespaces whose federations may use a server.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new("(self.from == 'Selector') == has(self.selector)")
        .message("selector goes with from: Selector, and only with it")
        .field_path(".selector")
)]
pub struct AllowedNamespaces {
    /// Which namespaces they are.
    #[serde(default)]
    pub from: NamespacesFrom,
    /// The labels that a namespace must have.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub selector: Option<super::LabelSelector>,
}

/// Where federations that may use a server live.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum NamespacesFrom {
    /// Only the server's own.
    #[default]
    Same,
    /// Those that `selector` matches, and its own.
    Selector,
    /// Every one.
    All,
}

/// What is known of a server.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct MCPServerStatus {
    /// The generation of the spec that this status speaks of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Accepted, ResolvedRefs, Available, Verified, Ready; Reconciling and Stalled while they apply.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["type".into()]))]
    pub conditions: Vec<Condition>,
    /// Where the gateway reaches the server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address: Option<Address>,
    /// The transport in use.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub transport: Option<String>,
    /// What the server says of itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server_info: Option<ServerInfo>,
    /// Pods that exist.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replicas: Option<i32>,
    /// Pods that answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ready_replicas: Option<i32>,
    /// The pods' label selector, for the scale subresource.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub selector: Option<String>,
    /// What the server offers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub catalog: Option<CatalogStatus>,
}

/// Where the gateway reaches a server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Address {
    /// Its MCP endpoint.
    pub url: String,
}

/// What a server says of itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ServerInfo {
    /// Its name.
    pub name: String,
    /// Its version.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub version: String,
    /// The protocol revision in use.
    pub protocol_version: String,
    /// Legacy (up to 2025-11-25) or Modern (2026-07-28).
    pub era: String,
}

/// What a server offers, in numbers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CatalogStatus {
    /// Tools.
    pub tools: i64,
    /// Resources.
    pub resources: i64,
    /// Resource templates.
    pub templates: i64,
    /// Prompts.
    pub prompts: i64,
    /// Skills.
    #[serde(default)]
    pub skills: i64,
    /// True: every page of every list was read. False: a list was cut, or is not given.
    pub complete: bool,
    /// SHA-256 over the lists, and over what is withheld.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub digest: String,
    /// Entries that the server lists and that are not offered to clients, and lists that it does not give, or not to their
    /// end; at most 100 are named.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 100))]
    pub withheld: Vec<WithheldTool>,
    /// How many more are withheld than are named.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub truncated: i64,
}

/// A tool, resource, template, prompt or skill that is not offered to clients, or a list.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct WithheldTool {
    /// Its name or URI, or the method of a list, such as `prompts/list`.
    pub name: String,
    /// What is wrong with it.
    pub reason: String,
}

fn default_replicas() -> i32 {
    1
}

fn yes() -> bool {
    true
}

fn is_zero(number: &i64) -> bool {
    *number == 0
}

/// Of headers that go on: those of one hop, and those that the gateway sets itself, do not.
fn not_forwarded() -> Rule {
    let names: Vec<&str> = RESERVED_HEADERS.into_iter().chain(OWN_HEADERS).collect();
    Rule::new(format!(
        "self.headers.all(name, !(name.lowerAscii() in ['{}']) && !name.lowerAscii().startsWith('mcp-'))",
        names.join("', '")
    ))
    .message("one of them is of one connection only, or is set by the gateway itself; remove it")
    .field_path(".headers")
}

/// Headers that are for one connection (RFC 9110 section 7.6.1), or that the gateway sets itself, beside those that
/// nobody sets.
const OWN_HEADERS: [&str; 14] = [
    "accept-encoding",
    "content-encoding",
    "expect",
    "keep-alive",
    "origin",
    "proxy-authenticate",
    "proxy-authorization",
    "proxy-connection",
    "te",
    "trailer",
    "upgrade",
    "user-agent",
    "x-mcp-resource-fanout-hop",
    "x-mcp-show-all",
];

/// Whether a header of this name, in lower case, can go on to a server.
pub fn is_forwarded(name: &str) -> bool {
    !RESERVED_HEADERS.contains(&name) && !OWN_HEADERS.contains(&name) && !name.starts_with("mcp-")
}

/// A duration as Go writes it; what this lets through is what [`Duration`] reads.
pub(super) fn duration() -> Rule {
    Rule::new("self.matches('^([0-9]{1,9}([.][0-9]{1,3})?(ms|s|m|h))+$') && self.matches('[1-9]')")
        .message("must be a duration above zero, such as 500ms, 10s or 1h30m")
}
