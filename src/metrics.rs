//! What the process counts, in Prometheus' text format.
//!
//! Handles are resolved once per federation and server, so that counting a request takes no lock and no lookup.
//! The series of an object that is gone are removed by name.

mod federation;
mod server;
mod sessions;
mod voices;

use prometheus::{
    Encoder, GaugeVec, HistogramOpts, HistogramVec, IntCounter, IntCounterVec, IntGauge, Opts, Registry, TextEncoder,
};

pub use self::federation::{FederationMetrics, OpenStream, Outcome, StreamKind};
use self::federation::{METHODS, MethodMetrics, OTHER, OUTCOMES, STREAMS};
pub use self::server::ServerMetrics;
pub use self::sessions::SessionMetrics;
use self::voices::{Voice, Voices};

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
    voices: Voices,
}

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
            voices: Voices::default(),
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

    /// The handles of the server `name` (`namespace/name`). Once they told that it can be called, those that were given before
    /// tell no more of how it is.
    pub fn server(&self, name: &str) -> ServerMetrics {
        self.voices.newest(name, |voice| self.handles(name, voice))
    }

    fn handles(&self, name: &str, voice: Voice) -> ServerMetrics {
        ServerMetrics {
            name: name.to_owned(),
            voice,
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

    /// Removes every series of the server `name`; none comes back by what was given of it.
    pub fn forget_server(&self, name: &str) {
        self.voices.forget(name, || {
            remove_series(&self.upstream_up, "server", name);
            remove_series(&self.upstream_lanes, "server", name);
            remove_series(&self.upstream_requests, "server", name);
            remove_series(&self.upstream_seconds, "server", name);
            remove_series(&self.upstream_failures, "server", name);
            remove_series(&self.upstream_skipped, "server", name);
            remove_series(&self.catalog_complete, "server", name);
            remove_series(&self.catalog_items, "server", name);
            remove_series(&self.catalog_withheld, "server", name);
        });
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
    use std::time::Duration;

    use super::*;
    use crate::index::List;
    use crate::mcp::Method;

    fn page(metrics: &Metrics) -> String {
        String::from_utf8(metrics.page().unwrap().0).unwrap()
    }

    #[test]
    fn the_newest_holder_of_a_server_tells_how_it_is_from_its_first_word_on() {
        let metrics = Metrics::new().unwrap();
        let shows = |up: u8, lanes: u8| {
            let up = format!("mcpfleet_upstream_up{{server=\"default/s\"}} {up}\n");
            let lanes = format!("mcpfleet_upstream_lanes{{server=\"default/s\"}} {lanes}\n");
            page(&metrics).contains(&up) && page(&metrics).contains(&lanes)
        };
        let before = metrics.server("default/s");
        assert!(shows(0, 0));
        before.up(true);
        before.lanes(2);
        let after = metrics.server("default/s");
        assert!(shows(1, 2), "it serves still");
        metrics.server("default/s").for_some().up(false);
        after.up(false);
        assert!(shows(1, 2), "it serves still");
        after.up(true);
        assert!(shows(1, 0));
        before.up(false);
        before.lanes(1);
        before.ended();
        assert!(shows(1, 0));
        after.lanes(3);
        assert!(shows(1, 3));
        after.ended();
        assert!(shows(0, 0));
        metrics.forget_server("default/s");
        after.up(true);
        after.failure("Timeout");
        after.items(List::Tools, 1);
        after.complete(true);
        assert!(!page(&metrics).contains("default/s"));
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
