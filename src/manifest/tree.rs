//! What is in a directory of skills, at any depth.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::defaults::{SKILL_DEPTH_MAX, SKILL_TREE_FILES_MAX};
use crate::mcp::printable;

/// What is in a directory, those things left out whose names are hidden.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tree {
    /// Its files, in order.
    pub files: Vec<PathBuf>,
    /// The directories in it, and itself.
    pub directories: Vec<PathBuf>,
    /// What is neither, or is not followed: its path, and what it is and what is to be done, in words.
    pub faults: Vec<(PathBuf, String)>,
}

impl Tree {
    /// Looks through the directory `root`.
    ///
    /// # Errors
    /// Why it cannot be read itself, or that there is more in it than is ever read.
    pub fn of(root: &Path) -> Result<Self, String> {
        let real = fs::canonicalize(root).map_err(|error| error.to_string())?;
        let entries = entries(root).map_err(|error| error.to_string())?;
        let mut walk = Walk {
            found: Self::default(),
            within: vec![real],
            left: SKILL_TREE_FILES_MAX,
        };
        walk.enter(root, entries)?;
        walk.found.files.sort();
        Ok(walk.found)
    }
}

/// That `path` cannot be read, for a person.
pub(super) fn unreadable(path: &Path, error: &io::Error) -> String {
    format!("{} cannot be read: {error}; correct it or remove it", shown(path))
}

struct Walk {
    found: Tree,
    /// Where the directories really are in which it is, the first of them the root.
    within: Vec<PathBuf>,
    /// How many entries it may look at yet.
    left: usize,
}

impl Walk {
    fn enter(&mut self, directory: &Path, entries: Vec<PathBuf>) -> Result<(), String> {
        self.found.directories.push(directory.to_owned());
        for path in entries {
            self.left = self.left.checked_sub(1).ok_or_else(|| {
                format!("more than {SKILL_TREE_FILES_MAX} files and directories are in it; name a smaller one")
            })?;
            if let Err(fault) = self.look_at(&path)? {
                self.found.faults.push((path, fault));
            }
        }
        Ok(())
    }

    /// Takes in what is at `path`; within, the fault that it has.
    fn look_at(&mut self, path: &Path) -> Result<Result<(), String>, String> {
        let real = match fs::canonicalize(path) {
            Ok(real) => real,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Ok(Err(format!(
                    "{} is a link to nothing; correct it or remove it",
                    shown(path)
                )));
            }
            Err(error) => return Ok(Err(unreadable(path, &error))),
        };
        if !self.within.first().is_some_and(|root| real.starts_with(root)) {
            return Ok(Err(format!(
                "{} leads out of the directory; put the file itself there",
                shown(path)
            )));
        }
        if real.is_file() {
            self.found.files.push(path.to_owned());
            return Ok(Ok(()));
        }
        if !real.is_dir() {
            return Ok(Err(format!("{} is no file; remove it", shown(path))));
        }
        if self.within.contains(&real) {
            return Ok(Err(format!(
                "{} is a link to a directory that it is in; remove it",
                shown(path)
            )));
        }
        if self.within.len() > SKILL_DEPTH_MAX {
            return Ok(Err(format!(
                "{} is deeper than {SKILL_DEPTH_MAX} directories; move it up",
                shown(path)
            )));
        }
        let entries = match entries(path) {
            Ok(entries) => entries,
            Err(error) => return Ok(Err(unreadable(path, &error))),
        };
        self.within.push(real);
        self.enter(path, entries)?;
        self.within.pop();
        Ok(Ok(()))
    }
}

/// What is directly in `directory`, in order, without what has a hidden name.
fn entries(directory: &Path) -> io::Result<Vec<PathBuf>> {
    let is_hidden = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default();
        name.as_encoded_bytes().starts_with(b".")
    };
    let paths = fs::read_dir(directory)?.map(|entry| entry.map(|entry| entry.path()));
    // One more than is looked at shows that there are more.
    let paths = paths.filter(|path| !path.as_ref().is_ok_and(is_hidden));
    let mut all: Vec<PathBuf> = paths.take(SKILL_TREE_FILES_MAX + 1).collect::<io::Result<_>>()?;
    all.sort();
    Ok(all)
}

