//! Requests as they are read, and answers as they are written.

use std::borrow::Cow;

use base64::Engine;
use hyper::header::HeaderMap;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::stream::Events;

/// The two eras of the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Era {
    Legacy,
    Modern,
}

/// A JSON-RPC message; one without id or method wants no answer.
#[derive(Debug, Deserialize)]
pub(crate) struct Message<'a> {
    #[serde(borrow)]
    pub(crate) id: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(crate) method: Option<Cow<'a, str>>,
    #[serde(default)]
    pub(crate) params: Value,
}

/// A JSON-RPC request with the headers it came with.
#[derive(Debug)]
pub(crate) struct Request<'a> {
    /// The id as it was written.
    pub(crate) id: &'a str,
    pub(crate) method: &'a str,
    pub(crate) params: &'a Value,
    pub(crate) headers: &'a HeaderMap,
}

/// What a request is answered with.
#[derive(Debug)]
pub(crate) enum Answer {
    /// A result, as a JSON object.
    Result(String),
    /// A result, and the session that it opens.
    Opened { result: String, session: String },
    /// A stream of events, with the response among them.
    Stream(Events),
}

/// A JSON-RPC error and the HTTP status it goes with.
#[derive(Debug)]
pub(crate) struct Refusal {
    pub(crate) status: u16,
    pub(crate) code: i64,
    pub(crate) message: String,
    pub(crate) data: Option<Value>,
}

impl Request<'_> {
    /// An argument of a tool call or a prompt, as text.
    pub(crate) fn argument(&self, name: &str) -> Option<&str> {
        self.params.get("arguments")?.get(name)?.as_str()
    }

    /// A header as text.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        header(self.headers, name)
    }

    /// A header whose value may be encoded as `=?base64?…?=`.
    pub(crate) fn encoded_header(&self, name: &str) -> Option<Cow<'_, str>> {
        let value = self.header(name)?;
        let Some(encoded) = value.strip_prefix("=?base64?").and_then(|rest| rest.strip_suffix("?=")) else {
            return Some(value.into());
        };
        let bytes = base64::engine::general_purpose::STANDARD.decode(encoded).ok()?;
        String::from_utf8(bytes).ok().map(Cow::Owned)
    }
}

impl Refusal {
    /// An error that arrives with HTTP status 200.
    pub(crate) fn new(code: i64, message: impl Into<String>) -> Self {
        Self {
            status: 200,
            code,
            message: message.into(),
            data: None,
        }
    }

    /// The same with another HTTP status.
    pub(crate) fn with_status(self, status: u16) -> Self {
        Self { status, ..self }
    }

    /// The same with `data`.
    pub(crate) fn with_data(self, data: Value) -> Self {
        Self {
            data: Some(data),
            ..self
        }
    }

    /// The response that says it; `id` is JSON.
    pub(crate) fn response(&self, id: &str) -> String {
        let error = match &self.data {
            Some(data) => json!({"code": self.code, "message": self.message, "data": data}),
            None => json!({"code": self.code, "message": self.message}),
        };
        format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{error}}}"#)
    }
}

/// A header as text.
pub(crate) fn header<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name)?.to_str().ok()
}

/// The response with a result; both are JSON.
pub(crate) fn response(id: &str, result: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{result}}}"#)
}

/// All headers as a JSON object.
pub(crate) fn headers_as_json(headers: &HeaderMap) -> Value {
    let text = |value: &[u8]| Value::from(String::from_utf8_lossy(value));
    Value::Object(
        headers
            .iter()
            .map(|(name, value)| (name.to_string(), text(value.as_bytes())))
            .collect(),
    )
}

/// That a header says something else than the body.
pub(crate) fn mismatch(why: impl std::fmt::Display) -> Refusal {
    Refusal::new(-32020, format!("Header mismatch: {why}")).with_status(400)
}
