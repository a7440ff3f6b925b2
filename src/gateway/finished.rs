//! What a request came to, and the body that it leaves as: whole, or as an event stream.

use std::convert::Infallible;
use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use futures::Stream;
use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderValue, StatusCode};
use http_body_util::Full;
use hyper::body::{Body, Frame, SizeHint};

use super::frames::Frames;
use super::outgoing::Outgoing;
use crate::defaults;
use crate::mcp::sse;

/// Events as they come.
pub(super) type Events = Pin<Box<dyn Stream<Item = Event> + Send>>;

/// What comes on a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A whole JSON-RPC message, with the id to go on from where there is one.
    Message(Outgoing, Option<String>),
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
    Message(Outgoing),
    /// The answers to a batch.
    Batch(Vec<Outgoing>),
    /// Events, from now on.
    Events(Events),
}

/// The body of an answer.
pub enum ReplyBody {
    /// Known, and in one piece.
    Whole(Full<Bytes>),
    /// Known, and in several pieces or a large one.
    Parts(Frames),
    /// Events as they come, and what is left of the last one that came.
    Events(Events, Frames),
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
    pub(super) fn message(status: StatusCode, message: impl Into<Outgoing>) -> Self {
        Self::new(status, Content::Message(message.into()))
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
    pub(super) fn message(message: impl Into<Outgoing>) -> Self {
        Self::Message(message.into(), None)
    }

    /// The event as it is sent, with its blank line.
    fn encoded(self) -> Outgoing {
        match self {
            Self::Message(message, id) => message.in_event(id.as_deref()),
            Self::Priming(id) => sse::priming(&id).into(),
            Self::Address(address) => format!("event: endpoint\ndata: {address}\n\n").into_bytes().into(),
            Self::Ping => PING.into(),
        }
    }
}

/// A comment.
const PING: Bytes = Bytes::from_static(b": ping\n\n");

impl Content {
    /// The messages in it, one by one.
    pub(super) fn into_messages(self) -> Vec<Outgoing> {
        match self {
            Self::Nothing | Self::Events(_) => Vec::new(),
            Self::Message(message) => vec![message],
            Self::Batch(messages) => messages,
        }
    }
}

impl ReplyBody {
    /// A known one.
    pub(super) fn of(message: Outgoing) -> Self {
        match message.whole() {
            Ok(whole) if whole.len() <= defaults::FRAME_MAX => Self::Whole(Full::new(whole)),
            Ok(large) => Self::Parts(Frames::of(large.into())),
            Err(parts) => Self::Parts(Frames::of(parts)),
        }
    }

    /// Events as they come.
    pub(super) fn events(events: Events) -> Self {
        Self::Events(events, Frames::default())
    }
}

impl Body for ReplyBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        match self.get_mut() {
            Self::Whole(whole) => Pin::new(whole).poll_frame(cx),
            Self::Parts(frames) => frames
                .poll_next(cx)
                .map(|piece| piece.map(|piece| Ok(Frame::data(piece)))),
            Self::Events(events, frames) => {
                if frames.is_empty() {
                    let Some(event) = ready!(events.as_mut().poll_next(cx)) else {
                        return Poll::Ready(None);
                    };
                    match event.encoded().whole() {
                        Ok(whole) if whole.len() <= defaults::FRAME_MAX => {
                            return Poll::Ready(Some(Ok(Frame::data(whole))));
                        }
                        Ok(large) => *frames = Frames::of(large.into()),
                        Err(parts) => *frames = Frames::of(parts),
                    }
                }
                frames
                    .poll_next(cx)
                    .map(|piece| piece.map(|piece| Ok(Frame::data(piece))))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Whole(whole) => whole.is_end_stream(),
            Self::Parts(frames) => frames.is_empty(),
            Self::Events(..) => false,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Whole(whole) => whole.size_hint(),
            Self::Parts(frames) => SizeHint::with_exact(frames.left()),
            Self::Events(..) => SizeHint::default(),
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
            Self::Parts(_) => "Parts",
            Self::Events(..) => "Events",
        })
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use futures::stream;

    use super::*;

    /// The data that `body` is sent in.
    async fn sent(mut body: ReplyBody) -> Vec<Bytes> {
        let mut sent = Vec::new();
        while let Some(frame) = poll_fn(|cx| Pin::new(&mut body).poll_frame(cx)).await {
            sent.push(frame.unwrap().into_data().unwrap());
        }
        sent
    }

    #[tokio::test]
    async fn an_answer_is_as_long_as_it_says_and_a_small_one_is_sent_as_it_is() {
        let small = Bytes::from(vec![b' '; 100]);
        let body = ReplyBody::of(small.clone().into());
        assert_eq!(body.size_hint().exact(), Some(100));
        let whole = sent(body).await;
        assert_eq!(
            whole.iter().map(|data| data.as_ptr()).collect::<Vec<_>>(),
            [small.as_ptr()]
        );
        let large = Bytes::from(vec![b' '; 2 * defaults::FRAME_MAX]);
        for message in [large.clone().into(), Outgoing::around(b"[]".to_vec(), 1, large)] {
            let length = message.len() as u64;
            let body = ReplyBody::of(message.clone());
            assert_eq!(body.size_hint().exact(), Some(length));
            assert!(!body.is_end_stream());
            assert!(sent(body).await.concat() == *message.joined());
        }
        assert!(ReplyBody::of(Bytes::new().into()).is_end_stream());
    }

    #[tokio::test]
    async fn events_come_in_their_order_whether_large_or_small() {
        let page = Bytes::from(vec![b'1'; 2 * defaults::FRAME_MAX]);
        let large = Outgoing::around(b"[]".to_vec(), 1, page);
        let small = Outgoing::from(b"{}".to_vec());
        let events = [&small, &large, &small, &large].map(|message| Event::message(message.clone()));
        let body = ReplyBody::events(Box::pin(stream::iter(events)));
        let expected = [&small, &large, &small, &large].map(|message| sse::encode(&message.joined(), None));
        assert!(sent(body).await.concat() == expected.concat());
    }
}
