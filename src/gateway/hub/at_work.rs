//! A call at work, as its session knows it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::Notify;

use crate::mcp::Id;

/// A call at work, by its id exactly as the client wrote it.
pub(super) struct AtWork {
    id: Box<str>,
    withdrawal: Arc<Withdrawal>,
}

/// Whether the client does not want the answer any more.
#[derive(Default)]
pub(super) struct Withdrawal {
    came: AtomicBool,
    changed: Notify,
}

impl AtWork {
    /// That which its client asked for under `id`.
    pub(super) fn new(id: Id<'_>) -> Self {
        Self {
            id: id.as_json().into(),
            withdrawal: Arc::default(),
        }
    }

    /// Whether it was asked for under `id`, written exactly so.
    pub(super) fn is(&self, id: &str) -> bool {
        *self.id == *id
    }

    /// Whether it is not wanted any more.
    pub(super) fn withdrawal(&self) -> &Arc<Withdrawal> {
        &self.withdrawal
    }

    /// Says that it is not wanted any more.
    pub(super) fn withdraw(&self) {
        self.withdrawal.came.store(true, Ordering::Release);
        self.withdrawal.changed.notify_waiters();
    }
}

impl Withdrawal {
    /// Whether it has come.
    pub(super) fn has_come(&self) -> bool {
        self.came.load(Ordering::Acquire)
    }

    /// Waits until it has come.
    pub(super) async fn come(&self) {
        loop {
            let changed = self.changed.notified();
            if self.has_come() {
                return;
            }
            changed.await;
        }
    }
}
