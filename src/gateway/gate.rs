//! Whether who opened a stream may still hear what comes on it.

use std::sync::Arc;

use arc_swap::ArcSwap;

use super::access::{self, Principal};
use super::visit::Visit;
use crate::fleet::{Fleet, KeyDigest, News};

/// Holds what a stream was opened with against the access of its federation, whenever that changes.
#[derive(Debug)]
pub(super) struct Gate {
    fleet: Arc<ArcSwap<Fleet>>,
    federation: String,
    principal: Principal,
    key: Option<KeyDigest>,
    /// Whether it is open to whoever started this process, whom no access is for.
    is_local: bool,
    /// The access that was checked last.
    checked: u64,
}

impl Gate {
    /// The gate for a stream that `visit` opens while `news` tells the state of access.
    pub(super) fn new(visit: &Visit, news: News) -> Self {
        Self {
            fleet: Arc::clone(&visit.shared.fleet),
            federation: visit.federation.name.clone(),
            principal: visit.principal.clone(),
            key: access::presented_digest(&visit.headers),
            is_local: visit.channel.as_ref().is_some_and(|channel| channel.is_local()),
            checked: news.access,
        }
    }

    /// Whether the stream may go on.
    pub(super) fn is_open(&mut self, news: News) -> bool {
        if news.access == self.checked {
            return true;
        }
        self.checked = news.access;
        let fleet = self.fleet.load();
        let federation = fleet.federation(&self.federation);
        federation.is_some_and(|served| {
            self.is_local || access::still_admits(&served.access, &self.principal, self.key.as_ref())
        })
    }
}
