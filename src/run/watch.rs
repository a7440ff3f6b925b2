//! The files that a fleet is read from, watched for changes.
//!
//! The system's notices only say when to look: whether something changed is judged by the files themselves. So
//! editors that replace a file, swapped links of mounted ConfigMaps, files that come back after they were deleted and
//! file systems without notices (network shares, mounts into virtual machines) are all the same here.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, Metadata};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{self, Read};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use notify::event::ModifyKind;
use notify::{Event, EventKind, RecommendedWatcher, RecursiveMode, Watcher};
use tokio::sync::Notify;
use tokio::time::{Instant, sleep, timeout};
use tracing::debug;

use crate::manifest::Tree;
use crate::{defaults, manifest};

/// Files, directories with the files directly in them, and others with all that is in them.
#[derive(Debug)]
pub(crate) struct FileWatch {
    watched: Arc<Watched>,
    seen: Arc<Snapshot>,
    noticed: Arc<Notify>,
    /// Something was noticed since the last look.
    suspect: bool,
    _watcher: Option<RecommendedWatcher>,
}

impl FileWatch {
    /// Watches `paths`, which need not exist. To be made before they are read: what changes from now on is told.
    /// Blocks for as long as reading them takes.
    pub(crate) fn new(paths: impl IntoIterator<Item = PathBuf>) -> Self {
        Self::of(Watched {
            paths: paths.into_iter().collect(),
            deep: false,
        })
    }

    /// The same for directories with all that is in them.
    pub(crate) fn deep(directories: impl IntoIterator<Item = PathBuf>) -> Self {
        Self::of(Watched {
            paths: directories.into_iter().collect(),
            deep: true,
        })
    }

    /// What is watched.
    pub(crate) fn paths(&self) -> &[PathBuf] {
        &self.watched.paths
    }

    fn of(watched: Watched) -> Self {
        let noticed = Arc::default();
        // First the watcher, so that nothing falls between it and the look.
        let watcher = watcher(&watched, &noticed);
        Self {
            seen: Arc::new(Snapshot::of(&watched)),
            watched: Arc::new(watched),
            noticed,
            suspect: false,
            _watcher: watcher,
        }
    }

    /// Waits until something changed since the last time this returned, and has been quiet for
    /// [`defaults::COALESCE`], or keeps changing for [`defaults::COALESCE_MAX`]. Nothing is lost when the future is
    /// dropped.
    pub(crate) async fn changed(&mut self) {
        loop {
            self.suspect |= timeout(defaults::FILE_POLL, self.noticed.notified()).await.is_ok();
            let (seen, suspect) = (self.seen.clone(), self.suspect);
            // A notice makes the content count: two writes can have the same time and length.
            let differs = move |watched: &Watched| {
                seen.files != watched.stats() || (suspect && seen.content != Snapshot::of(watched).content)
            };
            if self.look(differs).await == Some(true) {
                return self.settle().await;
            }
            self.suspect = false;
            // A neighbour that is written to all the time is not worth more looks than this.
            sleep(defaults::COALESCE).await;
        }
    }

    async fn settle(&mut self) {
        let deadline = Instant::now() + defaults::COALESCE_MAX;
        let mut last = self.look(Snapshot::of).await;
        while Instant::now() < deadline {
            sleep(defaults::COALESCE).await;
            let now = self.look(Snapshot::of).await;
            if now == last {
                break;
            }
            last = now;
        }
        // Made anew, since directories may have been replaced; what changes after the look is noticed by it.
        let noticed = self.noticed.clone();
        let renewed = self
            .look(move |watched| (watcher(watched, &noticed), Snapshot::of(watched)))
            .await;
        if let Some((watcher, seen)) = renewed {
            self._watcher = watcher;
            self.seen = Arc::new(seen);
            self.suspect = false;
        }
    }

    /// What `judge` makes of the files; it may block.
    async fn look<T: Send + 'static>(&self, judge: impl FnOnce(&Watched) -> T + Send + 'static) -> Option<T> {
        let watched = self.watched.clone();
        tokio::task::spawn_blocking(move || judge(&watched)).await.ok()
    }
}

/// What is watched.
#[derive(Debug)]
struct Watched {
    paths: Vec<PathBuf>,
    /// Whether directories are watched with all that is in them, and not just with their manifests.
    deep: bool,
}

/// What the files look like at one moment.
#[derive(Debug, PartialEq, Eq)]
struct Snapshot {
    /// Each file by its path; a path that is missing is not in here.
    files: BTreeMap<PathBuf, Stat>,
    /// A hash over the contents of them all.
    content: u64,
}

#[derive(Debug, PartialEq, Eq)]
struct Stat {
    /// Where links lead.
    real: Option<PathBuf>,
    modified: Option<SystemTime>,
    length: u64,
    /// Who may read it.
    mode: u32,
    is_file: bool,
}

impl Snapshot {
    fn of(watched: &Watched) -> Self {
        let files = watched.stats();
        let mut hasher = DefaultHasher::new();
        // A pipe can be read but once, and not by us.
        for path in files.iter().filter_map(|(path, stat)| stat.is_file.then_some(path)) {
            hash_content(path, &mut hasher).ok();
        }
        Self {
            files,
            content: hasher.finish(),
        }
    }
}

