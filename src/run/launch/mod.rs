//! How a manifest's servers start on this machine, for `mcpfleet up`.
//!
//! Packages become child processes that the upstreams start, remote servers are used where they are, containers are
//! kept running here.

mod container;
mod engine;
mod environment;
mod keep;
mod package;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use tokio::sync::Mutex;
use tokio_util::task::TaskTracker;

use self::container::ContainerRun;
use self::engine::Engine;
use self::keep::Container;
use crate::api::MCPServer;
use crate::api::source::ContainerSource;
use crate::fleet::input::{header_references, remote_endpoint, server_input};
use crate::fleet::{Content, ObjectKey, Reference, References, ServerInput, Unresolved};
use crate::upstream::Endpoint;

/// The containers of this process. Dropping it stops them in the background.
#[derive(Debug)]
pub(crate) struct Launcher {
    programs: Vec<String>,
    state: Mutex<State>,
    tasks: TaskTracker,
}

#[derive(Debug, Default)]
struct State {
    engine: Option<Engine>,
    containers: BTreeMap<ObjectKey, Container>,
}

impl Launcher {
    /// Nothing runs yet.
    pub(crate) fn new() -> Self {
        Self::with_engines(&Engine::PROGRAMS)
    }

    /// Where each of `servers` is reached, or why it is not. Containers that are new or changed start, those that are
    /// named no more stop; neither is waited for. The container engine is looked for when a server needs it and none
    /// was found before, which may take [`crate::defaults::CONTAINER_ENGINE_TIMEOUT`].
    pub(crate) async fn launch(&self, servers: &[MCPServer], references: &References) -> Vec<ServerInput> {
        let mut state = self.state.lock().await;
        if state.engine.is_none() && servers.iter().any(|server| server.spec.container.is_some()) {
            let programs: Vec<&str> = self.programs.iter().map(String::as_str).collect();
            state.engine = Engine::find(&programs).await;
        }
        let before = std::mem::take(&mut state.containers);
        let mut launch = Launch {
            launcher: self,
            state: &mut state,
            before,
            references,
        };
        servers
            .iter()
            .map(|server| server_input(server, launch.endpoint(server)))
            .collect()
    }

    /// Stops every container, and waits until they are gone.
    pub(crate) async fn stop(&self) {
        self.state.lock().await.containers.clear();
        self.tasks.close();
        self.tasks.wait().await;
    }

    fn with_engines(programs: &[&str]) -> Self {
        Self {
            programs: programs.iter().map(|program| (*program).to_owned()).collect(),
            state: Mutex::default(),
            tasks: TaskTracker::new(),
        }
    }
}

/// What is `named` of Secrets and ConfigMaps, out of `objects`, which are all there are.
pub(crate) fn references(named: impl Iterator<Item = Reference>, objects: &BTreeMap<Reference, Content>) -> References {
    named
        .map(|reference| {
            let content = objects.get(&reference).cloned().unwrap_or(Content::Missing);
            (reference, content)
        })
        .collect()
}

/// The Secrets and ConfigMaps that `server` names.
pub(crate) fn named_references(server: &MCPServer) -> Vec<Reference> {
    let namespace = namespace(server);
    let mut named = Vec::new();
    if let Some(package) = &server.spec.package {
        named.extend(Reference::of_environment(namespace, &package.env, &package.env_from));
    }
    if let Some(container) = &server.spec.container {
        named.extend(Reference::of_environment(
            namespace,
            &container.env,
            &container.env_from,
        ));
    }
    if let Some(remote) = &server.spec.remote {
        named.extend(header_references(remote, namespace));
    }
    named
}

/// One pass over the servers.
struct Launch<'a> {
    launcher: &'a Launcher,
    state: &'a mut State,
    /// Containers that nothing named yet in this pass; those that stay here stop.
    before: BTreeMap<ObjectKey, Container>,
    references: &'a References,
}

impl Launch<'_> {
    fn endpoint(&mut self, server: &MCPServer) -> Result<Endpoint, Unresolved> {
        let spec = &server.spec;
        match (&spec.container, &spec.package, &spec.remote) {
            _ if spec.disabled => Err(Unresolved {
                reason: "Disabled",
                message: "the server is disabled".into(),
            }),
            (Some(container), _, _) => self.container(server, container),
            (_, Some(package), _) => package::command(package, namespace(server), self.references).map(Endpoint::Stdio),
            (_, _, Some(remote)) => remote_endpoint(remote, namespace(server), self.references),
            (None, None, None) => Err(Unresolved {
                reason: "NoSource",
                message: "set exactly one of spec.container, spec.package and spec.remote".into(),
            }),
        }
    }

    fn container(&mut self, server: &MCPServer, source: &ContainerSource) -> Result<Endpoint, Unresolved> {
        let name = server.metadata.name.as_deref().unwrap_or_default();
        let key = ObjectKey::new(namespace(server), name);
        let run = ContainerRun::new(source, namespace(server), self.references)?;
        let engine = self.state.engine.clone().ok_or_else(engine_missing)?;
        let container = match self.before.remove(&key) {
            Some(same) if *same.run() == run => same,
            _ => {
                let (container, kept) = Container::new(engine, name, run)?;
                self.launcher.tasks.spawn(kept);
                container
            }
        };
        let endpoint = container.endpoint().clone();
        self.state.containers.insert(key, container);
        Ok(endpoint)
    }
}

fn namespace(server: &MCPServer) -> &str {
    server.metadata.namespace.as_deref().unwrap_or_default()
}

fn engine_missing() -> Unresolved {
    Unresolved {
        reason: "ContainerEngineMissing",
        message: "no container engine answers on this machine (docker info, podman info); install and start Docker or \
                  Podman, or use spec.package or spec.remote"
            .into(),
    }
}
