//! What the echo upstream and the load generator share.

use http_body_util::BodyExt;
use hyper::body::Incoming;

/// The revision of the Modern era.
pub const MODERN: &str = "2026-07-28";

/// The revisions of the Legacy era, newest first.
pub const LEGACY: [&str; 4] = ["2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"];

/// The key in `_meta` of a Modern request under which its revision stands.
pub const VERSION_KEY: &str = "io.modelcontextprotocol/protocolVersion";

/// The key in `_meta` of a Modern request under which the client's capabilities stand.
pub const CAPABILITIES_KEY: &str = "io.modelcontextprotocol/clientCapabilities";

/// No message of a benchmark is larger, in bytes.
const BODY_LIMIT: usize = 128 << 20;

/// Reads a whole body; the error says for a person what went wrong.
pub async fn read_body(mut body: Incoming) -> Result<Vec<u8>, String> {
    let mut whole = Vec::new();
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| format!("body: {error}"))?;
        if let Ok(data) = frame.into_data() {
            if whole.len() + data.len() > BODY_LIMIT {
                return Err(format!("a body of more than {BODY_LIMIT} bytes"));
            }
            whole.extend_from_slice(&data);
        }
    }
    Ok(whole)
}
