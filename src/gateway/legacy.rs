//! The rules for a Legacy request.

use std::sync::Arc;

use http::{HeaderMap, HeaderValue, StatusCode};
use jiff::Timestamp;
use serde_json::json;

use super::access::Principal;
use super::modern::{self, Refusal, refusal};
use super::session::{Opening, Session, SessionError, Sessions};
use crate::fleet::{Federation, ProtocolPlan};
use crate::mcp::{Members, Method, Revision, RpcError, headers};

/// The revision that a request without a session is judged by: its header's, or that of times without header.
pub fn revision(map: &HeaderMap) -> Result<Revision, Refusal> {
    let mut values = map.get_all(&headers::PROTOCOL_VERSION).iter();
    let Some(value) = values.next() else {
        return Ok(Revision::WITHOUT_HEADER);
    };
    if values.next().is_some() {
        let error = RpcError::new(RpcError::INVALID_PARAMS, "MCP-Protocol-Version is sent more than once");
        return Err(refusal(StatusCode::BAD_REQUEST, error));
    }
    let name = String::from_utf8_lossy(value.as_bytes());
    let known = Revision::parse(name.trim()).filter(|r| Revision::LEGACY.contains(r));
    known.ok_or_else(|| refusal(StatusCode::BAD_REQUEST, unsupported(name.trim())))
}

/// The method, if Legacy has it.
pub fn method(name: &str) -> Result<Method, Refusal> {
    Method::parse(name)
        .filter(|known| known.in_legacy())
        .ok_or_else(|| refusal(StatusCode::OK, RpcError::method_not_found(name)))
}

/// Refuses a request with these parameters, and these headers if the transport has any, where no Legacy client is
/// served, and says what is spoken instead.
pub fn admitted(protocol: ProtocolPlan, params: Option<&Members<'_>>, map: Option<&HeaderMap>) -> Result<(), Refusal> {
    if protocol.legacy {
        return Ok(());
    }
    let requested = params.and_then(|members| members.string("protocolVersion"));
    let header = || String::from_utf8_lossy(map?.get(&headers::PROTOCOL_VERSION)?.as_bytes()).into();
    let requested = requested
        .or_else(header)
        .unwrap_or_else(|| Revision::WITHOUT_HEADER.as_str().into());
    let error = RpcError::unsupported_version(requested.trim(), protocol.revisions());
    Err(refusal(StatusCode::BAD_REQUEST, error))
}

/// The revision that a handshake with these parameters ends with.
///
/// # Errors
/// They name no revision, or one that is unknown where that is refused; or declare capabilities that are no object.
pub fn negotiated(protocol: ProtocolPlan, params: Option<&Members<'_>>) -> Result<Revision, Refusal> {
    let requested = params.and_then(|members| members.string("protocolVersion"));
    let requested = requested.ok_or_else(|| {
        let error = RpcError::new(RpcError::INVALID_PARAMS, "params.protocolVersion must be a string");
        refusal(StatusCode::OK, error)
    })?;
    if let Some(declared) = params.and_then(|members| members.get("capabilities"))
        && !declared.get().starts_with('{')
    {
        let text = "params.capabilities must be an object; a client that can do nothing special sends {}";
        return Err(refusal(StatusCode::OK, RpcError::new(RpcError::INVALID_PARAMS, text)));
    }
    let is_known = requested.is_empty() || Revision::LEGACY.iter().any(|r| r.as_str() == requested.trim());
    if protocol.rejects_unknown && !is_known {
        return Err(refusal(StatusCode::OK, unsupported(&requested)));
    }
    Ok(Revision::negotiate(&requested))
}

/// The session that a request with these headers belongs to; `None` where `federation` has no sessions.
///
/// # Errors
/// It names none, or one that is not valid here and now.
pub fn session(
    sessions: &Sessions,
    federation: &Federation,
    principal: &Principal,
    map: &HeaderMap,
) -> Result<Option<Arc<Session>>, SessionError> {
    if !federation.sessions.enabled {
        return Ok(None);
    }
    let token = map.get(&headers::SESSION_ID).ok_or(SessionError::Missing)?;
    let found = sessions.find(token.as_bytes(), &federation.name, principal.name(), now());
    found.map(Some)
}

