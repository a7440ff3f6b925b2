//! The upstreams that callers have for themselves: opened when they are first needed, within their room, and let go of when
//! nobody uses them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until, timeout_at};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::member::OwnMember;
use super::room::{Bounds, Entry, NoRoom, Room, Usage};
use crate::defaults;
use crate::fleet::caller::{Caller, CallerId};
use crate::fleet::changes::Changes;
use crate::fleet::server_plan::ServerPlan;
use crate::fleet::variation::UpstreamKey;
use crate::index::Catalog;
use crate::metrics::{FederationMetrics, Metrics};
use crate::seldom::Seldom;
use crate::upstream::{Health, State, Upstream};

/// The upstreams that callers of one federation have for themselves.
#[derive(Debug)]
pub(in crate::fleet) struct Pool {
    federation: String,
    table: Mutex<Table>,
    refusals: Seldom,
    changes: Arc<Changes>,
    metrics: Arc<FederationMetrics>,
    servers: Arc<Metrics>,
    /// Where they run, whoever opens them.
    runtime: Handle,
    tasks: TaskTracker,
    epoch: Instant,
}

/// One upstream that one caller has for itself.
#[derive(Debug)]
pub(in crate::fleet) struct OwnUpstream {
    /// Tells it from those that had its place before.
    pub(super) number: u64,
    pub(in crate::fleet) upstream: Arc<Upstream>,
    key: Key,
    /// What access calls its caller.
    principal: Option<Arc<str>>,
    plan: Arc<ServerPlan>,
    state: watch::Receiver<Arc<State>>,
    begun: Instant,
    /// Whether its first lists did not come in time, so that nobody waits for them any more.
    is_overdue: AtomicBool,
    /// When it was needed last, in milliseconds after the pool's epoch.
    used: AtomicU64,
    watchers: AtomicUsize,
    gone: CancellationToken,
}

/// An upstream that somebody waits for or wants to hear of, until this is dropped.
#[derive(Debug)]
pub(in crate::fleet) struct Watched(Arc<OwnUpstream>);

/// Upstreams that somebody wants to hear of, until this is dropped.
#[derive(Debug, Default)]
pub struct Watching {
    held: Vec<Watched>,
    /// Those that there was no room for, which are tried again.
    refused: Vec<(UpstreamKey, NoRoom)>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Key {
    server: UpstreamKey,
    caller: CallerId,
}

#[derive(Debug)]
struct Table {
    room: Room<Key, Arc<OwnUpstream>>,
    opened: u64,
    /// The marks by which lists were read again last.
    marks: BTreeMap<UpstreamKey, BTreeSet<String>>,
    is_closed: bool,
}

impl Pool {
    /// An empty pool of `federation`; tells of what changes by `changes`. Must be called within a runtime.
    pub(in crate::fleet) fn start(
        federation: String,
        changes: Arc<Changes>,
        metrics: Arc<FederationMetrics>,
        servers: Arc<Metrics>,
    ) -> Arc<Self> {
        let bounds = Bounds {
            most: defaults::OWN_CATALOGS_MAX,
            bytes: defaults::OWN_CATALOGS_BYTES_MAX,
            needed: 1,
            has_names: true,
        };
        Arc::new(Self {
            federation,
            table: Mutex::new(Table {
                room: Room::within(bounds),
                opened: 0,
                marks: BTreeMap::new(),
                is_closed: false,
            }),
            refusals: Seldom::default(),
            changes,
            metrics,
            servers,
            runtime: Handle::current(),
            tasks: TaskTracker::new(),
            epoch: Instant::now(),
        })
    }

