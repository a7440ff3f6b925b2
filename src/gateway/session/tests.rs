//! Sessions as replicas and clients meet them.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::*;
use crate::metrics::Metrics;

const NOW: u64 = 1_800_000_000;
const DAY: u64 = 86_400;
const OLD: [u8; 32] = [1; 32];
const NEW: [u8; 32] = [2; 32];

/// A replica that signs with the first of `keys` and accepts all of them.
fn replica(keys: &[[u8; 32]]) -> Sessions {
    let (signing, accepted) = keys.split_first().unwrap();
    let keyring = Keyring::new(signing, accepted.iter().map(<[u8; 32]>::as_slice)).unwrap();
    with_keys(Some(keyring))
}

fn with_keys(keyring: Option<Keyring>) -> Sessions {
    let keys = Arc::new(ArcSwapOption::from_pointee(keyring));
    Sessions::new(keys, Metrics::new().unwrap().sessions())
}

fn opening() -> Opening<'static> {
    Opening {
        federation: "team/all",
        principal: None,
        revision: Revision::V2025_06_18,
        capabilities: None,
        client: None,
        shows_all: false,
        ttl: DAY,
    }
}

fn claims(token: &str) -> Value {
    let claims = token.split('.').nth(1).unwrap();
    serde_json::from_slice(&URL_SAFE_NO_PAD.decode(claims).unwrap()).unwrap()
}

fn found(sessions: &Sessions, token: &str, federation: &str, principal: Option<&str>) -> Option<Arc<Session>> {
    match sessions.find(token.as_bytes(), federation, principal, NOW) {
        Ok(session) => Some(session),
        Err(error) => {
            assert_eq!(error, SessionError::NotFound);
            None
        }
    }
}

