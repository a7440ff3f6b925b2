//! What the task of a server and its calls share.

use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

use arc_swap::ArcSwapOption;
use tokio::sync::{Notify, watch};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::at_work::AtWork;
use super::connection::Connection;
use super::endpoint::{Endpoint, Timeouts};
use super::known::Known;
use super::lanes::Lanes;
use super::reread::Rereads;
use super::state::State;
use super::terms::Freshness;
use super::turns::Turns;
use crate::metrics::ServerMetrics;
use crate::seldom::Failing;

/// What the task of a server and its calls share.
#[derive(Debug)]
pub(super) struct Inner {
    /// What messages call it: `namespace/name`.
    pub(super) name: String,
    /// Where it is reached.
    pub(super) endpoint: Endpoint,
    /// How long it is waited for.
    pub(super) timeouts: Timeouts,
    /// How fresh its lists are kept.
    pub(super) freshness: Freshness,
    /// Whether nothing is offered as long as one of its tools cannot be.
    pub(super) withholds_whole: bool,
    /// Whether its lists are read at all.
    pub(super) reads_lists: bool,
    /// How many calls are under way, and how many subscriptions there are; not counted where it is held for everybody.
    pub(super) at_work: Option<Arc<AtomicUsize>>,
    /// What all connections to it have in common.
    pub(super) known: Arc<Known>,
    /// The connection that reads the catalog. It carries calls too where the server keeps nothing for a connection.
    pub(super) live: ArcSwapOption<Connection>,
    /// The connections that carry calls where it does.
    pub(super) lanes: Arc<Lanes>,
    /// What is known of it.
    pub(super) state: watch::Sender<Arc<State>>,
    /// Since when it fails, if it does.
    pub(super) failing: watch::Sender<Option<Instant>>,
    /// Wakes its task.
    pub(super) wake: Notify,
    /// Who waits for the lists to be read.
    pub(super) rereads: Rereads,
    /// How often tasks are asked for that it does not tell of.
    pub(super) task_looks: Turns,
    /// What was said last of how its own search fails.
    pub(super) search_failures: Failing,
    /// It is let go of.
    pub(super) stop: CancellationToken,
    /// What is counted of it.
    pub(super) metrics: ServerMetrics,
}

impl Inner {
    /// Keeps the server held until what is given is dropped; `None` where it is held for everybody.
    pub(super) fn begin_work(&self) -> Option<AtWork> {
        self.at_work.as_ref().map(AtWork::counted)
    }
}
