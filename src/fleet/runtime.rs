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

use super::access::Access;
use super::changes::Changes;
use super::held::Held;
use super::observation::{
    FederationObservation, MemberObservation, Observations, ServerObservation, UpstreamState, catalog_status,
    server_info,
};
use super::own::{Own, OwnMember, Pool};
use super::plan::{FederationPlan, FleetPlan, MemberPlan, ObjectKey, PlanInput, ServerPlan, plan};
use super::snapshot::{Alone, Federation, Fleet, Member, Offers};
use super::variation::{UpstreamKey, Variation};
use crate::defaults;
use crate::index::{self, Catalog, Index, MemberCatalog};
use crate::mcp::Mark;
use crate::metrics::{FederationMetrics, Metrics};
use crate::upstream::{Health, Introduction, State, Upstream};

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

/// A federation with what it was built from.
struct Served {
    plan: FederationPlan,
    inputs: Vec<MemberInput>,
    federation: Arc<Federation>,
}

/// What of a federation outlives a snapshot.
struct Lasting {
    mark: Mark,
    changes: Arc<Changes>,
    metrics: Arc<FederationMetrics>,
    /// What callers have for themselves, if they have anything.
    own: Option<Arc<Pool>>,
}

/// What a member is served from. What is replaced whole is compared by identity.
#[derive(Clone, Default)]
struct MemberInput {
    upstream: Option<Arc<Upstream>>,
    catalog: Option<Arc<Catalog>>,
    offers: Offers,
    /// How to use it, as its server says.
    instructions: Option<Arc<str>>,
    introduction: Introduction,
    /// How it is held, where callers have it for themselves.
    own: Option<ServerPlan>,
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
                self.metrics.forget_server(&key.to_string());
            }
        }
        for (key, server) in &planned.servers {
            if let Some(held) = self.upstreams.get_mut(key).filter(|held| held.does_for(server)) {
                held.refresh_for(server);
                continue;
            }
            let name = key.to_string();
            let metrics = self.metrics.server(&name);
            let upstream = Arc::new(Upstream::start(
                name,
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
        let federations = federations.map(|(key, served)| (key.clone(), observe_federation(served)));
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
                let peer = state.peer.as_deref();
                if held.plan.terms.forwards.is_some() {
                    return MemberInput::of_callers(&held.plan, &state, member);
                }
                MemberInput {
                    own: None,
                    instructions: peer.and_then(|peer| peer.instructions.clone()),
                    introduction: peer.map(|peer| peer.introduction.clone()).unwrap_or_default(),
                    upstream: Some(Arc::clone(&serving.upstream)),
                    catalog: state.catalog.clone(),
                    offers: peer
                        .map_or_else(Offers::default, |peer| Offers::of(peer, state.catalog.as_deref()))
                        .for_member(member),
                }
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
                Pool::start(changes, metrics, Arc::clone(&self.metrics))
            });
        } else if let Some(served) = known {
            self.close_own(served);
        }
        let served = Served {
            plan: planned.clone(),
            federation: Arc::new(build(key, planned, &inputs, lasting)),
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
        let servers = servers.map(|(key, held)| (key.server.clone(), observe_server(&held.plan, &held.state())));
        servers.collect()
    }
}

fn build(key: &ObjectKey, planned: &FederationPlan, inputs: &[MemberInput], lasting: Lasting) -> Federation {
    let catalogs: Vec<MemberCatalog> = planned
        .members
        .iter()
        .zip(inputs)
        .map(|(member, input)| MemberCatalog {
            name: member.name.clone(),
            // Who contributes nothing has nothing to be searched for either.
            selection: match member.problem {
                None => Arc::clone(&member.selection),
                Some(_) => Arc::default(),
            },
            server: member.server.name.clone(),
            prefix: member.prefix.clone(),
            skills: member.skills.clone().unwrap_or_default().into(),
            catalog: input
                .catalog
                .as_ref()
                .map(|catalog| Catalog::without(catalog, lasting.mark)),
        })
        .collect();
    let own = own(planned, inputs, lasting.own);
    let started = Instant::now();
    let index = Arc::new(Index::build(planned.index.clone(), catalogs));
    let micros = started.elapsed().as_micros();
    tracing::debug!(federation = %key, micros, "built the index");
    lasting.metrics.list_bytes(index.tools_bytes());
    let members = planned.members.iter().zip(inputs);
    Federation {
        name: key.to_string(),
        mark: lasting.mark,
        access: planned.access.clone(),
        origins: planned.origins.clone(),
        protocol: planned.protocol,
        sessions: planned.sessions,
        streams: planned.streams,
        members: members
            .map(|(m, input)| Member {
                name: m.name.clone(),
                server: m.server.to_string(),
                skills: m.skills.clone().unwrap_or_default(),
                upstream: input.upstream.clone(),
                offers: input.offers,
                instructions: input.instructions.clone(),
                introduction: input.introduction.clone(),
            })
            .collect(),
        alone: Alone::of(inputs.len()),
        is_alone: false,
        is_private: own.as_ref().is_some_and(Own::has_lists),
        own,
        absent: Vec::new(),
        index,
        discovery: planned.discovery,
        offers: inputs
            .iter()
            .fold(Offers::of_own(planned), |all, input| all.or(input.offers)),
        instructions: instructions(planned, inputs),
        own_instructions: planned.identity.instructions.clone(),
        server_info: planned.identity.server_info.clone(),
        apps: planned.apps.clone(),
        encoding: planned.encoding,
        extensions: planned.extensions.clone(),
        fanout_hops: planned.fanout_hops,
        page_size: planned.page_size,
        changes: lasting.changes,
        metrics: lasting.metrics,
    }
}

