//! GET: a stream on which a Legacy session hears what is sent to it, or one of a call that is taken up again
//! (2025-11-25, transports).

use std::future::pending;

use futures::stream::unfold;
use http::{HeaderMap, StatusCode};
use tokio::sync::watch;
use tokio::time::{Duration, Instant, sleep, sleep_until};
use tokio_util::sync::CancellationToken;

use super::accept::names_events;
use super::finished::{Event, Events, Finished};
use super::gate::{Gate, Needs};
use super::hub::{Heard, Listener, SessionHub, StreamId};
use super::reply::{self, Reply};
use super::session::Session;
use super::stream;
use super::viewer::Sight;
use super::visit::Visit;
use super::{legacy, modern};
use crate::api::federation::LegacyNames;
use crate::defaults;
use crate::fleet::{Hearing, News, Place};
use crate::index::Shown;
use crate::mcp::{ListKind, Revision, headers, subscription};
use crate::metrics::{OpenStream, StreamKind};
use crate::upstream::Taken;

/// A stream on which a session hears.
struct Ear {
    listener: Listener,
    news: watch::Receiver<News>,
    /// Whether the client knows that lists may change.
    hears_changes: bool,
    sight: Sight,
    /// Whether changes are told under the name of earlier libraries too.
    tells_twice: bool,
    /// A change that is still to be told under that name.
    again: Option<ListKind>,
    gate: Gate,
    stop: CancellationToken,
    heartbeat: Duration,
    /// When the session is not valid any more; `None` where that is too far away to tell.
    expires: Option<Instant>,
    /// Whether events have ids to take the stream up from.
    resumable: bool,
    /// Whether an event without a message comes first.
    primes: bool,
    /// The news when it was opened: what was told then, it is too late to count.
    opened: u64,
    _place: Option<Place>,
    counted: OpenStream,
}

/// The position in a stream of changes, as the ids of its events tell it: what the client was told of lists last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Position(Shown);

/// Opens the stream that is asked for.
pub(super) fn answer(visit: &Visit) -> Reply {
    // Later revisions have no such stream.
    if !names_events(&visit.headers) || modern::claimed_by_headers(&visit.headers) {
        return reply::not_allowed(&visit.federation);
    }
    if let Err(error) = legacy::revision(&visit.headers) {
        return reply::whole(visit.refuse(None, &error));
    }
    let session = match visit.session() {
        Ok(Some(session)) => session,
        Ok(None) => return reply::not_allowed(&visit.federation),
        Err(error) => return reply::whole(reply::without_session(error)),
    };
    match events(visit, &session) {
        Ok(Some(events)) => reply::events(events),
        Err(taken) => reply::no_place(taken),
        Ok(None) => reply::whole(Finished::text(
            StatusCode::BAD_REQUEST,
            "no stream of this session has an event with the id in Last-Event-ID, or it is over for too long; leave the \
             header out\n",
        )),
    }
}

/// The stream that is asked for; `None` where there is none like it to be taken up.
fn events(visit: &Visit, session: &Session) -> Result<Option<Events>, Taken> {
    let position = match last_event(&visit.headers) {
        None => None,
        Some(id) => match Position::parse(id) {
            Some(position) => Some(position),
            None => return Ok(resumed(visit, session, id)),
        },
    };
    let place = visit.place(Hearing::Stream, defaults::STREAMS_MAX)?;
    Ok(Some(hear(visit, session, position, Some(place))))
}

/// The rest of a call's stream behind the event with this id.
fn resumed(visit: &Visit, session: &Session, id: &str) -> Option<Events> {
    let (stream, number) = StreamId::of_event(id)?;
    let line = visit.shared.hub.resumable(session.id, stream)?;
    let keep_alive = visit.federation.streams.keep_alive;
    stream::resume(line, stream, number, keep_alive)
}

fn last_event(map: &HeaderMap) -> Option<&str> {
    let id = map.get(&headers::LAST_EVENT_ID)?.to_str().unwrap_or_default().trim();
    (!id.is_empty()).then_some(id)
}

/// The stream on which `session` hears from now on, and which cannot be taken up again.
pub(super) fn hear_once(visit: &Visit, session: &Session) -> Events {
    hear(visit, session, None, None)
}

