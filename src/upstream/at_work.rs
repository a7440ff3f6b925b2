//! What a server is held for, as long as it is held for one caller alone.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Something that a server is held for, until this is dropped.
#[derive(Debug)]
pub(super) struct AtWork(Arc<AtomicUsize>);

impl AtWork {
    /// One more of those that are counted here.
    pub(super) fn counted(by: &Arc<AtomicUsize>) -> Self {
        by.fetch_add(1, Ordering::AcqRel);
        Self(Arc::clone(by))
    }
}

impl Drop for AtWork {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}
