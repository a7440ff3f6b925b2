//! What came of all requests.

use std::time::Duration;

/// Counts and latencies of the measured requests.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    /// In microseconds.
    latencies: Vec<u64>,
    /// Streams that were opened to hear of changes.
    pub(crate) listeners: usize,
    /// Messages that came on them.
    pub(crate) events: usize,
    /// Requests that went wrong, those of the warm-up included.
    pub(crate) errors: u64,
    /// What went wrong first.
    pub(crate) first_error: Option<String>,
}

impl Tally {
    /// Counts a right answer.
    pub(crate) fn succeed(&mut self, latency: Duration) {
        self.latencies
            .push(u64::try_from(latency.as_micros()).unwrap_or(u64::MAX));
    }

    /// Counts a wrong or missing answer.
    pub(crate) fn fail(&mut self, error: String) {
        self.errors += 1;
        self.first_error.get_or_insert(error);
    }

    /// How many answers were right.
    pub(crate) fn calls(&self) -> usize {
        self.latencies.len()
    }

    /// The latencies at these parts of a thousand, in milliseconds; 0 where there was no right answer.
    pub(crate) fn quantiles<const N: usize>(&mut self, thousandths: [usize; N]) -> [f64; N] {
        self.latencies.sort_unstable();
        let count = self.latencies.len();
        thousandths.map(|part| {
            let rank = (count * part).div_ceil(1000).saturating_sub(1);
            self.latencies.get(rank).map_or(0.0, |micros| *micros as f64 / 1000.0)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_by_nearest_rank() {
        let mut tally = Tally::default();
        for micros in (1..=100).rev() {
            tally.succeed(Duration::from_micros(micros * 1000));
        }
        assert_eq!(tally.quantiles([500, 990, 999, 1000]), [50.0, 99.0, 100.0, 100.0]);
        assert_eq!(Tally::default().quantiles([500]), [0.0]);
    }
}
