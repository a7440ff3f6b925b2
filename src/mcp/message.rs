//! JSON-RPC envelopes over raw JSON: ids are kept verbatim, params and results are not looked into.

use std::fmt;

use serde::{Deserialize, Deserializer};
use serde_json::json;
use serde_json::value::RawValue;

use super::object::Text;
use super::rpc_error::RpcError;

/// One JSON-RPC message, borrowed from its text. A member that occurs twice is an error.
#[derive(Debug, Deserialize)]
pub struct Envelope<'a> {
    #[serde(borrow, default)]
    jsonrpc: Option<Text<'a>>,
    /// The id as it was written, `null` included.
    #[serde(borrow, default, deserialize_with = "present")]
    pub id: Option<&'a RawValue>,
    /// The method of a request or notification.
    #[serde(borrow, default)]
    pub method: Option<Text<'a>>,
    /// The parameters of a request or notification.
    #[serde(borrow, default, deserialize_with = "present")]
    pub params: Option<&'a RawValue>,
    /// The result of a response.
    #[serde(borrow, default, deserialize_with = "present")]
    pub result: Option<&'a RawValue>,
    /// The error of a response.
    #[serde(borrow, default, deserialize_with = "present")]
    pub error: Option<&'a RawValue>,
}

/// A request's id exactly as it was written: a string or a number (`1` and `"1"` differ).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Id<'a>(&'a str);

/// What a message is.
#[derive(Clone, Copy, Debug)]
pub enum Kind<'a> {
    /// It wants an answer.
    Request {
        /// To be echoed.
        id: Id<'a>,
        /// What is asked for.
        method: &'a str,
    },
    /// It wants none.
    Notification {
        /// What is told.
        method: &'a str,
    },
    /// It is an answer; the id is absent or `null` where the question could not be read.
    Response {
        /// The id of the question.
        id: Option<Id<'a>>,
    },
}

/// Why a text is not a message.
#[derive(Debug, thiserror::Error)]
pub enum MessageError {
    /// It is not JSON, or nested too deeply.
    #[error("not valid JSON: {0}")]
    Parse(String),
    /// It is an array; only 2025-03-26 knows batches.
    #[error("JSON-RPC batches are not taken; send one message per request")]
    Batch,
    /// It is JSON, but no JSON-RPC 2.0 message.
    #[error("not a JSON-RPC 2.0 message: {0}")]
    Invalid(&'static str),
}

impl<'a> Envelope<'a> {
    /// Reads one message, nested at most `depth` levels deep.
    pub fn parse(text: &'a [u8], depth: usize) -> Result<Self, MessageError> {
        if !depth_within(text, depth) {
            return Err(MessageError::Parse(format!("nested more than {depth} levels deep")));
        }
        let first = text.iter().find(|b| !b.is_ascii_whitespace());
        match serde_json::from_slice(text) {
            Ok(_) if first == Some(&b'[') => Err(MessageError::Batch),
            Ok(envelope) => Ok(envelope),
            Err(e) if e.is_data() => Err(if first == Some(&b'[') {
                MessageError::Batch
            } else {
                MessageError::Invalid("unexpected shape")
            }),
            Err(e) => Err(MessageError::Parse(e.to_string())),
        }
    }

    /// What the message is, once it is known to be well formed.
    pub fn kind(&self) -> Result<Kind<'_>, MessageError> {
        if self.jsonrpc.as_ref().map(Text::as_str) != Some("2.0") {
            return Err(MessageError::Invalid("member jsonrpc must be \"2.0\""));
        }
        let answers = usize::from(self.result.is_some()) + usize::from(self.error.is_some());
        match (self.method.as_ref().map(Text::as_str), self.id, answers) {
            (Some(method), None, 0) => Ok(Kind::Notification { method }),
            (Some(method), Some(id), 0) => {
                let id = Id::from_raw(id).ok_or(MessageError::Invalid("id must be a string or a number"))?;
                if self.params.is_some_and(|p| !p.get().starts_with('{')) {
                    return Err(MessageError::Invalid("params must be an object"));
                }
                Ok(Kind::Request { id, method })
            }
            (None, id, 1) => Ok(Kind::Response {
                id: id.and_then(Id::from_raw),
            }),
            (None, _, 0) => Err(MessageError::Invalid("member method is missing")),
            (None, ..) => Err(MessageError::Invalid("a response has either result or error")),
            (Some(_), ..) => Err(MessageError::Invalid(
                "a message with method has neither result nor error",
            )),
        }
    }
}

