//! The first try to listen on a connection.

use tokio::sync::SetOnce;
use tokio::time::{Instant, timeout};

use crate::defaults;
use crate::upstream::connection::Connection;

/// Whether the first try to listen has had its outcome, so that no change falls between it and the first reading of the
/// lists.
#[derive(Debug)]
pub(in crate::upstream) struct Beginning {
    since: Instant,
    settled: SetOnce<()>,
    /// Whether it is that of the connection by which lists are kept fresh.
    keeps_lists: bool,
}

impl Beginning {
    /// The connection is made just now.
    pub(in crate::upstream) fn now() -> Self {
        Self {
            since: Instant::now(),
            settled: SetOnce::new(),
            keeps_lists: true,
        }
    }

    /// The same of a lane: what it misses, others hear.
    pub(in crate::upstream) fn of_lane() -> Self {
        Self {
            keeps_lists: false,
            ..Self::now()
        }
    }

    /// Waits for the outcome, though not for long: some servers say nothing on a stream before they have something to
    /// say.
    pub(in crate::upstream) async fn settled(&self) {
        drop(timeout(defaults::LISTEN_PATIENCE, self.settled.wait()).await);
    }

    /// This is the outcome. If it took so long that nobody waited, something may have been missed.
    pub(super) fn settle(&self, connection: &Connection) {
        if self.settled.set(()).is_ok() && self.keeps_lists && self.since.elapsed() >= defaults::LISTEN_PATIENCE {
            connection.known().news.lists_may_have_changed();
        }
    }

    /// Whether there was an outcome before, so that something of the lists may have been missed since.
    pub(super) fn is_over(&self) -> bool {
        self.keeps_lists && self.settled.initialized()
    }
}
