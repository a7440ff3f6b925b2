//! What goes to a child beside its callers' messages: answers to its own requests, and cancellations.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use tokio::sync::Notify;

use crate::defaults;

/// Filled without waiting, from the reader and from calls that are dropped. Answers are bounded by number, a child
/// that does not read has no use for them; cancellations by the calls that were in flight.
#[derive(Debug, Default)]
pub(super) struct Outbox {
    state: Mutex<State>,
    filled: Notify,
}

#[derive(Debug, Default)]
struct State {
    replies: VecDeque<Bytes>,
    cancelled: VecDeque<u64>,
}

impl Outbox {
    /// Adds an answer. False if too many wait already.
    pub(super) fn reply(&self, message: Bytes) -> bool {
        let mut state = self.lock();
        if state.replies.len() >= defaults::CHILD_REPLIES_MAX {
            return false;
        }
        state.replies.push_back(message);
        drop(state);
        self.filled.notify_one();
        true
    }

    /// Tells the child that nobody waits for `id` any more.
    pub(super) fn cancel(&self, id: u64) {
        self.lock().cancelled.push_back(id);
        self.filled.notify_one();
    }

    /// The next message, as soon as there is one. Nothing is lost when the future is dropped.
    pub(super) async fn next(&self) -> Bytes {
        loop {
            if let Some(message) = self.pop() {
                return message;
            }
            self.filled.notified().await;
        }
    }

    fn pop(&self) -> Option<Bytes> {
        let mut state = self.lock();
        let cancelled = state.cancelled.pop_front().map(cancellation);
        cancelled.or_else(|| state.replies.pop_front())
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn cancellation(id: u64) -> Bytes {
    format!(r#"{{"jsonrpc":"2.0","method":"notifications/cancelled","params":{{"requestId":{id}}}}}"#).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn cancellations_go_first_and_answers_are_bounded() {
        let outbox = Outbox::default();
        for _ in 0..defaults::CHILD_REPLIES_MAX {
            assert!(outbox.reply("r".into()));
        }
        assert!(!outbox.reply("r".into()));
        outbox.cancel(7);
        let text = r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":7}}"#;
        assert_eq!(outbox.next().await, text);
        assert_eq!(outbox.next().await, "r");
    }
}
