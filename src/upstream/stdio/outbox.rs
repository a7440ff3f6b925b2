//! What goes to a child beside its callers' messages: answers to its own requests, and cancellations.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use tokio::sync::Notify;

use crate::defaults;

/// Filled without waiting, from the reader and from calls that are dropped, and emptied in that order. Answers are
/// bounded by number, a child that does not read has no use for them; cancellations, and the refusals that go before
/// them, by the calls that were in flight.
#[derive(Debug, Default)]
pub(super) struct Outbox {
    state: Mutex<State>,
    filled: Notify,
}

#[derive(Debug, Default)]
struct State {
    messages: VecDeque<Message>,
    replies: usize,
}

#[derive(Debug)]
enum Message {
    Reply(Bytes),
    Refusal(Bytes),
    Cancellation(u64),
}

impl Outbox {
    /// Adds an answer. False if too many wait already.
    pub(super) fn reply(&self, message: Bytes) -> bool {
        let mut state = self.lock();
        if state.replies >= defaults::CHILD_REPLIES_MAX {
            return false;
        }
        state.replies += 1;
        state.messages.push_back(Message::Reply(message));
        drop(state);
        self.filled.notify_one();
        true
    }

    /// Adds the answer to what the child asked about a call that is over.
    pub(super) fn refuse(&self, message: Bytes) {
        self.add(Message::Refusal(message));
    }

    /// Tells the child that nobody waits for `id` any more.
    pub(super) fn cancel(&self, id: u64) {
        self.add(Message::Cancellation(id));
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

    /// How many messages wait.
    pub(super) fn len(&self) -> usize {
        self.lock().messages.len()
    }

    /// The next message, if there is one.
    pub(super) fn pop(&self) -> Option<Bytes> {
        let mut state = self.lock();
        match state.messages.pop_front()? {
            Message::Reply(message) => {
                state.replies -= 1;
                Some(message)
            }
            Message::Refusal(message) => Some(message),
            Message::Cancellation(id) => Some(cancellation(id)),
        }
    }

    fn add(&self, message: Message) {
        self.lock().messages.push_back(message);
        self.filled.notify_one();
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
    async fn messages_go_in_order_and_answers_are_bounded() {
        let outbox = Outbox::default();
        for _ in 0..defaults::CHILD_REPLIES_MAX {
            assert!(outbox.reply("r".into()));
        }
        assert!(!outbox.reply("r".into()));
        outbox.refuse("no".into());
        outbox.cancel(7);
        for _ in 0..defaults::CHILD_REPLIES_MAX {
            assert_eq!(outbox.next().await, "r");
        }
        let text = r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":7}}"#;
        assert_eq!(outbox.next().await, "no");
        assert_eq!(outbox.next().await, text);
        assert!(outbox.reply("r".into()), "there is room again");
    }
}
