//! `mcpfleet up`: manifests on this machine, without a cluster.

use std::collections::BTreeMap;
use std::io::Write;
use std::net::SocketAddr;
use std::sync::Arc;

use arc_swap::ArcSwapOption;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::admin::Admin;
use super::endpoints::Endpoints;
use super::launch::{self, Launcher};
use super::watch::FileWatch;
use super::{progress, readiness, signals};
use crate::api::DEFAULT_NAMESPACE;
use crate::args::Up;
use crate::defaults;
use crate::fleet::access::access_reference;
use crate::fleet::input::federation_input;
use crate::fleet::plan::ServerInput;
use crate::fleet::{
    Content, DefaultFederation, ObjectKey, Observations, PlanInput, Reference, ReferenceKind, References, Runtime,
};
use crate::gateway::Gateway;
use crate::gateway::session::{Keyring, Sessions};
use crate::manifest::{self, CommandServer, Manifests, Problem, Problems, Sources};
use crate::metrics::Metrics;
use crate::upstream::{Endpoint, Program, StdioCommand, Terms, Timeouts};

/// Serves the manifests until the process is asked to stop.
///
/// # Errors
/// When a manifest is wrong or an address cannot be listened on; nothing has been started then.
pub async fn up(options: Up) -> anyhow::Result<()> {
    let reading = manifest::Options {
        loopback: options.listen.ip().is_loopback(),
        environment: manifest::environment(),
    };
    let mut sources = Sources::new(options.paths.clone());
    let mut files = FileWatch::new(options.paths.clone());
    let read = manifest::load(&mut sources, &reading);
    let mut warned = warn_of(read.warnings, &[]);
    let manifests = read
        .manifests
        .map_err(|problems| explained(&problems, options.listen))?;
    let default = default_federation(&options, &manifests)?;

    let metrics = Arc::new(Metrics::new()?);
    // Whoever restarts the process ends all sessions; there is nowhere to keep a key.
    let keyring = Arc::new(ArcSwapOption::from_pointee(Keyring::random()?));
    let sessions = Sessions::new(keyring, metrics.sessions());
    let stop = signals::stop_token()?;
    let gateway = Gateway::bind(options.listen).await?;
    let admin = Admin::bind(options.admin_listen).await?;
    let address = gateway.address();
    say(&format!("listening on http://{address}"));
    say(&format!("admin on http://{}", admin.address()));

    let launcher = Launcher::new();
    let planned = plan_input(&launcher, &manifests).await;
    tell_access(&PlanInput::default(), &planned);
    let (input, inputs) = watch::channel(Arc::new(planned));
    let endpoints = Endpoints {
        address,
        default: default.clone(),
    };
    let runtime = Runtime::start(inputs, default, Arc::clone(&metrics));
    let (ready, readiness) = watch::channel(false);
    let tasks = vec![
        tokio::spawn(gateway.serve(runtime.fleet(), Arc::new(sessions), stop.clone(), options.drain_timeout)),
        tokio::spawn(tell_progress(endpoints, runtime.observations(), stop.clone())),
        tokio::spawn(readiness::watch(runtime.observations(), ready)),
    ];
    let admin_stop = CancellationToken::new();
    let admin = tokio::spawn(admin.serve(metrics, readiness, admin_stop.clone()));

    loop {
        tokio::select! {
            () = stop.cancelled() => break,
            () = files.changed() => {}
        }
        let read = manifest::load(&mut sources, &reading);
        warned = warn_of(read.warnings, &warned);
        match read.manifests {
            Err(problems) => {
                let problems = explained(&problems, options.listen);
                tracing::error!("the change is not taken, what ran before goes on:\n{problems}");
            }
            Ok(manifests) => {
                let planned = plan_input(&launcher, &manifests).await;
                let before = input.borrow().clone();
                if *before != planned {
                    say("manifests changed");
                    tell_access(&before, &planned);
                    input.send_replace(Arc::new(planned));
                }
            }
        }
    }

    say("stopping");
    wait_for(tasks).await;
    runtime.stop().await;
    launcher.stop().await;
    admin_stop.cancel();
    wait_for(vec![admin]).await;
    Ok(())
}

/// What the planner needs, out of the files' objects. Containers start on the way.
async fn plan_input(launcher: &Launcher, manifests: &Manifests) -> PlanInput {
    let references = references(manifests);
    let mut servers = launcher.launch(&manifests.servers, &references).await;
    for (input, server) in servers.iter_mut().zip(&manifests.servers) {
        let is_process = matches!(input.endpoint, Ok(Endpoint::Stdio(_)));
        let says_how_long = server
            .spec
            .timeouts
            .as_ref()
            .is_some_and(|timeouts| timeouts.connect.is_some());
        if is_process && !says_how_long {
            input.terms.timeouts.connect = defaults::PROCESS_START_TIMEOUT;
        }
    }
    servers.extend(manifests.commands.iter().map(command_input));
    let federations = manifests.federations.iter();
    let federations: Vec<_> = federations
        .map(|federation| federation_input(federation, &references))
        .collect();
    let namespaces = federations.iter().map(|federation| &federation.key.namespace);
    PlanInput {
        servers,
        namespaces: namespaces
            .map(|name| (name.clone(), manifest::namespace_labels(name)))
            .collect(),
        federations,
    }
}

