//! The edge to the disk: paths into texts.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use super::problem::{Problem, Problems};
use super::read::{File, Options, Reading, read};
use crate::defaults::MANIFEST_BYTES_MAX;

/// Standard input, as a path.
const STDIN: &str = "-";

/// Files and directories that manifests come from, read again and again.
#[derive(Debug)]
pub struct Sources {
    paths: Vec<PathBuf>,
    /// What can be read only once: standard input, pipes.
    kept: BTreeMap<PathBuf, File>,
}

/// What came of reading the sources.
#[derive(Clone, Debug)]
pub struct Loaded {
    /// The objects or the problems, and the warnings.
    pub reading: Reading,
    /// The directories in which a change (of anything directly in them) is a reason to load again. Never the files
    /// themselves: editors replace files, and a watch on a replaced file sees nothing more.
    pub watch: Vec<PathBuf>,
}

/// Reads all sources. Blocks, on nothing slower than a local disk unless standard input or a pipe is named.
///
/// A directory stands for the `*.yaml`, `*.yml` and `*.json` directly in it, by name, hidden ones left out.
pub fn load(sources: &mut Sources, options: &Options) -> Loaded {
    let mut problems = Vec::new();
    let mut files: Vec<File> = Vec::new();
    for path in sources.paths.clone() {
        match sources.files_of(&path) {
            Ok(read) => files.extend(read),
            Err(unreadable) => problems.extend(unreadable),
        }
    }
    let mut reading = if problems.is_empty() || !files.is_empty() {
        read(&without_repeats(files), options)
    } else {
        Reading {
            manifests: Err(Problems(Vec::new())),
            warnings: Vec::new(),
        }
    };
    if !problems.is_empty() {
        problems.extend(reading.manifests.err().into_iter().flat_map(|problems| problems.0));
        reading.manifests = Err(Problems(problems));
    }
    Loaded {
        reading,
        watch: sources.watch(),
    }
}

/// The environment of this process, without what is not UTF-8.
pub fn environment() -> BTreeMap<String, String> {
    let text = |(name, value): (std::ffi::OsString, std::ffi::OsString)| {
        Some((name.into_string().ok()?, value.into_string().ok()?))
    };
    std::env::vars_os().filter_map(text).collect()
}

impl Sources {
    /// Sources at these paths; `-` is standard input. Nothing is read yet.
    pub fn new(paths: impl IntoIterator<Item = PathBuf>) -> Self {
        Self {
            paths: paths.into_iter().collect(),
            kept: BTreeMap::new(),
        }
    }

    fn files_of(&mut self, path: &Path) -> Result<Vec<File>, Vec<Problem>> {
        if !path.is_dir() {
            return self.file(path).map(|file| vec![file]).map_err(|problem| vec![problem]);
        }
        let paths = listed(path).map_err(|problem| vec![problem])?;
        let mut files = Vec::new();
        let mut problems = Vec::new();
        for path in paths {
            match self.file(&path) {
                Ok(file) => files.push(file),
                Err(problem) => problems.push(problem),
            }
        }
        if problems.is_empty() { Ok(files) } else { Err(problems) }
    }

    fn file(&mut self, path: &Path) -> Result<File, Problem> {
        if let Some(file) = self.kept.get(path) {
            return Ok(file.clone());
        }
        let name = path.display().to_string();
        let refuse = |what: &str| Problem::of_file(&name, what);
        let once = path.as_os_str() == STDIN || fs::metadata(path).is_ok_and(|metadata| !metadata.is_file());
        let bytes = bounded(path).map_err(|error| refuse(&format!("cannot be read: {error}; check the path")))?;
        if bytes.len() > MANIFEST_BYTES_MAX {
            return Err(refuse(&format!(
                "is larger than {} MiB; split it",
                MANIFEST_BYTES_MAX >> 20
            )));
        }
        let text = String::from_utf8(bytes).map_err(|_| refuse("is not UTF-8 text; save it as UTF-8"))?;
        let file = File { name, text };
        if once {
            self.kept.insert(path.to_owned(), file.clone());
        }
        Ok(file)
    }

    fn watch(&self) -> Vec<PathBuf> {
        let named = self
            .paths
            .iter()
            .filter(|path| !self.kept.contains_key(*path) && path.as_os_str() != STDIN);
        let mut directories: Vec<PathBuf> = named
            .map(|path| match path.parent() {
                _ if path.is_dir() => path.clone(),
                Some(parent) if parent != Path::new("") => parent.to_owned(),
                _ => PathBuf::from("."),
            })
            .collect();
        directories.sort();
        directories.dedup();
        directories
    }
}

/// At most one byte more than is allowed.
fn bounded(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let limit = MANIFEST_BYTES_MAX as u64 + 1;
    if path.as_os_str() == STDIN {
        io::stdin().lock().take(limit).read_to_end(&mut bytes)?;
    } else {
        fs::File::open(path)?.take(limit).read_to_end(&mut bytes)?;
    }
    Ok(bytes)
}

/// The manifests directly in a directory, by name.
fn listed(directory: &Path) -> Result<Vec<PathBuf>, Problem> {
    let name = directory.display().to_string();
    let unreadable = |error: io::Error| Problem::of_file(&name, format!("cannot be read: {error}; check the path"));
    let mut paths = Vec::new();
    let mut deeper = false;
    for entry in fs::read_dir(directory).map_err(unreadable)? {
        let path = entry.map_err(unreadable)?.path();
        let hidden = path
            .file_name()
            .is_some_and(|name| name.as_encoded_bytes().starts_with(b"."));
        let extension = path.extension().and_then(|extension| extension.to_str());
        if path.is_dir() {
            deeper |= !hidden;
        } else if path.is_file() && !hidden && matches!(extension, Some("yaml" | "yml" | "json")) {
            paths.push(path);
        }
    }
    if paths.is_empty() {
        let fix = if deeper {
            "directories in it are not searched: name them"
        } else {
            "check the path"
        };
        return Err(Problem::of_file(
            &name,
            format!("has no *.yaml, *.yml or *.json in it; {fix}"),
        ));
    }
    paths.sort();
    Ok(paths)
}

/// Each file once, though it may be named twice: by itself and by its directory.
fn without_repeats(files: Vec<File>) -> Vec<File> {
    let mut seen = Vec::new();
    let mut fresh = |file: &File| {
        let real = fs::canonicalize(&file.name).unwrap_or_else(|_| PathBuf::from(&file.name));
        let known = seen.contains(&real);
        seen.push(real);
        !known
    };
    files.into_iter().filter(|file| fresh(file)).collect()
}

#[cfg(test)]
mod tests;
