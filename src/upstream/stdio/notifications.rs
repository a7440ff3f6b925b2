//! A child's notifications until somebody takes them.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use tokio::sync::Notify;

use crate::defaults;

/// Filled by the reader, which never waits; of too many, the oldest are dropped and counted.
#[derive(Debug, Default)]
pub(super) struct Notifications {
    state: Mutex<State>,
    changed: Notify,
}

#[derive(Debug, Default)]
struct State {
    kept: VecDeque<Bytes>,
    bytes: usize,
    dropped: u64,
    ended: bool,
}

impl Notifications {
    /// The next notification, the whole message as it was written; `None` once the process has ended and all were
    /// taken. For one reader; nothing is lost when the future is dropped.
    pub(super) async fn next(&self) -> Option<Bytes> {
        loop {
            {
                let mut state = self.lock();
                if let Some(message) = state.pop() {
                    return Some(message);
                }
                if state.ended {
                    return None;
                }
            }
            self.changed.notified().await;
        }
    }

    /// Adds one. How many were dropped so far, if this one made another drop.
    pub(super) fn push(&self, message: Bytes) -> Option<u64> {
        let mut state = self.lock();
        let dropped_before = state.dropped;
        state.push(message);
        let dropped = state.dropped;
        drop(state);
        self.changed.notify_one();
        (dropped > dropped_before).then_some(dropped)
    }

    /// No more will come.
    pub(super) fn end(&self) {
        self.lock().ended = true;
        self.changed.notify_one();
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn push(&mut self, message: Bytes) {
        self.bytes += message.len();
        self.kept.push_back(message);
        while self.kept.len() > 1
            && (self.kept.len() > defaults::CHILD_NOTIFICATIONS_MAX || self.bytes > defaults::CHILD_NOTIFICATION_BYTES)
        {
            self.pop();
            self.dropped += 1;
        }
    }

    fn pop(&mut self) -> Option<Bytes> {
        let message = self.kept.pop_front()?;
        self.bytes -= message.len();
        Some(message)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn of_too_many_the_oldest_are_dropped_and_counted() {
        let notifications = Notifications::default();
        let pushed = defaults::CHILD_NOTIFICATIONS_MAX + 2;
        let drops: Vec<u64> = (0..pushed)
            .filter_map(|i| notifications.push(Bytes::from(i.to_string())))
            .collect();
        assert_eq!(drops, vec![1, 2]);
        assert_eq!(notifications.next().await.unwrap(), "2");
    }

    #[tokio::test]
    async fn bytes_are_bounded_and_a_single_large_one_passes() {
        let notifications = Notifications::default();
        let large = Bytes::from(vec![b'x'; defaults::CHILD_NOTIFICATION_BYTES + 1]);
        notifications.push("small".into());
        assert_eq!(notifications.push(large.clone()), Some(1));
        assert_eq!(notifications.next().await, Some(large));
    }

    #[tokio::test]
    async fn what_came_before_the_end_is_still_given() {
        let notifications = Notifications::default();
        notifications.push("last".into());
        notifications.end();
        assert_eq!(notifications.next().await.unwrap(), "last");
        assert_eq!(notifications.next().await, None);
    }
}
