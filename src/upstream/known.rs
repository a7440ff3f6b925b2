//! What is known of a server beyond one connection to it.

use super::news::News;
use super::pin::Pin;
use super::subscriptions::Subscriptions;
use super::terms::HttpTransport;
use super::verdict::VerdictMemory;

/// What all connections to one server have in common.
#[derive(Debug)]
pub(crate) struct Known {
    /// Which protocol is spoken with it, where its owner says so.
    pub(crate) pin: Pin,
    /// How it is reached, if over HTTP.
    pub(crate) transport: HttpTransport,
    /// What was found out of its era.
    pub(crate) verdict: VerdictMemory,
    /// What it says beside its answers.
    pub(crate) news: News,
    /// The resources of it that clients want to hear of.
    pub(crate) subscriptions: Subscriptions,
}

impl Known {
    /// A server of which nothing is known but what its owner says: which protocol it speaks, how it is reached, and
    /// whether its changes are heeded.
    pub(crate) fn new(pin: Pin, transport: HttpTransport, heeds_news: bool) -> Self {
        Self {
            pin,
            transport,
            verdict: VerdictMemory::default(),
            news: News::new(heeds_news),
            subscriptions: Subscriptions::default(),
        }
    }
}

#[cfg(test)]
impl Default for Known {
    fn default() -> Self {
        Self::new(Pin::None, HttpTransport::Auto, true)
    }
}
