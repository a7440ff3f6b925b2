//! Who sends a request, and whether they may.

use std::sync::Arc;

use http::HeaderMap;
use http::header::AUTHORIZATION;

use crate::fleet::{Access, KeyDigest};

/// The header for clients that cannot choose `Authorization`, or send something else in it.
const API_KEY: &str = "x-api-key";

/// Who sends a request, as far as access tells.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Principal {
    /// Nobody asked.
    Anonymous,
    /// Who has this API key.
    Named(Arc<str>),
}

/// Why a request is not let in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AccessError {
    /// It presents no key.
    #[error("an API key is required: send it as \"X-API-Key: KEY\" or as \"Authorization: Bearer KEY\"")]
    Missing,
    /// It presents a key that nobody has.
    #[error("the API key is not a known one; ask whoever runs this endpoint for one")]
    Unknown,
    /// Nobody is let in now.
    #[error("this endpoint lets nobody in until its keys are set up; whoever runs it sees why in its status")]
    Closed,
}

/// Lets a request with these headers in, and tells who sends it.
///
/// # Errors
/// Access demands a key that is not presented, or is closed.
pub fn admit(access: &Access, headers: &HeaderMap) -> Result<Principal, AccessError> {
    match access {
        Access::Anonymous => Ok(Principal::Anonymous),
        Access::Closed(_) => Err(AccessError::Closed),
        Access::ApiKeys(keys) => {
            let key = presented(headers).ok_or(AccessError::Missing)?;
            keys.principal(key).map(Principal::Named).ok_or(AccessError::Unknown)
        }
    }
}

/// What is kept of the key in the headers, if there is one.
pub fn presented_digest(headers: &HeaderMap) -> Option<KeyDigest> {
    presented(headers).map(KeyDigest::of)
}

/// Whether `principal`, who was let in with the key of this digest, would still be.
pub fn still_admits(access: &Access, principal: &Principal, key: Option<&KeyDigest>) -> bool {
    match access {
        Access::Anonymous => *principal == Principal::Anonymous,
        Access::Closed(_) => false,
        Access::ApiKeys(keys) => {
            let owner = key.and_then(|key| keys.principal_of(key)).map(Principal::Named);
            owner.as_ref() == Some(principal)
        }
    }
}

impl Principal {
    /// Its name, if it has one.
    pub fn name(&self) -> Option<&str> {
        match self {
            Self::Anonymous => None,
            Self::Named(name) => Some(name),
        }
    }
}

impl AccessError {
    /// One word for metrics and logs.
    pub fn reason(self) -> &'static str {
        match self {
            Self::Missing => "KeyMissing",
            Self::Unknown => "KeyUnknown",
            Self::Closed => "Closed",
        }
    }
}

/// The key in the headers: that of `X-API-Key`, which is ours alone, else that of `Authorization` (RFC 6750 section 2.1),
/// which may hold what is meant for a server. A header that is sent twice presents none, since nobody can tell which is
/// meant.
fn presented(headers: &HeaderMap) -> Option<&[u8]> {
    let only = |name: &str| {
        let mut sent = headers.get_all(name).iter();
        let first = sent.next()?;
        sent.next().is_none().then(|| first.as_bytes().trim_ascii())
    };
    let key = match headers.contains_key(API_KEY) {
        true => only(API_KEY),
        false => only(AUTHORIZATION.as_str()).and_then(bearer),
    };
    key.filter(|key| !key.is_empty())
}

