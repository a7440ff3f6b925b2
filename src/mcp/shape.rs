//! Results between revisions and eras: what only one side knows is added or taken away, everything else stays as
//! written.

use std::borrow::Cow;

use serde_json::value::RawValue;

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
    #[error("the result is not a JSON object that names each member once")]
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

/// The error object for a client of era `to` for `raw`, the error of an upstream answering `method` with `params`.
///
/// Codes that speak of one hop or belong to the other era are turned into their meaning here, with the original under
/// `data`; every other error is passed as written.
pub fn error(raw: &str, method: Method, params: &Members<'_>, to: Era) -> Vec<u8> {
    let Some(error) = UpstreamError::read(raw) else {
        return RpcError::new(RpcError::INTERNAL, "The server answered with a malformed error").to_json();
    };
    let reads = method == Method::ResourcesRead;
    match (to, error.code) {
        (Era::Modern, RpcError::RESOURCE_NOT_FOUND) if reads => error.not_found(RpcError::INVALID_PARAMS, params),
        (Era::Legacy, RpcError::INVALID_PARAMS) if reads && error.names_a_resource() => {
            error.not_found(RpcError::RESOURCE_NOT_FOUND, params)
        }
        // A Legacy client visits the pages by itself.
        (Era::Legacy, RpcError::URL_ELICITATION_REQUIRED) if error.members.string("message").is_some() => {
            raw.as_bytes().to_vec()
        }
        (Era::Legacy, RpcError::URL_ELICITATION_REQUIRED) => {
            written(error.code, &error.message, error.data.map(RawValue::get))
        }
        (Era::Modern, RpcError::RESOURCE_NOT_FOUND) | (_, RESERVED_FIRST..=RESERVED_LAST) => written(
            RpcError::INTERNAL,
            &error.message,
            Some(&format!("{{\"upstream\":{raw}}}")),
        ),
        // Both eras demand a message.
        (_, code) if error.members.string("message").is_none() => {
            written(code, &error.message, error.data.map(RawValue::get))
        }
        _ => raw.as_bytes().to_vec(),
    }
}

/// The codes that the protocol keeps for itself, -32042 of 2025-11-25 included (2026-07-28, errors).
const RESERVED_FIRST: i64 = -32099;
const RESERVED_LAST: i64 = -32020;

/// An error of an upstream, whose data is nobody's business here.
struct UpstreamError<'a> {
    members: Members<'a>,
    code: i64,
    /// Empty where it has none.
    message: Cow<'a, str>,
    data: Option<&'a RawValue>,
}

impl<'a> UpstreamError<'a> {
    fn read(raw: &'a str) -> Option<Self> {
        let members = Members::parse(raw)?;
        let message = match members.get("message") {
            Some(raw) if raw.get() != "null" => object::string(raw)?,
            Some(_) | None => Cow::Borrowed(""),
        };
        Some(Self {
            code: members.get("code")?.get().parse().ok()?,
            message,
            data: members.get("data"),
            members,
        })
    }

    fn names_a_resource(&self) -> bool {
        let data = self.data.and_then(|data| Members::parse(data.get()));
        data.is_some_and(|data| data.get("uri").is_some())
    }

    /// The same by the other era's `code`, whose data names the resource that `params` asked for.
    fn not_found(&self, code: i64, params: &Members<'_>) -> Vec<u8> {
        let uri = params.get("uri").filter(|_| !self.names_a_resource());
        let Some(uri) = uri else {
            return written(code, &self.message, self.data.map(RawValue::get));
        };
        let mut data = Vec::new();
        let mut object = ObjectWriter::open(&mut data);
        object.member("uri", uri.get());
        match self.data.map(|data| (data, Members::parse(data.get()))) {
            Some((_, Some(members))) => members
                .iter()
                .for_each(|(name, value)| object.member(name, value.get())),
            Some((data, None)) => object.member("upstream", data.get()),
            None => {}
        }
        object.close();
        written(code, &self.message, Some(&String::from_utf8_lossy(&data)))
    }
}

/// An error object; `data` is JSON.
fn written(code: i64, message: &str, data: Option<&str>) -> Vec<u8> {
    let mut out = Vec::new();
    let mut object = ObjectWriter::open(&mut out);
    object.member("code", &code.to_string());
    object.string("message", message);
    if let Some(data) = data {
        object.member("data", data);
    }
    object.close();
    out
}

