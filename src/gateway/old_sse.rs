//! The transport of 2024-11-05: a stream on which a client is told everything, and an address to which it sends
//! everything; together a channel. The stream is its session: when it closes, the session ends with all that is going
//! on of it.

use std::future::pending;
use std::sync::{Arc, Weak};

use futures::stream::unfold;
use http::StatusCode;
use hyper::body::Incoming;
use tokio::sync::{mpsc, watch};
use tokio::time::{Duration, Instant, sleep, sleep_until};

use super::accept::names_events;
use super::channel::Channel;
use super::finished::{Event, Events, Finished};
use super::gate::{Gate, Needs};
use super::outgoing::Outgoing;
use super::reply::{self, Reply};
use super::session::SessionId;
use super::talk::Talk;
use super::visit::{Shared, Visit};
use super::{legacy, post};
use crate::defaults;
use crate::fleet::{Hearing, News, Place};

/// An open stream on the side of its connection; when dropped, the talk on its channel ends.
struct Face {
    shared: Arc<Shared>,
    name: String,
    /// Where messages are sent to, which is told first.
    address: Option<String>,
    channel: Weak<Channel>,
    said: mpsc::Receiver<Outgoing>,
    news: watch::Receiver<News>,
    gate: Gate,
    keep_alive: Duration,
    /// When the handshake must be over, if it is not known to be.
    patience: Option<Instant>,
    _place: Place,
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
    let place = match visit.place(Hearing::Stream, defaults::STREAMS_MAX) {
        Ok(place) => place,
        Err(taken) => return reply::no_place(taken),
    };
    match Face::events(visit, place) {
        Some(events) => reply::events(events),
        None => reply::plain(StatusCode::INTERNAL_SERVER_ERROR, "Failed to create session\n"),
    }
}

/// Takes the message that comes as `body` to the stream that `query` names; its answer is told there.
pub(super) async fn take(visit: Visit, query: Option<&str>, body: Incoming) -> Reply {
    let gone = || reply::plain(StatusCode::NOT_FOUND, "Session not found\n");
    let name = query.and_then(|query| query.split('&').find_map(|part| part.strip_prefix(PARAMETER)));
    let find = |name| {
        let (federation, principal) = (&visit.federation.name, &visit.principal);
        visit.shared.old_streams.find(name, federation, principal)
    };
    let Some(letterbox) = name.and_then(find) else {
        return gone();
    };
    let message = match post::body(&visit, body).await {
        Ok(message) => message,
        Err(reply) => return *reply,
    };
    let Some(place) = letterbox.place(&message) else {
        let text = "too much is going on of this session; read its stream, and send this again later\n";
        return reply::plain(StatusCode::SERVICE_UNAVAILABLE, text);
    };
    if letterbox.take(message, place) {
        reply::whole(Finished::text(StatusCode::ACCEPTED, "Accepted"))
    } else {
        gone()
    }
}

impl Face {
    fn events(visit: Visit, place: Place) -> Option<Events> {
        let (out, said) = mpsc::channel(defaults::CHANNEL_QUEUE);
        let name = SessionId::random()?.to_string();
        let channel = Arc::new(Channel::new(
            out,
            false,
            visit.shows_all,
            visit.shared.stop.child_token(),
        )?);
        let news = visit.federation.changes.listen();
        let incoming = visit
            .shared
            .old_streams
            .open(&name, &visit.federation.name, &visit.principal);
        let face = Self {
            shared: Arc::clone(&visit.shared),
            address: Some(format!("messages?{PARAMETER}{name}")),
            name,
            channel: Arc::downgrade(&channel),
            said,
            news,
            gate: Gate::new(&visit, Needs::Legacy),
            keep_alive: visit.federation.streams.keep_alive,
            patience: Some(Instant::now() + defaults::HEADER_TIMEOUT),
            _place: place,
        };
        let federation = visit.federation.name.clone();
        let talk = Talk::new(visit.shared, federation, visit.principal, visit.headers, channel);
        tokio::spawn(talk.go_on(incoming, defaults::DRAIN_TIMEOUT));
        let next = async |mut face: Self| face.next().await.map(|event| (event, face));
        Some(Box::pin(unfold(face, next)))
    }

    async fn next(&mut self) -> Option<Event> {
        if let Some(address) = self.address.take() {
            return Some(Event::Address(address));
        }
        let silence = sleep(self.keep_alive);
        tokio::pin!(silence);
        loop {
            let news = *self.news.borrow_and_update();
            if news.gone || !self.gate.is_served() || !self.gate.is_open(news) {
                return None;
            }
            tokio::select! {
                biased;
                // At the end of the talk there is nobody left who could say anything.
                message = self.said.recv() => return message.map(Event::message),
                changed = self.news.changed() => if changed.is_err() {
                    return None;
                },
                () = until(self.patience) => {
                    self.patience = None;
                    if self.channel.upgrade().is_none_or(|channel| channel.session().is_none()) {
                        return None;
                    }
                }
                () = &mut silence => return Some(Event::Ping),
            }
        }
    }
}

impl Drop for Face {
    fn drop(&mut self) {
        self.shared.old_streams.close(&self.name);
    }
}

async fn until(moment: Option<Instant>) {
    match moment {
        Some(moment) => sleep_until(moment).await,
        None => pending().await,
    }
}

const PARAMETER: &str = "session=";
