//! One child process with the process group it leads: started, watched, stopped, and never left behind.
//!
//! The group is what is signalled, so that grandchildren (`npx` starts `node`) end too. Whatever of it is still
//! there when its [`Process`] is dropped is killed. A child that leaves the group by itself is out of reach.

use std::io;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, test_kill_process_group, waitid};
use tokio::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command};
use tokio::signal::unix::{Signal as SignalStream, SignalKind, signal};
use tokio::time::{Instant, sleep, timeout, timeout_at};

use super::endpoint::StdioCommand;
use crate::defaults;

/// A running child process. Dropping it kills its group.
#[derive(Debug)]
pub(crate) struct Process {
    // Before `child`, so that the group is killed while the leader still holds its number.
    group: ProcessGroup,
    child: Child,
    child_events: SignalStream,
}

/// Our ends of a child's standard streams.
#[derive(Debug)]
pub(crate) struct Pipes {
    /// What we write, the child reads.
    pub(crate) stdin: ChildStdin,
    /// What the child writes.
    pub(crate) stdout: ChildStdout,
    /// What the child logs.
    pub(crate) stderr: ChildStderr,
}

/// Why a process could not be started.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SpawnError {
    /// Nothing of that name is on `PATH`.
    #[error("program {program:?} was not found; {}", install_hint(.program))]
    ProgramNotFound {
        /// What messages call it.
        program: String,
    },
    /// The file is there but is not ours to run.
    #[error("program {program:?} may not be executed; make the file executable")]
    ProgramNotExecutable {
        /// What messages call it.
        program: String,
    },
    /// The working directory is missing.
    #[error("working directory {} does not exist; create it or correct cwd", .path.display())]
    WorkingDirectoryMissing {
        /// As it was given.
        path: PathBuf,
    },
    /// Anything else, such as too many processes.
    #[error("program {program:?} could not be started: {source}")]
    Failed {
        /// What messages call it.
        program: String,
        /// What the system said.
        source: io::Error,
    },
}

/// How a process came to its end.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Ending {
    /// It returned by itself.
    #[error("the process ended with exit code {0}")]
    Code(i32),
    /// A signal ended it.
    #[error("the process was ended by signal {0}")]
    Signal(i32),
    /// We stopped it.
    #[error("the process was stopped")]
    Stopped,
    /// It closed its standard output while it went on.
    #[error("the process closed its standard output")]
    OutputClosed,
    /// It closed its standard input while it went on.
    #[error("the process closed its standard input")]
    InputClosed,
    /// Reading from it failed.
    #[error("the output of the process could not be read: {0}")]
    Unreadable(String),
}

impl Process {
    /// Starts `command` as the leader of a process group of its own, with the inherited environment under its
    /// variables. Needs a tokio runtime.
    pub(crate) fn spawn(command: &StdioCommand) -> Result<(Self, Pipes), SpawnError> {
        if let Some(path) = command.cwd.clone().filter(|path| !path.is_dir()) {
            return Err(SpawnError::WorkingDirectoryMissing { path });
        }
        // Asked for before the child exists, so that its end cannot be missed.
        let child_events = signal(SignalKind::child()).map_err(|e| SpawnError::new(command, e))?;
        let mut start = Command::new(command.program.path());
        start.args(&command.args).envs(&command.env).process_group(0);
        start
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        if let Some(cwd) = &command.cwd {
            start.current_dir(cwd);
        }
        let mut child = start.spawn().map_err(|e| SpawnError::new(command, e))?;
        let group = ProcessGroup::led_by(&child);
        let pipes = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let (Some(stdin), Some(stdout), Some(stderr)) = pipes else {
            return Err(SpawnError::new(
                command,
                io::Error::other("its standard streams are missing"),
            ));
        };
        let process = Self {
            group,
            child,
            child_events,
        };
        Ok((process, Pipes { stdin, stdout, stderr }))
    }

    /// Its process id, for messages.
    pub(crate) fn id(&self) -> Option<u32> {
        self.child.id()
    }

    /// Waits until the leader has ended. It stays a zombie, so its group's number cannot be given to others.
    pub(crate) async fn exited(&mut self) {
        while !self.group.leader_has_exited() {
            if self.child_events.recv().await.is_none() {
                return;
            }
        }
    }

