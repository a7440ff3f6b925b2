//! Results between revisions and eras: what only one side knows is added or taken away, everything else stays as
//! written.

use super::content;
use super::input_required;
use super::message::Id;
use super::meta;
use super::method::Method;
use super::object::{self, Members, ObjectWriter};
use super::rpc_error::RpcError;
use super::task;
use super::version::{Era, Revision};

/// Why an upstream's result cannot be passed on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ResultError {
    /// It is no object, or names a member twice.
    #[error("the result is not a JSON object")]
    NotAnObject,
    /// It is of a type that this hop does not know.
    #[error("the result has a resultType that was not asked for")]
    UnknownType,
    /// It asks for input, and is no answer yet.
    #[error("the server asks for input that nobody can give")]
    InputRequired,
    /// It is a task, whose result is to be fetched later.
    #[error("the server made a task of the call, which nobody asked for")]
    Task,
}

/// Writes the whole response to a client of revision `to` for `raw`, the result of an upstream of era `from` for
/// `method`.
///
/// `server_info` is what the federation says of itself, as JSON.
pub fn response(
    id: Id<'_>,
    method: Method,
    raw: &str,
    from: Era,
    to: Revision,
    server_info: &str,
) -> Result<Vec<u8>, ResultError> {
    let raw = &*content::for_client(raw, method, to);
    let mut out = Vec::with_capacity(raw.len() + server_info.len() + 192);
    out.extend_from_slice(b"{\"jsonrpc\":\"2.0\",\"id\":");
    out.extend_from_slice(id.as_json().as_bytes());
    out.extend_from_slice(b",\"result\":");
    match (from, to.era()) {
        (Era::Legacy, Era::Legacy) if raw.starts_with('{') => out.extend_from_slice(raw.as_bytes()),
        (_, Era::Legacy) => write_for_legacy(&mut out, raw)?,
        (_, Era::Modern) => write_for_modern(&mut out, raw, method, server_info)?,
    }
    out.push(b'}');
    Ok(out)
}