    /// Lets go of what is not of these members as they are planned now, and of what there are more than `most` of; has
    /// lists read again that are to be. Callers with names have their shares of it if there are any.
    pub(super) fn settle(&self, members: &[OwnMember], most: usize, has_names: bool) {
        let planned: BTreeMap<&UpstreamKey, &Arc<ServerPlan>> =
            members.iter().map(|member| (&member.upstream, &member.plan)).collect();
        let mut table = self.table();
        let is_planned =
            |key: &Key, own: &Arc<OwnUpstream>| planned.get(&key.server).is_some_and(|plan| own.does_for(plan));
        let mut gone = table.room.held.remove_unless(is_planned);
        gone.extend(table.room.bound(Bounds {
            most,
            bytes: defaults::OWN_CATALOGS_BYTES_MAX,
            needed: planned.len(),
            has_names,
        }));
        let marks = planned.iter().map(|(key, plan)| ((*key).clone(), plan.refresh.clone()));
        let before = std::mem::replace(&mut table.marks, marks.collect());
        for own in table.room.held.values() {
            let (known, now) = (before.get(&own.key.server), table.marks.get(&own.key.server));
            if let (Some(known), Some(now)) = (known, now)
                && !now.is_subset(known)
            {
                own.upstream.refresh();
            }
        }
        self.count(&table);
        drop(table);
        gone.iter().for_each(|own| own.gone.cancel());
    }

    /// What `caller` has of `member`; it is not opened for that, and not used by it.
    pub(in crate::fleet) fn peek(&self, member: &OwnMember, caller: &Caller) -> Option<Arc<OwnUpstream>> {
        let table = self.table();
        let own = table.room.held.peek(&Key::of(member, caller))?;
        own.does_for(&member.plan).then(|| Arc::clone(own))
    }

    /// What `caller` has of `member`, which is opened if need be and stays as long as what is given.
    ///
    /// # Errors
    /// There is no room for it, which is counted and, now and then, logged; or nothing is opened any more.
    pub(in crate::fleet) fn open(self: &Arc<Self>, member: &OwnMember, caller: &Caller) -> Result<Watched, NoRoom> {
        let opened = self.opened(member, caller);
        if let Err(error @ (NoRoom::Share { .. } | NoRoom::All(_))) = &opened {
            self.metrics.own_catalog_refused(error.reason());
            if self
                .refusals
                .is_due(Instant::now(), defaults::OWN_CATALOG_REFUSED_PAUSE)
            {
                tracing::warn!(
                    federation = self.federation,
                    key = caller.principal().map(AsRef::as_ref),
                    server = %member.upstream.server,
                    "a caller does without a server's lists and calls: {error}"
                );
            }
        }
        opened
    }

    fn opened(self: &Arc<Self>, member: &OwnMember, caller: &Caller) -> Result<Watched, NoRoom> {
        let key = Key::of(member, caller);
        let mut table = self.table();
        if table.is_closed {
            return Err(NoRoom::Closed);
        }
        let known = table.room.held.get(&key).filter(|own| own.does_for(&member.plan));
        if let Some(own) = known.cloned() {
            own.used.store(self.now(), Ordering::Release);
            return Ok(Watched::begin(own));
        }
        let outdated = table.room.held.remove(&key);
        let crowded_out = match table.room.make_room(caller.principal()) {
            Ok(crowded_out) => crowded_out,
            Err(error) => {
                self.count(&table);
                drop(table);
                outdated.iter().for_each(|own| own.gone.cancel());
                return Err(error);
            }
        };
        table.opened += 1;
        let own = Arc::new(self.begin(member, caller, key.clone(), table.opened));
        let watched = Watched::begin(Arc::clone(&own));
        drop(table.room.held.insert(key, Arc::clone(&own), 0));
        self.metrics.own_catalog_opened();
        self.count(&table);
        drop(table);
        let gone: Vec<_> = outdated.into_iter().chain(crowded_out).collect();
        self.metrics.own_catalogs_evicted(gone.len());
        gone.iter().for_each(|own| own.gone.cancel());
        let watch = keep(Arc::downgrade(self), own);
        drop(self.tasks.spawn_on(watch, &self.runtime));
        Ok(watched)
    }

