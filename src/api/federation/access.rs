//! Who may connect to a federation, and what they may see.

use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::api::environment::SecretRef;

/// Who may connect to a federation.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
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
    /// Who presents an API key may connect, as `X-API-Key: KEY` or, without that header, as `Authorization: Bearer KEY`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub api_keys: Option<ApiKeys>,
    /// What whom may see and use. Without any rule everyone who may connect sees everything; with rules, only what a
    /// rule for them covers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64))]
    pub rules: Vec<AccessRule>,
    /// Which web pages may call. Those of the same machine when absent. Programs that are no browsers send no `Origin`,
    /// and are not meant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub origins: Option<Origins>,
}

/// Which web pages may call, by the `Origin` that their browser sends.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[x_kube(
    validation = Rule::new("!has(self.policy) || self.policy != 'Any' || !has(self.allow) || size(self.allow) == 0")
        .message("policy Any lets every page call, so that allow says nothing; remove allow, or the policy")
        .field_path(".allow")
)]
pub struct Origins {
    /// Which pages may call beside those of `allow`. Default `Default`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy: Option<OriginPolicy>,
    /// Origins whose pages may call, each as browsers write it: scheme, host in small letters, and the port where it is
    /// not the one of the scheme, such as `https://ui.example.com` or `https://ui.example.com:8443`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64), inner(length(min = 1, max = 300)))]
    #[x_kube(
        validation = Rule::new("self.all(origin, origin.matches('^[a-z][a-z0-9+.-]*://[a-z0-9._:\\\\[\\\\]-]+$'))")
            .message("an origin is a scheme and a host, in small letters, and a port if it is not the scheme's own, without \
                      a path or '/' at the end, for example https://ui.example.com")
    )]
    pub allow: Vec<String>,
}

/// Which pages may call beside those that are allowed by name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum OriginPolicy {
    /// Pages of the same machine: `localhost`, `127.0.0.1` and `[::1]`, over `http` or `https`, with any port.
    #[default]
    Default,
    /// None but those.
    AllowList,
    /// All, whoever made them: only for endpoints that nobody reaches whose browser must not.
    Any,
}

/// What some may see and use. `*` stands for any characters, `?` for one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AccessRule {
    /// For whom: names of API keys. Everyone who may connect when empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 256), inner(length(min = 1, max = 253)))]
    pub principals: Vec<String>,
    /// Of which members. Of all when empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 256), inner(length(min = 1, max = 253)))]
    pub members: Vec<String>,
    /// Which tools, prompts and resources, by the names or URIs that their server gives them. All when empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 256), inner(length(min = 1, max = 512)))]
    pub names: Vec<String>,
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
