//! An answer that comes in events, read one by one while other requests are sent.

use std::collections::VecDeque;
use std::time::Duration;

use bytes::Bytes;
use http::Request;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use mcpfleet::mcp::sse::{Decoder, Event};
use serde_json::Value;
use tokio::time::timeout;

use super::http::Http;

/// A stream that is open.
pub(crate) struct EventStream {
    body: Incoming,
    decoder: Decoder,
    read: VecDeque<Event>,
}

impl EventStream {
    /// Sends a request that is answered by a stream.
    pub(crate) async fn open(client: &Http, request: Request<Full<Bytes>>) -> Self {
        let answered = timeout(PATIENCE, client.request(request)).await;
        let response = answered.expect("no answer").unwrap();
        assert_eq!(response.headers()["content-type"], "text/event-stream", "{response:?}");
        Self {
            body: response.into_body(),
            decoder: Decoder::new(1 << 20),
            read: VecDeque::new(),
        }
    }

    /// The next message; events without data are passed over.
    pub(crate) async fn next(&mut self) -> Value {
        let message = timeout(PATIENCE, self.message()).await.expect("no event came");
        message.expect("the stream ended")
    }

    /// Waits for the end of the stream, which brings no more messages.
    pub(crate) async fn end(&mut self) {
        let message = timeout(PATIENCE, self.message()).await.expect("the stream stays open");
        assert_eq!(message, None);
    }

    async fn message(&mut self) -> Option<Value> {
        loop {
            while let Some(event) = self.read.pop_front() {
                if !event.data.is_empty() {
                    return Some(serde_json::from_slice(&event.data).unwrap());
                }
            }
            let frame = self.body.frame().await?.unwrap();
            if let Ok(data) = frame.into_data() {
                let mut events = Vec::new();
                self.decoder.push(&data, &mut events).unwrap();
                self.read.extend(events);
            }
        }
    }
}

const PATIENCE: Duration = Duration::from_secs(20);
