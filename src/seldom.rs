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

/// A failure that is said as it changes.
#[derive(Debug, Default)]
pub(crate) struct Failing(Mutex<Said>);

#[derive(Debug, Default)]
struct Said {
    /// The one that goes on.
    reason: Option<&'static str>,
    last: Option<Instant>,
}

impl Failing {
    /// Whether it is to be said `now` that something fails for this `reason`, since that is new and nothing was said
    /// within `pause`; then it counts as said.
    pub(crate) fn is_due(&self, reason: &'static str, now: Instant, pause: Duration) -> bool {
        let mut said = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_due = said.reason != Some(reason)
            && said
                .last
                .is_none_or(|last| now.saturating_duration_since(last) >= pause);
        if is_due {
            *said = Said {
                reason: Some(reason),
                last: Some(now),
            };
        }
        is_due
    }

    /// Whether it is to be said that it works again, since it was said that it does not.
    pub(crate) fn is_over(&self) -> bool {
        let mut said = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        said.reason.take().is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_is_said_when_it_begins_or_becomes_another_but_not_too_often() {
        let (failing, pause, start) = (Failing::default(), Duration::from_secs(60), Instant::now());
        let at = |seconds| start + Duration::from_secs(seconds);
        assert!(!failing.is_over());
        assert!(failing.is_due("Timeout", at(0), pause));
        assert!(!failing.is_due("Timeout", at(1_000), pause));
        assert!(failing.is_due("NoList", at(1_000), pause));
        assert!(!failing.is_due("Timeout", at(1_059), pause), "too soon");
        assert!(failing.is_due("Timeout", at(1_060), pause));
        assert!(failing.is_over());
        assert!(!failing.is_over(), "it is said once");
        assert!(!failing.is_due("Timeout", at(1_061), pause), "it comes and goes");
        assert!(!failing.is_over(), "what was not said is not over");
        assert!(failing.is_due("Timeout", at(1_200), pause));
    }

    #[test]
    fn it_is_due_once_within_its_pause() {
        let (seldom, pause, start) = (Seldom::default(), Duration::from_secs(60), Instant::now());
        assert!(seldom.is_due(start, pause));
        assert!(!seldom.is_due(start + pause - Duration::from_millis(1), pause));
        assert!(seldom.is_due(start + pause, pause));
        assert!(!seldom.is_due(start + pause, pause));
    }
}
