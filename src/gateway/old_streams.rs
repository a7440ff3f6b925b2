//! The streams of the transport of 2024-11-05 that are open here.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use tokio::sync::{Notify, Semaphore};
use tokio_util::sync::CancellationToken;

use super::access::Principal;
use super::line::Line;
use super::session::{Session, SessionId};
use crate::defaults;

/// All of them, by the names in their addresses.
#[derive(Debug, Default)]
pub struct OldStreams(Mutex<HashMap<String, Arc<OldStream>>>);

/// One open stream. It is a session from the handshake on.
#[derive(Debug)]
pub(super) struct OldStream {
    pub(super) id: SessionId,
    pub(super) federation: String,
    pub(super) principal: Principal,
    /// What is said on it.
    pub(super) line: Line,
    /// Places for messages that are worked on.
    pub(super) places: Arc<Semaphore>,
    /// Cancelled when it is closed.
    pub(super) closed: CancellationToken,
    session: OnceLock<Arc<Session>>,
    begun: Notify,
}

impl OldStreams {
    /// The stream of this name.
    pub(super) fn find(&self, name: &str) -> Option<Arc<OldStream>> {
        self.lock().get(name).cloned()
    }

    pub(super) fn insert(&self, stream: &Arc<OldStream>) {
        self.lock().insert(stream.id.to_string(), Arc::clone(stream));
    }

    pub(super) fn remove(&self, stream: &OldStream) {
        self.lock().remove(&stream.id.to_string());
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Arc<OldStream>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl OldStream {
    /// A stream that `principal` opens to `federation`.
    pub(super) fn new(id: SessionId, federation: &str, principal: &Principal) -> Self {
        Self {
            id,
            federation: federation.to_owned(),
            principal: principal.clone(),
            line: Line::new(),
            places: Arc::new(Semaphore::new(defaults::OLD_STREAM_MESSAGES_MAX)),
            closed: CancellationToken::new(),
            session: OnceLock::new(),
            begun: Notify::new(),
        }
    }

    /// The session, if the handshake is over.
    pub(super) fn session(&self) -> Option<&Session> {
        self.session.get().map(Arc::as_ref)
    }

    /// Begins the session. Whoever shakes hands twice is who it was the first time.
    pub(super) fn begin(&self, session: Session) {
        if self.session.set(Arc::new(session)).is_ok() {
            self.begun.notify_waiters();
        }
    }

    /// The session, once the handshake is over.
    pub(super) async fn begun(&self) -> Arc<Session> {
        loop {
            let begun = self.begun.notified();
            if let Some(session) = self.session.get() {
                return Arc::clone(session);
            }
            begun.await;
        }
    }
}
