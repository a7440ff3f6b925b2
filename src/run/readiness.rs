//! When clients should be sent here.

use std::sync::Arc;

use tokio::sync::watch;
use tokio::time::{Instant, timeout_at};

use crate::defaults;
use crate::fleet::{Observations, UpstreamState};

/// Sets `ready` once each server answered or failed; one that hangs holds it up for a few seconds only.
pub(crate) async fn watch(mut observations: watch::Receiver<Arc<Observations>>, ready: watch::Sender<bool>) {
    // Before the first plan is carried out no server is held either.
    let settled = |observed: &Arc<Observations>| {
        let mut states = observed.servers.values().map(|server| &server.state).peekable();
        states.peek().is_some() && states.all(|state| *state != UpstreamState::Connecting)
    };
    let deadline = Instant::now() + defaults::READY_PATIENCE;
    // Either way it is ready now: settled, or waited long enough.
    drop(timeout_at(deadline, observations.wait_for(settled)).await);
    ready.send_replace(true);
}
