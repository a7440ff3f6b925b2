//! What is wrong with manifests, told so that a person can put it right.

use std::fmt;

/// Most problems that are printed; the rest is counted.
const PRINTED_MAX: usize = 50;

/// One thing that is wrong, where it stands, and what to do.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Problem {
    /// The file, as the user named it; `-` is standard input.
    pub file: String,
    /// The line in it, counted from 1.
    pub line: Option<usize>,
    /// The field, as the API server writes it: `spec.members[0].prefix`.
    pub field: Option<String>,
    /// What is wrong and what to do. Never holds a value out of the file that may be secret.
    pub message: String,
}

/// Everything that is wrong with a set of manifests; never empty.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct Problems(pub Vec<Problem>);

impl Problem {
    /// A problem of a file as a whole.
    pub fn of_file(file: &str, message: impl Into<String>) -> Self {
        Self {
            file: file.to_owned(),
            line: None,
            field: None,
            message: message.into(),
        }
    }
}

impl fmt::Display for Problem {
    /// `examples/a.yaml:12: spec.remote.url: must be …`
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.file)?;
        if let Some(line) = self.line {
            write!(f, ":{line}")?;
        }
        if let Some(field) = &self.field {
            write!(f, ": {field}")?;
        }
        write!(f, ": {}", self.message)
    }
}

impl fmt::Display for Problems {
    /// One problem a line.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, problem) in self.0.iter().take(PRINTED_MAX).enumerate() {
            if index > 0 {
                writeln!(f)?;
            }
            write!(f, "{problem}")?;
        }
        if let Some(more) = self.0.len().checked_sub(PRINTED_MAX).filter(|more| *more > 0) {
            write!(f, "\nand {more} more")?;
        }
        Ok(())
    }
}

impl Problems {
    /// One CamelCase word for logs and metrics.
    pub fn reason(&self) -> &'static str {
        "InvalidManifest"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_problem_reads_as_file_line_field_and_message() {
        let mut problem = Problem {
            line: Some(12),
            field: Some("spec.remote.url".into()),
            ..Problem::of_file("examples/a.yaml", "is required")
        };
        assert_eq!(problem.to_string(), "examples/a.yaml:12: spec.remote.url: is required");
        problem.field = None;
        assert_eq!(problem.to_string(), "examples/a.yaml:12: is required");
    }

    #[test]
    fn a_flood_of_problems_is_cut() {
        let problems = Problems(vec![Problem::of_file("a", "b"); PRINTED_MAX + 2]);
        assert!(problems.to_string().ends_with("\na: b\nand 2 more"));
        assert_eq!(problems.to_string().lines().count(), PRINTED_MAX + 1);
    }
}
