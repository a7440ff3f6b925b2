//! Skills that a federation serves itself.

use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::api::environment::ConfigMapRef;

/// Where skills of the federation itself come from (Skills extension): a ConfigMap or, under `mcpfleet up`, a
/// directory.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new("has(self.configMapRef) != has(self.directory)")
        .message("set exactly one of configMapRef and directory"),
    validation = Rule::new("has(self.configMapRef) == (has(self.items) && size(self.items) > 0)")
        .message("items goes with configMapRef, and says which key is which file, such as \
                  {key: SKILL.md, path: restart-runbook/SKILL.md}; a directory has its files by itself")
        .field_path(".items")
)]
pub struct SkillSource {
    /// The ConfigMap with the files, in `data` or `binaryData`. A change is taken at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub config_map_ref: Option<ConfigMapRef>,
    /// A directory on this machine, for `mcpfleet up` alone: itself a skill, or with skills in it at any depth. Relative
    /// to the file that says so. A change is taken at once; names that begin with a dot are left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 4096))]
    pub directory: Option<String>,
    /// What stands before the skills' own paths, part by part: with `[ops, net]` one is
    /// `skill://ops/net/restart-runbook/SKILL.md`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 8), inner(length(min = 1, max = 64)))]
    pub prefix: Vec<String>,
    /// Which key is which file. Each directory with a `SKILL.md` is a skill, with all that is in it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 512))]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["path".into()]))]
    pub items: Vec<SkillItem>,
}

/// A file of a skill.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SkillItem {
    /// The key of the ConfigMap.
    #[schemars(length(min = 1, max = 253))]
    pub key: String,
    /// The file that it is, in the directory that is called as the skill is: `restart-runbook/SKILL.md`.
    #[schemars(length(min = 1, max = 1024))]
    pub path: String,
}
