//! JSON-RPC errors and their codes.

use serde::Serialize;
use serde_json::Value;

use super::version::Revision;

/// An error that is answered to a client.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RpcError {
    /// What kind of error.
    pub code: i64,
    /// For a person.
    pub message: String,
    /// For a program.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub data: Option<Value>,
}

impl RpcError {
    /// The body is not JSON.
    pub const PARSE: i64 = -32700;
    /// The JSON is no request.
    pub const INVALID_REQUEST: i64 = -32600;
    /// Nobody serves the method.
    pub const METHOD_NOT_FOUND: i64 = -32601;
    /// The parameters are wrong: an unknown tool, prompt, resource or cursor included.
    pub const INVALID_PARAMS: i64 = -32602;
    /// Something failed on our side or further on.
    pub const INTERNAL: i64 = -32603;
    /// Legacy: the resource does not exist. Never sent to a Modern client.
    pub const RESOURCE_NOT_FOUND: i64 = -32002;
    /// Legacy: a page must be visited first. Never sent to a Modern client.
    pub const URL_ELICITATION_REQUIRED: i64 = -32042;
    /// Modern: headers and body differ.
    pub const HEADER_MISMATCH: i64 = -32020;
    /// Modern: the client lacks a capability that the request needs.
    pub const MISSING_CLIENT_CAPABILITY: i64 = -32021;
    /// Modern: the revision is not spoken here.
    pub const UNSUPPORTED_VERSION: i64 = -32022;

    /// An error without data.
    pub fn new(code: i64, message: impl Into<String>) -> Self {
        Self {
            code,
            message: message.into(),
            data: None,
        }
    }

    /// The same with data.
    #[must_use]
    pub fn with_data(mut self, data: Value) -> Self {
        self.data = Some(data);
        self
    }

    /// [`Self::UNSUPPORTED_VERSION`], naming what is `spoken`.
    pub fn unsupported_version(requested: &str, spoken: &[Revision]) -> Self {
        let supported: Vec<_> = spoken.iter().map(|revision| revision.as_str()).collect();
        Self::new(
            Self::UNSUPPORTED_VERSION,
            format!("Unsupported protocol version {requested:?}"),
        )
        .with_data(serde_json::json!({"supported": supported, "requested": requested}))
    }

    /// [`Self::METHOD_NOT_FOUND`], naming the method.
    pub fn method_not_found(method: &str) -> Self {
        Self::new(Self::METHOD_NOT_FOUND, format!("Method {method:?} is not served here"))
            .with_data(serde_json::json!({"method": method}))
    }

    /// Its JSON text.
    pub fn to_json(&self) -> Vec<u8> {
        serde_json::to_vec(self).unwrap_or_else(|_| br#"{"code":-32603,"message":"Internal error"}"#.to_vec())
    }
}
