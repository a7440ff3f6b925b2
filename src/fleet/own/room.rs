//! How much callers may have for themselves, and who gives way when there is too little room. No IO, no waiting.
//!
//! Each party, a key or all callers without one, has a share. As long as there is room it may have more. What it has beyond
//! its share goes when others need the room who are below theirs, even while it is used; nothing else that is used does.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::Arc;

use super::recent::Recent;
use crate::upstream::share_of;

/// What is held of callers' own.
#[derive(Debug)]
pub(super) struct Room<K, V> {
    pub(super) held: Recent<K, V>,
    bounds: Bounds,
}

/// How much may be held.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    /// So many,
    pub(super) most: usize,
    /// with so many bytes together, if there is more than one.
    pub(super) bytes: usize,
    /// What one caller needs at least, to see all members.
    pub(super) needed: usize,
    /// Whether there are callers with names, so that those without leave them something.
    pub(super) has_names: bool,
}

/// What is held for one caller.
pub(super) trait Entry {
    /// Whose it is, by name.
    fn party(&self) -> Option<&Arc<str>>;
    /// What happens with it now.
    fn usage(&self) -> Usage;
    /// Whether there is a point in keeping it, as far as is known.
    fn is_of_use(&self) -> bool;
}

impl<E: Entry> Entry for Arc<E> {
    fn party(&self) -> Option<&Arc<str>> {
        self.as_ref().party()
    }

    fn usage(&self) -> Usage {
        self.as_ref().usage()
    }

    fn is_of_use(&self) -> bool {
        self.as_ref().is_of_use()
    }
}

/// What happens with an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Usage {
    /// Nothing.
    Idle,
    /// Somebody waits for it, or wants to hear of it.
    Watched,
    /// It carries a call.
    AtWork,
}

/// Why a caller cannot have something for itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(in crate::fleet) enum NoRoom {
    /// All of it is in use, and the caller's key has its share.
    #[error(
        "all {most} connections that callers may have for themselves are in use, and {who} share of {share}; close \
         listeners, or have spec.limits.cacheEntries raised",
        who = if *.is_named { "this key has its" } else { "callers without a key have their" }
    )]
    Share {
        /// Of so many.
        most: usize,
        /// So many.
        share: usize,
        /// Whether the caller has a key.
        is_named: bool,
    },
    /// All of it is in use, by callers who have no more than their shares.
    #[error(
        "all {0} connections that callers may have for themselves are in use; try again later, or have \
         spec.limits.cacheEntries raised"
    )]
    All(usize),
    /// It was there and had to go before it was of use.
    #[error("there was no room to keep what it lists for this caller beside that of others; try again later")]
    Evicted,
    /// Nothing is held any more.
    #[error("the federation is served no longer, or in another way; try again")]
    Closed,
}

/// What one party has.
#[derive(Clone, Copy, Debug, Default)]
struct Has {
    entries: usize,
    bytes: usize,
}

impl<K: Clone + Eq + Hash, V: Entry> Room<K, V> {
    /// Nothing, within `bounds`.
    pub(super) fn within(bounds: Bounds) -> Self {
        Self {
            held: Recent::default(),
            bounds,
        }
    }

    /// From now on these bounds hold; gives what is too much.
    pub(super) fn bound(&mut self, bounds: Bounds) -> Vec<V> {
        self.bounds = bounds;
        self.trimmed()
    }

    /// Takes out what has to go so that there is a place for one more of `party`.
    ///
    /// # Errors
    /// There is none, and nothing may be taken out for it.
    pub(super) fn make_room(&mut self, party: Option<&Arc<str>>) -> Result<Option<V>, NoRoom> {
        let most = self.bounds.most.max(1);
        if self.held.len() < most {
            return Ok(None);
        }
        let has = self.parties();
        let share = self.bounds.share(party.is_some());
        let is_below = has.get(&party.cloned()).is_none_or(|has| has.entries < share);
        let bounds = self.bounds;
        let gone = self.held.remove_oldest(|entry| {
            let worth = Worth::of(entry, &has, bounds);
            let gives_way = match worth {
                Worth::Useless | Worth::Spare => true,
                Worth::Idle => is_below || entry.party() == party,
                Worth::Borrowed(_) => is_below && entry.party() != party,
                Worth::InUse(_) => false,
            };
            gives_way.then_some(worth)
        });
        match gone {
            Some(gone) => Ok(Some(gone)),
            None if is_below => Err(NoRoom::All(most)),
            None => Err(NoRoom::Share {
                most,
                share,
                is_named: party.is_some(),
            }),
        }
    }

