//! The upstreams that callers have for themselves: opened when they are first needed, bounded, and let go of when nobody
//! uses them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until, timeout_at};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::OwnMember;
use super::recent::Recent;
use crate::defaults;
use crate::fleet::caller::{Caller, CallerId};
use crate::fleet::changes::Changes;
use crate::fleet::plan::ServerPlan;
use crate::fleet::variation::UpstreamKey;
use crate::index::Catalog;
use crate::metrics::{FederationMetrics, Metrics};
use crate::upstream::{Health, State, Upstream};

/// The upstreams that callers of one federation have for themselves.
#[derive(Debug)]
pub(in crate::fleet) struct Pool {
    table: Mutex<Table>,
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
    pub(super) upstream: Arc<Upstream>,
    key: Key,
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

/// Upstreams that somebody wants to hear of, until this is dropped.
#[derive(Debug)]
pub struct Watching(Vec<Arc<OwnUpstream>>);

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Key {
    server: UpstreamKey,
    caller: CallerId,
}

#[derive(Debug, Default)]
struct Table {
    held: Recent<Key, Arc<OwnUpstream>>,
    most: usize,
    opened: u64,
    /// The marks by which lists were read again last.
    marks: BTreeMap<UpstreamKey, BTreeSet<String>>,
    is_closed: bool,
}

impl Pool {
    /// An empty pool; tells of what changes by `changes`. Must be called within a runtime.
    pub(in crate::fleet) fn start(
        changes: Arc<Changes>,
        metrics: Arc<FederationMetrics>,
        servers: Arc<Metrics>,
    ) -> Arc<Self> {
        Arc::new(Self {
            table: Mutex::default(),
            changes,
            metrics,
            servers,
            runtime: Handle::current(),
            tasks: TaskTracker::new(),
            epoch: Instant::now(),
        })
    }

