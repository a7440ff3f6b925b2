//! What a client sends and takes, by its headers (RFC 9110 section 12.5.1).

use http::{HeaderMap, header};

/// Whether the body is said to be JSON.
pub(super) fn is_json(headers: &HeaderMap) -> bool {
    let value = headers
        .get(header::CONTENT_TYPE)
        .and_then(|v| v.to_str().ok())
        .unwrap_or_default();
    value
        .split(';')
        .next()
        .unwrap_or_default()
        .trim()
        .eq_ignore_ascii_case("application/json")
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
        .filter_map(|v| v.to_str().ok())
        .flat_map(|v| v.split(','))
        .any(|range| {
            let mut parts = range.split(';');
            let essence = parts.next().unwrap_or_default().trim();
            let weight = parts
                .find_map(|p| p.trim().strip_prefix("q="))
                .map_or(Ok(1.0), str::parse::<f32>);
            weight.is_ok_and(|q| q > 0.0) && wanted.iter().any(|known| essence.eq_ignore_ascii_case(known))
        })
}
