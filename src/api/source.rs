//! Where a server comes from: an image, a package, or an address.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube::KubeSchema;
use kube::core::Rule;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize};

use super::environment::{EnvFrom, EnvVar, ValueSource};

/// A server that runs from a container image.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct ContainerSource {
    /// The image, with tag or digest.
    #[schemars(length(min = 1, max = 1024))]
    #[x_kube(
        validation = Rule::new("self.matches('^[^ \\t\\r\\n]+$')")
            .message("image must be a reference without spaces, for example ghcr.io/acme/tools:1.2")
    )]
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
    /// Environment variables of the server's process.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 128))]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["name".into()]))]
    pub env: Vec<EnvVar>,
    /// Environment variables of the server's process, from all keys of Secrets and ConfigMaps; `env` wins.
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
    /// HTTP with server-sent events (2024-11-05): path is where the stream is opened.
    SSE,
}

/// How a remote server is spoken to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RemoteTransport {
    /// The transport that the server offers.
    #[serde(rename = "type", default)]
    pub type_: RemoteTransportType,
}

/// Transports of remote servers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum RemoteTransportType {
    /// Streamable HTTP, and SSE where the server has no such thing.
    #[default]
    Auto,
    /// Streamable HTTP (2025-03-26 and later).
    StreamableHTTP,
    /// HTTP with server-sent events (2024-11-05): url is where the stream is opened.
    SSE,
}

/// A server that runs from an npm or PyPI package.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct PackageSource {
    /// Which registry it comes from, and so what runs it.
    pub runner: PackageRunner,
    /// Name of the package.
    #[schemars(length(min = 1, max = 214))]
    #[x_kube(
        validation = Rule::new("!self.startsWith('-') && self.matches('^[@A-Za-z0-9._/-]+$')")
            .message("name must be a plain package name; the version goes to package.version")
    )]
    pub name: String,
    /// The exact version.
    #[schemars(length(min = 1, max = 64))]
    #[x_kube(
        validation = Rule::new("self.matches('^[0-9][A-Za-z0-9.+_!-]*$')")
            .message("version must be exact, for example 1.2.3; ranges and tags are not taken")
    )]
    pub version: String,
    /// The executable in the package, where it differs from the package's name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 214))]
    #[x_kube(
        validation = Rule::new("self.matches('^[A-Za-z0-9._][A-Za-z0-9._-]*$')")
            .message("bin must be the plain name of an executable")
    )]
    pub bin: Option<String>,
    /// Arguments to the server.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 128), inner(length(max = 4096)))]
    pub args: Vec<String>,
    /// Environment variables of the server's process.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 128))]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["name".into()]))]
    pub env: Vec<EnvVar>,
    /// Environment variables of the server's process, from all keys of Secrets and ConfigMaps; `env` wins.
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
    #[x_kube(validation = address(), validation = no_credentials())]
    pub url: String,
    /// Headers sent with every request, for example an API key.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32))]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["name".into()]))]
    pub headers: Vec<Header>,
    /// How the server is spoken to; the gateway finds out by itself where this is absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub transport: Option<RemoteTransport>,
}

/// A header sent to a remote server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new("has(self.value) != has(self.valueFrom)").message("set exactly one of value and valueFrom"),
    validation = Rule::new("!has(self.value) || self.value.matches('^[\\t -~]*$')")
        .message("a header's value must be printable ASCII on one line; remove line breaks")
        .field_path(".value"),
    validation = Rule::new("self.name.matches(\"^[A-Za-z0-9!#$%&'*+.^_`|~-]+$\")")
        .message("must be a header name, for example Authorization")
        .field_path(".name"),
    validation = reserved_header()
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
    /// The most the container may use, by resource name: cpu such as 500m or 2, memory such as 256Mi.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty", deserialize_with = "quantities")]
    #[schemars(schema_with = "quantities_schema")]
    pub limits: BTreeMap<String, String>,
    /// What the scheduler sets aside for it, by resource name: cpu such as 500m or 2, memory such as 256Mi.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty", deserialize_with = "quantities")]
    #[schemars(schema_with = "quantities_schema")]
    pub requests: BTreeMap<String, String>,
}

/// When an image is pulled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum ImagePullPolicy {
    /// Whenever a container starts: the registry is asked what the image is now.
    Always,
    /// Where the node does not have it yet.
    IfNotPresent,
    /// Not at all: the node must have it.
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

/// Header names that belong to the protocol or the connection; `mcp-param-` is a prefix of more.
pub const RESERVED_HEADERS: [&str; 11] = [
    "accept",
    "connection",
    "content-length",
    "content-type",
    "host",
    "last-event-id",
    "mcp-method",
    "mcp-name",
    "mcp-protocol-version",
    "mcp-session-id",
    "transfer-encoding",
];

fn reserved_header() -> Rule {
    Rule::new(format!(
        "!(self.name.lowerAscii() in ['{}']) && !self.name.lowerAscii().startsWith('mcp-param-')",
        RESERVED_HEADERS.join("', '")
    ))
    .message("this header is set by the gateway itself; remove it")
    .field_path(".name")
}

/// An absolute URL (RFC 3986) of the characters and ports that an HTTP client takes as they stand.
fn address() -> Rule {
    const HOST: &str = "([A-Za-z0-9._-]+|\\\\[[0-9A-Fa-f:.]+\\\\])";
    const PORT: &str = "[1-9][0-9]{0,3}|[1-5][0-9]{4}|6[0-4][0-9]{3}|65[0-4][0-9]{2}|655[0-2][0-9]|6553[0-5]";
    Rule::new(format!(
        "self.matches(\"^https?://([^/?#@]*@)?{HOST}(:({PORT}))?([/?][A-Za-z0-9._~:/?@!$&'()*+,;=%-]*)?$\")"
    ))
    .message("url must be an absolute http or https address, for example https://mcp.example.com/mcp")
}

fn no_credentials() -> Rule {
    Rule::new("!self.matches('^https?://[^/?#]*@')").message(CREDENTIALS_IN_URL)
}

/// What is said of a user name or password in a URL.
pub const CREDENTIALS_IN_URL: &str = "url must not hold a user name or password; put them into headers with valueFrom";

/// Quantities are strings; whole numbers are taken for them, as Kubernetes does.
fn quantities<'de, D: Deserializer<'de>>(deserializer: D) -> Result<BTreeMap<String, String>, D::Error> {
    let quantities = BTreeMap::<String, IntOrString>::deserialize(deserializer)?;
    let text = |quantity| match quantity {
        IntOrString::Int(number) => number.to_string(),
        IntOrString::String(text) => text,
    };
    Ok(quantities
        .into_iter()
        .map(|(name, quantity)| (name, text(quantity)))
        .collect())
}

fn quantities_schema(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "object",
        "maxProperties": 16,
        "additionalProperties": {
            "x-kubernetes-int-or-string": true,
            "maxLength": 64,
            "x-kubernetes-validations": [{
                "rule": "isQuantity(string(self))",
                "message": "must be a quantity, for example 500m, 2 or 256Mi"
            }]
        }
    })
}
