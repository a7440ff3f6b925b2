//! Any bytes as the value of a header, and any text in one.

use http::HeaderValue;
use mcpfleet::mcp::headers::{decode, encode};

pub fn check(data: &[u8]) {
    if let Some(meant) = decode(data) {
        assert!(data.is_ascii());
        survives(&meant);
    }
    if let Ok(text) = std::str::from_utf8(data) {
        survives(text);
    }
}

/// Whatever `text` is, a header carries it over any HTTP implementation, which may strip the white space around it.
fn survives(text: &str) {
    let encoded = encode(text);
    let header = HeaderValue::from_str(&encoded).expect("a header's value");
    assert!(header.to_str().is_ok(), "visible ASCII");
    assert_eq!(decode(header.as_bytes().trim_ascii()).as_deref(), Some(text));
}
