//! The running fleet: upstreams are started and stopped as the plan says, and every change of a catalog becomes a new
//! snapshot.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use tokio::sync::{Notify, watch};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::changes::Changes;
use super::held::Held;
use super::object_key::ObjectKey;
use super::observation::{FederationObservation, Observations, ServerObservation};
use super::own::Pool;
use super::plan::{FederationPlan, FleetPlan, PlanInput, plan};
use super::served::{Lasting, MemberInput, Served};
use super::snapshot::Fleet;
use super::variation::{UpstreamKey, Variation};
use crate::defaults;
use crate::mcp::Mark;
use crate::metrics::Metrics;
use crate::upstream::Upstream;

/// Which federation is served at the bare path `/mcp`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DefaultFederation {
    /// None.
    None,
    /// The only one, while there is only one.
    Single,
    /// This one.
    Named(ObjectKey),
}

/// A running fleet.
#[derive(Debug)]
pub struct Runtime {
    fleet: Arc<ArcSwap<Fleet>>,
    observations: watch::Receiver<Arc<Observations>>,
    stop: CancellationToken,
    task: JoinHandle<()>,
}

impl Runtime {
    /// Serves what `input` says, now and as it changes. Must be called within a runtime.
    pub fn start(input: watch::Receiver<Arc<PlanInput>>, default: DefaultFederation, metrics: Arc<Metrics>) -> Self {
        let fleet = Arc::new(ArcSwap::from_pointee(Fleet::default()));
        let (observe, observations) = watch::channel(Arc::default());
        let stop = CancellationToken::new();
        let keeper = Keeper {
            default,
            metrics,
            fleet: Arc::clone(&fleet),
            observe,
            changed: Arc::new(Notify::new()),
            upstreams: BTreeMap::new(),
            federations: BTreeMap::new(),
            unique: format!("{:x}", RandomState::new().build_hasher().finish()),
            stopping: TaskTracker::new(),
        };
        let task = tokio::spawn(keeper.run(input, stop.clone()));
        Self {
            fleet,
            observations,
            stop,
            task,
        }
    }

    /// What is served now.
    pub fn fleet(&self) -> Arc<ArcSwap<Fleet>> {
        Arc::clone(&self.fleet)
    }

    /// What the fleet shows of itself, now and as it changes.
    pub fn observations(&self) -> watch::Receiver<Arc<Observations>> {
        self.observations.clone()
    }

    /// Stops every upstream: sessions are ended, processes are gone when this returns.
    pub async fn stop(self) {
        self.stop.cancel();
        if let Err(error) = self.task.await {
            tracing::error!(%error, "the fleet's task ended badly");
        }
    }
}

struct Keeper {
    default: DefaultFederation,
    metrics: Arc<Metrics>,
    fleet: Arc<ArcSwap<Fleet>>,
    observe: watch::Sender<Arc<Observations>>,
    changed: Arc<Notify>,
    upstreams: BTreeMap<UpstreamKey, Held>,
    federations: BTreeMap<ObjectKey, Served>,
    /// What tells federations without an object from those of other processes.
    unique: String,
    stopping: TaskTracker,
}

impl Keeper {
    async fn run(mut self, mut input: watch::Receiver<Arc<PlanInput>>, stop: CancellationToken) {
        let mut planned = plan(&input.borrow_and_update().clone());
        let mut input_open = true;
        loop {
            self.hold(&planned);
            self.publish(&planned);
            tokio::select! {
                () = stop.cancelled() => break,
                changed = input.changed(), if input_open => match changed {
                    Ok(()) => planned = plan(&input.borrow_and_update().clone()),
                    // Nobody will change the plan any more; what it says is served on.
                    Err(_) => input_open = false,
                },
                // The first change of a burst is published at once, those that follow together.
                () = self.changed.notified() => {
                    self.publish(&planned);
                    sleep(defaults::COALESCE).await;
                }
            }
        }
        for (_, served) in std::mem::take(&mut self.federations) {
            self.close_own(&served);
        }
        for (_, held) in std::mem::take(&mut self.upstreams) {
            held.into_upstreams().for_each(|upstream| self.let_go(upstream));
        }
        self.stopping.close();
        self.stopping.wait().await;
    }

