//! `subscriptions/listen`: how Modern clients hear of changes (2026-07-28, subscriptions).

use std::sync::Arc;

use futures::stream::unfold;
use http::StatusCode;
use tokio::sync::watch;
use tokio::time::{Duration, sleep};
use tokio_util::sync::CancellationToken;

use super::finished::{Content, Event, Finished};
use super::gate::{Gate, Needs};
use super::hub::Begun;
use super::modern::{Refusal, refusal};
use super::reply;
use super::session_lanes;
use super::tasks;
use super::updates::Updates;
use super::viewer::Sight;
use super::visit::Visit;
use crate::fleet::{Caller, Hearing, News, Place};
use crate::index::Shown;
use crate::mcp::subscription::{self, Filter, ListKind};
use crate::mcp::{Id, Members, Method, RpcError};
use crate::metrics::{OpenStream, StreamKind};
use crate::upstream::Subscriber;

/// One open subscription.
struct Subscription {
    /// The id of the request that opened it, as it was written.
    id: Box<str>,
    /// What of its wishes is honoured.
    filter: Filter,
    /// The members whose changes are not heard of, by their names.
    unheard: Vec<String>,
    updates: Updates,
    tasks: tasks::Changes,
    server_info: String,
    news: watch::Receiver<News>,
    sight: Sight,
    told: Shown,
    gate: Gate,
    stop: CancellationToken,
    heartbeat: Duration,
    state: State,
    /// How the client ends it, where that is not by closing a stream.
    begun: Option<Begun>,
    _place: Place,
    counted: OpenStream,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Unacknowledged,
    Open,
    Over,
}

/// Opens the subscription that is asked for with these parameters under `id`; `visit` is at the federation as `caller`
/// sees it, where servers are asked in callers' names.
///
/// # Errors
/// The parameters are wrong, the client takes no events, or too many listen already.
pub(super) async fn open(
    visit: &Visit,
    caller: Option<Arc<Caller>>,
    id: Id<'_>,
    params: Option<&Members<'_>>,
    takes_events: bool,
) -> Result<Finished, Refusal> {
    let mut filter = Filter::read(params).map_err(|error| refusal(StatusCode::BAD_REQUEST, error))?;
    match (filter.tasks.is_empty(), visit.federation.offers.tasks) {
        (true, _) => {}
        (false, true) => {
            let own = params.and_then(|params| Members::parse(params.get("_meta")?.get()));
            tasks::declared(own.as_ref())?;
        }
        // What nobody tells of is left out, as is every other wish that is not known.
        (false, false) => filter.tasks.clear(),
    }
    if !takes_events {
        let text = "the answer is an event stream: Accept must list text/event-stream";
        let error = RpcError::new(RpcError::INVALID_REQUEST, text);
        return Err(refusal(StatusCode::NOT_ACCEPTABLE, error));
    }
    let federation = &visit.federation;
    let most = federation.streams.listens;
    let place = visit.place(Hearing::Listen, most).map_err(|taken| {
        let error = RpcError::new(RpcError::INTERNAL, reply::crowded(taken, "subscriptions", most));
        refusal(StatusCode::OK, error)
    })?;
    let mut news = federation.changes.listen();
    let now = *news.borrow_and_update();
    let meta = params.and_then(|params| Members::parse(params.get("_meta")?.get()));
    let viewer = visit.viewer(None, meta.as_ref()).asking_as(caller);
    let mut sight = Sight::of(visit.standing(viewer), now);
    let begun = visit.begin(None, Method::Listen, id);
    // What changes from here on is told, also while resources are being subscribed to.
    let by = Subscriber {
        owner: session_lanes::owner_without_session(&visit.principal),
        party: visit.party(),
    };
    let subscribing = async {
        tokio::join!(
            Updates::of(federation, &by, &filter.uris, sight.standing()),
            tasks::Changes::of(visit, sight.standing(), &filter.tasks)
        )
    };
    let subscribed = tokio::select! {
        biased;
        subscribed = subscribing => Some(subscribed),
        () = withdrawn(begun.as_ref()) => None,
    };
    let Some(((updates, uris), (tasks, names))) = subscribed else {
        return Ok(Finished::nothing(StatusCode::ACCEPTED));
    };
    (filter.uris, filter.tasks) = (uris, names);
    let unheard = sight.unheard();
    if let Some(first) = unheard.first()
        && unheard.len() == federation.members.len()
        && federation.index.own_skills().is_none()
    {
        let wanted = filter.wants_lists();
        filter = filter.without_lists();
        if wanted && filter == Filter::default() {
            let text = format!("no change could be told: {}", first.why);
            return Err(refusal(StatusCode::OK, RpcError::new(RpcError::INTERNAL, text)));
        }
    }
    let subscription = Subscription {
        id: id.as_json().into(),
        filter,
        unheard: unheard.into_iter().map(|absent| absent.member).collect(),
        updates,
        tasks,
        server_info: federation.server_info.clone(),
        news,
        told: sight.shown(now),
        sight,
        gate: Gate::new(visit, Needs::Nothing),
        stop: visit.stop().clone(),
        heartbeat: federation.streams.heartbeat,
        state: State::Unacknowledged,
        begun,
        _place: place,
        counted: federation.metrics.stream(StreamKind::Subscription),
    };
    let next = async |mut subscription: Subscription| subscription.next().await.map(|event| (event, subscription));
    let events = Box::pin(unfold(subscription, next));
    Ok(Finished::new(StatusCode::OK, Content::Events(events)))
}

