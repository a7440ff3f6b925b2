//! The edge to the disk: paths into texts.

use std::collections::BTreeMap;
use std::fs::{self, FileType};
use std::io::{self, Read};
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

use super::directories;
use super::problem::{Problem, Problems};
use super::read::read;
use super::reading::{File, Options, Reading};
use crate::defaults::{MANIFEST_BYTES_MAX, MANIFEST_EXTENSIONS};

/// Standard input, as a path.
const STDIN: &str = "-";

/// Files and directories that manifests come from, read again and again.
#[derive(Debug)]
pub struct Sources {
    paths: Vec<PathBuf>,
    /// What standard input held, which can be read but once.
    stdin: Option<File>,
}

/// Reads all sources. Blocks, on nothing slower than a disk unless standard input is named, which is read to its end
/// the first time.
///
/// A directory stands for the manifests directly in it, by name. Pipes, sockets and devices are refused: nobody knows
/// whether they ever end.
pub fn load(sources: &mut Sources, options: &Options) -> Reading {
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
    if let Ok(manifests) = &mut reading.manifests {
        manifests.directories = directories::read(manifests);
    }
    reading
}

/// Whether a file of this name is read when its directory is named: hidden ones are left out.
pub fn is_manifest(path: &Path) -> bool {
    let extension = path.extension();
    !is_hidden(path) && extension.is_some_and(|extension| MANIFEST_EXTENSIONS.iter().any(|known| extension == *known))
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
            stdin: None,
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
        if path.as_os_str() != STDIN {
            return text_of(path, opened(path));
        }
        match &self.stdin {
            Some(file) => Ok(file.clone()),
            None => {
                let file = text_of(path, Ok(io::stdin().lock()))?;
                Ok(self.stdin.insert(file).clone())
            }
        }
    }
}

/// The file at `path`, if it is one. That it is replaced by a pipe between the look and the opening is not looked for.
fn opened(path: &Path) -> Result<fs::File, String> {
    let metadata = fs::metadata(path).map_err(|error| unreadable(&error))?;
    match special(metadata.file_type()) {
        None => fs::File::open(path).map_err(|error| unreadable(&error)),
        Some(what) => Err(format!(
            "is {what}, and only files and directories are read; what a command prints can be piped to `mcpfleet up -`"
        )),
    }
}

/// What a path leads to, if it is neither a file nor a directory.
fn special(kind: FileType) -> Option<&'static str> {
    if kind.is_file() || kind.is_dir() {
        return None;
    }
    Some(if kind.is_fifo() {
        "a pipe"
    } else if kind.is_socket() {
        "a socket"
    } else {
        "a device"
    })
}

/// What `opened`, which was found at `path`, holds.
fn text_of(path: &Path, opened: Result<impl Read, String>) -> Result<File, Problem> {
    let name = path.display().to_string();
    let refuse = |what: String| Problem::of_file(&name, what);
    let mut bytes = Vec::new();
    // One byte more than is allowed shows that there are more.
    let mut bounded = opened.map_err(refuse)?.take(MANIFEST_BYTES_MAX as u64 + 1);
    bounded
        .read_to_end(&mut bytes)
        .map_err(|error| refuse(unreadable(&error)))?;
    if bytes.len() > MANIFEST_BYTES_MAX {
        return Err(refuse(format!(
            "is larger than {} MiB; split it",
            MANIFEST_BYTES_MAX >> 20
        )));
    }
    let text = String::from_utf8(bytes).map_err(|_| refuse("is not UTF-8 text; save it as UTF-8".into()))?;
    Ok(File { name, text })
}

fn unreadable(error: &io::Error) -> String {
    format!("cannot be read: {error}; check the path")
}

/// The manifests directly in a directory, by name.
fn listed(directory: &Path) -> Result<Vec<PathBuf>, Problem> {
    let name = directory.display().to_string();
    let unreadable = |error| Problem::of_file(&name, unreadable(&error));
    let mut paths = Vec::new();
    let mut deeper = false;
    for entry in fs::read_dir(directory).map_err(unreadable)? {
        let path = entry.map_err(unreadable)?.path();
        if path.is_dir() {
            deeper |= !is_hidden(&path);
        } else if path.is_file() && is_manifest(&path) {
            paths.push(path);
        }
    }
    if paths.is_empty() {
        let fix = if deeper {
            "directories in it are not searched: name them"
        } else {
            "check the path"
        };
        return Err(Problem::of_file(&name, format!("has no {} in it; {fix}", patterns())));
    }
    paths.sort();
    Ok(paths)
}

fn is_hidden(path: &Path) -> bool {
    path.file_name()
        .is_some_and(|name| name.as_encoded_bytes().starts_with(b"."))
}

/// `*.yaml, *.yml or *.json`.
fn patterns() -> String {
    let [first, others @ .., last] = MANIFEST_EXTENSIONS;
    let others: String = others.iter().map(|other| format!(", *.{other}")).collect();
    format!("*.{first}{others} or *.{last}")
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
