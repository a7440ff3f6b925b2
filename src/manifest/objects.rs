//! What manifests are read into.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;

use k8s_openapi::api::core::v1 as core;

use super::path::Path;
use super::schema::Finding;
use crate::api::{MCPFederation, MCPServer};

/// Every object of a set of files. Each has its namespace written down; `default` where the file names none.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Manifests {
    /// Servers from manifests, and those of an `mcp.json` that have an address.
    pub servers: Vec<MCPServer>,
    /// Servers of an `mcp.json` that are a command on this machine.
    pub commands: Vec<CommandServer>,
    /// Federations; at least one, since servers without any get one called `default`.
    pub federations: Vec<MCPFederation>,
    /// Whether the only federation is one that no file has: it was formed of all servers.
    pub forms_federation: bool,
    /// Secrets, among them one for each `mcp.json` server with headers.
    pub secrets: Vec<Secret>,
    /// ConfigMaps.
    pub config_maps: Vec<ConfigMap>,
    /// The directories that federations take skills from.
    pub directories: Vec<SkillDirectory>,
}

/// A server that is a command on this machine, in namespace `default`.
#[derive(Clone, PartialEq, Eq)]
pub struct CommandServer {
    /// Its name, made from its key in the `mcp.json`.
    pub name: String,
    /// The program, looked up on `PATH`.
    pub program: String,
    /// The program as the file names it, for messages: the values of variables may be secret.
    pub written: String,
    /// Its arguments.
    pub args: Vec<String>,
    /// Variables laid over the inherited environment.
    pub env: BTreeMap<String, String>,
    /// Working directory; our own when absent.
    pub cwd: Option<PathBuf>,
}

/// The values of a Secret, decoded.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its values by key.
    pub data: BTreeMap<String, Vec<u8>>,
}

/// The values of a ConfigMap, decoded.
#[derive(Clone, PartialEq, Eq)]
pub struct ConfigMap {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its values by key.
    pub data: BTreeMap<String, Vec<u8>>,
}

/// A directory with skills.
#[derive(Clone, PartialEq, Eq)]
pub struct SkillDirectory {
    /// Where it is, as federations say it.
    pub path: PathBuf,
    /// Its files, or why none could be read.
    pub files: Result<SkillFiles, String>,
}

/// The files of a directory with skills, by their paths in it.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct SkillFiles {
    /// Those that were read.
    pub read: BTreeMap<String, Vec<u8>>,
    /// What could not be read: why, and what to do.
    pub unread: BTreeMap<String, String>,
}

impl Secret {
    /// The values of a Secret object; `stringData` wins over `data`, as in a cluster.
    pub(super) fn decode(secret: core::Secret) -> Result<Self, Finding> {
        let data = secret
            .data
            .unwrap_or_default()
            .into_iter()
            .map(|(key, value)| (key, value.0));
        let text = secret
            .string_data
            .unwrap_or_default()
            .into_iter()
            .map(|(key, value)| (key, value.into_bytes()));
        Ok(Self {
            namespace: secret.metadata.namespace.unwrap_or_default(),
            name: secret.metadata.name.unwrap_or_default(),
            data: keyed("data", data)?
                .into_iter()
                .chain(keyed("stringData", text)?)
                .collect(),
        })
    }
}

impl ConfigMap {
    /// The values of a ConfigMap object.
    pub(super) fn decode(config_map: core::ConfigMap) -> Result<Self, Finding> {
        let text = config_map
            .data
            .unwrap_or_default()
            .into_iter()
            .map(|(key, value)| (key, value.into_bytes()));
        let data = config_map
            .binary_data
            .unwrap_or_default()
            .into_iter()
            .map(|(key, value)| (key, value.0));
        Ok(Self {
            namespace: config_map.metadata.namespace.unwrap_or_default(),
            name: config_map.metadata.name.unwrap_or_default(),
            data: keyed("data", text)?
                .into_iter()
                .chain(keyed("binaryData", data)?)
                .collect(),
        })
    }
}

/// The values, if their keys are such as Kubernetes takes.
fn keyed(field: &str, values: impl Iterator<Item = (String, Vec<u8>)>) -> Result<BTreeMap<String, Vec<u8>>, Finding> {
    let values: BTreeMap<_, _> = values.collect();
    let allowed = |b: u8| b.is_ascii_alphanumeric() || b"-_.".contains(&b);
    match values
        .keys()
        .find(|key| key.is_empty() || key.len() > 253 || !key.bytes().all(allowed))
    {
        None => Ok(values),
        Some(key) => Err(Finding {
            path: Path::of_fields(field).key(key),
            message: "the key must be at most 253 letters, digits, '-', '_' or '.'".into(),
            breaks: true,
        }),
    }
}

impl fmt::Debug for CommandServer {
    /// Values of the environment and arguments may be secret and are left out.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CommandServer")
            .field("name", &self.name)
            .field("program", &self.written)
            .field("args", &self.args.len())
            .field("env", &self.env.keys().collect::<Vec<_>>())
            .field("cwd", &self.cwd)
            .finish()
    }
}

impl fmt::Debug for Secret {
    /// Keys only.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Secret")
            .field("namespace", &self.namespace)
            .field("name", &self.name)
            .field("keys", &self.data.keys().collect::<Vec<_>>())
            .finish()
    }
}

impl fmt::Debug for SkillDirectory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SkillDirectory")
            .field("path", &self.path)
            .field("files", &self.files)
            .finish()
    }
}

impl fmt::Debug for SkillFiles {
    /// Names only: files may be long.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SkillFiles")
            .field("read", &self.read.keys().collect::<Vec<_>>())
            .field("unread", &self.unread)
            .finish()
    }
}

impl fmt::Debug for ConfigMap {
    /// Keys only: values may be long.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ConfigMap")
            .field("namespace", &self.namespace)
            .field("name", &self.name)
            .field("keys", &self.data.keys().collect::<Vec<_>>())
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secret_values_do_not_show_in_debug_output() {
        let secret = Secret {
            namespace: "default".into(),
            name: "token".into(),
            data: BTreeMap::from([("key".into(), b"hunter2".to_vec())]),
        };
        let command = CommandServer {
            name: "files".into(),
            program: "/opt/hunter2/serve".into(),
            written: "${SERVER}".into(),
            args: vec!["--token=hunter2".into()],
            env: BTreeMap::from([("TOKEN".into(), "hunter2".into())]),
            cwd: None,
        };
        let shown = format!("{secret:?} {command:?}");
        assert!(
            shown.contains("TOKEN")
                && shown.contains("${SERVER}")
                && !shown.contains("hunter2")
                && !shown.contains("104"),
            "{shown}"
        );
    }
}
