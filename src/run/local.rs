//! `mcpfleet up`: manifests on this machine, without a cluster.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwapOption;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::admin::Admin;
use super::endpoints::Endpoints;
use super::launch::{self, Launcher};
use super::source::{REMOTE, Source};
use super::{cores, pipes, progress, readiness, signals};
use crate::api::DEFAULT_NAMESPACE;
use crate::args::{Connect, Up};
use crate::defaults;
use crate::fleet::ServerInput;
use crate::fleet::access::access_reference;
use crate::fleet::input::federation_input;
use crate::fleet::skills::skill_references;
use crate::fleet::snapshot::alone;
use crate::fleet::{
    Content, DefaultFederation, ObjectKey, Observations, PlanInput, Reference, ReferenceKind, References, Runtime,
};
use crate::gateway::Gateway;
use crate::gateway::session::{Keyring, Sessions};
use crate::gateway::stdio::Pipes;
use crate::manifest::{self, CommandServer, Manifests, Problem, Problems};
use crate::metrics::Metrics;
use crate::upstream::{Endpoint, Program, StdioCommand, Terms, Timeouts};

/// Serves the manifests until the process is asked to stop or, on pipes, until their client leaves.
///
/// # Errors
/// When a manifest is wrong or an address cannot be listened on; nothing has been started then.
pub async fn up(options: Up) -> anyhow::Result<()> {
    anyhow::ensure!(
        !options.stdio || !options.paths.iter().any(|path| path.as_os_str() == "-"),
        "--stdio reads the client's messages from standard input, so the manifests cannot come from there; name a file"
    );
    let ports = !options.stdio;
    serve(Fleet {
        source: Source::files(options.paths),
        default: options.default_federation,
        stdio: options.stdio,
        member: None,
        shows_all: options.show_all,
        listen: options.listen.or_else(|| ports.then_some(LISTEN)),
        admin_listen: options.admin_listen.or_else(|| ports.then_some(ADMIN_LISTEN)),
        drain: options.drain_timeout,
    })
    .await
}

/// Serves one remote server on standard input and output until the client leaves or the process is asked to stop.
///
/// # Errors
/// When the address or a header is wrong.
pub async fn connect(options: Connect) -> anyhow::Result<()> {
    serve(Fleet {
        source: Source::address(&options),
        default: None,
        stdio: true,
        // Alone, so that it speaks for itself, under its own names.
        member: Some(REMOTE),
        // The server decides, which is asked to.
        shows_all: false,
        listen: None,
        admin_listen: None,
        drain: defaults::DRAIN_TIMEOUT,
    })
    .await
}

const LISTEN: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 8080);
const ADMIN_LISTEN: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 9090);

/// What to do where the one server that is connected to wants to know who asks.
const ON_REFUSAL: &str = "give them to `mcpfleet connect` as --header 'Authorization=Bearer ${TOKEN}'";

/// What is served, and how.
struct Fleet {
    source: Source,
    default: Option<ObjectKey>,
    /// Whether one federation is served on standard input and output.
    stdio: bool,
    /// The member of it that is served there alone, if not all are.
    member: Option<&'static str>,
    /// Whether everything is listed there.
    shows_all: bool,
    listen: Option<SocketAddr>,
    admin_listen: Option<SocketAddr>,
    drain: Duration,
}