#[test]
fn a_token_says_what_the_client_said() {
    let capabilities = serde_json::from_str::<Box<RawValue>>(r#"{"sampling":{},"x":1.50}"#).unwrap();
    let opening = Opening {
        principal: Some("alice"),
        capabilities: Some(&capabilities),
        client: Some("probe"),
        ..opening()
    };
    let sessions = replica(&[OLD]);
    let token = sessions.open(&opening, NOW).unwrap();
    let said = claims(&token);
    assert_eq!(said["exp"].as_u64().unwrap() - said["iat"].as_u64().unwrap(), DAY);
    assert_eq!((&said["aud"], &said["sub"]), (&json!("team/all"), &json!("alice")));

    let session = found(&sessions, &token, "team/all", Some("alice")).unwrap();
    assert_eq!(session.revision, Revision::V2025_06_18);
    assert_eq!(
        session.capabilities.as_ref().unwrap().get(),
        r#"{"sampling":{},"x":1.50}"#
    );
    assert_eq!(session.client.as_deref(), Some("probe"));
    assert_eq!(said["jti"], session.id.to_string());
}

#[test]
fn two_sessions_never_have_the_same_token() {
    let sessions = replica(&[OLD]);
    assert_ne!(sessions.open(&opening(), NOW), sessions.open(&opening(), NOW));
}

#[test]
fn another_replica_with_the_same_key_serves_the_session() {
    let token = replica(&[OLD]).open(&opening(), NOW).unwrap();
    assert!(found(&replica(&[OLD]), &token, "team/all", None).is_some());
    assert!(found(&replica(&[NEW]), &token, "team/all", None).is_none());
    let random = with_keys(Some(Keyring::random().unwrap()));
    assert!(found(&random, &token, "team/all", None).is_none());
}

#[test]
fn a_session_outlives_a_change_of_the_key_while_the_old_one_is_accepted() {
    let token = replica(&[OLD]).open(&opening(), NOW).unwrap();
    let changed = replica(&[NEW, OLD]);
    assert!(found(&changed, &token, "team/all", None).is_some());
    let newer = changed.open(&opening(), NOW).unwrap();
    assert!(found(&replica(&[NEW]), &newer, "team/all", None).is_some());
}

#[test]
fn a_session_is_for_one_federation() {
    let sessions = replica(&[OLD]);
    let token = sessions.open(&opening(), NOW).unwrap();
    assert!(found(&sessions, &token, "team/other", None).is_none());
}

#[test]
fn the_audience_is_checked_beside_the_signature() {
    let keys = Keyring::new(&OLD, []).unwrap().of("team/other").unwrap();
    let id = SessionId::random().unwrap();
    let token = token::write(&Claims::new(&opening(), id, NOW), keys.signing()).unwrap();
    assert!(found(&replica(&[OLD]), &token, "team/other", None).is_none());
}

#[test]
fn a_session_is_for_the_principal_that_opened_it() {
    let sessions = replica(&[OLD]);
    let alices = Opening {
        principal: Some("alice"),
        ..opening()
    };
    let token = sessions.open(&alices, NOW).unwrap();
    assert!(found(&sessions, &token, "team/all", Some("alice")).is_some());
    for other in [None, Some("bob"), Some("")] {
        assert!(found(&sessions, &token, "team/all", other).is_none(), "{other:?}");
    }
    let anonymous = sessions.open(&opening(), NOW).unwrap();
    assert!(found(&sessions, &anonymous, "team/all", Some("alice")).is_none());
}

#[test]
fn a_session_that_was_found_before_is_judged_anew() {
    let keys = Arc::new(ArcSwapOption::from_pointee(Keyring::new(&OLD, []).unwrap()));
    let sessions = Sessions::new(Arc::clone(&keys), Metrics::new().unwrap().sessions());
    let token = sessions.open(&opening(), NOW).unwrap();
    let find = |federation, principal, now| sessions.find(token.as_bytes(), federation, principal, now).map(drop);
    let not_found = Err(SessionError::NotFound);
    assert_eq!(find("team/all", None, NOW), Ok(()));
    assert_eq!(find("team/other", None, NOW), not_found, "another federation");
    assert_eq!(find("team/all", Some("alice"), NOW), not_found, "another principal");
    assert_eq!(find("team/all", None, NOW + DAY), Ok(()));
    assert_eq!(find("team/all", None, NOW + DAY + 1), not_found, "expired");

    let changed = Keyring::new(&NEW, [&OLD[..]]).unwrap();
    keys.store(Some(Arc::new(changed)));
    assert_eq!(find("team/all", None, NOW), Ok(()), "its key is still accepted");
    keys.store(Some(Arc::new(Keyring::new(&NEW, []).unwrap())));
    assert_eq!(
        find("team/all", None, NOW),
        not_found,
        "its key is not accepted any more"
    );
}

#[test]
fn an_ended_session_is_not_found_and_others_go_on() {
    let sessions = replica(&[OLD]);
    let (ended, other) = (
        sessions.open(&opening(), NOW).unwrap(),
        sessions.open(&opening(), NOW).unwrap(),
    );
    sessions.end(&found(&sessions, &ended, "team/all", None).unwrap(), NOW);
    assert!(found(&sessions, &ended, "team/all", None).is_none());
    assert!(found(&sessions, &other, "team/all", None).is_some());
}

#[test]
fn without_a_key_nothing_is_opened_and_nothing_is_called_gone() {
    let waiting = with_keys(None);
    assert_eq!(waiting.open(&opening(), NOW), Err(SessionError::NotReady));
    let token = replica(&[OLD]).open(&opening(), NOW).unwrap();
    let refused = waiting.find(token.as_bytes(), "team/all", None, NOW);
    assert_eq!(refused.unwrap_err(), SessionError::NotReady);
}

#[test]
fn the_longest_token_that_is_written_is_read() {
    let capabilities = format!(r#"{{"x":"{}"}}"#, "x".repeat(defaults::SESSION_CAPABILITIES_MAX - 8));
    let capabilities = serde_json::from_str::<Box<RawValue>>(&capabilities).unwrap();
    let (federation, principal, client) = ("f".repeat(117), "p".repeat(253), "\u{1}".repeat(1000));
    let opening = Opening {
        federation: &federation,
        principal: Some(&principal),
        capabilities: Some(&capabilities),
        client: Some(&client),
        ..opening()
    };
    let sessions = replica(&[OLD]);
    let token = sessions.open(&opening, NOW).unwrap();
    assert!(token.len() < defaults::SESSION_TOKEN_MAX, "{}", token.len());
    let session = found(&sessions, &token, &federation, Some(&principal)).unwrap();
    assert!(session.capabilities.is_some());
}

#[test]
fn short_root_keys_are_refused_and_keys_do_not_show() {
    assert_eq!(Keyring::new(&[0; 31], []).unwrap_err(), KeyError::TooShort);
    let short: &[u8] = &[0; 16];
    assert_eq!(Keyring::new(&OLD, [short]).unwrap_err(), KeyError::TooShort);
    assert_eq!(format!("{:?}", Keyring::random().unwrap()), "Keyring");
}
