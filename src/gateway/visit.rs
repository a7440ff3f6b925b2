//! One message that was let in, and what is shared by all of them.

use std::sync::Arc;

use arc_swap::ArcSwap;
use http::HeaderMap;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::access::Principal;
use super::channel::Channel;
use super::conversations::Conversations;
use super::finished::Finished;
use super::hub::{Begun, SessionHub};
use super::modern::{self, Refusal};
use super::old_streams::OldStreams;
use super::session::{Session, SessionError, SessionId, Sessions};
use super::viewer::{Standing, Viewer, shows_apps};
use super::{legacy, reply, session_lanes};
use crate::fleet::{Caller, Federation, Fleet, Hearing, Place};
use crate::mcp::{Id, Members, Method, Revision};
use crate::upstream::{Party, Taken};

/// What all clients of this process share.
#[derive(Debug)]
pub struct Shared {
    /// What is served now.
    pub fleet: Arc<ArcSwap<Fleet>>,
    /// The sessions of Legacy clients.
    pub sessions: Arc<Sessions>,
    /// What their requests share that take more than one message.
    pub conversations: Arc<Conversations>,
    /// What is going on of them here.
    pub hub: Arc<SessionHub>,
    /// Open streams of the transport of 2024-11-05.
    pub old_streams: OldStreams,
    /// Cancelled when the process is asked to stop: streams that would go on for ever end then.
    pub stop: CancellationToken,
    /// Where whoever started this process has one server served to them: what to do where that wants credentials.
    pub on_refusal: Option<&'static str>,
}

/// Where a message goes, who sends it, and how it came.
#[derive(Clone)]
pub(super) struct Visit {
    pub(super) shared: Arc<Shared>,
    pub(super) federation: Arc<Federation>,
    pub(super) principal: Principal,
    /// The headers that it came with or, on a channel, those that the channel was opened with.
    pub(super) headers: HeaderMap,
    /// Whether its client wishes to be listed everything; in a session, what was wished at its beginning counts.
    pub(super) shows_all: bool,
    /// The channel that it came on, if it did not come in a POST that speaks for itself.
    pub(super) channel: Option<Arc<Channel>>,
    /// Whether as much is at work on its channel as may be, so that requests are refused.
    pub(super) is_crowded: bool,
    pub(super) started: Instant,
}

impl Visit {
    /// The session that it belongs to, as a Legacy one; `None` where the federation has none.
    ///
    /// # Errors
    /// It names none, or one that is not valid here and now.
    pub(super) fn session(&self) -> Result<Option<Arc<Session>>, SessionError> {
        match &self.channel {
            Some(channel) => Ok(channel.session()),
            None => legacy::session(&self.shared.sessions, &self.federation, &self.principal, &self.headers),
        }
    }

    /// The headers that speak of the message; on a channel there are none.
    pub(super) fn spoken_headers(&self) -> Option<&HeaderMap> {
        self.channel.is_none().then_some(&self.headers)
    }

    /// Whether headers claim a Modern message.
    pub(super) fn claims_modern(&self) -> bool {
        self.spoken_headers().is_some_and(modern::claimed_by_headers)
    }

    /// The revision that a Legacy message is judged by as long as no session is looked at.
    ///
    /// # Errors
    /// The headers name none that is known.
    pub(super) fn revision(&self) -> Result<Revision, Refusal> {
        match &self.channel {
            Some(channel) => Ok(channel.revision()),
            None => legacy::revision(&self.headers),
        }
    }

    /// The answer to a message that is refused.
    pub(super) fn refuse(&self, id: Option<Id<'_>>, refused: &Refusal) -> Finished {
        reply::refuse(id.is_none() && self.wants_null_id(), id, refused)
    }

    fn wants_null_id(&self) -> bool {
        match &self.channel {
            Some(channel) => channel.wants_null_id(),
            None => legacy::wants_null_id(&self.shared.sessions, &self.federation, &self.headers),
        }
    }

    /// Whether anything can be said to the client before the answer to its request.
    pub(super) fn may_stream(&self) -> bool {
        self.channel.is_some() || self.federation.streams.delay.is_some()
    }

    /// Lets the client cancel what it asks for under `id`, where it could: on a channel anything that is not done at
    /// once, otherwise what is asked in a `session`.
    pub(super) fn begin(&self, session: Option<&Session>, method: Method, id: Id<'_>) -> Option<Begun> {
        let by = self.canceller(session)?;
        (!method.is_immediate() || method == Method::Listen).then(|| SessionHub::begin(&self.shared.hub, by, id))
    }

    /// Cancels what was asked for under `id`, as it was written.
    pub(super) fn cancel(&self, session: Option<&Session>, id: &str) {
        if let Some(by) = self.canceller(session) {
            self.shared.hub.cancel(by, id);
        }
    }

    /// Cancelled when streams that would go on for ever are to end.
    pub(super) fn stop(&self) -> &CancellationToken {
        match &self.channel {
            Some(channel) => channel.stop(),
            None => &self.shared.stop,
        }
    }

    fn canceller(&self, session: Option<&Session>) -> Option<SessionId> {
        match &self.channel {
            Some(channel) => Some(channel.id()),
            None => session.map(|session| session.id),
        }
    }

    /// Who its client is to servers that are asked in callers' names, if any is.
    pub(super) fn caller(&self) -> Option<Arc<Caller>> {
        self.federation.caller(self.principal.name(), &self.headers)
    }

    /// The federation as its client sees it, as far as that is known.
    pub(super) fn seen(&self) -> Arc<Federation> {
        match self.caller() {
            Some(caller) => self.federation.seen_by(&caller),
            None => Arc::clone(&self.federation),
        }
    }

    /// Who looks at the federation with it: in a session, or with this `_meta`.
    pub(super) fn viewer(&self, session: Option<&Session>, meta: Option<&Members<'_>>) -> Viewer {
        Viewer {
            principal: self.principal.clone(),
            shows_apps: self.federation.index.hides_app_only() && shows_apps(&self.federation, session, meta),
            is_local: self.channel.as_ref().is_some_and(|channel| channel.is_local()),
            shows_all: session.map_or(self.shows_all, |session| session.shows_all),
            caller: self.caller(),
            on_refusal: self.shared.on_refusal,
        }
    }

    /// The same, whatever becomes of `viewer` and the federation.
    pub(super) fn standing(&self, viewer: Viewer) -> Standing {
        Standing::new(viewer, &self.shared.fleet, &self.federation.name)
    }

    /// Whose share it takes of what is bounded.
    pub(super) fn party(&self) -> Party {
        Party::of(&self.federation.name, self.principal.name())
    }

    /// One of `most` places for those who hear like this, for its client.
    ///
    /// # Errors
    /// None is free, or the client has its share.
    pub(super) fn place(&self, on: Hearing, most: usize) -> Result<Place, Taken> {
        self.federation.changes.place(on, most, self.party())
    }

    /// Ends everything that is going on of `session`, and lets go of what is kept for it.
    pub(super) fn end(&self, session: SessionId) {
        self.shared.hub.end(session);
        self.shared.conversations.wishes.end(session);
        session_lanes::ended(&self.seen(), session);
    }
}