fn command_input(command: &CommandServer) -> ServerInput {
    ServerInput {
        key: ObjectKey::new(DEFAULT_NAMESPACE, &command.name),
        labels: BTreeMap::new(),
        allowed_namespaces: Default::default(),
        disabled: false,
        terms: Terms {
            timeouts: Timeouts {
                connect: defaults::PROCESS_START_TIMEOUT,
                ..Timeouts::default()
            },
            ..Terms::default()
        },
        endpoint: Ok(Endpoint::Stdio(StdioCommand {
            program: Program::shown_as(&command.program, &command.written),
            args: command.args.clone(),
            env: command.env.clone(),
            cwd: command.cwd.clone(),
        })),
    }
}

fn references(manifests: &Manifests) -> References {
    let servers = manifests.servers.iter().flat_map(launch::named_references);
    let federations = manifests.federations.iter().filter_map(|federation| {
        let namespace = federation.metadata.namespace.as_deref().unwrap_or(DEFAULT_NAMESPACE);
        access_reference(&federation.spec, namespace)
    });
    launch::references(servers.chain(federations), &contents(manifests))
}

fn contents(manifests: &Manifests) -> BTreeMap<Reference, Content> {
    let secrets = manifests.secrets.iter().map(|secret| {
        let reference = Reference::new(ReferenceKind::Secret, &secret.namespace, &secret.name);
        (reference, Content::Found(secret.data.clone()))
    });
    let config_maps = manifests.config_maps.iter().map(|map| {
        let reference = Reference::new(ReferenceKind::ConfigMap, &map.namespace, &map.name);
        (reference, Content::Found(map.data.clone()))
    });
    secrets.chain(config_maps).collect()
}

fn default_federation(options: &Up, manifests: &Manifests) -> anyhow::Result<DefaultFederation> {
    let Some(key) = &options.default_federation else {
        return Ok(DefaultFederation::Single);
    };
    let known = manifests.federations.iter().any(|federation| {
        federation.metadata.name.as_deref() == Some(&key.name)
            && federation.metadata.namespace.as_deref().unwrap_or(DEFAULT_NAMESPACE) == key.namespace
    });
    anyhow::ensure!(
        known,
        "--default-federation {key}: no MCPFederation of that name is in the files"
    );
    Ok(DefaultFederation::Named(key.clone()))
}

/// Tells those of `warnings` that were not among the last ones, and gives them all back.
fn warn_of(warnings: Vec<Problem>, last: &[Problem]) -> Vec<Problem> {
    for warning in warnings.iter().filter(|warning| !last.contains(warning)) {
        tracing::warn!("{warning}");
    }
    warnings
}

/// What is wrong with manifests, and, where that is wrong only on the address `listen`, why it is there.
fn explained(problems: &Problems, listen: SocketAddr) -> anyhow::Error {
    let of_access = |problem: &Problem| problem.field.as_deref() == Some("spec.access");
    if listen.ip().is_loopback() || !problems.0.iter().any(of_access) {
        return anyhow::anyhow!("{problems}");
    }
    anyhow::anyhow!(
        "{problems}\n--listen {listen} can be reached from other machines, so each federation must say who may connect; \
         on a loopback address, such as --listen 127.0.0.1:{}, it need not",
        listen.port()
    )
}

/// Prints what is wrong with the access of a federation, where that is news.
fn tell_access(before: &PlanInput, now: &PlanInput) {
    for federation in &now.federations {
        let old = before.federations.iter().find(|old| old.key == federation.key);
        let problem = federation.access.problem();
        if let Some(problem) = problem.filter(|_| old.is_none_or(|old| old.access.problem() != problem)) {
            say(&format!("federation {}: {}", federation.key, problem.message));
        }
    }
}

/// Prints how endpoints and servers come and go: endpoints once they are served, so that whoever reads of one can
/// connect.
async fn tell_progress(
    endpoints: Endpoints,
    mut observations: watch::Receiver<Arc<Observations>>,
    stop: CancellationToken,
) {
    let mut before = Arc::new(Observations::default());
    loop {
        let now = observations.borrow_and_update().clone();
        let lines = endpoints.lines(&before, &now);
        for line in lines.iter().chain(&progress::lines(&before, &now)) {
            say(line);
        }
        before = now;
        tokio::select! {
            () = stop.cancelled() => return,
            changed = observations.changed() => if changed.is_err() { return },
        }
    }
}

async fn wait_for(tasks: Vec<JoinHandle<()>>) {
    for task in tasks {
        if let Err(error) = task.await {
            tracing::error!(%error, "a task ended badly");
        }
    }
}

/// Prints a line for the person who started the process; that nobody reads it is no reason to stop.
fn say(line: &str) {
    let mut out = std::io::stdout().lock();
    drop(writeln!(out, "{line}").and_then(|()| out.flush()));
}
