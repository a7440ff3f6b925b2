//! An upstream held by itself, over a server whose changes a test brings about.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use ::http::Method;
use mcpfleet::metrics::Metrics;
use mcpfleet::upstream::{Endpoint, Health, HttpEndpoint, State, Terms, Timeouts, Upstream as Held};
use serde_json::{Value, json};
use tokio::sync::mpsc::UnboundedSender;
use tokio::time::{Instant, sleep, timeout};

use super::upstream::{self, Answer, Seen, Upstream};

pub(crate) const PATIENCE: Duration = Duration::from_secs(10);

/// The streams that a server has open, latest last.
#[derive(Clone, Default)]
pub(crate) struct Streams(Arc<Mutex<Vec<UnboundedSender<Value>>>>);

impl Streams {
    pub(crate) fn open(&self) -> Answer {
        let (sender, answer) = Answer::live();
        self.0.lock().unwrap().push(sender);
        answer
    }

    /// A stream that begins with the acknowledgement of a listen, of all that it asks for or of what is `agreed`.
    pub(crate) fn open_for(&self, seen: &Seen, agreed: Option<Value>) -> Answer {
        let answer = self.open();
        let agreed = agreed.unwrap_or_else(|| seen.body["params"]["notifications"].clone());
        self.say(tagged(
            "notifications/subscriptions/acknowledged",
            &seen.body["id"],
            json!({ "notifications": agreed }),
        ));
        answer
    }

    /// Sends on the latest stream.
    pub(crate) fn say(&self, message: Value) {
        self.0.lock().unwrap().last().unwrap().send(message).unwrap();
    }

    pub(crate) fn close(&self) {
        self.0.lock().unwrap().pop();
    }

    /// Whether the client still reads the stream of this number.
    pub(crate) fn is_read(&self, number: usize) -> bool {
        !self.0.lock().unwrap()[number].is_closed()
    }

    pub(crate) fn count(&self) -> usize {
        self.0.lock().unwrap().len()
    }
}

