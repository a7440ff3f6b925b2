//! What is said seldom, however often it happens.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// When something was said last.
#[derive(Debug, Default)]
pub(crate) struct Seldom(Mutex<Option<Instant>>);

impl Seldom {
    /// Whether it is to be said `now`, since it was not within `pause`; then it counts as said.
    pub(crate) fn is_due(&self, now: Instant, pause: Duration) -> bool {
        let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_due = last.is_none_or(|last| now.duration_since(last) >= pause);
        if is_due {
            *last = Some(now);
        }
        is_due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_due_once_within_its_pause() {
        let (seldom, pause, start) = (Seldom::default(), Duration::from_secs(60), Instant::now());
        assert!(seldom.is_due(start, pause));
        assert!(!seldom.is_due(start + pause - Duration::from_millis(1), pause));
        assert!(seldom.is_due(start + pause, pause));
        assert!(!seldom.is_due(start + pause, pause));
    }
}
