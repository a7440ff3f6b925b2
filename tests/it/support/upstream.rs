//! An MCP server that does exactly what a test says, right or wrong.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::{HeaderMap, Method, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::mpsc;

use super::wire;

/// One request as the server got it.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    pub(crate) http: Method,
    pub(crate) path: String,
    pub(crate) query: String,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Value,
    pub(crate) text: String,
}

impl Seen {
    pub(crate) fn method(&self) -> &str {
        self.body["method"].as_str().unwrap_or_default()
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).and_then(|v| v.to_str().ok())
    }

    /// The value of this name in the query of its address.
    pub(crate) fn query(&self, name: &str) -> Option<String> {
        let mut pairs = self.query.split('&').filter_map(|pair| pair.split_once('='));
        pairs.find(|(own, _)| *own == name).map(|(_, value)| value.to_owned())
    }

    /// A response to this request.
    pub(crate) fn result(&self, result: Value) -> Answer {
        Answer::json(200, json!({"jsonrpc": "2.0", "id": self.body["id"], "result": result}))
    }

    pub(crate) fn error(&self, status: u16, code: i64, message: &str) -> Answer {
        let error = json!({"code": code, "message": message});
        Answer::json(status, json!({"jsonrpc": "2.0", "id": self.body["id"], "error": error}))
    }
}

/// What the server does with a request.
#[derive(Clone, Debug)]
pub(crate) enum Answer {
    Respond {
        status: u16,
        headers: Vec<(&'static str, String)>,
        body: String,
    },
    /// An event stream whose events come one after the other, each after this long.
    Stream(Vec<(Duration, Value)>),
    /// An event stream of what is sent to it, messages or, as strings, the very text of events; it ends when nobody can
    /// send any more.
    Live(Events),
    Hang,
}

/// The receiving end of [`Answer::live`].
pub(crate) type Events = Arc<Mutex<Option<mpsc::UnboundedReceiver<Value>>>>;

impl Answer {
    /// An event stream, and what sends events on it.
    pub(crate) fn live() -> (mpsc::UnboundedSender<Value>, Self) {
        let (sender, receiver) = mpsc::unbounded_channel();
        (sender, Self::Live(Arc::new(Mutex::new(Some(receiver)))))
    }

    pub(crate) fn json(status: u16, body: Value) -> Self {
        let headers = vec![("content-type", "application/json".to_owned())];
        Self::Respond {
            status,
            headers,
            body: body.to_string(),
        }
    }

    pub(crate) fn text(status: u16, content_type: &str, body: impl Into<String>) -> Self {
        Self::Respond {
            status,
            headers: vec![("content-type", content_type.to_owned())],
            body: body.into(),
        }
    }

    pub(crate) fn status(status: u16) -> Self {
        Self::Respond {
            status,
            headers: Vec::new(),
            body: String::new(),
        }
    }

    pub(crate) fn with_header(mut self, name: &'static str, value: &str) -> Self {
        if let Self::Respond { headers, .. } = &mut self {
            headers.push((name, value.to_owned()));
        }
        self
    }
}

type Script = dyn Fn(&Seen) -> Answer + Send + Sync;

/// A running server.
pub(crate) struct Upstream {
    pub(crate) address: SocketAddr,
    seen: Arc<Mutex<Vec<Seen>>>,
    problems: Arc<Mutex<Vec<String>>>,
    task: tokio::task::JoinHandle<()>,
}

#[derive(Clone)]
struct Shared {
    script: Arc<Script>,
    seen: Arc<Mutex<Vec<Seen>>>,
    problems: Arc<Mutex<Vec<String>>>,
}

impl Upstream {
    /// Starts a server that answers as `script` says.
    pub(crate) async fn start(script: impl Fn(&Seen) -> Answer + Send + Sync + 'static) -> Self {
        Self::start_at("127.0.0.1:0".parse().unwrap(), script).await
    }

    /// The same on a given address.
    pub(crate) async fn start_at(
        address: SocketAddr,
        script: impl Fn(&Seen) -> Answer + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind(address).await.unwrap();
        let address = listener.local_addr().unwrap();
        let seen = Arc::new(Mutex::new(Vec::new()));
        let shared = Shared {
            script: Arc::new(script),
            seen: Arc::clone(&seen),
            problems: Arc::default(),
        };
        let problems = Arc::clone(&shared.problems);
        let router = Router::new().fallback(handle).with_state(shared);
        let task = tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        Self {
            address,
            seen,
            problems,
            task,
        }
    }

    /// Everything it was asked so far.
    pub(crate) fn seen(&self) -> Vec<Seen> {
        self.seen.lock().unwrap().clone()
    }