/// Opens the session that a handshake with these parameters asks for, and gives its token; `None` where `federation`
/// has no sessions.
///
/// # Errors
/// None can be opened now.
pub fn open_session(
    sessions: &Sessions,
    federation: &Federation,
    principal: &Principal,
    revision: Revision,
    shows_all: bool,
    params: Option<&Members<'_>>,
) -> Result<Option<HeaderValue>, SessionError> {
    if !federation.sessions.enabled {
        return Ok(None);
    }
    let token = opening(federation, principal, revision, shows_all, params, |opening| {
        sessions.open(&opening, now())
    })?;
    let mut token = HeaderValue::try_from(token).map_err(|_| SessionError::Failed)?;
    token.set_sensitive(true);
    Ok(Some(token))
}

/// Gives `open` what a session is opened with that a handshake with these parameters asks for.
pub fn opening<T>(
    federation: &Federation,
    principal: &Principal,
    revision: Revision,
    shows_all: bool,
    params: Option<&Members<'_>>,
    open: impl FnOnce(Opening<'_>) -> T,
) -> T {
    let client = params.and_then(|members| Members::parse(members.get("clientInfo")?.get()));
    let client = client.as_ref().and_then(|client| client.string("name"));
    open(Opening {
        federation: &federation.name,
        principal: principal.name(),
        revision,
        capabilities: params.and_then(|members| members.get("capabilities")),
        client: client.as_deref(),
        shows_all,
        ttl: federation.sessions.ttl.as_secs().max(1),
    })
}

/// The error that names the Legacy revisions, where `requested` is none of them.
fn unsupported(requested: &str) -> RpcError {
    let supported: Vec<_> = Revision::LEGACY.into_iter().map(Revision::as_str).collect();
    let message = format!("Unsupported protocol version {requested:?}");
    let data = json!({"supported": supported, "requested": requested});
    RpcError::new(RpcError::INVALID_PARAMS, message).with_data(data)
}

/// Seconds since 1970.
pub fn now() -> u64 {
    u64::try_from(Timestamp::now().as_second()).unwrap_or(0)
}

/// Whether an error that answers no particular request must say so with `id: null`, as far as headers tell: revisions up
/// to 2025-06-18 demand the member, later ones leave it out. What the session agreed on goes before the version header,
/// whoever sends it: it may be refused for that very reason.
pub fn wants_null_id(sessions: &Sessions, federation: &Federation, map: &HeaderMap) -> bool {
    if modern::claimed_by_headers(map) {
        return false;
    }
    let token = map.get(&headers::SESSION_ID);
    let agreed = token.and_then(|token| sessions.agreed_on(token.as_bytes(), &federation.name, now()));
    let spoken = agreed.or_else(|| revision(map).ok());
    spoken.is_some_and(|revision| revision <= Revision::V2025_06_18)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with_version(version: &'static str) -> HeaderMap {
        let mut map = HeaderMap::new();
        map.insert(headers::PROTOCOL_VERSION.clone(), HeaderValue::from_static(version));
        map
    }

    #[test]
    fn the_header_names_a_legacy_revision_or_is_absent() {
        assert_eq!(revision(&HeaderMap::new()), Ok(Revision::V2025_03_26));
        assert_eq!(revision(&with_version("2025-11-25")), Ok(Revision::V2025_11_25));
        let refused = revision(&with_version("2023-01-01")).unwrap_err();
        assert_eq!((refused.status.as_u16(), refused.error.code), (400, -32602));
        assert_eq!(refused.error.data.unwrap()["requested"], "2023-01-01");
    }

    #[test]
    fn a_handshake_declares_capabilities_in_an_object_if_at_all() {
        let negotiated = |params: &str| negotiated(ProtocolPlan::default(), Members::parse(params).as_ref());
        for declared in ["", r#","capabilities":{}"#, r#","capabilities":{"roots":{}}"#] {
            let params = format!(r#"{{"protocolVersion":"2025-06-18"{declared}}}"#);
            assert_eq!(negotiated(&params), Ok(Revision::V2025_06_18), "{params}");
        }
        for declared in ["[]", "null", "\"{}\"", "1", "true"] {
            let refused = negotiated(&format!(
                r#"{{"protocolVersion":"2025-06-18","capabilities":{declared}}}"#
            ));
            let refused = refused.unwrap_err();
            assert_eq!(
                (refused.status.as_u16(), refused.error.code),
                (200, -32602),
                "{declared}"
            );
            assert!(refused.error.message.contains("sends {}"), "{}", refused.error.message);
        }
    }

    #[test]
    fn modern_methods_do_not_exist_here() {
        assert_eq!(method("ping"), Ok(Method::Ping));
        for name in ["server/discover", "tools/rename"] {
            let refused = method(name).unwrap_err();
            assert_eq!((refused.status.as_u16(), refused.error.code), (200, -32601), "{name}");
        }
    }
}
