//! How a federation speaks with its clients.

use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::api::delay::{Delay, delay};
use crate::api::duration::Duration;
use crate::api::server::duration;

/// How names of tools and prompts are kept apart.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct Naming {
    /// Which names get their member's prefix. Default Always.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prefix: Option<PrefixStrategy>,
    /// Between prefix and name. Default `__`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 4))]
    #[x_kube(
        validation = Rule::new("self.matches('^[-_.]{1,4}$')").message("separator must be 1 to 4 of '_', '-' and '.'")
    )]
    pub separator: Option<String>,
    /// Longest name that clients get to see, in characters; longer ones are cut and closed by a digest. Default 64,
    /// where many hosts stop reading.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 32, max = 128))]
    pub max_length: Option<i32>,
}

/// Which names get their member's prefix.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum PrefixStrategy {
    /// All of them.
    #[default]
    Always,
    /// Those that several members have, for everybody, also for those whom `access.rules` show only one of them, so that
    /// names are the same for all.
    OnConflict,
    /// None; of equal names that of the first member stands, and the others are left out.
    Never,
}

/// MCP Apps.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Apps {
    /// For whom tools that only user interfaces may call are not listed. Default Never.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hide_app_only: Option<HideAppOnly>,
    /// True: a client that declares Apps without saying which MIME types it shows counts as one that shows them.
    #[serde(default)]
    pub lenient_capability: bool,
    /// MIME types of user interfaces that the federation declares. Default `text/html;profile=mcp-app`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16), inner(length(min = 1, max = 128)))]
    pub mime_types: Vec<String>,
}

/// For whom tools that only user interfaces may call are not listed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum HideAppOnly {
    /// For nobody: everyone sees them.
    #[default]
    Never,
    /// For clients that do not declare that they show user interfaces.
    WithoutApps,
}

/// How results of tools are written.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Results {
    /// How texts of JSON are written. Default JSON.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub encoding: Option<Encoding>,
}

/// How texts of JSON in results are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Encoding {
    /// As their servers wrote them.
    #[default]
    JSON,
    /// Texts that are a JSON object or list become TOON, which models read with fewer tokens; everything else stays,
    /// structured content too.
    TOON,
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
    /// The answer to a call or a read that takes longer than this becomes an event stream; with 0s every one does.
    /// With a negative duration, such as -1s, none ever does: then clients hear nothing before the answer, and Legacy
    /// ones cannot be asked anything. Default 2s.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 32))]
    #[x_kube(validation = delay())]
    pub delay: Option<Delay>,
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
    /// By which names Legacy clients are told of changed lists. Default Official.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub legacy_names: Option<LegacyNames>,
}

/// By which names Legacy clients are told of changed lists.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum LegacyNames {
    /// Those of the specification, such as `notifications/tools/list_changed`.
    #[default]
    Official,
    /// Those, and once more such as `notifications/tools/listChanged`, for clients of a library that knows no other.
    Both,
}

/// How much clients may ask for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Limits {
    /// Listens of Modern clients that are open at a time, in each replica; of one key a fourth. Default 1024.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 1_000_000))]
    pub listens: Option<i32>,
    /// A read of a resource that no member lists is forwarded to all members. One that gateways forwarded so often before
    /// is not forwarded again, so that gateways which are members of each other do not go round in circles; 0 never
    /// forwards any. Default 3.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 16))]
    pub fanout_hops: Option<i32>,
    /// Most entries of one page of a list; 0 lists all at once. Default 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 100_000))]
    pub page_size: Option<i32>,
    /// Catalogs of callers' own (cache.identity: User of a server) and connections for them that are kept at a time, in
    /// each replica; the one that was used least recently goes first, and what is used only where its key has more
    /// than a fourth of them. Default 1024.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 100_000))]
    pub cache_entries: Option<i32>,
}

fn enabled() -> bool {
    true
}
