//! Who looks at the lists of a federation, and what they see of them now.

use std::sync::Arc;

use arc_swap::ArcSwap;

use super::access::Principal;
use super::session::Session;
use super::visit::Visit;
use crate::fleet::{Federation, Fleet, News};
use crate::index::{Audience, Shown};
use crate::mcp::{Members, meta};

/// What of a client decides what it sees.
#[derive(Clone, Debug)]
pub(super) struct Viewer {
    principal: Principal,
    /// Whether it shows user interfaces.
    shows_apps: bool,
    /// Whether it wishes to be listed everything.
    shows_all: bool,
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
    /// Who sends the message of `visit`: in a session, or with this `_meta`.
    pub(super) fn of(visit: &Visit, session: Option<&Session>, meta: Option<&Members<'_>>) -> Self {
        Self {
            principal: visit.principal.clone(),
            shows_apps: visit.federation.index.hides_app_only() && shows_apps(&visit.federation, session, meta),
            shows_all: session.map_or(visit.shows_all, |session| session.shows_all),
        }
    }

    /// The audience that it belongs to.
    pub(super) fn audience(&self, federation: &Federation) -> Audience {
        Audience {
            rules: federation.index.rules().holding_for(self.principal.name()),
            show_all: self.shows_all && federation.discovery.show_all_allowed,
            apps: self.shows_apps,
        }
    }
}

impl Sight {
    /// What `viewer`, whose message is that of `visit`, sees while `news` are the last.
    pub(super) fn of(visit: &Visit, viewer: Viewer, news: News) -> Self {
        let mut sight = Self {
            viewer,
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

/// Whether the client says that it shows user interfaces: when it opened its session, or with its request.
pub(super) fn shows_apps(federation: &Federation, session: Option<&Session>, meta: Option<&Members<'_>>) -> bool {
    let declared = match session {
        Some(session) => session.capabilities.as_deref(),
        None => meta.and_then(|meta| meta.get(meta::CLIENT_CAPABILITIES)),
    };
    declared.is_some_and(|declared| federation.apps.are_met_by(declared.get()))
}
