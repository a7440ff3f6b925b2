//! The way back to whoever a call is made for: what a server says, and what it asks, before its answer.

use std::fmt;

use tokio::sync::oneshot;
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::mcp::asking::{Asking, Said};

/// Hears what a server says while it works on one request. Called by whoever reads from the server, so it must not
/// block; what it cannot take it drops.
pub trait Ear: fmt::Debug + Send + Sync {
    /// Takes a whole notification as the server wrote it: progress with the token of the request, a log message, or that
    /// a page was visited. Where the server does not say which call it means, it is heard by the only one, or by the
    /// latest of a session.
    fn heard(&self, notification: &[u8]);

    /// Takes a request of the server that belongs to the call. To drop it is to refuse it.
    fn asked(&self, asked: Asked);

    /// Takes note that the server asked for what the client did not declare, and was refused.
    fn lacked(&self, _kind: Asking) {}

    /// Takes note that the request is sent again, and that its progress begins anew.
    fn begins_again(&self) {}
}

/// What a server asks of the client that it works for.
#[derive(Debug)]
pub struct Asked {
    /// What kind of request it is.
    pub kind: Asking,
    /// Its params as the server wrote them, a JSON object.
    pub params: String,
    answer: oneshot::Sender<Said>,
    withdrawn: CancellationToken,
}

/// The server's side of what it asked. To drop it is to withdraw the question.
#[derive(Debug)]
pub struct Asker {
    answer: oneshot::Receiver<Said>,
    _withdrawn: DropGuard,
}

impl Asked {
    /// A question, and where its answer arrives.
    pub fn new(kind: Asking, params: String) -> (Self, Asker) {
        let (sender, receiver) = oneshot::channel();
        let withdrawn = CancellationToken::new();
        let asker = Asker {
            answer: receiver,
            _withdrawn: withdrawn.clone().drop_guard(),
        };
        let asked = Self {
            kind,
            params,
            answer: sender,
            withdrawn,
        };
        (asked, asker)
    }

    /// Answers it, once. A question that was withdrawn needs no answer any more.
    pub fn answer(self, said: Said) {
        drop(self.answer.send(said));
    }

    /// Tells when nobody waits for the answer any more: the server took the question back, or its work is over.
    pub fn withdrawn(&self) -> CancellationToken {
        self.withdrawn.clone()
    }
}

impl Asker {
    /// Waits for the answer; a question that nobody takes is refused in the way of its kind.
    pub async fn answer(&mut self, kind: Asking) -> Said {
        (&mut self.answer).await.unwrap_or_else(|_| kind.refusal())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_question_is_answered_refused_or_withdrawn() {
        let (asked, mut asker) = Asked::new(Asking::Roots, "{}".into());
        asked.answer(Said::Result(r#"{"roots":[]}"#.into()));
        assert_eq!(
            asker.answer(Asking::Roots).await,
            Said::Result(r#"{"roots":[]}"#.into())
        );

        let (asked, mut asker) = Asked::new(Asking::Elicitation, "{}".into());
        drop(asked);
        assert_eq!(asker.answer(Asking::Elicitation).await, Asking::Elicitation.refusal());

        let (asked, asker) = Asked::new(Asking::Sampling, "{}".into());
        let withdrawn = asked.withdrawn();
        assert!(!withdrawn.is_cancelled());
        drop(asker);
        assert!(withdrawn.is_cancelled());
    }
}
