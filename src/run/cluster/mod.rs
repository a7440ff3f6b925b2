//! `mcpfleet run`: the edge of the cluster.
//!
//! Every replica watches the objects, reads what they refer to, and publishes what the fleet is planned from. The
//! replica that holds the lease also runs the control plane on the same memory. The fleet and the gateway are started
//! by the caller's hook, with one channel in and one out.

pub mod convert;
mod references;
mod session_keys;
mod watches;

use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwapOption;
use kube::{Client, Config};
use tokio::sync::{Notify, watch};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tracing::info;

use self::convert::{plan_input, wanted};
use self::references::ReferenceCache;
use self::watches::Watches;
use super::lease::{Election, ElectionError, Times};
use crate::fleet::{Observations, PlanInput, References};
use crate::gateway::session::Keyring;
use crate::metrics::Metrics;
use crate::operator::root_key::ROOT_KEY;
use crate::operator::{Install, Links, Mandate, State, lead};

/// Changes within this time lead to one new input.
const COALESCE: Duration = Duration::from_millis(50);

/// An answer of the API server may pause for this long; a watch is renewed after 290 s.
const READ_TIMEOUT: Duration = Duration::from_secs(300);

/// How this process takes part.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Whether it stands for election and, when elected, writes workloads and status.
    pub controller: bool,
    /// Which objects it owns: those with this `spec.class`; `None` owns those without one.
    pub class: Option<String>,
    /// The namespaces it watches; all where none is named.
    pub namespaces: Vec<String>,
    /// The namespace it runs in, for its lease and its root key; the client's default where absent.
    pub namespace: Option<String>,
    /// Name of its pod.
    pub pod: Option<String>,
    /// The address that clients reach the gateway by, for `status.url` of federations.
    pub gateway_url: Option<String>,
    /// Where the keys of clients' sessions go, if it serves clients.
    pub session_keys: Option<Arc<ArcSwapOption<Keyring>>>,
    /// How long leader election takes.
    pub lease: Times,
}

