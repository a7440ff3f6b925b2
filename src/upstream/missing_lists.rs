//! Lists that a server fails to give while it gives others: when it is asked for them again.

use std::future::pending;
use std::time::Duration;

use tokio::time::{Instant, sleep_until};

use super::lists::Failed;
use super::pause::jittered;
use crate::defaults;

/// The lists that are missing, and when they are asked for again. Until then a change of the others waits for none of
/// them.
#[derive(Debug)]
pub(super) struct MissingLists {
    failed: Vec<Failed>,
    due: Instant,
    pause: Duration,
}

impl MissingLists {
    /// None yet, as of `now`.
    pub(super) fn new(now: Instant) -> Self {
        Self {
            failed: Vec::new(),
            due: now,
            pause: defaults::RETRY_MIN,
        }
    }

    /// Waits until some are to be asked for again; for ever where none is missing.
    pub(super) async fn due(&self) {
        if self.failed.is_empty() {
            return pending().await;
        }
        sleep_until(self.due).await;
    }

    /// Has them asked for with the next reading, from `now` on.
    pub(super) fn ask_again(&mut self, now: Instant) {
        self.due = now;
    }

    /// Those that are not asked for `now`.
    pub(super) fn not_due(&self, now: Instant) -> &[Failed] {
        if now < self.due { &self.failed } else { &[] }
    }

    /// Notes which a reading came back without that began at `begun` and ends `now`.
    pub(super) fn note(&mut self, failed: Vec<Failed>, begun: Instant, now: Instant) {
        if failed.is_empty() {
            self.pause = defaults::RETRY_MIN;
        } else if begun >= self.due {
            self.due = now + jittered(self.pause);
            self.pause = (self.pause * 2).min(defaults::RETRY_MAX);
        }
        self.failed = failed;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::index::List;

    fn prompts() -> Vec<Failed> {
        vec![Failed {
            list: List::Prompts,
            how: "no answer".into(),
        }]
    }

    #[test]
    fn what_is_missing_is_asked_for_less_and_less_and_at_once_when_somebody_wants() {
        let mut now = Instant::now();
        let mut missing = MissingLists::new(now);
        assert!(missing.not_due(now).is_empty());
        for pause in [1, 2, 4, 8, 16, 30, 30] {
            missing.note(prompts(), now, now);
            let (due, least) = (missing.due - now, Duration::from_secs(pause));
            assert!(due >= least && due <= least + least / 3, "{due:?} {pause}");
            now += Duration::from_millis(500);
            assert_eq!(missing.not_due(now), prompts());
            // What comes back in between, without having asked, puts nothing off.
            let until = missing.due;
            missing.note(prompts(), now, now);
            assert_eq!(missing.due, until);
            now = until;
            assert!(missing.not_due(now).is_empty());
        }
        missing.note(prompts(), now, now);
        missing.ask_again(now);
        assert!(missing.not_due(now).is_empty());
        missing.note(Vec::new(), now, now);
        missing.note(prompts(), now, now);
        assert!(missing.due - now < Duration::from_secs(2), "it begins anew");
    }
}
