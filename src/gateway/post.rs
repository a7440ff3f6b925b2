//! A POST: its body is read within limits, and its answer comes whole or, if it takes its time, as an event stream.

use std::future::pending;
use std::sync::Arc;

use bytes::Bytes;
use http::{StatusCode, header};
use hyper::body::Incoming;
use tokio::time::{Duration, sleep, timeout};

use super::accept::{accepts, is_json, is_plain, names_events};
use super::finished::Finished;
use super::gate::Guard;
use super::line::Line;
use super::modern::{Refusal, refusal};
use super::reply::{self, Reply};
use super::visit::Visit;
use super::work::Work;
use super::{intake, stream};
use crate::body::{self, BodyError};
use crate::defaults;
use crate::mcp::RpcError;
use crate::metrics::Outcome;

/// Answers the message that comes as `body`.
pub(super) async fn answer(visit: Visit, body: Incoming) -> Reply {
    let accepts_json = accepts(&visit.headers, &["application/json", "application/*", "*/*"]);
    if is_json(&visit.headers) && is_plain(&visit.headers) && !accepts_json {
        return reply::plain(
            StatusCode::NOT_ACCEPTABLE,
            "Accept must list application/json (and text/event-stream)\n",
        );
    }
    let body = match self::body(&visit, body).await {
        Ok(body) => body,
        Err(reply) => return *reply,
    };
    let takes_events = names_events(&visit.headers);
    let (streams, hub) = (visit.federation.streams, visit.shared.hub.clone());
    let (visit, line) = (Arc::new(visit), Line::new());
    let mut work = Work::new(
        intake::work(Arc::clone(&visit), body, line.clone(), takes_events),
        line.clone(),
        hub,
        streams.resume,
    );
    if !takes_events {
        return reply::whole((&mut work).await);
    }
    let finished = tokio::select! {
        biased;
        finished = &mut work => Some(finished),
        () = line.news() => None,
        () = long_enough(&line, streams.delay) => None,
    };
    let is_streamed = |finished: &Finished| {
        let at_once = streams.delay == Some(Duration::ZERO) && line.may_take_time();
        line.has_news() || at_once && finished.status == StatusCode::OK
    };
    match finished {
        Some(finished) if !is_streamed(&finished) => reply::whole(finished),
        finished => match stream::open(work, finished, Guard::new(&visit), streams.keep_alive) {
            Some(events) => reply::events(events),
            None => reply::whole(Finished::nothing(StatusCode::ACCEPTED)),
        },
    }
}

/// Waits for `delay`, after which an answer comes on a stream, if it may do so.
async fn long_enough(line: &Line, delay: Option<Duration>) {
    if let Some(delay) = delay {
        sleep(delay).await;
        if line.may_take_time() {
            return;
        }
    }
    pending().await
}

/// The message that comes as `body`, unread; or the answer to one that is not taken.
pub(super) async fn body(visit: &Visit, body: Incoming) -> Result<Bytes, Box<Reply>> {
    if !is_json(&visit.headers) {
        let text = "Content-Type must be application/json\n";
        return Err(Box::new(reply::plain(StatusCode::UNSUPPORTED_MEDIA_TYPE, text)));
    }
    if !is_plain(&visit.headers) {
        return Err(Box::new(reply::encoded()));
    }
    // Whoever waits to be asked for the body has not begun to send it (RFC 9110, section 10.1.1).
    let waits = visit.headers.contains_key(header::EXPECT);
    let read = timeout(defaults::BODY_TIMEOUT, read_body(body, waits)).await;
    read.unwrap_or_else(|_| Err(too_slow())).map_err(|refused| {
        let elapsed = visit.started.elapsed();
        visit.federation.metrics.request(None, Outcome::Refused, elapsed);
        Box::new(reply::whole(visit.refuse(None, &refused)))
    })
}

async fn read_body(mut body: Incoming, waits: bool) -> Result<Bytes, Refusal> {
    let error = match body::read(&mut body, defaults::REQUEST_BODY_MAX).await {
        Ok(read) => return Ok(read),
        Err(error) => error,
    };
    Err(match error {
        BodyError::TooLarge(_) => {
            if !waits {
                // A client that still sends reads no answer, and loses it if the connection is closed under it.
                let discarded = body::discard(&mut body, defaults::DISCARDED_BODY_MAX);
                drop(timeout(defaults::DISCARD_TIMEOUT, discarded).await);
            }
            refusal(
                StatusCode::PAYLOAD_TOO_LARGE,
                RpcError::new(RpcError::INVALID_REQUEST, error.to_string()),
            )
        }
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
