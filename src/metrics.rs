//! What the process counts, in Prometheus' text format.
//!
//! Handles are resolved once per federation and server, so that counting a request takes no lock and no lookup.
//! The series of an object that is gone are removed by name.

use std::time::Duration;

use prometheus::{
    Encoder, Gauge, GaugeVec, Histogram, HistogramOpts, HistogramVec, IntCounter, IntCounterVec, IntGauge, Opts,
    Registry, TextEncoder,
};

use crate::index::List;
use crate::mcp::Method;

/// All metrics of the process.
#[derive(Debug)]
pub struct Metrics {
    registry: Registry,
    requests: IntCounterVec,
    request_seconds: HistogramVec,
    streams: GaugeVec,
    remote_search_failures: IntCounterVec,
    list_changed_seconds: HistogramVec,
    own_catalogs: GaugeVec,
    own_catalogs_opened: IntCounterVec,
    own_catalogs_evicted: IntCounterVec,
    own_catalogs_refused: IntCounterVec,
    list_bytes: GaugeVec,
    upstream_up: GaugeVec,
    upstream_lanes: GaugeVec,
    upstream_requests: IntCounterVec,
    upstream_seconds: HistogramVec,
    upstream_failures: IntCounterVec,
    upstream_skipped: IntCounterVec,
    catalog_complete: GaugeVec,
    catalog_items: GaugeVec,
    catalog_withheld: GaugeVec,
    reconciles: IntCounterVec,
    reconcile_seconds: HistogramVec,
    sessions: SessionMetrics,
}

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
    name: String,
    remote_search_failures: IntCounterVec,
    methods: Vec<MethodMetrics>,
    other: MethodMetrics,
    streams: [Gauge; 2],
    list_changed_seconds: Histogram,
    own_catalogs: Gauge,
    own_catalogs_opened: IntCounter,
    own_catalogs_evicted: IntCounter,
    own_catalogs_refused: IntCounterVec,
    list_bytes: Gauge,
}

/// A stream, counted until this is dropped.
#[derive(Debug)]
pub struct OpenStream {
    open: Gauge,
    list_changed_seconds: Histogram,
}

#[derive(Debug)]
struct MethodMetrics {
    outcomes: [IntCounter; 6],
    seconds: Histogram,
}

/// The handles of clients' sessions.
#[derive(Clone, Debug)]
pub struct SessionMetrics {
    denied: IntGauge,
    forgotten: IntCounter,
}

/// The handles of one server.
#[derive(Clone, Debug)]
pub struct ServerMetrics {
    name: String,
    up: Gauge,
    lanes: Gauge,
    answered: IntCounter,
    failed: IntCounter,
    seconds: Histogram,
    failures: IntCounterVec,
    skipped: IntCounter,
    complete: GaugeVec,
    items: GaugeVec,
    withheld: Gauge,
    /// Whether it is for some alone, so that it tells nothing of the server as a whole.
    is_for_some: bool,
}

