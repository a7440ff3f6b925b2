//! Tokens that were read before. To check a signature and to read what is signed costs more than all else that is done for a
//! session, and a client sends the same token with each of its requests.

use std::sync::Arc;

use aws_lc_rs::constant_time::verify_slices_are_equal;

use super::keys::FederationKeys;
use super::opening::Session;

/// Tokens with the sessions that they stand for, each in the one place that its signature gives it: what was there gives way.
#[derive(Debug, Default)]
pub(super) struct Known {
    places: Vec<Option<Token>>,
}

#[derive(Debug)]
struct Token {
    text: Box<[u8]>,
    /// Those that it was checked with: others may not accept it, and each federation has its own.
    keys: Arc<FederationKeys>,
    session: Arc<Session>,
}

/// How many tokens are kept at the most: as many as so many bits can number.
const PLACES: usize = 1 << PLACE_BITS;
const PLACE_BITS: u32 = 8;

impl Known {
    /// The session behind `token`, if these very `keys` are known to accept it.
    pub(super) fn get(&self, token: &[u8], keys: &Arc<FederationKeys>) -> Option<&Arc<Session>> {
        let known = self.places.get(place(token)?)?.as_ref()?;
        let is_same = verify_slices_are_equal(&known.text, token).is_ok();
        (is_same && Arc::ptr_eq(&known.keys, keys)).then_some(&known.session)
    }

    /// Keeps in mind that `keys` accept `token`, and which session it stands for.
    pub(super) fn insert(&mut self, token: &[u8], keys: Arc<FederationKeys>, session: Arc<Session>) {
        let Some(place) = place(token) else { return };
        // Most processes have few sessions or none.
        if self.places.is_empty() {
            self.places.resize_with(PLACES, || None);
        }
        if let Some(kept) = self.places.get_mut(place) {
            *kept = Some(Token {
                text: token.into(),
                keys,
                session,
            });
        }
    }
}

/// Where a token is kept: its end is part of its signature, which nobody can choose.
fn place(token: &[u8]) -> Option<usize> {
    let end = u64::from_le_bytes(*token.last_chunk()?);
    // The upper bits of the product depend on all characters (Fibonacci hashing).
    let mixed = end.wrapping_mul(0x9E37_79B9_7F4A_7C15);
    usize::try_from(mixed >> (u64::BITS - PLACE_BITS)).ok()
}

#[cfg(test)]
mod tests {
    use super::super::{Keyring, Opening, SessionId};
    use super::*;
    use crate::mcp::Revision;

    const TOKEN: &[u8] = b"header.claims.signature";

    fn keys() -> Arc<FederationKeys> {
        Keyring::random().unwrap().of("team/all").unwrap()
    }

    fn session() -> Arc<Session> {
        let opening = Opening {
            federation: "team/all",
            principal: None,
            revision: Revision::V2025_06_18,
            capabilities: None,
            client: None,
            shows_all: false,
            ttl: 60,
        };
        Arc::new(Session::of_stream(SessionId::random().unwrap(), &opening))
    }

    #[test]
    fn a_token_is_known_to_the_keys_that_accepted_it() {
        let (mut known, accepting, session) = (Known::default(), keys(), session());
        let keys_of_others = keys();
        assert!(known.get(TOKEN, &accepting).is_none());
        known.insert(TOKEN, Arc::clone(&accepting), Arc::clone(&session));
        assert!(Arc::ptr_eq(known.get(TOKEN, &accepting).unwrap(), &session));
        assert!(known.get(TOKEN, &keys_of_others).is_none());
    }

    #[test]
    fn another_token_with_the_same_end_is_not_known_and_takes_the_place() {
        let (mut known, keys) = (Known::default(), keys());
        known.insert(TOKEN, Arc::clone(&keys), session());
        let other = b"other.claims.signature";
        assert_eq!(place(other), place(TOKEN));
        assert!(known.get(other, &keys).is_none());
        known.insert(other, Arc::clone(&keys), session());
        assert!(known.get(other, &keys).is_some());
        assert!(known.get(TOKEN, &keys).is_none());
    }

    #[test]
    fn no_more_are_kept_than_there_are_places() {
        let (mut known, keys) = (Known::default(), keys());
        for number in 0..10 * PLACES {
            known.insert(format!("token {number:08}").as_bytes(), Arc::clone(&keys), session());
        }
        let kept = known.places.iter().flatten().count();
        assert_eq!(known.places.len(), PLACES);
        assert!(kept > PLACES / 2, "they are spread: {kept}");
    }

    #[test]
    fn what_is_too_short_for_a_token_is_never_known() {
        let (mut known, keys) = (Known::default(), keys());
        for token in [&b""[..], b"short"] {
            known.insert(token, Arc::clone(&keys), session());
            assert!(known.get(token, &keys).is_none());
        }
    }
}
