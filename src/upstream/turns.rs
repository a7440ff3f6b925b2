//! Turns for what is asked of a server by itself again and again.

use std::time::Duration;

use tokio::sync::Mutex;
use tokio::time::{Instant, sleep_until};

/// When the last turn was.
#[derive(Debug, Default)]
pub(super) struct Turns(Mutex<Option<Instant>>);

impl Turns {
    /// Waits for a turn, that long after the one before at least. Who came first has it first.
    pub(super) async fn turn(&self, apart: Duration) {
        let mut last = self.0.lock().await;
        if let Some(last) = *last {
            sleep_until(last + apart).await;
        }
        *last = Some(Instant::now());
    }
}

#[cfg(test)]
mod tests {
    use futures::future::join_all;
    use tokio::time::timeout;

    use super::*;

    const APART: Duration = Duration::from_millis(10);

    #[tokio::test]
    async fn turns_keep_their_distance_however_many_want_one() {
        let (turns, start) = (Turns::default(), Instant::now());
        let times = join_all((0..20).map(async |_| {
            turns.turn(APART).await;
            start.elapsed()
        }));
        let times = times.await;
        assert!(
            times.windows(2).all(|two| two[1] >= two[0]),
            "who came first has it first"
        );
        assert!(times.last().is_some_and(|last| *last >= 19 * APART), "{times:?}");
    }

    #[tokio::test]
    async fn who_goes_away_takes_no_turn() {
        let turns = Turns::default();
        turns.turn(Duration::ZERO).await;
        let long = Duration::from_secs(3_600);
        assert!(timeout(APART, turns.turn(long)).await.is_err());
        let next = timeout(Duration::from_secs(60), turns.turn(APART));
        assert!(next.await.is_ok());
    }
}
