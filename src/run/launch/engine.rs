//! The container engine of this machine.

use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use tokio::process::Command;
use tokio::time::timeout;

use crate::defaults;

/// A program with Docker's command line whose engine answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Engine {
    program: Arc<str>,
}

impl Engine {
    /// The programs that are tried, the first that answers is taken.
    pub(crate) const PROGRAMS: [&str; 2] = ["docker", "podman"];

    /// The first of `programs` that is there and whose engine answers `info` in time.
    pub(crate) async fn find(programs: &[&str]) -> Option<Self> {
        let tries = programs.iter().map(|program| async {
            let engine = Self {
                program: (*program).into(),
            };
            engine.tell(&["info"], Duration::ZERO).await.then_some(engine)
        });
        futures::future::join_all(tries).await.into_iter().flatten().next()
    }

    /// The program, as it is started.
    pub(crate) fn program(&self) -> &str {
        &self.program
    }

    /// Stops the container `name`: it is asked to end, and killed after [`defaults::CHILD_STOP_TIMEOUT`].
    pub(crate) async fn stop(&self, name: &str) {
        let patience = defaults::CHILD_STOP_TIMEOUT;
        self.tell(&["stop", "-t", &patience.as_secs().to_string(), name], patience)
            .await;
    }

    /// Removes the container `name`, running or not; that there is none is fine.
    pub(crate) async fn remove(&self, name: &str) {
        self.tell(&["rm", "-f", name], Duration::ZERO).await;
    }

    /// Has the container `name` removed by a process that nobody waits for.
    pub(crate) fn remove_in_passing(&self, name: &str) {
        let mut command = std::process::Command::new(&*self.program);
        command
            .args(["rm", "-f", name])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        // Nothing is left that could act on a failure.
        drop(command.spawn());
    }

    /// Runs one short command, and says whether it succeeded. It may take `patience` beside the engine's own time.
    async fn tell(&self, args: &[&str], patience: Duration) -> bool {
        let mut command = Command::new(&*self.program);
        command
            .args(args)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .kill_on_drop(true);
        let status = timeout(defaults::CONTAINER_ENGINE_TIMEOUT + patience, command.status()).await;
        matches!(status, Ok(Ok(status)) if status.success())
    }
}
