//! What a request came to, and the body that it leaves as: whole, or as an event stream.

use std::convert::Infallible;
use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use futures::Stream;
use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderValue, StatusCode};
use http_body_util::Full;
use hyper::body::{Body, Frame, SizeHint};

use crate::mcp::sse;

/// Events as they come.
pub(super) type Events = Pin<Box<dyn Stream<Item = Event> + Send>>;

/// What comes on a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A whole JSON-RPC message, with the id to go on from where there is one.
    Message(Bytes, Option<String>),
    /// No message, but an id to go on from.
    Priming(String),
    /// Where the client posts (2024-11-05, transports).
    Address(String),
    /// Nothing, so that nobody on the way takes a silent stream for a dead one.
    Ping,
}

/// What a request came to.
#[derive(Debug)]
pub(super) struct Finished {
    /// The HTTP status, where it can still be told.
    pub(super) status: StatusCode,
    /// What else is told in headers, where it can still be told.
    pub(super) headers: HeaderMap,
    /// What is sent.
    pub(super) content: Content,
}

/// What is sent to a client.
pub(super) enum Content {
    /// Nothing: none was asked for, or what was asked for is not wanted any more.
    Nothing,
    /// A message, or a text for a person.
    Message(Vec<u8>),
    /// The answers to a batch.
    Batch(Vec<Vec<u8>>),
    /// Events, from now on.
    Events(Events),
}

/// The body of an answer.
pub enum ReplyBody {
    /// Known as a whole.
    Whole(Full<Bytes>),
    /// Events as they come.
    Events(Events),
}

impl Finished {
    /// What is sent with `status`.
    pub(super) fn new(status: StatusCode, content: Content) -> Self {
        Self {
            status,
            headers: HeaderMap::new(),
            content,
        }
    }

    /// A response message.
    pub(super) fn message(status: StatusCode, message: Vec<u8>) -> Self {
        Self::new(status, Content::Message(message))
    }

    /// Nothing to say.
    pub(super) fn nothing(status: StatusCode) -> Self {
        Self::new(status, Content::Nothing)
    }

    /// A text for a person, where the protocol has no message.
    pub(super) fn text(status: StatusCode, text: impl Into<String>) -> Self {
        let plain = HeaderValue::from_static("text/plain; charset=utf-8");
        Self {
            headers: HeaderMap::from_iter([(CONTENT_TYPE, plain)]),
            ..Self::message(status, text.into().into_bytes())
        }
    }
}

impl Event {
    /// A message without an id.
    pub(super) fn message(message: impl Into<Bytes>) -> Self {
        Self::Message(message.into(), None)
    }

    /// The event as it is sent, with its blank line.
    fn encoded(self) -> Bytes {
        match self {
            Self::Message(message, id) => Bytes::from(sse::encode(&message, id.as_deref())),
            Self::Priming(id) => Bytes::from(sse::priming(&id)),
            Self::Address(address) => Bytes::from(format!("event: endpoint\ndata: {address}\n\n")),
            Self::Ping => PING,
        }
    }
}

/// A comment.
const PING: Bytes = Bytes::from_static(b": ping\n\n");

impl Content {
    /// Bytes of its messages.
    pub(super) fn len(&self) -> usize {
        match self {
            Self::Nothing | Self::Events(_) => 0,
            Self::Message(message) => message.len(),
            Self::Batch(messages) => messages.iter().map(Vec::len).sum(),
        }
    }

    /// The messages in it, one by one.
    pub(super) fn into_messages(self) -> Vec<Vec<u8>> {
        match self {
            Self::Nothing | Self::Events(_) => Vec::new(),
            Self::Message(message) => vec![message],
            Self::Batch(messages) => messages,
        }
    }
}

/// The answers to a batch as one message.
pub(super) fn batch_of(answers: &[Vec<u8>]) -> Vec<u8> {
    let mut batch = vec![b'['];
    batch.extend_from_slice(&answers.join(&b','));
    batch.push(b']');
    batch
}

impl Body for ReplyBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        match self.get_mut() {
            Self::Whole(whole) => Pin::new(whole).poll_frame(cx),
            Self::Events(events) => events
                .as_mut()
                .poll_next(cx)
                .map(|event| event.map(|event| Ok(Frame::data(event.encoded())))),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Whole(whole) => whole.is_end_stream(),
            Self::Events(_) => false,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Whole(whole) => whole.size_hint(),
            Self::Events(_) => SizeHint::default(),
        }
    }
}

impl fmt::Debug for Content {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Nothing => "Nothing",
            Self::Message(_) => "Message",
            Self::Batch(_) => "Batch",
            Self::Events(_) => "Events",
        })
    }
}

impl fmt::Debug for ReplyBody {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Whole(_) => "Whole",
            Self::Events(_) => "Events",
        })
    }
}
