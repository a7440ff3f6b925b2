//! What is counted of one server.

use std::time::Duration;

use prometheus::{Gauge, GaugeVec, Histogram, IntCounter, IntCounterVec};

use crate::index::List;

/// The handles of one server.
#[derive(Clone, Debug)]
pub struct ServerMetrics {
    pub(super) name: String,
    pub(super) up: Gauge,
    pub(super) lanes: Gauge,
    pub(super) answered: IntCounter,
    pub(super) failed: IntCounter,
    pub(super) seconds: Histogram,
    pub(super) failures: IntCounterVec,
    pub(super) skipped: IntCounter,
    pub(super) complete: GaugeVec,
    pub(super) items: GaugeVec,
    pub(super) withheld: Gauge,
    /// Whether it is for some alone, so that it tells nothing of the server as a whole.
    pub(super) is_for_some: bool,
}

impl ServerMetrics {
    /// The same for connections that serve some callers or members alone: they count, but tell nothing of how the server
    /// is to all.
    #[must_use]
    pub fn for_some(self) -> Self {
        Self {
            is_for_some: true,
            ..self
        }
    }

    /// Tells whether the server can be called now.
    pub fn up(&self, up: bool) {
        if self.is_for_some {
            return;
        }
        self.up.set(f64::from(u8::from(up)));
    }

    /// Tells how many sessions with the server, or processes of it, callers have of their own.
    pub fn lanes(&self, count: usize) {
        if self.is_for_some {
            return;
        }
        #[allow(clippy::cast_precision_loss, reason = "their number is bounded")]
        self.lanes.set(count as f64);
    }

    /// Counts a request that took `elapsed`, and whether an answer came.
    pub fn request(&self, answered: bool, elapsed: Duration) {
        if answered {
            self.answered.inc()
        } else {
            self.failed.inc()
        }
        self.seconds.observe(elapsed.as_secs_f64());
    }

    /// Counts a failed try to reach the server or to read its lists.
    pub fn failure(&self, reason: &'static str) {
        self.failures.with_label_values(&[self.name.as_str(), reason]).inc();
    }

    /// Counts a message that was larger than is taken.
    pub fn skipped(&self) {
        self.skipped.inc();
    }

    /// Tells whether all of its lists were read to their ends.
    pub fn complete(&self, complete: bool) {
        if self.is_for_some {
            return;
        }
        let gauge = self.complete.with_label_values(&[self.name.as_str()]);
        gauge.set(f64::from(u8::from(complete)));
    }

    /// Tells how many entries the server lists.
    pub fn items(&self, list: List, count: usize) {
        if self.is_for_some {
            return;
        }
        #[allow(clippy::cast_precision_loss, reason = "a list is far shorter than 2^52")]
        self.items
            .with_label_values(&[self.name.as_str(), list.member()])
            .set(count as f64);
    }

    /// Tells how many tools the server lists that are not offered.
    pub fn withheld(&self, count: usize) {
        if self.is_for_some {
            return;
        }
        #[allow(clippy::cast_precision_loss, reason = "a list is far shorter than 2^52")]
        self.withheld.set(count as f64);
    }
}
