//! What goes on on a channel: messages come in one after the other, requests are carried out beside each other, and
//! everything that is said to the client goes out on one way.
//!
//! No request waits for another, and no server waits for the client: what is said before an answer is dropped where the
//! client does not read, and answers wait.

use std::sync::Arc;

use bytes::Bytes;
use futures::poll;
use http::{HeaderMap, StatusCode};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio::task::JoinSet;
use tokio::time::{Duration, Instant, timeout};

use super::access::Principal;
use super::channel::{Channel, Incoming, Place, pass_on};
use super::finished::Content;
use super::intake;
use super::line::{Line, Next};
use super::modern::refusal;
use super::outgoing::Outgoing;
use super::visit::{Shared, Visit};
use crate::defaults;
use crate::fleet::Federation;
use crate::mcp::{Envelope, Id, Kind, RpcError};
use crate::metrics::Outcome;

/// The talk with one client on its channel.
pub(super) struct Talk {
    shared: Arc<Shared>,
    federation: String,
    principal: Principal,
    headers: HeaderMap,
    channel: Arc<Channel>,
    /// Requests at work, and streams.
    running: JoinSet<()>,
    /// Places for requests at work. Streams have theirs where listens are counted.
    places: Arc<Semaphore>,
    /// Places for what comes while all of those are taken: requests are refused then, but what the client tells and
    /// answers is what those at work may be waiting for.
    places_beside: Arc<Semaphore>,
}

impl Talk {
    /// The talk on `channel` of `principal` with the federation of this name; `headers` are those that the channel was
    /// opened with.
    pub(super) fn new(
        shared: Arc<Shared>,
        federation: String,
        principal: Principal,
        headers: HeaderMap,
        channel: Arc<Channel>,
    ) -> Self {
        Self {
            shared,
            federation,
            principal,
            headers,
            channel,
            running: JoinSet::new(),
            places: Arc::new(Semaphore::new(defaults::CHANNEL_REQUESTS_MAX)),
            places_beside: Arc::new(Semaphore::new(defaults::CHANNEL_REQUESTS_MAX)),
        }
    }

    /// Goes on until nothing more comes, the channel is stopped, or the client does not listen any more. Requests that
    /// are at work then may finish within `patience`, if somebody still listens.
    pub(super) async fn go_on(mut self, mut incoming: mpsc::Receiver<Incoming>, patience: Duration) {
        let channel = Arc::clone(&self.channel);
        let over = async {
            tokio::select! {
                () = channel.stop().cancelled() => {}
                () = channel.out().closed() => {}
            }
        };
        let listened = async {
            while let Some(message) = incoming.recv().await {
                self.take(message).await;
            }
        };
        tokio::select! {
            biased;
            () = over => {}
            () = listened => {}
        }
        self.end(patience).await;
    }

    async fn take(&mut self, incoming: Incoming) {
        while self.running.try_join_next().is_some() {}
        let served = self.shared.fleet.load().federation(&self.federation).cloned();
        let Some(federation) = served else {
            return self.refuse_unserved(&incoming).await;
        };
        let mut visit = self.visit(federation);
        let (message, place) = match incoming {
            Incoming::Message(message, place) => (message, place),
            Incoming::TooLarge(id) => {
                let text = format!("a message has at most {} bytes", defaults::REQUEST_BODY_MAX);
                let id = id.as_deref().and_then(|id| serde_json::from_str(id).ok());
                let id = id.and_then(Id::from_raw);
                return self.refuse(&visit, id, RpcError::INVALID_REQUEST, text).await;
            }
        };
        let is_beside = place.as_ref().is_some_and(|place| place.is_beside);
        let free = (!is_beside).then(|| Arc::clone(&self.places).try_acquire_owned());
        let at_work = match free {
            Some(Ok(place)) => Some(place),
            _ => {
                visit.is_crowded = true;
                // Nothing that is let in then takes long, but for a client that does not read.
                Arc::clone(&self.places_beside).acquire_owned().await.ok()
            }
        };
        let mut answering = Box::pin(answer(visit, message, self.channel.out().clone(), (place, at_work)));
        // What comes next may cancel this one, so that it must have begun before that is looked at.
        if poll!(answering.as_mut()).is_pending() {
            self.running.spawn(answering);
        }
    }

