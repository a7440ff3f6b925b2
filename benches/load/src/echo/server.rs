//! The server's state.

use std::collections::HashSet;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicI64, AtomicU64, AtomicUsize};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::{Value, json};
use tokio::sync::broadcast;

use crate::args::Args;

/// The server. There is one for the life of the process.
#[derive(Debug)]
pub(crate) struct Server {
    pub(crate) args: Args,
    pub(crate) counters: Counters,
    /// Tools added while it runs.
    pub(crate) added: AtomicUsize,
    pub(crate) changes: broadcast::Sender<Change>,
    /// The open Legacy sessions.
    pub(crate) sessions: Mutex<HashSet<String>>,
    pub(crate) next_session: AtomicU64,
    /// All tools, as a JSON array.
    tool_list: Mutex<Arc<str>>,
    /// The last requests, where they are kept.
    recorded: Mutex<Vec<Value>>,
}

/// What `GET /stats` tells.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) requests: AtomicU64,
    pub(crate) calls: AtomicU64,
    pub(crate) errors: AtomicU64,
    pub(crate) cancelled: AtomicU64,
    pub(crate) streams: AtomicI64,
    pub(crate) running: AtomicI64,
    pub(crate) most_running: AtomicI64,
}

/// What can change while the server runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    /// The list of tools.
    Tools,
    /// The content of a resource.
    Resource,
}

impl Server {
    /// A server with these tools, a JSON array, that has answered nothing yet.
    pub(crate) fn new(args: Args, tool_list: String) -> Self {
        Self {
            args,
            counters: Counters::default(),
            added: AtomicUsize::new(0),
            changes: broadcast::channel(256).0,
            sessions: Mutex::default(),
            next_session: AtomicU64::new(1),
            tool_list: Mutex::new(tool_list.into()),
            recorded: Mutex::default(),
        }
    }

    /// All tools, as a JSON array.
    pub(crate) fn tool_list(&self) -> Arc<str> {
        lock(&self.tool_list).clone()
    }

    /// Lists these tools from now on.
    pub(crate) fn list_tools(&self, tools: String) {
        *lock(&self.tool_list) = tools.into();
    }

    /// Keeps a request, where they are kept.
    pub(crate) fn record(&self, request: impl FnOnce() -> Value) {
        if self.args.record == 0 {
            return;
        }
        let mut recorded = lock(&self.recorded);
        if recorded.len() >= self.args.record {
            recorded.remove(0);
        }
        recorded.push(request());
    }

    /// The last requests.
    pub(crate) fn recorded(&self) -> Value {
        lock(&self.recorded).clone().into()
    }

    /// Tells those who listen.
    pub(crate) fn tell(&self, change: Change) {
        self.changes.send(change).unwrap_or_default(); // an error: nobody listens
    }

    /// What `GET /stats` tells.
    pub(crate) fn stats(&self) -> Value {
        let counters = &self.counters;
        json!({
            "requests": counters.requests.load(Relaxed),
            "tool_calls": counters.calls.load(Relaxed),
            "errors": counters.errors.load(Relaxed),
            "running": counters.running.load(Relaxed),
            "most_running": counters.most_running.load(Relaxed),
            "open_streams": counters.streams.load(Relaxed),
            "cancelled": counters.cancelled.load(Relaxed),
            "sessions": lock(&self.sessions).len(),
            "added_tools": self.added.load(Relaxed),
        })
    }
}

/// Locks; what a panicking holder left behind is still whole here.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
