//! A channel: one client for as long as it is open, on the pipes of this process or on a stream of events. What comes
//! on it has no headers; it is known whose it is.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use futures::StreamExt;
use http::StatusCode;
use tokio::sync::{OwnedSemaphorePermit, mpsc};
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

use super::access::Principal;
use super::finished::{Event, Events};
use super::legacy;
use super::modern::{Refusal, refusal};
use super::outgoing::Outgoing;
use super::session::{Session, SessionId};
use crate::fleet::Federation;
use crate::mcp::{Members, Revision, RpcError};

/// An open channel, as its messages find it.
pub(super) struct Channel {
    /// What requests on it are cancelled by.
    id: SessionId,
    out: mpsc::Sender<Outgoing>,
    is_local: bool,
    shows_all: bool,
    /// Cancelled when it is about to end: streams that would go on for ever end then.
    stop: CancellationToken,
    state: Mutex<State>,
}

/// What comes on a channel.
#[derive(Debug)]
pub(super) enum Incoming {
    /// A message, or what should be one, and the place that it has until it is answered, where they are counted.
    Message(Bytes, Option<Place>),
    /// One that is larger than it may be, and was not kept; with the id of the request that it is, as it was written, if
    /// that is known.
    TooLarge(Option<String>),
}

/// Where a message is counted until it is answered.
#[derive(Debug)]
pub(super) struct Place {
    pub(super) _permit: OwnedSemaphorePermit,
    /// Whether it is one for what is told while all others are taken: nothing may be asked with it.
    pub(super) is_beside: bool,
}

/// What is known of its client.
#[derive(Default)]
struct State {
    /// The session that a Legacy client opened last.
    session: Option<Arc<Session>>,
    /// Takes what is sent to that session to the client.
    ear: Option<AbortOnDropHandle<()>>,
    is_modern: bool,
}

impl Channel {
    /// A channel to a client that is sent what comes out of `out`, until `stop`; `is_local` tells that the client
    /// started this process, and `shows_all` that it wishes to be listed everything. `None` where the system gives no
    /// random bytes.
    pub(super) fn new(
        out: mpsc::Sender<Outgoing>,
        is_local: bool,
        shows_all: bool,
        stop: CancellationToken,
    ) -> Option<Self> {
        Some(Self {
            id: SessionId::random()?,
            out,
            is_local,
            shows_all,
            stop,
            state: Mutex::default(),
        })
    }

    /// Stands for it where requests are cancelled.
    pub(super) fn id(&self) -> SessionId {
        self.id
    }

    /// Where messages to the client go; whoever sends waits until there is room.
    pub(super) fn out(&self) -> &mpsc::Sender<Outgoing> {
        &self.out
    }

    /// Whether the client started this process, so that nobody has to be kept out.
    pub(super) fn is_local(&self) -> bool {
        self.is_local
    }

    /// Whether its client wishes to be listed everything.
    pub(super) fn shows_all(&self) -> bool {
        self.shows_all
    }

    /// Whether its transport is one of the Modern revision too; streams of events to a channel are older.
    pub(super) fn knows_modern(&self) -> bool {
        self.is_local
    }

    /// Cancelled when the channel is about to end.
    pub(super) fn stop(&self) -> &CancellationToken {
        &self.stop
    }

    /// The session of a Legacy client, if it has opened one.
    pub(super) fn session(&self) -> Option<Arc<Session>> {
        self.state().session.clone()
    }

    /// What a Legacy client speaks: until the handshake, as if it had forgotten it.
    pub(super) fn revision(&self) -> Revision {
        let state = self.state();
        state
            .session
            .as_ref()
            .map_or(Revision::WITHOUT_HEADER, |session| session.revision)
    }

    /// Whether an error that answers no particular request must say so with `id: null`.
    pub(super) fn wants_null_id(&self) -> bool {
        let state = self.state();
        match &state.session {
            Some(session) => session.revision <= Revision::V2025_06_18,
            None => !state.is_modern,
        }
    }

    /// Notes that the client speaks the Modern revision.
    pub(super) fn heard_modern(&self) {
        self.state().is_modern = true;
    }

    /// Opens the session that a handshake with these parameters asks for, and gives the one that was open before, which
    /// has to be ended.
    ///
    /// # Errors
    /// The system gives no random bytes.
    pub(super) fn open_session(
        &self,
        federation: &Federation,
        principal: &Principal,
        revision: Revision,
        params: Option<&Members<'_>>,
    ) -> Result<(Arc<Session>, Option<Arc<Session>>), Refusal> {
        let id = SessionId::random().ok_or_else(|| {
            let error = RpcError::new(RpcError::INTERNAL, "no session can be opened; try again");
            refusal(StatusCode::OK, error)
        })?;
        let session = legacy::opening(federation, principal, revision, self.shows_all, params, |opening| {
            Arc::new(Session::of_stream(id, &opening))
        });
        let mut state = self.state();
        state.ear = None;
        let before = state.session.replace(Arc::clone(&session));
        Ok((session, before))
    }

    /// Lets the client hear from now on what is sent to its session, if it does not yet: the events that are given then.
    pub(super) fn hear(&self, session: &Session, events: impl FnOnce() -> Events) {
        let mut state = self.state();
        let is_current = state.session.as_ref().is_some_and(|current| current.id == session.id);
        if !is_current || state.ear.as_ref().is_some_and(|ear| !ear.is_finished()) {
            return;
        }
        let ear = tokio::spawn(pass_on(events(), self.out.clone()));
        state.ear = Some(AbortOnDropHandle::new(ear));
    }

    /// Forgets the session, and gives it.
    pub(super) fn close_session(&self) -> Option<Arc<Session>> {
        let mut state = self.state();
        state.ear = None;
        state.session.take()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Sends the messages in `events` as they come, until nobody takes them.
pub(super) async fn pass_on(mut events: Events, out: mpsc::Sender<Outgoing>) {
    while let Some(event) = events.next().await {
        // A channel has its own ways to tell that it is alive, and cannot be resumed.
        if let Event::Message(message, _) = event
            && out.send(message).await.is_err()
        {
            return;
        }
    }
}

impl fmt::Debug for Channel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Channel").field("id", &self.id).finish_non_exhaustive()
    }
}
