//! Who may connect to a federation, made ready for asking.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use aws_lc_rs::constant_time::verify_slices_are_equal;
use aws_lc_rs::digest::{SHA256, SHA256_OUTPUT_LEN, digest};

use super::reference::{Reference, ReferenceKind, References};
use super::unresolved::Unresolved;
use crate::api::MCPFederationSpec;

/// Who may connect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Access {
    /// Everyone who gets here.
    Anonymous,
    /// Who presents one of these keys.
    ApiKeys(ApiKeys),
    /// Nobody, until somebody puts this right.
    Closed(Unresolved),
}

/// API keys and who has them, as digests: the keys themselves are not kept.
#[derive(Clone, PartialEq, Eq)]
pub struct ApiKeys {
    keys: Vec<(Arc<str>, KeyDigest)>,
    unusable: Option<Unresolved>,
}

/// What is kept of an API key.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct KeyDigest([u8; SHA256_OUTPUT_LEN]);

impl Access {
    /// What `spec`, of a federation in `namespace`, says; keys are taken from `references`.
    pub fn resolve(spec: &MCPFederationSpec, namespace: &str, references: &References) -> Self {
        let Some(access) = &spec.access else {
            return Self::closed();
        };
        match (&access.anonymous, &access.api_keys) {
            (Some(_), None) => Self::Anonymous,
            (None, Some(api_keys)) => {
                let secret = Reference::new(ReferenceKind::Secret, namespace, &api_keys.secret_ref.name);
                match references.values(&secret, false) {
                    Ok(values) => Self::ApiKeys(ApiKeys::read(values.unwrap_or(&BTreeMap::new()), &secret)),
                    Err(unresolved) => Self::Closed(unresolved),
                }
            }
            (None, None) | (Some(_), Some(_)) => Self::closed(),
        }
    }

    /// What somebody should put right, if there is anything.
    pub fn problem(&self) -> Option<&Unresolved> {
        match self {
            Self::Anonymous => None,
            Self::ApiKeys(keys) => keys.unusable.as_ref(),
            Self::Closed(unresolved) => Some(unresolved),
        }
    }

    /// The API server and `up` refuse such an object; should one be there nevertheless, it is open to nobody.
    fn closed() -> Self {
        Self::Closed(Unresolved {
            reason: "AccessMissing",
            message: "spec.access must say either anonymous or apiKeys".into(),
        })
    }
}

/// The Secret that `spec`, of a federation in `namespace`, takes its API keys from.
pub fn access_reference(spec: &MCPFederationSpec, namespace: &str) -> Option<Reference> {
    let api_keys = spec.access.as_ref()?.api_keys.as_ref()?;
    Some(Reference::new(
        ReferenceKind::Secret,
        namespace,
        &api_keys.secret_ref.name,
    ))
}

impl ApiKeys {
    /// The keys in the entries of `secret`. Line breaks at the end of one do not belong to it: files end with them.
    ///
    /// An entry that cannot be a key lets nobody in, and the others go on.
    pub fn read(values: &BTreeMap<String, Vec<u8>>, secret: &Reference) -> Self {
        let mut keys: Vec<(Arc<str>, KeyDigest)> = Vec::with_capacity(values.len());
        let mut wrong = Vec::new();
        for (name, value) in values {
            let key = without_line_breaks(value);
            let hash = KeyDigest::of(key);
            if let Some(why) = defect(key) {
                wrong.push(format!("key {name:?} {why}"));
            } else if let Some((other, _)) = keys.iter().find(|(_, known)| *known == hash) {
                wrong.push(format!("key {name:?} is the same as {other:?}; give each its own"));
            } else {
                keys.push((name.as_str().into(), hash));
            }
        }
        let problem = match (wrong.as_slice(), keys.is_empty()) {
            ([], false) => None,
            ([], true) => Some("has no keys, so nobody can connect; add one entry for each client".to_owned()),
            ([first], _) => Some(format!("lets nobody in by one of its entries: {first}")),
            ([first, others @ ..], _) => Some(format!(
                "lets nobody in by {} of its entries: {first}; and others",
                others.len() + 1
            )),
        };
        let unusable = problem.map(|problem| Unresolved {
            reason: "InvalidKey",
            message: format!("{secret} {problem}"),
        });
        Self { keys, unusable }
    }

    /// Who has `key`. Takes as long for any wrong key, whatever it has in common with a right one.
    pub fn principal(&self, key: &[u8]) -> Option<Arc<str>> {
        self.principal_of(&KeyDigest::of(key))
    }

    /// Who has one.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.keys.iter().map(|(name, _)| &**name)
    }

    /// Who has the key of this digest.
    pub fn principal_of(&self, presented: &KeyDigest) -> Option<Arc<str>> {
        let mut principal = None;
        for (name, known) in &self.keys {
            if verify_slices_are_equal(&known.0, &presented.0).is_ok() {
                principal = Some(name);
            }
        }
        principal.cloned()
    }
}

impl fmt::Debug for ApiKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.keys.iter().map(|(name, _)| name)).finish()
    }
}

