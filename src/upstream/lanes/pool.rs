//! The lanes of one server: found by whose they are, counted, and forgotten when nobody uses them. No IO, no waiting.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::SetOnce;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::way::Sharing;
use crate::mcp::Features;
use crate::upstream::caller::Owner;
use crate::upstream::error::Error;
use crate::upstream::questions::{Questions, Unnamed};

/// One connection that carries the calls of one owner. `C` is what is connected.
#[derive(Debug)]
pub(super) struct Lane<C> {
    /// Whose calls it carries, and no others'.
    pub(super) owner: Owner,
    /// What the server asks on it, under what was declared.
    pub(super) questions: Arc<Questions>,
    /// The connection, or why there is none, once that is known.
    pub(super) opened: SetOnce<Result<Arc<C>, Error>>,
    /// The lane is out of the pool.
    pub(super) closed: CancellationToken,
    calls: AtomicUsize,
    /// When it was last given back, in microseconds after `epoch`.
    used: AtomicU64,
    epoch: Instant,
}

/// The right to send one call over a lane, until this is dropped.
#[derive(Debug)]
pub(super) struct Lease<C> {
    /// The lane.
    pub(super) lane: Arc<Lane<C>>,
}

/// What the pool has for a call.
#[derive(Debug)]
pub(super) enum Taken<C> {
    /// A lane that is open, or that somebody opens.
    Known(Lease<C>),
    /// A lane that whoever got it has to open.
    New(Lease<C>),
    /// No room for another lane.
    Full,
}

/// Every lane of one server.
#[derive(Debug)]
pub(super) struct Pool<C> {
    shards: [Mutex<Shard<C>>; SHARDS],
    hasher: RandomState,
    count: AtomicUsize,
    most: usize,
    epoch: Instant,
}

type Shard<C> = HashMap<Owner, Vec<Arc<Lane<C>>>>;

/// So many calls of different owners find their lanes at a time.
const SHARDS: usize = 16;

impl<C> Pool<C> {
    /// An empty pool of at most `most` lanes.
    pub(super) fn new(most: usize) -> Self {
        Self {
            shards: std::array::from_fn(|_| Mutex::default()),
            hasher: RandomState::new(),
            count: AtomicUsize::new(0),
            most,
            epoch: Instant::now(),
        }
    }

    /// A lane for a call of `owner` with these features. Of several that are idle it is the one that was used last, so
    /// that the others can go.
    pub(super) fn take(&self, owner: &Owner, features: &Features, sharing: Sharing) -> Taken<C> {
        let mut shard = self.shard(owner);
        let known = shard.get(owner).into_iter().flatten();
        let mut fitting = known.filter(|lane| lane.questions.declared() == features);
        let found = match sharing {
            Sharing::Together => fitting.next(),
            Sharing::Alone => fitting
                .filter(|lane| lane.is_idle())
                .max_by_key(|lane| lane.used.load(Ordering::Acquire)),
        };
        if let Some(lane) = found {
            return Taken::Known(Lease::of(lane));
        }
        let counted = self.count.fetch_update(Ordering::AcqRel, Ordering::Acquire, |count| {
            (count < self.most).then_some(count + 1)
        });
        if counted.is_err() {
            return Taken::Full;
        }
        let unnamed = match owner {
            Owner::Session(_) => Unnamed::Latest,
            Owner::Nobody | Owner::Principal(_) => Unnamed::Only,
        };
        let lane = Arc::new(Lane {
            owner: owner.clone(),
            questions: Questions::new(features.clone(), unnamed),
            opened: SetOnce::new(),
            closed: CancellationToken::new(),
            calls: AtomicUsize::new(0),
            used: AtomicU64::new(0),
            epoch: self.epoch,
        });
        let lease = Lease::of(&lane);
        shard.entry(owner.clone()).or_default().push(lane);
        Taken::New(lease)
    }

    /// How many lanes there are.
    pub(super) fn len(&self) -> usize {
        self.count.load(Ordering::Acquire)
    }

    /// Takes `lane` out, so that no other call gets it. False if it was out already.
    pub(super) fn remove(&self, lane: &Arc<Lane<C>>) -> bool {
        self.remove_from(&mut self.shard(&lane.owner), lane)
    }

