//! What is held of sessions in this process, found without much waiting.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::SessionId;

/// A table by session, in parts with a lock each.
pub(in crate::gateway) struct BySession<T>([Mutex<HashMap<SessionId, T>>; SHARDS]);

/// So many that two requests seldom meet at one lock.
const SHARDS: usize = 64;

impl<T> BySession<T> {
    /// The part of the table that holds `session`, among others.
    pub(in crate::gateway) fn of(&self, session: SessionId) -> MutexGuard<'_, HashMap<SessionId, T>> {
        #[allow(
            clippy::indexing_slicing,
            reason = "a remainder is below what it is the remainder of"
        )]
        let shard = &self.0[usize::from(session.any_byte()) % SHARDS];
        lock(shard)
    }

    /// All parts, one after the other.
    pub(in crate::gateway) fn parts(&self) -> impl Iterator<Item = MutexGuard<'_, HashMap<SessionId, T>>> {
        self.0.iter().map(lock)
    }
}

impl<T> Default for BySession<T> {
    fn default() -> Self {
        Self(std::array::from_fn(|_| Mutex::default()))
    }
}

fn lock<T>(shard: &Mutex<HashMap<SessionId, T>>) -> MutexGuard<'_, HashMap<SessionId, T>> {
    shard.lock().unwrap_or_else(PoisonError::into_inner)
}
