//! The skills of a federation itself, served from its own files.

use std::collections::{BTreeMap, BTreeSet, btree_map};
use std::sync::Arc;

use bytes::Bytes;
use serde_json::value::RawValue;

use super::package::{Package, PackageError};
use super::uri::{self, MANIFEST};
use crate::index::catalog::Catalog;
use crate::index::item::Item;
use crate::index::list::List;
use crate::mcp::{Era, printable};

/// The skills of a federation itself.
#[derive(Clone, Debug)]
pub struct OwnSkills {
    /// By the URIs of their `SKILL.md`.
    packages: BTreeMap<String, Package>,
    catalog: Arc<Catalog>,
}

/// The files of a source of skills.
#[derive(Clone, Debug, Default)]
pub struct SourceFiles {
    /// Those that were read, each with its path.
    pub read: Vec<(String, Bytes)>,
    /// What is there and was not read.
    pub unread: Vec<Unread>,
}

/// A file that should be one of a skill and was not read, or a directory of such files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unread {
    /// Its path.
    pub path: String,
    /// One CamelCase word.
    pub reason: &'static str,
    /// Why, and what to do, for a person.
    pub why: String,
}

/// A skill that is left out, or a file that is of none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeftOut {
    /// Its directory, or the path of the file.
    pub path: String,
    /// Why.
    pub cause: LeftOutCause,
}

/// Why a skill or a file is left out.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LeftOutCause {
    /// It is no skill as it is.
    #[error(transparent)]
    Package(#[from] PackageError),
    /// Another source of the federation has a skill of the same URI.
    #[error("another skill of the federation has the same path; give one of them another")]
    Twice,
    /// No directory that the file is in has a `SKILL.md`.
    #[error("the file is in no directory with a {MANIFEST}; add one, or leave the file out")]
    Stray,
    /// A file of it could not be read, so that it is not whole.
    #[error("{why}")]
    Unread {
        /// One CamelCase word.
        reason: &'static str,
        /// Why, and what to do, for a person.
        why: String,
    },
}

impl LeftOutCause {
    /// One CamelCase word.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Package(error) => error.reason(),
            Self::Twice => "PathTwice",
            Self::Stray => "ManifestMissing",
            Self::Unread { reason, .. } => reason,
        }
    }
}

impl OwnSkills {
    /// Serves `packages`; of two with one path the first.
    pub fn new(packages: impl IntoIterator<Item = Package>) -> (Self, Vec<LeftOut>) {
        let mut left_out = Vec::new();
        let mut by_uri = BTreeMap::new();
        for package in packages {
            let uri = package.uri();
            match by_uri.entry(uri) {
                btree_map::Entry::Vacant(vacant) => {
                    vacant.insert(package);
                }
                btree_map::Entry::Occupied(taken) => left_out.push(LeftOut {
                    path: printable(taken.key(), PATH_SHOWN),
                    cause: LeftOutCause::Twice,
                }),
            }
        }
        let catalog = Arc::new(catalog(&by_uri));
        let own = Self {
            packages: by_uri,
            catalog,
        };
        (own, left_out)
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.packages.is_empty()
    }

    /// What is listed of them.
    pub fn catalog(&self) -> &Arc<Catalog> {
        &self.catalog
    }

    /// The skill whose `SKILL.md` has this URI.
    pub fn get(&self, manifest: &str) -> Option<&Package> {
        self.packages.get(manifest)
    }

    /// Whether `uri` is that of a file or a directory of one of them.
    pub fn has(&self, uri: &str) -> bool {
        self.around(uri)
            .any(|package| package.has(uri) || package.list_directory(uri).is_some())
    }

    /// The contents that `resources/read` gives of `uri`, if it is a file of one of them.
    pub fn read(&self, uri: &str) -> Option<String> {
        self.around(uri).find_map(|package| package.read(uri))
    }

    /// What is directly in the directory `uri`, if it is one of one of them.
    pub fn list_directory(&self, uri: &str) -> Option<String> {
        self.around(uri).find_map(|package| package.list_directory(uri))
    }

    /// The skills in whose directories `uri` lies, or that it names.
    fn around<'s>(&'s self, uri: &'s str) -> impl Iterator<Item = &'s Package> {
        let named = uri::manifest(uri);
        let named = self.packages.get(&*named);
        named
            .into_iter()
            .chain(uri::manifests_around(uri).filter_map(|manifest| self.packages.get(&manifest)))
    }
}

/// Equal where they show and serve the same: the digests of all files are in what is listed.
impl PartialEq for OwnSkills {
    fn eq(&self, other: &Self) -> bool {
        self.catalog.digest() == other.catalog.digest()
    }
}

