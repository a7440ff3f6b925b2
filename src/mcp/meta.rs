//! `_meta`: the protocol's own keys in it, read from clients and written for upstreams (2026-07-28, overview).

use std::borrow::Cow;

use serde_json::value::RawValue;

use super::log_level::LogLevel;
use super::object::{self, Members, ObjectWriter};
use super::version::Era;

/// The revision of this request.
pub const PROTOCOL_VERSION: &str = "io.modelcontextprotocol/protocolVersion";
/// The client's capabilities, for this request only.
pub const CLIENT_CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";
/// The client's name and version.
pub const CLIENT_INFO: &str = "io.modelcontextprotocol/clientInfo";
/// The level of log messages the client wants for this request.
pub const LOG_LEVEL: &str = "io.modelcontextprotocol/logLevel";
/// The server's name and version.
pub const SERVER_INFO: &str = "io.modelcontextprotocol/serverInfo";
/// The subscription that a message belongs to.
pub const SUBSCRIPTION_ID: &str = "io.modelcontextprotocol/subscriptionId";
/// The task of 2025-11-25 that a message belongs to.
pub const RELATED_TASK: &str = "io.modelcontextprotocol/related-task";
/// The names of members whose entries a list, or what a search found, lacks, since their servers do not tell them whoever
/// asks; ours, no part of the protocol.
pub const ABSENT_MEMBERS: &str = "dev.mcpfleet/absent-members";
/// The federations that a search has passed; ours, no part of the protocol.
pub const SEARCH_PASSED: &str = "dev.mcpfleet/search-passed";
/// How many gateways a search, or a call of what it found, has passed; ours, no part of the protocol.
pub const SEARCH_HOPS: &str = "dev.mcpfleet/search-hops";
/// The token of progress notifications.
pub const PROGRESS_TOKEN: &str = "progressToken";

/// The token by which a request with this `_meta` wants to hear of progress, as it was written: a string or an integer
/// (2025-06-18, progress). Anything else is none.
pub fn progress_token<'a>(meta: &Members<'a>) -> Option<&'a str> {
    let token = meta.get(PROGRESS_TOKEN)?.get();
    let is_integer = || token.parse().is_ok_and(|number: f64| number.fract() == 0.0);
    (token.starts_with('"') || is_integer()).then_some(token)
}

/// What a request says of the revision it is written in.
#[derive(Debug, PartialEq, Eq)]
pub enum VersionClaim<'a> {
    /// Nothing: a Legacy request, unless a header says otherwise.
    None,
    /// A revision's name.
    Named(Cow<'a, str>),
    /// The key is there, but is no string.
    Malformed,
}

impl<'a> VersionClaim<'a> {
    /// Reads the claim of a request's `_meta`.
    pub fn of(meta: Option<&Members<'a>>) -> Self {
        match meta.and_then(|m| m.get(PROTOCOL_VERSION)) {
            None => Self::None,
            Some(raw) => object::string(raw).map_or(Self::Malformed, Self::Named),
        }
    }
}

/// What a request to an upstream says of our hop.
#[derive(Clone, Copy, Debug)]
pub struct Hop<'a> {
    /// The era of the upstream.
    pub era: Era,
    /// The name of the revision that is spoken with it.
    pub revision: &'a str,
    /// The capabilities that are declared to it, as JSON.
    pub capabilities: &'a str,
    /// The token by which it may tell progress.
    pub progress_token: Option<u64>,
    /// From which level on it may log; told to a Modern server only.
    pub log_level: Option<LogLevel>,
}

impl<'a> Hop<'a> {
    /// The hop of what is asked to learn what there is for those who declare these `capabilities`, as JSON: servers make
    /// what they list depend on it.
    pub fn declaring(era: Era, revision: &'a str, capabilities: &'a str) -> Self {
        Self {
            capabilities,
            ..Self::our_own(era, revision)
        }
    }

    /// The hop of what is asked for nobody's sake but ours: nothing is declared, and nothing is to be told on the way.
    pub fn our_own(era: Era, revision: &'a str) -> Self {
        Self {
            era,
            revision,
            capabilities: "{}",
            progress_token: None,
            log_level: None,
        }
    }
}

