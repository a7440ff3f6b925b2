//! One upstream that is held, and, for a while after its plan changed, the one before.

use std::sync::Arc;

use tokio::sync::watch;
use tokio::time::Instant;

use super::server_plan::ServerPlan;
use crate::upstream::{State, Upstream};

/// An upstream with the plan that it was started for. The one that it takes the place of serves on until this one can,
/// though not for ever.
pub(super) struct Held {
    pub(super) plan: ServerPlan,
    now: Serving,
    before: Option<(Serving, Instant)>,
}

/// An upstream and what is known of it.
#[derive(Clone)]
pub(super) struct Serving {
    pub(super) upstream: Arc<Upstream>,
    state: watch::Receiver<Arc<State>>,
}

impl Held {
    /// Nothing was held before.
    pub(super) fn new(plan: ServerPlan, upstream: Arc<Upstream>) -> Self {
        Self {
            plan,
            now: Serving::new(upstream),
            before: None,
        }
    }

    /// Whether it does for `plan`: what is only to be read again needs no other upstream.
    pub(super) fn does_for(&self, plan: &ServerPlan) -> bool {
        self.plan.endpoint == plan.endpoint && self.plan.terms == plan.terms
    }

    /// Takes the marks of `plan`, and has the lists read again if there are new ones.
    pub(super) fn refresh_for(&mut self, plan: &ServerPlan) {
        if !plan.refresh.is_subset(&self.plan.refresh) {
            self.now.upstream.refresh();
        }
        self.plan.refresh.clone_from(&plan.refresh);
    }

    /// Puts `upstream` in its place, which has until `deadline` to be able to serve. Gives what is of no more use.
    pub(super) fn replace(
        &mut self,
        plan: ServerPlan,
        upstream: Arc<Upstream>,
        deadline: Instant,
    ) -> Option<Arc<Upstream>> {
        let old = std::mem::replace(&mut self.now, Serving::new(upstream));
        self.plan = plan;
        if self.before.is_none() && old.can_serve() {
            self.before = Some((old, deadline));
            return None;
        }
        Some(old.upstream)
    }

    /// Gives the one before once it is of no more use, at the time `at`.
    pub(super) fn settle(&mut self, at: Instant) -> Option<Arc<Upstream>> {
        let has_come = self.now.can_serve();
        let before = self.before.take_if(|(_, deadline)| has_come || *deadline <= at);
        before.map(|(serving, _)| serving.upstream)
    }

    /// The upstream that serves.
    pub(super) fn serving(&self) -> &Serving {
        self.before.as_ref().map_or(&self.now, |(serving, _)| serving)
    }

    /// What is known of the upstream of the plan, whether it serves already or not.
    pub(super) fn state(&self) -> Arc<State> {
        self.now.state()
    }

    /// All that is held.
    pub(super) fn into_upstreams(self) -> impl Iterator<Item = Arc<Upstream>> {
        let before = self.before.map(|(serving, _)| serving.upstream);
        before.into_iter().chain([self.now.upstream])
    }
}

impl Serving {
    fn new(upstream: Arc<Upstream>) -> Self {
        Self {
            state: upstream.state(),
            upstream,
        }
    }

    /// What is known of it.
    pub(super) fn state(&self) -> Arc<State> {
        self.state.borrow().clone()
    }

    fn can_serve(&self) -> bool {
        self.state.borrow().catalog.is_some()
    }
}
