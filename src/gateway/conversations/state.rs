//! The state that a Modern client carries from one round of a request to the next: sealed, so that it holds for this
//! request of this client alone, and only once (2026-07-28, multi round-trip requests).
//!
//! It is signed and not encrypted: what stands in it is the client's own name, and what the server gave the client to
//! carry, as it would have done without us. Nothing that is not to be read by the client may be put into it.

use std::sync::{Mutex, PoisonError};

use aws_lc_rs::digest::{Context, SHA256};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::defaults;
use crate::gateway::session::{Denied, FederationKeys, SessionId};
use crate::mcp::{Members, Method};

/// What a round continues.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(in crate::gateway) enum Continued {
    /// The call of this name, which waits in this process.
    Parked(SessionId),
    /// A request that the server itself continues from this state, a JSON string as it wrote it.
    Server { state: String },
    /// A call that the server refused until pages were visited.
    Pages,
}

/// Which request the state holds for.
#[derive(Clone, Copy, Debug)]
pub(in crate::gateway) struct Subject<'a> {
    /// The federation, as `namespace/name`.
    pub(in crate::gateway) federation: &'a str,
    /// Who sends it, where access tells.
    pub(in crate::gateway) principal: Option<&'a str>,
    /// Its method.
    pub(in crate::gateway) method: Method,
    /// The server that it goes to: a name can come to stand for something else between two rounds.
    pub(in crate::gateway) server: &'a str,
    /// What this calls the tool, prompt or resource.
    pub(in crate::gateway) target: &'a str,
    /// Its params; of them all count but those that change from round to round.
    pub(in crate::gateway) params: &'a Members<'a>,
}

/// States that were used already.
#[derive(Debug)]
pub(in crate::gateway) struct Used(Mutex<Denied>);

#[derive(Serialize, Deserialize)]
struct Claims {
    aud: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    sub: Option<String>,
    request: String,
    exp: u64,
    jti: SessionId,
    continues: Continued,
}

/// The state that continues `continued` for `subject`, valid for [`defaults::STATE_TTL`] from `now`. `None` where the
/// system gives no random bytes.
pub(in crate::gateway) fn seal(
    continued: Continued,
    subject: Subject<'_>,
    keys: &FederationKeys,
    now: u64,
) -> Option<String> {
    let claims = Claims {
        aud: subject.federation.to_owned(),
        sub: subject.principal.map(str::to_owned),
        request: fingerprint(subject),
        exp: now.saturating_add(defaults::STATE_TTL.as_secs()),
        jti: SessionId::random()?,
        continues: continued,
    };
    let claims = URL_SAFE_NO_PAD.encode(serde_json::to_vec(&claims).ok()?);
    let signature = URL_SAFE_NO_PAD.encode(keys.sign_state(claims.as_bytes()));
    Some(format!("{claims}.{signature}"))
}

/// A state that was read.
#[derive(Debug)]
pub(in crate::gateway) struct Opened {
    /// What it continues.
    pub(in crate::gateway) continues: Continued,
    expires: u64,
    name: SessionId,
}

/// What `state` continues, if it was sealed for `subject` and has not expired at `now`. It is to be [used](Used::take)
/// once.
pub(in crate::gateway) fn open(state: &str, subject: Subject<'_>, keys: &FederationKeys, now: u64) -> Option<Opened> {
    let (claims, signature) = state.split_once('.')?;
    let signature = URL_SAFE_NO_PAD.decode(signature).ok()?;
    if !keys.has_signed_state(claims.as_bytes(), &signature) {
        return None;
    }
    let claims: Claims = serde_json::from_slice(&URL_SAFE_NO_PAD.decode(claims).ok()?).ok()?;
    let is_meant = claims.aud == subject.federation
        && claims.sub.as_deref() == subject.principal
        && claims.request == fingerprint(subject)
        && now <= claims.exp;
    is_meant.then_some(Opened {
        continues: claims.continues,
        expires: claims.exp,
        name: claims.jti,
    })
}

impl Default for Used {
    fn default() -> Self {
        Self(Mutex::new(Denied::new(defaults::USED_STATES_MAX)))
    }
}

