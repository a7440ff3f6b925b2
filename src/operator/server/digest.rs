//! A keyed digest of what a pod takes from Secrets and ConfigMaps: it changes when a value changes, and tells nothing
//! to somebody who can read the pod but not the values.

use std::collections::BTreeMap;
use std::fmt;
use std::fmt::Write as _;

use aws_lc_rs::{hkdf, hmac};

use crate::api::source::ContainerSource;
use crate::fleet::{Reference, References, Unresolved};

/// The key of the digest, derived from the install's root key.
#[derive(Clone)]
pub struct DigestKey(hmac::Key);

impl DigestKey {
    /// The digest's own key under `root`.
    ///
    /// # Errors
    /// The derivation failed; it cannot for a key of this length.
    pub fn derive(root: &[u8]) -> Result<Self, aws_lc_rs::error::Unspecified> {
        let extracted = hkdf::Salt::new(hkdf::HKDF_SHA256, &[]).extract(root);
        let mut key = [0; 32];
        extracted
            .expand(&[b"mcpfleet pod references v1"], hkdf::HKDF_SHA256)?
            .fill(&mut key)?;
        Ok(Self(hmac::Key::new(hmac::HMAC_SHA256, &key)))
    }
}

impl fmt::Debug for DigestKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("DigestKey")
    }
}

/// The digest of everything that `container` takes from Secrets and ConfigMaps, as hex; `None` where it takes nothing.
///
/// # Errors
/// Something that must be there is missing or unreadable; says which.
pub fn digest(
    container: &ContainerSource,
    namespace: &str,
    references: &References,
    key: &DigestKey,
) -> Result<Option<String>, Unresolved> {
    let mut context = hmac::Context::with_key(&key.0);
    let mut any = false;
    for variable in &container.env {
        let Some(source) = &variable.value_from else {
            continue;
        };
        any = true;
        feed(&mut context, variable.name.as_bytes());
        feed_optional(&mut context, references.value(namespace, source)?);
    }
    for source in &container.env_from {
        let Some((reference, optional)) = Reference::of_all(namespace, source) else {
            continue;
        };
        any = true;
        feed(&mut context, source.prefix.as_deref().unwrap_or_default().as_bytes());
        feed_all(&mut context, references.values(&reference, optional)?);
    }
    Ok(any.then(|| hex(context.sign().as_ref())))
}

/// Adds `part` so that no other sequence of parts gives the same bytes.
fn feed(context: &mut hmac::Context, part: &[u8]) {
    context.update(&(part.len() as u64).to_be_bytes());
    context.update(part);
}

fn feed_optional(context: &mut hmac::Context, value: Option<&[u8]>) {
    context.update(&[u8::from(value.is_some())]);
    if let Some(value) = value {
        feed(context, value);
    }
}

fn feed_all(context: &mut hmac::Context, values: Option<&BTreeMap<String, Vec<u8>>>) {
    let Some(values) = values else {
        context.update(&[0]);
        return;
    };
    context.update(&[1]);
    context.update(&(values.len() as u64).to_be_bytes());
    for (key, value) in values {
        feed(context, key.as_bytes());
        feed(context, value);
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes
        .iter()
        .fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
            // Writing to a String cannot fail.
            let _written = write!(text, "{byte:02x}");
            text
        })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::fleet::{Content, ReferenceKind};

    fn container(env: &serde_json::Value, env_from: &serde_json::Value) -> ContainerSource {
        serde_json::from_value(json!({
            "image": "x", "env": env, "envFrom": env_from, "transport": {"type": "StreamableHTTP"},
        }))
        .unwrap()
    }

    fn token() -> ContainerSource {
        container(
            &json!([{"name": "TOKEN", "valueFrom": {"secretKeyRef": {"name": "s", "key": "token"}}}]),
            &json!([{"configMapRef": {"name": "c", "optional": true}}]),
        )
    }

    fn references(values: &[(&str, &[u8])]) -> References {
        let values = values.iter().map(|(k, v)| ((*k).to_owned(), v.to_vec())).collect();
        [
            (Reference::new(ReferenceKind::Secret, "ns", "s"), Content::Found(values)),
            (Reference::new(ReferenceKind::ConfigMap, "ns", "c"), Content::Missing),
        ]
        .into_iter()
        .collect()
    }

    fn of(container: &ContainerSource, references: &References) -> Result<Option<String>, Unresolved> {
        digest(container, "ns", references, &DigestKey::derive(&[7; 32]).unwrap())
    }

    #[test]
    fn nothing_referenced_has_no_digest() {
        let plain = container(&json!([{"name": "A", "value": "b"}]), &json!([]));
        assert_eq!(of(&plain, &References::default()), Ok(None));
    }

    #[test]
    fn only_values_in_use_change_it() {
        let base = of(&token(), &references(&[("token", b"one")])).unwrap();
        assert_eq!(base.as_ref().map(String::len), Some(64));
        assert_eq!(
            base,
            of(&token(), &references(&[("token", b"one"), ("other", b"x")])).unwrap()
        );
        assert_ne!(base, of(&token(), &references(&[("token", b"two")])).unwrap());
    }

    #[test]
    fn it_depends_on_the_key() {
        let values = references(&[("token", b"one")]);
        let other = DigestKey::derive(&[8; 32]).unwrap();
        assert_ne!(of(&token(), &values), digest(&token(), "ns", &values, &other));
    }

    #[test]
    fn a_missing_key_is_an_error_that_names_it() {
        let unresolved = of(&token(), &references(&[])).unwrap_err();
        assert_eq!(unresolved.reason, "RefNotFound");
        assert!(unresolved.message.contains("\"token\""), "{}", unresolved.message);
    }
}
