//! Who looks at the lists of a federation, and what they see of them now.

use std::sync::Arc;

use arc_swap::ArcSwap;
use tokio::time::{Instant, sleep};

use super::access::Principal;
use super::session::Session;
use crate::defaults;
use crate::fleet::{Absent, Caller, Federation, Fleet, News, Watching};
use crate::index::{Audience, RuleSet, Shown};
use crate::mcp::{Members, meta};

/// What of a client decides what it sees.
#[derive(Clone, Debug)]
pub(super) struct Viewer {
    pub(super) principal: Principal,
    /// Whether it shows user interfaces.
    pub(super) shows_apps: bool,
    /// Whether it wishes to be listed everything.
    pub(super) shows_all: bool,
    /// Whether it started this process, whom no access is for.
    pub(super) is_local: bool,
    /// Who it is to servers that are asked in callers' names, if any is.
    pub(super) caller: Option<Arc<Caller>>,
    /// What it can do where a server wants credentials, if that is known.
    pub(super) on_refusal: Option<&'static str>,
}

/// A viewer of a federation, whatever becomes of both.
#[derive(Clone, Debug)]
pub(super) struct Standing {
    viewer: Viewer,
    fleet: Arc<ArcSwap<Fleet>>,
    federation: String,
}

/// What a viewer sees, looked at anew whenever there are news.
#[derive(Debug)]
pub(super) struct Sight {
    standing: Standing,
    /// The news at which it was looked last.
    version: u64,
    shown: Shown,
    /// Keeps fresh what servers list for the viewer alone.
    watching: Option<Watching>,
}

impl Viewer {
    /// The same of whoever is `caller` to servers that are asked in callers' names.
    pub(super) fn asking_as(self, caller: Option<Arc<Caller>>) -> Self {
        Self { caller, ..self }
    }

    /// Who it is to such servers, if there are any.
    pub(super) fn caller(&self) -> Option<&Caller> {
        self.caller.as_deref()
    }

    /// The audience that it belongs to.
    pub(super) fn audience(&self, federation: &Federation) -> Audience {
        let rules = federation.index.rules();
        Audience {
            rules: if self.is_local {
                RuleSet::ALL
            } else {
                rules.holding_for(self.principal.name())
            },
            show_all: self.shows_all && federation.discovery.show_all_allowed,
            apps: self.shows_apps,
        }
    }
}

impl Standing {
    /// That of `viewer` in the federation of this name.
    pub(super) fn new(viewer: Viewer, fleet: &Arc<ArcSwap<Fleet>>, federation: &str) -> Self {
        Self {
            viewer,
            fleet: Arc::clone(fleet),
            federation: federation.to_owned(),
        }
    }

    /// The audience that the viewer belongs to in `federation`.
    pub(super) fn audience(&self, federation: &Federation) -> Audience {
        self.viewer.audience(federation)
    }

    /// The federation as it is served now and as the viewer sees it, and the audience that the viewer belongs to there.
    pub(super) fn now(&self) -> Option<(Arc<Federation>, Audience)> {
        let federation = self.served()?;
        let audience = self.viewer.audience(&federation);
        let seen = match self.viewer.caller() {
            Some(caller) => federation.seen_by(caller),
            None => federation,
        };
        Some((seen, audience))
    }

    /// The federation as it is served now and as the viewer sees it, once everything of it is known.
    pub(super) async fn settled(&self) -> Option<Arc<Federation>> {
        let federation = self.served()?;
        Some(match self.viewer.caller() {
            Some(caller) => federation.ready_for(caller, |_| true).await,
            None => federation,
        })
    }

    /// Resolves once the federation has been without what it `has` for a while on end, and so not just while something is
    /// written or read anew. It is looked at now and then: not all that an edit takes away changes a list.
    pub(super) async fn without(self, has: impl Fn(&Federation, Audience) -> bool) {
        let has = |federation: Arc<Federation>| has(&federation, self.audience(&federation));
        let mut since = None;
        loop {
            let is_there = self.now().is_some_and(|(federation, _)| has(federation))
                // What is listed to a caller alone may have to be read first.
                || self.settled().await.is_some_and(has);
            if is_there {
                since = None;
            } else if since.get_or_insert_with(Instant::now).elapsed() >= defaults::TAKEN_OUT_AFTER {
                return;
            }
            sleep(defaults::TAKEN_OUT_LOOK).await;
        }
    }

    fn served(&self) -> Option<Arc<Federation>> {
        self.fleet.load().federation(&self.federation).cloned()
    }

    /// Whether the viewer, who subscribed to the resource `subscribed`, may hear of an update of `updated`, which may
    /// be a part of it (2025-06-18, resource updates).
    pub(super) fn may_hear(&self, subscribed: &str, updated: &str) -> bool {
        let Some((federation, audience)) = self.now() else {
            return false;
        };
        let index = &federation.index;
        let may_read = |uri: &str| index.resource(uri, audience).is_some();
        // A part need not be listed; rules have to cover it all the same.
        may_read(subscribed) && (subscribed == updated || index.rules().is_empty() || may_read(updated))
    }
}

impl Sight {
    /// What whoever has this `standing` sees while `news` are the last.
    pub(super) fn of(standing: Standing, news: News) -> Self {
        let mut sight = Self {
            standing,
            version: news.version,
            shown: Shown::UNKNOWN,
            watching: None,
        };
        sight.look();
        sight
    }

    /// Whose it is.
    pub(super) fn standing(&self) -> &Standing {
        &self.standing
    }

    /// The members whose changes are not heard of now.
    pub(super) fn unheard(&self) -> Vec<Absent> {
        let federation = self
            .watching
            .as_ref()
            .and_then(|watching| Some((self.standing.served()?, watching)));
        federation.map_or_else(Vec::new, |(federation, watching)| federation.unheard_by(watching))
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
        let Some(federation) = self.standing.served() else {
            return;
        };
        let audience = self.standing.audience(&federation);
        let seen = match self.standing.viewer.caller() {
            None => Some(federation),
            Some(caller) => {
                self.watching = federation.watched_by(caller, self.watching.take());
                // What is still to come would be told as a change, and what had to make room as none.
                federation.settled_for(caller, self.watching.as_ref())
            }
        };
        if let Some(seen) = seen {
            self.shown = seen.index.view(audience).shown();
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
