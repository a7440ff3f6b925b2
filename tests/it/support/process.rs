//! A child process of a test: what it prints is read as it comes, and it ends with the test.

use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use tokio::io::{AsyncBufReadExt, AsyncRead, BufReader};
use tokio::process::{Child, Command};
use tokio::sync::watch;

/// How long a process may take to end by itself.
const GRACE: Duration = Duration::from_secs(5);

/// A running child process, the first of a process group of its own.
#[derive(Debug)]
pub(crate) struct Process {
    name: String,
    child: Child,
    group: Pid,
    printed: watch::Receiver<Printed>,
}

/// The lines a process has printed so far.
#[derive(Clone, Debug, Default)]
pub(crate) struct Printed {
    /// On its standard output.
    pub(crate) output: Vec<String>,
    /// On its standard error.
    pub(crate) errors: Vec<String>,
}

impl Process {
    /// Starts `command`; `name` stands for it where a test fails.
    pub(crate) fn start(name: &str, mut command: Command) -> Self {
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .spawn()
            .unwrap_or_else(|error| panic!("{name} does not start: {error}"));
        let (printing, printed) = watch::channel(Printed::default());
        let (output, errors) = (child.stdout.take().unwrap(), child.stderr.take().unwrap());
        tokio::spawn(read_lines(output, printing.clone(), |printed, line| {
            printed.output.push(line)
        }));
        tokio::spawn(read_lines(errors, printing, |printed, line| printed.errors.push(line)));
        let group = Pid::from_raw(child.id().unwrap().cast_signed()).unwrap();
        Self {
            name: name.into(),
            child,
            group,
            printed,
        }
    }

    /// Waits until `find` finds what it looks for in the printed lines.
    ///
    /// Fails the test, with everything printed, when `limit` passes or the process ends before.
    pub(crate) async fn wait_for<T>(&self, what: &str, limit: Duration, find: impl Fn(&Printed) -> Option<T>) -> T {
        let mut printed = self.printed.clone();
        let found = tokio::time::timeout(limit, printed.wait_for(|printed| find(printed).is_some())).await;
        let problem = match found {
            Ok(Ok(printed)) => return find(&printed).unwrap(),
            Ok(Err(_)) => "it ended",
            Err(_) => "time ran out",
        };
        let Printed { output, errors } = self.printed.borrow().clone();
        panic!(
            "waiting for {what} of {}: {problem}\n--- output\n{}\n--- errors\n{}",
            self.name,
            output.join("\n"),
            errors.join("\n")
        );
    }

    /// Its process id.
    pub(crate) fn id(&self) -> i32 {
        self.group.as_raw_nonzero().get()
    }

    /// What it has printed so far.
    pub(crate) fn printed(&self) -> Printed {
        self.printed.borrow().clone()
    }

    /// Sends SIGTERM to the process alone, and waits until it has ended.
    pub(crate) async fn terminate(mut self) -> ExitStatus {
        kill_process(self.group, Signal::TERM).unwrap();
        let ended = tokio::time::timeout(Duration::from_secs(20), self.child.wait()).await;
        ended.expect("it does not end").unwrap()
    }
}

impl Drop for Process {
    /// Asks the group to end, waits for the process, and ends by force what is left.
    fn drop(&mut self) {
        if kill_process_group(self.group, Signal::TERM).is_err() {
            return; // all of it is gone
        }
        let started = tokio::time::Instant::now();
        while matches!(self.child.try_wait(), Ok(None)) && started.elapsed() < GRACE {
            std::thread::sleep(Duration::from_millis(10));
        }
        kill_process_group(self.group, Signal::KILL).unwrap_or_default(); // an error: nothing was left
    }
}

async fn read_lines(
    stream: impl AsyncRead + Unpin,
    printing: watch::Sender<Printed>,
    keep: impl Fn(&mut Printed, String),
) {
    let mut lines = BufReader::new(stream).lines();
    while let Ok(Some(line)) = lines.next_line().await {
        printing.send_modify(|printed| keep(printed, line));
    }
}
