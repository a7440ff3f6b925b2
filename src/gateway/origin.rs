//! Which web pages and host names may reach the endpoint: the guard against DNS rebinding (2025-11-25, transports).

use http::header::{HOST, ORIGIN};
use http::{HeaderMap, Uri};

/// Why a request is not let in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Denied {
    /// A page of this origin may not call us.
    Origin,
    /// A loopback listener was called by a name that is not a loopback one.
    Host,
}

/// Lets in what has no `Origin` or a loopback one; `loopback` tells that the listener itself is one, and that only
/// loopback host names lead to it by right.
pub fn check(uri: &Uri, headers: &HeaderMap, loopback: bool) -> Result<(), Denied> {
    // Every one that is sent: of two, others may take the second.
    let origins = headers.get_all(ORIGIN).iter();
    if !origins
        .into_iter()
        .all(|origin| origin.to_str().is_ok_and(is_loopback_origin))
    {
        return Err(Denied::Origin);
    }
    let hosts = headers.get_all(HOST).iter().map(|host| host.to_str().ok());
    let mut names = hosts.chain(uri.authority().map(|authority| Some(authority.as_str())));
    if loopback && !names.all(|name| name.is_some_and(is_loopback_authority)) {
        return Err(Denied::Host);
    }
    Ok(())
}

fn is_loopback_origin(origin: &str) -> bool {
    let authority = origin
        .strip_prefix("http://")
        .or_else(|| origin.strip_prefix("https://"));
    authority.is_some_and(is_loopback_authority)
}

/// `localhost`, `127.0.0.1` or `[::1]`, with or without a port.
fn is_loopback_authority(authority: &str) -> bool {
    ["localhost", "127.0.0.1", "[::1]"].iter().any(|name| {
        let head = authority.get(..name.len());
        let port = authority.get(name.len()..).unwrap_or_default();
        let is_port = port
            .strip_prefix(':')
            .is_some_and(|digits| digits.parse::<u16>().is_ok());
        head.is_some_and(|head| head.eq_ignore_ascii_case(name)) && (port.is_empty() || is_port)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;

    fn checked(name: http::HeaderName, value: &'static str, loopback: bool) -> Result<(), Denied> {
        let mut headers = HeaderMap::new();
        headers.insert(name, HeaderValue::from_static(value));
        check(&Uri::from_static("/mcp"), &headers, loopback)
    }

    #[test]
    fn loopback_origins_are_let_in_and_their_look_alikes_are_not() {
        assert_eq!(check(&Uri::from_static("/mcp"), &HeaderMap::new(), true), Ok(()));
        for origin in [
            "http://localhost:5173",
            "https://127.0.0.1",
            "http://[::1]:1",
            "http://LOCALHOST",
        ] {
            assert_eq!(checked(ORIGIN, origin, false), Ok(()), "{origin}");
        }
        for origin in [
            "https://evil.example",
            "http://localhost.evil.example",
            "null",
            "http://localhost:x",
            "file://localhost",
            "http://127.0.0.1.nip.io",
        ] {
            assert_eq!(checked(ORIGIN, origin, false), Err(Denied::Origin), "{origin}");
        }
    }

    #[test]
    fn a_loopback_listener_is_reached_by_loopback_names_only() {
        assert_eq!(checked(HOST, "127.0.0.1:8080", true), Ok(()));
        assert_eq!(checked(HOST, "evil.example:8080", true), Err(Denied::Host));
        assert_eq!(checked(HOST, "mcp.example.com", false), Ok(()));
        let absolute = Uri::from_static("http://evil.example/mcp");
        assert_eq!(check(&absolute, &HeaderMap::new(), true), Err(Denied::Host));
    }

    #[test]
    fn every_one_of_several_headers_counts() {
        for (name, good, bad, denied) in [
            (ORIGIN, "http://localhost", "https://evil.example", Denied::Origin),
            (HOST, "localhost", "evil.example", Denied::Host),
        ] {
            let mut headers = HeaderMap::new();
            headers.append(name.clone(), HeaderValue::from_static(good));
            headers.append(name, HeaderValue::from_static(bad));
            assert_eq!(check(&Uri::from_static("/mcp"), &headers, true), Err(denied));
        }
    }
}