/// Tools that a test changes.
#[derive(Clone, Default)]
pub(crate) struct Tools(Arc<Mutex<Vec<&'static str>>>);

impl Tools {
    pub(crate) fn add(&self, name: &'static str) {
        self.0.lock().unwrap().push(name);
    }

    pub(crate) fn list(&self) -> Value {
        self.0
            .lock()
            .unwrap()
            .iter()
            .map(|name| json!({"name": name, "inputSchema": {"type": "object"}}))
            .collect()
    }
}

pub(crate) fn changed() -> Value {
    json!({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"})
}

pub(crate) fn tagged(method: &str, id: &Value, mut params: Value) -> Value {
    params["_meta"]["io.modelcontextprotocol/subscriptionId"] = id.clone();
    json!({"jsonrpc": "2.0", "method": method, "params": params})
}

/// A Legacy server with these capabilities.
pub(crate) fn legacy(seen: &Seen, capabilities: Value, tools: &Tools) -> Answer {
    match seen.method() {
        "initialize" => seen
            .result(json!({
                "protocolVersion": "2025-11-25", "capabilities": capabilities,
                "serverInfo": {"name": "legacy", "version": "1"},
            }))
            .with_header("mcp-session-id", "s-1"),
        "ping" | "resources/subscribe" | "resources/unsubscribe" => seen.result(json!({})),
        "resources/list" => seen.result(json!({"resources": []})),
        "resources/templates/list" => seen.result(json!({"resourceTemplates": []})),
        _ => upstream::legacy(seen, &tools.list()),
    }
}

/// A running Legacy server with these capabilities that opens its own stream for whoever asks.
pub(crate) async fn streaming(capabilities: Value, tools: &Tools) -> (Upstream, Streams) {
    let streams = Streams::default();
    let (own, tools) = (streams.clone(), tools.clone());
    let server = Upstream::start(move |seen| match seen.http {
        Method::GET => own.open(),
        _ => legacy(seen, capabilities.clone(), &tools),
    });
    (server.await, streams)
}

/// The same with sessions that it loses.
pub(crate) struct Forgetful {
    pub(crate) server: Upstream,
    pub(crate) streams: Streams,
    generation: Arc<AtomicUsize>,
}

impl Forgetful {
    pub(crate) async fn start(capabilities: Value) -> Self {
        let (streams, tools) = (Streams::default(), Tools::default());
        let generation = Arc::<AtomicUsize>::default();
        let (own, current) = (streams.clone(), Arc::clone(&generation));
        let server = Upstream::start(move |seen| {
            let session = format!("s-{}", current.load(Ordering::SeqCst));
            match seen.header("mcp-session-id") {
                Some(sent) if sent != session => Answer::status(404),
                _ if seen.http == Method::GET => own.open(),
                _ => match legacy(seen, capabilities.clone(), &tools) {
                    Answer::Respond { status, body, .. } => {
                        Answer::text(status, "application/json", body).with_header("mcp-session-id", &session)
                    }
                    other => other,
                },
            }
        })
        .await;
        Self {
            server,
            streams,
            generation,
        }
    }

    /// Forgets all sessions: the next is `s-1`, and so on. The latest stream ends.
    pub(crate) fn forget(&self) {
        self.generation.fetch_add(1, Ordering::SeqCst);
        self.streams.close();
    }
}

/// A running Modern server with these capabilities that agrees to every listen.
pub(crate) async fn listened_to(capabilities: Value, tools: &Tools) -> (Upstream, Streams) {
    let streams = Streams::default();
    let (own, tools) = (streams.clone(), tools.clone());
    let server = Upstream::start(move |seen| match seen.method() {
        "subscriptions/listen" => own.open_for(seen, None),
        _ => modern(seen, capabilities.clone(), &tools),
    });
    (server.await, streams)
}

/// A Modern server with these capabilities.
pub(crate) fn modern(seen: &Seen, capabilities: Value, tools: &Tools) -> Answer {
    let page = |list: &str| json!({"resultType": "complete", list: [], "ttlMs": 0, "cacheScope": "private"});
    match seen.method() {
        "server/discover" => seen.result(json!({
            "resultType": "complete", "supportedVersions": ["2026-07-28"], "capabilities": capabilities,
            "ttlMs": 0, "cacheScope": "private",
        })),
        "resources/list" => seen.result(page("resources")),
        "resources/templates/list" => seen.result(page("resourceTemplates")),
        _ => upstream::modern(seen, &tools.list()),
    }
}

pub(crate) fn terms() -> Terms {
    Terms {
        timeouts: Timeouts {
            connect: Duration::from_secs(1),
            list: Some(Duration::from_secs(1)),
            resource: Duration::from_secs(2),
            ..Timeouts::default()
        },
        ..Terms::default()
    }
}

pub(crate) async fn hold(server: &Upstream) -> Held {
    hold_at(
        Endpoint::Http(HttpEndpoint {
            url: format!("http://{}/mcp", server.address).parse().unwrap(),
            headers: Default::default(),
        }),
        terms(),
    )
    .await
}

pub(crate) async fn hold_at(endpoint: Endpoint, terms: Terms) -> Held {
    let metrics = Metrics::new().unwrap().server("default/s");
    let held = Held::start("default/s".into(), endpoint, terms, metrics);
    until(&held, "ready", |state| state.health == Health::Ready).await;
    held
}

pub(crate) async fn until(held: &Held, what: &str, holds: impl Fn(&State) -> bool) -> Arc<State> {
    let mut state = held.state();
    let waited = timeout(PATIENCE, state.wait_for(|state| holds(state))).await;
    Arc::clone(&*waited.unwrap_or_else(|_| panic!("never {what}")).unwrap())
}

pub(crate) async fn until_it_has(held: &Held, tool: &str) {
    until(held, tool, |state| {
        let tools = state.catalog.iter().flat_map(|catalog| &catalog.tools);
        tools.into_iter().any(|item| item.key == tool)
    })
    .await;
}

pub(crate) async fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !holds() {
        assert!(Instant::now() < deadline, "never {what}");
        sleep(Duration::from_millis(10)).await;
    }
}

pub(crate) fn streams_asked_for(server: &Upstream) -> Vec<Seen> {
    server
        .seen()
        .into_iter()
        .filter(|seen| seen.http == Method::GET)
        .collect()
}