/// What follows the scheme, which is written in any case (RFC 9110 section 11.1).
fn bearer(authorization: &[u8]) -> Option<&[u8]> {
    let (scheme, key) = authorization.split_at_checked(b"Bearer ".len())?;
    scheme.eq_ignore_ascii_case(b"Bearer ").then(|| key.trim_ascii())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use http::{HeaderName, HeaderValue};

    use super::*;
    use crate::fleet::Unresolved;
    use crate::fleet::{ApiKeys, Reference, ReferenceKind};

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        let mut map = HeaderMap::new();
        for (name, value) in pairs {
            map.append(HeaderName::from_static(name), HeaderValue::from_static(value));
        }
        map
    }

    fn admitted(pairs: &[(&'static str, &'static str)]) -> Result<Option<String>, AccessError> {
        let values = [("alice", "one"), ("bob", "two")];
        let values: BTreeMap<_, _> = values
            .map(|(name, key)| (name.to_owned(), key.as_bytes().to_vec()))
            .into();
        let secret = Reference::new(ReferenceKind::Secret, "team", "keys");
        let access = Access::ApiKeys(ApiKeys::read(&values, &secret));
        admit(&access, &headers(pairs)).map(|principal| principal.name().map(str::to_owned))
    }

    #[test]
    fn a_key_is_taken_from_either_header() {
        for (name, value) in [
            ("authorization", "Bearer one"),
            ("authorization", "bearer  one "),
            ("x-api-key", "one"),
            ("x-api-key", " one "),
        ] {
            assert_eq!(admitted(&[(name, value)]), Ok(Some("alice".into())), "{name}: {value}");
        }
    }

    #[test]
    fn beside_a_header_of_its_own_a_key_is_looked_for_nowhere_else() {
        for authorization in ["Bearer two", "Bearer three", "Bearer one", "Basic two", "Bearer", ""] {
            let both = [("authorization", authorization), ("x-api-key", "one")];
            assert_eq!(admitted(&both), Ok(Some("alice".into())), "{authorization}");
            let twice = [both[0], both[0], both[1]];
            assert_eq!(admitted(&twice), Ok(Some("alice".into())), "{authorization}");
        }
        let right = ("authorization", "Bearer one");
        assert_eq!(admitted(&[right, ("x-api-key", "three")]), Err(AccessError::Unknown));
        assert_eq!(admitted(&[right, ("x-api-key", "")]), Err(AccessError::Missing));
        let twice = [right, ("x-api-key", "one"), ("x-api-key", "one")];
        assert_eq!(admitted(&twice), Err(AccessError::Missing));
    }

    #[test]
    fn nothing_else_is_a_key() {
        for pairs in [
            vec![],
            vec![("authorization", "one")],
            vec![("authorization", "Bearer")],
            vec![("authorization", "Bearer ")],
            vec![("authorization", "Basic one")],
            vec![("x-api-key", "")],
            vec![("cookie", "one")],
            vec![("authorization", "Bearer one"), ("authorization", "Bearer two")],
            vec![("x-api-key", "one"), ("x-api-key", "one")],
        ] {
            assert_eq!(admitted(&pairs), Err(AccessError::Missing), "{pairs:?}");
        }
    }

    #[test]
    fn a_wrong_key_is_refused() {
        for value in [
            "Bearer three",
            "Bearer ONE",
            "Bearer one two",
            "Bearer alice",
            "Bearer Bearer one",
        ] {
            assert_eq!(
                admitted(&[("authorization", value)]),
                Err(AccessError::Unknown),
                "{value}"
            );
        }
    }

    #[test]
    fn who_was_let_in_stays_as_long_as_the_key_is_the_same_persons() {
        let keys = |pairs: &[(&str, &str)]| {
            let values = pairs
                .iter()
                .map(|(name, key)| ((*name).to_owned(), key.as_bytes().to_vec()));
            let secret = Reference::new(ReferenceKind::Secret, "team", "keys");
            Access::ApiKeys(ApiKeys::read(&values.collect(), &secret))
        };
        let key = presented_digest(&headers(&[("x-api-key", "one")]));
        let alice = Principal::Named("alice".into());
        let stays = |access: &Access| still_admits(access, &alice, key.as_ref());
        assert!(stays(&keys(&[("alice", "one"), ("bob", "two")])));
        assert!(!stays(&keys(&[("alice", "two")])), "another key");
        assert!(!stays(&keys(&[("bob", "one")])), "another person");
        assert!(!stays(&Access::Anonymous));
        assert!(still_admits(&Access::Anonymous, &Principal::Anonymous, None));
        assert!(!still_admits(&keys(&[("alice", "one")]), &Principal::Anonymous, None));
    }

    #[test]
    fn whoever_comes_is_let_in_anonymously_or_not_at_all() {
        let key = headers(&[("authorization", "Bearer one")]);
        assert_eq!(admit(&Access::Anonymous, &key), Ok(Principal::Anonymous));
        let closed = Access::Closed(Unresolved {
            reason: "RefNotFound",
            message: String::new(),
        });
        assert_eq!(admit(&closed, &key), Err(AccessError::Closed));
    }
}
