//! The life of one child process: its pipes are served, its end is noticed or brought about.

use std::future::pending;
use std::io;
use std::sync::Arc;

use bytes::{Buf, Bytes};
use tokio::io::{AsyncWriteExt, BufReader};
use tokio::process::{ChildStdin, ChildStdout};
use tokio::sync::mpsc;
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tracing::{debug, info, warn};

use super::incoming::{self, Incoming, Junk};
use super::{ExitCause, Link, Outgoing, StdioError};
use crate::defaults;
use crate::mcp::{Envelope, Id};
use crate::upstream::child_log::ChildLog;
use crate::upstream::cut::Cut;
use crate::upstream::lines::{Line, Lines};
use crate::upstream::process::{Ending, Pipes, Process};
use crate::upstream::questions::Heard;

/// Serves the child until its end, of itself or by `stop`; then every call fails and `link.ended` is set.
pub(super) async fn run(
    server: Arc<str>,
    mut process: Process,
    pipes: Pipes,
    link: Arc<Link>,
    queue: mpsc::Receiver<Outgoing>,
    stop: CancellationToken,
) {
    info!(%server, pid = process.id(), "process started");
    let mut pumps = Pumps::start(&server, pipes, &link, queue);
    let event = tokio::select! {
        () = process.exited() => Event::Exited,
        fault = pumps.fault() => Event::Fault(fault),
        () = stop.cancelled() => Event::Stopped,
    };
    let event = match event {
        // Most often it is about to end, and its exit code says more.
        Event::Fault(Ending::OutputClosed | Ending::InputClosed)
            if timeout(defaults::CHILD_EXIT_GRACE, process.exited()).await.is_ok() =>
        {
            Event::Exited
        }
        event => event,
    };
    let ending = match event {
        Event::Exited => {
            let status = process.kill().await;
            pumps.drain().await;
            Ending::of(status)
        }
        Event::Fault(fault) => {
            // Nobody waits for a process that cannot be spoken to.
            end(&link, &ExitCause::new(fault.clone(), pumps.log.last_lines()));
            pumps.close_input();
            process.stop(defaults::CHILD_STOP_TIMEOUT).await;
            pumps.drain().await;
            fault
        }
        Event::Stopped => {
            pumps.close_input();
            process.stop(defaults::CHILD_STOP_TIMEOUT).await;
            pumps.drain().await;
            Ending::Stopped
        }
    };
    let cause = ExitCause::new(ending, pumps.log.last_lines());
    match &cause.ending {
        Ending::Stopped => info!(%server, "process stopped"),
        ending => warn!(%server, last_words = cause.last_words.join("\n"), "{ending}"),
    }
    end(&link, &cause);
    link.ended.send_replace(Some(cause));
}

/// What ends a session.
enum Event {
    Exited,
    Fault(Ending),
    Stopped,
}

fn end(link: &Link, cause: &ExitCause) {
    link.calls.end(cause);
    link.notifications.end();
}

/// The tasks that serve the three pipes.
struct Pumps {
    tasks: JoinSet<Option<Ending>>,
    writer: AbortHandle,
    log: Arc<ChildLog>,
}

impl Pumps {
    fn start(server: &Arc<str>, pipes: Pipes, link: &Arc<Link>, queue: mpsc::Receiver<Outgoing>) -> Self {
        let log = Arc::new(ChildLog::new(server.clone()));
        let mut tasks = JoinSet::new();
        let writer = tasks.spawn(write(pipes.stdin, link.clone(), queue));
        tasks.spawn(read(pipes.stdout, link.clone(), server.clone()));
        let stderr = log.clone();
        tasks.spawn(async move {
            stderr.follow(pipes.stderr).await;
            None
        });
        Self { tasks, writer, log }
    }

    /// Waits for what makes the child useless.
    async fn fault(&mut self) -> Ending {
        loop {
            match self.tasks.join_next().await {
                Some(Ok(Some(fault))) => return fault,
                Some(Ok(None)) => {}
                Some(Err(e)) => return Ending::Unreadable(e.to_string()),
                None => pending().await,
            }
        }
    }

    fn close_input(&self) {
        self.writer.abort();
    }

    /// Reads what the child had still printed.
    async fn drain(&mut self) {
        self.close_input();
        let drained = async { while self.tasks.join_next().await.is_some() {} };
        if timeout(defaults::CHILD_DRAIN_TIMEOUT, drained).await.is_err() {
            debug!("something outside the process group holds its pipes open");
        }
    }
}

/// Writes one message after the other, so that lines never mix. Ends when the child closed its input, or when the
/// connection is gone.
async fn write(mut stdin: ChildStdin, link: Arc<Link>, mut queue: mpsc::Receiver<Outgoing>) -> Option<Ending> {
    loop {
        let next = tokio::select! {
            biased;
            next = queue.recv() => Ok(next?),
            message = link.outbox.next() => Err(message),
        };
        let written = match next {
            Err(message) => write_line(&mut stdin, message).await,
            Ok(next) => write_next(&mut stdin, &link, next).await,
        };
        if written.is_err() {
            return Some(Ending::InputClosed);
        }
    }
}