/// The stream on which `session` hears, from `position` on, or from now. One with a place can be taken up again.
fn hear(visit: &Visit, session: &Session, position: Option<Position>, place: Option<Place>) -> Events {
    let resumable = place.is_some();
    let changes = &visit.federation.changes;
    let mut news = changes.listen();
    let now = *news.borrow_and_update();
    let needs = match visit.channel {
        Some(_) => Needs::Legacy,
        None => Needs::Sessions,
    };
    let mut sight = Sight::of(visit.standing(visit.viewer(Some(session), None)), now);
    let known = position.map(|Position(known)| known);
    let ear = Ear {
        listener: SessionHub::listen(&visit.shared.hub, session.id, sight.shown(now), known),
        sight,
        tells_twice: visit.federation.streams.legacy_names == LegacyNames::Both,
        again: None,
        gate: Gate::new(visit, needs),
        news,
        hears_changes: session.revision > Revision::V2024_11_05 || visit.channel.is_some(),
        stop: visit.stop().clone(),
        heartbeat: visit.federation.streams.heartbeat,
        expires: Instant::now().checked_add(session.valid_for(legacy::now())),
        resumable,
        primes: resumable && position.is_none() && session.revision >= Revision::V2025_11_25,
        opened: now.version,
        _place: place,
        counted: visit.federation.metrics.stream(StreamKind::Session),
    };
    let next = async |mut ear: Ear| ear.next().await.map(|event| (event, ear));
    Box::pin(unfold(ear, next))
}

impl Ear {
    async fn next(&mut self) -> Option<Event> {
        let now = *self.news.borrow();
        if std::mem::take(&mut self.primes) {
            let shown = self.sight.shown(now);
            return Some(Event::Priming(self.position(shown)));
        }
        if let Some(kind) = self.again.take() {
            return Some(Event::message(subscription::list_changed_of_old(kind)));
        }
        let silence = sleep(self.heartbeat);
        tokio::pin!(silence);
        loop {
            let changed = self.listener.changed();
            let news = *self.news.borrow_and_update();
            let is_served = !news.gone && self.gate.is_served();
            if !is_served || self.stop.is_cancelled() || !self.gate.is_open(news) {
                return None;
            }
            let shown = self.hears_changes.then(|| self.sight.shown(news));
            match self.listener.hear(shown) {
                Heard::Message(message) => return Some(Event::message(message)),
                Heard::Changed(kind, told) => {
                    if news.version > self.opened {
                        self.counted.list_changed(news.since.elapsed());
                    }
                    let message = subscription::list_changed(kind, None);
                    self.again = self.tells_twice.then_some(kind);
                    let id = self.resumable.then(|| self.position(told));
                    return Some(Event::Message(message.into(), id));
                }
                Heard::Over => return None,
                Heard::Nothing => {}
            }
            tokio::select! {
                () = changed => {}
                changed = self.news.changed() => if changed.is_err() { return None },
                () = self.stop.cancelled() => return None,
                () = until(self.expires) => return None,
                () = &mut silence => return Some(Event::Ping),
            }
        }
    }

    fn position(&self, told: Shown) -> String {
        Position(told).id(self.listener.number())
    }
}

async fn until(moment: Option<Instant>) {
    match moment {
        Some(moment) => sleep_until(moment).await,
        None => pending().await,
    }
}

impl Position {
    /// The id of the event that leads here on the stream of this number.
    fn id(self, stream: u64) -> String {
        let Shown {
            tools,
            resources,
            prompts,
        } = self.0;
        format!("{PREFIX}{stream}.{tools:x}.{resources:x}.{prompts:x}")
    }

    fn parse(id: &str) -> Option<Self> {
        let mut parts = id.strip_prefix(PREFIX)?.split('.');
        let _stream: u64 = parts.next()?.parse().ok()?;
        let mut digests = parts.map(|part| u64::from_str_radix(part, 16).ok());
        let (tools, resources, prompts) = (digests.next()??, digests.next()??, digests.next()??);
        digests.next().is_none().then_some(Self(Shown {
            tools,
            resources,
            prompts,
        }))
    }
}

const PREFIX: &str = "changes.";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_position_is_read_back() {
        let position = Position(Shown {
            tools: 1,
            resources: 0xfeed,
            prompts: u64::MAX,
        });
        let id = position.id(7);
        assert_eq!(id, "changes.7.1.feed.ffffffffffffffff");
        assert_eq!(Position::parse(&id), Some(position));
        for wrong in [
            "",
            "changes.",
            "changes.7.1.20",
            "changes.7.1.20.300.4",
            "changes.x.1.1.1",
        ] {
            assert_eq!(Position::parse(wrong), None, "{wrong}");
        }
    }
}
