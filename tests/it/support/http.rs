//! A plain HTTP client, which sends what a test says and nothing else.

use std::time::Duration;

use bytes::Bytes;
use http::Request;
use http_body_util::{BodyExt, Full, Limited};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use serde_json::Value;

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

/// A message to an MCP endpoint from a Legacy client, and its answer.
pub(crate) async fn post(url: &str, message: &Value) -> Value {
    let request = Request::post(url)
        .header("content-type", "application/json")
        .header("accept", "application/json, text/event-stream")
        .body(Full::new(Bytes::from(message.to_string())));
    exchange(&client(), request.unwrap()).await.json()
}
