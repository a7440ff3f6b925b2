//! How often a read was forwarded to all who may have the resource, by gateways that are members of each other.

use http::HeaderMap;

use crate::mcp::headers;
use crate::upstream::Fanout;

/// How often the read that came with these headers was forwarded to all who may have the resource. What is no positive
/// integer counts for nothing.
pub(in crate::gateway) fn hops(map: Option<&HeaderMap>) -> u64 {
    let values = map.into_iter().flat_map(|map| map.get_all(&headers::FANOUT_HOP));
    let numbers = values.filter_map(|value| {
        let digits = value.to_str().ok()?.trim();
        let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
        // One that is too large for a number is large enough.
        is_number.then(|| digits.parse().unwrap_or(u64::MAX))
    });
    numbers.max().unwrap_or(0)
}

/// What is told to the owner of a resource.
pub(super) fn passed(map: Option<&HeaderMap>) -> Fanout {
    match hops(map) {
        0 => Fanout::No,
        hops => Fanout::Passed(hops),
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    #[test]
    fn hops_are_counted_by_positive_integers_alone() {
        let counted = |values: &[&str]| {
            let mut map = HeaderMap::new();
            for value in values {
                map.append(headers::FANOUT_HOP.clone(), HeaderValue::from_str(value).unwrap());
            }
            hops(Some(&map))
        };
        for (value, expected) in [
            ("1", 1),
            (" 2 ", 2),
            ("003", 3),
            ("99999999999999999999999", u64::MAX),
            ("0", 0),
            ("-1", 0),
            ("+1", 0),
            ("1.5", 0),
            ("one", 0),
            ("", 0),
        ] {
            assert_eq!(counted(&[value]), expected, "{value:?}");
        }
        assert_eq!(counted(&["x", "1", "3", "2"]), 3, "whoever lies gains nothing");
        assert_eq!(hops(None), 0);
        assert_eq!(passed(None), Fanout::No);
    }
}
