//! The skills of a federation itself, served from its own files.

use std::collections::{BTreeMap, btree_map};
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
}

impl LeftOutCause {
    /// One CamelCase word.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Package(error) => error.reason(),
            Self::Twice => "PathTwice",
            Self::Stray => "ManifestMissing",
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
/// is in it.
pub fn packages(prefix: &[String], files: &[(String, Bytes)]) -> (Vec<Package>, Vec<LeftOut>) {
    let directory_of = |path: &str| path.strip_suffix(MANIFEST)?.strip_suffix('/').map(str::to_owned);
    let directories: Vec<String> = files.iter().filter_map(|(path, _)| directory_of(path)).collect();
    let is_in = |directory: &str, path: &str| {
        let rest = path.strip_prefix(directory)?.strip_prefix('/')?;
        Some(rest.to_owned())
    };
    let (mut packages, mut left_out) = (Vec::new(), Vec::new());
    for directory in &directories {
        let own = files
            .iter()
            .filter_map(|(path, bytes)| Some((is_in(directory, path)?, bytes.clone())));
        let path = prefix
            .iter()
            .map(String::as_str)
            .chain([directory.as_str()])
            .collect::<Vec<_>>()
            .join("/");
        match Package::new(&path, own.collect()) {
            Ok(package) => packages.push(package),
            Err(cause) => left_out.push(LeftOut {
                path: printable(&path, PATH_SHOWN),
                cause: cause.into(),
            }),
        }
    }
    let strays = files
        .iter()
        .filter(|(path, _)| directories.iter().all(|directory| is_in(directory, path).is_none()));
    left_out.extend(strays.map(|(path, _)| LeftOut {
        path: printable(path, PATH_SHOWN),
        cause: LeftOutCause::Stray,
    }));
    (packages, left_out)
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
        let files: Vec<_> = paths.iter().map(|path| file(path)).collect();
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
        let files = [
            ("alpha/SKILL.md".to_owned(), manifest("beta")),
            ("gamma/SKILL.md".to_owned(), manifest("gamma")),
        ];
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
    fn what_is_served_tells_them_apart() {
        let one = served(&[], &["a/SKILL.md", "a/x"]).0;
        assert_eq!(one, served(&[], &["a/x", "a/SKILL.md"]).0);
        assert_ne!(one, served(&[], &["a/SKILL.md"]).0);
    }
}
