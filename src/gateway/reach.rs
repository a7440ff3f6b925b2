//! What the client on pipes is told while the one server that it is served cannot be reached: an empty server would look
//! like one that works.

use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use http::StatusCode;
use serde_json::json;
use tokio::sync::mpsc;
use tokio::time::timeout;

use super::channel::Incoming;
use super::modern::refusal;
use super::outgoing::Outgoing;
use super::reply;
use crate::defaults;
use crate::fleet::Fleet;
use crate::mcp::{Envelope, Id, Kind, Method, RpcError, printable};
use crate::upstream::{Health, State, Upstream};

/// Stands before a talk, and answers in its place while there is nothing to talk to.
#[derive(Debug)]
pub(super) struct Reach {
    pub(super) fleet: Arc<ArcSwap<Fleet>>,
    /// The federation of one member that is served.
    pub(super) federation: String,
    /// What to do where its server wants credentials.
    pub(super) on_refusal: &'static str,
}

impl Reach {
    /// Passes on to `taken` what is `incoming`, until that ends. Requests are answered to `out` instead while the server
    /// cannot be reached; one that opens a talk waits for it for a while.
    pub(super) async fn pass(
        self,
        mut incoming: mpsc::Receiver<Incoming>,
        taken: mpsc::Sender<Incoming>,
        out: mpsc::Sender<Outgoing>,
    ) {
        while let Some(message) = incoming.recv().await {
            let refused = match &message {
                Incoming::Message(message, _) => self.refused(message).await,
                Incoming::TooLarge(_) => Vec::new(),
            };
            if refused.is_empty() {
                if taken.send(message).await.is_err() {
                    return;
                }
                continue;
            }
            for answer in refused {
                // Where nobody listens or reads, the talk ends.
                let sent = timeout(defaults::CHANNEL_GRACE, out.send(answer)).await;
                if !matches!(sent, Ok(Ok(()))) {
                    return;
                }
            }
        }
    }

    /// The answer to `message` if it is a request that there is nobody for.
    async fn refused(&self, message: &[u8]) -> Vec<Outgoing> {
        let Some(mut upstream) = self.out_of_reach() else {
            return Vec::new();
        };
        let Ok(envelope) = Envelope::parse(message, defaults::JSON_DEPTH_MAX) else {
            return Vec::new();
        };
        let (Ok(Kind::Request { method, .. }), Some(id)) = (envelope.kind(), envelope.id.and_then(Id::from_raw)) else {
            return Vec::new();
        };
        match Method::parse(method) {
            Some(Method::Ping) => return Vec::new(),
            Some(Method::Initialize | Method::Discover) => {
                upstream.refresh();
                let mut state = upstream.state();
                drop(timeout(PATIENCE, state.wait_for(|state| is_reached(state))).await);
                match self.out_of_reach() {
                    Some(still) => upstream = still,
                    None => return Vec::new(),
                }
            }
            _ => {}
        }
        let error = self.error(&upstream.state().borrow().health);
        let refused = refusal(StatusCode::OK, error);
        reply::refuse(false, Some(id), &refused).content.into_messages()
    }

    /// The server, if it cannot be reached and nothing that it listed is served either.
    fn out_of_reach(&self) -> Option<Arc<Upstream>> {
        let fleet = self.fleet.load();
        let upstream = fleet.federation(&self.federation)?.members.first()?.upstream.as_ref()?;
        (!is_reached(&upstream.state().borrow())).then(|| Arc::clone(upstream))
    }

    fn error(&self, health: &Health) -> RpcError {
        let text = match health {
            Health::Failed(error) if error.wants_credentials() => format!("{error}; {}", self.on_refusal),
            Health::Failed(error) => format!("{error}; it is tried again"),
            Health::Connecting | Health::Ready => "the server has not answered yet; ask again in a while".to_owned(),
        };
        let error = RpcError::new(RpcError::INTERNAL, printable(&text, TEXT_MAX));
        error.with_data(json!({"reason": health.reason()}))
    }
}

fn is_reached(state: &State) -> bool {
    state.health == Health::Ready || state.catalog.is_some()
}

/// How long who opens a talk waits for a server that failed before.
const PATIENCE: Duration = Duration::from_secs(2);
/// Most characters of what is told.
const TEXT_MAX: usize = 1_024;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::upstream::Error;

    #[test]
    fn what_to_do_follows_from_what_happened() {
        let reach = Reach {
            fleet: Arc::default(),
            federation: "default/f/servers/remote".into(),
            on_refusal: "give a header",
        };
        for (health, said) in [
            (
                Health::Failed(Error::Auth(401)),
                "the server refused our credentials (HTTP status 401); give a header",
            ),
            (
                Health::Failed(Error::Connect("reset\u{1b}".into())),
                r"cannot reach the server: reset\u{1b}; it is tried again",
            ),
            (
                Health::Connecting,
                "the server has not answered yet; ask again in a while",
            ),
        ] {
            assert_eq!(reach.error(&health).message, said);
        }
        assert!(
            reach.out_of_reach().is_none(),
            "what is not served is told of otherwise"
        );
    }
}
