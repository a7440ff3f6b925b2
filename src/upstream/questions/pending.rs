//! A question on its way to a client and back.

use std::sync::Arc;

use bytes::Bytes;
use tokio::sync::oneshot;

use super::Questions;
use super::in_flight::InFlight;
use crate::mcp::asking::Asking;
use crate::upstream::ear::Asker;

/// A question whose client was asked. To drop it is to withdraw it there.
#[derive(Debug)]
pub(crate) struct Pending {
    pub(super) questions: Arc<Questions>,
    pub(super) number: u64,
    pub(super) id: String,
    pub(super) kind: Asking,
    pub(super) call: Arc<InFlight>,
    pub(super) asker: Asker,
    pub(super) withdrawn: oneshot::Receiver<()>,
}

/// Says that the server does not know the session any more for which an answer was meant.
#[derive(Debug)]
pub(crate) struct Undelivered(Arc<InFlight>);

impl Pending {
    /// The whole message that answers the server; `None` if it withdrew the question, or the call is over.
    pub(crate) async fn reply(mut self) -> Option<(Bytes, Undelivered)> {
        let said = tokio::select! {
            biased;
            _ = &mut self.withdrawn => return None,
            said = self.asker.answer(self.kind) => said,
        };
        // Who closes it answers it: the call may have ended at this moment.
        if self.questions.close(|open| open.number == self.number).is_empty() {
            return None;
        }
        let message = self.questions.answer(&self.id, self.kind, said);
        Some((message, Undelivered(self.call)))
    }
}

impl Undelivered {
    /// Ends the call, which waits for nothing now.
    pub(crate) fn end_call(self) {
        self.0.lose();
    }
}
