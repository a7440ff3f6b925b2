//! What Legacy sessions asked for until they end: how much they want to hear of logs, and which resources they subscribed
//! to. A session of which nothing was heard for long loses it.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::time::{Instant, sleep};
use tokio_util::task::AbortOnDropHandle;

use super::hub::SessionHub;
use super::session::{BySession, SessionId};
use super::updates::{self, Subscribed};
use crate::defaults;
use crate::mcp::notice::LogLevel;

/// The wishes of all sessions.
pub struct Wishes {
    hub: Arc<SessionHub>,
    shards: BySession<Wish>,
    /// How many sessions have any: most often none has, and nothing is looked up.
    sessions: AtomicUsize,
}

/// The wishes of one session.
struct Wish {
    level: Option<LogLevel>,
    resources: HashMap<Box<str>, AbortOnDropHandle<()>>,
    used: Instant,
}

impl Wishes {
    /// None yet; updates go to the streams of `hub`. Must be called within a runtime.
    pub fn start(hub: Arc<SessionHub>) -> Arc<Self> {
        let wishes = Arc::new(Self {
            hub,
            shards: BySession::default(),
            sessions: AtomicUsize::new(0),
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

    /// Notes that `session` wants to hear logs from `level` on. False where there is no room for it.
    pub(super) fn set_level(&self, session: SessionId, level: LogLevel) -> bool {
        self.wish(session, |wish| wish.level = Some(level)).is_some()
    }

    /// Passes the updates of a resource to `session` from now on. False where there is no room for it.
    pub(super) fn subscribe(&self, session: SessionId, uri: &str, subscribed: Subscribed) -> bool {
        let noted = self.wish(session, |wish| {
            let has_room =
                wish.resources.contains_key(uri) || wish.resources.len() < defaults::SESSION_SUBSCRIPTIONS_MAX;
            if has_room {
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
            }
            has_room
        });
        noted == Some(true)
    }

    /// Passes the updates of a resource to `session` no more.
    pub(super) fn unsubscribe(&self, session: SessionId, uri: &str) {
        if let Some(wish) = self.shards.of(session).get_mut(&session) {
            wish.resources.remove(uri);
        }
    }

    /// Forgets what `session` wished: it has ended.
    pub(super) fn end(&self, session: SessionId) {
        if self.shards.of(session).remove(&session).is_some() {
            self.sessions.fetch_sub(1, Ordering::Relaxed);
        }
    }

    fn wish<T>(&self, session: SessionId, change: impl FnOnce(&mut Wish) -> T) -> Option<T> {
        let now = Instant::now();
        let mut shard = self.shards.of(session);
        if !shard.contains_key(&session) {
            if self.sessions.load(Ordering::Relaxed) >= defaults::WISHES_MAX {
                return None;
            }
            self.sessions.fetch_add(1, Ordering::Relaxed);
        }
        let wish = shard.entry(session).or_insert_with(|| Wish {
            level: None,
            resources: HashMap::new(),
            used: now,
        });
        wish.used = now;
        Some(change(wish))
    }

    fn forget_unused(&self, now: Instant) {
        for mut shard in self.shards.parts() {
            let before = shard.len();
            shard.retain(|session, wish| {
                let is_fresh = now.duration_since(wish.used) < defaults::SESSION_IDLE;
                is_fresh || self.hub.is_listening(*session)
            });
            self.sessions.fetch_sub(before - shard.len(), Ordering::Relaxed);
        }
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
            assert!(wishes.set_level(mine, level));
            assert_eq!(wishes.level(mine), Some(level));
        }
        assert_eq!(wishes.level(other), None);
        assert!(wishes.set_level(other, LogLevel::Debug));
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
    async fn there_is_room_for_so_many_sessions_and_no_more() {
        let wishes = Wishes::start(Arc::new(SessionHub::new()));
        wishes.sessions.store(defaults::WISHES_MAX, Ordering::Relaxed);
        assert!(!wishes.set_level(SessionId::random().unwrap(), LogLevel::Info));
    }
}