async fn serve(options: Fleet) -> anyhow::Result<()> {
    let teller = if options.stdio { Teller::Errors } else { Teller::Output };
    let mut reading = manifest::Options {
        had_federation: false,
        loopback: options.listen.is_none_or(|listen| listen.ip().is_loopback()),
        environment: manifest::environment(),
    };
    let mut source = options.source;
    let read = source.read(&reading);
    let mut warned = warn_of(read.warnings, &[]);
    let manifests = read
        .manifests
        .map_err(|problems| explained(&problems, options.listen))?;
    reading.had_federation |= !manifests.forms_federation && !manifests.federations.is_empty();
    let default = default_federation(options.default, &manifests)?;
    let piped = options
        .stdio
        .then(|| pipes::federation(&default, &manifests))
        .transpose()?;

    let metrics = Arc::new(Metrics::new()?);
    // Whoever restarts the process ends all sessions; there is nowhere to keep a key.
    let keyring = Arc::new(ArcSwapOption::from_pointee(Keyring::random()?));
    let sessions = Arc::new(Sessions::new(keyring, metrics.sessions()));
    let stop = signals::stop_token()?;
    let gateway = match options.listen {
        Some(listen) => Some(Gateway::bind(listen).await?),
        None => None,
    };
    let admin = match options.admin_listen {
        Some(listen) => Some(Admin::bind(listen).await?),
        None => None,
    };
    let endpoints = gateway.as_ref().map(|gateway| Endpoints {
        address: gateway.address(),
        default: default.clone(),
    });
    if let Some(endpoints) = &endpoints {
        teller.say(&format!("listening on http://{}", endpoints.address));
    }
    if let Some(admin) = &admin {
        teller.say(&format!("admin on http://{}", admin.address()));
    }

    let launcher = Launcher::new();
    let planned = plan_input(&launcher, &manifests).await;
    tell_access(teller, &PlanInput::default(), &planned);
    let (input, inputs) = watch::channel(Arc::new(planned));
    let runtime = Runtime::start(inputs, default, Arc::clone(&metrics));
    let (ready, readiness) = watch::channel(false);
    let mut tasks = vec![
        tokio::spawn(tell_progress(teller, endpoints, runtime.observations(), stop.clone())),
        tokio::spawn(until_stopped(
            readiness::watch(runtime.observations(), ready),
            stop.clone(),
        )),
    ];
    // Calls may have opened connections there, which are closed in order below.
    let cores = gateway.is_some().then(cores).transpose()?;
    if let (Some(gateway), Some(cores)) = (gateway, &cores) {
        let sessions = Arc::clone(&sessions);
        tasks.push(tokio::spawn(gateway.serve(
            Arc::clone(cores),
            runtime.fleet(),
            sessions,
            stop.clone(),
            options.drain,
        )));
    }
    if let Some(federation) = piped {
        let pipes = Pipes {
            fleet: runtime.fleet(),
            sessions,
            federation: match options.member {
                Some(member) => alone::name_of(&federation.to_string(), member),
                None => federation.to_string(),
            },
            shows_all: options.shows_all,
            on_refusal: options.member.map(|_| ON_REFUSAL),
            stop: stop.clone(),
        };
        let served = pipes::serve(pipes, federation, runtime.observations(), readiness.clone());
        tasks.push(tokio::spawn(served));
    }
    let admin_stop = CancellationToken::new();
    let admin = admin.map(|admin| tokio::spawn(admin.serve(metrics, readiness, admin_stop.clone())));

    let mut is_wrong = false;
    loop {
        tokio::select! {
            () = stop.cancelled() => break,
            () = source.changed() => {}
        }
        let read = source.read(&reading);
        warned = warn_of(read.warnings, &warned);
        match read.manifests {
            Err(problems) => {
                let problems = explained(&problems, options.listen);
                tracing::error!("the change is not taken, what ran before goes on:\n{problems}");
                is_wrong = true;
            }
            Ok(manifests) => {
                reading.had_federation |= !manifests.forms_federation && !manifests.federations.is_empty();
                let planned = plan_input(&launcher, &manifests).await;
                let before = input.borrow().clone();
                if *before != planned {
                    teller.say("manifests changed");
                    tell_access(teller, &before, &planned);
                    input.send_replace(Arc::new(planned));
                } else if is_wrong {
                    teller.say("manifests are right again, and say what is served");
                }
                is_wrong = false;
            }
        }
    }

    teller.say("stopping");
    wait_for(tasks).await;
    runtime.stop().await;
    launcher.stop().await;
    drop(cores);
    admin_stop.cancel();
    wait_for(admin.into_iter().collect()).await;
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
        refresh: BTreeSet::new(),
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
    let federations = manifests.federations.iter().flat_map(|federation| {
        let namespace = federation.metadata.namespace.as_deref().unwrap_or(DEFAULT_NAMESPACE);
        let skills = skill_references(&federation.spec, namespace);
        access_reference(&federation.spec, namespace).into_iter().chain(skills)
    });
    launch::references(servers.chain(federations), &contents(manifests))
}

