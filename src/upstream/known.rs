//! What is known of a server beyond one connection to it.

use std::sync::Arc;

use tokio::sync::Notify;

use super::news::News;
use super::pin::Pin;
use super::subscriptions::Subscriptions;
use super::terms::HttpTransport;
use super::verdict::VerdictMemory;
use crate::metrics::ServerMetrics;

/// What all connections to one server have in common.
#[derive(Debug)]
pub(crate) struct Known {
    /// Which protocol is spoken with it, where its owner says so.
    pub(crate) pin: Pin,
    /// How it is reached, if over HTTP.
    pub(crate) transport: HttpTransport,
    /// What was found out of its era.
    pub(crate) verdict: VerdictMemory,
    /// A call found nobody there, or something else than was listed: whether the server can be called, and what it
    /// offers, must be looked at again.
    pub(crate) doubt: Notify,
    /// What it says beside its answers.
    pub(crate) news: News,
    /// The resources of it that clients want to hear of.
    pub(crate) subscriptions: Arc<Subscriptions>,
    /// What is counted of it.
    pub(crate) metrics: ServerMetrics,
}

impl Known {
    /// A server of which nothing is known but what its owner says: which protocol it speaks, how it is reached, and
    /// whether its changes are heeded.
    pub(crate) fn new(pin: Pin, transport: HttpTransport, heeds_news: bool, metrics: ServerMetrics) -> Self {
        Self {
            pin,
            transport,
            verdict: VerdictMemory::default(),
            doubt: Notify::new(),
            news: News::new(heeds_news),
            subscriptions: Arc::default(),
            metrics,
        }
    }
}

#[cfg(test)]
impl Default for Known {
    fn default() -> Self {
        Self::new(
            Pin::None,
            HttpTransport::Auto,
            true,
            crate::metrics::Metrics::new().unwrap().server("s"),
        )
    }
}
