//! What a client sends at a time: a message or, as one revision knows it, a batch of them.

use std::sync::Arc;

use bytes::Bytes;

use super::batch;
use super::finished::Finished;
use super::line::Line;
use super::rpc::{self, Came, Hearing};
use super::visit::Visit;
use crate::defaults;
use crate::mcp::{Envelope, MessageError};

/// Answers what came as `body`, a message or a batch of them; what is said before the answer goes to `line`, if its
/// other end `takes_events`.
pub(super) async fn work(visit: Arc<Visit>, body: Bytes, line: Line, takes_events: bool) -> Finished {
    let hearing = Hearing {
        line: &line,
        takes_events,
    };
    match Envelope::parse(&body, defaults::JSON_DEPTH_MAX) {
        // Some Legacy clients may send them.
        Err(MessageError::Batch) if !visit.claims_modern() => batch::answer(&visit, &body, hearing).await,
        read => rpc::answer(&visit, read, &body, Came::Alone(hearing)).await,
    }
}
