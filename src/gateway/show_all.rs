//! The wish of a client to be listed everything, past what is only found by search.

use http::HeaderMap;

use crate::mcp::headers;

/// Whether a request with these headers and this query wishes it. A header that says anything goes before the query.
pub(super) fn wished(map: &HeaderMap, query: Option<&str>) -> bool {
    let header = map.get(&headers::SHOW_ALL).map(|value| value.as_bytes().trim_ascii());
    match header.filter(|header| !header.is_empty()) {
        Some(header) => header.eq_ignore_ascii_case(TRUE),
        None => query
            .and_then(|query| query.split('&').find_map(|part| part.strip_prefix(PARAMETER)))
            .is_some_and(|value| value.as_bytes().eq_ignore_ascii_case(TRUE)),
    }
}

const TRUE: &[u8] = b"true";
const PARAMETER: &str = "show_all=";

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    #[test]
    fn a_header_goes_before_the_query() {
        for (header, query, expected) in [
            (None, None, false),
            (Some("true"), None, true),
            (Some(" TRUE "), None, true),
            (Some("1"), None, false),
            (Some("yes"), Some("show_all=true"), false),
            (Some("false"), Some("show_all=true"), false),
            (Some("true"), Some("show_all=false"), true),
            (Some(""), Some("show_all=true"), true),
            (None, Some("show_all=True"), true),
            (None, Some("a=b&show_all=true&c"), true),
            (None, Some("show_all=false&show_all=true"), false),
            (None, Some("show_all"), false),
            (None, Some("not_show_all=true"), false),
        ] {
            let mut map = HeaderMap::new();
            if let Some(header) = header {
                map.insert(headers::SHOW_ALL.clone(), HeaderValue::from_static(header));
            }
            assert_eq!(wished(&map, query), expected, "{header:?} {query:?}");
        }
    }
}