    /// Starts and stops upstreams so that exactly those of `planned` are held, and those before them for a while.
    fn hold(&mut self, planned: &FleetPlan) {
        let gone: Vec<UpstreamKey> = self
            .upstreams
            .keys()
            .filter(|key| !planned.servers.contains_key(key))
            .cloned()
            .collect();
        for key in gone {
            if let Some(held) = self.upstreams.remove(&key) {
                held.into_upstreams().for_each(|upstream| self.let_go(upstream));
                if key.variation == Variation::default() {
                    self.metrics.forget_server(&key.server.to_string());
                }
            }
        }
        for (key, server) in &planned.servers {
            if let Some(held) = self.upstreams.get_mut(key).filter(|held| held.does_for(server)) {
                held.refresh_for(server);
                continue;
            }
            let metrics = self.metrics.server(&key.server.to_string());
            let metrics = match key.variation == Variation::default() {
                true => metrics,
                false => metrics.for_some(),
            };
            let upstream = Arc::new(Upstream::start(
                key.to_string(),
                server.endpoint.clone(),
                server.terms.clone(),
                metrics,
            ));
            self.forward_changes(&upstream);
            let patience = server.terms.patience();
            match self.upstreams.entry(key.clone()) {
                Entry::Vacant(place) => drop(place.insert(Held::new(server.clone(), upstream))),
                Entry::Occupied(mut place) => {
                    let old = place
                        .get_mut()
                        .replace(server.clone(), upstream, Instant::now() + patience);
                    old.into_iter().for_each(|old| self.let_go(old));
                    self.look_again_after(patience);
                }
            }
        }
    }

    fn forward_changes(&self, upstream: &Upstream) {
        let (mut state, changed) = (upstream.state(), Arc::clone(&self.changed));
        tokio::spawn(async move {
            while state.changed().await.is_ok() {
                changed.notify_one();
            }
        });
    }

    fn look_again_after(&self, patience: Duration) {
        let changed = Arc::clone(&self.changed);
        tokio::spawn(async move {
            sleep(patience).await;
            changed.notify_one();
        });
    }

    fn let_go(&self, upstream: Arc<Upstream>) {
        self.stopping.spawn(async move { upstream.stop().await });
    }

    /// Builds the snapshot from what is known now, reusing every federation whose parts are unchanged.
    fn publish(&mut self, planned: &FleetPlan) {
        let now = Instant::now();
        let replaced: Vec<_> = self
            .upstreams
            .values_mut()
            .filter_map(|held| held.settle(now))
            .collect();
        // As they are before what follows, so that none is told to be ready which is not served yet.
        let servers = self.observed_servers();
        self.serve_all(planned);
        // Not before others serve in their places.
        replaced.into_iter().for_each(|upstream| self.let_go(upstream));
        let federations = self.federations.iter();
        let federations =
            federations.map(|(key, served)| (key.clone(), FederationObservation::of(&served.plan, &served.federation)));
        let observed = Observations {
            federations: federations.collect(),
            servers,
        };
        self.observe.send_if_modified(|known| {
            let differs = **known != observed;
            if differs {
                *known = Arc::new(observed);
            }
            differs
        });
    }