impl Used {
    /// What `opened` continues, if it was not used before. Now it is.
    pub(in crate::gateway) fn take(&self, opened: Opened, now: u64) -> Option<Continued> {
        self.mark(opened.expires, opened.name, now).then_some(opened.continues)
    }

    /// Marks a state as used; false if it was already.
    fn mark(&self, expires: u64, name: SessionId, now: u64) -> bool {
        let mut used = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if used.contains(expires, name) {
            return false;
        }
        used.insert(expires, name, now);
        true
    }
}

/// A digest of what must not change from round to round. Clients may write the same params differently each time.
fn fingerprint(subject: Subject<'_>) -> String {
    let mut context = Context::new(&SHA256);
    for part in [subject.method.as_str(), subject.server, subject.target] {
        update_part(&mut context, part.as_bytes());
    }
    let mut params: Vec<_> = subject
        .params
        .iter()
        .filter(|(name, _)| !matches!(*name, "_meta" | "inputResponses" | "requestState"))
        .collect();
    params.sort_unstable_by_key(|(name, _)| *name);
    for (name, raw) in params {
        update_part(&mut context, name.as_bytes());
        match serde_json::from_str::<Value>(raw.get()) {
            Ok(value) => update_value(&mut context, &value),
            Err(_) => update_part(&mut context, raw.get().as_bytes()),
        }
    }
    URL_SAFE_NO_PAD.encode(context.finish())
}

fn update_value(context: &mut Context, value: &Value) {
    match value {
        Value::Object(members) => {
            let mut members: Vec<_> = members.iter().collect();
            members.sort_unstable_by_key(|(name, _)| *name);
            context.update(b"{");
            for (name, value) in members {
                update_part(context, name.as_bytes());
                update_value(context, value);
            }
            context.update(b"}");
        }
        Value::Array(values) => {
            context.update(b"[");
            for value in values {
                update_value(context, value);
            }
            context.update(b"]");
        }
        value => update_part(context, value.to_string().as_bytes()),
    }
}

