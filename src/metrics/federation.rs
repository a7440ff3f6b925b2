//! What is counted of one federation.

use std::time::Duration;

use prometheus::{Gauge, Histogram, IntCounter, IntCounterVec};

use crate::mcp::Method;

/// How a client's request ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// With a result.
    Ok,
    /// With a result that says that the tool failed.
    ToolError,
    /// With an error that an upstream answered.
    UpstreamError,
    /// With an error of our own: the request was wrong.
    Refused,
    /// With an error of our own: the upstream could not be reached or did not answer.
    Failed,
    /// Not at all: the client took it back or went away.
    Cancelled,
}

/// What clients keep open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StreamKind {
    /// On which a Legacy session hears.
    Session,
    /// On which a Modern client listens.
    Subscription,
}

/// The handles of one federation.
#[derive(Debug)]
pub struct FederationMetrics {
    pub(super) name: String,
    pub(super) remote_search_failures: IntCounterVec,
    pub(super) methods: Vec<MethodMetrics>,
    pub(super) other: MethodMetrics,
    pub(super) streams: [Gauge; 2],
    pub(super) list_changed_seconds: Histogram,
    pub(super) own_catalogs: Gauge,
    pub(super) own_catalogs_opened: IntCounter,
    pub(super) own_catalogs_evicted: IntCounter,
    pub(super) own_catalogs_refused: IntCounterVec,
    pub(super) list_bytes: Gauge,
}

/// A stream, counted until this is dropped.
#[derive(Debug)]
pub struct OpenStream {
    pub(super) open: Gauge,
    pub(super) list_changed_seconds: Histogram,
}

#[derive(Debug)]
pub(super) struct MethodMetrics {
    pub(super) outcomes: [IntCounter; 6],
    pub(super) seconds: Histogram,
}

/// The methods that are told apart.
pub(super) const METHODS: [Method; 14] = [
    Method::Initialize,
    Method::Ping,
    Method::Discover,
    Method::ToolsList,
    Method::ToolsCall,
    Method::ResourcesList,
    Method::ResourceTemplatesList,
    Method::ResourcesRead,
    Method::PromptsList,
    Method::PromptsGet,
    Method::Listen,
    Method::TasksGet,
    Method::TasksUpdate,
    Method::TasksCancel,
];
/// What outcomes are called, in their order.
pub(super) const OUTCOMES: [&str; 6] = ["ok", "tool_error", "upstream_error", "refused", "failed", "cancelled"];
/// What all other methods are called.
pub(super) const OTHER: &str = "other";
/// What streams are called, in their order.
pub(super) const STREAMS: [&str; 2] = ["session", "subscription"];

impl FederationMetrics {
    /// Counts a request for `method` (`None` for one that is not served) that took `elapsed`.
    pub fn request(&self, method: Option<Method>, outcome: Outcome, elapsed: Duration) {
        let place = method.and_then(|m| METHODS.iter().position(|known| *known == m));
        let metrics = place.and_then(|p| self.methods.get(p)).unwrap_or(&self.other);
        let [ok, tool_error, upstream_error, refused, failed, cancelled] = &metrics.outcomes;
        match outcome {
            Outcome::Ok => ok.inc(),
            Outcome::ToolError => tool_error.inc(),
            Outcome::UpstreamError => upstream_error.inc(),
            Outcome::Refused => refused.inc(),
            Outcome::Failed => failed.inc(),
            Outcome::Cancelled => cancelled.inc(),
        }
        metrics.seconds.observe(elapsed.as_secs_f64());
    }

    /// Tells how many bytes the descriptors of all listed tools have.
    pub fn list_bytes(&self, bytes: usize) {
        #[allow(clippy::cast_precision_loss, reason = "it is as much as fits into memory")]
        self.list_bytes.set(bytes as f64);
    }

    /// Counts a search that `member` did not answer.
    pub fn remote_search_failed(&self, member: &str, reason: &'static str) {
        let labels = [self.name.as_str(), member, reason];
        self.remote_search_failures.with_label_values(&labels).inc();
    }

    /// Tells how many connections callers have of their own.
    pub fn own_catalogs(&self, count: usize) {
        #[allow(clippy::cast_precision_loss, reason = "their number is bounded")]
        self.own_catalogs.set(count as f64);
    }

    /// Counts that one was opened.
    pub fn own_catalog_opened(&self) {
        self.own_catalogs_opened.inc();
    }

    /// Counts that so many had to make room for others.
    pub fn own_catalogs_evicted(&self, count: usize) {
        self.own_catalogs_evicted.inc_by(count as u64);
    }

    /// Counts that there was no room for one.
    pub fn own_catalog_refused(&self, reason: &'static str) {
        let labels = [self.name.as_str(), reason];
        self.own_catalogs_refused.with_label_values(&labels).inc();
    }

    /// Counts a stream for as long as what is given lives.
    pub fn stream(&self, kind: StreamKind) -> OpenStream {
        let [session, subscription] = &self.streams;
        let gauge = match kind {
            StreamKind::Session => session,
            StreamKind::Subscription => subscription,
        };
        gauge.inc();
        OpenStream {
            open: gauge.clone(),
            list_changed_seconds: self.list_changed_seconds.clone(),
        }
    }
}

impl OpenStream {
    /// Counts that its client was told of a change of lists, `elapsed` after it was seen.
    pub fn list_changed(&self, elapsed: Duration) {
        self.list_changed_seconds.observe(elapsed.as_secs_f64());
    }
}

impl Drop for OpenStream {
    fn drop(&mut self) {
        self.open.dec();
    }
}
