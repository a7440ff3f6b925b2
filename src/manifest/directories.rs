//! Directories of skills: which ones federations name, and the files in them.

use std::collections::BTreeMap;
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

use super::collection::Collection;
use super::objects::{Manifests, SkillDirectory};
use crate::defaults::{SKILL_BYTES_MAX, SKILL_DEPTH_MAX, SKILL_TREE_BYTES_MAX, SKILL_TREE_FILES_MAX};

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
        files: files(&path),
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

/// The files in the directory `root` at any depth, those with hidden names left out.
///
/// # Errors
/// It cannot be read, a link in it leads out of it, or there is more in it than is ever read.
pub fn walk(root: &Path) -> Result<Vec<PathBuf>, String> {
    let real = fs::canonicalize(root).map_err(|error| unreadable(root, &error))?;
    let mut found = Vec::new();
    descend(root, &real, 0, &mut found)?;
    found.sort();
    Ok(found)
}

fn descend(directory: &Path, root: &Path, depth: usize, found: &mut Vec<PathBuf>) -> Result<(), String> {
    if depth > SKILL_DEPTH_MAX {
        return Err(format!(
            "{} is deeper than {SKILL_DEPTH_MAX} directories",
            directory.display()
        ));
    }
    for entry in fs::read_dir(directory).map_err(|error| unreadable(directory, &error))? {
        let path = entry.map_err(|error| unreadable(directory, &error))?.path();
        let name = path.file_name().unwrap_or_default();
        if name.as_encoded_bytes().starts_with(b".") {
            continue;
        }
        let real = fs::canonicalize(&path).map_err(|error| unreadable(&path, &error))?;
        if !real.starts_with(root) {
            return Err(format!(
                "{} leads out of the directory; put the file itself there",
                path.display()
            ));
        }
        if real.is_dir() {
            descend(&path, root, depth + 1, found)?;
        } else if real.is_file() {
            if found.len() == SKILL_TREE_FILES_MAX {
                return Err(format!(
                    "more than {SKILL_TREE_FILES_MAX} files are in it; name a smaller one"
                ));
            }
            found.push(path);
        } else {
            return Err(format!("{} is no file; remove it", path.display()));
        }
    }
    Ok(())
}

/// The files of skills in the directory `root`, by their paths: of one that is a skill itself with its name before
/// them, for that is the skill's.
fn files(root: &Path) -> Result<BTreeMap<String, Vec<u8>>, String> {
    let own = match root.join("SKILL.md").is_file() {
        true => {
            let real = fs::canonicalize(root).map_err(|error| unreadable(root, &error))?;
            let name = real.file_name().map(|name| name.to_string_lossy().into_owned());
            format!("{}/", name.unwrap_or_default())
        }
        false => String::new(),
    };
    let mut all = BTreeMap::new();
    let mut total = 0;
    for path in walk(root)? {
        let within = path.strip_prefix(root).unwrap_or(&path).to_str();
        let within = within.ok_or_else(|| format!("{} has a name that is not UTF-8", path.display()))?;
        let mut bytes = Vec::new();
        // One byte more than is allowed shows that there are more.
        let opened = fs::File::open(&path).map_err(|error| unreadable(&path, &error))?;
        let read = opened.take(SKILL_BYTES_MAX + 1).read_to_end(&mut bytes);
        read.map_err(|error| unreadable(&path, &error))?;
        total += bytes.len() as u64;
        if total > SKILL_TREE_BYTES_MAX {
            let most = SKILL_TREE_BYTES_MAX >> 20;
            return Err(format!("more than {most} MiB are in it; name a smaller one"));
        }
        all.insert(format!("{own}{within}"), bytes);
    }
    Ok(all)
}

fn unreadable(path: &Path, error: &std::io::Error) -> String {
    format!("{} cannot be read: {error}", path.display())
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

    #[test]
    fn all_files_are_read_but_hidden_ones() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("skills");
        write(&root, "ops/backup/SKILL.md", b"one");
        write(&root, "ops/backup/bin/run", b"\xff\0");
        write(&root, ".git/config", b"x");
        write(&root, "ops/backup/.DS_Store", b"x");
        let read = files(&root).unwrap();
        let keys: Vec<_> = read.keys().map(String::as_str).collect();
        assert_eq!(keys, ["ops/backup/SKILL.md", "ops/backup/bin/run"]);
        assert_eq!(read["ops/backup/bin/run"], b"\xff\0");
    }

    #[test]
    fn a_directory_that_is_a_skill_gives_it_its_name() {
        let folder = tempfile::tempdir().unwrap();
        write(&folder.path().join("backup"), "SKILL.md", b"one");
        let read = files(&folder.path().join("backup/.")).unwrap();
        assert_eq!(read.keys().collect::<Vec<_>>(), ["backup/SKILL.md"]);
    }

    #[test]
    fn links_that_lead_out_are_refused_and_others_followed() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("skills");
        write(&root, "a/SKILL.md", b"one");
        symlink("SKILL.md", root.join("a/copy.md")).unwrap();
        assert_eq!(files(&root).unwrap().len(), 2);
        write(folder.path(), "secret", b"s");
        symlink("../../secret", root.join("a/leak")).unwrap();
        assert!(files(&root).unwrap_err().contains("leads out of the directory"));
        assert!(
            files(&folder.path().join("nope"))
                .unwrap_err()
                .contains("cannot be read")
        );
    }

    #[test]
    fn a_link_to_what_it_is_in_does_not_go_on_for_ever() {
        let folder = tempfile::tempdir().unwrap();
        write(folder.path(), "a/SKILL.md", b"one");
        symlink(".", folder.path().join("a/again")).unwrap();
        assert!(files(folder.path()).is_err());
    }
}
