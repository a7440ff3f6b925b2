//! Directories of skills: which ones federations name, and the files in them.

use std::collections::BTreeMap;
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

use super::collection::Collection;
use super::objects::{Manifests, SkillDirectory, SkillFiles};
use super::tree::{Tree, unreadable};
use crate::defaults::{SKILL_BYTES_MAX, SKILL_TREE_BYTES_MAX};

/// Makes the directories of federations relative to us, as those of the files that name them are.
pub(super) fn settle(collection: &mut Collection) {
    for federation in &mut collection.federations {
        let beside = Path::new(&federation.source.file)
            .parent()
            .unwrap_or_else(|| Path::new(""));
        let sources = federation.object.spec.skills.iter_mut();
        for directory in sources.filter_map(|source| source.directory.as_mut()) {
            *directory = beside.join(&*directory).to_string_lossy().into_owned();
        }
    }
}

/// Reads the directories that the federations of `manifests` name.
pub(super) fn read(manifests: &Manifests) -> Vec<SkillDirectory> {
    let read = |path: PathBuf| SkillDirectory {
        files: contents(&path),
        path,
    };
    named(manifests).into_iter().map(read).collect()
}

/// The directories that the federations of `manifests` name.
pub fn named(manifests: &Manifests) -> Vec<PathBuf> {
    let sources = manifests.federations.iter().flat_map(|own| &own.spec.skills);
    let mut named: Vec<PathBuf> = sources
        .filter_map(|source| source.directory.as_ref().map(PathBuf::from))
        .collect();
    named.sort();
    named.dedup();
    named
}

/// What is read of skills in the directory `root`, by the paths of files in it: of a directory that is a skill itself
/// with its name before them, for that is the skill's.
fn contents(root: &Path) -> Result<SkillFiles, String> {
    let is_skill = fs::symlink_metadata(root.join("SKILL.md")).is_ok_and(|manifest| !manifest.is_dir());
    let own = match is_skill {
        true => {
            let real = fs::canonicalize(root).map_err(|error| error.to_string())?;
            let name = real.file_name().map(|name| name.to_string_lossy().into_owned());
            format!("{}/", name.unwrap_or_default())
        }
        false => String::new(),
    };
    let within = |path: &Path| format!("{own}{}", path.strip_prefix(root).unwrap_or(path).to_string_lossy());
    let tree = Tree::of(root)?;
    let faults = tree.faults.into_iter().map(|(path, fault)| (within(&path), fault));
    let mut all = SkillFiles {
        read: BTreeMap::new(),
        unread: faults.collect(),
    };
    let mut total = 0;
    for path in tree.files {
        match read_file(&path) {
            Ok(bytes) => {
                total += bytes.len() as u64;
                if total > SKILL_TREE_BYTES_MAX {
                    let most = SKILL_TREE_BYTES_MAX >> 20;
                    return Err(format!("more than {most} MiB are in it; name a smaller one"));
                }
                all.read.insert(within(&path), bytes);
            }
            Err(fault) => {
                all.unread.insert(within(&path), fault);
            }
        }
    }
    Ok(all)
}

fn read_file(path: &Path) -> Result<Vec<u8>, String> {
    if path.to_str().is_none() {
        return Err(format!("{} has a name that is not UTF-8; rename it", path.display()));
    }
    let mut bytes = Vec::new();
    // One byte more than is allowed shows that there are more.
    let opened = fs::File::open(path).map_err(|error| unreadable(path, &error))?;
    let read = opened.take(SKILL_BYTES_MAX + 1).read_to_end(&mut bytes);
    read.map_err(|error| unreadable(path, &error))?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    fn write(root: &Path, name: &str, bytes: &[u8]) {
        let path = root.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
    }

    fn keys<V>(of: &BTreeMap<String, V>) -> Vec<&str> {
        of.keys().map(String::as_str).collect()
    }

    #[test]
    fn all_files_are_read_but_hidden_ones() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("skills");
        write(&root, "ops/backup/SKILL.md", b"one");
        write(&root, "ops/backup/bin/run", b"\xff\0");
        write(&root, ".git/config", b"x");
        write(&root, "ops/backup/.DS_Store", b"x");
        symlink("nowhere", root.join("ops/backup/.broken")).unwrap();
        let SkillFiles { read, unread } = contents(&root).unwrap();
        assert_eq!(keys(&read), ["ops/backup/SKILL.md", "ops/backup/bin/run"]);
        assert_eq!(read["ops/backup/bin/run"], b"\xff\0");
        assert_eq!(unread, BTreeMap::new());
    }

    #[test]
    fn a_directory_that_is_a_skill_gives_it_its_name() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("backup");
        write(&root, "SKILL.md", b"one");
        symlink("nowhere", root.join("broken")).unwrap();
        let all = contents(&root.join(".")).unwrap();
        assert_eq!(keys(&all.read), ["backup/SKILL.md"]);
        assert_eq!(keys(&all.unread), ["backup/broken"]);
        fs::remove_file(root.join("SKILL.md")).unwrap();
        symlink("nowhere", root.join("SKILL.md")).unwrap();
        assert_eq!(
            keys(&contents(&root).unwrap().unread),
            ["backup/SKILL.md", "backup/broken"]
        );
    }

    #[test]
    fn what_cannot_be_read_is_named_beside_what_can() {
        use std::ffi::OsStr;
        use std::os::unix::ffi::OsStrExt;

        let folder = tempfile::tempdir().unwrap();
        write(folder.path(), "a/SKILL.md", b"one");
        let odd = folder.path().join("b").join(OsStr::from_bytes(b"\xff"));
        write(folder.path(), "b/SKILL.md", b"two");
        fs::write(odd, b"x").unwrap();
        symlink("gone", folder.path().join("b/link")).unwrap();
        let all = contents(folder.path()).unwrap();
        assert_eq!(keys(&all.read), ["a/SKILL.md", "b/SKILL.md"]);
        assert_eq!(keys(&all.unread), ["b/link", "b/\u{fffd}"]);
        assert!(contents(&folder.path().join("nope")).is_err());
    }
}
