//! What Legacy sessions asked for until they end: how much they want to hear of logs, and which resources they subscribed
//! to. A session of which nothing was heard for long loses it.

use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::time::{Instant, sleep};
use tokio_util::task::AbortOnDropHandle;

use super::hub::SessionHub;
use super::session::{BySession, SessionId};
use super::updates::{self, Subscribed};
use crate::defaults;
use crate::mcp::LogLevel;
use crate::upstream::{Party, Shares, Taken, share_of};

/// The wishes of all sessions.
pub struct Wishes {
    hub: Arc<SessionHub>,
    shards: BySession<Wish>,
    /// How many sessions have any: most often none has, and nothing is looked up.
    sessions: AtomicUsize,
    /// Whose sessions these are. Locked after a shard.
    shares: Mutex<Shares>,
}

/// The wishes of one session.
struct Wish {
    party: Party,
    level: Option<LogLevel>,
    resources: HashMap<Box<str>, AbortOnDropHandle<()>>,
    used: Instant,
}

/// Why a wish is not noted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum NoRoom {
    /// There are too many sessions with wishes, or too many of this key.
    #[error("too many sessions ask for logs or updates; try again later")]
    Sessions,
    /// The session has too many itself.
    #[error(
        "a session subscribes to at most {} resources; unsubscribe from one first",
        defaults::SESSION_SUBSCRIPTIONS_MAX
    )]
    Resources,
}

impl Wishes {
    /// None yet; updates go to the streams of `hub`. Must be called within a runtime.
    pub fn start(hub: Arc<SessionHub>) -> Arc<Self> {
        let wishes = Arc::new(Self {
            hub,
            shards: BySession::default(),
            sessions: AtomicUsize::new(0),
            shares: Mutex::default(),
        });
        let weak = Arc::downgrade(&wishes);
        tokio::spawn(async move {
            loop {
                sleep(defaults::WISHES_SWEEP).await;
                let Some(wishes) = weak.upgrade() else { return };
                wishes.forget_unused(Instant::now());
            }
        });
        wishes
    }

    /// From which level on `session` wants to hear logs, if it ever said so.
    pub(super) fn level(&self, session: SessionId) -> Option<LogLevel> {
        if self.sessions.load(Ordering::Relaxed) == 0 {
            return None;
        }
        let mut shard = self.shards.of(session);
        let wish = shard.get_mut(&session)?;
        wish.used = Instant::now();
        wish.level
    }

    /// Notes that `session`, which is of `party`, wants to hear logs from `level` on.
    pub(super) fn set_level(&self, session: SessionId, party: &Party, level: LogLevel) -> Result<(), NoRoom> {
        self.wish(session, party, |wish| wish.level = Some(level))
    }

    /// Passes the updates of a resource to `session`, which is of `party`, from now on.
    pub(super) fn subscribe(
        &self,
        session: SessionId,
        party: &Party,
        uri: &str,
        subscribed: Subscribed,
    ) -> Result<(), NoRoom> {
        self.wish(session, party, |wish| {
            if !wish.resources.contains_key(uri) && wish.resources.len() >= defaults::SESSION_SUBSCRIPTIONS_MAX {
                return Err(NoRoom::Resources);
            }
            let hub = Arc::clone(&self.hub);
            let passing = updates::pass_on(subscribed, async move |message| {
                for _ in 0..defaults::UPDATE_TRIES {
                    if hub.send(session, message.clone()) {
                        return;
                    }
                    sleep(defaults::UPDATE_PAUSE).await;
                }
            });
            wish.resources
                .insert(uri.into(), AbortOnDropHandle::new(tokio::spawn(passing)));
            Ok(())
        })?
    }

    /// Passes the updates of a resource to `session` no more.
    pub(super) fn unsubscribe(&self, session: SessionId, uri: &str) {
        if let Some(wish) = self.shards.of(session).get_mut(&session) {
            wish.resources.remove(uri);
        }
    }

