//! Event streams, read as they come.

use std::collections::VecDeque;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Request};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use mcpfleet::mcp::Revision;
use mcpfleet::mcp::sse::{Decoder, Event};
use serde_json::Value;
use tokio::time::timeout;

use super::http::Http;
use super::wire;

/// An answer whose body is read event by event. Dropping it closes the connection.
pub(crate) struct EventStream {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    /// How many comments came.
    pub(crate) comments: usize,
    /// The id of the last event that had one.
    pub(crate) last_id: Option<String>,
    revision: Revision,
    asked: Vec<Value>,
    body: Incoming,
    decoder: Decoder,
    ready: VecDeque<Event>,
}

const PATIENCE: Duration = Duration::from_secs(20);

impl EventStream {
    /// Sends `request`, by whose version header its answer is judged.
    pub(crate) async fn open(client: &Http, request: Request<Full<Bytes>>) -> Self {
        let version = request.headers().get("mcp-protocol-version");
        let revision = version.map_or(Revision::WITHOUT_HEADER, |name| {
            Revision::parse(name.to_str().unwrap()).unwrap()
        });
        #[allow(clippy::disallowed_methods, reason = "the test itself has made the body")]
        let sent = request.body().clone().collect().await.unwrap().to_bytes();
        let asked = match serde_json::from_slice(&sent) {
            Ok(Value::Array(batch)) => batch,
            Ok(one) => vec![one],
            Err(_) => Vec::new(),
        };
        let answered = timeout(PATIENCE, client.request(request)).await;
        let (parts, body) = answered.expect("no answer").unwrap().into_parts();
        Self {
            status: parts.status.as_u16(),
            headers: parts.headers,
            comments: 0,
            last_id: None,
            revision,
            asked,
            body,
            decoder: Decoder::new(1 << 24),
            ready: VecDeque::new(),
        }
    }

    /// The same stream taken up again answers what `asked` asked.
    pub(crate) fn answering(mut self, asked: &Value) -> Self {
        self.expect(asked);
        self
    }

    /// From now on it may answer `asked`.
    pub(crate) fn expect(&mut self, asked: &Value) {
        self.asked.push(asked.clone());
    }

    pub(crate) fn content_type(&self) -> &str {
        self.headers
            .get("content-type")
            .map_or("", |value| value.to_str().unwrap())
    }

    /// The next event, or `None` at the end.
    pub(crate) async fn event(&mut self) -> Option<Event> {
        timeout(PATIENCE, self.next_event()).await.expect("no event")
    }

    /// The next message, or `None` at the end.
    pub(crate) async fn message(&mut self) -> Option<Value> {
        timeout(PATIENCE, self.next_message()).await.expect("no message")
    }

    /// The next message, which must come.
    pub(crate) async fn next(&mut self) -> Value {
        self.message().await.expect("the stream ended")
    }

    /// Waits for the end of the stream, which brings no more messages.
    pub(crate) async fn end(&mut self) {
        assert_eq!(self.message().await, None);
    }

    /// The next message, unless none comes for that long.
    pub(crate) async fn message_within(&mut self, time: Duration) -> Option<Value> {
        timeout(time, self.next_message()).await.ok().flatten()
    }

    /// All messages up to the end.
    pub(crate) async fn rest(&mut self) -> Vec<Value> {
        let mut messages = Vec::new();
        while let Some(message) = self.message().await {
            messages.push(message);
        }
        messages
    }

    async fn next_message(&mut self) -> Option<Value> {
        loop {
            let event = self.next_event().await?;
            let Some(data) = event.message() else { continue };
            let message = serde_json::from_slice(data).unwrap();
            wire::assert_event(self.revision, &self.asked, &message);
            return Some(message);
        }
    }

    async fn next_event(&mut self) -> Option<Event> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                if event.id.is_some() {
                    self.last_id.clone_from(&event.id);
                }
                return Some(event);
            }
            let data = self.body.frame().await?.ok()?.into_data().unwrap_or_default();
            self.comments += usize::from(data.starts_with(b":"));
            let mut events = Vec::new();
            self.decoder.push(&data, &mut events).unwrap();
            self.ready.extend(events);
        }
    }
}
