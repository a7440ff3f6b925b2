//! What a message came to, and how it is counted.

use http::StatusCode;

use super::finished::Finished;
use super::modern::{Refusal, refusal};
use super::visit::Visit;
use crate::mcp::{Id, MessageError, Method};
use crate::metrics::Outcome;

/// What a message came to. Only requests have an outcome.
pub(super) struct Told {
    pub(super) method: Option<Method>,
    pub(super) outcome: Option<Outcome>,
    pub(super) finished: Finished,
}

/// Counts a request that comes to no end.
pub(super) struct Counting<'a> {
    pub(super) visit: &'a Visit,
    pub(super) method: Method,
    /// Whether it has come to one.
    pub(super) is_over: bool,
}

impl Told {
    /// Nothing, since nothing was asked for, or is wanted any more.
    pub(super) fn nothing() -> Self {
        Self {
            method: None,
            outcome: None,
            finished: Finished::nothing(StatusCode::ACCEPTED),
        }
    }

    /// The request `id` is refused before its method is looked at.
    pub(super) fn refused(visit: &Visit, id: Option<Id<'_>>, refused: &Refusal) -> Self {
        Self {
            method: None,
            outcome: Some(Outcome::Refused),
            finished: visit.refuse(id, refused),
        }
    }

    /// It is no message.
    pub(super) fn malformed(visit: &Visit, id: Option<Id<'_>>, error: &MessageError) -> Self {
        let refused = refusal(malformed_status(visit, error), error.to_rpc_error());
        Self::refused(visit, id, &refused)
    }

    /// What is sent of it, once it is counted.
    pub(super) fn counted(self, visit: &Visit) -> Finished {
        if let Some(outcome) = self.outcome {
            let elapsed = visit.started.elapsed();
            visit.federation.metrics.request(self.method, outcome, elapsed);
        }
        self.finished
    }
}

impl Drop for Counting<'_> {
    fn drop(&mut self) {
        if !self.is_over {
            let elapsed = self.visit.started.elapsed();
            let metrics = &self.visit.federation.metrics;
            metrics.request(Some(self.method), Outcome::Cancelled, elapsed);
        }
    }
}

/// Legacy clients are told of malformed messages with 200, as of every JSON-RPC error; batches are refused with 400
/// where they are not known, since nobody can tell which of their parts was meant.
fn malformed_status(visit: &Visit, error: &MessageError) -> StatusCode {
    match error {
        MessageError::Batch => StatusCode::BAD_REQUEST,
        _ if visit.claims_modern() => StatusCode::BAD_REQUEST,
        _ => StatusCode::OK,
    }
}