    /// Forgets what `session` wished: it has ended.
    pub(super) fn end(&self, session: SessionId) {
        if let Some(wish) = self.shards.of(session).remove(&session) {
            self.forgotten(&wish);
        }
    }

    fn wish<T>(&self, session: SessionId, party: &Party, change: impl FnOnce(&mut Wish) -> T) -> Result<T, NoRoom> {
        let now = Instant::now();
        let mut shard = self.shards.of(session);
        if !shard.contains_key(&session) {
            let share = share_of(party.is_named(), defaults::WISHES_MAX);
            let taken = self.shares().take(party, defaults::WISHES_MAX, share);
            taken.map_err(|(Taken::All | Taken::Share)| NoRoom::Sessions)?;
            self.sessions.fetch_add(1, Ordering::Relaxed);
        }
        let wish = shard.entry(session).or_insert_with(|| Wish {
            party: party.clone(),
            level: None,
            resources: HashMap::new(),
            used: now,
        });
        wish.used = now;
        Ok(change(wish))
    }

    fn forget_unused(&self, now: Instant) {
        for mut shard in self.shards.parts() {
            shard.retain(|session, wish| {
                let is_fresh = now.duration_since(wish.used) < defaults::SESSION_IDLE;
                let is_kept = is_fresh || self.hub.is_listening(*session);
                if !is_kept {
                    self.forgotten(wish);
                }
                is_kept
            });
        }
    }

    fn forgotten(&self, wish: &Wish) {
        self.sessions.fetch_sub(1, Ordering::Relaxed);
        self.shares().give(&wish.party);
    }

    fn shares(&self) -> MutexGuard<'_, Shares> {
        self.shares.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Wishes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Wishes")
            .field("sessions", &self.sessions.load(Ordering::Relaxed))
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_wish_holds_for_its_session_until_it_ends_or_is_not_heard_of_for_long() {
        let wishes = Wishes::start(Arc::new(SessionHub::new()));
        let [mine, other] = [(), ()].map(|()| SessionId::random().unwrap());
        assert_eq!(wishes.level(mine), None);
        for level in [LogLevel::Info, LogLevel::Error] {
            assert_eq!(wishes.set_level(mine, &Party::default(), level), Ok(()));
            assert_eq!(wishes.level(mine), Some(level));
        }
        assert_eq!(wishes.level(other), None);
        assert_eq!(wishes.set_level(other, &Party::default(), LogLevel::Debug), Ok(()));
        wishes.end(mine);
        wishes.end(mine);
        assert_eq!((wishes.level(mine), wishes.level(other)), (None, Some(LogLevel::Debug)));
        wishes.forget_unused(Instant::now() + defaults::SESSION_IDLE / 2);
        assert_eq!(wishes.level(other), Some(LogLevel::Debug));
        wishes.forget_unused(Instant::now() + defaults::SESSION_IDLE * 2);
        assert_eq!(wishes.level(other), None);
        assert_eq!(wishes.sessions.load(Ordering::Relaxed), 0);
    }

    #[tokio::test]
    async fn there_is_room_for_so_many_sessions_of_a_key_and_more_for_others() {
        let wishes = Wishes::start(Arc::new(SessionHub::new()));
        let [alice, bob] = ["alice", "bob"].map(|name| Party::of("f", Some(name)));
        let set = |party: &Party| {
            let session = SessionId::random().unwrap();
            wishes.set_level(session, party, LogLevel::Info).map(|()| session)
        };
        let sessions: Vec<_> = std::iter::from_fn(|| set(&alice).ok())
            .take(defaults::WISHES_MAX)
            .collect();
        assert_eq!(sessions.len(), share_of(true, defaults::WISHES_MAX));
        assert!(set(&bob).is_ok());
        wishes.end(sessions[0]);
        assert!(set(&alice).is_ok());
        assert_eq!(set(&alice), Err(NoRoom::Sessions));
    }
}
