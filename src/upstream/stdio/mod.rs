//! One running child process as one JSON-RPC peer: a message a line in both directions.
//!
//! Each connection has a reader and a writer of its own, so that a child that does not read holds up nobody but
//! the callers that wait for it, and a child that talks without end holds up nobody at all.

mod calls;
pub(super) mod incoming;
mod notifications;
mod outbox;
mod session;

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;

use self::calls::Calls;
use self::notifications::Notifications;
use self::outbox::Outbox;
use super::endpoint::StdioCommand;
use super::lines::one_line;
use super::process::{Ending, Process, SpawnError};
use super::questions::{Begun, Questions};
use crate::defaults;
use crate::mcp::Envelope;
use crate::metrics::ServerMetrics;

/// One running child, one JSON-RPC peer. When it is dropped the child is stopped in the background.
#[derive(Debug)]
pub(crate) struct StdioConnection {
    link: Arc<Link>,
    queue: mpsc::Sender<Outgoing>,
    stop: CancellationToken,
}

/// How a child came to its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ExitCause {
    /// What happened.
    pub(crate) ending: Ending,
    /// The last lines of its standard error, oldest first. They are the child's own words: for the person who runs
    /// it, not for clients or status.
    pub(crate) last_words: Arc<[String]>,
}

/// Why a message did not get through.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum StdioError {
    /// The process has ended.
    #[error("{0}")]
    Ended(ExitCause),
    /// Two requests of the same id cannot wait at once.
    #[error("request id {0} is in use already")]
    IdInUse(u64),
    /// The answer is larger than allowed.
    #[error("the server's answer is larger than {0} bytes")]
    TooLarge(usize),
}

impl StdioConnection {
    /// Starts `command` for the server called `server` in logs. Needs a tokio runtime.
    ///
    /// Succeeds as soon as the process runs; whether it speaks MCP is seen at the first request.
    pub(crate) fn spawn(
        server: &str,
        command: &StdioCommand,
        questions: Arc<Questions>,
        metrics: ServerMetrics,
    ) -> Result<Self, SpawnError> {
        let (process, pipes) = Process::spawn(command)?;
        let (queue, queued) = mpsc::channel(defaults::CHILD_QUEUE);
        let connection = Self {
            link: Arc::new(Link {
                calls: Calls::default(),
                outbox: Outbox::default(),
                notifications: Notifications::default(),
                questions,
                metrics,
                ended: watch::Sender::default(),
            }),
            queue,
            stop: CancellationToken::new(),
        };
        let session = session::run(
            server.into(),
            process,
            pipes,
            connection.link.clone(),
            queued,
            connection.stop.clone(),
        );
        tokio::spawn(session);
        Ok(connection)
    }

    /// Sends one whole request whose id is the number `id`, and waits for the answer of that id: the whole message
    /// as the child wrote it, result or error. Progress under that id as its token is heard by whoever hears of
    /// `call`. There is no time limit but the caller's.
    ///
    /// When the future is dropped the child is told so by `notifications/cancelled`, unless the request was
    /// `initialize` (2025-11-25 specification, cancellation) or never reached the child. What it asks about the call is
    /// refused before.
    pub(crate) async fn request(&self, id: u64, message: Bytes, call: Option<&Begun>) -> Result<Bytes, StdioError> {
        let message = one_line(message);
        let ear = call.and_then(Begun::ear).cloned();
        let mut answer = self.link.calls.add(id, message.clone(), ear)?;
        let _call = Waiting {
            link: &self.link,
            id,
            message,
            call,
        };
        tokio::select! {
            biased;
            room = self.queue.reserve() => if let Ok(room) = room {
                room.send(Outgoing::Call(id));
            },
            answer = &mut answer => return self.received(answer.ok()).await,
        }
        self.received(answer.await.ok()).await
    }

    /// Sends one whole notification; waits until there is room for it in the queue, not until it is written.
    pub(crate) async fn notify(&self, message: Bytes) -> Result<(), StdioError> {
        match self.queue.send(Outgoing::Notification(one_line(message))).await {
            Ok(()) => Ok(()),
            Err(_) => Err(StdioError::Ended(self.exited().await)),
        }
    }

    /// The next notification of the child, the whole message as it wrote it; `None` once the process has ended and
    /// all were taken. For one reader. Of those that nobody takes in time the oldest are dropped.
    pub(crate) async fn notification(&self) -> Option<Bytes> {
        self.link.notifications.next().await
    }

    /// Whether nothing can be written to the child any more.
    pub(crate) fn has_ended(&self) -> bool {
        self.queue.is_closed()
    }

    /// Waits until the process and its group are gone.
    pub(crate) async fn exited(&self) -> ExitCause {
        let mut ended = self.link.ended.subscribe();
        match ended.wait_for(Option::is_some).await.as_deref() {
            Ok(Some(cause)) => cause.clone(),
            _ => ExitCause::new(Ending::Stopped, Vec::new()),
        }
    }

    /// Stops the process: its input is closed, then SIGTERM, then SIGKILL, [`defaults::CHILD_STOP_TIMEOUT`] in all.
    /// Calls that are answered meanwhile succeed, the others fail.
    pub(crate) async fn stop(&self) {
        self.stop.cancel();
        self.exited().await;
    }

    /// An answer that never comes means that the process has ended.
    async fn received(&self, answer: Option<Result<Bytes, StdioError>>) -> Result<Bytes, StdioError> {
        match answer {
            Some(answer) => answer,
            None => Err(StdioError::Ended(self.exited().await)),
        }
    }
}

impl Drop for StdioConnection {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

impl ExitCause {
    pub(super) fn new(ending: Ending, last_words: Vec<String>) -> Self {
        Self {
            ending,
            last_words: last_words.into(),
        }
    }
}

impl fmt::Display for ExitCause {
    /// Without the last words: the text is the same each time the same thing happens.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.ending.fmt(f)
    }
}

impl StdioError {
    /// One CamelCase word for conditions and metrics.
    pub(crate) fn reason(&self) -> &'static str {
        match self {
            Self::Ended(cause) => cause.ending.reason(),
            Self::IdInUse(_) => "IdInUse",
            Self::TooLarge(_) => "TooLarge",
        }
    }
}

/// What a connection shares with its session.
#[derive(Debug)]
struct Link {
    calls: Calls,
    outbox: Outbox,
    notifications: Notifications,
    questions: Arc<Questions>,
    metrics: ServerMetrics,
    ended: watch::Sender<Option<ExitCause>>,
}

/// A caller's message on its way to the writer.
#[derive(Debug)]
enum Outgoing {
    /// The request of this id; its message lies with the call.
    Call(u64),
    /// A whole notification.
    Notification(Bytes),
}

/// A call until its future is done or dropped.
struct Waiting<'a> {
    link: &'a Link,
    id: u64,
    message: Bytes,
    call: Option<&'a Begun>,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        for refusal in self.call.iter().flat_map(|call| call.refuse_questions()) {
            self.link.outbox.refuse(refusal);
        }
        if self.link.calls.give_up(self.id) && !is_initialize(&self.message) {
            self.link.outbox.cancel(self.id);
        }
    }
}

fn is_initialize(message: &[u8]) -> bool {
    let envelope = Envelope::parse(message, usize::MAX);
    envelope.is_ok_and(|envelope| envelope.method.is_some_and(|method| method.as_str() == "initialize"))
}

#[cfg(test)]
mod tests;
