//! A plain HTTP client, which sends what a test says and nothing else.

use std::time::Duration;

use bytes::Bytes;
use http::Request;
use http_body_util::{BodyExt, Full, Limited};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use mcpfleet::mcp::Revision;
use serde_json::{Value, json};

use super::wire;

/// A client with connections of its own.
pub(crate) type Http = Client<HttpConnector, Full<Bytes>>;

/// What came back.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) headers: http::HeaderMap,
    pub(crate) text: String,
}

impl Reply {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|e| panic!("{e} in {self:?}"))
    }
}

/// A new client.
pub(crate) fn client() -> Http {
    Client::builder(TokioExecutor::new()).build_http()
}

/// Sends a request as it is.
pub(crate) async fn send(client: &Http, request: Request<Full<Bytes>>) -> Reply {
    let answered = tokio::time::timeout(Duration::from_secs(20), client.request(request)).await;
    let (parts, body) = answered.expect("no answer").unwrap().into_parts();
    #[allow(clippy::disallowed_methods, reason = "the body is limited right here")]
    let bytes = Limited::new(body, 64 << 20).collect().await.unwrap().to_bytes();
    Reply {
        status: parts.status.as_u16(),
        headers: parts.headers,
        text: String::from_utf8(bytes.to_vec()).unwrap(),
    }
}

/// Sends a request to an MCP endpoint, and holds the answer against the schema of its revision.
pub(crate) async fn exchange(client: &Http, request: Request<Full<Bytes>>) -> Reply {
    let headers = request.headers().clone();
    #[allow(clippy::disallowed_methods, reason = "the test itself has made the body")]
    let body = request.body().clone().collect().await.unwrap().to_bytes();
    let reply = send(client, request).await;
    wire::assert_reply(&headers, &String::from_utf8_lossy(&body), &reply);
    reply
}

/// A GET.
pub(crate) async fn get(url: &str) -> Reply {
    send(&client(), Request::get(url).body(Full::default()).unwrap()).await
}

/// A message to an MCP endpoint from a Legacy client in a session of its own, and its answer.
pub(crate) async fn post(url: &str, message: &Value) -> Value {
    let (client, revision) = (client(), Revision::WITHOUT_HEADER);
    let session = open_session(&client, url, revision, &[]).await;
    let headers = session.iter().map(|id| ("mcp-session-id", id.as_str()));
    let reply = exchange(&client, legacy(url, message, headers)).await;
    reply.json()
}

/// Opens a session of a client that speaks `revision` and sends these headers, and gives its id, if it is given one.
pub(crate) async fn open_session(
    client: &Http,
    url: &str,
    revision: Revision,
    headers: &[(&str, &str)],
) -> Option<String> {
    let params = json!({
        "protocolVersion": revision.as_str(), "capabilities": {}, "clientInfo": {"name": "test", "version": "1"},
    });
    let handshake = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params});
    let reply = exchange(client, legacy(url, &handshake, headers.iter().copied())).await;
    assert_eq!(
        reply.json()["result"]["protocolVersion"],
        revision.as_str(),
        "{}",
        reply.text
    );
    reply.header("mcp-session-id").map(str::to_owned)
}

/// A POST of `message` with these headers beside the usual ones.
pub(crate) fn legacy<'h>(
    url: &str,
    message: &Value,
    headers: impl IntoIterator<Item = (&'h str, &'h str)>,
) -> Request<Full<Bytes>> {
    let usual = [
        ("content-type", "application/json"),
        ("accept", "application/json, text/event-stream"),
    ];
    let request = usual
        .into_iter()
        .chain(headers)
        .fold(Request::post(url), |request, (name, value)| request.header(name, value));
    request.body(Full::new(Bytes::from(message.to_string()))).unwrap()
}

impl Reply {
    /// The value of a header.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).and_then(|value| value.to_str().ok())
    }
}
