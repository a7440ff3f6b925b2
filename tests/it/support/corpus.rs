//! The corpus of objects that must be refused: `tests/invalid/*.yaml`, one bad object a file.
//!
//! A comment at the top says which field is at fault (`# field:`), which words of a rule must be in the refusal
//! wherever it comes from (`# fix:`), or, where no rule but the schema refuses, what we say (`# hint:`).

use std::fs;
use std::path::PathBuf;

/// One bad object.
#[derive(Debug)]
pub(crate) struct Bad {
    /// The file's name, without its ending.
    pub(crate) name: String,
    /// The whole file.
    pub(crate) text: String,
    /// The field at fault, as the API server writes it.
    pub(crate) field: String,
    /// Words of the rule that refuses it.
    pub(crate) fix: Option<String>,
    /// Words of our own message.
    pub(crate) hint: Option<String>,
}

/// The whole corpus, by name.
pub(crate) fn corpus() -> Vec<Bad> {
    let directory = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/invalid");
    let mut files: Vec<_> = fs::read_dir(directory)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    files.sort();
    assert!(files.len() >= 40, "the corpus is there");
    files
        .iter()
        .map(|path| {
            Bad::new(
                path.file_stem().unwrap().to_str().unwrap(),
                fs::read_to_string(path).unwrap(),
            )
        })
        .collect()
}

impl Bad {
    fn new(name: &str, text: String) -> Self {
        let header = |key: &str| {
            let mut lines = text.lines();
            lines
                .find_map(|line| line.strip_prefix(&format!("# {key}: ")))
                .map(str::to_owned)
        };
        let bad = Self {
            name: name.to_owned(),
            field: header("field").unwrap_or_else(|| panic!("{name} names no field")),
            fix: header("fix"),
            hint: header("hint"),
            text: text.clone(),
        };
        assert!(
            bad.fix.is_some() != bad.hint.is_some(),
            "{name} has either a fix or a hint"
        );
        bad
    }
}