const METHODS: [Method; 14] = [
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
const OUTCOMES: [&str; 6] = ["ok", "tool_error", "upstream_error", "refused", "failed", "cancelled"];
const OTHER: &str = "other";
const STREAMS: [&str; 2] = ["session", "subscription"];
const SECONDS: [f64; 14] = [
    0.000_25, 0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0, 30.0,
];

impl Metrics {
    /// Metrics of a new process, with those of the operating system where it tells them.
    pub fn new() -> Result<Self, prometheus::Error> {
        let registry = Registry::new();
        let counter = |name: &str, help: &str, labels: &[&str]| -> Result<IntCounterVec, prometheus::Error> {
            let metric = IntCounterVec::new(Opts::new(name, help), labels)?;
            registry.register(Box::new(metric.clone()))?;
            Ok(metric)
        };
        let gauge = |name: &str, help: &str, labels: &[&str]| -> Result<GaugeVec, prometheus::Error> {
            let metric = GaugeVec::new(Opts::new(name, help), labels)?;
            registry.register(Box::new(metric.clone()))?;
            Ok(metric)
        };
        let histogram = |name: &str, help: &str, labels: &[&str]| -> Result<HistogramVec, prometheus::Error> {
            let metric = HistogramVec::new(HistogramOpts::new(name, help).buckets(SECONDS.to_vec()), labels)?;
            registry.register(Box::new(metric.clone()))?;
            Ok(metric)
        };
        let denied = IntGauge::new(
            "mcpfleet_sessions_denied",
            "Sessions that clients ended and that have not expired yet.",
        )?;
        registry.register(Box::new(denied.clone()))?;
        let forgotten = IntCounter::new(
            "mcpfleet_sessions_denied_forgotten_total",
            "Ended sessions that were forgotten before they expired, since there were too many.",
        )?;
        registry.register(Box::new(forgotten.clone()))?;
        let metrics = Self {
            sessions: SessionMetrics { denied, forgotten },
            requests: counter(
                "mcpfleet_requests_total",
                "Requests of clients, by how they ended.",
                &["federation", "method", "outcome"],
            )?,
            request_seconds: histogram(
                "mcpfleet_request_duration_seconds",
                "Time from a client's request to its answer.",
                &["federation", "method"],
            )?,
            streams: gauge(
                "mcpfleet_streams",
                "Open streams on which clients hear of changes.",
                &["federation", "kind"],
            )?,
            remote_search_failures: counter(
                "mcpfleet_remote_search_failures_total",
                "Searches that members did not answer, by reason.",
                &["federation", "member", "reason"],
            )?,
            list_changed_seconds: histogram(
                "mcpfleet_list_changed_seconds",
                "Time from a change of what a federation lists to its being told on a client's stream.",
                &["federation"],
            )?,
            own_catalogs: gauge(
                "mcpfleet_own_catalogs",
                "Connections, with catalogs or without, that callers have of their own.",
                &["federation"],
            )?,
            own_catalogs_opened: counter(
                "mcpfleet_own_catalogs_opened_total",
                "Connections of callers' own that were opened, since there was none.",
                &["federation"],
            )?,
            own_catalogs_evicted: counter(
                "mcpfleet_own_catalogs_evicted_total",
                "Connections of callers' own that had to make room for others.",
                &["federation"],
            )?,
            own_catalogs_refused: counter(
                "mcpfleet_own_catalogs_refused_total",
                "Connections of callers' own that there was no room for, by reason.",
                &["federation", "reason"],
            )?,
            list_bytes: gauge(
                "mcpfleet_list_bytes",
                "Bytes of the descriptors of all tools that a federation lists.",
                &["federation"],
            )?,
            upstream_up: gauge(
                "mcpfleet_upstream_up",
                "1 while the server can be called, else 0.",
                &["server"],
            )?,
            upstream_lanes: gauge(
                "mcpfleet_upstream_lanes",
                "Sessions with a server, or processes of it, that callers have of their own.",
                &["server"],
            )?,
            upstream_requests: counter(
                "mcpfleet_upstream_requests_total",
                "Requests sent to servers, by whether an answer came.",
                &["server", "outcome"],
            )?,
            upstream_seconds: histogram(
                "mcpfleet_upstream_request_duration_seconds",
                "Time from a request to a server to its answer.",
                &["server"],
            )?,
            upstream_failures: counter(
                "mcpfleet_upstream_failures_total",
                "Failed tries to reach a server or to read its lists, by reason.",
                &["server", "reason"],
            )?,
            upstream_skipped: counter(
                "mcpfleet_upstream_messages_skipped_total",
                "Messages of servers that were larger than is taken.",
                &["server"],
            )?,
            catalog_complete: gauge(
                "mcpfleet_catalog_complete",
                "1 if every page of every list of the server was read, 0 if a list was cut or answered with an error.",
                &["server"],
            )?,
            catalog_items: gauge(
                "mcpfleet_catalog_items",
                "Entries that a server lists.",
                &["server", "list"],
            )?,
            catalog_withheld: gauge(
                "mcpfleet_catalog_withheld",
                "Entries that a server lists and that are not offered.",
                &["server"],
            )?,
            reconciles: counter(
                "mcpfleet_reconciles_total",
                "Reconciliations of objects, by result.",
                &["kind", "result"],
            )?,
            reconcile_seconds: histogram(
                "mcpfleet_reconcile_duration_seconds",
                "Time that one reconciliation took.",
                &["kind"],
            )?,
            registry: registry.clone(),
        };
        let build = gauge(
            "mcpfleet_build_info",
            "Always 1; the label tells the version.",
            &["version"],
        )?;
        build.with_label_values(&[env!("CARGO_PKG_VERSION")]).set(1.0);
        #[cfg(target_os = "linux")]
        registry.register(Box::new(prometheus::process_collector::ProcessCollector::for_self()))?;
        Ok(metrics)
    }

    /// The page that Prometheus reads, and its content type.
    pub fn page(&self) -> Result<(Vec<u8>, &'static str), prometheus::Error> {
        let mut page = Vec::new();
        TextEncoder::new().encode(&self.registry.gather(), &mut page)?;
        Ok((page, prometheus::TEXT_FORMAT))
    }

    /// The handles of the federation `name` (`namespace/name`).
    pub fn federation(&self, name: &str) -> FederationMetrics {
        let method = |method: &str| MethodMetrics {
            outcomes: OUTCOMES.map(|outcome| self.requests.with_label_values(&[name, method, outcome])),
            seconds: self.request_seconds.with_label_values(&[name, method]),
        };
        FederationMetrics {
            methods: METHODS.iter().map(|m| method(m.as_str())).collect(),
            name: name.to_owned(),
            remote_search_failures: self.remote_search_failures.clone(),
            other: method(OTHER),
            streams: STREAMS.map(|kind| self.streams.with_label_values(&[name, kind])),
            list_changed_seconds: self.list_changed_seconds.with_label_values(&[name]),
            own_catalogs: self.own_catalogs.with_label_values(&[name]),
            own_catalogs_opened: self.own_catalogs_opened.with_label_values(&[name]),
            own_catalogs_evicted: self.own_catalogs_evicted.with_label_values(&[name]),
            own_catalogs_refused: self.own_catalogs_refused.clone(),
            list_bytes: self.list_bytes.with_label_values(&[name]),
        }
    }

    /// The handles of the server `name` (`namespace/name`).
    pub fn server(&self, name: &str) -> ServerMetrics {
        ServerMetrics {
            name: name.to_owned(),
            up: self.upstream_up.with_label_values(&[name]),
            lanes: self.upstream_lanes.with_label_values(&[name]),
            answered: self.upstream_requests.with_label_values(&[name, "answered"]),
            failed: self.upstream_requests.with_label_values(&[name, "failed"]),
            seconds: self.upstream_seconds.with_label_values(&[name]),
            failures: self.upstream_failures.clone(),
            skipped: self.upstream_skipped.with_label_values(&[name]),
            complete: self.catalog_complete.clone(),
            items: self.catalog_items.clone(),
            withheld: self.catalog_withheld.with_label_values(&[name]),
            is_for_some: false,
        }
    }

    /// The handles of clients' sessions.
    pub fn sessions(&self) -> SessionMetrics {
        self.sessions.clone()
    }

    /// Counts one reconciliation.
    pub fn reconciled(&self, kind: &str, result: &str, seconds: f64) {
        self.reconciles.with_label_values(&[kind, result]).inc();
        self.reconcile_seconds.with_label_values(&[kind]).observe(seconds);
    }

    /// Removes every series of the federation `name`.
    pub fn forget_federation(&self, name: &str) {
        remove_series(&self.requests, "federation", name);
        remove_series(&self.request_seconds, "federation", name);
        remove_series(&self.streams, "federation", name);
        remove_series(&self.remote_search_failures, "federation", name);
        remove_series(&self.list_changed_seconds, "federation", name);
        remove_series(&self.own_catalogs, "federation", name);
        remove_series(&self.own_catalogs_opened, "federation", name);
        remove_series(&self.own_catalogs_evicted, "federation", name);
        remove_series(&self.own_catalogs_refused, "federation", name);
        remove_series(&self.list_bytes, "federation", name);
    }

    /// Removes every series of the server `name`.
    pub fn forget_server(&self, name: &str) {
        remove_series(&self.upstream_up, "server", name);
        remove_series(&self.upstream_lanes, "server", name);
        remove_series(&self.upstream_requests, "server", name);
        remove_series(&self.upstream_seconds, "server", name);
        remove_series(&self.upstream_failures, "server", name);
        remove_series(&self.upstream_skipped, "server", name);
        remove_series(&self.catalog_complete, "server", name);
        remove_series(&self.catalog_items, "server", name);
        remove_series(&self.catalog_withheld, "server", name);
    }
}

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
}