    /// Takes out the idle lane that was not used for the longest time.
    pub(super) fn remove_oldest_idle(&self) -> Option<Arc<Lane<C>>> {
        // One that is taken between the two looks is not idle any more, and the next is looked for.
        for _ in 0..REMOVAL_TRIES {
            let oldest = self.shards.iter().filter_map(|shard| {
                let shard = locked(shard);
                let idle = shard.values().flatten().filter(|lane| lane.is_idle());
                idle.min_by_key(|lane| lane.used.load(Ordering::Acquire)).cloned()
            });
            let oldest = oldest.min_by_key(|lane| lane.used.load(Ordering::Acquire))?;
            let mut shard = self.shard(&oldest.owner);
            if oldest.is_idle() && self.remove_from(&mut shard, &oldest) {
                return Some(oldest);
            }
        }
        None
    }

    /// Takes out all lanes that were idle for `limit`.
    pub(super) fn remove_idle(&self, limit: Duration) -> Vec<Arc<Lane<C>>> {
        let now = micros(self.epoch);
        let limit = u64::try_from(limit.as_micros()).unwrap_or(u64::MAX);
        let is_old =
            |lane: &Arc<Lane<C>>| lane.is_idle() && now.saturating_sub(lane.used.load(Ordering::Acquire)) >= limit;
        self.remove_where(is_old)
    }

    /// Takes out everything.
    pub(super) fn remove_all(&self) -> Vec<Arc<Lane<C>>> {
        self.remove_where(|_| true)
    }

    /// The lanes of `owner`.
    pub(super) fn of(&self, owner: &Owner) -> Vec<Arc<Lane<C>>> {
        self.shard(owner).get(owner).cloned().unwrap_or_default()
    }

    fn remove_where(&self, which: impl Fn(&Arc<Lane<C>>) -> bool) -> Vec<Arc<Lane<C>>> {
        let mut removed = Vec::new();
        for shard in &self.shards {
            locked(shard).retain(|_, lanes| {
                removed.extend(lanes.extract_if(.., |lane| which(lane)));
                !lanes.is_empty()
            });
        }
        self.count.fetch_sub(removed.len(), Ordering::AcqRel);
        removed
    }

    fn remove_from(&self, shard: &mut Shard<C>, lane: &Arc<Lane<C>>) -> bool {
        let Some(lanes) = shard.get_mut(&lane.owner) else {
            return false;
        };
        let Some(place) = lanes.iter().position(|known| Arc::ptr_eq(known, lane)) else {
            return false;
        };
        lanes.swap_remove(place);
        if lanes.is_empty() {
            shard.remove(&lane.owner);
        }
        self.count.fetch_sub(1, Ordering::AcqRel);
        true
    }

    fn shard(&self, owner: &Owner) -> MutexGuard<'_, Shard<C>> {
        let [first, ..] = &self.shards;
        let place = usize::try_from(self.hasher.hash_one(owner) % SHARDS as u64).unwrap_or_default();
        locked(self.shards.get(place).unwrap_or(first))
    }
}

impl<C> Lane<C> {
    /// Whether it is open and carries nothing.
    fn is_idle(&self) -> bool {
        self.calls.load(Ordering::Acquire) == 0 && self.opened.initialized()
    }
}

impl<C> Lease<C> {
    /// Counts before the shard is unlocked, so that nobody takes the lane for idle.
    fn of(lane: &Arc<Lane<C>>) -> Self {
        lane.calls.fetch_add(1, Ordering::AcqRel);
        Self { lane: Arc::clone(lane) }
    }
}

impl<C> Drop for Lease<C> {
    fn drop(&mut self) {
        self.lane.used.store(micros(self.lane.epoch), Ordering::Release);
        self.lane.calls.fetch_sub(1, Ordering::AcqRel);
    }
}

fn micros(epoch: Instant) -> u64 {
    u64::try_from(epoch.elapsed().as_micros()).unwrap_or(u64::MAX)
}

fn locked<C>(shard: &Mutex<Shard<C>>) -> MutexGuard<'_, Shard<C>> {
    shard.lock().unwrap_or_else(PoisonError::into_inner)
}

