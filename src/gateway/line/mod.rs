//! The line from a request at work to its client: what is said before the answer, then the answer.
//!
//! Whoever speaks never waits. Whoever reads takes one message after the other; of a line that is kept, another reader
//! can start again where the one before stopped.

mod budget;

use std::collections::VecDeque;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::Notify;
use tokio::sync::futures::Notified;
use tokio::time::sleep;

pub(super) use self::budget::Budget;
use self::budget::Share;
use super::finished::Content;
use super::outgoing::Outgoing;
use super::session::SessionId;
use crate::defaults;
use crate::mcp::{Method, Revision};

/// A line, held by all who speak on it and by who reads.
#[derive(Clone)]
pub struct Line(Arc<Shared>);

struct Shared {
    state: Mutex<State>,
    /// Told when there is something to read, when the line ends, and when readers come and go.
    changed: Notify,
    caller: OnceLock<Caller>,
    /// Whether what is asked for may be answered by a stream for no other reason than that it takes its time.
    may_take_time: AtomicBool,
}

/// The Legacy client at the other end. Its going away does not end the work.
#[derive(Clone, Copy, Debug)]
pub(super) struct Caller {
    /// Its session, if it has one.
    pub(super) session: Option<SessionId>,
    /// What it speaks.
    pub(super) revision: Revision,
}

/// Messages are numbered from 1.
#[derive(Default)]
struct State {
    /// The last messages that were said, the oldest first.
    messages: VecDeque<Outgoing>,
    /// Their bytes.
    bytes: usize,
    /// The number of the last message that was said.
    said: u64,
    /// The number of the last message that was read.
    read: u64,
    /// Where messages stay after they were read, as far as there is room: the room that all of them take, read or not.
    kept: Option<Share>,
    /// Whether nothing more will be said.
    ended: bool,
    /// How many readers there have been; only the last one is given anything.
    readers: u64,
    /// Whether the last reader is still there.
    attended: bool,
}

/// What a reader is given.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// A message and its number.
    Message(u64, Outgoing),
    /// Nothing for now.
    Nothing,
    /// Nothing any more, or another reader has taken over.
    Over,
}

impl Line {
    pub(super) fn new() -> Self {
        Self(Arc::new(Shared {
            state: Mutex::default(),
            changed: Notify::new(),
            caller: OnceLock::new(),
            may_take_time: AtomicBool::new(false),
        }))
    }

    /// Says `message`, a whole JSON-RPC message, without ever waiting. False where nobody will hear it: the client
    /// reads too slowly, or the line has ended.
    pub fn send(&self, message: Bytes) -> bool {
        self.change(|state| {
            let unread = usize::try_from(state.said.saturating_sub(state.read)).unwrap_or(usize::MAX);
            let fits = unread == 0
                || (unread < defaults::INTERMEDIATE_MAX
                    && state.unread_bytes() + message.len() <= defaults::INTERMEDIATE_BYTES_MAX);
            let hears = fits && !state.ended && state.is_awaited();
            if hears {
                state.say(message.into());
            }
            hears
        })
    }

    /// Says what the work came to, and ends the line. It is taken whatever waits already.
    pub(super) fn finish(&self, content: Content) {
        self.change(|state| {
            if state.ended {
                return;
            }
            state.ended = true;
            if state.is_awaited() {
                content
                    .into_messages()
                    .into_iter()
                    .for_each(|message| state.say(message));
            }
        });
    }

    /// Ends the line where it is, and forgets what it carried.
    pub(super) fn cut(&self) {
        self.change(|state| {
            *state = State {
                ended: true,
                said: state.said,
                read: state.said,
                readers: state.readers,
                ..State::default()
            };
        });
    }

    /// The client is a Legacy one.
    pub(super) fn set_caller(&self, caller: Caller) {
        // The first message tells; there is no second one but in a batch, where all have the same caller.
        self.0.caller.get_or_init(|| caller);
    }

    /// The client, if it is a Legacy one.
    pub(super) fn caller(&self) -> Option<Caller> {
        self.0.caller.get().copied()
    }

    /// Notes that `method` is asked for. Calls and reads may take their time; what is known here is told at once, and
    /// never on a stream.
    pub(super) fn set_method(&self, method: Method) {
        if matches!(method, Method::ToolsCall | Method::PromptsGet | Method::ResourcesRead) {
            self.0.may_take_time.store(true, Ordering::Relaxed);
        }
    }

    /// Whether what is asked for may take its time.
    pub(super) fn may_take_time(&self) -> bool {
        self.0.may_take_time.load(Ordering::Relaxed)
    }

    /// From now on, what was read is kept, within this line's own bounds and as far as there is room in `budget`.
    pub(super) fn keep(&self, budget: &Arc<Budget>) {
        let mut state = self.state();
        state.kept = Some(Share::in_budget(Arc::clone(budget)));
        state.make_room();
    }

    /// From now on, nothing is kept any more.
    pub(super) fn let_go(&self) {
        self.state().let_go();
    }

    /// Whether what was read is kept.
    pub(super) fn is_kept(&self) -> bool {
        self.state().kept.is_some()
    }

    /// Whether there is something to read, or will be nothing any more.
    pub(super) fn has_news(&self) -> bool {
        let state = self.state();
        state.said > state.read || state.ended
    }

