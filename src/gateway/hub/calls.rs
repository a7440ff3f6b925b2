//! Calls at work, so that their session can cancel them.

use std::sync::Arc;

use super::at_work::{AtWork, Withdrawal};
use super::sessions::SessionHub;
use crate::gateway::session::SessionId;
use crate::mcp::Id;

/// A call that can be cancelled for as long as this lives.
pub(in crate::gateway) struct Begun {
    hub: Arc<SessionHub>,
    session: SessionId,
    withdrawal: Arc<Withdrawal>,
}

impl SessionHub {
    /// Lets `session` cancel what it asked for under `id`.
    pub(in crate::gateway) fn begin(hub: &Arc<Self>, session: SessionId, id: Id<'_>) -> Begun {
        let call = AtWork::new(id);
        let withdrawal = Arc::clone(call.withdrawal());
        hub.shards.of(session).entry(session).or_default().calls.push(call);
        Begun {
            hub: Arc::clone(hub),
            session,
            withdrawal,
        }
    }

    /// Cancels what `session` asked for under `id`, written exactly so; tells whether there was anything.
    pub(in crate::gateway) fn cancel(&self, session: SessionId, id: &str) -> bool {
        let shard = self.shards.of(session);
        let calls = shard.get(&session).map(|held| held.calls.as_slice());
        let call = calls.unwrap_or_default().iter().rfind(|call| call.is(id));
        call.map(AtWork::withdraw).is_some()
    }
}

impl Begun {
    /// Whether the client does not want the answer any more.
    pub(in crate::gateway) fn is_withdrawn(&self) -> bool {
        self.withdrawal.has_come()
    }

    /// Waits until the client does not want the answer any more.
    pub(in crate::gateway) async fn withdrawn(&self) {
        self.withdrawal.come().await;
    }
}

impl Drop for Begun {
    fn drop(&mut self) {
        let withdrawal = &self.withdrawal;
        self.hub.change(self.session, |held| {
            held.calls.retain(|call| !Arc::ptr_eq(call.withdrawal(), withdrawal));
        });
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;
    use serde_json::value::RawValue;

    use super::*;

    fn begin(hub: &Arc<SessionHub>, session: SessionId, id: &str) -> Begun {
        let raw: Box<RawValue> = serde_json::from_str(id).unwrap();
        SessionHub::begin(hub, session, Id::from_raw(&raw).unwrap())
    }

    fn is_withdrawn(call: &Begun) -> bool {
        call.withdrawn().now_or_never().is_some()
    }

    #[test]
    fn exactly_the_call_of_this_session_and_id_is_cancelled() {
        let hub = Arc::new(SessionHub::new());
        let (mine, other) = (SessionId::random().unwrap(), SessionId::random().unwrap());
        let calls = [
            begin(&hub, mine, "1"),
            begin(&hub, mine, "\"1\""),
            begin(&hub, mine, "1.0"),
            begin(&hub, other, "1"),
        ];
        assert!(hub.cancel(mine, "1"));
        let withdrawn: Vec<_> = calls.iter().map(is_withdrawn).collect();
        assert_eq!(withdrawn, [true, false, false, false]);
        assert!(!hub.cancel(mine, "2") && !hub.cancel(other, "\"1\""));
    }

    #[test]
    fn a_call_that_is_over_leaves_nothing() {
        let hub = Arc::new(SessionHub::new());
        let session = SessionId::random().unwrap();
        let (first, second) = (begin(&hub, session, "1"), begin(&hub, session, "1"));
        drop(first);
        assert!(hub.cancel(session, "1") && is_withdrawn(&second));
        drop(second);
        assert!(!hub.cancel(session, "1"));
        assert_eq!(hub.sessions(), 0);
    }

    #[test]
    fn the_end_of_a_session_cancels_its_calls() {
        let hub = Arc::new(SessionHub::new());
        let (mine, other) = (SessionId::random().unwrap(), SessionId::random().unwrap());
        let (ended, stays) = (begin(&hub, mine, "1"), begin(&hub, other, "1"));
        hub.end(mine);
        assert!(is_withdrawn(&ended) && !is_withdrawn(&stays));
        drop((ended, stays));
        assert_eq!(hub.sessions(), 0);
    }
}