/// Why running ended.
#[derive(Debug, thiserror::Error)]
pub enum ClusterError {
    /// Nothing says which cluster this is, or how to reach it.
    #[error(
        "no cluster: {0}; set KUBECONFIG, run in a pod with a service account, or use mcpfleet up without a cluster"
    )]
    NoCluster(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// A part that should run for ever ended.
    #[error("a watch of the cluster ended{0}")]
    Ended(String),
    /// Leader election ended.
    #[error(transparent)]
    Election(#[from] ElectionError),
    /// The system gives no random bytes.
    #[error("no random bytes for this replica's name in the lease")]
    Random,
}

/// A client of the cluster that the kubeconfig names, or else of the one that this pod runs in.
///
/// # Errors
/// There is neither, or it cannot be used.
pub async fn connect() -> Result<Client, ClusterError> {
    let mut config = Config::infer()
        .await
        .map_err(|error| ClusterError::NoCluster(error.into()))?;
    // An API server that accepts and never answers must not hold a list for ever. Watches end by themselves before.
    config.read_timeout = Some(READ_TIMEOUT);
    config.reset_reader_on_write = true;
    Client::try_from(config).map_err(|error| ClusterError::NoCluster(error.into()))
}

/// Runs until `stop`. Once everything in the cluster was seen, `fleet` is called with what to plan from, as it changes,
/// and gives back what is observed of the running fleet.
///
/// # Errors
/// A part ended that must not, and the process must end as well: another replica takes over.
pub async fn run(
    client: Client,
    options: Options,
    fleet: impl FnOnce(watch::Receiver<Arc<PlanInput>>) -> watch::Receiver<Arc<Observations>>,
    metrics: Arc<Metrics>,
    stop: CancellationToken,
) -> Result<(), ClusterError> {
    let install = Install {
        class: options.class,
        namespace: options
            .namespace
            .unwrap_or_else(|| client.default_namespace().to_owned()),
        cluster_wide: options.namespaces.is_empty(),
        links: Links {
            base: options.gateway_url,
        },
        instance: options.pod,
    };
    let mut tasks = JoinSet::new();
    let news = Arc::new(Notify::new());
    let watches = Watches::start(&client, &options.namespaces, &news, &mut tasks);
    let scopes = watches.scopes.clone();
    if let Some(keyring) = options.session_keys {
        let secret = install.named(ROOT_KEY);
        tasks.spawn(session_keys::keep(
            client.clone(),
            install.namespace.clone(),
            secret,
            keyring,
        ));
    }

    let desk = Desk {
        client: client.clone(),
        install: install.clone(),
        workloads: options.controller,
        watches,
        news,
        cache: ReferenceCache::default(),
    };
    let (sender, mut seen) = watch::channel(None);
    tasks.spawn(desk.run(sender));
    tokio::select! {
        () = stop.cancelled() => return Ok(()),
        ended = tasks.join_next() => return Err(ended_early(ended)),
        _ = seen.wait_for(Option::is_some) => {}
    }
    let Some(Published { input, references }) = seen.borrow().clone() else {
        return Err(ClusterError::Ended(String::new()));
    };
    info!(namespaces = ?options.namespaces, "everything in the cluster was seen once");
    let observations = fleet(input.clone());

    if !options.controller {
        tokio::select! {
            () = stop.cancelled() => return Ok(()),
            ended = tasks.join_next() => return Err(ended_early(ended)),
        }
    }
    let state = State {
        input,
        references,
        observations,
    };
    let identity = identity(install.instance.as_deref())?;
    let lease = install.named("mcpfleet");
    let election = Election::new(client.clone(), &install.namespace, lease, identity, options.lease);
    let elected = election.run(stop, |term| {
        let mandate = Mandate::new(move || term.holds());
        lead(
            client.clone(),
            install.clone(),
            scopes.clone(),
            state.clone(),
            metrics.clone(),
            mandate,
        )
    });
    tokio::select! {
        result = elected => Ok(result?),
        ended = tasks.join_next() => Err(ended_early(ended)),
    }
}

/// The channels that the desk publishes on.
#[derive(Clone)]
struct Published {
    input: watch::Receiver<Arc<PlanInput>>,
    references: watch::Receiver<Arc<References>>,
}

/// Turns what is watched into what the fleet is planned from, whenever it changes.
struct Desk {
    client: Client,
    install: Install,
    workloads: bool,
    watches: Watches,
    news: Arc<Notify>,
    cache: ReferenceCache,
}

impl Desk {
    async fn run(mut self, published: watch::Sender<Option<Published>>) {
        self.watches.seen().await;
        let (input_sender, input) = watch::channel(Arc::default());
        let (references_sender, references) = watch::channel(Arc::default());
        loop {
            let objects = self.watches.objects(&self.install);
            let wanted = wanted(&objects, self.workloads);
            let again = self.cache.update(&self.client, &wanted, &self.watches.versions).await;
            let references_now = self.cache.snapshot();
            let input_now = plan_input(&objects, &references_now);
            send_if_new(&references_sender, references_now);
            send_if_new(&input_sender, input_now);
            if published.borrow().is_none() {
                published.send_replace(Some(Published {
                    input: input.clone(),
                    references: references.clone(),
                }));
            }
            tokio::select! {
                () = self.news.notified() => {}
                () = tokio::time::sleep(again.unwrap_or_default()), if again.is_some() => {}
            }
            tokio::time::sleep(COALESCE).await;
        }
    }
}

fn send_if_new<T: PartialEq>(sender: &watch::Sender<Arc<T>>, new: T) {
    sender.send_if_modified(|current| {
        let differs = **current != new;
        if differs {
            *current = Arc::new(new);
        }
        differs
    });
}

/// This process's name in the lease: a restarted container must not take the lease of its former life for its own.
fn identity(pod: Option<&str>) -> Result<String, ClusterError> {
    let mut random = [0; 8];
    aws_lc_rs::rand::fill(&mut random).map_err(|_| ClusterError::Random)?;
    Ok(format!(
        "{}_{:016x}",
        pod.unwrap_or("mcpfleet"),
        u64::from_ne_bytes(random)
    ))
}

fn ended_early(ended: Option<Result<(), tokio::task::JoinError>>) -> ClusterError {
    let how = ended.and_then(Result::err).map(|error| format!(": {error}"));
    ClusterError::Ended(how.unwrap_or_default())
}