    /// What it was asked by this JSON-RPC method.
    pub(crate) fn seen_of(&self, method: &str) -> Vec<Seen> {
        self.seen().into_iter().filter(|seen| seen.method() == method).collect()
    }
}

/// The end of a test: everything that the gateway sent must have been of its revision.
impl Drop for Upstream {
    fn drop(&mut self) {
        self.task.abort();
        let problems = self.problems.lock().unwrap();
        assert!(problems.is_empty() || std::thread::panicking(), "{problems:#?}");
    }
}

/// An address that refuses connections.
pub(crate) async fn refusing_address() -> SocketAddr {
    TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap()
}

/// A Legacy server with these tools: it wants a handshake, gives a session, and knows nothing of discovery.
pub(crate) fn legacy(seen: &Seen, tools: &Value) -> Answer {
    match seen.method() {
        "initialize" => seen
            .result(json!({
                "protocolVersion": "2025-06-18", "capabilities": {"tools": {}},
                "serverInfo": {"name": "legacy", "version": "1"},
            }))
            .with_header("mcp-session-id", "s-1"),
        _ if seen.header("mcp-session-id").is_none() => Answer::text(400, "text/plain", "Bad Request: no session"),
        "tools/list" => seen.result(json!({"tools": tools})),
        "tools/call" => seen.result(json!({"content": [{"type": "text", "text": seen.body["params"]["name"]}]})),
        method if method.starts_with("notifications/") => Answer::status(202),
        _ if seen.http == Method::DELETE => Answer::status(204),
        _ => seen.error(200, -32601, "unknown method"),
    }
}

/// A Modern server with these tools.
pub(crate) fn modern(seen: &Seen, tools: &Value) -> Answer {
    match seen.method() {
        "server/discover" => seen.result(json!({
            "resultType": "complete", "supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}},
            "ttlMs": 0, "cacheScope": "private",
            "_meta": {"io.modelcontextprotocol/serverInfo": {"name": "modern", "version": "1"}},
        })),
        "tools/list" => {
            seen.result(json!({"resultType": "complete", "tools": tools, "ttlMs": 0, "cacheScope": "private"}))
        }
        "tools/call" => seen.result(json!({
            "resultType": "complete", "content": [{"type": "text", "text": seen.body["params"]["name"]}],
        })),
        _ => seen.error(404, -32601, "unknown method"),
    }
}

async fn handle(State(shared): State<Shared>, http: Method, uri: Uri, headers: HeaderMap, body: Bytes) -> Response {
    let text = String::from_utf8_lossy(&body).into_owned();
    let body = serde_json::from_str(&text).unwrap_or(Value::Null);
    let seen = Seen {
        http: http.clone(),
        path: uri.path().to_owned(),
        query: uri.query().unwrap_or_default().to_owned(),
        headers,
        body,
        text,
    };
    if http == Method::POST {
        let found = wire::problems_to_server(&seen.headers, &seen.body);
        let found = found.iter().map(|problem| format!("{problem}, in {}", seen.text));
        shared.problems.lock().unwrap().extend(found);
    }
    shared.seen.lock().unwrap().push(seen.clone());
    match (shared.script)(&seen) {
        Answer::Hang => {
            tokio::time::sleep(Duration::from_secs(3600)).await;
            StatusCode::GATEWAY_TIMEOUT.into_response()
        }
        Answer::Live(events) => {
            let receiver = events.lock().unwrap().take().unwrap();
            let events = futures::stream::unfold(receiver, async |mut receiver| {
                let text = match receiver.recv().await? {
                    Value::String(text) => text,
                    message => format!("data: {message}\n\n"),
                };
                Some((Ok::<_, std::convert::Infallible>(text), receiver))
            });
            let response = Response::builder().header("content-type", "text/event-stream");
            response.body(Body::from_stream(events)).unwrap()
        }
        Answer::Stream(events) => {
            let (sender, receiver) = mpsc::channel::<Result<String, std::convert::Infallible>>(1);
            tokio::spawn(async move {
                for (pause, message) in events {
                    tokio::time::sleep(pause).await;
                    if sender.send(Ok(format!("data: {message}\n\n"))).await.is_err() {
                        return;
                    }
                }
            });
            let events =
                futures::stream::unfold(receiver, async |mut receiver| Some((receiver.recv().await?, receiver)));
            let response = Response::builder().header("content-type", "text/event-stream");
            response.body(Body::from_stream(events)).unwrap()
        }
        Answer::Respond { status, headers, body } => {
            let mut response = Response::builder().status(status);
            for (name, value) in headers {
                response = response.header(name, value);
            }
            response.body(Body::from(body)).unwrap()
        }
    }
}
