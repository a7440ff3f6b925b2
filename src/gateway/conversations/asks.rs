//! Requests of ours that wait for the answer of a Legacy client.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use aws_lc_rs::rand;
use bytes::Bytes;
use tokio::sync::oneshot;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use crate::defaults;
use crate::gateway::line::Line;
use crate::gateway::session::SessionId;
use crate::mcp::asking::{Asking, Said};
use crate::mcp::{Envelope, Id, message};

/// Every request that waits, by the session that may answer it and by its id.
#[derive(Debug)]
pub(in crate::gateway) struct Asks {
    waiting: Mutex<HashMap<(SessionId, u64), oneshot::Sender<Bytes>>>,
    ids: AtomicU64,
    patience: Duration,
}

/// Why a client gave no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(in crate::gateway) enum NoAnswer {
    /// Its stream is gone or full.
    #[error("the client cannot be reached")]
    Unreachable,
    /// It took too long.
    #[error("the client did not answer in time")]
    TooLate,
    /// Nobody wants to know any more.
    #[error("the question was taken back")]
    Withdrawn,
    /// It answered with what is no response.
    #[error("the client's answer is malformed")]
    Malformed,
}

impl Default for Asks {
    /// Ids begin somewhere: a session may be served by several replicas, and an id is used once in it.
    fn default() -> Self {
        let mut random = [0; 8];
        let begin = rand::fill(&mut random).map_or(0, |()| u64::from_le_bytes(random) >> ID_SHIFT);
        Self {
            waiting: Mutex::default(),
            ids: AtomicU64::new(begin),
            patience: defaults::ANSWER_TIMEOUT,
        }
    }
}

impl Asks {
    /// Takes a client's response to the request `id` of its session. False if none waits for it.
    pub(in crate::gateway) fn answered(&self, session: SessionId, id: Id<'_>, response: &Bytes) -> bool {
        let Ok(id) = id.as_json().parse() else { return false };
        let waiting = self.lock().remove(&(session, id));
        waiting.is_some_and(|waiting| waiting.send(response.clone()).is_ok())
    }

    /// Asks the client of `session` on its stream `out`, and waits for its answer. A question that is withdrawn, or
    /// not answered in time, is taken back from the client too.
    pub(in crate::gateway) async fn ask(
        self: &Arc<Self>,
        session: SessionId,
        out: &Line,
        kind: Asking,
        params: &str,
        withdrawn: &CancellationToken,
    ) -> Result<Said, NoAnswer> {
        let (sender, mut answer) = oneshot::channel();
        let id = self.ids.fetch_add(1, Ordering::Relaxed) + 1;
        self.lock().insert((session, id), sender);
        let _waiting = Waiting {
            asks: self,
            key: (session, id),
        };
        let request = Bytes::from(message::request(id, kind.method(), params.as_bytes()));
        if !out.send(request) {
            return Err(NoAnswer::Unreachable);
        }
        let error = tokio::select! {
            biased;
            response = &mut answer => match response {
                Ok(response) => return read(&response),
                Err(_) => NoAnswer::Unreachable,
            },
            () = withdrawn.cancelled() => NoAnswer::Withdrawn,
            () = out.closed() => NoAnswer::Unreachable,
            () = sleep(self.patience) => NoAnswer::TooLate,
        };
        let cancelled =
            format!(r#"{{"jsonrpc":"2.0","method":"notifications/cancelled","params":{{"requestId":{id}}}}}"#);
        out.send(Bytes::from(cancelled));
        Err(error)
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<(SessionId, u64), oneshot::Sender<Bytes>>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl NoAnswer {
    /// One CamelCase word for logs.
    pub(in crate::gateway) const fn reason(self) -> &'static str {
        match self {
            Self::Unreachable => "Unreachable",
            Self::TooLate => "TooLate",
            Self::Withdrawn => "Withdrawn",
            Self::Malformed => "Malformed",
        }
    }
}

/// Leaves ids that every client can read as an exact number, with room to count on.
const ID_SHIFT: u32 = 12;

/// A request until its future is done or dropped.
struct Waiting<'a> {
    asks: &'a Asks,
    key: (SessionId, u64),
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.asks.lock().remove(&self.key);
    }
}