    /// Lets go of what is not of these members as they are planned now, and of what there are more than `most` of; has
    /// lists read again that are to be.
    pub(super) fn settle(&self, members: &[OwnMember], most: usize) {
        let planned: BTreeMap<&UpstreamKey, &Arc<ServerPlan>> =
            members.iter().map(|member| (&member.upstream, &member.plan)).collect();
        let mut table = self.table();
        table.most = most;
        let is_planned =
            |key: &Key, own: &Arc<OwnUpstream>| planned.get(&key.server).is_some_and(|plan| own.does_for(plan));
        let mut gone = table.held.remove_unless(is_planned);
        gone.extend(table.trimmed());
        let marks = planned.iter().map(|(key, plan)| ((*key).clone(), plan.refresh.clone()));
        let before = std::mem::replace(&mut table.marks, marks.collect());
        for own in table.held.values() {
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
    pub(super) fn peek(&self, member: &OwnMember, caller: &Caller) -> Option<Arc<OwnUpstream>> {
        let table = self.table();
        let own = table.held.peek(&Key::of(member, caller))?;
        own.does_for(&member.plan).then(|| Arc::clone(own))
    }

    /// What `caller` has of `member`, which is opened if need be; `None` where nothing is opened any more.
    pub(super) fn open(self: &Arc<Self>, member: &OwnMember, caller: &Caller) -> Option<Arc<OwnUpstream>> {
        let key = Key::of(member, caller);
        let mut table = self.table();
        if table.is_closed {
            return None;
        }
        let known = table.held.get(&key).filter(|own| own.does_for(&member.plan)).cloned();
        if let Some(own) = known {
            own.used.store(self.now(), Ordering::Release);
            return Some(own);
        }
        table.opened += 1;
        let own = Arc::new(self.begin(member, caller, key.clone(), table.opened));
        let before = table.held.insert(key, Arc::clone(&own), 0);
        let gone: Vec<_> = before.into_iter().chain(table.trimmed()).collect();
        self.metrics.own_catalog_opened();
        self.count(&table);
        drop(table);
        self.metrics.own_catalogs_evicted(gone.len());
        gone.iter().for_each(|own| own.gone.cancel());
        let watch = keep(Arc::downgrade(self), Arc::clone(&own));
        drop(self.tasks.spawn_on(watch, &self.runtime));
        Some(own)
    }

    /// Stops all of them; none is opened any more.
    pub(in crate::fleet) async fn close(&self) {
        let gone = {
            let mut table = self.table();
            table.is_closed = true;
            let gone = table.held.remove_unless(|_, _| false);
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
        let metrics = self.servers.server(&name).of_caller();
        let upstream = {
            let _within = self.runtime.enter();
            Arc::new(Upstream::start_for_caller(name, endpoint, terms, metrics))
        };
        OwnUpstream {
            number,
            key,
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
        let is_held = table.held.peek(&own.key).is_some_and(|held| held.number == own.number);
        if is_held {
            table.held.reweigh(&own.key, weight);
        }
        let gone = table.trimmed();
        self.count(&table);
        drop(table);
        self.metrics.own_catalogs_evicted(gone.len());
        gone.iter().for_each(|own| own.gone.cancel());
    }

    /// Takes `own` out if nobody has used it for long.
    fn remove_idle(&self, own: &OwnUpstream) -> bool {
        let mut table = self.table();
        let is_idle = self.idle_at(own) <= Instant::now() && !own.is_in_use();
        if is_idle && table.held.peek(&own.key).is_some_and(|held| held.number == own.number) {
            table.held.remove(&own.key);
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
        self.metrics.own_catalogs(table.held.len());
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Table {
    /// Takes out what is too much: first what is of no use, so that nobody drives out others with credentials that no
    /// server takes, then what nobody is about, and of that what was used least recently.
    fn trimmed(&mut self) -> Vec<Arc<OwnUpstream>> {
        let mut gone = Vec::new();
        while self.held.len() > self.most.max(1)
            || (self.held.weight() > defaults::OWN_CATALOGS_BYTES_MAX && self.held.len() > 1)
        {
            gone.extend(self.held.remove_oldest(|own| (own.is_in_use(), own.is_of_use())));
        }
        gone
    }
}

impl OwnUpstream {
    /// What is known of it.
    pub(super) fn state(&self) -> Arc<State> {
        self.state.borrow().clone()
    }

    /// Waits until it has lists or failed, though not longer than reading a list may take.
    pub(super) async fn settled(&self, pool: &Pool) {
        let mut state = self.state.clone();
        let known = state.wait_for(|state| has_outcome(state));
        let in_time = match self.plan.terms.timeouts.list {
            Some(limit) => timeout_at(self.begun + limit, known).await.is_ok(),
            None => known.await.is_ok(),
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
    pub(super) fn is_settled(&self) -> bool {
        self.is_overdue.load(Ordering::Acquire) || has_outcome(&self.state.borrow())
    }

    fn does_for(&self, plan: &ServerPlan) -> bool {
        self.plan.endpoint == plan.endpoint && self.plan.terms == plan.terms
    }

    /// Whether its server takes what the caller presents, as far as is known.
    fn is_of_use(&self) -> bool {
        let state = self.state.borrow();
        state.catalog.is_some() || !matches!(state.health, Health::Failed(_))
    }

    fn is_in_use(&self) -> bool {
        self.watchers.load(Ordering::Acquire) > 0 || self.upstream.is_at_work()
    }
}

impl Watching {
    pub(super) fn of(held: Vec<Arc<OwnUpstream>>) -> Self {
        for own in &held {
            own.watchers.fetch_add(1, Ordering::AcqRel);
        }
        Self(held)
    }

    /// Whether these members are planned as they were when it began.
    pub(super) fn is_of(&self, members: &[OwnMember]) -> bool {
        let planned = |member: &OwnMember| {
            let mut own = self.0.iter().filter(|own| own.key.server == member.upstream);
            own.any(|own| own.does_for(&member.plan))
        };
        members.iter().all(planned)
    }
}

impl Drop for Watching {
    fn drop(&mut self) {
        for own in &self.0 {
            own.watchers.fetch_sub(1, Ordering::AcqRel);
        }
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
                if pool.upgrade().is_none_or(|pool| pool.remove_idle(&own)) {
                    break;
                }
            }
        }
    }
    own.upstream.stop().await;
}
