//! Where a server wants messages posted to, read from what it says of that. Pure.

use http::Uri;

/// The address that `reference` means on a stream from `base` (RFC 3986, section 5), if it is of the same origin: our
/// headers, which may hold keys, go nowhere else.
pub(super) fn resolve(base: &Uri, reference: &str) -> Option<Uri> {
    let reference = reference.split('#').next().unwrap_or_default();
    let (scheme, authority) = (base.scheme_str()?, base.authority()?);
    let absolute = match reference {
        "" => return None,
        _ if reference.contains("://") => reference.to_owned(),
        _ if reference.starts_with("//") => format!("{scheme}:{reference}"),
        _ if reference.starts_with('/') => format!("{scheme}://{authority}{}", without_dots(reference)),
        _ if reference.starts_with('?') => format!("{scheme}://{authority}{}{reference}", base.path()),
        _ => {
            let folder = base.path().rsplit_once('/').map_or("", |(folder, _)| folder);
            format!(
                "{scheme}://{authority}{}",
                without_dots(&format!("{folder}/{reference}"))
            )
        }
    };
    let address: Uri = absolute.parse().ok()?;
    let same_origin = address.scheme_str() == Some(scheme)
        && address.host().map(str::to_ascii_lowercase) == base.host().map(str::to_ascii_lowercase)
        && port(&address) == port(base)
        && !address.authority()?.as_str().contains('@');
    same_origin.then_some(address)
}

fn port(address: &Uri) -> Option<u16> {
    let default = match address.scheme_str() {
        Some("https") => Some(443),
        Some("http") => Some(80),
        _ => None,
    };
    address.port_u16().or(default)
}

/// A path, with its query, whose steps to where it is and to what holds that are taken.
fn without_dots(path: &str) -> String {
    let (path, query) = match path.split_once('?') {
        Some((path, query)) => (path, format!("?{query}")),
        None => (path, String::new()),
    };
    let mut steps: Vec<&str> = Vec::new();
    let mut ends_in_folder = false;
    for step in path.split('/').skip(1) {
        ends_in_folder = matches!(step, "." | "..");
        match step {
            "." => {}
            ".." => drop(steps.pop()),
            _ => steps.push(step),
        }
    }
    if ends_in_folder {
        steps.push("");
    }
    format!("/{}{query}", steps.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_meant_as_seen_from_the_stream() {
        let base: Uri = "https://example.com/a/sse?key=1".parse().unwrap();
        for (reference, expected) in [
            ("/messages?s=1", "https://example.com/messages?s=1"),
            ("messages/?s=1", "https://example.com/a/messages/?s=1"),
            ("../messages", "https://example.com/messages"),
            ("./x/../messages?a=../b", "https://example.com/a/messages?a=../b"),
            ("?s=2", "https://example.com/a/sse?s=2"),
            ("https://EXAMPLE.com:443/m#part", "https://EXAMPLE.com:443/m"),
            ("//example.com/m", "https://example.com/m"),
            ("..", "https://example.com/"),
        ] {
            let resolved = resolve(&base, reference).map(|uri| uri.to_string());
            assert_eq!(resolved.as_deref(), Some(expected), "{reference}");
        }
    }

    #[test]
    fn an_address_of_another_origin_is_not_taken() {
        let base: Uri = "https://example.com/sse".parse().unwrap();
        for reference in [
            "http://example.com/m",
            "https://example.com:8443/m",
            "https://evil.example/m",
            "//evil.example/m",
            "https://key@example.com/m",
            "ftp://example.com/m",
            "",
            "/a b",
        ] {
            assert_eq!(resolve(&base, reference), None, "{reference}");
        }
    }
}
