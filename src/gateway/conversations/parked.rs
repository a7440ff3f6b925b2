//! Calls to Legacy servers that wait while a Modern client makes up its mind.
//!
//! Each that waits keeps a connection to its server, so no caller may have them all: the call of a caller that has waited
//! longest gives way where that caller has more than its share.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::task::AbortHandle;
use tokio::time::{Duration, Instant, sleep_until, timeout_at};

use super::conversation::Conversation;
use crate::defaults;
use crate::gateway::session::SessionId;
use crate::mcp::Members;
use crate::upstream::share_of;

/// Every call that waits for its client's next round.
#[derive(Debug)]
pub(in crate::gateway) struct Parked {
    waiting: Mutex<HashMap<SessionId, Waiting>>,
    patience: Duration,
}

/// Who made a call, and to whom.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::gateway) struct Place {
    /// The federation and the principal there, where access tells; all others are one caller, since nothing tells them
    /// apart.
    pub(in crate::gateway) caller: Option<(String, String)>,
    /// The server.
    pub(in crate::gateway) server: String,
    /// Most connections to it that calls may have of their own.
    pub(in crate::gateway) lanes: usize,
}

#[derive(Debug)]
struct Waiting {
    conversation: Conversation,
    place: Place,
    since: Instant,
    expiry: AbortHandle,
}

impl Default for Parked {
    fn default() -> Self {
        Self::with_patience(defaults::ANSWER_TIMEOUT)
    }
}

impl Parked {
    /// None yet; each that comes may wait for `patience`.
    pub(in crate::gateway) fn with_patience(patience: Duration) -> Self {
        Self {
            waiting: Mutex::default(),
            patience,
        }
    }

    /// The call `name`, which waits no longer.
    pub(in crate::gateway) fn take(&self, name: SessionId) -> Option<Conversation> {
        let waiting = self.lock().remove(&name)?;
        waiting.expiry.abort();
        Some(waiting.conversation)
    }

    /// What is wrong with these answers, a JSON object, to what the call `name` waits for.
    pub(in crate::gateway) fn wrong_answer(&self, name: SessionId, responses: Option<&str>) -> Option<String> {
        let responses = Members::parse(responses?)?;
        self.lock().get(&name)?.conversation.wrong_answer(&responses)
    }

    /// Lets `conversation` wait under `name`, in place of another one of its caller where that has its share; gives it
    /// back where too many wait. The call ends when its server is `let_go_of`, and what it came to waits on.
    pub(in crate::gateway) fn put(
        self: &Arc<Self>,
        name: SessionId,
        conversation: Conversation,
        place: Place,
        let_go_of: impl Future<Output = ()> + Send + 'static,
    ) -> Result<(), Conversation> {
        let mut waiting = self.lock();
        let longest = place.longest_beyond_share(&waiting);
        let gives_way = longest.and_then(|name| waiting.remove(&name));
        if waiting.len() >= defaults::PARKED_MAX {
            return Err(conversation);
        }
        let (parked, patience) = (Arc::downgrade(self), self.patience);
        let expiry = tokio::spawn(async move {
            let expiry = Instant::now() + patience;
            if timeout_at(expiry, let_go_of).await.is_ok() {
                parked.upgrade().inspect(|parked| parked.give_up(name));
                sleep_until(expiry).await;
            }
            let expired = parked.upgrade().and_then(|parked| parked.lock().remove(&name));
            if let Some(expired) = expired {
                expired.conversation.end().await;
            }
        });
        let waits = Waiting {
            conversation,
            place,
            since: Instant::now(),
            expiry: expiry.abort_handle(),
        };
        waiting.insert(name, waits);
        drop(waiting);
        if let Some(gone) = gives_way {
            tracing::info!(
                server = gone.place.server,
                "a call gave way to a later one of its caller"
            );
            gone.expiry.abort();
            tokio::spawn(gone.conversation.end());
        }
        Ok(())
    }

