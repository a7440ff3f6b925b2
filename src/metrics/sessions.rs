//! What is counted of clients' sessions.

use prometheus::{IntCounter, IntGauge};

/// The handles of clients' sessions.
#[derive(Clone, Debug)]
pub struct SessionMetrics {
    pub(super) denied: IntGauge,
    pub(super) forgotten: IntCounter,
}

impl SessionMetrics {
    /// Tells how many ended sessions are remembered, and how many were just forgotten before they expired.
    pub fn denied(&self, remembered: usize, forgotten: usize) {
        self.denied.set(i64::try_from(remembered).unwrap_or(i64::MAX));
        self.forgotten.inc_by(forgotten as u64);
    }
}
