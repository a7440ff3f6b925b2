//! Bytes that all lines together may keep for clients that come back.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// What is left of them.
pub(in crate::gateway) struct Budget(AtomicUsize);

/// What one line has of it, given back with the line.
pub(super) struct Share {
    budget: Arc<Budget>,
    bytes: usize,
}

impl Budget {
    /// One of so many bytes.
    pub(in crate::gateway) fn of(bytes: usize) -> Self {
        Self(AtomicUsize::new(bytes))
    }

    fn take(&self, bytes: usize) -> bool {
        let order = Ordering::Relaxed;
        let taken = self.0.fetch_update(order, order, |left| left.checked_sub(bytes));
        taken.is_ok()
    }

    fn give(&self, bytes: usize) {
        self.0.fetch_add(bytes, Ordering::Relaxed);
    }
}

impl Share {
    /// Nothing yet.
    pub(super) fn in_budget(budget: Arc<Budget>) -> Self {
        Self { budget, bytes: 0 }
    }

    /// Makes it so large. False, and as it was, where there is not as much left.
    pub(super) fn resize(&mut self, bytes: usize) -> bool {
        if bytes > self.bytes && !self.budget.take(bytes - self.bytes) {
            return false;
        }
        self.budget.give(self.bytes.saturating_sub(bytes));
        self.bytes = bytes;
        true
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.budget.give(self.bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_shares_together_are_no_larger_than_the_budget() {
        let budget = Arc::new(Budget::of(10));
        let (mut first, mut second) = (Share::in_budget(Arc::clone(&budget)), Share::in_budget(budget));
        assert!(first.resize(7) && !second.resize(4) && second.resize(3));
        assert!(!first.resize(8) && first.resize(6));
        assert!(second.resize(4));
        drop(first);
        assert!(second.resize(10) && !second.resize(11));
    }
}
