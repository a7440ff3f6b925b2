//! A container that is kept running.

use std::net::{Ipv4Addr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use super::container::ContainerRun;
use super::engine::Engine;
use crate::defaults;
use crate::fleet::Unresolved;
use crate::upstream::Endpoint;
use crate::upstream::child_log::ChildLog;
use crate::upstream::process::{Ending, Process};

/// A container that is started again whenever it ends. Once this is dropped it is stopped and removed, by the future
/// that keeps it.
#[derive(Debug)]
pub(crate) struct Container {
    run: ContainerRun,
    endpoint: Endpoint,
    stop: CancellationToken,
}

impl Container {
    /// Chooses a port for `run`. The container lives while the future that comes with it is polled, which ends after
    /// this was dropped.
    ///
    /// # Errors
    /// Says that no port is free.
    pub(crate) fn new(
        engine: Engine,
        server: &str,
        run: ContainerRun,
    ) -> Result<(Self, impl Future<Output = ()> + Send + 'static), Unresolved> {
        let port = free_port()?;
        let endpoint = run.endpoint(port)?;
        let stop = CancellationToken::new();
        let keeper = Keeper {
            engine,
            server: server.into(),
            run: run.clone(),
            port,
            stop: stop.clone(),
        };
        Ok((Self { run, endpoint, stop }, keeper.keep()))
    }

    /// What it runs.
    pub(crate) fn run(&self) -> &ContainerRun {
        &self.run
    }

    /// Where its server is reached, the same after each start.
    pub(crate) fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }
}

impl Drop for Container {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

struct Keeper {
    engine: Engine,
    server: Arc<str>,
    run: ContainerRun,
    port: u16,
    stop: CancellationToken,
}

impl Keeper {
    async fn keep(self) {
        let mut pause = defaults::RETRY_MIN;
        loop {
            let started = Instant::now();
            self.run_once(&new_name(&self.server)).await;
            if started.elapsed() > defaults::RETRY_MAX {
                pause = defaults::RETRY_MIN;
            }
            tokio::select! {
                biased;
                () = self.stop.cancelled() => return,
                () = sleep(pause) => {}
            }
            pause = defaults::RETRY_MAX.min(pause * 2);
        }
    }

    /// Runs the container to its end, of itself or because it is to stop; nothing of it is left then.
    async fn run_once(&self, name: &str) {
        let server = &self.server;
        let (mut process, pipes) = match Process::spawn(&self.run.command(self.engine.program(), name, self.port)) {
            Ok(started) => started,
            Err(error) => return warn!(%server, "{error}"),
        };
        let leftover = Leftover {
            engine: &self.engine,
            name,
        };
        info!(%server, container = name, port = self.port, "container started");
        drop(pipes.stdin);
        let log = Arc::new(ChildLog::new(server.clone()));
        let mut logged = JoinSet::new();
        let pipes = (pipes.stdout, pipes.stderr, log.clone());
        logged.spawn(async move {
            let (stdout, stderr, log) = pipes;
            tokio::join!(log.follow(stdout), log.follow(stderr));
        });
        let stopping = tokio::select! {
            () = process.exited() => false,
            () = self.stop.cancelled() => true,
        };
        if stopping {
            self.engine.stop(name).await;
        }
        let status = process.stop(defaults::CHILD_STOP_TIMEOUT).await;
        self.engine.remove(name).await;
        std::mem::forget(leftover);
        timeout(defaults::CHILD_DRAIN_TIMEOUT, logged.join_all()).await.ok();
        match Ending::of(status) {
            _ if stopping => info!(%server, container = name, "container stopped"),
            ending => {
                let last_words = log.last_lines().join("\n");
                warn!(%server, container = name, last_words, "{}: {ending}", self.engine.program());
            }
        }
    }
}

/// Removes a container whose keeper is dropped in the middle, as at the end of the program.
struct Leftover<'a> {
    engine: &'a Engine,
    name: &'a str,
}

impl Drop for Leftover<'_> {
    fn drop(&mut self) {
        self.engine.remove_in_passing(self.name);
    }
}

/// A name that no other container has: not one of another process, nor one that the engine may still be busy with.
fn new_name(server: &str) -> String {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    format!("mcpfleet-{server}-{}-{number}", std::process::id())
}

/// A port of the loopback address that nobody listens on now. The engine takes it a moment later.
fn free_port() -> Result<u16, Unresolved> {
    let bound = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).and_then(|listener| listener.local_addr());
    bound.map(|address| address.port()).map_err(|e| Unresolved {
        reason: "NoFreePort",
        message: format!("no port is free on the loopback address: {e}"),
    })
}