impl Eq for OwnSkills {}

/// The skills that `files` are, each with its path below `prefix`: a directory with a `SKILL.md` is one, with all that
/// is in it. One in which something was not read is left out, for hosts would take what is left for the whole.
pub fn packages(prefix: &[String], files: &SourceFiles) -> (Vec<Package>, Vec<LeftOut>) {
    let paths = files.read.iter().map(|(path, _)| path.as_str());
    let paths = paths.chain(files.unread.iter().map(|unread| unread.path.as_str()));
    let directories: BTreeSet<&str> = paths.filter_map(skill_directory).collect();
    let (mut packages, mut left_out) = (Vec::new(), Vec::new());
    for directory in &directories {
        let path = prefix
            .iter()
            .map(String::as_str)
            .chain([*directory])
            .collect::<Vec<_>>()
            .join("/");
        match package(directory, &path, files) {
            Ok(package) => packages.push(package),
            Err(cause) => left_out.push(LeftOut {
                path: printable(&path, PATH_SHOWN),
                cause,
            }),
        }
    }
    let is_stray = |path: &str| directories.iter().all(|directory| within(directory, path).is_none());
    let strays = files.read.iter().filter(|(path, _)| is_stray(path));
    let strays = strays.map(|(path, _)| (path, LeftOutCause::Stray));
    let unread = files.unread.iter().filter(|unread| is_stray(&unread.path));
    let unread = unread.map(|unread| (&unread.path, unread.into()));
    left_out.extend(strays.chain(unread).map(|(path, cause)| LeftOut {
        path: printable(path, PATH_SHOWN),
        cause,
    }));
    (packages, left_out)
}

/// The skill in `directory`, served at `path`.
fn package(directory: &str, path: &str, files: &SourceFiles) -> Result<Package, LeftOutCause> {
    if let Some(unread) = files
        .unread
        .iter()
        .find(|unread| within(directory, &unread.path).is_some())
    {
        return Err(unread.into());
    }
    let own = files.read.iter();
    let own = own.filter_map(|(path, bytes)| Some((within(directory, path)?.to_owned(), bytes.clone())));
    Ok(Package::new(path, own.collect())?)
}

/// The directory that is a skill because a file has this path.
fn skill_directory(path: &str) -> Option<&str> {
    path.strip_suffix(MANIFEST)?.strip_suffix('/')
}

/// Where `path` is in `directory`, if it is in it.
fn within<'p>(directory: &str, path: &'p str) -> Option<&'p str> {
    path.strip_prefix(directory)?.strip_prefix('/')
}

impl From<&Unread> for LeftOutCause {
    fn from(unread: &Unread) -> Self {
        Self::Unread {
            reason: unread.reason,
            why: unread.why.clone(),
        }
    }
}

/// A file of a skill within another is described by the inner one, whose it is first.
fn catalog(packages: &BTreeMap<String, Package>) -> Catalog {
    let mut catalog = Catalog::new(Era::Modern);
    let item = |list, json: String| Item::read(list, RawValue::from_string(json).ok()?);
    let mut innermost: Vec<&Package> = packages.values().collect();
    innermost.sort_by_key(|package| std::cmp::Reverse(package.uri().len()));
    let mut seen = std::collections::HashSet::new();
    for package in innermost {
        let files = package.resources().filter(|(uri, _)| seen.insert((*uri).to_owned()));
        catalog
            .resources
            .extend(files.filter_map(|(_, json)| item(List::Resources, json)));
    }
    let skills = packages
        .values()
        .filter_map(|package| item(List::Skills, package.entry()));
    catalog.skills = skills.collect();
    catalog.sealed()
}

const PATH_SHOWN: usize = 256;

#[cfg(test)]
mod tests {
    use super::*;

    fn manifest(name: &str) -> Bytes {
        Bytes::from(format!("---\nname: {name}\ndescription: D\n---\n"))
    }

    fn file(path: &str) -> (String, Bytes) {
        let name = path.strip_suffix("/SKILL.md").and_then(|dir| dir.rsplit('/').next());
        (path.to_owned(), name.map_or(Bytes::from_static(b"x"), manifest))
    }

