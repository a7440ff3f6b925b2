//! Texts into objects: the pure core, without IO.

use std::collections::BTreeMap;
use std::fmt;

use super::collection::Collection;
use super::document::Reader;
use super::kind::Kinds;
use super::objects::Manifests;
use super::problem::{Problem, Problems};
use super::{directories, federate, references};

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

/// Reads all files, and tells all problems of all of them at once.
///
/// Nothing is taken where anything is wrong: half a fleet is not what somebody wrote down.
pub fn read(files: &[File], options: &Options) -> Reading {
    let mut collection = Collection::default();
    let kinds = Kinds::new();
    for file in files {
        Reader::new(&kinds, options, &file.name, &mut collection).read(&file.text);
    }
    federate::form_default(&mut collection, options);
    references::check(&mut collection);
    directories::settle(&mut collection);
    let place = |problem: &Problem| (files.iter().position(|file| file.name == problem.file), problem.line);
    collection.problems.sort_by_key(place);
    collection.warnings.sort_by_key(place);
    collection.finish()
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

#[cfg(test)]
mod tests;
