//! The body of an answer: whole, or as an event stream that ends with it (2025-03-26, transports).

use std::convert::Infallible;
use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderValue, StatusCode};
use http_body_util::Full;
use hyper::body::{Body, Frame, SizeHint};
use tokio::sync::mpsc;
use tokio::time::{Instant, Sleep, sleep};

use crate::defaults;
use crate::mcp::sse;

/// The work that ends with the whole response message.
pub(super) type Work = Pin<Box<dyn Future<Output = Finished> + Send>>;

/// What the work came to.
#[derive(Debug)]
pub(super) struct Finished {
    /// The HTTP status, where it can still be told.
    pub(super) status: StatusCode,
    /// What else is told in headers, where it can still be told.
    pub(super) headers: HeaderMap,
    /// The response message; empty where there is none to send.
    pub(super) message: Vec<u8>,
}

impl Finished {
    /// A response message.
    pub(super) fn message(status: StatusCode, message: Vec<u8>) -> Self {
        Self {
            status,
            headers: HeaderMap::new(),
            message,
        }
    }

    /// A text for a person, where the protocol has no message.
    pub(super) fn text(status: StatusCode, text: impl Into<String>) -> Self {
        let plain = HeaderValue::from_static("text/plain; charset=utf-8");
        Self {
            status,
            headers: HeaderMap::from_iter([(CONTENT_TYPE, plain)]),
            message: text.into().into_bytes(),
        }
    }
}

/// The body of an answer.
#[derive(Debug)]
pub enum ReplyBody {
    /// Known as a whole.
    Whole(Full<Bytes>),
    /// Events as they come.
    Events(EventStream),
}

/// Intermediate messages as they come, and the response in the end. Dropping it drops the work.
pub struct EventStream {
    first: Option<Bytes>,
    work: Option<Work>,
    intermediate: mpsc::Receiver<Bytes>,
    keep_alive: Pin<Box<Sleep>>,
}

impl EventStream {
    /// A stream of what was said `first`, of what else `work` says on the way, and of what it comes to.
    pub(super) fn new(work: Work, intermediate: mpsc::Receiver<Bytes>, first: Option<Bytes>) -> Self {
        let keep_alive = Box::pin(sleep(defaults::KEEP_ALIVE));
        Self {
            first,
            work: Some(work),
            intermediate,
            keep_alive,
        }
    }
}

impl Body for ReplyBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        match self.get_mut() {
            Self::Whole(whole) => Pin::new(whole).poll_frame(cx),
            Self::Events(events) => events
                .poll_next(cx)
                .map(|event| event.map(|data| Ok(Frame::data(data)))),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Whole(whole) => whole.is_end_stream(),
            Self::Events(events) => events.work.is_none(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Whole(whole) => whole.size_hint(),
            Self::Events(_) => SizeHint::default(),
        }
    }
}

impl EventStream {
    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<Bytes>> {
        if let Some(message) = self.first.take() {
            return Poll::Ready(Some(self.event(&message)));
        }
        let Some(work) = &mut self.work else {
            return Poll::Ready(None);
        };
        if let Poll::Ready(Some(message)) = self.intermediate.poll_recv(cx) {
            return Poll::Ready(Some(self.event(&message)));
        }
        if let Poll::Ready(finished) = work.as_mut().poll(cx) {
            self.work = None;
            // What was said last may have come while the work was polled.
            let mut events = Vec::new();
            while let Ok(message) = self.intermediate.try_recv() {
                events.extend_from_slice(&sse::encode(&message));
            }
            events.extend_from_slice(&sse::encode(&finished.message));
            return Poll::Ready(Some(Bytes::from(events)));
        }
        if self.keep_alive.as_mut().poll(cx).is_ready() {
            self.keep_alive.as_mut().reset(Instant::now() + defaults::KEEP_ALIVE);
            // Armed again, so that the next one is waited for.
            if self.keep_alive.as_mut().poll(cx).is_pending() {
                return Poll::Ready(Some(Bytes::from_static(b": ping\n\n")));
            }
        }
        Poll::Pending
    }

    fn event(&mut self, message: &[u8]) -> Bytes {
        self.keep_alive.as_mut().reset(Instant::now() + defaults::KEEP_ALIVE);
        Bytes::from(sse::encode(message))
    }
}

impl fmt::Debug for EventStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EventStream")
            .field("working", &self.work.is_some())
            .finish_non_exhaustive()
    }
}
