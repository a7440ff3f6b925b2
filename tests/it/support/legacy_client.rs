//! A Legacy client that can be asked: one session, whose questions a test answers as it likes.

use mcpfleet::mcp::Revision;
use serde_json::{Value, json};

use super::event_stream::EventStream;
use super::gateway::TestGateway;
use super::http::{self, Http};
use super::wire;

/// A Legacy client in a session of its own.
pub(crate) struct LegacyClient {
    http: Http,
    url: String,
    session: String,
    revision: Revision,
}

impl LegacyClient {
    /// Opens a session of a client with these capabilities.
    pub(crate) async fn open(gateway: &TestGateway, revision: Revision, capabilities: Value) -> Self {
        let (http, url) = (http::client(), gateway.url());
        let params = json!({
            "protocolVersion": revision.as_str(), "capabilities": capabilities,
            "clientInfo": {"name": "test", "version": "1"},
        });
        let body = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params});
        let reply = http::exchange(&http, http::legacy(&url, &body, [])).await;
        let session = reply.header("mcp-session-id").unwrap().to_owned();
        Self {
            http,
            url,
            session,
            revision,
        }
    }

    /// Calls a tool, and gives the answer as it comes.
    pub(crate) async fn call(&self, tool: &str) -> EventStream {
        self.request("tools/call", json!({"name": tool})).await
    }

    /// Sends a request with the id `q`, and gives the answer as it comes.
    pub(crate) async fn request(&self, method: &str, params: Value) -> EventStream {
        let body = json!({"jsonrpc": "2.0", "id": "q", "method": method, "params": params});
        EventStream::open(&self.http, self.post(&body)).await
    }

    /// Calls a tool, and gives all messages of the answer, streamed or not; the response is the last.
    pub(crate) async fn call_to_end(&self, tool: &str) -> Vec<Value> {
        self.request_to_end("tools/call", json!({"name": tool})).await
    }

    /// The same for any request.
    pub(crate) async fn request_to_end(&self, method: &str, params: Value) -> Vec<Value> {
        let body = json!({"jsonrpc": "2.0", "id": "q", "method": method, "params": params});
        wire::messages(&http::exchange(&self.http, self.post(&body)).await)
    }

    /// The next message of `stream`, which must be a request that the revision knows.
    pub(crate) async fn asked(&self, stream: &mut EventStream) -> Value {
        let asked = stream.next().await;
        let problems = wire::problems(self.revision, "ServerRequest", &asked);
        assert!(problems.is_empty(), "{asked}: {problems:?}");
        asked
    }

    /// Answers a question with this `result` or `error`, and gives the status.
    pub(crate) async fn respond(&self, to: &Value, response: Value) -> u16 {
        let mut body = json!({"jsonrpc": "2.0", "id": to["id"]});
        for (name, value) in response.as_object().unwrap() {
            body[name] = value.clone();
        }
        http::send(&self.http, self.post(&body)).await.status
    }

    /// Sends a notification.
    pub(crate) async fn tell(&self, notification: Value) {
        let reply = http::send(&self.http, self.post(&notification)).await;
        assert_eq!(reply.status, 202, "{}", reply.text);
    }

    fn post(&self, body: &Value) -> ::http::Request<http_body_util::Full<bytes::Bytes>> {
        let headers = [
            ("mcp-session-id", self.session.as_str()),
            ("mcp-protocol-version", self.revision.as_str()),
        ];
        http::legacy(&self.url, body, headers)
    }
}
