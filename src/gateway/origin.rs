//! Which web pages and host names may reach the endpoint: the guard against DNS rebinding (2025-11-25, transports).

use http::header::{HOST, ORIGIN};
use http::{HeaderMap, HeaderValue, Uri};

use crate::api::federation::OriginPolicy;
use crate::fleet::OriginPlan;

/// Why a request is not let in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Denied {
    /// A page of this origin may not call us.
    Origin,
    /// A loopback listener was called by a name that is not a loopback one.
    Host,
}

/// Lets in what has no `Origin` or one of `plan`; `loopback` tells that the listener is one, and that only loopback host
/// names lead to it by right.
pub fn check(uri: &Uri, headers: &HeaderMap, loopback: bool, plan: &OriginPlan) -> Result<(), Denied> {
    if !admits(plan, headers.get_all(ORIGIN)) {
        return Err(Denied::Origin);
    }
    let hosts = headers.get_all(HOST).iter().map(|host| host.to_str().ok());
    let mut names = hosts.chain(uri.authority().map(|authority| Some(authority.as_str())));
    if loopback && !names.all(|name| name.is_some_and(is_loopback_authority)) {
        return Err(Denied::Host);
    }
    Ok(())
}

/// Whether `plan` lets in what was sent from these `origins`, or from none.
pub fn admits<'o>(plan: &OriginPlan, origins: impl IntoIterator<Item = &'o HeaderValue>) -> bool {
    // Every one that is sent: of two, others may take the second.
    origins.into_iter().all(|origin| is_one_of(plan, origin))
}

fn is_one_of(plan: &OriginPlan, origin: &HeaderValue) -> bool {
    let by_policy = match plan.policy {
        OriginPolicy::Any => return true,
        OriginPolicy::AllowList => false,
        OriginPolicy::Default => true,
    };
    origin.to_str().is_ok_and(|origin| {
        plan.allowed.iter().any(|allowed| allowed == origin) || by_policy && is_loopback_origin(origin)
    })
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

    fn checked(name: http::HeaderName, value: &'static str, loopback: bool) -> Result<(), Denied> {
        let mut headers = HeaderMap::new();
        headers.insert(name, HeaderValue::from_static(value));
        check(&Uri::from_static("/mcp"), &headers, loopback, &OriginPlan::default())
    }

    #[test]
    fn loopback_origins_are_let_in_and_their_look_alikes_are_not() {
        assert_eq!(
            check(
                &Uri::from_static("/mcp"),
                &HeaderMap::new(),
                true,
                &OriginPlan::default()
            ),
            Ok(())
        );
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
    fn origins_are_let_in_as_the_federation_says() {
        let (named, other_port, local) = ("https://ui.example", "https://ui.example:8443", "http://localhost");
        let (local_port, opaque, foreign) = ("http://localhost:5173", "null", "https://evil.example");
        let all = [named, other_port, local, local_port, opaque, foreign];
        for (policy, allowed, let_in) in [
            (OriginPolicy::Default, &[][..], &[local, local_port][..]),
            (OriginPolicy::Default, &[named], &[named, local, local_port]),
            (OriginPolicy::AllowList, &[], &[]),
            (OriginPolicy::AllowList, &[named, local], &[named, local]),
            (OriginPolicy::Any, &[], &all),
        ] {
            let allowed = allowed.iter().map(|origin| (*origin).to_owned()).collect();
            let plan = OriginPlan { policy, allowed };
            let check = |headers: &HeaderMap| check(&Uri::from_static("/mcp"), headers, false, &plan);
            assert_eq!(check(&HeaderMap::new()), Ok(()));
            for origin in all {
                let mut headers = HeaderMap::new();
                headers.insert(ORIGIN, HeaderValue::from_static(origin));
                assert_eq!(
                    check(&headers).is_ok(),
                    let_in.contains(&origin),
                    "{origin} by {plan:?}"
                );
                headers.append(ORIGIN, HeaderValue::from_static(foreign));
                assert_eq!(
                    check(&headers).is_ok(),
                    policy == OriginPolicy::Any,
                    "{origin} and another"
                );
            }
        }
    }

    #[test]
    fn a_loopback_listener_is_reached_by_loopback_names_only() {
        assert_eq!(checked(HOST, "127.0.0.1:8080", true), Ok(()));
        assert_eq!(checked(HOST, "evil.example:8080", true), Err(Denied::Host));
        assert_eq!(checked(HOST, "mcp.example.com", false), Ok(()));
        let absolute = Uri::from_static("http://evil.example/mcp");
        assert_eq!(
            check(&absolute, &HeaderMap::new(), true, &OriginPlan::default()),
            Err(Denied::Host)
        );
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
            assert_eq!(
                check(&Uri::from_static("/mcp"), &headers, true, &OriginPlan::default()),
                Err(denied)
            );
        }
    }
}