fn write_for_legacy(out: &mut Vec<u8>, raw: &str) -> Result<(), ResultError> {
    let members = Members::parse(raw).ok_or(ResultError::NotAnObject)?;
    check_type(&members)?;
    let mut object = ObjectWriter::open(out);
    for (name, value) in members.iter() {
        match name {
            "resultType" | "ttlMs" | "cacheScope" => {}
            "_meta" => meta::write_for_client(&mut object, Some(value), None),
            _ => object.member(name, value.get()),
        }
    }
    object.close();
    Ok(())
}

fn write_for_modern(out: &mut Vec<u8>, raw: &str, method: Method, server_info: &str) -> Result<(), ResultError> {
    // How long, and by whom, a result may be kept is said of resources and skills only (2026-07-28, caching), and of
    // directories, since hosts refuse those where it is missing.
    let is_cacheable = matches!(
        method,
        Method::ResourcesRead | Method::SkillsGet | Method::DirectoryRead
    );
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
    meta::write_for_client(&mut object, members.get("_meta"), Some(server_info));
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

/// The `resultType` of a result that is the whole answer.
pub const COMPLETE: &str = "complete";

#[cfg(test)]
mod tests {
    use super::*;

    fn shaped(method: Method, result: &str, from: Era, to: Revision) -> String {
        let id: &RawValue = serde_json::from_str("7").unwrap();
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
        assert_eq!(
            shaped(
                Method::DirectoryRead,
                r#"{"resources":[]}"#,
                Era::Legacy,
                Revision::LATEST
            ),
            format!(r#"{{"resultType":"complete","resources":[],"ttlMs":0,"cacheScope":"private",{info}}}"#)
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

    fn told(raw: &str, method: Method, to: Era) -> String {
        let params = Members::parse(r#"{"uri":"a:\u0062"}"#).unwrap();
        String::from_utf8(error(raw, method, &params, to)).unwrap()
    }

    #[test]
    fn a_missing_resource_is_named_whether_or_not_the_server_did() {
        let modern = |data: &str| {
            let raw = format!(r#"{{"code":-32002,"message":"gone"{data}}}"#);
            let told = told(&raw, Method::ResourcesRead, Era::Modern);
            let data = told.strip_prefix(r#"{"code":-32602,"message":"gone","data":"#).unwrap();
            data.strip_suffix('}').unwrap().to_owned()
        };
        assert_eq!(modern(""), r#"{"uri":"a:\u0062"}"#);
        assert_eq!(modern(r#","data":{"uri":"x:y"}"#), r#"{"uri":"x:y"}"#);
        assert_eq!(modern(r#","data":{"n":1e400}"#), r#"{"uri":"a:\u0062","n":1e400}"#);
        assert_eq!(modern(r#","data":[1.0]"#), r#"{"uri":"a:\u0062","upstream":[1.0]}"#);
    }

    #[test]
    fn the_data_of_errors_stays_as_it_was_written() {
        let data = r#"{"uri":"a:b","far":1e400,"long":123456789012345678901234567890,"exact":1.10,"esc":"\u0041"}"#;
        let of = |code: i64, message: &str| format!(r#"{{"code":{code},{message}"data":{data}}}"#);
        let message = r#""message":"m","#;
        for (raw, method, to, expected) in [
            (
                of(-32002, message),
                Method::ResourcesRead,
                Era::Modern,
                of(-32602, message),
            ),
            (
                of(-32602, message),
                Method::ResourcesRead,
                Era::Legacy,
                of(-32002, message),
            ),
            (
                of(4711, ""),
                Method::ToolsCall,
                Era::Modern,
                of(4711, r#""message":"","#),
            ),
            (of(4711, message), Method::ToolsCall, Era::Modern, of(4711, message)),
            (
                of(-32050, message),
                Method::ToolsCall,
                Era::Modern,
                format!(
                    r#"{{"code":-32603,"message":"m","data":{{"upstream":{}}}}}"#,
                    of(-32050, message)
                ),
            ),
        ] {
            assert_eq!(told(&raw, method, to), expected);
        }
    }

    #[test]
    fn what_is_no_error_is_said_to_be_none() {
        for raw in [
            "1",
            "{}",
            r#"{"code":"1"}"#,
            r#"{"code":1,"message":2}"#,
            r#"{"code":1,"code":2}"#,
        ] {
            assert!(told(raw, Method::ToolsCall, Era::Modern).contains("malformed"), "{raw}");
        }
    }

    #[test]
    fn errors_keep_their_meaning_over_the_eras() {
        let to = |raw: &str, method, era| told(raw, method, era);
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
        let to = |code, era| told(&error(code), Method::ResourcesRead, era);
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
            let answer = told(odd, Method::ToolsCall, Era::Modern);
            assert!(answer.contains("malformed error"), "{odd}: {answer}");
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