impl KeyDigest {
    /// The digest of `key`.
    pub fn of(key: &[u8]) -> Self {
        let mut out = [0; SHA256_OUTPUT_LEN];
        out.copy_from_slice(digest(&SHA256, key).as_ref());
        Self(out)
    }
}

impl fmt::Debug for KeyDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("KeyDigest")
    }
}

fn without_line_breaks(value: &[u8]) -> &[u8] {
    let end = value.iter().rposition(|byte| !matches!(byte, b'\r' | b'\n'));
    value.get(..end.map_or(0, |end| end + 1)).unwrap_or_default()
}

/// Why no request can carry `key`, if so.
fn defect(key: &[u8]) -> Option<&'static str> {
    if key.is_empty() {
        return Some("is empty; give it a value");
    }
    let carried = key.iter().all(u8::is_ascii_graphic);
    (!carried).then_some("has characters that a header cannot carry; use letters, digits and signs without spaces")
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::fleet::Content;

    fn read(values: &[(&str, &[u8])]) -> ApiKeys {
        let values = values
            .iter()
            .map(|(name, value)| ((*name).to_owned(), value.to_vec()))
            .collect();
        ApiKeys::read(&values, &Reference::new(ReferenceKind::Secret, "team", "keys"))
    }

    fn problem(keys: &ApiKeys) -> &str {
        let unusable = keys.unusable.as_ref().unwrap();
        assert_eq!(unusable.reason, "InvalidKey");
        &unusable.message
    }

    fn resolved(access: Value, references: &References) -> Access {
        let spec = serde_json::from_value(json!({ "access": access })).unwrap();
        Access::resolve(&spec, "team", references)
    }

    #[test]
    fn a_key_tells_who_has_it() {
        let keys = read(&[("alice", b"one"), ("bob", b"two\n"), ("carol", b"three\r\n")]);
        assert_eq!(keys.principal(b"one").as_deref(), Some("alice"));
        assert_eq!(keys.principal(b"two").as_deref(), Some("bob"));
        assert_eq!(keys.principal(b"three").as_deref(), Some("carol"));
        assert_eq!(keys.unusable, None);
        for wrong in [&b""[..], b"on", b"onee", b"two\n", b"ONE", b"alice"] {
            assert_eq!(keys.principal(wrong), None, "{wrong:?}");
        }
    }

    #[test]
    fn an_entry_that_cannot_be_a_key_lets_nobody_in_and_the_others_go_on() {
        for (value, told) in [
            (&b""[..], "is empty"),
            (b"\n", "is empty"),
            (b"a b", "cannot carry"),
            (b"a\nb", "cannot carry"),
            ("é".as_bytes(), "cannot carry"),
            (b"good", "the same as \"alice\""),
        ] {
            let keys = read(&[("alice", b"good"), ("bob", value)]);
            let message = problem(&keys);
            assert!(
                message.starts_with("Secret \"keys\"") && message.contains("\"bob\"") && message.contains(told),
                "{message}"
            );
            assert_eq!(keys.principal(b"good").as_deref(), Some("alice"));
            assert_eq!(keys.principal(value).filter(|name| &**name == "bob"), None);
        }
    }

    #[test]
    fn a_secret_without_entries_lets_nobody_in_and_says_so() {
        let keys = read(&[]);
        assert!(problem(&keys).contains("nobody can connect"));
        assert_eq!(keys.principal(b""), None);
    }

    #[test]
    fn keys_do_not_show_in_debug_output_and_values_not_in_messages() {
        let keys = read(&[("alice", b"hidden"), ("bob", b"hidden"), ("carol", b"hid den")]);
        let shown = format!("{keys:?} {}", problem(&keys));
        assert!(shown.contains("alice") && !shown.contains("hid"), "{shown}");
    }

    #[test]
    fn keys_are_taken_from_the_secret_and_nobody_gets_in_without_it() {
        let secret = Reference::new(ReferenceKind::Secret, "team", "keys");
        let by_key = || json!({"apiKeys": {"secretRef": {"name": "keys"}}});
        let of = |content| resolved(by_key(), &[(secret.clone(), content)].into_iter().collect());
        let values = BTreeMap::from([("alice".to_owned(), b"one".to_vec())]);
        let Access::ApiKeys(keys) = of(Content::Found(values)) else {
            panic!("the Secret is there")
        };
        assert_eq!(keys.principal(b"one").as_deref(), Some("alice"));
        let reason = |access: &Access| match access {
            Access::Closed(unresolved) => unresolved.reason,
            open => panic!("{open:?}"),
        };
        assert_eq!(reason(&of(Content::Missing)), "RefNotFound");
        assert_eq!(reason(&of(Content::Unreadable("forbidden".into()))), "RefUnreadable");
        assert_eq!(reason(&resolved(by_key(), &References::default())), "RefPending");
    }

    #[test]
    fn what_is_not_said_is_closed() {
        let none = References::default();
        assert_eq!(resolved(json!({"anonymous": {}}), &none), Access::Anonymous);
        let both = json!({"anonymous": {}, "apiKeys": {"secretRef": {"name": "keys"}}});
        for access in [Value::Null, json!({}), both] {
            let access = resolved(access, &none);
            assert_eq!(access.problem().unwrap().reason, "AccessMissing");
        }
    }
}
