//! What has been read so far, and from where.

use std::collections::BTreeMap;
use std::fmt;
use std::rc::Rc;

use super::objects::{CommandServer, ConfigMap, Manifests, Secret};
use super::path::Path;
use super::problem::{Problem, Problems};
use super::reading::Reading;
use super::yaml::Node;
use crate::api::{MCPFederation, MCPServer};

/// Everything read so far.
#[derive(Default)]
pub(super) struct Collection {
    pub(super) servers: Vec<Sourced<MCPServer>>,
    pub(super) commands: Vec<CommandServer>,
    pub(super) federations: Vec<Sourced<MCPFederation>>,
    pub(super) secrets: Vec<Secret>,
    pub(super) config_maps: Vec<ConfigMap>,
    /// Where each object stands, those that are wrong included.
    pub(super) places: BTreeMap<Identity, Place>,
    /// True: something could not be read at all, so nobody knows what it would have held.
    pub(super) unread: bool,
    pub(super) forms_federation: bool,
    pub(super) problems: Vec<Problem>,
    pub(super) warnings: Vec<Problem>,
}

/// What may exist only once.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Identity {
    pub(super) kind: String,
    pub(super) namespace: String,
    pub(super) name: String,
}

/// Where an object stands.
#[derive(Clone, Debug)]
pub(super) struct Place {
    pub(super) file: String,
    pub(super) line: usize,
    /// The key that its name was made from, in an `mcp.json`.
    pub(super) key: Option<String>,
}

/// An object and the part of a file that it was read from.
#[derive(Clone)]
pub(super) struct Sourced<T> {
    pub(super) object: T,
    pub(super) source: Rc<Source>,
}

/// A part of a file.
pub(super) struct Source {
    pub(super) file: String,
    pub(super) node: Node,
}

impl Collection {
    /// Claims an identity for what stands at `place`, or says why it cannot have it.
    pub(super) fn claim(&mut self, identity: Identity, place: Place) -> Result<(), String> {
        let Some(first) = self.places.get(&identity) else {
            self.places.insert(identity, place);
            return Ok(());
        };
        Err(match (&first.key, &place.key) {
            (Some(one), Some(other)) if one != other => format!(
                "the keys `{one}` ({first}) and `{other}` both become the name {}; rename one of them",
                identity.name
            ),
            _ if first.file == place.file => {
                format!("{identity} stands already at {first}; remove one of them or rename it")
            }
            _ => format!(
                "{identity} stands already at {first}; remove one of them or rename it, or serve {} without {}",
                place.file, first.file
            ),
        })
    }

    /// Whether an object of that kind and name stands anywhere, right or wrong.
    pub(super) fn has(&self, kind: &str, namespace: &str, name: &str) -> bool {
        self.names(kind)
            .any(|identity| identity.namespace == namespace && identity.name == name)
    }

    /// All objects of a kind, right or wrong.
    pub(super) fn names<'a>(&'a self, kind: &'a str) -> impl Iterator<Item = &'a Identity> {
        self.places.keys().filter(move |identity| identity.kind == kind)
    }

    /// The objects, or the problems.
    pub(super) fn finish(mut self) -> Reading {
        if self.problems.is_empty()
            && self.servers.is_empty()
            && self.commands.is_empty()
            && self.federations.is_empty()
        {
            self.problems.push(Problem::of_file(
                "manifests",
                "hold no MCPServer, no MCPFederation and no mcp.json; give some that do",
            ));
        }
        let manifests = if self.problems.is_empty() {
            Ok(Manifests {
                servers: self.servers.into_iter().map(|sourced| sourced.object).collect(),
                commands: self.commands,
                federations: self.federations.into_iter().map(|sourced| sourced.object).collect(),
                forms_federation: self.forms_federation,
                secrets: self.secrets,
                config_maps: self.config_maps,
                directories: Vec::new(),
            })
        } else {
            Err(Problems(self.problems))
        };
        Reading {
            manifests,
            warnings: self.warnings,
        }
    }
}

impl Source {
    /// A problem with the field at `path`.
    pub(super) fn problem(&self, path: &Path, message: impl Into<String>) -> Problem {
        Problem {
            file: self.file.clone(),
            line: Some(self.node.line_of(path)),
            field: Some(path.to_string()),
            message: message.into(),
        }
    }
}

impl fmt::Display for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}/{}", self.kind, self.namespace, self.name)
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.file, self.line)
    }
}