    /// Waits for the end of a process whose input was closed: asked again by SIGTERM after a third of `patience`,
    /// killed at the end of it. The rest of the group is given the same time.
    pub(crate) async fn stop(mut self, patience: Duration) -> Option<ExitStatus> {
        let deadline = Instant::now() + patience;
        if timeout(patience / 3, self.exited()).await.is_err() {
            self.group.signal(Signal::TERM);
            if timeout_at(deadline, self.exited()).await.is_err() {
                return self.kill().await;
            }
        }
        let status = self.reap().await;
        if self.group.exists() {
            self.group.signal(Signal::TERM);
        }
        while self.group.exists() && Instant::now() < deadline {
            sleep(GROUP_POLL).await;
        }
        status
    }

    /// Kills the whole group, and reaps its leader.
    pub(crate) async fn kill(mut self) -> Option<ExitStatus> {
        self.group.signal(Signal::KILL);
        self.reap().await
    }

    /// Reaps the leader, which has ended or was killed. Bounded, since the system may hold a process that was
    /// killed; it is then reaped in the background.
    async fn reap(&mut self) -> Option<ExitStatus> {
        timeout(defaults::CHILD_STOP_TIMEOUT, self.child.wait())
            .await
            .ok()?
            .ok()
    }
}

impl SpawnError {
    /// One CamelCase word for conditions and metrics.
    pub(crate) fn reason(&self) -> &'static str {
        match self {
            Self::ProgramNotFound { .. } => "ProgramNotFound",
            Self::ProgramNotExecutable { .. } => "ProgramNotExecutable",
            Self::WorkingDirectoryMissing { .. } => "WorkingDirectoryMissing",
            Self::Failed { .. } => "SpawnFailed",
        }
    }

    fn new(command: &StdioCommand, source: io::Error) -> Self {
        let program = command.program.to_string();
        match source.kind() {
            io::ErrorKind::NotFound => Self::ProgramNotFound { program },
            io::ErrorKind::PermissionDenied => Self::ProgramNotExecutable { program },
            _ => Self::Failed { program, source },
        }
    }
}

impl Ending {
    /// One CamelCase word for conditions and metrics.
    pub(crate) fn reason(&self) -> &'static str {
        match self {
            Self::Code(_) | Self::Signal(_) => "ProcessExited",
            Self::Stopped => "ProcessStopped",
            Self::OutputClosed | Self::InputClosed | Self::Unreadable(_) => "ProtocolError",
        }
    }

    /// The end that `status` tells of, `None` where it could not be read.
    pub(crate) fn of(status: Option<ExitStatus>) -> Self {
        match status.map(|s| (s.code(), s.signal())) {
            Some((Some(code), _)) => Self::Code(code),
            Some((None, Some(signal))) => Self::Signal(signal),
            _ => Self::Unreadable("its exit status is unknown".into()),
        }
    }
}

/// How often a group without its leader is looked at.
const GROUP_POLL: Duration = Duration::from_millis(10);

/// The group that a child leads. While one process of it is left, its number is not given to others.
#[derive(Debug)]
struct ProcessGroup {
    leader: Option<Pid>,
}

impl ProcessGroup {
    fn led_by(child: &Child) -> Self {
        let leader = child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
        Self { leader }
    }

    fn leader_has_exited(&self) -> bool {
        let Some(leader) = self.leader else { return true };
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT | WaitIdOptions::NOHANG;
        // An error means that there is no such child any more.
        !matches!(waitid(WaitId::Pid(leader), options), Ok(None))
    }

    fn exists(&self) -> bool {
        self.leader
            .is_some_and(|leader| test_kill_process_group(leader).is_ok())
    }

    fn signal(&self, signal: Signal) {
        if let Some(leader) = self.leader {
            // It fails when nobody is left to signal, which is what is wanted.
            kill_process_group(leader, signal).ok();
        }
    }
}

impl Drop for ProcessGroup {
    fn drop(&mut self) {
        if self.exists() {
            self.signal(Signal::KILL);
        }
    }
}

/// What to do about a missing program.
fn install_hint(program: &str) -> &'static str {
    match program {
        "npx" | "npm" | "node" => "it comes with Node.js, see https://nodejs.org",
        "uvx" | "uv" => "it comes with uv: `pip install uv`, or see https://docs.astral.sh/uv",
        "docker" => "install Docker, or Podman with its docker command",
        _ => "install it, or give its full path",
    }
}