    fn visit(&self, federation: Arc<Federation>) -> Visit {
        Visit {
            shared: Arc::clone(&self.shared),
            federation,
            principal: self.principal.clone(),
            shows_all: self.channel.shows_all(),
            headers: self.headers.clone(),
            channel: Some(Arc::clone(&self.channel)),
            is_crowded: false,
            started: Instant::now(),
        }
    }

    async fn refuse(&self, visit: &Visit, id: Option<Id<'_>>, code: i64, text: String) {
        let refused = refusal(StatusCode::OK, RpcError::new(code, text));
        visit
            .federation
            .metrics
            .request(None, Outcome::Refused, visit.started.elapsed());
        self.say(visit.refuse(id, &refused).content).await;
    }

    async fn refuse_unserved(&self, incoming: &Incoming) {
        let Incoming::Message(message, _) = incoming else {
            return;
        };
        if let Some(id) = requested(message) {
            let text = format!("federation {} is not served (any more)", self.federation);
            let refused = refusal(StatusCode::OK, RpcError::new(RpcError::INTERNAL, text));
            self.say(super::reply::refuse(false, Some(id), &refused).content).await;
        }
    }

    async fn say(&self, content: Content) {
        for message in content.into_messages() {
            // Where nobody listens, the talk ends.
            drop(self.channel.out().send(message).await);
        }
    }

    async fn end(mut self, patience: Duration) {
        self.channel.stop().cancel();
        let finished = async { while self.running.join_next().await.is_some() {} };
        let out = self.channel.out().clone();
        let in_time = tokio::select! {
            biased;
            () = out.closed() => false,
            finished = timeout(patience, finished) => finished.is_ok(),
        };
        if !in_time {
            tracing::debug!(requests = self.running.len(), "requests are cut off: their client left");
        }
        // Servers are told of what is cancelled where the requests at work are dropped.
        self.shared.hub.end(self.channel.id());
        if let Some(session) = self.channel.close_session()
            && let Some(federation) = self.shared.fleet.load().federation(&self.federation).cloned()
        {
            self.visit(federation).end(session.id);
        }
        self.running.shutdown().await;
    }
}

/// The id of the request in `message`, if it is one.
fn requested(message: &[u8]) -> Option<Id<'_>> {
    let envelope = Envelope::parse(message, defaults::JSON_DEPTH_MAX).ok()?;
    match envelope.kind() {
        Ok(Kind::Request { .. }) => envelope.id.and_then(Id::from_raw),
        _ => None,
    }
}

/// The places that a message takes until it is answered, or its answer is a stream.
type Places = (Option<Place>, Option<OwnedSemaphorePermit>);

/// Answers one message to `out`, and gives its places back.
async fn answer(visit: Visit, message: Bytes, out: mpsc::Sender<Outgoing>, places: Places) {
    let line = Line::new();
    let worked = async {
        let finished = intake::work(Arc::new(visit), message, line.clone(), true).await;
        match finished.content {
            Content::Events(events) => {
                line.finish(Content::Nothing);
                return Some(events);
            }
            Content::Batch(answers) => line.finish(Content::Message(Outgoing::batch(answers))),
            content => line.finish(content),
        }
        None
    };
    let (events, ()) = tokio::join!(worked, pass_line_on(&line, &out));
    drop(places);
    if let Some(events) = events {
        pass_on(events, out).await;
    }
}

/// Sends what is said on `line`, to its end.
async fn pass_line_on(line: &Line, out: &mpsc::Sender<Outgoing>) {
    let Some(reader) = line.attend(None) else { return };
    loop {
        let changed = line.changed();
        match line.take(reader) {
            Next::Message(_, message) => {
                if out.send(message).await.is_err() {
                    return line.cut();
                }
            }
            Next::Nothing => changed.await,
            Next::Over => return,
        }
    }
}
