//! Whether who opened a stream may still hear what comes on it.

use std::future::pending;
use std::sync::Arc;

use arc_swap::ArcSwap;
use http::HeaderValue;
use http::header::ORIGIN;
use tokio::sync::watch;

use super::access::{self, Principal};
use super::origin;
use super::visit::Visit;
use crate::fleet::{Federation, Fleet, KeyDigest, News};

/// What a federation must serve for a stream to go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Needs {
    /// Whatever it serves.
    Nothing,
    /// Legacy clients.
    Legacy,
    /// Legacy clients, in sessions.
    Sessions,
}

/// Holds what a stream was opened with against what its federation lets in, whenever that changes.
#[derive(Debug)]
pub(super) struct Gate {
    needs: Needs,
    fleet: Arc<ArcSwap<Fleet>>,
    federation: String,
    principal: Principal,
    key: Option<KeyDigest>,
    /// The page that opened it, if one did.
    origins: Box<[HeaderValue]>,
    /// Whether it is open to whoever started this process, whom no access is for.
    is_local: bool,
    /// The access by which it was open last; before the first look no count of changes is.
    checked: u64,
}

/// A gate that hears by itself what changes.
#[derive(Debug)]
pub(super) struct Guard {
    gate: Gate,
    news: watch::Receiver<News>,
}

impl Gate {
    /// The gate for a stream that `visit` opens. What has changed since the request came in is looked at too.
    pub(super) fn new(visit: &Visit, needs: Needs) -> Self {
        Self {
            needs,
            fleet: Arc::clone(&visit.shared.fleet),
            federation: visit.federation.name.clone(),
            principal: visit.principal.clone(),
            key: access::presented_digest(&visit.headers),
            origins: visit.headers.get_all(ORIGIN).iter().cloned().collect(),
            is_local: visit.channel.as_ref().is_some_and(|channel| channel.is_local()),
            checked: UNCHECKED,
        }
    }

    /// Whether there is anything to hear of: a member alone may be none any more.
    pub(super) fn is_served(&self) -> bool {
        self.fleet.load().federation(&self.federation).is_some()
    }

    /// Whether the stream may go on.
    pub(super) fn is_open(&mut self, news: News) -> bool {
        if news.access == self.checked {
            return true;
        }
        let fleet = self.fleet.load();
        let federation = fleet.federation(&self.federation);
        let is_open = federation.is_some_and(|served| {
            let admits = self.is_local || access::still_admits(&served.access, &self.principal, self.key.as_ref());
            admits && origin::admits(&served.origins, &self.origins) && self.needs.are_met(served)
        });
        if is_open {
            self.checked = news.access;
        }
        is_open
    }
}

impl Needs {
    fn are_met(self, by: &Federation) -> bool {
        match self {
            Self::Nothing => true,
            Self::Legacy => by.protocol.legacy,
            Self::Sessions => by.protocol.legacy && by.sessions.enabled,
        }
    }
}

impl Guard {
    /// The guard of what `visit` waits for.
    pub(super) fn new(visit: &Visit) -> Self {
        Self {
            gate: Gate::new(visit, Needs::Nothing),
            news: visit.federation.changes.listen(),
        }
    }

    /// Waits until who sent the request would not be let in any more.
    pub(super) async fn shut(&mut self) {
        loop {
            let news = *self.news.borrow_and_update();
            // What is not served any more is let finish.
            if news.gone {
                break;
            }
            if !self.gate.is_open(news) {
                return;
            }
            if self.news.changed().await.is_err() {
                break;
            }
        }
        pending().await
    }
}

/// No count of changes.
const UNCHECKED: u64 = u64::MAX;
