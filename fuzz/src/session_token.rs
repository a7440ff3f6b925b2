//! Any bytes as a session's token: nobody makes one without the key, and what a client says of itself comes back as it
//! was said.

use std::sync::{Arc, LazyLock};

use arc_swap::ArcSwapOption;
use mcpfleet::defaults;
use mcpfleet::gateway::session::{Keyring, Opening, SessionError, Sessions};
use mcpfleet::mcp::Revision;
use mcpfleet::metrics::Metrics;

use super::json;

const NOW: u64 = 1_800_000_000;
const FEDERATION: &str = "default/fuzz";

static SESSIONS: LazyLock<Sessions> = LazyLock::new(|| {
    let metrics = Metrics::new().expect("metrics");
    let keys = Keyring::new(&[7; defaults::ROOT_KEY_BYTES], []).expect("a key");
    Sessions::new(Arc::new(ArcSwapOption::from_pointee(keys)), metrics.sessions())
});

pub fn check(data: &[u8]) {
    // The key is known here only, so no input can be a token of it.
    assert_eq!(found(data, FEDERATION, None), Err(SessionError::NotFound));
    let capabilities = json::value(data);
    let client = std::str::from_utf8(data).ok();
    let opening = Opening {
        federation: FEDERATION,
        principal: client,
        revision: Revision::LATEST_LEGACY,
        capabilities,
        client,
        shows_all: data.first() == Some(&1),
        ttl: 60,
    };
    let token = SESSIONS.open(&opening, NOW).expect("a session is opened");
    // A principal is the name of a key, which is short.
    if token.len() > defaults::SESSION_TOKEN_MAX {
        return;
    }
    let session = SESSIONS
        .find(token.as_bytes(), FEDERATION, client, NOW)
        .expect("it is found");
    assert_eq!(session.principal.as_deref(), client);
    assert_eq!(session.revision, Revision::LATEST_LEGACY);
    let kept = session.client.as_deref().unwrap_or_default();
    assert!(client.unwrap_or_default().starts_with(kept) && kept.len() <= defaults::SESSION_CLIENT_NAME_MAX);
    let kept = session.capabilities.as_ref().map_or("", |kept| kept.get());
    if kept.len() < defaults::SESSION_CAPABILITIES_MAX / 2 && data.len() < defaults::SESSION_CAPABILITIES_MAX {
        assert_eq!(kept, json::object(data).unwrap_or_default(), "as they were written");
    }
    assert!(kept.len() <= defaults::SESSION_CAPABILITIES_MAX);
    for (federation, principal, now) in [
        ("default/other", client, NOW),
        (FEDERATION, Some("somebody else"), NOW),
        (FEDERATION, client, NOW + 61),
    ] {
        if principal != client || federation != FEDERATION || now != NOW {
            assert!(SESSIONS.find(token.as_bytes(), federation, principal, now).is_err());
        }
    }
    // Any other way to write it is another token. Where to change it, the input says.
    let at = data.iter().fold(0usize, |sum, byte| {
        sum.wrapping_mul(31).wrapping_add(usize::from(*byte))
    }) % token.len();
    let mut changed = token.into_bytes();
    changed[at] = if changed[at] == b'A' { b'B' } else { b'A' };
    assert!(found(&changed, FEDERATION, client).is_err(), "changed at {at}");
}

fn found(token: &[u8], federation: &str, principal: Option<&str>) -> Result<(), SessionError> {
    SESSIONS.find(token, federation, principal, NOW).map(|_| ())
}
