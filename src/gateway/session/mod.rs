//! Sessions of Legacy clients: everything that is known of one stands in its id, a signed token, so that any replica
//! serves it and none keeps it. What must be kept is which sessions were ended before their time.
//!
//! A session id is no proof of identity: it is bound to the federation and to the principal that opened it, and both
//! are checked again with every request.

mod by_session;
mod claims;
mod denied;
mod keys;
mod known;
mod token;

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use arc_swap::ArcSwapOption;
use serde_json::value::RawValue;

use self::claims::Claims;
use self::known::Known;
use crate::cores::PerCore;
use crate::defaults;
use crate::mcp::Revision;
use crate::metrics::SessionMetrics;

pub(in crate::gateway) use self::by_session::BySession;
pub use self::claims::{SessionId, bounded_capabilities};
pub(in crate::gateway) use self::denied::Denied;
pub(in crate::gateway) use self::keys::FederationKeys;
pub use self::keys::{KeyError, Keyring};

/// The sessions of all federations.
#[derive(Debug)]
pub struct Sessions {
    keys: Arc<ArcSwapOption<Keyring>>,
    denied: Mutex<Denied>,
    known: PerCore<Mutex<Known>>,
    metrics: SessionMetrics,
}

/// What a client said of itself when it opened a session.
#[derive(Clone, Debug)]
pub struct Session {
    /// Its own name, random; stands for the client where access gives it no name.
    pub id: SessionId,
    /// Who opened it, where access tells.
    pub principal: Option<String>,
    /// The negotiated revision.
    pub revision: Revision,
    /// The client's capabilities as it wrote them, an object; what was too large for a token is left out.
    pub capabilities: Option<Box<RawValue>>,
    /// The name that the client gives itself.
    pub client: Option<String>,
    /// Whether the client wishes to be listed everything.
    pub shows_all: bool,
    expires: u64,
}

/// What a new session is opened with.
#[derive(Clone, Debug)]
pub struct Opening<'a> {
    /// The federation, as `namespace/name`.
    pub federation: &'a str,
    /// Who opens it, where access tells.
    pub principal: Option<&'a str>,
    /// The negotiated revision.
    pub revision: Revision,
    /// The client's capabilities.
    pub capabilities: Option<&'a RawValue>,
    /// The name that the client gives itself.
    pub client: Option<&'a str>,
    /// Whether the client wishes to be listed everything.
    pub shows_all: bool,
    /// How long the session is valid, in seconds.
    pub ttl: u64,
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

impl Session {
    /// A session that lasts as long as its stream, without a token.
    pub(in crate::gateway) fn of_stream(id: SessionId, opening: &Opening<'_>) -> Self {
        Self {
            id,
            principal: opening.principal.map(str::to_owned),
            revision: opening.revision,
            capabilities: opening.capabilities.and_then(bounded_capabilities),
            client: opening.client.map(str::to_owned),
            shows_all: opening.shows_all,
            expires: u64::MAX,
        }
    }

    /// For how long it is still valid at `now`, in seconds since 1970.
    pub fn valid_for(&self, now: u64) -> Duration {
        // Its last valid second is over when the next one begins.
        Duration::from_secs(self.expires.saturating_add(1).saturating_sub(now))
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