    fn served(prefix: &[&str], paths: &[&str]) -> (OwnSkills, Vec<(String, &'static str)>) {
        let prefix: Vec<String> = prefix.iter().map(|part| (*part).to_owned()).collect();
        let files = SourceFiles {
            read: paths.iter().map(|path| file(path)).collect(),
            unread: Vec::new(),
        };
        let (packages, mut left_out) = packages(&prefix, &files);
        let (own, more) = OwnSkills::new(packages);
        left_out.extend(more);
        let left_out = left_out.into_iter().map(|left| (left.path, left.cause.reason()));
        (own, left_out.collect())
    }

    fn uris(items: &[Item]) -> Vec<&str> {
        items.iter().map(|item| item.key.as_str()).collect()
    }

    #[test]
    fn each_directory_with_a_manifest_is_a_skill_with_all_that_is_in_it() {
        let (own, left_out) = served(
            &["ops"],
            &[
                "net/a/SKILL.md",
                "net/a/x/y.txt",
                "b/SKILL.md",
                "net/a/in/SKILL.md",
                "stray.txt",
            ],
        );
        assert_eq!(left_out, [("stray.txt".to_owned(), "ManifestMissing")]);
        let catalog = own.catalog();
        assert_eq!(
            uris(&catalog.skills),
            [
                "skill://ops/b/SKILL.md",
                "skill://ops/net/a/SKILL.md",
                "skill://ops/net/a/in/SKILL.md"
            ]
        );
        assert_eq!(catalog.resources.len(), 4, "each file once");
        assert!(
            own.get("skill://ops/net/a/SKILL.md")
                .unwrap()
                .entry()
                .contains("skill://ops/net/a/in/SKILL.md")
        );
        for uri in [
            "skill://ops/net/a",
            "skill://ops/net/a/",
            "skill://ops/net/a/x",
            "skill://ops/net/a/x/y.txt",
        ] {
            assert!(own.has(uri), "{uri}");
        }
        for uri in ["skill://ops/net", "skill://ops/net/a/z", "skill://ops", "skill://", ""] {
            assert!(!own.has(uri), "{uri}");
        }
        assert!(own.read("skill://ops/net/a/x/y.txt").unwrap().contains(r#""text":"x""#));
        assert!(own.list_directory("skill://ops/net/a/x").unwrap().contains("y.txt"));
    }

    #[test]
    fn a_bad_skill_is_left_out_and_named_and_the_others_are_served() {
        let files = SourceFiles {
            read: vec![
                ("alpha/SKILL.md".to_owned(), manifest("beta")),
                ("gamma/SKILL.md".to_owned(), manifest("gamma")),
            ],
            unread: Vec::new(),
        };
        let (packages, left_out) = packages(&[], &files);
        assert_eq!(packages.len(), 1);
        assert_eq!(
            (left_out[0].path.as_str(), left_out[0].cause.reason()),
            ("alpha", "NameMismatch")
        );
        let twice = [packages[0].clone(), packages[0].clone()];
        let (own, left_out) = OwnSkills::new(twice);
        assert_eq!((own.packages.len(), left_out[0].cause.reason()), (1, "PathTwice"));
    }

    #[test]
    fn a_skill_that_was_not_read_whole_is_left_out_and_the_others_are_served() {
        let unread = |path: &str| Unread {
            path: path.to_owned(),
            reason: "RefUnreadable",
            why: format!("{path} is a link to nothing"),
        };
        let files = SourceFiles {
            read: [
                "a/SKILL.md",
                "b/SKILL.md",
                "b/in/SKILL.md",
                "c/x",
                "d/SKILL.md",
                "d/in/SKILL.md",
                "aa/SKILL.md",
            ]
            .map(file)
            .into(),
            unread: ["a/x", "b/in/sub", "c/SKILL.md", "gone", "d/y"].map(unread).into(),
        };
        let (packages, left_out) = packages(&["ops".to_owned()], &files);
        let served: Vec<_> = packages.iter().map(Package::uri).collect();
        assert_eq!(served, ["skill://ops/aa/SKILL.md", "skill://ops/d/in/SKILL.md"]);
        let left_out: Vec<_> = left_out
            .iter()
            .map(|left| (left.path.as_str(), left.cause.to_string()))
            .collect();
        let expected = [
            ("ops/a", "a/x"),
            ("ops/b", "b/in/sub"),
            ("ops/b/in", "b/in/sub"),
            ("ops/c", "c/SKILL.md"),
            ("ops/d", "d/y"),
            ("gone", "gone"),
        ];
        assert_eq!(
            left_out,
            expected.map(|(path, why)| (path, format!("{why} is a link to nothing")))
        );
    }

    #[test]
    fn what_is_served_tells_them_apart() {
        let one = served(&[], &["a/SKILL.md", "a/x"]).0;
        assert_eq!(one, served(&[], &["a/x", "a/SKILL.md"]).0);
        assert_ne!(one, served(&[], &["a/SKILL.md"]).0);
    }
}
