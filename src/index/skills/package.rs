//! A skill of the federation's own, made of files.

use std::collections::{BTreeMap, BTreeSet};

use aws_lc_rs::digest::{SHA256, digest};
use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use bytes::Bytes;
use serde_json::Value;

use super::frontmatter::{self, Frontmatter, FrontmatterError};
use super::uri::{self, MANIFEST};
use crate::defaults::{SKILL_BYTES_MAX, SKILL_FILES_MAX};
use crate::mcp::object::ObjectWriter;
use crate::mcp::printable;
use crate::mcp::printable::acts_on_the_line;

/// A skill with its files, ready to be served.
#[derive(Clone, Debug)]
pub struct Package {
    /// What its `SKILL.md` says of it.
    pub frontmatter: Frontmatter,
    /// The URI of its directory.
    directory: String,
    /// By their URIs.
    files: BTreeMap<String, File>,
}

/// A file of a skill.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct File {
    /// Where it is in the skill's directory.
    pub path: String,
    /// What it is, by its name.
    pub mime_type: &'static str,
    /// `sha256:` and the hexadecimal SHA-256 of its bytes.
    pub digest: String,
    /// Its bytes.
    pub bytes: Bytes,
}

/// Why files are no skill.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PackageError {
    /// The path of the directory has something else than names in it.
    #[error("skill directory {0:?} must be lower-case letters, digits and single hyphens, in parts divided by `/`")]
    Directory(String),
    /// A file's path leads out of the directory, or nowhere.
    #[error(
        "file {0:?} of the skill is not at a plain path inside its directory: no empty parts, `.`, `..`, `\\` or control characters"
    )]
    Path(String),
    /// Two files have one path.
    #[error("file {0:?} of the skill is there twice")]
    Twice(String),
    /// There is no manifest.
    #[error("the skill has no SKILL.md in its directory itself; the name counts as it is written")]
    NoManifest,
    /// The manifest is no good.
    #[error(transparent)]
    Frontmatter(#[from] FrontmatterError),
    /// Name and directory differ.
    #[error("SKILL.md says `name: {name}` but is in directory `{directory}`; both must be the same")]
    NameMismatch {
        /// What the frontmatter says.
        name: String,
        /// The last part of the directory's path.
        directory: String,
    },
    /// There are more files than hosts must take.
    #[error("the skill has {0} files; hosts need not take more than {SKILL_FILES_MAX}: leave some out, or divide it")]
    TooManyFiles(usize),
    /// The files have more bytes than hosts must take.
    #[error(
        "the skill's files have {0} bytes; hosts need not take more than {SKILL_BYTES_MAX}: leave some out, or divide it"
    )]
    TooLarge(u64),
}

impl PackageError {
    /// One CamelCase word.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Directory(_) => "InvalidDirectory",
            Self::Path(_) => "InvalidPath",
            Self::Twice(_) => "FileTwice",
            Self::NoManifest => "ManifestMissing",
            Self::Frontmatter(error) => error.reason(),
            Self::NameMismatch { .. } => "NameMismatch",
            Self::TooManyFiles(_) => "TooManyFiles",
            Self::TooLarge(_) => "TooLarge",
        }
    }
}

impl Package {
    /// Makes a skill of `files`, each with its path in the skill's directory. `directory` is the path under which the
    /// skill is served, `ops/net/restart-runbook`, and its last part the skill's name.
    ///
    /// # Errors
    /// The files are no skill, or more than hosts must take.
    pub fn new(directory: &str, files: Vec<(String, Bytes)>) -> Result<Self, PackageError> {
        if !directory.split('/').all(frontmatter::is_name) {
            return Err(PackageError::Directory(printable(directory, PATH_SHOWN)));
        }
        if files.len() > SKILL_FILES_MAX {
            return Err(PackageError::TooManyFiles(files.len()));
        }
        let size: u64 = files.iter().map(|(_, bytes)| bytes.len() as u64).sum();
        if size > SKILL_BYTES_MAX {
            return Err(PackageError::TooLarge(size));
        }
        let manifest = files.iter().find(|(path, _)| path == MANIFEST);
        let frontmatter = Frontmatter::parse(&manifest.ok_or(PackageError::NoManifest)?.1)?;
        let own = directory.rsplit('/').next().unwrap_or(directory);
        if frontmatter.name != own {
            return Err(PackageError::NameMismatch {
                name: frontmatter.name,
                directory: own.to_owned(),
            });
        }
        let mut by_uri = BTreeMap::new();
        for (path, bytes) in files {
            if !is_plain_path(&path) {
                return Err(PackageError::Path(printable(&path, PATH_SHOWN)));
            }
            let file = File {
                mime_type: mime_type(&path, &bytes),
                digest: digest_of(&bytes),
                bytes,
                path,
            };
            if let Some(file) = by_uri.insert(uri::of_path(&format!("{directory}/{}", file.path)), file) {
                return Err(PackageError::Twice(printable(&file.path, PATH_SHOWN)));
            }
        }
        Ok(Self {
            frontmatter,
            directory: uri::of_path(directory),
            files: by_uri,
        })
    }

    /// The URI of its `SKILL.md`, which stands for the skill.
    pub fn uri(&self) -> String {
        format!("{}/{MANIFEST}", self.directory)
    }

    /// Its entry in `skills/list` and the answer to `skills/get`, as JSON.
    pub fn entry(&self) -> String {
        written(|entry| {
            entry.string("uri", &self.uri());
            entry.member(
                "frontmatter",
                &Value::Object(self.frontmatter.fields.clone()).to_string(),
            );
            let files = self.files.iter().map(|(uri, file)| {
                written(|resource| {
                    resource.string("uri", uri);
                    resource.string("digest", &file.digest);
                    resource.member("size", &file.bytes.len().to_string());
                })
            });
            entry.member("resources", &list(files));
        })
    }

