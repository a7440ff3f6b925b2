//! What a reading is of, and what comes of it.

use std::collections::BTreeMap;
use std::fmt;

use super::objects::Manifests;
use super::problem::{Problem, Problems};

/// One text with manifests in it.
#[derive(Clone, PartialEq, Eq)]
pub struct File {
    /// Its path as the user named it; `-` for standard input.
    pub name: String,
    /// What it holds.
    pub text: String,
}

/// What a reading depends on besides the files.
#[derive(Clone, Default)]
pub struct Options {
    /// True: we listen on loopback only, so a federation without `spec.access` is open to whoever reaches it.
    pub loopback: bool,
    /// True: a federation was written down before. Then none is formed where none is any more: what was closed would be
    /// open to everyone.
    pub had_federation: bool,
    /// Variables for `${VAR}` in an `mcp.json`.
    pub environment: BTreeMap<String, String>,
}

/// What came of a reading.
#[derive(Clone, Debug)]
pub struct Reading {
    /// The objects, or everything that is wrong.
    pub manifests: Result<Manifests, Problems>,
    /// What is odd, but not wrong.
    pub warnings: Vec<Problem>,
}

impl fmt::Debug for File {
    /// The text may hold secrets and is left out.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("File")
            .field("name", &self.name)
            .field("bytes", &self.text.len())
            .finish()
    }
}

impl fmt::Debug for Options {
    /// Values of the environment may be secret and are left out.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Options")
            .field("loopback", &self.loopback)
            .field("environment", &self.environment.len())
            .finish()
    }
}
