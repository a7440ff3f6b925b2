//! Sessions that were ended before they expired.

use std::collections::BTreeSet;

use super::id::SessionId;

/// A bounded set of sessions, by when they expire.
///
/// Where it is full, the one that expires first is forgotten first: its token is the first to be worth nothing anyway.
#[derive(Debug)]
pub(in crate::gateway) struct Denied {
    entries: BTreeSet<(u64, SessionId)>,
    capacity: usize,
}

impl Denied {
    pub(in crate::gateway) fn new(capacity: usize) -> Self {
        Self {
            entries: BTreeSet::new(),
            capacity,
        }
    }

    pub(in crate::gateway) fn contains(&self, expires: u64, id: SessionId) -> bool {
        self.entries.contains(&(expires, id))
    }

    /// Adds a session, drops those that have expired by `now`, and tells how many had to be forgotten before that.
    pub(in crate::gateway) fn insert(&mut self, expires: u64, id: SessionId, now: u64) -> usize {
        while self.entries.first().is_some_and(|(expires, _)| *expires < now) {
            self.entries.pop_first();
        }
        self.entries.insert((expires, id));
        let mut forgotten = 0;
        while self.entries.len() > self.capacity {
            self.entries.pop_first();
            forgotten += 1;
        }
        forgotten
    }

    pub(in crate::gateway) fn len(&self) -> usize {
        self.entries.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id() -> SessionId {
        SessionId::random().unwrap()
    }

    #[test]
    fn a_session_is_denied_until_it_expires_and_forgotten_after() {
        let (mut denied, first, second) = (Denied::new(10), id(), id());
        assert_eq!(denied.insert(100, first, 50), 0);
        assert!(denied.contains(100, first));
        assert!(!denied.contains(100, second));
        denied.insert(300, second, 100);
        assert!(
            denied.contains(100, first),
            "it is valid up to and including its last second"
        );
        denied.insert(300, id(), 101);
        assert!(!denied.contains(100, first));
        assert_eq!(denied.len(), 2);
    }

    #[test]
    fn a_full_list_forgets_what_expires_first() {
        let mut denied = Denied::new(3);
        let ids: Vec<SessionId> = (0..5).map(|_| id()).collect();
        let forgotten: Vec<usize> = [400, 100, 300, 200, 500]
            .into_iter()
            .zip(&ids)
            .map(|(expires, id)| denied.insert(expires, *id, 0))
            .collect();
        assert_eq!(forgotten, [0, 0, 0, 1, 1]);
        assert!(!denied.contains(100, ids[1]) && !denied.contains(200, ids[3]));
        assert!(denied.contains(300, ids[2]) && denied.contains(400, ids[0]) && denied.contains(500, ids[4]));
    }

    #[test]
    fn ending_a_session_twice_counts_once() {
        let (mut denied, session) = (Denied::new(3), id());
        denied.insert(100, session, 0);
        denied.insert(100, session, 0);
        assert_eq!(denied.len(), 1);
    }
}