    /// Whether `uri` is that of a file of it.
    pub fn has(&self, uri: &str) -> bool {
        self.files.contains_key(uri)
    }

    /// The files with their URIs.
    pub fn files(&self) -> impl Iterator<Item = (&str, &File)> {
        self.files.iter().map(|(uri, file)| (uri.as_str(), file))
    }

    /// The descriptor of each file in `resources/list`, with its URI, as JSON; that of `SKILL.md` has the skill's name
    /// and description.
    pub fn resources(&self) -> impl Iterator<Item = (&str, String)> {
        self.files().map(|(uri, file)| (uri, self.descriptor(uri, file)))
    }

    /// The contents that `resources/read` gives of `uri`, as JSON, or `None` if it is no file of the skill: text where
    /// the bytes are text, so that the same bytes can be made of it again.
    pub fn read(&self, uri: &str) -> Option<String> {
        let file = self.files.get(uri)?;
        let content = written(|content| {
            content.string("uri", uri);
            content.string("mimeType", file.mime_type);
            match std::str::from_utf8(&file.bytes) {
                Ok(text) => content.string("text", text),
                Err(_) => content.string("blob", &BASE64.encode(&file.bytes)),
            }
        });
        Some(list([content].into_iter()))
    }

    /// The descriptors of what is directly in the directory `uri`, in order of their URIs, as a JSON array; `None` if it
    /// is no directory of the skill. Directories are of type `inode/directory`.
    pub fn list_directory(&self, uri: &str) -> Option<String> {
        let directory = uri.strip_suffix('/').unwrap_or(uri);
        let is_inside = directory == self.directory
            || directory
                .strip_prefix(self.directory.as_str())
                .is_some_and(|rest| rest.starts_with('/'));
        if !is_inside {
            return None;
        }
        let start = format!("{directory}/");
        let mut seen = BTreeSet::new();
        let mut children = Vec::new();
        let below = self
            .files
            .range(start.clone()..)
            .take_while(|(file, _)| file.starts_with(&start));
        for (file_uri, file) in below {
            let rest = file_uri.strip_prefix(&start)?;
            let Some((name, _)) = rest.split_once('/') else {
                children.push((file_uri.clone(), self.descriptor(file_uri, file)));
                continue;
            };
            // The name as it was before it was encoded.
            let depth = file.path.split('/').count() - rest.split('/').count();
            let plain = file.path.split('/').nth(depth).unwrap_or(name);
            let child = format!("{start}{name}");
            if seen.insert(child.clone()) {
                let descriptor = written(|resource| {
                    resource.string("uri", &child);
                    resource.string("name", plain);
                    resource.string("mimeType", "inode/directory");
                });
                children.push((child, descriptor));
            }
        }
        children.sort();
        (!children.is_empty()).then(|| list(children.into_iter().map(|(_, descriptor)| descriptor)))
    }

    fn descriptor(&self, uri: &str, file: &File) -> String {
        written(|resource| {
            resource.string("uri", uri);
            if file.path == MANIFEST {
                resource.string("name", &self.frontmatter.name);
                resource.string("description", &self.frontmatter.description);
            } else {
                resource.string("name", file.path.rsplit('/').next().unwrap_or(&file.path));
            }
            resource.string("mimeType", file.mime_type);
            resource.member("size", &file.bytes.len().to_string());
        })
    }
}

/// The digest of a file as entries have it.
pub fn digest_of(bytes: &[u8]) -> String {
    let digits = digest(&SHA256, bytes);
    let hex: String = digits.as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
    format!("sha256:{hex}")
}

/// Longest part of a path in a message.
const PATH_SHOWN: usize = 128;

fn is_plain_path(path: &str) -> bool {
    let is_plain = |part: &str| !part.is_empty() && part != "." && part != "..";
    path.split('/').all(is_plain) && !path.contains(|c| c == '\\' || acts_on_the_line(c))
}

/// The type of a file by the end of its name, else by whether it is text.
fn mime_type(path: &str, bytes: &[u8]) -> &'static str {
    let name = path.rsplit('/').next().unwrap_or(path);
    let extension = name
        .rsplit_once('.')
        .map_or("", |(_, extension)| extension)
        .to_ascii_lowercase();
    match extension.as_str() {
        "md" | "markdown" => "text/markdown",
        "txt" => "text/plain",
        "py" => "text/x-python",
        "sh" | "bash" => "text/x-shellscript",
        "js" | "mjs" => "text/javascript",
        "html" | "htm" => "text/html",
        "css" => "text/css",
        "csv" => "text/csv",
        "json" => "application/json",
        "yaml" | "yml" => "application/yaml",
        "toml" => "application/toml",
        "xml" => "application/xml",
        "pdf" => "application/pdf",
        "zip" => "application/zip",
        "gz" => "application/gzip",
        "png" => "image/png",
        "jpg" | "jpeg" => "image/jpeg",
        "gif" => "image/gif",
        "svg" => "image/svg+xml",
        "webp" => "image/webp",
        _ if std::str::from_utf8(bytes).is_ok() => "text/plain",
        _ => "application/octet-stream",
    }
}

fn written(write: impl FnOnce(&mut ObjectWriter<'_>)) -> String {
    let mut out = Vec::new();
    let mut object = ObjectWriter::open(&mut out);
    write(&mut object);
    object.close();
    String::from_utf8_lossy(&out).into_owned()
}

fn list(items: impl Iterator<Item = String>) -> String {
    format!("[{}]", items.collect::<Vec<_>>().join(","))
}

#[cfg(test)]
mod tests;
