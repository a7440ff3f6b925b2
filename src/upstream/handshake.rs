//! Finding out which era a server is of, and reading its handshake: verdicts over what it answered, without IO
//! (2026-07-28, versioning; pitfalls of fallback are told at each verdict).

use std::sync::Arc;

use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::capabilities::Capabilities;
use super::error::Error;
use super::state::{Introduction, Peer, Transport};
use crate::defaults;
use crate::mcp::meta::Hop;
use crate::mcp::object::ObjectWriter;
use crate::mcp::printable::one_line;
use crate::mcp::{Envelope, Era, Revision, RpcError, meta, printable};

/// What a server's answer to `server/discover` proves.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// It speaks the Modern revision.
    Modern(Peer),
    /// It wants a handshake.
    Legacy,
    /// It speaks this later revision, not the one it was asked in.
    Later(String),
    /// Nothing, or that we have no revision in common.
    Failed(Error),
}

/// The params of `server/discover` in the Modern revision called `revision` that declare `capabilities`, a JSON object:
/// some servers make what they declare themselves depend on it.
pub(crate) fn discover_params(revision: &str, capabilities: &str) -> Vec<u8> {
    let mut out = Vec::new();
    let mut params = ObjectWriter::open(&mut out);
    let hop = Hop::declaring(Era::Modern, revision, capabilities);
    meta::write_for_upstream(&mut params, None, hop);
    params.close();
    out
}

/// The params of `initialize` that offer `revision` and declare `capabilities`, a JSON object.
pub(crate) fn initialize_params(revision: Revision, capabilities: &str) -> Vec<u8> {
    let mut out = Vec::new();
    let mut params = ObjectWriter::open(&mut out);
    params.string("protocolVersion", revision.as_str());
    params.member("capabilities", capabilities);
    params.member("clientInfo", meta::OWN_INFO);
    params.close();
    out
}

/// The verdict on an answer over HTTP to discovery in the revision `tried`: its status, and its body if that may be a
/// message.
///
/// Refused credentials, throttling and server errors say nothing of the era, whatever their body holds.
pub(crate) fn judge_http(status: u16, message: Option<&[u8]>, tried: &str) -> Verdict {
    match (status, message) {
        (401 | 403, _) => Verdict::Failed(Error::Auth(status)),
        (429 | 500.., _) => Verdict::Failed(Error::Status(status)),
        (200..=299, Some(message)) => judge_message(message, tried),
        (400..=499, Some(message)) => match judge_message(message, tried) {
            Verdict::Modern(_) => Verdict::Legacy,
            verdict => verdict,
        },
        (200..=299 | 400..=499, None) => Verdict::Legacy,
        _ => Verdict::Failed(Error::Status(status)),
    }
}

/// The verdict on a message that answers discovery in the revision `tried`.
///
/// An ordinary error means Legacy, whatever its code: Legacy servers answer an unknown first request with many. Only
/// the codes that Modern brought are evidence of it. A list of revisions counts more than the success that carries it.
pub(crate) fn judge_message(message: &[u8], tried: &str) -> Verdict {
    let Ok(envelope) = Envelope::parse(message, defaults::JSON_DEPTH_MAX) else {
        return Verdict::Legacy;
    };
    if let Some(error) = envelope.error {
        return judge_error(error, tried);
    }
    let discovered = envelope
        .result
        .and_then(|raw| serde_json::from_str::<Discovered>(raw.get()).ok());
    let Some(discovered) = discovered else {
        return Verdict::Legacy;
    };
    let supported = &discovered.supported_versions;
    if supported.iter().any(|name| name == tried) {
        let own = discovered
            .meta
            .and_then(|mut m| m.remove(meta::SERVER_INFO))
            .or(discovered.server_info);
        let peer = peer(Revision::LATEST, own.as_ref(), discovered.capabilities.as_ref());
        return Verdict::Modern(Peer {
            instructions: instructions(discovered.instructions.as_ref()),
            introduction: introduction(own.as_ref(), discovered.instructions.as_ref()),
            revision_name: tried.to_owned().into(),
            ..peer
        });
    }
    if names_legacy(supported) {
        Verdict::Legacy
    } else {
        Verdict::Failed(no_common_revision(supported))
    }
}