    /// Waits until there is something to read, or will be nothing any more.
    pub(super) async fn news(&self) {
        loop {
            let changed = self.changed();
            if self.has_news() {
                return;
            }
            changed.await;
        }
    }

    /// Waits until nobody will hear anything more.
    pub async fn closed(&self) {
        loop {
            let changed = self.changed();
            if self.state().ended {
                return;
            }
            changed.await;
        }
    }

    /// Waits for the next change. What happens after this call is not missed, awaited or not.
    pub(super) fn changed(&self) -> Notified<'_> {
        self.0.changed.notified()
    }

    /// Lets a new reader take over: after the last message that was read, or after message number `after`. Gives its
    /// own number, or `None` where no such message was ever said.
    pub(super) fn attend(&self, after: Option<u64>) -> Option<u64> {
        self.change(|state| {
            if let Some(after) = after {
                if after > state.said {
                    return None;
                }
                state.read = after;
            }
            state.readers += 1;
            state.attended = true;
            Some(state.readers)
        })
    }

    /// What the reader of this number reads next.
    pub(super) fn take(&self, reader: u64) -> Next {
        let mut state = self.state();
        if reader != state.readers {
            return Next::Over;
        }
        if state.said > state.read {
            return state.read_next();
        }
        if state.ended { Next::Over } else { Next::Nothing }
    }

    /// The reader of this number goes away.
    pub(super) fn leave(&self, reader: u64) {
        self.change(|state| {
            state.attended &= reader != state.readers;
            state.make_room();
        });
    }

    /// Waits until nobody has read for as long as `patience`.
    pub(super) async fn deserted(&self, patience: Duration) {
        loop {
            let changed = self.changed();
            if self.state().attended {
                changed.await;
                continue;
            }
            let left = self.state().readers;
            let returned = async {
                loop {
                    let changed = self.changed();
                    if self.state().readers != left {
                        return;
                    }
                    changed.await;
                }
            };
            tokio::select! {
                () = returned => {}
                () = sleep(patience) => return,
            }
        }
    }

    /// All messages that wait to be read.
    #[cfg(test)]
    pub(super) fn unread(&self) -> Vec<Bytes> {
        let reader = self.attend(None);
        let next = || match self.take(reader?) {
            Next::Message(_, message) => Some(Bytes::from(message.joined().into_owned())),
            Next::Nothing | Next::Over => None,
        };
        std::iter::from_fn(next).collect()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn change<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        let changed = change(&mut self.state());
        self.0.changed.notify_waiters();
        changed
    }
}

impl Caller {
    /// Whether it takes events without data (2025-11-25, transports); older clients may take them for broken messages.
    pub(super) fn knows_priming(self) -> bool {
        self.revision >= Revision::V2025_11_25
    }
}

impl State {
    fn say(&mut self, message: Outgoing) {
        self.bytes += message.len();
        self.said += 1;
        self.messages.push_back(message);
        self.make_room();
    }

    fn read_next(&mut self) -> Next {
        // Messages that had to go are passed over: they were read before, if only into a connection that broke.
        self.read = (self.read + 1).max(self.first());
        let place = usize::try_from(self.read - self.first()).unwrap_or(usize::MAX);
        let next = match self.messages.get(place) {
            Some(message) => Next::Message(self.read, message.clone()),
            None => Next::Nothing,
        };
        self.make_room();
        next
    }

    /// The number of the oldest message that is there.
    fn first(&self) -> u64 {
        self.said + 1 - self.messages.len() as u64
    }

    /// Whether somebody reads, or will: whoever goes away comes back only to what is kept.
    fn is_awaited(&self) -> bool {
        self.readers == 0 || self.attended || self.kept.is_some()
    }

    fn let_go(&mut self) {
        self.kept = None;
        self.make_room();
    }

    /// Lets messages go that were read: all of them, or those for which there is no room. Where those that are yet to be
    /// read find none, nothing is kept any more, and where nobody reads them they go as well.
    fn make_room(&mut self) {
        while self.first() <= self.read && !self.messages.is_empty() {
            let has_room =
                self.messages.len() <= defaults::RESUME_MESSAGES_MAX && self.bytes <= defaults::INTERMEDIATE_BYTES_MAX;
            if (has_room || self.messages.len() == 1) && self.is_covered() {
                return;
            }
            let gone = self.messages.pop_front();
            self.bytes -= gone.map_or(0, |message| message.len());
        }
        if !self.is_covered() {
            self.kept = None;
        }
        if !self.is_awaited() {
            self.messages.clear();
            (self.bytes, self.read) = (0, self.said);
        }
    }

    /// Whether the budget has room for all that is here.
    fn is_covered(&mut self) -> bool {
        let bytes = self.bytes;
        self.kept.as_mut().is_some_and(|share| share.resize(bytes))
    }

    fn unread_bytes(&self) -> usize {
        let unread = usize::try_from(self.said.saturating_sub(self.read)).unwrap_or(usize::MAX);
        self.messages.iter().rev().take(unread).map(Outgoing::len).sum()
    }
}

impl fmt::Debug for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.state();
        f.debug_struct("Line")
            .field("said", &state.said)
            .field("read", &state.read)
            .field("ended", &state.ended)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
