//! Where a server comes from: an image, a package, or an address.

use std::collections::BTreeMap;

use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::environment::{EnvFrom, EnvVar, ValueSource};

/// A server that runs from a container image.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct ContainerSource {
    /// The image, with tag or digest.
    #[schemars(length(min = 1, max = 1024))]
    pub image: String,
    /// Replaces the image's entrypoint.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64), inner(length(max = 4096)))]
    pub command: Vec<String>,
    /// Arguments to the entrypoint.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 128), inner(length(max = 4096)))]
    pub args: Vec<String>,
    /// Working directory; the image's own when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 1024))]
    pub working_dir: Option<String>,
    /// Environment variables.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 128))]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["name".into()]))]
    pub env: Vec<EnvVar>,
    /// Environment variables from whole Secrets and ConfigMaps.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32))]
    pub env_from: Vec<EnvFrom>,
    /// Compute resources of the container.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resources: Option<Resources>,
    /// When the image is pulled; Kubernetes' own default when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image_pull_policy: Option<ImagePullPolicy>,
    /// Secrets for pulling the image.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16))]
    pub image_pull_secrets: Vec<PullSecret>,
    /// How the server is spoken to.
    pub transport: ContainerTransport,
}

/// How a container is spoken to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct ContainerTransport {
    /// The transport that the server offers.
    #[serde(rename = "type")]
    pub type_: ContainerTransportType,
    /// The port it listens on.
    #[serde(default = "default_port")]
    #[schemars(range(min = 1, max = 65535))]
    pub port: u16,
    /// The path of its MCP endpoint.
    #[serde(default = "default_path")]
    #[schemars(length(min = 1, max = 1024))]
    #[x_kube(validation = Rule::new("self.startsWith('/')").message("path must start with '/', for example /mcp"))]
    pub path: String,
}

/// Transports of container servers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum ContainerTransportType {
    /// Streamable HTTP (2025-03-26 and later).
    StreamableHTTP,
}

/// A server that runs from an npm or PyPI package.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct PackageSource {
    /// Which registry, and so which runner: npm (npx) or pypi (uvx).
    pub runner: PackageRunner,
    /// Name of the package.
    #[schemars(length(min = 1, max = 214))]
    #[x_kube(validation = Rule::new("!self.startsWith('-') && self.matches('^[@A-Za-z0-9._/-]+$')").message("name must be a plain package name; the version goes to package.version"))]
    pub name: String,
    /// The exact version.
    #[schemars(length(min = 1, max = 64))]
    #[x_kube(validation = Rule::new("self.matches('^[0-9][A-Za-z0-9.+_!-]*$')").message("version must be exact, for example 1.2.3; ranges and tags are not taken"))]
    pub version: String,
    /// The executable in the package, where it differs from the package's name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 214))]
    #[x_kube(validation = Rule::new("self.matches('^[A-Za-z0-9._][A-Za-z0-9._-]*$')").message("bin must be the plain name of an executable"))]
    pub bin: Option<String>,
    /// Arguments to the server.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 128), inner(length(max = 4096)))]
    pub args: Vec<String>,
    /// Environment variables.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 128))]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["name".into()]))]
    pub env: Vec<EnvVar>,
    /// Environment variables from whole Secrets and ConfigMaps.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32))]
    pub env_from: Vec<EnvFrom>,
}

/// Package registries and their runners.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum PackageRunner {
    /// npm, run by `npx`.
    Npm,
    /// PyPI, run by `uvx`.
    Pypi,
}

/// A server that runs elsewhere.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct RemoteSource {
    /// Address of its MCP endpoint.
    #[schemars(length(min = 1, max = 2048))]
    #[x_kube(validation = Rule::new("isURL(self) && url(self).getScheme() in ['http', 'https'] && url(self).getHost() != ''").message("url must be an absolute http or https address, for example https://mcp.example.com/mcp"))]
    pub url: String,
    /// Headers sent with every request, for example an API key.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32))]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["name".into()]))]
    pub headers: Vec<Header>,
}

/// A header sent to a remote server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new("has(self.value) != has(self.valueFrom)").message("set exactly one of value and valueFrom"),
    validation = Rule::new("self.name.matches('^[A-Za-z0-9!#$%&*+.^_|~-]+$')").message("name must be a valid header name"),
    validation = Rule::new("!(self.name.lowerAscii() in ['accept', 'content-type', 'content-length', 'host', 'connection', 'transfer-encoding', 'mcp-session-id', 'mcp-protocol-version', 'mcp-method', 'mcp-name', 'last-event-id']) && !self.name.lowerAscii().startsWith('mcp-param-')").message("this header is set by the gateway itself; remove it")
)]
pub struct Header {
    /// Name of the header.
    #[schemars(length(min = 1, max = 128))]
    pub name: String,
    /// Its literal value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 8192))]
    pub value: Option<String>,
    /// Where its value is read from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value_from: Option<ValueSource>,
}

/// Compute resources, as in a container spec.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Resources {
    /// The most the container may use, by resource name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "quantities")]
    pub limits: BTreeMap<String, String>,
    /// What the scheduler sets aside for it, by resource name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "quantities")]
    pub requests: BTreeMap<String, String>,
}

/// When an image is pulled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum ImagePullPolicy {
    Always,
    IfNotPresent,
    Never,
}

/// A Secret for pulling images.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PullSecret {
    /// Name of the Secret.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
}

fn default_port() -> u16 {
    crate::defaults::CONTAINER_PORT
}

fn default_path() -> String {
    crate::defaults::CONTAINER_PATH.into()
}

/// Quantities are strings here; the API server's own check on the workload names a bad one.
fn quantities(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    schemars::json_schema!({
        "type": "object",
        "maxProperties": 16,
        "additionalProperties": {"type": "string", "maxLength": 64}
    })
}
