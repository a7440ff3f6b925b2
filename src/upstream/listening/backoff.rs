//! When a stream that ended is opened again.

use std::time::Duration;

use crate::defaults;

/// The pauses between tries: each twice the one before, until a stream is of use again. What the server asks for
/// counts where its stream ended in good order; where streams are of no use again and again, it is asked no more often
/// than every [`USELESS_MAX`] for all that.
#[derive(Debug)]
pub(super) struct Backoff {
    next: Duration,
    asked: Option<Duration>,
    /// Streams in a row that brought nothing.
    useless: u32,
}

/// The longest pause that is kept against the wish of a server whose streams bring nothing.
const USELESS_MAX: Duration = Duration::from_secs(5);

impl Backoff {
    pub(super) fn new() -> Self {
        Self {
            next: FIRST_PAUSE,
            asked: None,
            useless: 0,
        }
    }

    /// The server asks for a pause of so many milliseconds (WHATWG HTML, server-sent events).
    pub(super) fn server_asks(&mut self, milliseconds: u64) {
        self.asked = Some(Duration::from_millis(milliseconds).max(defaults::STREAM_RETRY_MIN));
    }

    /// A stream brought something, or lasted.
    pub(super) fn was_of_use(&mut self) {
        self.next = FIRST_PAUSE;
        self.useless = 0;
    }

    /// The pause after a stream that ended.
    pub(super) fn after_end(&mut self) -> Duration {
        let own = self.step();
        let least = if self.useless > 1 {
            own.min(USELESS_MAX)
        } else {
            Duration::ZERO
        };
        self.useless = self.useless.saturating_add(1);
        self.asked.map_or(own, |asked| asked.max(least))
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

/// A stream that opened and was of no use is opened again after this pause, if it asks for none.
const FIRST_PAUSE: Duration = defaults::RETRY_MIN;

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
        for _ in 0..9 {
            backoff.was_of_use();
            assert_eq!(backoff.after_end(), Duration::from_millis(100));
        }
        assert_eq!(backoff.after_failure(), seconds(2));
        backoff.was_of_use();
        backoff.after_end();
        backoff.after_end();
        let useless: Vec<_> = (0..3).map(|_| backoff.after_end()).collect();
        assert_eq!(useless, [4, 5, 5].map(seconds));
        backoff.was_of_use();
        backoff.server_asks(7000);
        assert_eq!(backoff.after_end(), seconds(7));
        assert_eq!(backoff.after_failure(), seconds(7));
    }
}