fn read(response: &[u8]) -> Result<Said, NoAnswer> {
    let envelope = Envelope::parse(response, defaults::JSON_DEPTH_MAX).map_err(|_| NoAnswer::Malformed)?;
    match (envelope.result, envelope.error) {
        (Some(result), None) => Ok(Said::Result(result.get().to_owned())),
        (None, Some(error)) => Ok(Said::Error(error.get().to_owned())),
        _ => Err(NoAnswer::Malformed),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::value::RawValue;

    use super::*;

    const LONG: Duration = Duration::from_secs(60);

    fn counted(patience: Duration) -> Arc<Asks> {
        Arc::new(Asks {
            waiting: Mutex::default(),
            ids: AtomicU64::new(0),
            patience,
        })
    }

    fn answer(asks: &Asks, session: SessionId, id: &str, text: &str) -> bool {
        let id: &RawValue = serde_json::from_str(id).unwrap();
        asks.answered(
            session,
            Id::from_raw(id).unwrap(),
            &Bytes::copy_from_slice(text.as_bytes()),
        )
    }

    #[tokio::test]
    async fn only_the_session_that_was_asked_answers_and_only_once() {
        let (asks, session) = (counted(LONG), SessionId::random().unwrap());
        let line = Line::new();
        let asking = {
            let (asks, out) = (Arc::clone(&asks), line.clone());
            tokio::spawn(async move {
                asks.ask(session, &out, Asking::Roots, "{}", &CancellationToken::new())
                    .await
            })
        };
        line.news().await;
        assert_eq!(
            line.unread(),
            [r#"{"jsonrpc":"2.0","id":1,"method":"roots/list","params":{}}"#]
        );
        let response = r#"{"jsonrpc":"2.0","id":1,"result":{"roots":[ ]}}"#;
        assert!(!answer(&asks, SessionId::random().unwrap(), "1", response));
        assert!(!answer(&asks, session, "\"1\"", response));
        assert!(answer(&asks, session, "1", response));
        assert!(!answer(&asks, session, "1", response));
        assert_eq!(asking.await.unwrap(), Ok(Said::Result(r#"{"roots":[ ]}"#.into())));
    }

    #[tokio::test]
    async fn a_question_that_nobody_waits_for_is_taken_back() {
        let (asks, session) = (counted(Duration::from_millis(10)), SessionId::random().unwrap());
        let out = Line::new();
        let withdrawn = CancellationToken::new();
        let late = asks.ask(session, &out, Asking::Sampling, "{}", &withdrawn).await;
        assert_eq!(late, Err(NoAnswer::TooLate));
        withdrawn.cancel();
        let taken_back = asks.ask(session, &out, Asking::Sampling, "{}", &withdrawn).await;
        assert_eq!(taken_back, Err(NoAnswer::Withdrawn));
        let told = out.unread();
        assert_eq!(told.len(), 4);
        for (place, id) in [(1, 1), (3, 2)] {
            let text = std::str::from_utf8(&told[place]).unwrap();
            assert!(text.contains("notifications/cancelled") && text.contains(&format!("\"requestId\":{id}")));
        }
        assert!(asks.lock().is_empty());
    }

    #[tokio::test]
    async fn a_client_without_a_stream_is_not_waited_for() {
        let out = Line::new();
        out.cut();
        let (asks, session) = (counted(LONG), SessionId::random().unwrap());
        let answer = asks
            .ask(session, &out, Asking::Roots, "{}", &CancellationToken::new())
            .await;
        assert_eq!(answer, Err(NoAnswer::Unreachable));
    }
}
