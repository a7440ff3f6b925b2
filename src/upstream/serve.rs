//! What servers may ask of us.

use bytes::Bytes;

use crate::mcp::{Id, RpcError, message};

/// The answer to a server's own request: `ping` is answered, everything else is refused, since no capability is
/// declared that would allow it.
pub(crate) fn answer(id: Id<'_>, method: &str) -> Bytes {
    Bytes::from(match method {
        "ping" => message::response(id.as_json(), b"{}"),
        _ => message::error_response(Some(id.as_json()), &RpcError::method_not_found(method).to_json()),
    })
}
