//! The rules for a Modern request, in the order that clients are told them (2026-07-28, transports).

use http::{HeaderMap, HeaderName, StatusCode};
use serde_json::json;

use crate::fleet::ProtocolPlan;
use crate::mcp::LogLevel;
use crate::mcp::meta::{self, VersionClaim};
use crate::mcp::object::{self, Members};
use crate::mcp::{Method, ParamHeaders, Revision, RpcError, headers};

/// Why a request is refused before it is carried out.
#[derive(Clone, Debug, PartialEq)]
pub struct Refusal {
    /// The HTTP status.
    pub status: StatusCode,
    /// The error in the answer.
    pub error: RpcError,
}

/// Whether the headers alone claim a Modern request: they name a later revision than the Legacy ones, or a method and
/// no revision. Clients that name a Legacy revision are taken at their word, since some of them name the method too.
pub fn claimed_by_headers(map: &HeaderMap) -> bool {
    let version = map
        .get(&headers::PROTOCOL_VERSION)
        .and_then(|value| value.to_str().ok());
    match version {
        Some(name) if Revision::LEGACY.iter().any(|r| r.as_str() == name.trim()) => false,
        Some(name) if names_later_revision(name) => true,
        _ => map.contains_key(&headers::METHOD),
    }
}

/// Checks a request to a federation that speaks `protocol`, and gives its method. Its headers must repeat its body, if
/// the transport has any.
pub fn check(
    protocol: ProtocolPlan,
    method: &str,
    params: Option<&Members<'_>>,
    own_meta: Option<&Members<'_>>,
    map: Option<&HeaderMap>,
) -> Result<Method, Refusal> {
    let version = match VersionClaim::of(own_meta) {
        VersionClaim::Named(version) => version,
        VersionClaim::None | VersionClaim::Malformed => {
            return Err(missing_meta(meta::PROTOCOL_VERSION, "a string, such as \"2026-07-28\""));
        }
    };
    let capabilities = own_meta.and_then(|m| m.get(meta::CLIENT_CAPABILITIES));
    if !capabilities.is_some_and(|raw| raw.get().starts_with('{')) {
        return Err(missing_meta(
            meta::CLIENT_CAPABILITIES,
            "an object; a client that can do nothing special sends {}",
        ));
    }
    if let Some(map) = map {
        matches_if_present(map, &headers::PROTOCOL_VERSION, &version)?;
        matches_if_present(map, &headers::METHOD, method)?;
    }
    if Revision::parse(version.as_ref()) != Some(Revision::LATEST) {
        return Err(refusal(
            StatusCode::BAD_REQUEST,
            RpcError::unsupported_version(&version, protocol.revisions()),
        ));
    }
    if let Some(map) = map {
        required(map, &headers::PROTOCOL_VERSION)?;
        required(map, &headers::METHOD)?;
    }
    let Some(known) = Method::parse(method).filter(|known| known.in_modern()) else {
        return Err(refusal(StatusCode::NOT_FOUND, RpcError::method_not_found(method)));
    };
    if let Some(member) = known.named_target() {
        let named = map.map(|map| required(map, &headers::NAME)).transpose()?;
        let target = params.and_then(|p| p.get(member)).and_then(object::string);
        let Some(target) = target else {
            let error = RpcError::new(RpcError::INVALID_PARAMS, format!("params.{member} must be a string"));
            return Err(refusal(StatusCode::BAD_REQUEST, error));
        };
        if named.is_some_and(|named| headers::decode(named).as_deref() != Some(target.as_ref())) {
            return Err(mismatch(format!("Mcp-Name does not match params.{member}")));
        }
    }
    if let Some(level) = own_meta.and_then(|own| own.get(meta::LOG_LEVEL)) {
        let level = object::string(level);
        level.and_then(|level| LogLevel::parse(&level)).ok_or_else(|| {
            let error = RpcError::new(
                RpcError::INVALID_PARAMS,
                format!(
                    "params._meta[{:?}] is not a level; levels are {}",
                    meta::LOG_LEVEL,
                    LogLevel::names()
                ),
            );
            refusal(StatusCode::BAD_REQUEST, error)
        })?;
    }
    Ok(known)
}

/// Checks that headers repeat the arguments of a call where the tool's annotations want it.
pub fn check_param_headers(annotated: &ParamHeaders, params: &Members<'_>, map: &HeaderMap) -> Result<(), Refusal> {
    let arguments = params.get("arguments");
    annotated
        .check(arguments, map)
        .map_err(|found| mismatch(found.to_string()))
}

/// A refusal of an undecodable request.
pub fn refusal(status: StatusCode, error: RpcError) -> Refusal {
    Refusal { status, error }
}

/// Names of later revisions are dates too: whatever is not a known Legacy one is judged by the Modern rules.
fn names_later_revision(name: &str) -> bool {
    name.trim() > Revision::LATEST_LEGACY.as_str()
}

fn matches_if_present(map: &HeaderMap, header: &HeaderName, value: &str) -> Result<(), Refusal> {
    let mut sent = map.get_all(header).iter();
    match (sent.next(), sent.next()) {
        (None, _) => Ok(()),
        (Some(only), None) if only.as_bytes().trim_ascii() == value.as_bytes() => Ok(()),
        (Some(_), None) => Err(mismatch(format!("header {header} does not match the body"))),
        (Some(_), Some(_)) => Err(mismatch(format!("header {header} is sent more than once"))),
    }
}

