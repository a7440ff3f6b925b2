//! The keys that sessions, and states of requests, are signed with: of each federation its own, derived from a root key
//! (RFC 5869).

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use arc_swap::ArcSwap;
use aws_lc_rs::hkdf::{HKDF_SHA256, Prk, Salt};
use aws_lc_rs::{hmac, rand};

use crate::defaults;

/// One root key to sign with, and those whose signatures are accepted.
pub struct Keyring {
    signing: Prk,
    also_accepted: Vec<Prk>,
    /// Deriving costs as much as checking a token, so that it is done once.
    derived: ArcSwap<HashMap<String, Arc<FederationKeys>>>,
}

/// The keys of one federation.
#[derive(Debug)]
pub(in crate::gateway) struct FederationKeys {
    signing: Derived,
    also_accepted: Vec<Derived>,
}

/// What is derived from one root key for one federation.
#[derive(Debug)]
struct Derived {
    tokens: hmac::Key,
    states: hmac::Key,
    cursors: hmac::Key,
}

/// Why a root key cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    /// It could be guessed.
    #[error("a root key must have at least {} bytes", defaults::ROOT_KEY_BYTES)]
    TooShort,
    /// The system gives none.
    #[error("no random bytes for a root key")]
    Random,
}

impl Keyring {
    /// Signs with what is derived from `signing`; what was signed with one of `also_accepted` is accepted as well.
    ///
    /// # Errors
    /// A key is too short.
    pub fn new<'a>(signing: &[u8], also_accepted: impl IntoIterator<Item = &'a [u8]>) -> Result<Self, KeyError> {
        Ok(Self {
            signing: extract(signing)?,
            also_accepted: also_accepted.into_iter().map(extract).collect::<Result<_, _>>()?,
            derived: ArcSwap::default(),
        })
    }

    /// Signs with a new key that nobody else has.
    ///
    /// # Errors
    /// The system gives no random bytes.
    pub fn random() -> Result<Self, KeyError> {
        let mut key = [0; defaults::ROOT_KEY_BYTES];
        rand::fill(&mut key).map_err(|_| KeyError::Random)?;
        Self::new(&key, [])
    }

    /// The keys of `federation`. `None` never happens to keys of this length.
    pub(in crate::gateway) fn of(&self, federation: &str) -> Option<Arc<FederationKeys>> {
        if let Some(known) = self.derived.load().get(federation) {
            return Some(Arc::clone(known));
        }
        let also_accepted = self.also_accepted.iter().map(|root| derive(root, federation));
        let keys = Arc::new(FederationKeys {
            signing: derive(&self.signing, federation)?,
            also_accepted: also_accepted.collect::<Option<_>>()?,
        });
        self.derived.rcu(|known| {
            // Those of federations that are gone are not looked for one by one.
            let mut next = match known.len() {
                0..DERIVED_MAX => HashMap::clone(known),
                _ => HashMap::new(),
            };
            next.insert(federation.to_owned(), Arc::clone(&keys));
            next
        });
        Some(keys)
    }
}

/// Most federations whose keys are kept.
const DERIVED_MAX: usize = 4_096;

impl FederationKeys {
    /// The key that tokens are signed with.
    pub(super) fn signing(&self) -> &hmac::Key {
        &self.signing.tokens
    }

    /// The keys whose signatures are accepted, the most likely one first.
    pub(super) fn accepted(&self) -> impl Iterator<Item = &hmac::Key> {
        self.all().map(|derived| &derived.tokens)
    }

    /// The signature of a request's state.
    pub(in crate::gateway) fn sign_state(&self, state: &[u8]) -> hmac::Tag {
        hmac::sign(&self.signing.states, state)
    }

    /// Whether `signature` is one of ours for a request's `state`; in constant time.
    pub(in crate::gateway) fn has_signed_state(&self, state: &[u8], signature: &[u8]) -> bool {
        self.all()
            .any(|derived| hmac::verify(&derived.states, state, signature).is_ok())
    }

    /// The signature of a cursor.
    pub(in crate::gateway) fn sign_cursor(&self, cursor: &[u8]) -> hmac::Tag {
        hmac::sign(&self.signing.cursors, cursor)
    }

    /// Whether `signature` is one of ours for a `cursor`; in constant time.
    pub(in crate::gateway) fn has_signed_cursor(&self, cursor: &[u8], signature: &[u8]) -> bool {
        self.all()
            .any(|derived| hmac::verify(&derived.cursors, cursor, signature).is_ok())
    }

    fn all(&self) -> impl Iterator<Item = &Derived> {
        std::iter::once(&self.signing).chain(&self.also_accepted)
    }
}

impl fmt::Debug for Keyring {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Keyring")
    }
}

impl KeyError {
    /// One word for logs.
    pub fn reason(self) -> &'static str {
        match self {
            Self::TooShort => "TooShort",
            Self::Random => "Random",
        }
    }
}

fn extract(root: &[u8]) -> Result<Prk, KeyError> {
    if root.len() < defaults::ROOT_KEY_BYTES {
        return Err(KeyError::TooShort);
    }
    Ok(Salt::new(HKDF_SHA256, &[]).extract(root))
}

fn derive(root: &Prk, federation: &str) -> Option<Derived> {
    let key = |purpose: &[u8]| {
        let purpose = [purpose, federation.as_bytes()];
        root.expand(&purpose, hmac::HMAC_SHA256).ok().map(hmac::Key::from)
    };
    Some(Derived {
        tokens: key(b"mcpfleet session tokens v1 ")?,
        states: key(b"mcpfleet request states v1 ")?,
        cursors: key(b"mcpfleet cursors v1 ")?,
    })
}
