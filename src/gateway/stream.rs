//! A request's answer as an event stream: what is said on its line, then the answer (2025-03-26, transports).
//!
//! That of a Legacy client in a session can be resumed: somebody else then sees to the work, and the stream only reads.

use std::future::pending;

use futures::stream::unfold;
use tokio::time::{Duration, sleep};

use super::finished::{Event, Events, Finished};
use super::gate::Guard;
use super::hub::{Kept, SessionHub, StreamId};
use super::line::{Line, Next};
use super::work::Work;

/// Reads a line for one connection.
struct Reader {
    line: Line,
    number: u64,
    /// The work at the other end, unless somebody else sees to it. Dropped with the reader.
    work: Option<Work>,
    /// Who watches over it, unless somebody else does.
    guard: Option<Guard>,
    keep_alive: Duration,
    /// Named in the ids of events, if the stream can be resumed.
    stream: Option<StreamId>,
    /// Whether an event without a message comes first, to resume from before anything was said.
    primes: bool,
}

/// The stream of what `work` says on its line, and of what it came to, if it is `finished`. The work is done for as
/// long as the stream is read or, where the client can resume it, a while longer; and what was said is kept for a while.
/// All of it ends at once when `guard` says so.
pub(super) fn open(work: Work, finished: Option<Finished>, guard: Guard, keep_alive: Duration) -> Option<Events> {
    let line = work.line().clone();
    let Some(kept) = keep(&work) else {
        if let Some(finished) = finished {
            line.finish(finished.content);
        }
        return read(line, None, Some((work, guard)), keep_alive, None);
    };
    let events = read(line, None, None, keep_alive, Some(kept.stream))?;
    let patience = work.patience();
    tokio::spawn(async move {
        let finished = match finished {
            Some(finished) => Some(finished),
            None => see_to(work, guard).await,
        };
        if let Some(finished) = finished {
            kept.finish(finished.content, patience).await;
        }
    });
    Some(events)
}

/// What is said on `line`, the one of `stream`, after message number `after`. `None` where no such message was ever said.
pub(super) fn resume(line: Line, stream: StreamId, after: u64, keep_alive: Duration) -> Option<Events> {
    read(line, Some(after), None, keep_alive, Some(stream))
}

fn read(
    line: Line,
    after: Option<u64>,
    work: Option<(Work, Guard)>,
    keep_alive: Duration,
    stream: Option<StreamId>,
) -> Option<Events> {
    let (work, guard) = work.unzip();
    let number = line.attend(after)?;
    let primes = after.is_none() && stream.is_some() && line.caller().is_some_and(|caller| caller.knows_priming());
    let reader = Reader {
        line,
        number,
        work,
        guard,
        keep_alive,
        stream,
        primes,
    };
    let next = async |mut reader: Reader| reader.next().await.map(|event| (event, reader));
    Some(Box::pin(unfold(reader, next)))
}

/// A place among the streams that can be resumed, where the client has a session to resume it by.
fn keep(work: &Work) -> Option<Kept> {
    let session = work.line().caller()?.session?;
    SessionHub::keep(work.hub(), session, StreamId::random()?, work.line())
}

/// Does the work until it is finished; `None` where it was given up since nobody came back to read, or may do so.
async fn see_to(mut work: Work, mut guard: Guard) -> Option<Finished> {
    let (line, patience) = (work.line().clone(), work.patience());
    tokio::select! {
        biased;
        finished = &mut work => return Some(finished),
        () = line.deserted(patience) => tracing::debug!("a call was given up: its client did not come back"),
        () = guard.shut() => tracing::debug!("a call was given up: its client is not let in any more"),
    }
    line.cut();
    work.cancel();
    None
}

impl Reader {
    async fn next(&mut self) -> Option<Event> {
        if let Some(stream) = self.stream.filter(|_| std::mem::take(&mut self.primes)) {
            return Some(Event::Priming(stream.event(0)));
        }
        let silence = sleep(self.keep_alive);
        tokio::pin!(silence);
        loop {
            let changed = self.line.changed();
            match self.line.take(self.number) {
                Next::Message(number, message) => {
                    let id = self.stream.map(|stream| stream.event(number));
                    return Some(Event::Message(message, id));
                }
                Next::Over => return None,
                Next::Nothing => {}
            }
            tokio::select! {
                biased;
                () = changed => {}
                finished = finished(&mut self.work) => {
                    self.work = None;
                    self.line.finish(finished.content);
                }
                () = shut(&mut self.guard) => {
                    if let Some(work) = self.work.take() {
                        work.cancel();
                    }
                    return None;
                }
                () = &mut silence => return Some(Event::Ping),
            }
        }
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        self.line.leave(self.number);
    }
}

async fn shut(guard: &mut Option<Guard>) {
    match guard {
        Some(guard) => guard.shut().await,
        None => pending().await,
    }
}

async fn finished(work: &mut Option<Work>) -> Finished {
    match work {
        Some(work) => work.await,
        None => pending().await,
    }
}
