//! The lanes of one server: found by whose they are, counted, and forgotten when nobody uses them. No IO, no waiting.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use arc_swap::ArcSwapOption;
use tokio::sync::SetOnce;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::mcp::Features;
use crate::upstream::caller::Owner;
use crate::upstream::error::Error;
use crate::upstream::listening::Carried;
use crate::upstream::questions::Questions;
use crate::upstream::sharing::Sharing;

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
    /// How far it carries what its owner subscribed to.
    pub(super) carried: Carried,
    /// Whether it is the one of everybody who declares nothing.
    pub(super) is_plain: bool,
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
    /// The lane that everybody shared last, found without a lock.
    shared: ArcSwapOption<Lane<C>>,
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
            shared: ArcSwapOption::empty(),
            hasher: RandomState::new(),
            count: AtomicUsize::new(0),
            most,
            epoch: Instant::now(),
        }
    }

    /// A lane for a call of `owner` with these features. Of several that are idle it is the one that was used last, so
    /// that the others can go.
    pub(super) fn take(&self, owner: &Owner, features: &Features, sharing: Sharing) -> Taken<C> {
        // Servers with lanes are Legacy, and hear nothing of it.
        let without_tasks = features.tasks.then(|| Features {
            tasks: false,
            ..features.clone()
        });
        let (mut owner, features) = (owner, without_tasks.as_ref().unwrap_or(features));
        if sharing == Sharing::Everybody {
            owner = &Owner::Nobody;
            // Should it be closed at this moment, the call finds no session there, and is sent again.
            if let Some(lane) = &*self.shared.load()
                && lane.questions.declared() == features
            {
                return Taken::Known(Lease::of(lane));
            }
        }
        let mut shard = self.shard(owner);
        let known = shard.get(owner).into_iter().flatten();
        let mut fitting = known.filter(|lane| lane.questions.declared() == features);
        let found = match sharing {
            Sharing::Together | Sharing::Everybody => fitting.next(),
            Sharing::Alone => fitting
                .filter(|lane| lane.is_idle())
                .max_by_key(|lane| lane.used.load(Ordering::Acquire)),
        };
        if let Some(lane) = found {
            self.share(lane, sharing);
            return Taken::Known(Lease::of(lane));
        }
        let counted = self.count.fetch_update(Ordering::AcqRel, Ordering::Acquire, |count| {
            (count < self.most).then_some(count + 1)
        });
        if counted.is_err() {
            return Taken::Full;
        }
        let lane = Arc::new(Lane {
            owner: owner.clone(),
            questions: Questions::of_lane(owner, features.clone()),
            opened: SetOnce::new(),
            closed: CancellationToken::new(),
            carried: Carried::default(),
            is_plain: sharing == Sharing::Everybody && *features == Features::default(),
            calls: AtomicUsize::new(0),
            used: AtomicU64::new(0),
            epoch: self.epoch,
        });
        let lease = Lease::of(&lane);
        self.share(&lane, sharing);
        shard.entry(owner.clone()).or_default().push(lane);
        Taken::New(lease)
    }

    fn share(&self, lane: &Arc<Lane<C>>, sharing: Sharing) {
        if sharing == Sharing::Everybody {
            self.shared.store(Some(Arc::clone(lane)));
        }
    }

    /// How many lanes there are.
    pub(super) fn len(&self) -> usize {
        self.count.load(Ordering::Acquire)
    }

    /// Takes `lane` out, so that no other call gets it. False if it was out already.
    pub(super) fn remove(&self, lane: &Arc<Lane<C>>) -> bool {
        self.remove_from(&mut self.shard(&lane.owner), lane)
    }

    /// Takes out the idle lane that was not used for the longest time, other than the one of everybody.
    pub(super) fn remove_oldest_idle(&self) -> Option<Arc<Lane<C>>> {
        // One that is taken between the two looks is not idle any more, and the next is looked for.
        for _ in 0..REMOVAL_TRIES {
            let oldest = self.shards.iter().filter_map(|shard| {
                let shard = locked(shard);
                let idle = shard.values().flatten().filter(|lane| lane.is_idle() && !lane.is_plain);
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

    /// Takes out all lanes that were idle for `limit`, but for those that are `kept`, or carry subscriptions.
    pub(super) fn remove_idle(&self, limit: Duration, kept: impl Fn(&Lane<C>) -> bool) -> Vec<Arc<Lane<C>>> {
        let now = micros(self.epoch);
        let limit = u64::try_from(limit.as_micros()).unwrap_or(u64::MAX);
        let is_old = |lane: &Arc<Lane<C>>| {
            lane.is_idle()
                && now.saturating_sub(lane.used.load(Ordering::Acquire)) >= limit
                && !kept(lane)
                && !lane.carried.any()
        };
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
        for lane in &removed {
            self.unshare(lane);
        }
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
        self.unshare(lane);
        true
    }

    fn unshare(&self, lane: &Arc<Lane<C>>) {
        if self
            .shared
            .load()
            .as_ref()
            .is_some_and(|shared| Arc::ptr_eq(shared, lane))
        {
            self.shared.compare_and_swap(lane, None);
        }
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
mod tests;
