//! Event streams: the body of an HTTP response that is fed from a task.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::atomic::Ordering::Relaxed;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use hyper::body::Frame;
use tokio::sync::mpsc;

use crate::server::{Change, Server};

/// The events of one stream. The sender learns that the client went away when this is dropped.
#[derive(Debug)]
pub(crate) struct Events {
    receiver: mpsc::Receiver<Bytes>,
    server: &'static Server,
}

/// What feeds a stream.
pub(crate) type Feed = mpsc::Sender<Bytes>;

impl Events {
    /// A stream and its feed.
    pub(crate) fn open(server: &'static Server) -> (Feed, Self) {
        server.counters.streams.fetch_add(1, Relaxed);
        let (feed, receiver) = mpsc::channel(16);
        (feed, Self { receiver, server })
    }
}

impl futures_core::Stream for Events {
    type Item = Result<Frame<Bytes>, Infallible>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.receiver
            .poll_recv(context)
            .map(|event| event.map(|bytes| Ok(Frame::data(bytes))))
    }
}

impl Drop for Events {
    fn drop(&mut self) {
        self.server.counters.streams.fetch_sub(1, Relaxed);
    }
}

/// Feeds a stream with what `next` gives until the client goes away or there is no more, and keeps it alive meanwhile.
pub(crate) async fn follow(
    feed: &Feed,
    changes: &mut tokio::sync::broadcast::Receiver<Change>,
    keepalive: Duration,
    tell: impl Fn(Change) -> Vec<String>,
) {
    loop {
        let events = tokio::select! {
            () = feed.closed() => return,
            change = changes.recv() => match change {
                Ok(change) => tell(change).iter().map(|message| event(message)).collect(),
                Err(_) => return,
            },
            () = tokio::time::sleep(keepalive) => vec![Bytes::from_static(b": keep-alive\n\n")],
        };
        for event in events {
            if feed.send(event).await.is_err() {
                return;
            }
        }
    }
}

/// One message as an event.
pub(crate) fn event(message: &str) -> Bytes {
    Bytes::from(format!("event: message\ndata: {message}\n\n"))
}