impl FederationMetrics {
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

impl SessionMetrics {
    /// Tells how many ended sessions are remembered, and how many were just forgotten before they expired.
    pub fn denied(&self, remembered: usize, forgotten: usize) {
        self.denied.set(i64::try_from(remembered).unwrap_or(i64::MAX));
        self.forgotten.inc_by(forgotten as u64);
    }
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

/// Removes the series of `vec` whose label `label` is `value`, whatever their other labels are.
fn remove_series<B: prometheus::core::MetricVecBuilder>(
    vec: &prometheus::core::MetricVec<B>,
    label: &str,
    value: &str,
) {
    use prometheus::core::Collector;
    for family in vec.collect() {
        for metric in family.get_metric() {
            let labels: std::collections::HashMap<&str, &str> = metric
                .get_label()
                .iter()
                .map(|pair| (pair.name(), pair.value()))
                .collect();
            if labels.get(label) == Some(&value) {
                // The series may have been removed by somebody else meanwhile, which is as well.
                drop(vec.remove(&labels));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(metrics: &Metrics) -> String {
        String::from_utf8(metrics.page().unwrap().0).unwrap()
    }

    #[test]
    fn series_of_objects_that_are_gone_are_removed_and_others_stay() {
        let metrics = Metrics::new().unwrap();
        for name in ["default/a", "default/b"] {
            let server = metrics.server(name);
            server.up(true);
            server.request(true, Duration::from_millis(1));
            server.failure("Timeout");
            server.items(List::Tools, 3);
            server.withheld(2);
            metrics
                .federation(name)
                .request(Some(Method::ToolsCall), Outcome::Ok, Duration::from_millis(1));
        }
        let streams = metrics.federation("default/b");
        streams.list_bytes(4_096);
        let open = streams.stream(StreamKind::Session);
        open.list_changed(Duration::from_millis(1));
        drop(streams.stream(StreamKind::Subscription));
        metrics.forget_server("default/a");
        metrics.forget_federation("default/a");
        assert!(!page(&metrics).contains("default/a"));
        for line in [
            r#"mcpfleet_upstream_up{server="default/b"} 1"#,
            r#"mcpfleet_upstream_failures_total{reason="Timeout",server="default/b"} 1"#,
            r#"mcpfleet_catalog_items{list="tools",server="default/b"} 3"#,
            r#"mcpfleet_catalog_withheld{server="default/b"} 2"#,
            r#"mcpfleet_requests_total{federation="default/b",method="tools/call",outcome="ok"} 1"#,
            r#"mcpfleet_streams{federation="default/b",kind="session"} 1"#,
            r#"mcpfleet_streams{federation="default/b",kind="subscription"} 0"#,
            r#"mcpfleet_list_changed_seconds_count{federation="default/b"} 1"#,
            r#"mcpfleet_list_bytes{federation="default/b"} 4096"#,
        ] {
            assert!(page(&metrics).contains(line), "{line}");
        }
        drop(open);
        assert!(page(&metrics).contains(r#"mcpfleet_streams{federation="default/b",kind="session"} 0"#));
    }
}