/// What a server said of itself in its answer to `initialize`.
pub(crate) fn read_initialized(message: &[u8]) -> Result<Peer, Error> {
    let envelope = Envelope::parse(message, defaults::JSON_DEPTH_MAX).map_err(|e| Error::Protocol(e.to_string()))?;
    if let Some(error) = envelope.error {
        return Err(refusal(error));
    }
    let initialized: Initialized = envelope
        .result
        .and_then(|raw| serde_json::from_str(raw.get()).ok())
        .ok_or_else(|| Error::Protocol("the answer to initialize is malformed".into()))?;
    let revision = Revision::parse(&initialized.protocol_version)
        .filter(|revision| revision.era() == Era::Legacy)
        .ok_or_else(|| no_common_revision(std::slice::from_ref(&initialized.protocol_version)))?;
    Ok(Peer {
        instructions: instructions(initialized.instructions.as_ref()),
        introduction: introduction(initialized.server_info.as_ref(), initialized.instructions.as_ref()),
        ..peer(
            revision,
            initialized.server_info.as_ref(),
            initialized.capabilities.as_ref(),
        )
    })
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Discovered {
    supported_versions: Vec<String>,
    capabilities: Option<Value>,
    server_info: Option<Value>,
    instructions: Option<Value>,
    #[serde(rename = "_meta")]
    meta: Option<serde_json::Map<String, Value>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Initialized {
    protocol_version: String,
    capabilities: Option<Value>,
    server_info: Option<Value>,
    instructions: Option<Value>,
}

#[derive(Deserialize)]
struct ErrorObject {
    code: i64,
    #[serde(default)]
    message: String,
    data: Option<Value>,
}

/// What a revision that is refused leads to, is told by the list of those that are not: a later one is tried, once; a
/// Legacy one is shaken hands on (2026-07-28, versioning).
fn judge_error(raw: &RawValue, tried: &str) -> Verdict {
    let Ok(error) = serde_json::from_str::<ErrorObject>(raw.get()) else {
        return Verdict::Legacy;
    };
    match error.code {
        RpcError::UNSUPPORTED_VERSION => {
            let names = supported(error.data.as_ref());
            let later = names.iter().filter(|name| is_later(name)).min();
            match later {
                Some(later) if tried == Revision::LATEST.as_str() => Verdict::Later(later.clone()),
                _ if names.iter().any(|name| name == tried) => Verdict::Failed(Error::Protocol(format!(
                    "it refuses revision {tried} and lists it as supported"
                ))),
                _ if names_legacy(&names) => Verdict::Legacy,
                _ => Verdict::Failed(no_common_revision(&names)),
            }
        }
        RpcError::HEADER_MISMATCH | RpcError::MISSING_CLIENT_CAPABILITY => Verdict::Failed(Error::Protocol(format!(
            "it refused server/discover: {}",
            error_text(raw)
        ))),
        _ => Verdict::Legacy,
    }
}

/// Whether `names` has a Legacy revision in it.
fn names_legacy(names: &[String]) -> bool {
    let mut known = names.iter().filter_map(|name| Revision::parse(name));
    known.any(|revision| revision.era() == Era::Legacy)
}

/// Whether `name` is that of a revision after the ones that are known here: they are called by their dates.
fn is_later(name: &str) -> bool {
    let is_date =
        name.len() == Revision::LATEST.as_str().len() && name.bytes().all(|b| b.is_ascii_digit() || b == b'-');
    is_date && name > Revision::LATEST.as_str()
}

fn no_common_revision(names: &[String]) -> Error {
    let names: Vec<String> = names.iter().take(8).map(|name| printable(name, 32)).collect();
    Error::Revision(names.join(", "))
}

/// What a server means that answers a request with the error `raw`: that it speaks other revisions, if it says so.
pub(crate) fn refusal(raw: &RawValue) -> Error {
    let error = serde_json::from_str::<ErrorObject>(raw.get()).ok();
    let names = supported(error.as_ref().and_then(|error| error.data.as_ref()));
    if names.is_empty() {
        Error::Refused(error_text(raw))
    } else {
        no_common_revision(&names)
    }
}

/// The revisions that the data of an error lists as supported.
fn supported(data: Option<&Value>) -> Vec<String> {
    let listed = data.and_then(|data| data.get("supported")).and_then(Value::as_array);
    let names = listed.into_iter().flatten().filter_map(Value::as_str);
    names.map(str::to_owned).collect()
}

fn peer(revision: Revision, info: Option<&Value>, capabilities: Option<&Value>) -> Peer {
    let text = |key: &str| {
        let value = info.and_then(|info| info.get(key)).and_then(Value::as_str);
        printable(value.unwrap_or_default(), 128)
    };
    Peer {
        // Whoever has the connection knows better.
        transport: Transport::StreamableHttp,
        revision,
        revision_name: revision.as_str().into(),
        name: text("name"),
        version: text("version"),
        instructions: None,
        introduction: Introduction::default(),
        capabilities: Capabilities::read(capabilities, revision),
    }
}

/// What a server says of itself, as far as clients take it (2025-11-25, `Implementation`).
fn introduction(info: Option<&Value>, instructions: Option<&Value>) -> Introduction {
    let has = |name: &str| info.and_then(|info| info.get(name)).is_some_and(Value::is_string);
    let fits = |text: &String| text.len() <= defaults::INTRODUCTION_MAX;
    let info = info.filter(|_| has("name") && has("version")).map(Value::to_string);
    let instructions = instructions.and_then(Value::as_str).map(str::to_owned);
    Introduction {
        info: info.filter(fits).map(Into::into),
        instructions: instructions
            .filter(|text| !text.is_empty() && fits(text))
            .map(Into::into),
    }
}

/// How to use a server, as far as it says it, and no more of it than anybody gets to see.
fn instructions(said: Option<&Value>) -> Option<Arc<str>> {
    let text = one_line(said?.as_str()?, defaults::MEMBER_INSTRUCTIONS_MAX);
    (!text.is_empty()).then(|| text.into())
}

/// An error of a server as one line of bounded length.
fn error_text(raw: &RawValue) -> String {
    match serde_json::from_str::<ErrorObject>(raw.get()) {
        Ok(error) => format!("{} (code {})", printable(&error.message, 200), error.code),
        Err(_) => "a malformed error".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdict(text: &str) -> String {
        name(&judge_message(text.as_bytes(), TRIED))
    }

    const TRIED: &str = "2026-07-28";

    fn name(verdict: &Verdict) -> String {
        match verdict {
            Verdict::Modern(peer) => format!("modern {} {:?}", peer.name, peer.capabilities.tools),
            Verdict::Legacy => "legacy".into(),
            Verdict::Later(name) => format!("later {name}"),
            Verdict::Failed(e) => format!("failed {}", e.reason()),
        }
    }

    #[test]
    fn a_discovery_counts_by_the_revisions_it_lists() {
        let discovered = |versions: &str| {
            format!(
                r#"{{"jsonrpc":"2.0","id":1,"result":{{"supportedVersions":{versions},"capabilities":{{"tools":{{}}}},"_meta":{{"io.modelcontextprotocol/serverInfo":{{"name":"s"}}}}}}}}"#
            )
        };
        assert_eq!(
            verdict(&discovered(r#"["2026-07-28","2025-11-25"]"#)),
            "modern s Silent"
        );
        assert_eq!(verdict(&discovered(r#"["2025-11-25"]"#)), "legacy");
        assert_eq!(verdict(&discovered(r#"["2031-01-01"]"#)), "failed ProtocolError");
        assert_eq!(verdict(r#"{"jsonrpc":"2.0","id":1,"result":{}}"#), "legacy");
    }

    #[test]
    fn only_codes_that_modern_brought_are_evidence_of_it() {
        let error = |code: i64, data: &str| {
            format!(r#"{{"jsonrpc":"2.0","id":1,"error":{{"code":{code},"message":"m","data":{data}}}}}"#)
        };
        for code in [-32601, -32602, -32000, -32001, -32004, 7] {
            assert_eq!(verdict(&error(code, "null")), "legacy", "{code}");
        }
        assert_eq!(verdict(&error(-32022, r#"{"supported":["2025-11-25"]}"#)), "legacy");
        assert_eq!(
            verdict(&error(-32022, r#"{"supported":["2026-07-28"]}"#)),
            "failed ProtocolError"
        );
        assert_eq!(verdict(&error(-32022, "null")), "failed ProtocolError");
        assert_eq!(verdict(&error(-32020, "null")), "failed ProtocolError");
    }

    #[test]
    fn a_later_revision_is_tried_once_and_is_then_the_name_that_counts() {
        let refusal = |supported: &str| {
            format!(
                r#"{{"jsonrpc":"2.0","id":1,"error":{{"code":-32022,"message":"m","data":{{"supported":{supported}}}}}}}"#
            )
        };
        let later = refusal(r#"["2028-01-01","2027-01-15","2025-11-25","nonsense!!"]"#);
        assert_eq!(verdict(&later), "later 2027-01-15");
        assert_eq!(
            name(&judge_message(later.as_bytes(), "2027-01-15")),
            "failed ProtocolError"
        );
        let other = refusal(r#"["2029-01-01","2025-11-25"]"#);
        assert_eq!(judge_message(other.as_bytes(), "2027-01-15"), Verdict::Legacy);
        let found = br#"{"jsonrpc":"2.0","id":1,"result":{"supportedVersions":["2027-01-15"],"capabilities":{}}}"#;
        let Verdict::Modern(peer) = judge_message(found, "2027-01-15") else {
            panic!("it speaks what was tried");
        };
        assert_eq!((peer.revision, &*peer.revision_name), (Revision::LATEST, "2027-01-15"));
    }

    #[test]
    fn statuses_that_prove_nothing_are_never_taken_for_an_era() {
        for status in [401, 403, 429, 500, 503] {
            assert!(
                matches!(judge_http(status, Some(b"{}"), TRIED), Verdict::Failed(_)),
                "{status}"
            );
        }
        for status in [400, 404, 405, 406, 415] {
            assert_eq!(judge_http(status, None, TRIED), Verdict::Legacy, "{status}");
            assert_eq!(judge_http(status, Some(b"<html>"), TRIED), Verdict::Legacy, "{status}");
        }
        let unsupported =
            br#"{"jsonrpc":"2.0","id":1,"error":{"code":-32022,"message":"m","data":{"supported":["2025-06-18"]}}}"#;
        assert_eq!(judge_http(400, Some(unsupported), TRIED), Verdict::Legacy);
    }

    #[test]
    fn a_handshake_answered_with_a_revision_we_do_not_speak_fails() {
        let answer = |version: &str| {
            format!(
                r#"{{"jsonrpc":"2.0","id":1,"result":{{"protocolVersion":"{version}","capabilities":{{"tools":{{}}}},"serverInfo":{{"name":"a\u0007b","version":"1"}}}}}}"#
            )
        };
        let peer = read_initialized(answer("2024-11-05").as_bytes()).unwrap();
        assert_eq!((peer.revision, peer.name.as_str()), (Revision::V2024_11_05, r"a\u{7}b"));
        assert_eq!(
            read_initialized(answer("2026-07-28").as_bytes()).unwrap_err().reason(),
            "ProtocolError"
        );
        let refused = br#"{"jsonrpc":"2.0","id":1,"error":{"code":-32602,"message":"no"}}"#;
        assert_eq!(read_initialized(refused).unwrap_err().reason(), "HandshakeRefused");
    }
}
