//! How clients of a federation find what is not listed.

use kube::KubeSchema;
use serde::{Deserialize, Serialize};

/// How clients find what is not listed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new("!has(self.defaultMaxResults) || self.defaultMaxResults <= (has(self.maxResultsCap) \
                            ? self.maxResultsCap : 100)")
        .message("defaultMaxResults must not be more than maxResultsCap, which is 100 unless set; raise that, or lower \
                  the default")
        .field_path(".defaultMaxResults")
)]
pub struct Discovery {
    /// Whether clients that send `X-MCP-Show-All: true`, or `?show_all=true`, are listed everything that they may use.
    /// Default true. To hide a tool from somebody use access.rules: what is not listed can be called all the same.
    #[serde(default = "allowed")]
    pub show_all_allowed: bool,
    /// Results of tool_search for those who do not say how many they want. Default 5.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 1000))]
    pub default_max_results: Option<i32>,
    /// Most results of tool_search, whatever is asked for. Default 100.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 1000))]
    pub max_results_cap: Option<i32>,
}

fn allowed() -> bool {
    true
}
