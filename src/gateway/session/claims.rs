//! What a session's token says (RFC 7519 for the names of three letters).

use std::fmt;

use aws_lc_rs::rand;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use serde_json::value::RawValue;

use super::{Opening, Session};
use crate::defaults;
use crate::mcp::{Era, Members, Revision};

/// The claims of a token. Further ones, of later versions, are passed over.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Claims {
    /// The negotiated revision.
    #[serde(serialize_with = "write_revision", deserialize_with = "read_revision")]
    pub(super) protocol: Revision,
    /// The client's capabilities.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) capabilities: Option<Box<RawValue>>,
    /// The client's own name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) client: Option<String>,
    /// Whether the client wishes to be listed everything.
    #[serde(default, skip_serializing_if = "is_false")]
    pub(super) show_all: bool,
    /// The federation that the session is for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) aud: Option<String>,
    /// The session's name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) jti: Option<SessionId>,
    /// Who opened it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) sub: Option<String>,
    /// When it was opened, in seconds since 1970.
    pub(super) iat: u64,
    /// Its last valid second.
    pub(super) exp: u64,
}

/// The random name of a session: 128 bits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SessionId([u8; 16]);

impl Claims {
    pub(super) fn new(opening: &Opening<'_>, id: SessionId, now: u64) -> Self {
        Self {
            protocol: opening.revision,
            capabilities: opening.capabilities.and_then(bounded_capabilities),
            client: opening.client.map(|name| bounded_name(name).to_owned()),
            show_all: opening.shows_all,
            aud: Some(opening.federation.to_owned()),
            jti: Some(id),
            sub: opening.principal.map(str::to_owned),
            iat: now,
            exp: now.saturating_add(opening.ttl),
        }
    }

    /// The session, if it is for `federation`.
    pub(super) fn session(self, federation: &str) -> Option<Session> {
        if self.aud.as_deref() != Some(federation) {
            return None;
        }
        Some(Session {
            id: self.jti?,
            principal: self.sub,
            revision: self.protocol,
            capabilities: self.capabilities,
            client: self.client,
            shows_all: self.show_all,
            expires: self.exp,
        })
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

/// `name`, cut where it is longer than anybody needs.
fn bounded_name(name: &str) -> &str {
    let cut = name.floor_char_boundary(defaults::SESSION_CLIENT_NAME_MAX);
    name.get(..cut).unwrap_or_default()
}

impl SessionId {
    /// A name that nobody can guess, or `None` where the system gives no random bytes.
    pub fn random() -> Option<Self> {
        let mut bytes = [0; 16];
        rand::fill(&mut bytes).ok()?;
        Some(Self(bytes))
    }

    /// One of its bytes, to spread sessions by.
    pub fn any_byte(self) -> u8 {
        let [byte, ..] = self.0;
        byte
    }
}

impl fmt::Display for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&URL_SAFE_NO_PAD.encode(self.0))
    }
}

impl fmt::Debug for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Serialize for SessionId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for SessionId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let bytes = URL_SAFE_NO_PAD.decode(text).map_err(de::Error::custom)?;
        let bytes = bytes.try_into().map_err(|_| de::Error::custom("not 16 bytes"))?;
        Ok(Self(bytes))
    }
}

fn is_false(value: &bool) -> bool {
    !value
}

fn write_revision<S: Serializer>(revision: &Revision, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(revision.as_str())
}

fn read_revision<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Revision, D::Error> {
    let name = String::deserialize(deserializer)?;
    Revision::parse(&name)
        .filter(|revision| revision.era() == Era::Legacy)
        .ok_or_else(|| de::Error::custom("not a Legacy revision"))
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    fn bounded(capabilities: &str) -> Option<String> {
        let raw: Box<RawValue> = serde_json::from_str(capabilities).unwrap();
        bounded_capabilities(&raw).map(|kept| kept.get().to_owned())
    }

    #[test]
    fn capabilities_are_kept_as_they_were_written() {
        let written = r#"{ "roots": {"listChanged":true}, "future":[1.50] }"#;
        assert_eq!(bounded(written).as_deref(), Some(written));
        assert_eq!(bounded("{}").as_deref(), Some("{}"));
    }

    #[test]
    fn of_too_large_capabilities_the_largest_members_are_left_out() {
        let large = "x".repeat(defaults::SESSION_CAPABILITIES_MAX);
        let kept = bounded(&format!(
            r#"{{"experimental":{{"a":"{large}"}},"sampling":{{}},"elicitation":{{"url":{{}}}}}}"#
        ));
        let kept: Value = serde_json::from_str(&kept.unwrap()).unwrap();
        assert_eq!(kept, serde_json::json!({"sampling": {}, "elicitation": {"url": {}}}));
        let many: String = (0..1000).map(|i| format!(r#""member{i}":{{}},"#)).collect();
        let kept = bounded(&format!(r#"{{{many}"roots":{{}}}}"#)).unwrap();
        assert!(kept.len() <= defaults::SESSION_CAPABILITIES_MAX, "{}", kept.len());
        assert!(kept.contains(r#""roots":{}"#));
    }

    #[test]
    fn what_is_no_object_is_no_capabilities() {
        for capabilities in ["null", "[]", "true", r#"{"a":1,"a":2}"#] {
            assert_eq!(bounded(capabilities), None, "{capabilities}");
        }
    }

    #[test]
    fn long_names_are_cut_between_characters() {
        let name = "é".repeat(100);
        assert_eq!(bounded_name(&name), "é".repeat(defaults::SESSION_CLIENT_NAME_MAX / 2));
        assert_eq!(bounded_name("probe"), "probe");
    }
}