/// Writes the `_meta` member of a request to an upstream: the client's own keys as they are, none of the keys that
/// speak of the client's hop, and those of our hop instead.
pub fn write_for_upstream(params: &mut ObjectWriter<'_>, client: Option<&Members<'_>>, hop: Hop<'_>) {
    let kept = || {
        client
            .into_iter()
            .flat_map(Members::iter)
            .filter(|(name, _)| !is_of_one_hop(name))
    };
    if hop.era == Era::Legacy && hop.progress_token.is_none() && kept().next().is_none() {
        return;
    }
    let mut meta = ObjectWriter::open(params.name("_meta"));
    for (name, value) in kept() {
        meta.member(name, value.get());
    }
    if let Some(token) = hop.progress_token {
        meta.member(PROGRESS_TOKEN, &token.to_string());
    }
    if hop.era == Era::Modern {
        meta.string(PROTOCOL_VERSION, hop.revision);
        meta.member(CLIENT_CAPABILITIES, hop.capabilities);
        meta.member(CLIENT_INFO, OWN_INFO);
        if let Some(level) = hop.log_level {
            meta.string(LOG_LEVEL, level.as_str());
        }
    }
    meta.close();
}

/// What the gateway calls itself toward upstreams.
pub const OWN_NAME: &str = "mcpfleet";

/// What the gateway says of itself to upstreams, as JSON.
pub const OWN_INFO: &str = concat!(r#"{"name":"mcpfleet","version":""#, env!("CARGO_PKG_VERSION"), r#""}"#);

/// Keys that are true of one hop only and never travel further.
pub(super) fn is_of_one_hop(key: &str) -> bool {
    matches!(
        key,
        PROTOCOL_VERSION
            | CLIENT_CAPABILITIES
            | CLIENT_INFO
            | LOG_LEVEL
            | SERVER_INFO
            | SUBSCRIPTION_ID
            | RELATED_TASK
            | PROGRESS_TOKEN
    )
}

/// The upstream's `_meta` without its own server info, and with ours where there is one to give.
pub(super) fn write_for_client(object: &mut ObjectWriter<'_>, upstream: Option<&RawValue>, server_info: Option<&str>) {
    let Some(members) = upstream.map_or_else(|| Some(Members::default()), |raw| Members::parse(raw.get())) else {
        // Not an object: none of our business, and nothing can be added to it.
        if let Some(raw) = upstream {
            object.member("_meta", raw.get());
        }
        return;
    };
    let kept: Vec<_> = members.iter().filter(|(name, _)| *name != SERVER_INFO).collect();
    if kept.is_empty() && server_info.is_none() && members.get(SERVER_INFO).is_some() {
        return;
    }
    let mut out = ObjectWriter::open(object.name("_meta"));
    for (name, value) in kept {
        out.member(name, value.get());
    }
    if let Some(info) = server_info {
        out.member(SERVER_INFO, info);
    }
    out.close();
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(client: Option<&str>, era: Era) -> String {
        let members = client.map(|text| Members::parse(text).unwrap());
        let mut out = Vec::new();
        let mut params = ObjectWriter::open(&mut out);
        let hop = Hop {
            era,
            revision: "2026-07-28",
            capabilities: "{}",
            progress_token: None,
            log_level: None,
        };
        write_for_upstream(&mut params, members.as_ref(), hop);
        params.close();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn keys_of_the_clients_hop_stay_behind_and_others_travel() {
        let client = r#"{"traceparent":"00-1","progressToken":1,"io.modelcontextprotocol/protocolVersion":"2026-07-28","x/y":{"a": 1}}"#;
        assert_eq!(
            written(Some(client), Era::Legacy),
            r#"{"_meta":{"traceparent":"00-1","x/y":{"a": 1}}}"#
        );
        let modern = written(Some(client), Era::Modern);
        assert!(
            modern.contains(
                r#""traceparent":"00-1","x/y":{"a": 1},"io.modelcontextprotocol/protocolVersion":"2026-07-28""#
            )
        );
        assert!(modern.contains(r#""io.modelcontextprotocol/clientInfo":{"name":"mcpfleet""#));
    }

    #[test]
    fn a_legacy_upstream_gets_no_empty_meta() {
        assert_eq!(written(Some(r#"{"progressToken":1}"#), Era::Legacy), "{}");
        assert_eq!(written(None, Era::Legacy), "{}");
    }
}
