//! One file as it is read.

use super::collection::Collection;
use super::kind::Kinds;
use super::problem::Problem;
use super::reading::Options;

/// Reads one file into a collection.
pub(super) struct Reader<'a> {
    pub(super) kinds: &'a Kinds,
    pub(super) options: &'a Options,
    pub(super) file: &'a str,
    pub(super) collection: &'a mut Collection,
}

impl<'a> Reader<'a> {
    pub(super) fn new(kinds: &'a Kinds, options: &'a Options, file: &'a str, collection: &'a mut Collection) -> Self {
        Self {
            kinds,
            options,
            file,
            collection,
        }
    }

    /// Notes that something is wrong at `line`.
    pub(super) fn problem(&mut self, line: usize, field: Option<&str>, message: impl Into<String>) {
        let problem = self.place(line, field, message);
        self.collection.problems.push(problem);
    }

    /// Notes that something is odd there.
    pub(super) fn warning(&mut self, line: usize, field: Option<&str>, message: impl Into<String>) {
        let warning = self.place(line, field, message);
        self.collection.warnings.push(warning);
    }

    fn place(&self, line: usize, field: Option<&str>, message: impl Into<String>) -> Problem {
        Problem {
            file: self.file.to_owned(),
            line: Some(line),
            field: field.map(str::to_owned),
            message: message.into(),
        }
    }
}
