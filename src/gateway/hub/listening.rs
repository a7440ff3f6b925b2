//! What a session hears on its open streams: each message comes on exactly one of them.

use std::collections::VecDeque;
use std::sync::Arc;

use bytes::Bytes;
use tokio::sync::Notify;

use crate::defaults;
use crate::index::Shown;
use crate::mcp::ListKind;

/// The open streams of one session, and what waits for them.
pub(super) struct Listening {
    /// By number, as they were opened. The last one hears everything: the others may be dead, and nobody knows yet.
    streams: Vec<u64>,
    waiting: VecDeque<Bytes>,
    /// What the session knows of the lists that it sees.
    told: Shown,
    changed: Arc<Notify>,
}

/// What a stream hears next.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::gateway) enum Heard {
    /// A message that was sent to the session.
    Message(Bytes),
    /// That a list has changed; then this is what the session knows.
    Changed(ListKind, Shown),
    /// Nothing for now.
    Nothing,
    /// The stream was ended.
    Over,
}

impl Listening {
    pub(super) fn new(told: Shown) -> Self {
        Self {
            streams: Vec::new(),
            waiting: VecDeque::new(),
            told,
            changed: Arc::new(Notify::new()),
        }
    }

    /// Opens the stream of this number, whose client says that it was told `known` last; the first one ends where there
    /// are too many. Gives what tells of news.
    pub(super) fn open(&mut self, number: u64, known: Option<Shown>) -> Arc<Notify> {
        // What was told to a stream that broke may have been lost; the new one says what its client knows.
        self.told = known.unwrap_or(self.told);
        if self.streams.len() >= defaults::SESSION_STREAMS_MAX {
            self.streams.remove(0);
        }
        self.streams.push(number);
        self.wake();
        Arc::clone(&self.changed)
    }

    /// Closes the stream of this number; tells whether none is left.
    pub(super) fn close(&mut self, number: u64) -> bool {
        self.streams.retain(|stream| *stream != number);
        // The one that was opened before hears from now on.
        self.wake();
        self.streams.is_empty()
    }

    pub(super) fn send(&mut self, message: Bytes) -> bool {
        let has_room = self.waiting.len() < defaults::SESSION_QUEUE_MAX;
        if has_room {
            self.waiting.push_back(message);
            self.wake();
        }
        has_room
    }

    pub(super) fn wake(&self) {
        self.changed.notify_waiters();
    }

    pub(super) fn hear(&mut self, stream: u64, now: Option<Shown>) -> Heard {
        if !self.streams.contains(&stream) {
            return Heard::Over;
        }
        if self.streams.last() != Some(&stream) {
            return Heard::Nothing;
        }
        if let Some(message) = self.waiting.pop_front() {
            return Heard::Message(message);
        }
        let Some(now) = now else { return Heard::Nothing };
        self.told.learn(now);
        let news = ListKind::ALL.into_iter().find(|kind| self.told.is_other(now, *kind));
        news.map_or(Heard::Nothing, |kind| {
            *self.told.of_mut(kind) = now.of(kind);
            Heard::Changed(kind, self.told)
        })
    }
}
