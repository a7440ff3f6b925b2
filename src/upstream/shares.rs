//! Shares of what there is a bounded number of, so that no caller takes all of it from the others.

use std::collections::HashMap;
use std::sync::Arc;

use crate::defaults;

/// Who is held to a share: a principal of a federation. All callers without a name are one, since nothing tells them
/// apart.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Party(Option<(Arc<str>, Arc<str>)>);

/// How much of something each party has taken.
#[derive(Debug, Default)]
pub struct Shares {
    taken: HashMap<Party, usize>,
    all: usize,
}

/// Why there is nothing left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Taken {
    /// All of it is taken.
    All,
    /// The party has its share.
    Share,
}

impl Party {
    /// Whoever `federation` knows by this name, if it knows them by any.
    pub fn of(federation: &str, principal: Option<&str>) -> Self {
        Self(principal.map(|principal| (federation.into(), principal.into())))
    }

    /// Whether it has a name.
    pub const fn is_named(&self) -> bool {
        self.0.is_some()
    }
}

impl Shares {
    /// Takes one of `most` for `party`, of which it may have `share`.
    ///
    /// # Errors
    /// There is none left, or none for this party.
    pub fn take(&mut self, party: &Party, most: usize, share: usize) -> Result<(), Taken> {
        let own = self.taken.get(party).copied().unwrap_or_default();
        if own >= share {
            return Err(Taken::Share);
        }
        if self.all >= most {
            return Err(Taken::All);
        }
        self.all += 1;
        self.taken.insert(party.clone(), own + 1);
        Ok(())
    }

    /// Gives one of those back that `party` took.
    pub fn give(&mut self, party: &Party) {
        let Some(own) = self.taken.get_mut(party) else { return };
        self.all = self.all.saturating_sub(1);
        *own -= 1;
        if *own == 0 {
            self.taken.remove(party);
        }
    }
}

/// So many of `most` may be one party's, with or without a name: see [`defaults::SHARE`].
pub const fn share_of(is_named: bool, most: usize) -> usize {
    let part = most / defaults::SHARE;
    match is_named {
        true if part == 0 => 1,
        true => part,
        false => most - part,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_party_has_its_share_and_the_others_the_rest() {
        let mut shares = Shares::default();
        let [alice, bob, nobody] = [Some("alice"), Some("bob"), None].map(|name| Party::of("f", name));
        assert!(alice.is_named() && !nobody.is_named() && alice != Party::of("g", Some("alice")));
        let mut take = |party: &Party| shares.take(party, 4, share_of(party.is_named(), 4));
        assert_eq!((take(&alice), take(&alice)), (Ok(()), Err(Taken::Share)));
        assert_eq!((take(&nobody), take(&nobody), take(&nobody)), (Ok(()), Ok(()), Ok(())));
        assert_eq!((take(&nobody), take(&bob)), (Err(Taken::Share), Err(Taken::All)));
        shares.give(&alice);
        shares.give(&alice);
        assert_eq!(shares.take(&bob, 4, 1), Ok(()));
        assert_eq!(
            (share_of(true, 1), share_of(false, 1), share_of(false, 1024)),
            (1, 1, 768)
        );
    }
}
