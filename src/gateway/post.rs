//! A POST: its body is read within limits, and its answer comes whole or, if it takes its time, as an event stream.

use std::future::ready;
use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderMap, StatusCode, header};
use hyper::body::Incoming;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep, timeout};

use super::accept::{accepts, is_json};
use super::access::Principal;
use super::bridge::Bridge;
use super::modern::{Refusal, refusal};
use super::reply::{self, Reply};
use super::rpc;
use super::session::Sessions;
use super::stream::{EventStream, Finished, Work};
use crate::body::{self, BodyError};
use crate::defaults;
use crate::fleet::Federation;
use crate::mcp::RpcError;
use crate::metrics::Outcome;

/// Where a message goes, who sends it, and its headers.
pub(super) struct Post {
    pub(super) federation: Arc<Federation>,
    pub(super) sessions: Arc<Sessions>,
    pub(super) bridge: Arc<Bridge>,
    pub(super) principal: Principal,
    pub(super) headers: HeaderMap,
    pub(super) started: Instant,
}

/// Answers the message that comes as `body`.
pub(super) async fn answer(post: Post, body: Incoming) -> Reply {
    if !is_json(&post.headers) {
        return reply::plain(
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            "Content-Type must be application/json\n",
        );
    }
    if !accepts(&post.headers, &["application/json", "application/*", "*/*"]) {
        return reply::plain(
            StatusCode::NOT_ACCEPTABLE,
            "Accept must list application/json (and text/event-stream)\n",
        );
    }
    let body = match timeout(defaults::BODY_TIMEOUT, read_body(body))
        .await
        .unwrap_or_else(|_| Err(too_slow()))
    {
        Ok(body) => body,
        Err(refused) => {
            let elapsed = post.started.elapsed();
            post.federation.metrics.request(None, Outcome::Refused, elapsed);
            return reply::whole(reply::refuse(&post.headers, None, &refused));
        }
    };
    // Streams must be asked for by name; who takes just anything may not be able to read one.
    if !post.headers.contains_key(header::ACCEPT) || !accepts(&post.headers, &["text/event-stream"]) {
        return reply::whole(work(post, body, None).await);
    }
    let (out, mut intermediate) = mpsc::channel(defaults::INTERMEDIATE_MAX);
    let mut work: Work = Box::pin(work(post, body, Some(out)));
    tokio::select! {
        biased;
        finished = &mut work => match intermediate.try_recv() {
            Ok(first) => reply::events(EventStream::new(Box::pin(ready(finished)), intermediate, Some(first))),
            Err(_) => reply::whole(finished),
        },
        Some(first) = intermediate.recv() => reply::events(EventStream::new(work, intermediate, Some(first))),
        () = sleep(defaults::STREAM_DELAY) => reply::events(EventStream::new(work, intermediate, None)),
    }
}

/// Answers the message in `body`, and counts it if it is a request.
async fn work(post: Post, body: Bytes, intermediate: Option<mpsc::Sender<Bytes>>) -> Finished {
    let (method, outcome, finished) = rpc::answer(&post, &body, intermediate.as_ref()).await;
    if let Some(outcome) = outcome {
        post.federation.metrics.request(method, outcome, post.started.elapsed());
    }
    finished
}

async fn read_body(body: Incoming) -> Result<Bytes, Refusal> {
    body::read(body, defaults::REQUEST_BODY_MAX)
        .await
        .map_err(|error| match error {
            BodyError::TooLarge(_) => refusal(
                StatusCode::PAYLOAD_TOO_LARGE,
                RpcError::new(RpcError::INVALID_REQUEST, error.to_string()),
            ),
            BodyError::Broken(_) => refusal(
                StatusCode::BAD_REQUEST,
                RpcError::new(RpcError::PARSE, "The request's body ended early"),
            ),
        })
}

fn too_slow() -> Refusal {
    let message = format!("The request's body did not arrive within {:?}", defaults::BODY_TIMEOUT);
    refusal(
        StatusCode::REQUEST_TIMEOUT,
        RpcError::new(RpcError::INVALID_REQUEST, message),
    )
}