/// The error object for a client of era `to` for `raw`, the error of an upstream answering `method`.
///
/// Codes that speak of one hop or belong to the other era are turned into their meaning here, with the original under
/// `data`; every other error is passed as written.
pub fn error(raw: &str, method: Method, to: Era) -> Vec<u8> {
    let members = Members::parse(raw);
    let Some((error, code)) = members.and_then(|error| {
        let code = error.get("code")?.get().parse::<i64>().ok()?;
        Some((error, code))
    }) else {
        return RpcError::new(RpcError::INTERNAL, "The server answered with a malformed error").to_json();
    };
    let (message, data) = (error.string("message"), error.get("data").map(|data| data.get()));
    let names_a_resource = || {
        let data = data
            .filter(|_| method == Method::ResourcesRead)
            .and_then(Members::parse);
        data.is_some_and(|data| data.get("uri").is_some())
    };
    let told = match (to, code) {
        (Era::Modern, RpcError::RESOURCE_NOT_FOUND) if method == Method::ResourcesRead => RpcError::INVALID_PARAMS,
        (Era::Legacy, RpcError::INVALID_PARAMS) if names_a_resource() => RpcError::RESOURCE_NOT_FOUND,
        // A Legacy client visits the pages by itself.
        (Era::Legacy, RpcError::URL_ELICITATION_REQUIRED) => code,
        (Era::Modern, RpcError::RESOURCE_NOT_FOUND) | (_, RESERVED_FIRST..=RESERVED_LAST) => {
            let original = format!(r#"{{"upstream":{raw}}}"#);
            return written(RpcError::INTERNAL, message.as_deref(), Some(&original));
        }
        _ => code,
    };
    // Both eras demand a message.
    if told == code && message.is_some() {
        return raw.as_bytes().to_vec();
    }
    written(told, message.as_deref(), data)
}

/// An error whose data, if it has any, are as the server wrote them.
fn written(code: i64, message: Option<&str>, data: Option<&str>) -> Vec<u8> {
    let mut out = Vec::new();
    let mut object = ObjectWriter::open(&mut out);
    object.member("code", &code.to_string());
    object.string("message", message.unwrap_or_default());
    if let Some(data) = data {
        object.member("data", data);
    }
    object.close();
    out
}

/// The codes that the protocol keeps for itself, -32042 of 2025-11-25 included (2026-07-28, errors).
const RESERVED_FIRST: i64 = -32099;
const RESERVED_LAST: i64 = -32020;

fn write_for_legacy(out: &mut Vec<u8>, raw: &str) -> Result<(), ResultError> {
    let members = Members::parse(raw).ok_or(ResultError::NotAnObject)?;
    check_type(&members)?;
    let mut object = ObjectWriter::open(out);
    for (name, value) in members.iter() {
        match name {
            "resultType" | "ttlMs" | "cacheScope" => {}
            "_meta" => write_meta(&mut object, Some(value), None),
            _ => object.member(name, value.get()),
        }
    }
    object.close();
    Ok(())
}

fn write_for_modern(out: &mut Vec<u8>, raw: &str, method: Method, server_info: &str) -> Result<(), ResultError> {
    // How long, and by whom, a result may be kept is said of resources only (2026-07-28, caching).
    let is_cacheable = method == Method::ResourcesRead;
    let members = Members::parse(raw).ok_or(ResultError::NotAnObject)?;
    check_type(&members)?;
    let mut object = ObjectWriter::open(out);
    object.string("resultType", COMPLETE);
    for (name, value) in members.iter() {
        match name {
            "resultType" | "_meta" => {}
            "ttlMs" | "cacheScope" if is_cacheable => {}
            _ => object.member(name, value.get()),
        }
    }
    if is_cacheable {
        object.member("ttlMs", "0");
        object.string("cacheScope", "private");
    }
    write_meta(&mut object, members.get("_meta"), Some(server_info));
    object.close();
    Ok(())
}

/// Only complete results can be passed on as they are.
fn check_type(members: &Members<'_>) -> Result<(), ResultError> {
    match members.get("resultType").map(object::string) {
        None => Ok(()),
        Some(Some(kind)) if kind == COMPLETE => Ok(()),
        Some(Some(kind)) if kind == input_required::TYPE => Err(ResultError::InputRequired),
        Some(Some(kind)) if kind == task::TYPE => Err(ResultError::Task),
        Some(_) => Err(ResultError::UnknownType),
    }
}

/// The upstream's `_meta` without its own server info, and with ours where there is one to give.
pub(super) fn write_meta(
    object: &mut ObjectWriter<'_>,
    upstream: Option<&serde_json::value::RawValue>,
    server_info: Option<&str>,
) {
    let Some(members) = upstream.map_or_else(|| Some(Members::default()), |raw| Members::parse(raw.get())) else {
        // Not an object: none of our business, and nothing can be added to it.
        if let Some(raw) = upstream {
            object.member("_meta", raw.get());
        }
        return;
    };
    let kept: Vec<_> = members.iter().filter(|(name, _)| *name != meta::SERVER_INFO).collect();
    if kept.is_empty() && server_info.is_none() && members.get(meta::SERVER_INFO).is_some() {
        return;
    }
    let mut out = ObjectWriter::open(object.name("_meta"));
    for (name, value) in kept {
        out.member(name, value.get());
    }
    if let Some(info) = server_info {
        out.member(meta::SERVER_INFO, info);
    }
    out.close();
}

/// The `resultType` of a result that is the whole answer.
pub const COMPLETE: &str = "complete";

#[cfg(test)]
mod tests {
    use super::*;

    fn shaped(method: Method, result: &str, from: Era, to: Revision) -> String {
        let id: &serde_json::value::RawValue = serde_json::from_str("7").unwrap();
        match response(Id::from_raw(id).unwrap(), method, result, from, to, "{\"name\":\"f\"}") {
            Ok(out) => {
                let text = String::from_utf8(out).unwrap();
                text.strip_prefix(r#"{"jsonrpc":"2.0","id":7,"result":"#)
                    .unwrap()
                    .strip_suffix('}')
                    .unwrap()
                    .to_owned()
            }
            Err(e) => e.to_string(),
        }
    }

    #[test]
    fn a_modern_result_loses_for_a_legacy_client_what_only_modern_knows() {
        let modern = r#"{"resultType":"complete","content":[ ],"odd":1.0,"ttlMs":5,"cacheScope":"public","_meta":{"io.modelcontextprotocol/serverInfo":{},"k":1}}"#;
        assert_eq!(
            shaped(Method::ToolsCall, modern, Era::Modern, Revision::LATEST_LEGACY),
            r#"{"content":[ ],"odd":1.0,"_meta":{"k":1}}"#
        );
        let only_info = r#"{"content":[],"_meta":{"io.modelcontextprotocol/serverInfo":{}}}"#;
        assert_eq!(
            shaped(Method::ToolsCall, only_info, Era::Modern, Revision::LATEST_LEGACY),
            r#"{"content":[]}"#
        );
    }

    #[test]
    fn a_legacy_result_gains_for_a_modern_client_what_modern_demands() {
        let info = r#""_meta":{"io.modelcontextprotocol/serverInfo":{"name":"f"}}"#;
        assert_eq!(
            shaped(
                Method::ToolsCall,
                r#"{"content":[],"x":{"y":1}}"#,
                Era::Legacy,
                Revision::LATEST
            ),
            format!(r#"{{"resultType":"complete","content":[],"x":{{"y":1}},{info}}}"#)
        );
        assert_eq!(
            shaped(
                Method::ResourcesRead,
                r#"{"contents":[],"ttlMs":9}"#,
                Era::Legacy,
                Revision::LATEST
            ),
            format!(r#"{{"resultType":"complete","contents":[],"ttlMs":0,"cacheScope":"private",{info}}}"#)
        );
    }

    #[test]
    fn between_equal_eras_a_legacy_result_is_passed_byte_for_byte() {
        let odd = r#"{ "content" : [ ], "resultType":"mine", "_meta": {} }"#;
        assert_eq!(
            shaped(Method::ToolsCall, odd, Era::Legacy, Revision::LATEST_LEGACY),
            odd
        );
    }

    #[test]
    fn content_is_shaped_for_the_revision_before_the_era() {
        let modern = r#"{"resultType":"complete","structuredContent":[1],"content":[]}"#;
        let shaped = |to| shaped(Method::ToolsCall, modern, Era::Modern, to);
        assert_eq!(
            shaped(Revision::V2025_11_25),
            r#"{"content":[{"type":"text","text":"[1]"}]}"#
        );
        assert!(shaped(Revision::LATEST).contains(r#""structuredContent":[1],"content":[]"#));
    }

    #[test]
    fn errors_keep_their_meaning_over_the_eras() {
        let to = |raw: &str, method, era| String::from_utf8(error(raw, method, era)).unwrap();
        let missing = r#"{"code":-32002,"message":"gone","data":{"uri":"a:b"}}"#;
        assert!(to(missing, Method::ResourcesRead, Era::Modern).starts_with(r#"{"code":-32602,"message":"gone""#));
        assert_eq!(to(missing, Method::ResourcesRead, Era::Legacy), missing);
        let modern = r#"{"code":-32602,"message":"gone","data":{"uri":"a:b"}}"#;
        assert!(to(modern, Method::ResourcesRead, Era::Legacy).starts_with(r#"{"code":-32002"#));
        assert_eq!(to(modern, Method::ToolsCall, Era::Legacy), modern);
        for code in [-32020, -32021, -32022, -32042, -32099] {
            let raw = format!(r#"{{"code":{code},"message":"m"}}"#);
            for era in [Era::Legacy, Era::Modern] {
                if (era, code) == (Era::Legacy, -32042) {
                    assert_eq!(to(&raw, Method::ToolsCall, era), raw);
                    continue;
                }
                let relayed = to(&raw, Method::ToolsCall, era);
                assert_eq!(
                    relayed,
                    format!(r#"{{"code":-32603,"message":"m","data":{{"upstream":{raw}}}}}"#)
                );
            }
        }
        let own = r#"{ "code": -32001, "message":"x", "odd": 1 }"#;
        assert_eq!(to(own, Method::ToolsCall, Era::Modern), own);
        let bare = to(r#"{"code":-1,"data":2}"#, Method::ToolsCall, Era::Legacy);
        assert_eq!(
            bare, r#"{"code":-1,"message":"","data":2}"#,
            "every error has a message"
        );
        let page = to(
            r#"{"code":-32042,"data":{"elicitations":[]}}"#,
            Method::ToolsCall,
            Era::Legacy,
        );
        assert_eq!(page, r#"{"code":-32042,"message":"","data":{"elicitations":[]}}"#);
    }

    #[test]
    fn what_an_error_carries_stays_as_it_was_written() {
        let data = r#"{"uri":"a:b","n":[1.0,12345678901234567890123,1e999]}"#;
        let error = |code: i64| format!(r#"{{"code":{code},"message":"m","data":{data}}}"#);
        let to = |code, era| String::from_utf8(super::error(&error(code), Method::ResourcesRead, era)).unwrap();
        assert_eq!(to(-32002, Era::Modern), error(-32602));
        assert_eq!(to(-32602, Era::Legacy), error(-32002));
        let wrapped = format!(
            r#"{{"code":-32603,"message":"m","data":{{"upstream":{}}}}}"#,
            error(-32050)
        );
        assert_eq!(to(-32050, Era::Modern), wrapped);
        for odd in [
            r#"[1,"m"]"#,
            r#""m""#,
            "{}",
            r#"{"code":"1"}"#,
            r#"{"code":1.5,"message":"m"}"#,
        ] {
            let told = String::from_utf8(super::error(odd, Method::ToolsCall, Era::Modern)).unwrap();
            assert!(told.contains("malformed error"), "{odd}: {told}");
        }
    }

    #[test]
    fn results_that_were_not_asked_for_are_refused() {
        for to in [Revision::LATEST_LEGACY, Revision::LATEST] {
            let shaped = |result| shaped(Method::ToolsCall, result, Era::Modern, to);
            assert!(shaped(r#"{"resultType":"later"}"#).contains("resultType"));
            assert!(shaped(r#"{"resultType":"task"}"#).contains("made a task"));
        }
        assert!(shaped(Method::ToolsCall, "[]", Era::Modern, Revision::LATEST).contains("not a JSON object"));
    }
}