fn required<'a>(map: &'a HeaderMap, header: &HeaderName) -> Result<&'a [u8], Refusal> {
    let mut sent = map.get_all(header).iter();
    match (sent.next(), sent.next()) {
        (Some(only), None) => Ok(only.as_bytes().trim_ascii()),
        (None, _) => Err(mismatch(format!("header {header} is missing"))),
        (Some(_), Some(_)) => Err(mismatch(format!("header {header} is sent more than once"))),
    }
}

fn mismatch(message: String) -> Refusal {
    refusal(
        StatusCode::BAD_REQUEST,
        RpcError::new(RpcError::HEADER_MISMATCH, message),
    )
}

fn missing_meta(key: &str, wanted: &str) -> Refusal {
    let details = format!("params._meta[{key:?}] must be {wanted}");
    let error = RpcError::new(RpcError::INVALID_PARAMS, format!("Invalid params: {details}"));
    refusal(StatusCode::BAD_REQUEST, error.with_data(json!({"details": details})))
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::{HeaderName, HeaderValue};

    const META: &str = r#""_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}"#;

    fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
        let mut map = HeaderMap::new();
        for (name, value) in pairs {
            map.append(
                HeaderName::from_static(name),
                HeaderValue::from_bytes(value.as_bytes()).unwrap(),
            );
        }
        map
    }

    fn checked(method: &str, params: &str, pairs: &[(&'static str, &str)]) -> Result<Method, (u16, i64)> {
        let params = Members::parse(params);
        let own = params
            .as_ref()
            .and_then(|p| p.get("_meta"))
            .and_then(|raw| Members::parse(raw.get()));
        let protocol = ProtocolPlan::default();
        check(protocol, method, params.as_ref(), own.as_ref(), Some(&headers(pairs)))
            .map_err(|r| (r.status.as_u16(), r.error.code))
    }

    #[test]
    fn a_request_whose_headers_repeat_its_body_passes() {
        let params = format!(r#"{{"name":"Grüße",{META}}}"#);
        let pairs = [
            ("mcp-protocol-version", "2026-07-28"),
            ("mcp-method", "prompts/get"),
            ("mcp-name", "=?base64?R3LDvMOfZQ==?="),
        ];
        assert_eq!(checked("prompts/get", &params, &pairs), Ok(Method::PromptsGet));
    }

    #[test]
    fn each_check_has_its_code_and_the_earlier_one_wins() {
        let version = ("mcp-protocol-version", "2026-07-28");
        let list = ("mcp-method", "tools/list");
        let meta = format!("{{{META}}}");
        let future = meta.replace("2026-07-28", "2031-01-01");
        let odd_level = meta.replace("}}}", r#"},"io.modelcontextprotocol/logLevel":"loud"}}"#);
        let no_capabilities = r#"{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}"#;
        let call = format!(r#"{{"name":"a",{META}}}"#);
        let called = ("mcp-method", "tools/call");
        for (method, params, pairs, expected) in [
            ("tools/list", meta.as_str(), vec![version], (400, -32020)),
            ("tools/list", &meta, vec![list], (400, -32020)),
            ("tools/list", &meta, vec![version, called], (400, -32020)),
            ("tools/list", &meta, vec![version, version, list], (400, -32020)),
            (
                "tools/list",
                &future,
                vec![("mcp-protocol-version", "2031-01-01"), list],
                (400, -32022),
            ),
            ("tools/list", &future, vec![list], (400, -32022)),
            ("tools/list", &future, vec![version, list], (400, -32020)),
            ("tools/list", no_capabilities, vec![version, list], (400, -32602)),
            ("tools/list", "{}", vec![version, list], (400, -32602)),
            ("tools/list", &odd_level, vec![version, list], (400, -32602)),
            ("ping", &meta, vec![version, ("mcp-method", "ping")], (404, -32601)),
            (
                "initialize",
                &meta,
                vec![version, ("mcp-method", "initialize")],
                (404, -32601),
            ),
            ("tools/call", &call, vec![version, called], (400, -32020)),
            (
                "tools/call",
                &call,
                vec![version, called, ("mcp-name", "b")],
                (400, -32020),
            ),
            (
                "tools/call",
                &call,
                vec![version, called, ("mcp-name", "=?base64?@@?=")],
                (400, -32020),
            ),
            (
                "tools/call",
                &meta,
                vec![version, called, ("mcp-name", "a")],
                (400, -32602),
            ),
        ] {
            assert_eq!(
                checked(method, params, &pairs),
                Err(expected),
                "{method} {params} {pairs:?}"
            );
        }
    }

    #[test]
    fn headers_alone_claim_modern_by_method_or_by_a_later_revision() {
        assert!(claimed_by_headers(&headers(&[("mcp-method", "ping")])));
        assert!(claimed_by_headers(&headers(&[("mcp-protocol-version", "2031-01-01")])));
        assert!(!claimed_by_headers(&headers(&[("mcp-protocol-version", "2025-11-25")])));
        assert!(!claimed_by_headers(&headers(&[("mcp-protocol-version", "2023-01-01")])));
        assert!(!claimed_by_headers(&HeaderMap::new()));
        let both = headers(&[("mcp-protocol-version", "2025-11-25"), ("mcp-method", "ping")]);
        assert!(!claimed_by_headers(&both), "who names a Legacy revision means it");
    }
}
