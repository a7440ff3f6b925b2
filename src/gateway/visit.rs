//! One HTTP request that was let in, and what is shared by all of them.

use std::sync::Arc;

use arc_swap::ArcSwap;
use http::HeaderMap;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::access::Principal;
use super::bridge::Bridge;
use super::bridge::session_lanes;
use super::hub::SessionHub;
use super::legacy;
use super::old_streams::OldStreams;
use super::session::{Session, SessionError, SessionId, Sessions};
use crate::fleet::{Federation, Fleet};

/// What all clients of this process share.
#[derive(Debug)]
pub struct Shared {
    /// What is served now.
    pub fleet: Arc<ArcSwap<Fleet>>,
    /// The sessions of Legacy clients.
    pub sessions: Arc<Sessions>,
    /// What their requests share that take more than one message.
    pub bridge: Arc<Bridge>,
    /// What is going on of them here.
    pub hub: Arc<SessionHub>,
    /// Open streams of the transport of 2024-11-05.
    pub old_streams: OldStreams,
    /// Cancelled when the process is asked to stop: streams that would go on for ever end then.
    pub stop: CancellationToken,
}

/// Where a request goes, who sends it, and its headers.
#[derive(Clone)]
pub(super) struct Visit {
    pub(super) shared: Arc<Shared>,
    pub(super) federation: Arc<Federation>,
    pub(super) principal: Principal,
    pub(super) headers: HeaderMap,
    pub(super) started: Instant,
}

impl Visit {
    /// The session that it belongs to, as a Legacy one; `None` where the federation has none.
    ///
    /// # Errors
    /// It names none, or one that is not valid here and now.
    pub(super) fn session(&self) -> Result<Option<Session>, SessionError> {
        legacy::session(&self.shared.sessions, &self.federation, &self.principal, &self.headers)
    }

    /// Ends everything that is going on of `session`, and lets go of what is kept for it.
    pub(super) fn end(&self, session: SessionId) {
        self.shared.hub.end(session);
        self.shared.bridge.wishes.end(session);
        session_lanes::ended(&self.federation, session);
    }
}
