//! What came of all requests.

use std::time::Duration;

use tokio::time::Instant;

/// Counts and latencies, in microseconds, of the measured requests.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    latencies: Vec<u64>,
    /// The length of the last right answer.
    pub(crate) bytes: usize,
    /// Streams that were opened to hear of changes.
    pub(crate) listeners: usize,
    /// Messages that came on them.
    pub(crate) events: usize,
    /// When something was changed last.
    pub(crate) bumped: Option<Instant>,
    /// How long the streams took to say so.
    told: Vec<u64>,
    /// Requests that went wrong, those of the warm-up included.
    pub(crate) errors: u64,
    /// What went wrong first.
    pub(crate) first_error: Option<String>,
}

impl Tally {
    /// Counts a right answer of `bytes`.
    pub(crate) fn succeed(&mut self, latency: Duration, bytes: usize) {
        self.latencies.push(micros(latency));
        self.bytes = bytes;
    }

    /// Counts messages that came on one stream.
    pub(crate) fn hear(&mut self, events: usize) {
        self.events += events;
        if let Some(bumped) = self.bumped.filter(|_| events > 0) {
            self.told.push(micros(bumped.elapsed()));
        }
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

    /// How often a stream said that something had changed.
    pub(crate) fn times_told(&self) -> usize {
        self.told.len()
    }

    /// The latencies at these parts of a thousand, in milliseconds; 0 where there was no right answer.
    pub(crate) fn quantiles<const N: usize>(&mut self, thousandths: [usize; N]) -> [f64; N] {
        quantiles(&mut self.latencies, thousandths)
    }

    /// The same of how long the streams took.
    pub(crate) fn told_quantiles<const N: usize>(&mut self, thousandths: [usize; N]) -> [f64; N] {
        quantiles(&mut self.told, thousandths)
    }
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

fn quantiles<const N: usize>(micros: &mut [u64], thousandths: [usize; N]) -> [f64; N] {
    micros.sort_unstable();
    let count = micros.len();
    thousandths.map(|part| {
        let rank = (count * part).div_ceil(1000).saturating_sub(1);
        micros.get(rank).map_or(0.0, |micros| *micros as f64 / 1000.0)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_by_nearest_rank() {
        let mut tally = Tally::default();
        for micros in (1..=100).rev() {
            tally.succeed(Duration::from_micros(micros * 1000), 1);
        }
        assert_eq!(tally.quantiles([500, 990, 999, 1000]), [50.0, 99.0, 100.0, 100.0]);
        assert_eq!(Tally::default().quantiles([500]), [0.0]);
    }
}