    /// Ends the call `name`, with which nobody can go on.
    fn give_up(&self, name: SessionId) {
        let given_up = self.lock().get_mut(&name).map(|waiting| waiting.conversation.give_up());
        // Not under the lock: it may say something to its server.
        drop(given_up);
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<SessionId, Waiting>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Place {
    /// Whether its caller may have one more of `most` beside the calls in these places, and one more connection to the
    /// server beside those that are `busy`.
    pub(in crate::gateway) fn has_room_beside<'p>(
        &self,
        places: impl Iterator<Item = (&'p Self, bool)>,
        most: usize,
    ) -> bool {
        let own = places.filter(|(place, _)| place.caller == self.caller);
        let (mut all, mut here) = (0, 0);
        for (place, is_busy) in own {
            all += 1;
            here += usize::from(is_busy && place.server == self.server);
        }
        all < self.share_of(most) && here < self.share_of(self.lanes)
    }

    /// Of the calls of this caller, to this server or to all, the one that has waited longest, if there is no room for
    /// one more in its share.
    fn longest_beyond_share(&self, waiting: &HashMap<SessionId, Waiting>) -> Option<SessionId> {
        let own: Vec<_> = waiting
            .iter()
            .filter(|(_, of)| of.place.caller == self.caller)
            .collect();
        let here: Vec<_> = own
            .iter()
            .copied()
            .filter(|(_, of)| of.place.server == self.server)
            .collect();
        let crowded = [(here, self.lanes), (own, defaults::PARKED_MAX)]
            .into_iter()
            .find(|(calls, most)| calls.len() >= self.share_of(*most))?;
        let longest = crowded.0.into_iter().min_by_key(|(_, of)| of.since);
        longest.map(|(name, _)| *name)
    }

    /// So many of `most` may be this caller's.
    fn share_of(&self, most: usize) -> usize {
        share_of(self.caller.is_some(), most)
    }
}

#[cfg(test)]
mod tests {
    use std::future::{pending, ready};

    use super::*;
    use crate::gateway::conversations::conversation::tests::{Watched, watched};
    use crate::mcp::Features;

    fn place(caller: &str, server: &str) -> Place {
        Place {
            caller: (!caller.is_empty()).then(|| ("default/fed".into(), caller.into())),
            server: server.into(),
            lanes: defaults::PROCESS_LANES_MAX,
        }
    }

    fn park(parked: &Arc<Parked>, place: Place) -> (SessionId, Watched) {
        let (conversation, watched) = watched();
        let name = SessionId::random().unwrap();
        parked.put(name, conversation, place, pending()).unwrap();
        (name, watched)
    }

    #[tokio::test]
    async fn a_caller_with_its_share_of_a_servers_connections_loses_the_call_that_waited_longest() {
        for caller in ["alice", ""] {
            let parked = Arc::new(Parked::default());
            let share = place(caller, "s").share_of(defaults::PROCESS_LANES_MAX);
            assert!(share < defaults::PROCESS_LANES_MAX);
            let others = [park(&parked, place("bob", "s")), park(&parked, place(caller, "t"))];
            let mut own: Vec<_> = (0..share).map(|_| park(&parked, place(caller, "s"))).collect();
            for gives_way in 0..2 {
                own.push(park(&parked, place(caller, "s")));
                let (name, watched) = &mut own[gives_way];
                assert!(parked.take(*name).is_none(), "{caller}");
                assert_eq!(watched.end().await, ["refused", "cancelled"]);
            }
            for (name, _) in own.iter().skip(2).chain(&others) {
                assert!(parked.take(*name).is_some());
            }
        }
    }

    #[tokio::test]
    async fn a_caller_has_its_share_of_all_calls_that_wait() {
        let parked = Arc::new(Parked::default());
        let share = defaults::PARKED_MAX / defaults::SHARE;
        let first = park(&parked, place("alice", "first"));
        for number in 1..share {
            park(&parked, place("alice", &format!("s{number}")));
        }
        let other = park(&parked, place("bob", "s"));
        assert_eq!(parked.lock().len(), share + 1);
        park(&parked, place("alice", "last"));
        assert!(parked.take(first.0).is_none() && parked.take(other.0).is_some());
    }

    #[test]
    fn a_caller_has_room_up_to_its_share_of_all_and_of_a_servers_connections() {
        let most = defaults::SHARE * 2;
        let alice = Place {
            lanes: defaults::SHARE,
            ..place("alice", "s")
        };
        let (elsewhere, bob) = (place("alice", "t"), place("bob", "s"));
        let has_room = |others: &[(&Place, bool)]| alice.has_room_beside(others.iter().copied(), most);
        assert!(has_room(&[(&bob, true), (&bob, true), (&elsewhere, true)]));
        assert!(has_room(&[(&alice, false)]), "one that is over has no connection");
        assert!(!has_room(&[(&alice, true)]));
        assert!(!has_room(&[(&elsewhere, false), (&elsewhere, true)]));
    }

    #[tokio::test]
    async fn a_call_whose_server_is_let_go_of_ends_and_its_client_is_told_so_when_it_comes_back() {
        let parked = Arc::new(Parked::default());
        let (conversation, mut watched) = watched();
        let name = SessionId::random().unwrap();
        let place = place("alice", "s");
        parked.put(name, conversation, place, ready(())).unwrap();
        watched.end().await;
        let mut waited = parked.take(name).unwrap();
        let reply = waited.until_questions(&Features::default()).await.unwrap();
        let error = reply.unwrap_err();
        assert!(error.to_string().contains("let go of"), "{error}");
    }

    #[tokio::test]
    async fn a_call_whose_client_does_not_come_back_is_refused_its_answer_before_it_is_cancelled() {
        let parked = Arc::new(Parked::with_patience(Duration::from_millis(20)));
        let (name, mut watched) = park(&parked, place("alice", "s"));
        assert_eq!(watched.end().await, ["refused", "cancelled"]);
        assert!(parked.take(name).is_none());
    }
}
