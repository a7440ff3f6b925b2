//! What a session's token says (RFC 7519 for the names of three letters).

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use serde_json::value::RawValue;

use super::id::SessionId;
use super::opening::{Opening, Session, bounded_capabilities};
use crate::defaults;
use crate::mcp::{Era, Revision};

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

/// `name`, cut where it is longer than anybody needs.
fn bounded_name(name: &str) -> &str {
    let cut = name.floor_char_boundary(defaults::SESSION_CLIENT_NAME_MAX);
    name.get(..cut).unwrap_or_default()
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
