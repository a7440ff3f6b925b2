//! Any `_meta` of a client: what travels further does so as it was written, and what speaks of the client's hop does not.

use mcpfleet::mcp::LogLevel;
use mcpfleet::mcp::meta::{self, Hop, VersionClaim, write_for_upstream};
use mcpfleet::mcp::object::ObjectWriter;
use mcpfleet::mcp::{Era, Members, Revision};

use super::json;

const CAPABILITIES: &str = r#"{"roots":{}}"#;

pub fn check(data: &[u8]) {
    let Some(text) = json::object(data) else {
        return;
    };
    let client = Members::parse(text).expect("an object");
    match VersionClaim::of(Some(&client)) {
        VersionClaim::None => assert!(client.get(meta::PROTOCOL_VERSION).is_none()),
        VersionClaim::Named(name) => assert_eq!(client.string(meta::PROTOCOL_VERSION), Some(name)),
        VersionClaim::Malformed => assert!(client.string(meta::PROTOCOL_VERSION).is_none()),
    }
    for era in [Era::Legacy, Era::Modern] {
        for (progress_token, log_level) in [(None, None), (Some(7), None), (None, Some(LogLevel::Debug))] {
            let hop = Hop {
                era,
                revision: Revision::LATEST.as_str(),
                capabilities: CAPABILITIES,
                progress_token,
                log_level,
            };
            judge(&client, hop);
        }
    }
}

fn judge(client: &Members<'_>, hop: Hop<'_>) {
    let mut params = Vec::new();
    let mut object = ObjectWriter::open(&mut params);
    write_for_upstream(&mut object, Some(client), hop);
    object.close();
    let params = std::str::from_utf8(&params).expect("text");
    let params = Members::parse(params).expect("an object");
    let written = params.get("_meta").map_or("{}", |meta| meta.get());
    let written = Members::parse(written).expect("an object without a member twice");
    let is_modern = hop.era == Era::Modern;

    let own = |name: &str| match name {
        meta::PROGRESS_TOKEN => Some(hop.progress_token.map(|token| token.to_string())),
        meta::PROTOCOL_VERSION => Some(is_modern.then(|| r#""2026-07-28""#.to_owned())),
        meta::CLIENT_CAPABILITIES => Some(is_modern.then(|| CAPABILITIES.to_owned())),
        meta::CLIENT_INFO => Some(is_modern.then(|| meta::OWN_INFO.to_owned())),
        meta::LOG_LEVEL => Some(
            hop.log_level
                .filter(|_| is_modern)
                .map(|level| format!("{:?}", level.as_str())),
        ),
        meta::SERVER_INFO | meta::SUBSCRIPTION_ID | meta::RELATED_TASK => Some(None),
        _ => None,
    };
    for (name, value) in client.iter() {
        let expected = own(name).unwrap_or_else(|| Some(value.get().to_owned()));
        assert_eq!(
            written.get(name).map(|found| found.get()),
            expected.as_deref(),
            "{name}"
        );
    }
    for (name, value) in written.iter() {
        let expected = own(name).unwrap_or_else(|| client.get(name).map(|sent| sent.get().to_owned()));
        assert_eq!(expected.as_deref(), Some(value.get()), "{name}");
    }
}