async fn withdrawn(begun: Option<&Begun>) {
    match begun {
        Some(begun) => begun.withdrawn().await,
        None => std::future::pending().await,
    }
}

impl Subscription {
    async fn next(&mut self) -> Option<Event> {
        // Of what was cancelled nothing more is said, not even its end.
        if self.begun.as_ref().is_some_and(Begun::is_withdrawn) {
            return None;
        }
        match self.state {
            State::Unacknowledged => {
                self.state = State::Open;
                return Some(Event::message(self.filter.acknowledgement(&self.id, &self.unheard)));
            }
            State::Open => {}
            State::Over => return None,
        }
        let silence = sleep(self.heartbeat);
        tokio::pin!(silence);
        loop {
            let news = *self.news.borrow_and_update();
            if self.begun.as_ref().is_some_and(Begun::is_withdrawn) {
                return None;
            }
            if news.gone || self.stop.is_cancelled() || !self.gate.is_served() {
                return Some(self.ended());
            }
            if !self.gate.is_open(news) {
                return None;
            }
            let shown = self.sight.shown(news);
            self.told.learn(shown);
            if let Some(kind) = self.untold(shown) {
                *self.told.of_mut(kind) = shown.of(kind);
                self.counted.list_changed(news.since.elapsed());
                return Some(Event::message(subscription::list_changed(kind, Some(&self.id))));
            }
            tokio::select! {
                changed = self.news.changed() => if changed.is_err() {
                    return Some(self.ended());
                },
                () = self.stop.cancelled() => {}
                () = withdrawn(self.begun.as_ref()) => return None,
                params = self.updates.next() => {
                    return Some(Event::message(subscription::updated(&params, Some(&self.id))));
                }
                change = self.tasks.next() => if let Some(message) = change.message(&self.id, self.sight.standing()) {
                    return Some(Event::message(message));
                },
                () = &mut silence => return Some(Event::Ping),
            }
        }
    }

    /// A wanted list that has changed since it was told.
    fn untold(&self, now: Shown) -> Option<ListKind> {
        let mut wanted = ListKind::ALL.into_iter().filter(|kind| self.filter.wants(*kind));
        wanted.find(|kind| self.told.is_other(now, *kind))
    }

    /// The last event: clients that get none take the end for a failure.
    fn ended(&mut self) -> Event {
        self.state = State::Over;
        Event::message(subscription::ended(&self.id, &self.server_info))
    }
}