fn shown(path: &Path) -> String {
    printable(&path.to_string_lossy(), PATH_SHOWN)
}

/// Most characters of a path that are shown.
const PATH_SHOWN: usize = 512;

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    fn write(root: &Path, name: &str) {
        let path = root.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, b"x").unwrap();
    }

    /// The files and faults in `root`, by their paths in it.
    fn seen(root: &Path) -> (Vec<String>, Vec<(String, String)>) {
        let tree = Tree::of(root).unwrap();
        let within = |path: &Path| path.strip_prefix(root).unwrap().to_string_lossy().into_owned();
        let faults = tree.faults.iter().map(|(path, fault)| (within(path), fault.clone()));
        (tree.files.iter().map(|path| within(path)).collect(), faults.collect())
    }

    #[test]
    fn each_path_that_is_no_file_is_told_of_and_the_others_are_found() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("skills");
        write(&root, "a/SKILL.md");
        write(&root, "b/SKILL.md");
        write(folder.path(), "secret");
        symlink("SKILL.md", root.join("a/copy.md")).unwrap();
        symlink("nowhere", root.join("b/broken")).unwrap();
        symlink("circle", root.join("b/circle")).unwrap();
        symlink("../../secret", root.join("b/leak")).unwrap();
        symlink("/dev/null", root.join("b/null")).unwrap();
        let socket = root.join("b/socket");
        let _bound = std::os::unix::net::UnixListener::bind(&socket).unwrap();
        let (files, faults) = seen(&root);
        assert_eq!(files, ["a/SKILL.md", "a/copy.md", "b/SKILL.md"]);
        for ((path, fault), (expected, said)) in faults.iter().zip([
            ("b/broken", "is a link to nothing"),
            ("b/circle", "cannot be read"),
            ("b/leak", "leads out of the directory"),
            ("b/null", "leads out of the directory"),
            ("b/socket", "is no file"),
        ]) {
            assert_eq!(path, expected);
            assert!(fault.contains(said) && fault.contains(expected), "{fault}");
        }
        assert_eq!(faults.len(), 5);
    }

    #[test]
    fn a_link_back_is_not_followed_and_one_to_a_neighbour_is() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        write(root, "a/SKILL.md");
        write(root, "b/SKILL.md");
        symlink(".", root.join("a/again")).unwrap();
        symlink("..", root.join("a/up")).unwrap();
        symlink("../b", root.join("a/other")).unwrap();
        symlink("../a", root.join("b/back")).unwrap();
        let (files, faults) = seen(root);
        assert_eq!(
            files,
            ["a/SKILL.md", "a/other/SKILL.md", "b/SKILL.md", "b/back/SKILL.md"]
        );
        let faults: Vec<_> = faults.iter().map(|(path, _)| path.as_str()).collect();
        assert_eq!(
            faults,
            [
                "a/again",
                "a/other/back",
                "a/up",
                "b/back/again",
                "b/back/other",
                "b/back/up"
            ]
        );
    }

    #[test]
    fn more_than_is_ever_looked_at_is_an_error_of_the_whole() {
        let folder = tempfile::tempdir().unwrap();
        // Each level doubles what there is to look at.
        for level in 0..16 {
            let directory = folder.path().join(format!("level-{level}"));
            fs::create_dir(&directory).unwrap();
            for link in ["one", "two"] {
                symlink(format!("../level-{}", level + 1), directory.join(link)).unwrap();
            }
        }
        fs::create_dir(folder.path().join("level-16")).unwrap();
        assert!(Tree::of(folder.path()).unwrap_err().contains("name a smaller one"));
        assert!(
            Tree::of(&folder.path().join("nope"))
                .unwrap_err()
                .contains("No such file")
        );
    }

    #[test]
    fn what_is_too_deep_is_a_fault_of_its_own() {
        let folder = tempfile::tempdir().unwrap();
        write(folder.path(), "a/SKILL.md");
        let mut deep = folder.path().to_owned();
        for _ in 0..=SKILL_DEPTH_MAX {
            deep.push("d");
        }
        write(&deep, "SKILL.md");
        let (files, faults) = seen(folder.path());
        assert_eq!((files.len(), faults.len()), (1, 1));
        assert!(faults[0].1.contains("deeper than"), "{faults:?}");
    }
}