impl<'a> Id<'a> {
    /// The id, if `raw` is a string or a number.
    pub fn from_raw(raw: &'a RawValue) -> Option<Self> {
        let text = raw.get();
        text.starts_with(|c: char| c == '"' || c == '-' || c.is_ascii_digit())
            .then_some(Self(text))
    }

    /// Its JSON text.
    pub fn as_json(self) -> &'a str {
        self.0
    }

    /// Whether it is the number `number`, as we write it.
    pub fn is_number(self, number: u64) -> bool {
        self.0.parse() == Ok(number)
    }
}

impl fmt::Display for Id<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

impl MessageError {
    /// The error to answer with.
    pub fn to_rpc_error(&self) -> RpcError {
        match self {
            Self::Parse(details) => {
                RpcError::new(RpcError::PARSE, self.to_string()).with_data(json!({"details": details}))
            }
            Self::Batch | Self::Invalid(_) => RpcError::new(RpcError::INVALID_REQUEST, self.to_string()),
        }
    }
}

/// A request with an id of ours: `params` is a JSON object.
pub fn request(id: u64, method: &str, params: &[u8]) -> Vec<u8> {
    request_with(&id.to_string(), method, params)
}

/// A request under an id that is JSON, as somebody else wrote it.
pub fn request_with(id: &str, method: &str, params: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(params.len() + method.len() + id.len() + 48);
    out.extend_from_slice(b"{\"jsonrpc\":\"2.0\",\"id\":");
    out.extend_from_slice(id.as_bytes());
    out.extend_from_slice(b",\"method\":\"");
    out.extend_from_slice(method.as_bytes());
    out.extend_from_slice(b"\",\"params\":");
    out.extend_from_slice(params);
    out.push(b'}');
    out
}

/// A response with a result: `result` is JSON.
pub fn response(id: &str, result: &[u8]) -> Vec<u8> {
    response_with(id, result.len(), |out| out.extend_from_slice(result))
}

/// A response with the result that `write` adds to it: JSON of about `size` bytes.
pub fn response_with(id: &str, size: usize, write: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut out = Vec::with_capacity(size + id.len() + 40);
    out.extend_from_slice(b"{\"jsonrpc\":\"2.0\",\"id\":");
    out.extend_from_slice(id.as_bytes());
    out.extend_from_slice(b",\"result\":");
    write(&mut out);
    out.push(b'}');
    out
}

/// A response with an error: `error` is JSON. Without an id the member is left out, or `null` where a revision
/// up to 2025-06-18 demands one.
pub fn error_response(id: Option<&str>, error: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(error.len() + 64);
    out.extend_from_slice(b"{\"jsonrpc\":\"2.0\",");
    if let Some(id) = id {
        out.extend_from_slice(b"\"id\":");
        out.extend_from_slice(id.as_bytes());
        out.push(b',');
    }
    out.extend_from_slice(b"\"error\":");
    out.extend_from_slice(error);
    out.push(b'}');
    out
}

/// Keeps `null` apart from absence, which serde's `Option` does not.
fn present<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<&'de RawValue>, D::Error> {
    <&RawValue>::deserialize(deserializer).map(Some)
}

