//! What goes on over more than one message of its client: questions that are put to it and calls that wait for what it
//! answers, tasks that are kept for it, and the sealed state by which it comes back to them.

mod asks;
pub(super) mod conversation;
pub(super) mod kept;
pub(super) mod lacks;
pub(super) mod own_call;
pub(super) mod parked;
pub(super) mod questions;
pub(super) mod state;

use std::sync::Arc;

use bytes::Bytes;

pub(super) use self::asks::Asks;
use self::kept::Kept;
use self::parked::Parked;
use self::state::Used;
use super::session::{FederationKeys, SessionId, Sessions};
use super::wishes::Wishes;
use crate::mcp::Id;

/// What requests share that take more than one message of their client.
#[derive(Debug)]
pub struct Conversations {
    sessions: Arc<Sessions>,
    pub(super) asks: Arc<Asks>,
    pub(super) parked: Arc<Parked>,
    /// Tasks that are kept here.
    pub(super) kept: Arc<Kept>,
    pub(super) used: Used,
    /// What sessions asked for.
    pub(super) wishes: Arc<Wishes>,
}

impl Conversations {
    /// None yet, of clients with `sessions`, which have these `wishes`.
    pub fn new(sessions: Arc<Sessions>, wishes: Arc<Wishes>) -> Self {
        Self {
            sessions,
            asks: Arc::default(),
            parked: Arc::default(),
            kept: Arc::default(),
            used: Used::default(),
            wishes,
        }
    }

    /// What a federation signs with; `None` while the root key is not here.
    pub(super) fn keys(&self, federation: &str) -> Option<Arc<FederationKeys>> {
        self.sessions.keys_of(federation)
    }

    /// Takes a Legacy client's response to what it was asked in its session. False if nobody waits for it.
    pub(super) fn answered(&self, session: SessionId, id: Id<'_>, response: &Bytes) -> bool {
        self.asks.answered(session, id, response)
    }
}
