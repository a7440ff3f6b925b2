//! What is counted of one server.

use std::time::Duration;

use prometheus::{Gauge, GaugeVec, Histogram, IntCounter, IntCounterVec};

use super::voices::Voice;
use crate::index::List;

/// The handles of one server.
#[derive(Clone, Debug)]
pub struct ServerMetrics {
    pub(super) name: String,
    pub(super) voice: Voice,
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
}

impl ServerMetrics {
    /// The same for connections that serve some callers or members alone: they count, but tell nothing of how the server
    /// is to all.
    #[must_use]
    pub fn for_some(self) -> Self {
        Self {
            voice: self.voice.for_some(),
            ..self
        }
    }

    /// Tells whether the server can be called now.
    pub fn up(&self, up: bool) {
        if up {
            self.tell(|| self.up.set(1.0));
        } else {
            // One that it was held by before may serve still.
            self.voice.tell_alone(|| self.up.set(0.0));
        }
    }

    /// Tells how many sessions with the server, or processes of it, callers have of their own.
    pub fn lanes(&self, count: usize) {
        #[allow(clippy::cast_precision_loss, reason = "their number is bounded")]
        self.tell(|| self.lanes.set(count as f64));
    }

    /// Tells that the server is held by this no longer.
    pub fn ended(&self) {
        self.voice.fall_silent(|| {
            self.up.set(0.0);
            self.lanes.set(0.0);
        });
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
        let labels = [self.name.as_str(), reason];
        self.voice.count(|| self.failures.with_label_values(&labels).inc());
    }

    /// Counts a message that was larger than is taken.
    pub fn skipped(&self) {
        self.skipped.inc();
    }

    /// Tells whether all of its lists were read to their ends.
    pub fn complete(&self, complete: bool) {
        self.tell(|| {
            let gauge = self.complete.with_label_values(&[self.name.as_str()]);
            gauge.set(f64::from(u8::from(complete)));
        });
    }

    /// Tells how many entries the server lists.
    pub fn items(&self, list: List, count: usize) {
        let labels = [self.name.as_str(), list.member()];
        #[allow(clippy::cast_precision_loss, reason = "a list is far shorter than 2^52")]
        self.tell(|| self.items.with_label_values(&labels).set(count as f64));
    }

    /// Tells how many tools the server lists that are not offered.
    pub fn withheld(&self, count: usize) {
        #[allow(clippy::cast_precision_loss, reason = "a list is far shorter than 2^52")]
        self.tell(|| self.withheld.set(count as f64));
    }

    fn tell(&self, write: impl FnOnce()) {
        self.voice.tell(|is_first_word| {
            // What another one has it has for itself.
            if is_first_word {
                self.lanes.set(0.0);
            }
            write();
        });
    }
}
