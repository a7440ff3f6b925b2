//! HTTP headers of the protocol, and the coding of their values (2026-07-28, transports).

use std::borrow::Cow;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::HeaderName;

/// The revision of a request.
pub static PROTOCOL_VERSION: HeaderName = HeaderName::from_static("mcp-protocol-version");
/// The method of a request.
pub static METHOD: HeaderName = HeaderName::from_static("mcp-method");
/// The tool, prompt or resource that a request addresses.
pub static NAME: HeaderName = HeaderName::from_static("mcp-name");
/// A Legacy session.
pub static SESSION_ID: HeaderName = HeaderName::from_static("mcp-session-id");
/// The wish to be listed everything, past what is only found by search; ours, no part of the protocol.
pub static SHOW_ALL: HeaderName = HeaderName::from_static("x-mcp-show-all");
/// How often a read of a resource that nobody lists was forwarded to all who may have it.
pub static FANOUT_HOP: HeaderName = HeaderName::from_static("x-mcp-resource-fanout-hop");
/// The last event that a client got of a stream, to take it up from there (WHATWG HTML, server-sent events).
pub static LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");

const OPEN: &str = "=?base64?";
const CLOSE: &str = "?=";

/// A value as it is sent: plain where that is safe, else base64 between markers.
pub fn encode(value: &str) -> Cow<'_, str> {
    let printable = value.bytes().all(|b| (0x20..=0x7e).contains(&b) || b == b'\t');
    let trimmed = value.trim_matches([' ', '\t']) == value;
    if printable && trimmed && !(value.starts_with(OPEN) && value.ends_with(CLOSE)) {
        return Cow::Borrowed(value);
    }
    Cow::Owned(format!("{OPEN}{}{CLOSE}", STANDARD.encode(value)))
}

/// The value that was meant, or `None` if the header is malformed.
pub fn decode(header: &[u8]) -> Option<Cow<'_, str>> {
    let text = std::str::from_utf8(header).ok()?;
    if !text.bytes().all(|b| (0x20..=0x7e).contains(&b) || b == b'\t') {
        return None;
    }
    match text.strip_prefix(OPEN).and_then(|rest| rest.strip_suffix(CLOSE)) {
        Some(coded) => String::from_utf8(STANDARD.decode(coded).ok()?).ok().map(Cow::Owned),
        None => Some(Cow::Borrowed(text)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_coded_only_where_plain_text_would_not_survive() {
        for (value, header) in [
            ("eu-west-3", "eu-west-3"),
            ("a b", "a b"),
            ("", ""),
            ("Grüße", "=?base64?R3LDvMOfZQ==?="),
            (" lead", "=?base64?IGxlYWQ=?="),
            (" x ", "=?base64?IHgg?="),
            ("a\nb", "=?base64?YQpi?="),
            ("=?base64?hi?=", "=?base64?PT9iYXNlNjQ/aGk/PQ==?="),
            ("=?base64?eA==?=", "=?base64?PT9iYXNlNjQ/ZUE9PT89?="),
        ] {
            assert_eq!(encode(value), header);
            assert_eq!(decode(header.as_bytes()).unwrap(), value);
        }
    }

    #[test]
    fn malformed_values_are_refused() {
        for header in [
            "=?base64?%%%?=",
            "=?base64?YQ?=",
            "=?base64?/w==?=",
            "Gr\u{fc}",
            "a\u{1}",
        ] {
            assert_eq!(decode(header.as_bytes()), None, "{header:?}");
        }
        assert_eq!(decode("=?base64??=".as_bytes()).unwrap(), "");
    }
}
