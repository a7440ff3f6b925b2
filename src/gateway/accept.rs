//! What a client sends and takes, by its headers (RFC 9110 section 12.5.1).

use http::{HeaderMap, HeaderValue, header};

/// Whether the body is said to be JSON.
pub(super) fn is_json(headers: &HeaderMap) -> bool {
    let value = headers
        .get(header::CONTENT_TYPE)
        .map(HeaderValue::as_bytes)
        .unwrap_or_default();
    let mut parts = value.split(|byte| *byte == b';');
    parts
        .next()
        .is_some_and(|essence| essence.trim_ascii().eq_ignore_ascii_case(b"application/json"))
}

/// Whether the body is sent as it is: nothing is decoded here, since what is small in transit may be large here.
pub(super) fn is_plain(headers: &HeaderMap) -> bool {
    let mut codings = headers.get_all(header::CONTENT_ENCODING).iter();
    codings.all(|coding| coding.as_bytes().eq_ignore_ascii_case(b"identity"))
}

/// Whether event streams are asked for by name: who takes just anything may not be able to read one.
pub(super) fn names_events(headers: &HeaderMap) -> bool {
    headers.contains_key(header::ACCEPT) && accepts(headers, &["text/event-stream"])
}

/// Whether one of `wanted` is acceptable. Clients that name nothing take anything.
pub(super) fn accepts(headers: &HeaderMap, wanted: &[&str]) -> bool {
    let mut values = headers.get_all(header::ACCEPT).iter().peekable();
    if values.peek().is_none() {
        return true;
    }
    values
        .flat_map(|value| value.as_bytes().split(|byte| *byte == b','))
        .any(|range| {
            let mut parts = range.split(|byte| *byte == b';').map(<[u8]>::trim_ascii);
            let essence = parts.next().unwrap_or_default();
            wanted
                .iter()
                .any(|known| essence.eq_ignore_ascii_case(known.as_bytes()))
                && parts
                    .find_map(|part| part.strip_prefix(b"q="))
                    .is_none_or(is_above_zero)
        })
}

fn is_above_zero(weight: &[u8]) -> bool {
    let weight = std::str::from_utf8(weight)
        .ok()
        .and_then(|weight| weight.parse::<f32>().ok());
    weight.is_some_and(|weight| weight > 0.0)
}