fn contents(manifests: &Manifests) -> BTreeMap<Reference, Content> {
    // Whichever namespace names a directory, it is the same one.
    let namespaces: BTreeSet<_> = manifests
        .federations
        .iter()
        .map(|federation| federation.metadata.namespace.as_deref().unwrap_or(DEFAULT_NAMESPACE))
        .collect();
    let directories = manifests.directories.iter().flat_map(|directory| {
        let content = match &directory.files {
            Ok(files) if files.unread.is_empty() => Content::Found(files.read.clone()),
            Ok(files) => Content::Partly {
                values: files.read.clone(),
                unread: files.unread.clone(),
            },
            Err(why) => Content::Unreadable(why.clone()),
        };
        let path = directory.path.to_string_lossy();
        let each = namespaces.iter().map(move |namespace| {
            let reference = Reference::new(ReferenceKind::Directory, *namespace, path.clone());
            (reference, content.clone())
        });
        each.collect::<Vec<_>>()
    });
    let secrets = manifests.secrets.iter().map(|secret| {
        let reference = Reference::new(ReferenceKind::Secret, &secret.namespace, &secret.name);
        (reference, Content::Found(secret.data.clone()))
    });
    let config_maps = manifests.config_maps.iter().map(|map| {
        let reference = Reference::new(ReferenceKind::ConfigMap, &map.namespace, &map.name);
        (reference, Content::Found(map.data.clone()))
    });
    secrets.chain(config_maps).chain(directories).collect()
}

fn default_federation(named: Option<ObjectKey>, manifests: &Manifests) -> anyhow::Result<DefaultFederation> {
    let Some(key) = named else {
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
    Ok(DefaultFederation::Named(key))
}

/// Tells those of `warnings` that were not among the last ones, and gives them all back.
fn warn_of(warnings: Vec<Problem>, last: &[Problem]) -> Vec<Problem> {
    for warning in warnings.iter().filter(|warning| !last.contains(warning)) {
        tracing::warn!("{warning}");
    }
    warnings
}

/// What is wrong with manifests, and, where that is wrong only on the address `listen`, why it is there.
fn explained(problems: &Problems, listen: Option<SocketAddr>) -> anyhow::Error {
    let of_access = |problem: &Problem| problem.field.as_deref() == Some("spec.access");
    let open = listen.filter(|listen| !listen.ip().is_loopback() && problems.0.iter().any(of_access));
    let Some(listen) = open else {
        return anyhow::anyhow!("{problems}");
    };
    anyhow::anyhow!(
        "{problems}\n--listen {listen} can be reached from other machines, so each federation must say who may connect; \
         on a loopback address, such as --listen 127.0.0.1:{}, it need not",
        listen.port()
    )
}

/// Prints what is wrong with the access of a federation, where that is news.
fn tell_access(teller: Teller, before: &PlanInput, now: &PlanInput) {
    for federation in &now.federations {
        let old = before.federations.iter().find(|old| old.key == federation.key);
        let problem = federation.access.problem();
        if let Some(problem) = problem.filter(|_| old.is_none_or(|old| old.access.problem() != problem)) {
            teller.say(&format!("federation {}: {}", federation.key, problem.message));
        }
    }
}

/// Prints how endpoints and servers come and go: endpoints once they are served, so that whoever reads of one can
/// connect.
async fn tell_progress(
    teller: Teller,
    endpoints: Option<Endpoints>,
    mut observations: watch::Receiver<Arc<Observations>>,
    stop: CancellationToken,
) {
    let mut before = Arc::new(Observations::default());
    loop {
        let now = observations.borrow_and_update().clone();
        let lines = endpoints.iter().flat_map(|endpoints| endpoints.lines(&before, &now));
        for line in lines.chain(progress::lines(&before, &now)) {
            teller.say(&line);
        }
        before = now;
        tokio::select! {
            () = stop.cancelled() => return,
            changed = observations.changed() => if changed.is_err() { return },
        }
    }
}

/// Goes on with `work` for as long as nobody asks to stop.
async fn until_stopped(work: impl Future<Output = ()>, stop: CancellationToken) {
    stop.run_until_cancelled(work).await;
}

async fn wait_for(tasks: Vec<JoinHandle<()>>) {
    for task in tasks {
        if let Err(error) = task.await {
            tracing::error!(%error, "a task ended badly");
        }
    }
}

/// Where lines for the person who started the process go.
#[derive(Clone, Copy)]
enum Teller {
    /// Standard output.
    Output,
    /// Standard error, since standard output is a client's.
    Errors,
}

impl Teller {
    /// Prints a line; that nobody reads it is no reason to stop.
    fn say(self, line: &str) {
        match self {
            Self::Output => print(std::io::stdout().lock(), line),
            Self::Errors => print(std::io::stderr().lock(), line),
        }
    }
}

fn print(mut to: impl Write, line: &str) {
    drop(writeln!(to, "{line}").and_then(|()| to.flush()));
}
