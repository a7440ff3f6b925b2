//! What the headers of an HTTP answer say of its body. No IO.

use http::header::{CONTENT_ENCODING, CONTENT_TYPE};
use http::{HeaderValue, Response};
use hyper::body::Incoming;

use super::error::Error;
use crate::mcp::printable;

/// What the body of an answer is.
pub(super) enum MediaType {
    Json,
    EventStream,
    Other,
}

/// What its headers say of the body of `response`.
pub(super) fn media_type(response: &Response<Incoming>) -> MediaType {
    let essence = essence(response).unwrap_or_default();
    if essence.eq_ignore_ascii_case(b"application/json") {
        MediaType::Json
    } else if essence.eq_ignore_ascii_case(b"text/event-stream") {
        MediaType::EventStream
    } else {
        MediaType::Other
    }
}

/// The type of the content, without its parameters.
fn essence(response: &Response<Incoming>) -> Option<&[u8]> {
    let value = response.headers().get(CONTENT_TYPE)?.as_bytes();
    value.split(|byte| *byte == b';').next().map(<[u8]>::trim_ascii)
}

/// What a successful answer is that cannot hold a message, if so. Of others the status says enough.
pub(super) fn unexpected(response: &Response<Incoming>) -> Option<Error> {
    if !response.status().is_success() {
        return None;
    }
    let codings = response.headers().get_all(CONTENT_ENCODING).iter();
    if let Some(coding) = codings.into_iter().find(|coding| **coding != IDENTITY) {
        let coding = printable(&String::from_utf8_lossy(coding.as_bytes()), 64);
        return Some(Error::Unexpected {
            came: format!("Content-Encoding {coding}, which was not asked for"),
            check: "have the server, or the proxy before it, send its answers as they are",
        });
    }
    if !matches!(media_type(response), MediaType::Other) {
        return None;
    }
    let essence = String::from_utf8_lossy(essence(response)?).to_ascii_lowercase();
    let came = match essence.as_str() {
        "text/html" | "application/xhtml+xml" => "an HTML page".to_owned(),
        other => format!("{}, not with a message", printable(other, 64)),
    };
    Some(Error::Unexpected {
        came,
        check: "check the address: the path of an MCP endpoint is often /mcp",
    })
}

/// Nothing is decoded here: what is not asked for does not have to be paid for.
pub(super) const IDENTITY: HeaderValue = HeaderValue::from_static("identity");
