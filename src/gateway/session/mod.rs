//! Sessions of Legacy clients: everything that is known of one stands in its id, a signed token, so that any replica
//! serves it and none keeps it. What must be kept is which sessions were ended before their time.
//!
//! A session id is no proof of identity: it is bound to the federation and to the principal that opened it, and both
//! are checked again with every request.

mod by_session;
mod claims;
mod denied;
mod id;
mod keys;
mod known;
mod opening;
mod token;

use std::sync::{Arc, Mutex, PoisonError};

use arc_swap::ArcSwapOption;

use self::claims::Claims;
use self::known::Known;
use crate::cores::PerCore;
use crate::defaults;
use crate::mcp::Revision;
use crate::metrics::SessionMetrics;

pub(in crate::gateway) use self::by_session::BySession;
pub(in crate::gateway) use self::denied::Denied;
pub use self::id::SessionId;
pub(in crate::gateway) use self::keys::FederationKeys;
pub use self::keys::{KeyError, Keyring};
pub use self::opening::{Opening, Session, bounded_capabilities};

/// The sessions of all federations.
#[derive(Debug)]
pub struct Sessions {
    keys: Arc<ArcSwapOption<Keyring>>,
    denied: Mutex<Denied>,
    known: PerCore<Mutex<Known>>,
    metrics: SessionMetrics,
}

/// Why there is no session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SessionError {
    /// The request names none.
    #[error("MCP-Session-Id header required")]
    Missing,
    /// The signing key is not here yet.
    #[error("sessions are not ready yet; try again")]
    NotReady,
    /// The system gives no random bytes, or no key can be derived.
    #[error("Failed to create session")]
    Failed,
    /// The token is malformed, expired, ended, of another federation or of somebody else.
    #[error("Session not found")]
    NotFound,
}

impl Sessions {
    /// Sessions signed with what `keys` holds, as soon as it holds something.
    pub fn new(keys: Arc<ArcSwapOption<Keyring>>, metrics: SessionMetrics) -> Self {
        Self {
            keys,
            denied: Mutex::new(Denied::new(defaults::DENIED_SESSIONS_MAX)),
            known: PerCore::new(Mutex::default),
            metrics,
        }
    }

    /// Opens a session at `now`, in seconds since 1970, and gives its token.
    ///
    /// # Errors
    /// The key is not here yet, or there is no randomness.
    pub fn open(&self, opening: &Opening<'_>, now: u64) -> Result<String, SessionError> {
        let keyring = self.keys.load();
        let keyring = keyring.as_ref().ok_or(SessionError::NotReady)?;
        let keys = keyring.of(opening.federation).ok_or(SessionError::Failed)?;
        let id = SessionId::random().ok_or(SessionError::Failed)?;
        token::write(&Claims::new(opening, id, now), keys.signing()).ok_or(SessionError::Failed)
    }

    /// The session behind `token`, as `principal` presents it to `federation` at `now`.
    ///
    /// # Errors
    /// It is not valid, not valid here, or not any more; or nobody can tell yet.
    pub fn find(
        &self,
        token: &[u8],
        federation: &str,
        principal: Option<&str>,
        now: u64,
    ) -> Result<Arc<Session>, SessionError> {
        let keyring = self.keys.load();
        let keyring = keyring.as_ref().ok_or(SessionError::NotReady)?;
        let keys = keyring.of(federation).ok_or(SessionError::Failed)?;
        let session = self
            .read(token, &keys, federation, now)
            .filter(|session| now <= session.expires && session.principal.as_deref() == principal)
            .ok_or(SessionError::NotFound)?;
        let denied = self.denied.lock().unwrap_or_else(PoisonError::into_inner);
        if denied.contains(session.expires, session.id) {
            return Err(SessionError::NotFound);
        }
        Ok(session)
    }

    /// The session that `token` stands for, as `keys` of `federation` accept it.
    fn read(&self, token: &[u8], keys: &Arc<FederationKeys>, federation: &str, now: u64) -> Option<Arc<Session>> {
        let mut known = self.known.here().lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(session) = known.get(token, keys) {
            return Some(Arc::clone(session));
        }
        let session = Arc::new(token::read(token, keys.accepted(), now)?.session(federation)?);
        known.insert(token, Arc::clone(keys), Arc::clone(&session));
        Some(session)
    }

    /// The revision that the session behind `token` agreed on with `federation`, whoever presents it, and ended or not.
    pub(in crate::gateway) fn agreed_on(&self, token: &[u8], federation: &str, now: u64) -> Option<Revision> {
        let keys = self.keys_of(federation)?;
        token::read(token, keys.accepted(), now).map(|claims| claims.protocol)
    }

    /// The keys of `federation`, if they are here.
    pub(in crate::gateway) fn keys_of(&self, federation: &str) -> Option<Arc<FederationKeys>> {
        self.keys.load().as_ref()?.of(federation)
    }

    /// Ends `session`: its token is not taken any more by this process.
    pub fn end(&self, session: &Session, now: u64) {
        let mut denied = self.denied.lock().unwrap_or_else(PoisonError::into_inner);
        let forgotten = denied.insert(session.expires, session.id, now);
        self.metrics.denied(denied.len(), forgotten);
    }
}

impl SessionError {
    /// One word for metrics and logs.
    pub fn reason(self) -> &'static str {
        match self {
            Self::Missing => "Missing",
            Self::NotReady => "NotReady",
            Self::Failed => "Failed",
            Self::NotFound => "NotFound",
        }
    }
}

#[cfg(test)]
mod tests;
