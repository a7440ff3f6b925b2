//! The answer to one request, before it is put into HTTP or a stream.

use http::StatusCode;

use super::outgoing::Outgoing;
use super::request::Request;
use crate::mcp::{Era, Method, RpcError, message, shape};
use crate::metrics::Outcome;

/// The answer to a request.
#[derive(Debug)]
pub struct Answer {
    /// The HTTP status.
    pub status: StatusCode,
    /// The whole response, as JSON.
    pub body: Outgoing,
    /// How it is counted.
    pub outcome: Outcome,
}

impl Answer {
    /// A result of ours, a JSON object.
    pub(super) fn ok(request: Request<'_>, result: &[u8]) -> Self {
        Self::new(message::response(request.id.as_json(), result), Outcome::Ok)
    }

    /// A Legacy result of ours, in the shape of the client's revision.
    pub(super) fn result(request: Request<'_>, result: &str, server_info: &str) -> Self {
        let (id, to) = (request.id, request.revision);
        match shape::response(id, request.method, result, Era::Legacy, to, server_info) {
            Ok(body) => Self::new(body, Outcome::Ok),
            Err(error) => Self::failed(request, &error.to_string()),
        }
    }

    /// The client asked for what it cannot have.
    pub(super) fn refused(request: Request<'_>, error: &RpcError) -> Self {
        Self::new(
            message::error_response(Some(request.id.as_json()), &error.to_json()),
            Outcome::Refused,
        )
    }

    /// Its method is not served here, which each era is told in its own way.
    pub(super) fn not_served(request: Request<'_>) -> Self {
        let status = match request.revision.era() {
            Era::Legacy => StatusCode::OK,
            Era::Modern => StatusCode::NOT_FOUND,
        };
        Self {
            status,
            ..Self::refused(request, &RpcError::method_not_found(request.method.as_str()))
        }
    }

    /// It cannot be carried out, through no fault of the client.
    pub(super) fn failed(request: Request<'_>, text: &str) -> Self {
        let text = format!("{} failed: {text}", request.method.as_str());
        let error = RpcError::new(RpcError::INTERNAL, text);
        Self::new(
            message::error_response(Some(request.id.as_json()), &error.to_json()),
            Outcome::Failed,
        )
    }

    /// It came to no end because the client did not do its part: of a tool, the model is told (2025-11-25, tools).
    pub(super) fn given_up(request: Request<'_>, text: &str, server_info: &str) -> Self {
        if request.method != Method::ToolsCall {
            return Self::failed(request, text);
        }
        let result = serde_json::json!({"content": [{"type": "text", "text": text}], "isError": true}).to_string();
        Self {
            outcome: Outcome::Failed,
            ..Self::result(request, &result, server_info)
        }
    }

    /// A whole response message.
    pub(super) fn new(body: impl Into<Outgoing>, outcome: Outcome) -> Self {
        Self {
            status: StatusCode::OK,
            body: body.into(),
            outcome,
        }
    }
}