const REMOVAL_TRIES: usize = 8;

#[cfg(test)]
mod tests {
    use super::*;

    fn session(name: &str) -> Owner {
        Owner::Session(name.into())
    }

    fn opened(taken: Taken<()>) -> Lease<()> {
        let Taken::New(lease) = taken else {
            panic!("not a new lane: {taken:?}");
        };
        lease.lane.opened.set(Ok(Arc::new(()))).unwrap();
        lease
    }

    fn known(taken: Taken<()>) -> Lease<()> {
        let Taken::Known(lease) = taken else {
            panic!("not a known lane: {taken:?}");
        };
        lease
    }

    /// Long enough to tell before from after.
    async fn pause() {
        tokio::time::sleep(Duration::from_millis(3)).await;
    }

    fn asked() -> Features {
        Features {
            roots: true,
            ..Features::default()
        }
    }

    #[tokio::test]
    async fn calls_of_one_owner_with_the_same_features_share_a_lane_and_nobody_else_gets_it() {
        let pool = Pool::new(9);
        let silent = Features::default();
        let take = |name: &str, features: &Features| pool.take(&session(name), features, Sharing::Together);
        let first = opened(take("a", &silent));
        assert!(Arc::ptr_eq(&first.lane, &known(take("a", &silent)).lane));
        opened(take("b", &silent));
        opened(take("a", &asked()));
        assert!(Arc::ptr_eq(&first.lane, &known(take("a", &silent)).lane));
    }

    #[tokio::test]
    async fn a_lane_that_somebody_opens_is_waited_for_by_those_who_share_it_only() {
        let pool: Pool<()> = Pool::new(9);
        let _opening = pool.take(&session("a"), &asked(), Sharing::Together);
        known(pool.take(&session("a"), &asked(), Sharing::Together));
        let _opening = pool.take(&Owner::Nobody, &asked(), Sharing::Alone);
        let second = pool.take(&Owner::Nobody, &asked(), Sharing::Alone);
        assert!(matches!(second, Taken::New(_)));
    }

    #[tokio::test]
    async fn a_lane_for_one_call_is_free_again_when_that_is_over_and_the_last_used_goes_first() {
        let pool = Pool::new(9);
        let take = || pool.take(&Owner::Nobody, &asked(), Sharing::Alone);
        let (first, second) = (opened(take()), opened(take()));
        let (oldest, newest) = (Arc::clone(&first.lane), Arc::clone(&second.lane));
        drop(first);
        pause().await;
        drop(second);
        let again = known(take());
        assert!(Arc::ptr_eq(&again.lane, &newest));
        assert!(Arc::ptr_eq(&known(take()).lane, &oldest));
    }

    #[tokio::test]
    async fn at_the_bound_the_idle_lane_goes_that_was_not_used_for_the_longest_time() {
        let pool = Pool::new(2);
        let take = |name: &str| pool.take(&session(name), &asked(), Sharing::Together);
        let (a, b) = (opened(take("a")), opened(take("b")));
        assert!(matches!(take("c"), Taken::Full));
        assert!(pool.remove_oldest_idle().is_none(), "both are in use");
        drop(b);
        pause().await;
        drop(a);
        assert_eq!(pool.remove_oldest_idle().unwrap().owner, session("b"));
        opened(take("c"));
        known(take("a"));
        assert!(matches!(take("b"), Taken::Full));
    }

    #[tokio::test]
    async fn idle_lanes_go_after_a_while_and_busy_ones_stay() {
        let pool = Pool::new(9);
        let take = |name: &str| pool.take(&session(name), &asked(), Sharing::Together);
        let _busy = opened(take("busy"));
        drop(opened(take("idle")));
        assert!(pool.remove_idle(Duration::from_secs(60)).is_empty());
        pause().await;
        let removed = pool.remove_idle(Duration::from_millis(1));
        assert_eq!(
            removed.iter().map(|lane| lane.owner.clone()).collect::<Vec<_>>(),
            [session("idle")]
        );
        assert!(!pool.remove(&removed[0]), "it is out already");
        assert_eq!(pool.len(), 1);
        assert_eq!(pool.remove_all().len(), 1);
        assert_eq!(pool.len(), 0);
    }
}
