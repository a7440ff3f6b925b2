//! How those who listen to a federation hear that what they see has changed.
//!
//! Nobody is sent anything: that something has changed is counted, and a listener compares what it sees now with what
//! it knows. So one that reads slowly holds up nobody, misses nothing, and costs the same however much changes; and who
//! sees nothing of a change hears nothing of it.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

use crate::defaults;
use crate::upstream::{Party, Shares, Taken, share_of};

/// What listeners are told of a federation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct News {
    /// How often anything has changed of what may be seen.
    pub version: u64,
    /// When the first of those changes was seen that were told together last.
    pub since: Instant,
    /// How often it was said anew who may connect, from which pages, and how.
    pub access: u64,
    /// Whether it is not served any more.
    pub gone: bool,
}

/// The changes of one federation, for as long as it is served.
#[derive(Debug)]
pub struct Changes {
    seen: watch::Sender<Seen>,
    told: watch::Receiver<News>,
    listens: Mutex<Shares>,
    streams: Mutex<Shares>,
}

/// On what somebody hears.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hearing {
    /// A listen of a Modern client.
    Listen,
    /// A stream of a Legacy client.
    Stream,
}

/// One of the places for those who hear; given back when dropped.
#[derive(Debug)]
pub struct Place {
    changes: Arc<Changes>,
    on: Hearing,
    party: Party,
}

/// What has happened, told or not.
#[derive(Clone, Copy, Debug)]
struct Seen {
    news: News,
    coalesce: Duration,
}

impl Changes {
    /// Changes that are told at once when they are the first, and together where they follow within `coalesce`. Must
    /// be called within a runtime.
    pub fn start(coalesce: Duration) -> Self {
        let news = News {
            version: 0,
            since: Instant::now(),
            access: 0,
            gone: false,
        };
        let (seen, changes) = watch::channel(Seen { news, coalesce });
        let (tell, told) = watch::channel(news);
        tokio::spawn(announce(changes, tell));
        Self {
            seen,
            told,
            listens: Mutex::default(),
            streams: Mutex::default(),
        }
    }

    /// What is told, now and from now on.
    pub fn listen(&self) -> watch::Receiver<News> {
        self.told.clone()
    }

    /// One of `most` places for those who hear like this, for `party`. Who has a name gets no more than a share of them;
    /// where access lets callers in without one, there are no others.
    ///
    /// # Errors
    /// None is free, or the party has its share.
    pub fn place(self: &Arc<Self>, on: Hearing, most: usize, party: Party) -> Result<Place, Taken> {
        let share = if party.is_named() { share_of(true, most) } else { most };
        // Who has no name takes all of them, and not more than its share: that is the same to its client.
        let taken = self.shares(on).take(&party, most, share);
        taken.map_err(|taken| if party.is_named() { taken } else { Taken::All })?;
        Ok(Place {
            changes: Arc::clone(self),
            on,
            party,
        })
    }

    fn shares(&self, on: Hearing) -> MutexGuard<'_, Shares> {
        let shares = match on {
            Hearing::Listen => &self.listens,
            Hearing::Stream => &self.streams,
        };
        shares.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What may be seen has changed if `lists`, and if `access` it was said anew who may connect, and how. What follows
    /// within `coalesce` is told together.
    pub fn tell(&self, lists: bool, access: bool, coalesce: Duration) {
        self.seen.send_if_modified(|seen| {
            seen.coalesce = coalesce;
            if lists && seen.news.version == self.told.borrow().version {
                seen.news.since = Instant::now();
            }
            seen.news.version += u64::from(lists);
            seen.news.access += u64::from(access);
            access || lists
        });
    }

    /// What some may see has changed.
    pub fn tell_lists(&self) {
        let coalesce = self.seen.borrow().coalesce;
        self.tell(true, false, coalesce);
    }

    /// It is not served any more.
    pub fn end(&self) {
        self.seen.send_modify(|seen| seen.news.gone = true);
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.changes.shares(self.on).give(&self.party);
    }
}

/// Tells what is seen: the first change of a burst at once, the rest when none has followed for a while, or when it
/// goes on for too long.
async fn announce(mut seen: watch::Receiver<Seen>, tell: watch::Sender<News>) {
    while seen.changed().await.is_ok() {
        let Seen { news, coalesce } = *seen.borrow_and_update();
        tell.send_replace(news);
        settled(seen.clone(), news, coalesce).await;
    }
}