    /// Takes out what is too much: first what is of no use, so that nobody drives out others with credentials that no
    /// server takes, then what nobody is about, and of that what was used least recently.
    pub(super) fn trimmed(&mut self) -> Vec<V> {
        let mut gone = Vec::new();
        let bounds = self.bounds;
        while self.held.len() > bounds.most.max(1) || (self.held.weight() > bounds.bytes && self.held.len() > 1) {
            let has = self.parties();
            gone.extend(self.held.remove_oldest(|entry| Some(Worth::of(entry, &has, bounds))));
        }
        gone
    }

    fn parties(&self) -> HashMap<Option<Arc<str>>, Has> {
        let mut parties: HashMap<_, Has> = HashMap::new();
        for (entry, weight) in self.held.weighed() {
            let has = parties.entry(entry.party().cloned()).or_default();
            has.entries += 1;
            has.bytes += weight;
        }
        parties
    }
}

impl Bounds {
    /// How many a party has that are taken from it for nobody as long as it uses them.
    fn share(self, is_named: bool) -> usize {
        self.part(is_named, self.most).max(self.needed).min(self.most.max(1))
    }

    fn part(self, is_named: bool, whole: usize) -> usize {
        if is_named || self.has_names {
            share_of(is_named, whole)
        } else {
            whole
        }
    }
}

/// What goes first, and what last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Worth {
    /// No server takes what the caller presents, and nobody is about it.
    Useless,
    /// Nobody is about it, and its party has more than its share.
    Spare,
    /// Nobody is about it.
    Idle,
    /// It is used, and its party has more than its share.
    Borrowed(Usage),
    /// It is used.
    InUse(Usage),
}

impl Worth {
    fn of<V: Entry>(entry: &V, has: &HashMap<Option<Arc<str>>, Has>, bounds: Bounds) -> Self {
        let (party, usage) = (entry.party(), entry.usage());
        let is_borrowed = has.get(&party.cloned()).is_some_and(|has| {
            let is_named = party.is_some();
            has.entries > bounds.share(is_named) || has.bytes > bounds.part(is_named, bounds.bytes)
        });
        match (usage, is_borrowed) {
            (Usage::Idle, _) if !entry.is_of_use() => Self::Useless,
            (Usage::Idle, true) => Self::Spare,
            (Usage::Idle, false) => Self::Idle,
            (_, true) => Self::Borrowed(usage),
            (_, false) => Self::InUse(usage),
        }
    }
}