/// What callers of the federation have for themselves, held in `pool`.
fn own(planned: &FederationPlan, inputs: &[MemberInput], pool: Option<Arc<Pool>>) -> Option<Own> {
    let members = planned.members.iter().zip(inputs).enumerate();
    let own = members.filter_map(|(place, (member, input))| {
        OwnMember::of(place, member.upstream(), input.own.as_ref()?, member.has_skills())
    });
    let own: Vec<OwnMember> = own.collect();
    let others = inputs.iter().filter(|input| input.own.is_none());
    let offers = others.fold(Offers::of_own(planned), |all, input| all.or(input.offers));
    (!own.is_empty()).then_some(Own::new(pool?, own, planned.own_catalogs, offers))
}

/// What the federation says of how to use it, with what the servers of its members say.
fn instructions(planned: &FederationPlan, inputs: &[MemberInput]) -> String {
    let members = planned.members.iter().zip(inputs);
    let said = members.filter_map(|(member, input)| Some((member.name.as_str(), input.instructions.as_deref()?)));
    index::instructions::compose(planned.identity.instructions.as_deref(), said)
}

impl Served {
    /// Tells those who listen what is other than `before`.
    fn tell_changes(&self, before: &Self) {
        let (now, before) = (&self.federation, &before.federation);
        let lists = now.index.differs_from(&before.index)
            || now.discovery.show_all_allowed != before.discovery.show_all_allowed;
        let access = now.access != before.access
            || now.origins != before.origins
            || now.protocol != before.protocol
            || now.sessions.enabled != before.sessions.enabled;
        now.changes.tell(lists, access, now.streams.coalesce);
    }
}

impl MemberInput {
    /// What all callers see of a member that they have for themselves: what it offers at all, and its lists where those
    /// are everybody's. None of their requests goes over the connection that reads those.
    fn of_callers(plan: &ServerPlan, state: &State, member: &MemberPlan) -> Self {
        let peer = state.peer.as_deref();
        let catalog = state.catalog.clone().filter(|_| plan.terms.lists);
        let offers = peer.map_or_else(Offers::default, |peer| Offers::of(peer, catalog.as_deref()));
        Self {
            upstream: None,
            catalog,
            offers: offers.for_member(member),
            instructions: peer.and_then(|peer| peer.instructions.clone()),
            introduction: peer.map(|peer| peer.introduction.clone()).unwrap_or_default(),
            own: Some(plan.clone()),
        }
    }
}

impl PartialEq for MemberInput {
    fn eq(&self, other: &Self) -> bool {
        fn same<T>(a: Option<&Arc<T>>, b: Option<&Arc<T>>) -> bool {
            match (a, b) {
                (None, None) => true,
                (Some(a), Some(b)) => Arc::ptr_eq(a, b),
                _ => false,
            }
        }
        same(self.upstream.as_ref(), other.upstream.as_ref())
            && same(self.catalog.as_ref(), other.catalog.as_ref())
            && self.offers == other.offers
            && self.instructions == other.instructions
            && self.introduction == other.introduction
            && self.own == other.own
    }
}

fn observe_server(plan: &ServerPlan, state: &State) -> ServerObservation {
    ServerObservation {
        endpoint: plan.endpoint.clone(),
        state: match &state.health {
            Health::Connecting => UpstreamState::Connecting,
            Health::Ready => UpstreamState::Ready,
            // It is there, and wants to know who asks, which callers tell it.
            Health::Failed(error) if error.wants_credentials() && !plan.terms.lists => UpstreamState::Ready,
            Health::Failed(error) => UpstreamState::Failed {
                reason: error.reason(),
                message: error.to_string(),
            },
        },
        transport: state.peer.as_ref().map(|peer| peer.transport.as_str()),
        server_info: state.peer.as_deref().map(server_info),
        catalog: state
            .catalog
            .as_deref()
            .filter(|_| plan.terms.lists)
            .map(catalog_status),
    }
}

fn observe_federation(served: &Served) -> FederationObservation {
    let index = &served.federation.index;
    let members = served.plan.members.iter().enumerate();
    FederationObservation {
        members: members
            .map(|(place, member)| MemberObservation {
                name: member.name.clone(),
                server: member.server.clone(),
                prefix: member.prefix.clone(),
                problem: member
                    .problem
                    .as_ref()
                    .map(|problem| (problem.reason(), problem.to_string())),
                tools: index.tools_of(place),
                note: member.note(),
            })
            .collect(),
        index: index.status(),
        skill_problems: served
            .plan
            .skill_problems
            .iter()
            .map(|problem| (problem.why.reason, problem.to_string()))
            .collect(),
        unmatched: unmatched(&served.federation),
    }
}

/// What filters, overrides and rules of a federation name and nothing bears.
fn unmatched(federation: &Federation) -> Vec<String> {
    let mut all = federation.index.unmatched();
    if let Access::ApiKeys(keys) = &federation.access {
        let names: Vec<_> = keys.names().collect();
        let nobody = federation.index.rules().for_nobody(&names);
        let said = nobody.map(|(place, who)| format!("access.rules[{place}] says principals {who:?}, which is no key"));
        all.extend(said);
    }
    all
}
