//! One connection, and the answer that is read from it.

use std::fmt;
use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use futures::FutureExt;
use http::{Request, Response};
use http_body_util::Full;
use hyper::body::{Body, Frame, Incoming, SizeHint};
use hyper::client::conn::http1::{self, SendRequest};
use hyper_rustls::MaybeHttpsStream;
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;

use super::Wires;

/// What requests and answers go over.
type Stream = MaybeHttpsStream<TokioIo<TcpStream>>;

/// What reads and writes on a connection.
type Driver = http1::Connection<Stream, Full<Bytes>>;

/// A connection on which nothing happens but while it is polled. It is large, and goes from hand to hand in a box.
pub(super) struct Wire {
    sender: SendRequest<Full<Bytes>>,
    /// `None` once it is closed.
    connection: Option<Driver>,
}

/// What came of sending a request.
pub(super) enum Sent {
    /// The head of the answer is here, its body is still to be read from the connection.
    Answered(Response<Incoming>, Box<Wire>),
    /// The connection was closed before anything of the request was written.
    Unsent(Request<Full<Bytes>>, hyper::Error),
    /// The server may have seen it.
    Broken(hyper::Error),
}

/// The body of an answer. Read to its end, it gives its connection back; dropped before, it closes it.
#[derive(Debug)]
pub(crate) struct AnswerBody {
    incoming: Incoming,
    wire: Option<Box<Wire>>,
    wires: Wires,
}

impl Wire {
    /// The connection over `stream`.
    pub(super) async fn over(stream: Stream) -> hyper::Result<Box<Self>> {
        let (sender, connection) = http1::handshake(stream).await?;
        Ok(Box::new(Self {
            sender,
            connection: Some(connection),
        }))
    }

    /// Sends `request` and waits for the head of its answer.
    pub(super) async fn exchange(mut self: Box<Self>, request: Request<Full<Bytes>>) -> Sent {
        let mut answer = pin!(self.sender.try_send_request(request));
        let answered = poll_fn(|cx| {
            drive(&mut self.connection, cx);
            answer.as_mut().poll(&mut quiet())
        });
        match answered.await {
            Ok(response) => Sent::Answered(response, self),
            Err(mut unanswered) => match unanswered.take_message() {
                Some(request) => Sent::Unsent(request, unanswered.into_error()),
                None => Sent::Broken(unanswered.into_error()),
            },
        }
    }

    /// Whether another request can be sent. Finds out whether the server closed the connection.
    pub(super) fn is_usable(&mut self) -> bool {
        drive(&mut self.connection, &mut quiet());
        self.connection.is_some() && self.sender.is_ready()
    }
}

/// What comes of driving a connection is looked at right after: nobody has to be woken for it, least of all the task that
/// just does so.
fn quiet() -> Context<'static> {
    Context::from_waker(Waker::noop())
}

/// Reads and writes what can be read and written now. What goes wrong is told to whoever waits for the answer.
fn drive(connection: &mut Option<Driver>, cx: &mut Context<'_>) {
    if connection.as_mut().is_some_and(|open| open.poll_unpin(cx).is_ready()) {
        *connection = None;
    }
}

impl fmt::Debug for Wire {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Wire")
            .field("is_open", &self.connection.is_some())
            .finish_non_exhaustive()
    }
}

impl AnswerBody {
    pub(super) fn new(incoming: Incoming, wire: Box<Wire>, wires: Wires) -> Self {
        Self {
            incoming,
            wire: Some(wire),
            wires,
        }
    }
}

impl Body for AnswerBody {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<hyper::Result<Frame<Bytes>>>> {
        let body = self.get_mut();
        // It is asked for first: the connection reads no more than is wanted, and would wake who drove it last.
        if let Some(wire) = &mut body.wire {
            drive(&mut wire.connection, &mut quiet());
        }
        let mut polled = Pin::new(&mut body.incoming).poll_frame(&mut quiet());
        if let (Poll::Pending, Some(wire)) = (&polled, &mut body.wire) {
            drive(&mut wire.connection, cx);
            polled = Pin::new(&mut body.incoming).poll_frame(&mut quiet());
        }
        let is_over = match &polled {
            Poll::Ready(None) => true,
            Poll::Ready(Some(Ok(_))) => body.incoming.is_end_stream(),
            Poll::Ready(Some(Err(_))) | Poll::Pending => false,
        };
        if is_over
            && let Some(mut wire) = body.wire.take()
            && wire.is_usable()
        {
            body.wires.put_back(wire);
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.incoming.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.incoming.size_hint()
    }
}