/// Whether brackets nest at most `depth` deep. Raw values are skipped without recursion, so nobody else counts.
pub(crate) fn depth_within(text: &[u8], depth: usize) -> bool {
    // Most texts open fewer brackets than may be nested, which is seen many bytes at a time: `[` and `{` differ in a bit.
    let opened = text.iter().filter(|&&byte| byte | 0x20 == b'{').count();
    if opened <= depth {
        return true;
    }
    let (mut level, mut in_string, mut escaped) = (0usize, false, false);
    for &byte in text {
        if in_string {
            match byte {
                _ if escaped => escaped = false,
                b'\\' => escaped = true,
                b'"' => in_string = false,
                _ => {}
            }
            continue;
        }
        match byte {
            b'"' => in_string = true,
            b'{' | b'[' => {
                level += 1;
                if level > depth {
                    return false;
                }
            }
            b'}' | b']' => level = level.saturating_sub(1),
            _ => {}
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind(text: &str) -> String {
        match Envelope::parse(text.as_bytes(), 8) {
            Err(e) => format!("{e}"),
            Ok(envelope) => match envelope.kind() {
                Err(e) => format!("{e}"),
                Ok(Kind::Request { id, method }) => format!("request {id} {method}"),
                Ok(Kind::Notification { method }) => format!("notification {method}"),
                Ok(Kind::Response { id }) => format!("response {:?}", id.map(Id::as_json)),
            },
        }
    }

    #[test]
    fn ids_are_kept_as_they_were_written() {
        for id in [
            "1",
            "\"1\"",
            "-7",
            "123456789012345678901234567890",
            "1.50",
            "\"\\u0061\"",
        ] {
            let text = format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"ping"}}"#);
            assert_eq!(kind(&text), format!("request {id} ping"));
        }
    }

    #[test]
    fn messages_are_told_apart() {
        assert_eq!(kind(r#"{"jsonrpc":"2.0","method":"a"}"#), "notification a");
        assert_eq!(
            kind(r#"{"jsonrpc":"2.0","id":1,"result":null}"#),
            "response Some(\"1\")"
        );
        assert_eq!(kind(r#"{"jsonrpc":"2.0","id":null,"error":{}}"#), "response None");
    }

    #[test]
    fn what_is_no_message_is_named() {
        assert!(kind("{").starts_with("not valid JSON"));
        assert!(kind(r#"{"jsonrpc":"2.0","id":1,"id":2,"method":"a"}"#).contains("unexpected shape"));
        assert!(kind(r#"[{"jsonrpc":"2.0","id":1,"method":"a"}]"#).contains("batches"));
        assert!(kind(r#"{"jsonrpc":"2.0","id":null,"method":"a"}"#).contains("id must be"));
        assert!(kind(r#"{"jsonrpc":"2.0","id":{},"method":"a"}"#).contains("id must be"));
        assert!(kind(r#"{"id":1,"method":"a"}"#).contains("jsonrpc"));
        assert!(kind(r#"{"jsonrpc":"2.0","id":1,"method":"a","params":[]}"#).contains("params"));
        assert!(kind(r#"{"jsonrpc":"2.0","id":1,"result":1,"error":{}}"#).contains("either"));
        assert!(kind(r#"{"jsonrpc":"2.0"}"#).contains("method is missing"));
    }

    #[test]
    fn depth_is_bounded_before_parsing_and_brackets_in_strings_do_not_count() {
        let nested = |n: usize| {
            format!(
                r#"{{"jsonrpc":"2.0","method":"a","params":{}1{}}}"#,
                "{\"a\":".repeat(n),
                "}".repeat(n)
            )
        };
        assert_eq!(kind(&nested(7)), "notification a");
        assert!(kind(&nested(8)).contains("nested"));
        assert_eq!(
            kind(r#"{"jsonrpc":"2.0","method":"[[[[[[[[[[\"[["}"#),
            "notification [[[[[[[[[[\"[["
        );
    }
}