/// Waits until nothing has changed for `coalesce`, a second at most; not where access changes or all ends.
async fn settled(mut seen: watch::Receiver<Seen>, told: News, coalesce: Duration) {
    let latest = Instant::now() + defaults::COALESCE_MAX;
    loop {
        let quiet = (Instant::now() + coalesce).min(latest);
        tokio::select! {
            () = sleep_until(quiet) => return,
            changed = seen.changed() => {
                let news = seen.borrow_and_update().news;
                if changed.is_err() || news.gone || news.access != told.access {
                    return;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::{sleep, timeout};

    use super::*;

    const WINDOW: Duration = Duration::from_millis(100);

    async fn next(news: &mut watch::Receiver<News>) -> Option<News> {
        let changed = timeout(Duration::from_millis(500), news.changed()).await;
        changed
            .is_ok_and(|told| told.is_ok())
            .then(|| *news.borrow_and_update())
    }

    #[tokio::test]
    async fn the_first_of_a_burst_is_told_at_once_and_the_rest_together() {
        let changes = Changes::start(WINDOW);
        let mut news = changes.listen();
        let started = Instant::now();
        changes.tell(true, false, WINDOW);
        let first = next(&mut news).await.unwrap();
        assert!(first.version == 1 && first.since >= started);
        assert!(started.elapsed() < WINDOW);
        let second = Instant::now();
        for _ in 0..20 {
            changes.tell(true, false, WINDOW);
        }
        let all_seen = Instant::now();
        let rest = next(&mut news).await.unwrap();
        assert_eq!(rest.version, 21);
        assert!(
            rest.since >= second && rest.since <= all_seen,
            "the first of them counts"
        );
        assert_eq!(next(&mut news).await, None, "nothing is told twice");
    }

    #[tokio::test]
    async fn a_burst_without_end_is_told_of_after_a_second() {
        let changes = Changes::start(WINDOW);
        let mut news = changes.listen();
        let (started, mut told) = (Instant::now(), Vec::new());
        while told.len() < 2 {
            changes.tell(true, false, WINDOW);
            sleep(Duration::from_millis(10)).await;
            if news.has_changed().unwrap() {
                news.mark_unchanged();
                told.push(started.elapsed());
            }
        }
        assert!(told[0] < WINDOW && told[1] > Duration::from_millis(900), "{told:?}");
    }

    #[tokio::test]
    async fn the_end_and_a_change_of_access_are_not_waited_with() {
        let changes = Changes::start(WINDOW);
        let mut news = changes.listen();
        changes.tell(true, false, WINDOW);
        next(&mut news).await.unwrap();
        let started = Instant::now();
        changes.tell(false, true, WINDOW);
        assert_eq!(next(&mut news).await.unwrap().access, 1);
        changes.end();
        assert!(next(&mut news).await.unwrap().gone);
        assert!(started.elapsed() < WINDOW);
    }

    #[tokio::test]
    async fn places_are_given_back() {
        let changes = Arc::new(Changes::start(WINDOW));
        let place = || changes.place(Hearing::Listen, 2, Party::default());
        let first = place().unwrap();
        let _second = place().unwrap();
        assert!(place().is_err());
        drop(first);
        assert!(place().is_ok());
    }

    #[tokio::test]
    async fn a_key_has_its_share_of_the_places_and_without_keys_there_are_no_shares() {
        let changes = Arc::new(Changes::start(WINDOW));
        let place = |on, name: Option<&str>| changes.place(on, 8, Party::of("f", name));
        let alice: Vec<_> = (0..2).map(|_| place(Hearing::Listen, Some("alice")).unwrap()).collect();
        assert_eq!(place(Hearing::Listen, Some("alice")).unwrap_err(), Taken::Share);
        let bob = place(Hearing::Listen, Some("bob")).unwrap();
        let others: Vec<_> = (0..8).map(|_| place(Hearing::Stream, None).unwrap()).collect();
        assert_eq!(place(Hearing::Stream, None).unwrap_err(), Taken::All);
        drop((alice, others, bob));
        assert!(place(Hearing::Listen, Some("alice")).is_ok() && place(Hearing::Stream, None).is_ok());
    }
}
