//! Texts into objects: the pure core, without IO.

use super::collection::Collection;
use super::kind::Kinds;
use super::problem::Problem;
use super::reader::Reader;
use super::reading::{File, Options, Reading};
use super::{directories, document, federate, references};

/// Reads all files, and tells all problems of all of them at once.
///
/// Nothing is taken where anything is wrong: half a fleet is not what somebody wrote down.
pub fn read(files: &[File], options: &Options) -> Reading {
    let mut collection = Collection::default();
    let kinds = Kinds::new();
    for file in files {
        let mut reader = Reader::new(&kinds, options, &file.name, &mut collection);
        document::read(&mut reader, &file.text);
    }
    federate::form_default(&mut collection, options);
    references::check(&mut collection);
    directories::settle(&mut collection);
    let place = |problem: &Problem| (files.iter().position(|file| file.name == problem.file), problem.line);
    collection.problems.sort_by_key(place);
    collection.warnings.sort_by_key(place);
    collection.finish()
}

#[cfg(test)]
mod tests;
