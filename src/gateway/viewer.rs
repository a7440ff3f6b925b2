//! Who looks at the lists of a federation, and what they see of them now.

use std::sync::Arc;

use arc_swap::ArcSwap;

use super::access::Principal;
use super::visit::Visit;
use crate::fleet::{Federation, Fleet, News};
use crate::index::{Audience, Shown};

/// What of a client decides what it sees.
#[derive(Clone, Debug)]
pub(super) struct Viewer {
    principal: Principal,
}

/// What a viewer sees, looked at anew whenever there are news.
#[derive(Debug)]
pub(super) struct Sight {
    viewer: Viewer,
    fleet: Arc<ArcSwap<Fleet>>,
    federation: String,
    /// The news at which it was looked last.
    version: u64,
    shown: Shown,
}

impl Viewer {
    /// Who sends the message of `visit`.
    pub(super) fn of(visit: &Visit) -> Self {
        Self {
            principal: visit.principal.clone(),
        }
    }

    /// The audience that it belongs to.
    pub(super) fn audience(&self, federation: &Federation) -> Audience {
        Audience {
            rules: federation.index.rules().holding_for(self.principal.name()),
            ..Audience::EVERYBODY
        }
    }
}

impl Sight {
    /// What the client of `visit` sees while `news` are the last.
    pub(super) fn of(visit: &Visit, news: News) -> Self {
        let mut sight = Self {
            viewer: Viewer::of(visit),
            fleet: Arc::clone(&visit.shared.fleet),
            federation: visit.federation.name.clone(),
            version: news.version,
            shown: Shown::UNKNOWN,
        };
        sight.look();
        sight
    }

    /// What is seen as of `news`.
    pub(super) fn shown(&mut self, news: News) -> Shown {
        if self.version != news.version {
            self.version = news.version;
            self.look();
        }
        self.shown
    }

    fn look(&mut self) {
        let fleet = self.fleet.load();
        if let Some(federation) = fleet.federation(&self.federation) {
            let audience = self.viewer.audience(federation);
            self.shown = federation.index.view(audience).shown();
        }
    }
}
