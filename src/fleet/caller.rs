//! Who asks, as far as servers are asked in their name.

use std::fmt;
use std::sync::Arc;

use aws_lc_rs::digest::{Context, SHA256, SHA256_OUTPUT_LEN};
use http::{HeaderMap, HeaderName};

/// Who asks: what access calls them, and what of their request goes on to servers.
#[derive(Clone)]
pub struct Caller {
    principal: Option<Arc<str>>,
    headers: HeaderMap,
    id: CallerId,
}

/// Tells callers apart: equal only for the same principal with the same values of the same headers.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct CallerId([u8; SHA256_OUTPUT_LEN]);

impl Caller {
    /// The caller whom access calls `principal` (nobody knows the name of one who is `None`), and whose request has
    /// these headers, of which those called one of `names` go on.
    pub fn new(principal: Option<&str>, headers: &HeaderMap, names: &[HeaderName]) -> Self {
        let headers = picked(headers, names);
        Self {
            id: CallerId::of(principal, &headers, names),
            principal: principal.map(Into::into),
            headers,
        }
    }

    /// What access calls it.
    pub(super) fn principal(&self) -> Option<&Arc<str>> {
        self.principal.as_ref()
    }

    /// Who it is to all servers together.
    pub(super) fn id(&self) -> CallerId {
        self.id
    }

    /// Who it is to a server to which only headers of these `names` go on.
    pub(super) fn id_with(&self, names: &[HeaderName]) -> CallerId {
        CallerId::of(self.principal.as_deref(), &self.headers, names)
    }

    /// What of its headers goes on to such a server; the values are marked sensitive.
    pub(super) fn headers_of(&self, names: &[HeaderName]) -> HeaderMap {
        picked(&self.headers, names)
    }
}

impl CallerId {
    fn of(principal: Option<&str>, headers: &HeaderMap, names: &[HeaderName]) -> Self {
        let mut context = Context::new(&SHA256);
        // Lengths go first, so that no two callers have the same bytes.
        let mut part = |bytes: &[u8]| {
            context.update(&bytes.len().to_le_bytes());
            context.update(bytes);
        };
        part(&[u8::from(principal.is_some())]);
        part(principal.unwrap_or_default().as_bytes());
        for name in names {
            part(name.as_str().as_bytes());
            part(&headers.get_all(name).iter().count().to_le_bytes());
            for value in headers.get_all(name) {
                part(value.as_bytes());
            }
        }
        let mut id = [0; SHA256_OUTPUT_LEN];
        id.copy_from_slice(context.finish().as_ref());
        Self(id)
    }
}

impl fmt::Debug for Caller {
    /// Values are secrets and left out.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Caller")
            .field("principal", &self.principal)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for CallerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CallerId")
    }
}

fn picked(headers: &HeaderMap, names: &[HeaderName]) -> HeaderMap {
    let mut picked = HeaderMap::new();
    for name in names {
        for value in headers.get_all(name) {
            let mut value = value.clone();
            value.set_sensitive(true);
            picked.append(name, value);
        }
    }
    picked
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        let mut map = HeaderMap::new();
        for (name, value) in pairs {
            map.append(*name, HeaderValue::from_static(value));
        }
        map
    }

    fn names(names: &[&'static str]) -> Vec<HeaderName> {
        names.iter().map(|name| HeaderName::from_static(name)).collect()
    }

    #[test]
    fn callers_differ_by_principal_and_by_every_value_that_goes_on() {
        let own = names(&["authorization", "x-user"]);
        let id = |principal, pairs: &[_]| Caller::new(principal, &headers(pairs), &own).id();
        let ids = [
            id(None, &[]),
            id(Some(""), &[]),
            id(Some("alice"), &[]),
            id(Some("bob"), &[]),
            id(Some("alice"), &[("authorization", "one")]),
            id(Some("alice"), &[("authorization", "two")]),
            id(Some("alice"), &[("authorization", "")]),
            id(Some("alice"), &[("x-user", "one")]),
            id(Some("alice"), &[("authorization", "o"), ("x-user", "ne")]),
            id(Some("alice"), &[("authorization", "one"), ("authorization", "one")]),
            id(Some("aliceauthorization"), &[("x-user", "one")]),
        ];
        for (place, one) in ids.iter().enumerate() {
            assert!(!ids[..place].contains(one), "{place}");
        }
        let same = id(Some("alice"), &[("x-other", "whatever"), ("authorization", "one")]);
        assert_eq!(same, ids[4]);
    }

    #[test]
    fn only_what_a_server_is_sent_tells_callers_apart_to_it() {
        let own = names(&["authorization", "x-user"]);
        let [one, two] = ["one", "two"]
            .map(|token| Caller::new(Some("a"), &headers(&[("authorization", token), ("x-user", "u")]), &own));
        assert_ne!(one.id(), two.id());
        let user = names(&["x-user"]);
        assert_eq!(one.id_with(&user), two.id_with(&user));
        assert_eq!(one.headers_of(&user), headers(&[("x-user", "u")]));
        assert_eq!(one.headers_of(&own).len(), 2);
    }

    #[test]
    fn nothing_else_goes_on_and_values_do_not_show() {
        let sent = headers(&[
            ("authorization", "Bearer hidden"),
            ("x-api-key", "hidden"),
            ("cookie", "hidden"),
        ]);
        let own = names(&["authorization"]);
        let caller = Caller::new(Some("alice"), &sent, &own);
        let gone_on = caller.headers_of(&own);
        assert_eq!(gone_on.len(), 1);
        assert!(gone_on["authorization"].is_sensitive());
        let shown = format!("{caller:?} {:?} {gone_on:?}", caller.id());
        assert!(shown.contains("alice") && !shown.contains("hidden"), "{shown}");
    }
}