    /// Stops all of them; none is opened any more.
    pub(in crate::fleet) async fn close(&self) {
        let gone = {
            let mut table = self.table();
            table.is_closed = true;
            let gone = table.room.held.remove_unless(|_, _| false);
            self.count(&table);
            gone
        };
        gone.iter().for_each(|own| own.gone.cancel());
        self.tasks.close();
        self.tasks.wait().await;
    }

    /// Tells listeners that some of them see something else now.
    fn tell(&self) {
        self.changes.tell_lists();
    }

    fn begin(&self, member: &OwnMember, caller: &Caller, key: Key, number: u64) -> OwnUpstream {
        let name = member.upstream.to_string();
        let (endpoint, terms) = member.for_caller(caller);
        let metrics = self.servers.server(&member.upstream.server.to_string()).for_some();
        let upstream = {
            let _within = self.runtime.enter();
            Arc::new(Upstream::start_for_caller(name, endpoint, terms, metrics))
        };
        OwnUpstream {
            number,
            key,
            principal: caller.principal().cloned(),
            plan: Arc::clone(&member.plan),
            state: upstream.state(),
            upstream,
            begun: Instant::now(),
            is_overdue: AtomicBool::new(false),
            used: AtomicU64::new(self.now()),
            watchers: AtomicUsize::new(0),
            gone: CancellationToken::new(),
        }
    }

    /// Weighs `own` anew, which has other lists now.
    fn weigh(&self, own: &OwnUpstream) {
        let weight = own.state().catalog.as_deref().map_or(0, Catalog::bytes);
        let mut table = self.table();
        let held = &mut table.room.held;
        if held.peek(&own.key).is_some_and(|held| held.number == own.number) {
            held.reweigh(&own.key, weight);
        }
        let gone = table.room.trimmed();
        self.count(&table);
        drop(table);
        self.metrics.own_catalogs_evicted(gone.len());
        gone.iter().for_each(|own| own.gone.cancel());
    }

    /// Takes `own` out if nobody has used it for long at the time `now`.
    fn remove_idle(&self, own: &OwnUpstream, now: Instant) -> bool {
        let mut table = self.table();
        let is_idle = self.idle_at(own) <= now && own.usage() == Usage::Idle;
        let held = &mut table.room.held;
        if is_idle && held.peek(&own.key).is_some_and(|held| held.number == own.number) {
            held.remove(&own.key);
            self.count(&table);
        }
        is_idle
    }

    fn idle_at(&self, own: &OwnUpstream) -> Instant {
        let used = Duration::from_millis(own.used.load(Ordering::Acquire));
        let idle = if own.is_of_use() {
            defaults::OWN_CATALOG_IDLE
        } else {
            defaults::OWN_FAILURE_IDLE
        };
        self.epoch + used + idle
    }