/// Its length first, so that no two rows of parts look alike.
fn update_part(context: &mut Context, part: &[u8]) {
    context.update(&part.len().to_le_bytes());
    context.update(part);
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::gateway::session::Keyring;

    const ROOT: &[u8] = b"0123456789abcdef0123456789abcdef";
    const NOW: u64 = 1_800_000_000;

    struct Request(&'static str, Option<&'static str>, Method, &'static str);

    /// The server and what it calls the tool.
    const TARGET: [&str; 2] = ["ns/s", "a"];

    const CALL: Request = Request(
        "ns/fed",
        Some("ada"),
        Method::ToolsCall,
        r#"{"name":"a","arguments":{"x":1,"y":[2]}}"#,
    );

    fn with_subject<T>(request: &Request, take: impl FnOnce(Subject<'_>) -> T) -> T {
        with_subject_at(TARGET, request, take)
    }

    fn with_subject_at<T>([server, target]: [&str; 2], request: &Request, take: impl FnOnce(Subject<'_>) -> T) -> T {
        let params = Members::parse(request.3).unwrap();
        take(Subject {
            federation: request.0,
            principal: request.1,
            method: request.2,
            server,
            target,
            params: &params,
        })
    }

    fn keys(root: &[u8], federation: &str) -> std::sync::Arc<FederationKeys> {
        Keyring::new(root, []).unwrap().of(federation).unwrap()
    }

    fn sealed() -> (Continued, String) {
        let continued = Continued::Server {
            state: r#""a\u0062""#.into(),
        };
        let state = with_subject(&CALL, |subject| {
            seal(continued.clone(), subject, &keys(ROOT, "ns/fed"), NOW).unwrap()
        });
        (continued, state)
    }

    fn opened(state: &str, request: &Request, now: u64) -> Option<Continued> {
        with_subject(request, |subject| {
            let opened = open(state, subject, &keys(ROOT, request.0), now)?;
            Used::default().take(opened, now)
        })
    }

    #[test]
    fn a_state_continues_the_request_that_it_was_sealed_for() {
        let (continued, state) = sealed();
        assert_eq!(opened(&state, &CALL, NOW), Some(continued.clone()));
        let written_anew = Request(
            CALL.0,
            CALL.1,
            CALL.2,
            r#"{ "inputResponses":{}, "arguments":{"y": [2],"x":1},"name":"a","requestState":"s","_meta":{"progressToken":2}}"#,
        );
        assert_eq!(opened(&state, &written_anew, NOW), Some(continued));
    }

    #[test]
    fn it_continues_no_other_request_of_nobody_else_and_not_for_ever() {
        let (_, state) = sealed();
        for request in [
            Request("ns/other", CALL.1, CALL.2, CALL.3),
            Request(CALL.0, None, CALL.2, CALL.3),
            Request(CALL.0, Some("bob"), CALL.2, CALL.3),
            Request(CALL.0, CALL.1, Method::PromptsGet, CALL.3),
            Request(CALL.0, CALL.1, CALL.2, r#"{"name":"b","arguments":{"x":1,"y":[2]}}"#),
            Request(CALL.0, CALL.1, CALL.2, r#"{"name":"a","arguments":{"x":2,"y":[2]}}"#),
            Request(CALL.0, CALL.1, CALL.2, r#"{"name":"a"}"#),
        ] {
            assert_eq!(opened(&state, &request, NOW), None);
        }
        let last = NOW + defaults::STATE_TTL.as_secs();
        assert!(opened(&state, &CALL, last).is_some());
        assert_eq!(opened(&state, &CALL, last + 1), None);
    }

    #[test]
    fn it_continues_nothing_that_the_same_name_has_come_to_stand_for() {
        let (_, state) = sealed();
        for target in [["ns/other", "a"], ["ns/s", "b"], ["ns", "/sa"]] {
            let opened = with_subject_at(target, &CALL, |subject| open(&state, subject, &keys(ROOT, CALL.0), NOW));
            assert!(opened.is_none(), "{target:?}");
        }
    }

    #[test]
    fn a_forged_state_is_none() {
        let (_, state) = sealed();
        let other = with_subject(&CALL, |subject| open(&state, subject, &keys(&[7; 32], "ns/fed"), NOW));
        assert!(other.is_none());
        for place in 0..state.len() {
            let mut forged = state.clone().into_bytes();
            forged[place] = if forged[place] == b'A' { b'B' } else { b'A' };
            let forged = String::from_utf8(forged).unwrap();
            // The last bits of base64 may mean nothing.
            if place + 1 < state.len() {
                assert_eq!(opened(&forged, &CALL, NOW), None, "{place}");
            }
        }
        for odd in ["", ".", "a.b", "{}"] {
            assert_eq!(opened(odd, &CALL, NOW), None, "{odd}");
        }
    }

    proptest! {
        #[test]
        fn whatever_a_server_calls_its_state_comes_back_as_it_was_written(state in any::<String>()) {
            let continued = Continued::Server { state };
            let sealed = with_subject(&CALL, |subject| seal(continued.clone(), subject, &keys(ROOT, "ns/fed"), NOW));
            let sealed = sealed.unwrap();
            prop_assert!(sealed.is_ascii());
            prop_assert_eq!(opened(&sealed, &CALL, NOW), Some(continued));
        }

        #[test]
        fn no_other_text_is_a_state(text in any::<String>(), at in 0usize..200, with in "[A-Za-z0-9_.=-]{0,3}") {
            prop_assert_eq!(opened(&text, &CALL, NOW), None);
            let (_, state) = sealed();
            let at = at.min(state.len());
            let (head, tail) = state.split_at(at);
            for changed in [format!("{head}{with}{tail}"), format!("{head}{text}"), format!("{text}{tail}")] {
                prop_assert_eq!(opened(&changed, &CALL, NOW).is_some(), changed == state);
            }
        }
    }

    #[test]
    fn a_state_is_used_once() {
        let (_, state) = sealed();
        let used = Used::default();
        let open = || {
            with_subject(&CALL, |subject| {
                let opened = open(&state, subject, &keys(ROOT, "ns/fed"), NOW)?;
                used.take(opened, NOW)
            })
        };
        assert!(open().is_some());
        assert!(open().is_none());
    }
}