    fn serve_all(&mut self, planned: &FleetPlan) {
        let gone: Vec<ObjectKey> = self
            .federations
            .keys()
            .filter(|key| !planned.federations.contains_key(key))
            .cloned()
            .collect();
        let mut changed = !gone.is_empty();
        let mut ended = Vec::with_capacity(gone.len());
        for key in gone {
            ended.extend(self.federations.remove(&key));
            self.metrics.forget_federation(&key.to_string());
        }
        let mut replaced = Vec::new();
        for (key, federation) in &planned.federations {
            if let Some(before) = self.serve(key, federation) {
                changed = true;
                replaced.extend(before.map(|before| (key, before)));
            }
        }
        if changed {
            let default = self.default_name();
            let served = self.federations.values().map(|served| Arc::clone(&served.federation));
            self.fleet.store(Arc::new(Fleet::new(served, default.as_deref())));
        }
        // Not before it is served: who hears of a change and asks at once must see it.
        for (key, before) in replaced {
            if let Some(served) = self.federations.get(key) {
                served.tell_changes(&before);
            }
        }
        for served in ended {
            served.federation.changes.end();
            self.close_own(&served);
        }
    }

    /// Stops what callers have for themselves of a federation that is served no longer.
    fn close_own(&self, served: &Served) {
        if let Some(own) = &served.federation.own {
            let pool = Arc::clone(own.pool());
            self.stopping.spawn(async move { pool.close().await });
        }
    }

    /// Builds one federation anew if anything that it is made of changed, and gives what was served before, if so.
    fn serve(&mut self, key: &ObjectKey, planned: &FederationPlan) -> Option<Option<Served>> {
        let inputs: Vec<_> = planned
            .members
            .iter()
            .map(|member| {
                if member.problem.is_some() {
                    return MemberInput::default();
                }
                let Some(held) = self.upstreams.get(&member.upstream()) else {
                    return MemberInput::default();
                };
                let serving = held.serving();
                let state = serving.state();
                if held.plan.terms.forwards.is_some() {
                    return MemberInput::of_callers(&held.plan, &state, member);
                }
                MemberInput::of_all(&serving.upstream, &state, member)
            })
            .collect();
        let known = self.federations.get(key);
        if known.is_some_and(|served| served.plan == *planned && served.inputs == inputs) {
            return None;
        }
        let mark = Mark::new(planned.uid.as_deref().unwrap_or(&self.unique), &key.to_string());
        let mut lasting = match known {
            Some(served) => Lasting {
                mark,
                changes: Arc::clone(&served.federation.changes),
                metrics: Arc::clone(&served.federation.metrics),
                own: served.federation.own.as_ref().map(|own| Arc::clone(own.pool())),
            },
            None => Lasting {
                mark,
                changes: Arc::new(Changes::start(planned.streams.coalesce)),
                metrics: Arc::new(self.metrics.federation(&key.to_string())),
                own: None,
            },
        };
        if inputs.iter().any(|input| input.own.is_some()) {
            lasting.own.get_or_insert_with(|| {
                let (changes, metrics) = (Arc::clone(&lasting.changes), Arc::clone(&lasting.metrics));
                Pool::start(key.to_string(), changes, metrics, Arc::clone(&self.metrics))
            });
        } else if let Some(served) = known {
            self.close_own(served);
        }
        let served = Served {
            plan: planned.clone(),
            federation: Arc::new(lasting.built(key, planned, &inputs)),
            inputs,
        };
        Some(self.federations.insert(key.clone(), served))
    }

    fn default_name(&self) -> Option<String> {
        let key = match &self.default {
            DefaultFederation::None => None,
            DefaultFederation::Named(key) => Some(key),
            DefaultFederation::Single => self.federations.keys().next().filter(|_| self.federations.len() == 1),
        };
        key.map(ObjectKey::to_string)
    }

    fn observed_servers(&self) -> BTreeMap<ObjectKey, ServerObservation> {
        let servers = self.upstreams.iter();
        // Of a server that is told which its owner means.
        let servers = servers.filter(|(key, _)| key.variation == Variation::default());
        let servers = servers.map(|(key, held)| (key.server.clone(), ServerObservation::of(&held.plan, &held.state())));
        servers.collect()
    }
}