/// Writes what waits in the outbox, which was said before, and then `next`. What comes into the outbox meanwhile does not go
/// before it: a child that asks all the time would keep calls from itself.
async fn write_next(stdin: &mut ChildStdin, link: &Link, next: Outgoing) -> io::Result<()> {
    for _ in 0..link.outbox.len() {
        if let Some(message) = link.outbox.pop() {
            write_line(stdin, message).await?;
        }
    }
    let message = match next {
        Outgoing::Notification(message) => Some(message),
        Outgoing::Call(id) => link.calls.take_message(id),
    };
    match message {
        Some(message) => write_line(stdin, message).await,
        None => Ok(()),
    }
}

async fn write_line(stdin: &mut ChildStdin, message: Bytes) -> io::Result<()> {
    stdin.write_all_buf(&mut message.chain(&b"\n"[..])).await
}

/// Reads messages until the child closes its output or sends what is not taken.
async fn read(stdout: ChildStdout, link: Arc<Link>, server: Arc<str>) -> Option<Ending> {
    let mut lines = Lines::new(BufReader::with_capacity(READ_BUFFER, stdout), defaults::EVENT_MAX);
    let mut told = Told::default();
    loop {
        // What is buffered is read without waiting: a child that floods must not keep the thread.
        tokio::task::consume_budget().await;
        match lines.next().await {
            Ok(Some(Line::Whole(line))) => {
                for message in incoming::read(&Bytes::from(line)) {
                    deliver(message, &link, &server, &mut told);
                }
            }
            Ok(Some(Line::Cut(line))) => {
                let mut cut = Cut::new(&line);
                drop(line);
                if let Err(e) = lines.pass_rest(|part| cut.push(part)).await {
                    return Some(Ending::Unreadable(e.to_string()));
                }
                link.metrics.skipped();
                told.too_long(&server);
                if let Some(id) = cut.answers() {
                    link.calls.fail(id, StdioError::TooLarge(defaults::EVENT_MAX));
                }
            }
            Ok(None) => return Some(Ending::OutputClosed),
            Err(e) => return Some(Ending::Unreadable(e.to_string())),
        }
    }
}

fn deliver(message: Incoming, link: &Arc<Link>, server: &str, told: &mut Told) {
    match message {
        Incoming::Answer(id, message) => {
            if !link.calls.answer(id, message) {
                told.junk(Junk::UnknownId, server);
            }
        }
        // Progress of a call that is over, or that nobody asked for, is of no use.
        Incoming::Progress(id, message) => drop(link.calls.progress(id, &message)),
        Incoming::Notification(message) => {
            if let Some(dropped) = link.notifications.push(message) {
                dropped_notifications(dropped, server);
            }
        }
        Incoming::ForClient(message) => link.questions.hear_notification(&message),
        Incoming::Withdrawal(message) => {
            if let Ok(envelope) = Envelope::parse(&message, usize::MAX) {
                link.questions.withdraw(&envelope);
            }
            // It may be a listen of ours that it gives up.
            if let Some(dropped) = link.notifications.push(message) {
                dropped_notifications(dropped, server);
            }
        }
        Incoming::Request(message) => {
            if !answer(&message, link) {
                told.unread_replies(server);
            }
        }
        Incoming::Junk(junk) => told.junk(junk, server),
    }
}

/// Answers a request of the child, or has it answered. False if too many answers wait already.
fn answer(message: &[u8], link: &Arc<Link>) -> bool {
    let envelope = Envelope::parse(message, usize::MAX).ok();
    let request = envelope
        .as_ref()
        .and_then(|request| Some((Id::from_raw(request.id?)?, request)));
    match request.map_or(Heard::Nothing, |(id, request)| link.questions.hear(None, id, request)) {
        Heard::Nothing => true,
        Heard::Reply(reply) => link.outbox.reply(reply),
        Heard::Pending(pending) => {
            let link = Arc::clone(link);
            tokio::spawn(async move {
                if let Some((reply, undelivered)) = pending.reply().await
                    && !link.outbox.reply(reply)
                {
                    undelivered.end_call();
                }
            });
            true
        }
    }
}

const READ_BUFFER: usize = 32 << 10;

/// Told at 1, 2, 4, 8 … drops.
fn dropped_notifications(dropped: u64, server: &str) {
    if dropped.is_power_of_two() {
        warn!(
            server,
            dropped, "notifications come faster than they are taken; the oldest are dropped"
        );
    }
}

/// What was logged already: a child that prints one stray line most often prints thousands.
#[derive(Default)]
struct Told {
    junk: Vec<Junk>,
    replies: bool,
    too_long: bool,
}

impl Told {
    fn junk(&mut self, junk: Junk, server: &str) {
        if self.junk.contains(&junk) {
            return;
        }
        self.junk.push(junk);
        match junk {
            Junk::NotJson => debug!(server, "lines on standard output that are not JSON are skipped"),
            Junk::NotAMessage => debug!(server, "JSON on standard output that is no JSON-RPC message is skipped"),
            Junk::NotUtf8 => warn!(server, "lines on standard output that are not UTF-8 are skipped"),
            Junk::UnknownId => debug!(server, "answers to no request that waits are skipped"),
        }
    }

    fn too_long(&mut self, server: &str) {
        if !std::mem::replace(&mut self.too_long, true) {
            let most = defaults::EVENT_MAX;
            warn!(
                server,
                most, "lines on standard output that are longer are skipped, and fail their calls"
            );
        }
    }

    fn unread_replies(&mut self, server: &str) {
        if !std::mem::replace(&mut self.replies, true) {
            warn!(
                server,
                "the process does not read the answers to its requests; further ones are dropped"
            );
        }
    }
}
