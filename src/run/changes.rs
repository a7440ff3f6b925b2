//! Knowing when files changed.

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::Context;
use futures::FutureExt;
use notify::{Event, EventKind, RecommendedWatcher, RecursiveMode, Watcher};
use tokio::sync::Notify;
use tokio::time::sleep;

use crate::defaults;

/// Changes in a set of directories.
#[derive(Debug)]
pub(crate) struct Changes {
    /// Watches as long as it lives.
    _watcher: RecommendedWatcher,
    seen: Arc<Notify>,
}

impl Changes {
    /// Watches what is directly in `directories`, whatever way it is replaced: written over, renamed into place, or by
    /// a link that is switched.
    ///
    /// # Errors
    /// When the system has no watches left, or a directory is gone.
    pub(crate) fn watch(directories: &[PathBuf]) -> anyhow::Result<Self> {
        let seen = Arc::new(Notify::new());
        let tell = Arc::clone(&seen);
        let mut watcher = notify::recommended_watcher(move |event: notify::Result<Event>| {
            // Reading a file is an event too. What the watcher missed counts as a change.
            if !event.is_ok_and(|event| matches!(event.kind, EventKind::Access(_))) {
                tell.notify_one();
            }
        })
        .context("files cannot be watched for changes")?;
        for directory in directories {
            watcher
                .watch(directory, RecursiveMode::NonRecursive)
                .with_context(|| format!("{} cannot be watched for changes", directory.display()))?;
        }
        Ok(Self {
            _watcher: watcher,
            seen,
        })
    }

    /// Resolves after a change; those that follow within [`defaults::COALESCE`] count as one with it.
    pub(crate) async fn next(&self) {
        self.seen.notified().await;
        sleep(defaults::COALESCE).await;
        // One of the same burst may be noted already.
        self.seen.notified().now_or_never();
    }
}
