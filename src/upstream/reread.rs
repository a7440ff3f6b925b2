//! Readings of the catalog that calls ask for and wait for.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::{Notify, watch};
use tokio::time::timeout;

/// Who asks for a reading gets one that began after the question; many who ask share one.
#[derive(Debug, Default)]
pub(super) struct Rereads {
    asked: AtomicU64,
    answered: watch::Sender<u64>,
}

impl Rereads {
    /// Asks the reader, which `wake` wakes, for a reading. False if it was not done within `limit`.
    pub(super) async fn ask(&self, wake: &Notify, limit: Duration) -> bool {
        let mine = self.want(wake);
        let mut answered = self.answered.subscribe();
        matches!(
            timeout(limit, answered.wait_for(|answered| *answered >= mine)).await,
            Ok(Ok(_))
        )
    }

    /// The same without waiting for it. Gives its number.
    pub(super) fn want(&self, wake: &Notify) -> u64 {
        let mine = self.asked.fetch_add(1, Ordering::AcqRel) + 1;
        wake.notify_one();
        mine
    }

    /// Whether somebody waits for a reading.
    pub(super) fn are_wanted(&self) -> bool {
        self.asked.load(Ordering::Acquire) > *self.answered.borrow()
    }

    /// A reading begins; gives how many asked before.
    pub(super) fn begin(&self) -> u64 {
        self.asked.load(Ordering::Acquire)
    }

    /// The reading is done and published that began when `asked` had asked.
    pub(super) fn done(&self, asked: u64) {
        self.answered.send_replace(asked);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    const LIMIT: Duration = Duration::from_millis(200);

    #[tokio::test]
    async fn a_reading_answers_those_who_asked_before_it_began_and_no_others() {
        let (rereads, wake) = (Arc::new(Rereads::default()), Arc::new(Notify::new()));
        let ask = || {
            let (rereads, wake) = (Arc::clone(&rereads), Arc::clone(&wake));
            tokio::spawn(async move { rereads.ask(&wake, LIMIT).await })
        };
        assert!(!rereads.are_wanted());
        let early = [ask(), ask()];
        wake.notified().await;
        tokio::task::yield_now().await;
        let asked = rereads.begin();
        let late = ask();
        tokio::task::yield_now().await;
        rereads.done(asked);
        for answered in early {
            assert!(answered.await.unwrap());
        }
        assert!(rereads.are_wanted());
        assert!(!late.await.unwrap(), "nobody read for it");
    }
}
