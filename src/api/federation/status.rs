//! What is known of a federation.

use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::api::condition::Condition;

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
    /// What of it does not hold as it is said, and why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
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
    /// Skills.
    #[serde(default)]
    pub skills: i64,
    /// Bytes of the descriptors of all tools that are listed for everyone.
    #[serde(default)]
    pub bytes: i64,
    /// About how many tokens these are to a model.
    #[serde(default)]
    pub estimated_tokens: i64,
    /// Names that were cut or replaced, at most 100.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub renamed: Vec<Renamed>,
    /// Names and URIs that several members have, at most 100.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conflicts: Vec<Clash>,
    /// How many the two lists above leave out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub truncated: Option<i64>,
}

/// A name that clients see otherwise than their naming alone would have it.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Renamed {
    /// The member that has it.
    pub member: String,
    /// The name that its server gives.
    pub name: String,
    /// The name that clients see.
    #[serde(rename = "as")]
    pub shown: String,
}

/// A name or URI that several members have.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Clash {
    /// tools, resources, resourceTemplates, prompts or skills.
    pub list: String,
    /// The name or URI.
    pub name: String,
    /// The members that have it, at most 100 of them, first the one that is reached by it, of those that a client may see;
    /// all are reached by their prefixes where those are put before names that clash. Once for each of its tools stands a
    /// member that calls several of them so.
    pub members: Vec<String>,
}