impl NoRoom {
    /// One word for metrics.
    pub(super) fn reason(self) -> &'static str {
        match self {
            Self::Share { .. } => "Share",
            Self::All(_) => "All",
            Self::Evicted => "Evicted",
            Self::Closed => "Closed",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Clone, Debug, PartialEq, Eq)]
    struct Held {
        party: Option<Arc<str>>,
        usage: Usage,
        is_of_use: bool,
    }

    impl Entry for Held {
        fn party(&self) -> Option<&Arc<str>> {
            self.party.as_ref()
        }

        fn usage(&self) -> Usage {
            self.usage
        }

        fn is_of_use(&self) -> bool {
            self.is_of_use
        }
    }

    const ALICE: Option<&str> = Some("alice");
    const BOB: Option<&str> = Some("bob");
    const NOBODY: Option<&str> = None;

    /// A room that counts what it is asked to hold.
    struct Rooms(Room<usize, Held>, usize);

    impl Rooms {
        fn of(most: usize, needed: usize) -> Self {
            let bounds = Bounds {
                most,
                bytes: 100,
                needed,
                has_names: true,
            };
            Self(Room::within(bounds), 0)
        }

        /// Puts in what `party` uses so; gives who had to go.
        fn opened(&mut self, party: Option<&str>, usage: Usage) -> Result<Option<Held>, NoRoom> {
            let party = party.map(Arc::from);
            let gone = self.0.make_room(party.as_ref())?;
            let held = Held {
                party,
                usage,
                is_of_use: true,
            };
            self.1 += 1;
            assert!(self.0.held.insert(self.1, held, 0).is_none());
            Ok(gone)
        }

        fn opens(&mut self, party: Option<&str>, usage: Usage) -> Result<(), NoRoom> {
            self.opened(party, usage).map(drop)
        }

        fn of_party(&self, party: Option<&str>) -> usize {
            let held = self.0.held.values();
            held.filter(|held| held.party.as_deref() == party).count()
        }
    }

    #[test]
    fn a_key_that_uses_everything_gives_way_to_others_up_to_their_shares() {
        let mut room = Rooms::of(16, 1);
        for _ in 0..16 {
            assert_eq!(room.opens(ALICE, Usage::Watched), Ok(()));
        }
        let refused = room.opens(ALICE, Usage::Watched).unwrap_err();
        assert!(
            matches!(
                refused,
                NoRoom::Share {
                    share: 4,
                    is_named: true,
                    ..
                }
            ),
            "{refused}"
        );
        for party in [BOB, NOBODY] {
            let share = if party.is_some() { 4 } else { 12 };
            for _ in 0..share.min(8) {
                let gone = room.opened(party, Usage::Watched).unwrap();
                assert_eq!(gone.unwrap().party.as_deref(), ALICE);
            }
        }
        // Everybody has no more than the own share by now.
        assert_eq!([ALICE, BOB, NOBODY].map(|party| room.of_party(party)), [4, 4, 8]);
        assert!(matches!(room.opens(BOB, Usage::Watched), Err(NoRoom::Share { .. })));
        assert_eq!(room.opens(Some("carol"), Usage::Watched), Err(NoRoom::All(16)));
    }

    #[test]
    fn callers_without_a_key_leave_a_share_to_those_who_have_one() {
        let mut room = Rooms::of(16, 1);
        for _ in 0..16 {
            assert_eq!(room.opens(NOBODY, Usage::AtWork), Ok(()));
        }
        for _ in 0..4 {
            assert_eq!(room.opens(ALICE, Usage::Watched), Ok(()));
        }
        let refused = room.opens(NOBODY, Usage::Watched).unwrap_err();
        assert!(matches!(
            refused,
            NoRoom::Share {
                share: 12,
                is_named: false,
                ..
            }
        ));
        // Where there are no keys there is nobody to leave anything to.
        let mut bounds = room.0.bounds;
        bounds.has_names = false;
        assert_eq!(bounds.share(false), 16);
    }

    #[test]
    fn what_nobody_uses_goes_before_what_somebody_does() {
        let mut room = Rooms::of(8, 1);
        for usage in [Usage::AtWork, Usage::Watched, Usage::Idle, Usage::Idle] {
            room.opens(ALICE, usage).unwrap();
        }
        for _ in 0..4 {
            room.opens(BOB, Usage::Watched).unwrap();
        }
        let usage = |gone: Result<Option<Held>, NoRoom>| gone.unwrap().unwrap().usage;
        for expected in [Usage::Idle, Usage::Idle] {
            assert_eq!(usage(room.opened(Some("carol"), Usage::AtWork)), expected);
        }
        for expected in [Usage::Watched, Usage::Watched] {
            assert_eq!(usage(room.opened(Some("dave"), Usage::Watched)), expected, "bob's");
        }
        assert_eq!(room.of_party(BOB), 2);
    }

    #[test]
    fn who_has_a_share_makes_room_with_the_own_and_drives_out_nobody() {
        let mut room = Rooms::of(8, 1);
        for party in [ALICE, BOB, Some("carol"), NOBODY] {
            room.opens(party, Usage::Idle).unwrap();
            room.opens(party, Usage::Idle).unwrap();
        }
        for _ in 0..20 {
            let gone = room.opened(ALICE, Usage::Idle).unwrap().unwrap();
            assert_eq!(gone.party.as_deref(), ALICE);
        }
        assert_eq!([ALICE, BOB, NOBODY].map(|party| room.of_party(party)), [2, 2, 2]);
    }

    #[test]
    fn a_share_is_enough_to_see_all_members() {
        let mut room = Rooms::of(6, 3);
        for _ in 0..6 {
            room.opens(ALICE, Usage::Watched).unwrap();
        }
        for _ in 0..3 {
            room.opens(BOB, Usage::Watched).unwrap();
        }
        assert_eq!([ALICE, BOB].map(|party| room.of_party(party)), [3, 3]);
        let crowded = Rooms::of(2, 3).0.bounds;
        assert_eq!(crowded.share(true), 2, "there are no more");
    }

    #[test]
    fn what_is_of_no_use_goes_first() {
        let mut room = Rooms::of(4, 1);
        for _ in 0..3 {
            room.opens(ALICE, Usage::Idle).unwrap();
        }
        let wrong = Held {
            party: Some("bob".into()),
            usage: Usage::Idle,
            is_of_use: false,
        };
        assert!(room.0.held.insert(0, wrong.clone(), 0).is_none());
        assert_eq!(room.opened(BOB, Usage::Idle).unwrap(), Some(wrong));
        assert_eq!(room.of_party(ALICE), 3);
    }

    #[test]
    fn catalogs_that_are_too_large_together_go_until_they_are_not() {
        let mut room = Rooms::of(8, 1);
        for party in [ALICE, BOB, BOB, BOB] {
            room.opens(party, Usage::Idle).unwrap();
        }
        for (key, weight) in [(1, 20), (2, 26), (3, 26), (4, 26)] {
            room.0.held.reweigh(&key, weight);
        }
        assert!(room.0.trimmed().is_empty(), "98 of 100 bytes");
        // Who takes more than a share of the bytes loses first what was used least recently.
        room.0.held.reweigh(&4, 60);
        let gone = room.0.trimmed();
        assert_eq!(gone.len(), 2);
        assert_eq!([ALICE, BOB].map(|party| room.of_party(party)), [1, 1]);
        assert_eq!(room.0.held.weight(), 80);
        // One alone may be larger than all may be together.
        assert!(room.0.held.remove(&1).is_some());
        room.0.held.reweigh(&4, 1_000);
        assert!(room.0.trimmed().is_empty());
        assert_eq!(room.of_party(BOB), 1);
    }

    #[test]
    fn what_is_used_stays_where_large_catalogs_nobody_uses_can_go() {
        let mut room = Rooms::of(8, 1);
        for usage in [Usage::Watched, Usage::Idle, Usage::AtWork] {
            room.opens(ALICE, usage).unwrap();
        }
        for key in 1..=3 {
            room.0.held.reweigh(&key, 50);
        }
        let gone = room.0.trimmed();
        assert_eq!(gone.iter().map(|held| held.usage).collect::<Vec<_>>(), [Usage::Idle]);
        room.0.held.reweigh(&3, 70);
        let gone = room.0.trimmed();
        assert_eq!(gone.iter().map(|held| held.usage).collect::<Vec<_>>(), [Usage::Watched]);
    }

    #[test]
    fn fewer_than_before_are_kept_after_an_edit() {
        let mut room = Rooms::of(8, 1);
        for party in [ALICE, ALICE, ALICE, BOB] {
            room.opens(party, Usage::Watched).unwrap();
        }
        let fewer = Bounds {
            most: 2,
            ..room.0.bounds
        };
        assert_eq!(room.0.bound(fewer).len(), 2);
        assert_eq!([ALICE, BOB].map(|party| room.of_party(party)), [1, 1]);
    }
}
