//! The members of a federation, and what of them it shows.

use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::api::delay::{Delay, delay};
use crate::api::selector::LabelSelector;
use crate::api::server::Timeouts;

/// One or more servers inside a federation.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new("has(self.server) != has(self.selector)").message("set exactly one of server and selector"),
    validation = Rule::new("!has(self.tools) || !has(self.tools.overrides) || has(self.server)")
        .message("tools.overrides goes only with server, since it names tools of that one; remove it, or make the \
                  server a member by name")
        .field_path(".tools.overrides"),
    validation = Rule::new("!has(self.prefix) || has(self.server)")
        .message("prefix goes only with server; selected servers are prefixed with their own names; remove it")
        .field_path(".prefix"),
    validation = Rule::new("!has(self.prefix) || self.prefix == '' || (!self.prefix.contains('__') \
                            && self.prefix.matches('^[A-Za-z0-9]([A-Za-z0-9_-]{0,30}[A-Za-z0-9])?$'))")
        .message("prefix must be at most 32 letters, digits, '_' or '-', start and end with a letter or digit, and \
                  not contain '__'")
        .field_path(".prefix"),
    validation = Rule::new("!has(self.skills) || !self.skills || !has(self.prefix) \
                            || self.prefix.matches('^[a-z0-9-]+$')")
        .message("skills: true needs a prefix of a-z, 0-9 and '-', with which the URIs of the skills begin; give the \
                  member such a prefix, or leave skills out")
        .field_path(".skills")
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
    /// Whether its tools are listed. Default Native.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub visibility: Option<Visibility>,
    /// Which of its tools are offered, and how they are shown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tools: Option<Tools>,
    /// Words that find all its tools in a search.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32), inner(length(min = 1, max = 64)))]
    pub keywords: Vec<String>,
    /// Whether its skills are offered (Skills extension), under `skill://PREFIX/…`. Default: where it has a prefix, which
    /// must be of a-z, 0-9 and '-' then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub skills: Option<bool>,
    /// True: the server is a gateway, or another that has tools named tool_search and execute_tool: whoever searches here
    /// is told what its own search finds, too, and what it finds and does not list can be called. Those two are not
    /// offered then.
    #[serde(default, skip_serializing_if = "is_false")]
    pub remote_search: bool,
    /// True: the server is a gateway, and is asked to list everything, past what it shows only to those who search.
    #[serde(default, skip_serializing_if = "is_false")]
    pub show_all: bool,
    /// True: tools that have a user interface (MCP Apps) are left out, and `ui:` resources are not read.
    #[serde(default, skip_serializing_if = "is_false")]
    pub exclude_apps: bool,
    /// How long the gateway waits for the server here; what is absent is as the server's own timeouts say. Of a server
    /// that runs as a process, which is one for all its members, only call and resource.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeouts: Option<Timeouts>,
    /// How fresh the lists of the server are kept here; what is absent is as the server's own cache says. Not of a server
    /// that runs as a process, which is one for all its members.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache: Option<MemberCache>,
}

/// How fresh the lists of a server are kept for a member.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct MemberCache {
    /// Lists that are so old are read again, at most once a second. -1s: they are never taken for fresh, and read again
    /// every second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 32))]
    #[x_kube(validation = delay())]
    pub ttl: Option<Delay>,
    /// The last lists are served so long while the server is away; then it offers nothing. -1s for as long as it takes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 32))]
    #[x_kube(validation = delay())]
    pub stale_for: Option<Delay>,
}

/// Whether tools are listed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Visibility {
    /// Listed; also found by tool_search.
    #[default]
    Native,
    /// Not listed: found by tool_search, and called by name or by execute_tool. This hides nothing from anybody; what
    /// somebody must not see is for `access.rules`.
    Discoverable,
}

/// Which tools of a member are offered, and how they are shown.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct Tools {
    /// Only tools whose original name matches one of these are offered; all when empty. `*` stands for any characters,
    /// `?` for one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 256), inner(length(min = 1, max = 128)))]
    pub allow: Vec<String>,
    /// Tools whose original name matches one of these are not offered, allowed or not.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 256), inner(length(min = 1, max = 128)))]
    pub deny: Vec<String>,
    /// Single tools that are shown otherwise than their server describes them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 128))]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["name".into()]))]
    pub overrides: Vec<ToolOverride>,
}

/// How one tool is shown.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct ToolOverride {
    /// The tool's original name.
    #[schemars(length(min = 1, max = 128))]
    pub name: String,
    /// Its name instead, before which the prefix goes all the same. Another tool that its server calls so gives way to it.
    #[serde(rename = "as", default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 64))]
    #[x_kube(
        validation = Rule::new("self.matches('^[A-Za-z0-9_.-]+$')")
            .message("a tool's name must be letters, digits, '_', '-' and '.'")
    )]
    pub rename: Option<String>,
    /// Its description instead.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 16384))]
    pub description: Option<String>,
    /// Annotations instead of those of the same name; others stay.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub annotations: Option<ToolAnnotations>,
    /// Whether it is listed, whatever the member says. Default what the member says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub visibility: Option<Visibility>,
    /// Words that find it in a search, beside those of the member.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32), inner(length(min = 1, max = 64)))]
    pub keywords: Vec<String>,
}

/// What a tool says of its effects (2025-03-26, tool annotations).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ToolAnnotations {
    /// A title for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 256))]
    pub title: Option<String>,
    /// It changes nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub read_only_hint: Option<bool>,
    /// It may destroy something.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub destructive_hint: Option<bool>,
    /// To call it twice is as good as once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idempotent_hint: Option<bool>,
    /// It deals with things outside the server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub open_world_hint: Option<bool>,
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

fn is_false(value: &bool) -> bool {
    !value
}