impl Watched {
    fn stats(&self) -> BTreeMap<PathBuf, Stat> {
        let mut seen = BTreeMap::new();
        for path in &self.paths {
            match (path.is_dir(), self.deep) {
                (false, _) => seen.extend(Stat::of(path).map(|stat| (path.clone(), stat))),
                (true, false) => {
                    seen.extend(manifests(path).filter_map(|path| Stat::of(&path).map(|stat| (path, stat))));
                }
                // What cannot be read is told when it is read.
                (true, true) => seen.extend(deep_stats(&Tree::of(path).unwrap_or_default())),
            }
        }
        seen
    }

    /// The files that are named, and those that their links lead to. `None` where whatever is in a directory counts.
    fn own_files(&self) -> Option<BTreeSet<PathBuf>> {
        let named = self.paths.iter().filter_map(|path| std::path::absolute(path).ok());
        let real = self.paths.iter().filter_map(|path| fs::canonicalize(path).ok());
        (!self.deep).then(|| {
            // Notices name files by the real directory in which they are watched.
            let in_real = self.paths.iter().filter_map(|path| {
                let directory = fs::canonicalize(std::path::absolute(path).ok()?.parent()?).ok()?;
                Some(directory.join(path.file_name()?))
            });
            named.chain(real).chain(in_real).collect()
        })
    }

    /// The directories in which a change shows.
    fn directories(&self) -> BTreeSet<PathBuf> {
        let mut all = directories(&self.paths);
        if self.deep {
            all.extend(
                self.paths
                    .iter()
                    .flat_map(|path| Tree::of(path).unwrap_or_default().directories),
            );
        }
        all
    }
}

/// Of the files in a directory, and of what would be one if it could be read.
fn deep_stats(tree: &Tree) -> impl Iterator<Item = (PathBuf, Stat)> {
    let files = tree.files.iter().filter_map(|path| Some((path, Stat::of(path)?)));
    let faults = tree.faults.iter();
    let faults = faults.filter_map(|(path, _)| Some((path, Stat::new(path, &fs::symlink_metadata(path).ok()?))));
    files.chain(faults).map(|(path, stat)| (path.clone(), stat))
}

/// What is directly in a directory and would be read.
fn manifests(directory: &Path) -> impl Iterator<Item = PathBuf> {
    let entries = fs::read_dir(directory)
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.path());
    entries.filter(|path| manifest::is_manifest(path))
}

impl Stat {
    /// Of regular files only.
    fn of(path: &Path) -> Option<Self> {
        let metadata = fs::metadata(path).ok().filter(Metadata::is_file)?;
        Some(Self::new(path, &metadata))
    }

    fn new(path: &Path, metadata: &Metadata) -> Self {
        Self {
            real: fs::canonicalize(path).ok(),
            modified: metadata.modified().ok(),
            length: metadata.len(),
            mode: metadata.permissions().mode(),
            is_file: metadata.is_file(),
        }
    }
}

fn hash_content(path: &Path, hasher: &mut DefaultHasher) -> io::Result<()> {
    let mut bytes = Vec::new();
    fs::File::open(path)?.take(CONTENT_MAX).read_to_end(&mut bytes)?;
    (path, bytes).hash(hasher);
    Ok(())
}

/// As much of a file as is compared when its time and length are the same.
const CONTENT_MAX: u64 = 1 << 20;

/// A watcher on every directory in which a change shows; `None` where the system gives none.
fn watcher(watched: &Watched, noticed: &Arc<Notify>) -> Option<RecommendedWatcher> {
    let noticed = noticed.clone();
    let own = watched.own_files();
    let handler = move |event: notify::Result<Event>| {
        if !event.is_ok_and(|event| is_of_no_matter(&event, own.as_ref())) {
            noticed.notify_one();
        }
    };
    let told = |error: &notify::Error| debug!("changes of files are not told, they are looked for instead: {error}");
    let mut watcher = notify::recommended_watcher(handler).inspect_err(told).ok()?;
    for directory in watched.directories() {
        watcher
            .watch(&directory, RecursiveMode::NonRecursive)
            .inspect_err(told)
            .ok();
    }
    Some(watcher)
}

/// Whether nothing that is watched can have changed by it: reading is an event too, also our own, and so is what others
/// write into files of theirs in the same directory, such as a log of ours. `own` are the files that count whatever they
/// are called; none where all count.
fn is_of_no_matter(event: &Event, own: Option<&BTreeSet<PathBuf>>) -> bool {
    match (event.kind, own) {
        (EventKind::Access(_), _) => true,
        (EventKind::Modify(ModifyKind::Data(_) | ModifyKind::Metadata(_)), Some(own)) => {
            !event.paths.is_empty()
                && event
                    .paths
                    .iter()
                    .all(|path| !path.is_dir() && !manifest::is_manifest(path) && !own.contains(path))
        }
        _ => false,
    }
}

/// The directories that `paths` lie in, and those that they are; for links, of each link on the way.
fn directories(paths: &[PathBuf]) -> BTreeSet<PathBuf> {
    let mut directories = BTreeSet::new();
    for path in paths {
        let mut path = std::path::absolute(path).unwrap_or_else(|_| path.clone());
        for _ in 0..LINKS_MAX {
            directories.extend(
                path.ancestors()
                    .skip(1)
                    .find_map(|parent| fs::canonicalize(parent).ok()),
            );
            let Ok(target) = fs::read_link(&path) else { break };
            path = path.parent().unwrap_or(&path).join(target);
        }
        directories.extend(fs::canonicalize(&path).ok().filter(|path| path.is_dir()));
    }
    directories
}

/// Links that are followed from one path.
const LINKS_MAX: usize = 16;

#[cfg(test)]
mod tests;
