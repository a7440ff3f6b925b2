//! What a client says of itself when it opens a session, and what is known of it by that later.

use std::time::Duration;

use serde_json::value::RawValue;

use super::id::SessionId;
use crate::defaults;
use crate::mcp::{Members, Revision};

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
    pub(super) expires: u64,
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

/// `capabilities` as far as a token has room for them: where they are too large, the largest members are left out
/// until they fit. `None` where they are no object.
pub fn bounded_capabilities(capabilities: &RawValue) -> Option<Box<RawValue>> {
    let members = Members::parse(capabilities.get())?;
    if capabilities.get().len() <= defaults::SESSION_CAPABILITIES_MAX {
        return Some(capabilities.to_owned());
    }
    let size = |(name, value): &(&str, &RawValue)| name.len() + value.get().len();
    let mut by_size: Vec<(&str, &RawValue)> = members.iter().collect();
    by_size.sort_by_key(size);
    let mut kept = serde_json::Map::new();
    let mut room = defaults::SESSION_CAPABILITIES_MAX;
    for member in by_size {
        // Quotes, colon and comma; more where the name needs escapes, which names of capabilities do not.
        let taken = size(&member) + 4;
        let Some(left) = room.checked_sub(taken) else { break };
        room = left;
        kept.insert(member.0.to_owned(), serde_json::from_str(member.1.get()).ok()?);
    }
    serde_json::value::to_raw_value(&kept).ok()
}
