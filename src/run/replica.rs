//! `mcpfleet run`: one replica in a cluster, control plane and gateway by role.

use std::sync::Arc;

use arc_swap::ArcSwapOption;
use tokio::sync::{oneshot, watch};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::admin::Admin;
use super::cluster::{self, Options};
use super::lease::Times;
use super::{cores, readiness, signals};
use crate::args::{Role, Run};
use crate::cores::Cores;
use crate::fleet::{DefaultFederation, Runtime};
use crate::gateway::Gateway;
use crate::gateway::session::{Keyring, Sessions};
use crate::metrics::Metrics;

/// Serves and reconciles the cluster's objects until the process is asked to stop.
///
/// # Errors
/// When no cluster is configured, an address cannot be listened on, or a part ended that must not.
pub async fn run(options: Run) -> anyhow::Result<()> {
    let stop = signals::stop_token()?;
    let metrics = Arc::new(Metrics::new()?);
    let client = cluster::connect().await?;
    let gateway = match options.role {
        Role::Controller => None,
        Role::Gateway | Role::All => Some(Gateway::bind(options.listen).await?),
    };
    if let Some(gateway) = &gateway {
        tracing::info!(address = %gateway.address(), "listening");
    }
    let admin = Admin::bind(options.admin_listen).await?;
    tracing::info!(address = %admin.address(), "admin is listening");
    let (ready, readiness) = watch::channel(false);
    let admin_stop = CancellationToken::new();
    let admin = tokio::spawn(admin.serve(Arc::clone(&metrics), readiness, admin_stop.clone()));

    let default = options
        .default_federation
        .clone()
        .map_or(DefaultFederation::None, DefaultFederation::Named);
    let (hand_over, started) = oneshot::channel();
    let fleet_metrics = Arc::clone(&metrics);
    let keyring = Arc::new(ArcSwapOption::empty());
    let sessions = Arc::new(Sessions::new(Arc::clone(&keyring), metrics.sessions()));
    let session_keys = gateway.is_some().then_some(keyring);
    let gateway = match gateway {
        Some(gateway) => Some((gateway, cores()?)),
        None => None,
    };
    let served = tokio::spawn(serve(started, gateway, sessions, stop.clone(), options.drain_timeout));
    let outcome = cluster::run(
        client,
        cluster_options(&options, session_keys),
        move |input| {
            let runtime = Runtime::start(input, default, fleet_metrics);
            let observations = runtime.observations();
            tokio::spawn(readiness::watch(observations.clone(), ready));
            // The receiver lives as long as the process does not stop.
            drop(hand_over.send(runtime));
            observations
        },
        metrics,
        stop.clone(),
    )
    .await;
    stop.cancel();
    ended(served).await;
    admin_stop.cancel();
    ended(admin).await;
    Ok(outcome?)
}

/// Serves clients from the fleet as soon as there is one, and lets go of its servers in the end.
async fn serve(
    started: oneshot::Receiver<Runtime>,
    gateway: Option<(Gateway, Arc<Cores>)>,
    sessions: Arc<Sessions>,
    stop: CancellationToken,
    drain: std::time::Duration,
) {
    let runtime = tokio::select! {
        biased;
        runtime = started => runtime,
        () = stop.cancelled() => return,
    };
    let Ok(runtime) = runtime else { return };
    let Some((gateway, cores)) = gateway else {
        stop.cancelled().await;
        return runtime.stop().await;
    };
    gateway
        .serve(Arc::clone(&cores), runtime.fleet(), sessions, stop, drain)
        .await;
    // Calls may have opened connections on the cores, which are closed in order here.
    runtime.stop().await;
    drop(cores);
}

fn cluster_options(options: &Run, session_keys: Option<Arc<ArcSwapOption<Keyring>>>) -> Options {
    Options {
        controller: options.role != Role::Gateway,
        class: options.class.clone(),
        namespaces: options.watch_namespaces.clone(),
        namespace: std::env::var("POD_NAMESPACE").ok(),
        pod: std::env::var("POD_NAME").ok(),
        gateway_url: options.public_url.clone(),
        session_keys,
        lease: Times::default(),
    }
}

async fn ended(task: JoinHandle<()>) {
    if let Err(error) = task.await {
        tracing::error!(%error, "a task ended badly");
    }
}