    fn now(&self) -> u64 {
        u64::try_from(self.epoch.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    fn count(&self, table: &Table) {
        self.metrics.own_catalogs(table.room.held.len());
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl OwnUpstream {
    /// What is known of it.
    pub(super) fn state(&self) -> Arc<State> {
        self.state.borrow().clone()
    }

    /// Waits until it has lists or failed, though not longer than reading a list may take, and not for what had to go.
    pub(in crate::fleet) async fn settled(&self, pool: &Pool) {
        let mut state = self.state.clone();
        let known = async {
            tokio::select! {
                () = self.gone.cancelled() => {}
                _ = state.wait_for(|state| has_outcome(state)) => {}
            }
        };
        let in_time = match self.plan.terms.timeouts.list {
            Some(limit) => timeout_at(self.begun + limit, known).await.is_ok(),
            None => {
                known.await;
                true
            }
        };
        if !in_time && !self.is_overdue.swap(true, Ordering::AcqRel) {
            tracing::warn!(
                server = %self.key.server,
                "its lists for a caller did not come in time; they are left out until they do"
            );
            pool.tell();
        }
    }

    /// Whether nobody has to wait for it.
    pub(in crate::fleet) fn is_settled(&self) -> bool {
        self.is_overdue.load(Ordering::Acquire) || has_outcome(&self.state.borrow())
    }

    fn does_for(&self, plan: &ServerPlan) -> bool {
        self.plan.endpoint == plan.endpoint && self.plan.terms == plan.terms
    }
}

impl Entry for OwnUpstream {
    fn party(&self) -> Option<&Arc<str>> {
        self.principal.as_ref()
    }

    fn usage(&self) -> Usage {
        if self.upstream.is_at_work() {
            Usage::AtWork
        } else if self.watchers.load(Ordering::Acquire) > 0 {
            Usage::Watched
        } else {
            Usage::Idle
        }
    }

    /// Whether its server takes what the caller presents.
    fn is_of_use(&self) -> bool {
        let state = self.state.borrow();
        state.catalog.is_some() || !matches!(state.health, Health::Failed(_))
    }
}

impl Watched {
    fn begin(own: Arc<OwnUpstream>) -> Self {
        own.watchers.fetch_add(1, Ordering::AcqRel);
        Self(own)
    }

    /// What is watched.
    pub(in crate::fleet) fn upstream(&self) -> &OwnUpstream {
        &self.0
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        self.0.watchers.fetch_sub(1, Ordering::AcqRel);
    }
}

impl Watching {
    /// Watches what `caller` has of these `members`, which is opened if need be. What was watched `before` goes on to be,
    /// even where it had to make room for others.
    pub(in crate::fleet) fn of<'m>(
        pool: &Arc<Pool>,
        members: impl Iterator<Item = &'m OwnMember>,
        caller: &Caller,
        before: Self,
    ) -> Self {
        let mut before = before.held;
        let mut watching = Self::default();
        for member in members {
            let is_of = |watched: &Watched| {
                let own = watched.upstream();
                own.key.server == member.upstream && own.does_for(&member.plan)
            };
            if let Some(place) = before.iter().position(is_of) {
                watching.held.push(before.swap_remove(place));
                continue;
            }
            match pool.open(member, caller) {
                Ok(watched) => watching.held.push(watched),
                Err(why) => watching.refused.push((member.upstream.clone(), why)),
            }
        }
        watching
    }

    /// Why there is no room for what is reached so, if there is none.
    pub(in crate::fleet) fn refusal_of(&self, upstream: &UpstreamKey) -> Option<NoRoom> {
        let mut refused = self.refused.iter();
        refused.find(|(key, _)| key == upstream).map(|(_, why)| *why)
    }
}

impl Key {
    fn of(member: &OwnMember, caller: &Caller) -> Self {
        Self {
            server: member.upstream.clone(),
            caller: caller.id_with(member.headers()),
        }
    }
}

fn has_outcome(state: &State) -> bool {
    state.catalog.is_some() || matches!(state.health, Health::Failed(_))
}

/// Tells of what changes of `own` until it is let go of, or nobody has used it for long; stops it then.
async fn keep(pool: Weak<Pool>, own: Arc<OwnUpstream>) {
    let mut state = own.state.clone();
    while let Some(idle_at) = pool.upgrade().map(|pool| pool.idle_at(&own)) {
        let look_at = idle_at.max(Instant::now() + defaults::LANE_SWEEP);
        tokio::select! {
            () = own.gone.cancelled() => break,
            changed = state.changed() => {
                let (Ok(()), Some(pool)) = (changed, pool.upgrade()) else { break };
                pool.weigh(&own);
                pool.tell();
            }
            () = sleep_until(look_at) => {
                if pool.upgrade().is_none_or(|pool| pool.remove_idle(&own, Instant::now())) {
                    break;
                }
            }
        }
    }
    own.upstream.stop().await;
}

#[cfg(test)]
mod tests;
