//! A replica of `mcpfleet run` in this process, whose gateway is played by the test.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use kube::Client;
use mcpfleet::api::federation::IndexStatus;
use mcpfleet::api::server::{CatalogStatus, ServerInfo};
use mcpfleet::fleet::plan::plan;
use mcpfleet::fleet::{
    FederationObservation, MemberObservation, ObjectKey, Observations, PlanInput, ServerObservation, UpstreamState,
};
use mcpfleet::metrics::Metrics;
use mcpfleet::run::cluster::{self, ClusterError, Options};
use mcpfleet::run::lease::Times;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

/// Tools that every ready server of the played gateway has.
const TOOLS: usize = 3;

/// A running replica.
pub(crate) struct Replica {
    states: Arc<Mutex<BTreeMap<ObjectKey, UpstreamState>>>,
    input: watch::Receiver<Option<Arc<PlanInput>>>,
    news: watch::Sender<()>,
    stop: CancellationToken,
    task: JoinHandle<Result<(), ClusterError>>,
}

/// Options of a replica that watches `namespace` only, and also lives there.
pub(crate) fn options(namespace: &str) -> Options {
    Options {
        controller: true,
        namespaces: vec![namespace.to_owned()],
        namespace: Some(namespace.to_owned()),
        gateway_url: Some("http://gateway.test".to_owned()),
        lease: Times {
            lease: Duration::from_secs(3),
            renew: Duration::from_secs(2),
            retry: Duration::from_millis(200),
        },
        ..Options::default()
    }
}

impl Replica {
    /// Starts a replica. Every server is Connecting until [`Replica::tell`] says otherwise.
    pub(crate) fn start(client: Client, options: Options) -> Self {
        let states = Arc::<Mutex<BTreeMap<_, _>>>::default();
        let (news, heard) = watch::channel(());
        let (input_sender, input) = watch::channel(None);
        let stop = CancellationToken::new();
        let play = {
            let states = states.clone();
            move |plans: watch::Receiver<Arc<PlanInput>>| {
                let (sender, observations) = watch::channel(Arc::default());
                tokio::spawn(play(plans, heard, states, input_sender, sender));
                observations
            }
        };
        let metrics = Arc::new(Metrics::new().unwrap());
        let task = tokio::spawn(cluster::run(client, options, play, metrics, stop.clone()));
        Self {
            states,
            input,
            news,
            stop,
            task,
        }
    }

    /// From now on the gateway finds this server in this state.
    pub(crate) fn tell(&self, namespace: &str, name: &str, state: UpstreamState) {
        let mut states = self.states.lock().unwrap();
        states.insert(ObjectKey::new(namespace, name), state);
        self.news.send_replace(());
    }

    /// What the fleet is planned from now, once that is known.
    pub(crate) async fn input(&self) -> Arc<PlanInput> {
        let mut input = self.input.clone();
        input.wait_for(Option::is_some).await.unwrap().clone().unwrap()
    }

    /// What the fleet is planned from, now and as it changes.
    pub(crate) fn inputs(&self) -> watch::Receiver<Option<Arc<PlanInput>>> {
        self.input.clone()
    }

    /// Asks it to end, and waits until it did.
    pub(crate) async fn stop(self) {
        self.stop.cancel();
        self.task.await.unwrap().unwrap();
    }

    /// Ends it as a crash would: nothing is given back.
    pub(crate) async fn kill(self) {
        self.task.abort();
        let aborted = self.task.await;
        assert!(aborted.is_err());
    }
}

/// Waits until `look` finds something, for half a minute at most.
pub(crate) async fn until<T>(what: &str, mut look: impl AsyncFnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + Duration::from_secs(30);
    while Instant::now() < deadline {
        if let Some(found) = look().await {
            return found;
        }
        sleep(Duration::from_millis(50)).await;
    }
    panic!("not seen within 30 s: {what}");
}

/// The gateway: serves every federation as planned, and finds servers in the states that the test tells.
async fn play(
    mut plans: watch::Receiver<Arc<PlanInput>>,
    mut heard: watch::Receiver<()>,
    states: Arc<Mutex<BTreeMap<ObjectKey, UpstreamState>>>,
    input: watch::Sender<Option<Arc<PlanInput>>>,
    observations: watch::Sender<Arc<Observations>>,
) {
    loop {
        let current = plans.borrow_and_update().clone();
        let observed = observe(&current, &states.lock().unwrap());
        observations.send_if_modified(|before| {
            let differs = **before != observed;
            *before = Arc::new(observed);
            differs
        });
        input.send_replace(Some(current));
        tokio::select! {
            changed = plans.changed() => if changed.is_err() { return },
            changed = heard.changed() => if changed.is_err() { return },
        }
    }
}

fn observe(input: &PlanInput, states: &BTreeMap<ObjectKey, UpstreamState>) -> Observations {
    let plan = plan(input);
    let servers = plan.servers.iter().map(|(key, planned)| {
        let key = &key.server;
        let state = states.get(key).cloned().unwrap_or(UpstreamState::Connecting);
        let ready = state == UpstreamState::Ready;
        let observation = ServerObservation {
            endpoint: planned.endpoint.clone(),
            state,
            transport: None,
            server_info: ready.then(|| ServerInfo {
                name: key.name.clone(),
                version: "1.0.0".into(),
                protocol_version: "2025-11-25".into(),
                era: "Legacy".into(),
            }),
            catalog: ready.then(|| CatalogStatus {
                tools: 3,
                complete: true,
                ..CatalogStatus::default()
            }),
        };
        (key.clone(), observation)
    });
    let servers: BTreeMap<_, _> = servers.collect();
    let federations = plan.federations.iter().map(|(key, planned)| {
        let members: Vec<_> = planned
            .members
            .iter()
            .map(|member| MemberObservation {
                name: member.name.clone(),
                server: member.server.clone(),
                prefix: member.prefix.clone(),
                problem: member.problem.as_ref().map(|p| (p.reason(), p.to_string())),
                tools: match servers.get(&member.server) {
                    Some(server) if server.state == UpstreamState::Ready => TOOLS,
                    _ => 0,
                },
                note: member.note(),
            })
            .collect();
        let tools = members.iter().map(|member| member.tools).sum::<usize>();
        let observation = FederationObservation {
            members,
            index: IndexStatus {
                tools: i64::try_from(tools).unwrap(),
                ..IndexStatus::default()
            },
            skill_problems: Vec::new(),
            unmatched: Vec::new(),
        };
        (key.clone(), observation)
    });
    Observations {
        federations: federations.collect(),
        servers,
    }
}
