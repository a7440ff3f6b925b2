//! The sessions of which something is going on, and what that is.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use bytes::Bytes;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::at_work::AtWork;
use super::listening::Listening;
use super::resumable::Resumable;
use crate::defaults;
use crate::gateway::line::Budget;
use crate::gateway::session::{BySession, SessionId};

/// The sessions of which something is going on.
pub struct SessionHub {
    pub(super) shards: BySession<Held>,
    /// Places for work without a client and for streams that can be resumed.
    places: Arc<Semaphore>,
    /// Bytes that streams keep for clients that come back.
    pub(super) budget: Arc<Budget>,
    /// How many streams have been opened to hear on.
    pub(super) opened: AtomicU64,
}

/// What is going on of one session.
#[derive(Default)]
pub(super) struct Held {
    pub(super) calls: Vec<AtWork>,
    pub(super) streams: VecDeque<Resumable>,
    pub(super) listening: Option<Listening>,
}

impl SessionHub {
    /// A hub that holds nothing.
    pub fn new() -> Self {
        Self {
            shards: BySession::default(),
            places: Arc::new(Semaphore::new(defaults::RESUMABLE_MAX)),
            budget: Arc::new(Budget::of(defaults::RESUMABLE_BYTES_MAX)),
            opened: AtomicU64::new(0),
        }
    }

    /// Sends `message`, a whole JSON-RPC message, to one of the streams that `session` listens on. False where it
    /// listens on none, or has not read what was sent before.
    pub fn send(&self, session: SessionId, message: Bytes) -> bool {
        let mut shard = self.shards.of(session);
        let listening = shard.get_mut(&session).and_then(|held| held.listening.as_mut());
        listening.is_some_and(|listening| listening.send(message))
    }

    /// Whether `session` listens on a stream here.
    pub fn is_listening(&self, session: SessionId) -> bool {
        let shard = self.shards.of(session);
        shard.get(&session).is_some_and(|held| held.listening.is_some())
    }

    /// Ends everything of `session`: its calls are cancelled, its streams end.
    pub(in crate::gateway) fn end(&self, session: SessionId) {
        let held = self.shards.of(session).remove(&session);
        let Some(held) = held else { return };
        held.calls.iter().for_each(AtWork::withdraw);
        for stream in &held.streams {
            stream.line.cut();
        }
        if let Some(listening) = held.listening {
            listening.wake();
        }
    }

    /// How many sessions there are of which something is going on.
    pub fn sessions(&self) -> usize {
        self.shards.parts().map(|part| part.len()).sum()
    }

    /// A place for work without a client, if there is one.
    pub(in crate::gateway) fn place(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.places).try_acquire_owned().ok()
    }

    /// Changes what is held of `session`, and forgets it if that is nothing then.
    pub(super) fn change<T>(&self, session: SessionId, change: impl FnOnce(&mut Held) -> T) -> Option<T> {
        let mut shard = self.shards.of(session);
        let held = shard.get_mut(&session)?;
        let changed = change(held);
        if held.is_empty() {
            shard.remove(&session);
        }
        Some(changed)
    }
}

impl Held {
    fn is_empty(&self) -> bool {
        self.calls.is_empty() && self.streams.is_empty() && self.listening.is_none()
    }
}

impl Default for SessionHub {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for SessionHub {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SessionHub")
            .field("sessions", &self.sessions())
            .finish_non_exhaustive()
    }
}
