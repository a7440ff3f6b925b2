//! When a stream that ended is opened again.

use std::time::Duration;

use super::FIRST_PAUSE;
use crate::defaults;

/// The pauses between tries: each twice the one before, until a stream is of use again. What the server asks for
/// counts where its stream ended in good order.
#[derive(Debug)]
pub(super) struct Backoff {
    next: Duration,
    asked: Option<Duration>,
}

impl Backoff {
    pub(super) fn new() -> Self {
        Self {
            next: FIRST_PAUSE,
            asked: None,
        }
    }

    /// The server asks for a pause of so many milliseconds (WHATWG HTML, server-sent events).
    pub(super) fn server_asks(&mut self, milliseconds: u64) {
        self.asked = Some(Duration::from_millis(milliseconds).max(defaults::STREAM_RETRY_MIN));
    }

    /// A stream brought something, or lasted.
    pub(super) fn was_of_use(&mut self) {
        self.next = FIRST_PAUSE;
    }

    /// The pause after a stream that ended.
    pub(super) fn after_end(&mut self) -> Duration {
        let own = self.step();
        self.asked.unwrap_or(own)
    }

    /// The pause after a stream that could not be opened.
    pub(super) fn after_failure(&mut self) -> Duration {
        let own = self.step();
        self.asked.map_or(own, |asked| asked.max(own))
    }

    fn step(&mut self) -> Duration {
        let pause = self.next;
        self.next = (pause * 2).min(defaults::RETRY_MAX);
        pause
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn seconds(n: u64) -> Duration {
        Duration::from_secs(n)
    }

    #[test]
    fn pauses_grow_until_a_stream_is_of_use() {
        let mut backoff = Backoff::new();
        let pauses: Vec<_> = (0..7).map(|_| backoff.after_end()).collect();
        assert_eq!(pauses, [1, 2, 4, 8, 16, 30, 30].map(seconds));
        backoff.was_of_use();
        assert_eq!(backoff.after_failure(), seconds(1));
        assert_eq!(backoff.after_failure(), seconds(2));
    }

    #[test]
    fn a_pause_that_the_server_asks_for_is_kept_within_reason() {
        let mut backoff = Backoff::new();
        backoff.server_asks(5);
        assert_eq!(backoff.after_end(), Duration::from_millis(100));
        assert_eq!(backoff.after_failure(), seconds(2));
        backoff.server_asks(7000);
        assert_eq!(backoff.after_end(), seconds(7));
        assert_eq!(backoff.after_failure(), seconds(8));
    }
}
