//! The transport of 2024-11-05: a stream on which a client is told everything, and an address to which it sends
//! everything. The stream is its session: when it closes, the session ends with all that is going on of it.

use std::sync::Arc;

use bytes::Bytes;
use futures::stream::unfold;
use futures::{FutureExt, StreamExt};
use http::StatusCode;
use hyper::body::Incoming;
use tokio::time::{Instant, sleep_until};

use super::accept::names_events;
use super::finished::{Event, Events, Finished};
use super::old_streams::OldStream;
use super::reply::{self, Reply};
use super::session::SessionId;
use super::visit::Visit;
use super::{get, legacy, post, rpc, stream};
use crate::defaults;

/// An open stream on the side of its connection; when dropped, the session ends.
struct Face {
    visit: Visit,
    stream: Arc<OldStream>,
    /// Where messages are sent to, which is told first.
    address: Option<String>,
    said: Events,
    heard: Events,
    /// When the handshake must be over.
    patience: Instant,
}

/// Opens the stream that is asked for.
pub(super) fn open(visit: Visit) -> Reply {
    if let Err(error) = legacy::admitted(visit.federation.protocol, None, Some(&visit.headers)) {
        return reply::whole(visit.refuse(None, &error));
    }
    if !names_events(&visit.headers) {
        let text = "this is an event stream: Accept must list text/event-stream\n";
        return reply::plain(StatusCode::NOT_ACCEPTABLE, text);
    }
    let events = SessionId::random().and_then(|id| Face::events(visit, id));
    match events {
        Some(events) => reply::events(events),
        None => reply::plain(StatusCode::INTERNAL_SERVER_ERROR, "Failed to create session\n"),
    }
}

/// Takes the message that comes as `body` to the stream that `query` names; its answer is told there.
pub(super) async fn take(visit: Visit, query: Option<&str>, body: Incoming) -> Reply {
    let name = query.and_then(|query| query.split('&').find_map(|part| part.strip_prefix(PARAMETER)));
    let stream = name.and_then(|name| visit.shared.old_streams.find(name));
    let own =
        |stream: &Arc<OldStream>| stream.federation == visit.federation.name && stream.principal == visit.principal;
    let Some(stream) = stream.filter(own) else {
        return reply::plain(StatusCode::NOT_FOUND, "Session not found\n");
    };
    let body = match post::body(&visit, body).await {
        Ok(body) => body,
        Err(reply) => return *reply,
    };
    let place = Arc::clone(&stream.places).try_acquire_owned();
    let Some(place) = place.ok().filter(|_| stream.line.has_room()) else {
        let text = "too much is going on of this session; read its stream, and send this again later\n";
        return reply::plain(StatusCode::SERVICE_UNAVAILABLE, text);
    };
    tokio::spawn(async move {
        tokio::select! {
            () = stream.closed.cancelled() => {}
            () = work(&stream, &visit, &body) => {}
        }
        drop(place);
    });
    reply::whole(Finished::text(StatusCode::ACCEPTED, "Accepted"))
}

/// Works on a message, and says on the stream what it comes to.
async fn work(stream: &OldStream, visit: &Visit, body: &Bytes) {
    let finished = rpc::answer_on_stream(visit, body, stream).await;
    for message in finished.content.into_messages() {
        stream.line.tell(Bytes::from(message));
    }
}

impl Face {
    fn events(visit: Visit, id: SessionId) -> Option<Events> {
        let stream = Arc::new(OldStream::new(id, &visit.federation.name, &visit.principal));
        let address = format!("messages?{PARAMETER}{id}");
        let keep_alive = visit.federation.streams.keep_alive;
        let said = stream::events(stream.line.clone(), None, None, keep_alive, None)?;
        let hearing = {
            let (stream, visit) = (Arc::clone(&stream), visit.clone());
            async move { get::hear_once(&visit, &*stream.begun().await) }
        };
        visit.shared.old_streams.insert(&stream);
        let face = Self {
            visit,
            stream,
            address: Some(address),
            said,
            heard: Box::pin(hearing.flatten_stream()),
            patience: Instant::now() + defaults::HEADER_TIMEOUT,
        };
        let next = async |mut face: Self| face.next().await.map(|event| (event, face));
        Some(Box::pin(unfold(face, next)))
    }

    async fn next(&mut self) -> Option<Event> {
        if let Some(address) = self.address.take() {
            return Some(Event::Address(address));
        }
        let silent = self.stream.session().is_none();
        tokio::select! {
            biased;
            event = self.said.next() => event,
            event = self.heard.next() => event,
            () = self.visit.shared.stop.cancelled() => None,
            () = sleep_until(self.patience), if silent => None,
        }
    }
}

impl Drop for Face {
    fn drop(&mut self) {
        self.visit.shared.old_streams.remove(&self.stream);
        self.stream.closed.cancel();
        self.stream.line.cut();
        self.visit.end(self.stream.id);
    }
}

const PARAMETER: &str = "session=";
