//! One connection by HTTP: what its requests carry, what their statuses mean, and what is still said when they are over.

use std::sync::Arc;

use bytes::Bytes;
use http::HeaderMap;
use tokio::time::timeout;
use tokio_util::task::TaskTracker;

use super::error::Error;
use super::http::{Answer, HttpPeer, Question, routing_headers};
use super::questions::Begun;
use super::request::{self, Call};
use crate::defaults;
use crate::mcp::{Envelope, Era, Id, Kind};

/// HTTP with what every request of this connection carries: revision and session.
#[derive(Clone, Debug)]
pub(super) struct HttpLink {
    /// The server's endpoint.
    pub(super) http: Arc<HttpPeer>,
    /// Headers of every request.
    pub(super) headers: HeaderMap,
    /// Whether the server opened a session, so that it can also end it.
    pub(super) has_session: bool,
    /// What is still said about calls that are over.
    pub(super) partings: TaskTracker,
}

impl HttpLink {
    /// Sends a request, and gives the message that answers it.
    pub(super) async fn request(
        &self,
        era: Era,
        method: &'static str,
        call: Option<&Call<'_>>,
        question: Question<'_>,
    ) -> Result<Bytes, Error> {
        let answer = match era {
            Era::Modern => {
                let mut headers = request::headers_of(call, &self.headers);
                let named = call
                    .filter(|call| call.method.named_target().is_some())
                    .map(|call| call.target);
                routing_headers(&mut headers, method, named);
                if let Some(call) = call {
                    call.write_param_headers(&mut headers)?;
                }
                self.http.ask(headers, &self.headers, question).await?
            }
            Era::Legacy => {
                let mut parting = Parting {
                    link: self,
                    call: question.call,
                    cancelled: Some(question.id),
                };
                let sent = request::headers_of(call, &self.headers);
                let answer = self.http.ask(sent, &self.headers, question).await;
                parting.cancelled = None;
                answer?
            }
        };
        checked(&answer, self.has_session)
    }
}

/// The message of an answer, or what its status means.
pub(super) fn checked(answer: &Answer, has_session: bool) -> Result<Bytes, Error> {
    match (answer.status, &answer.message) {
        (401 | 403, _) => Err(Error::Auth(answer.status)),
        (404, _) if has_session => Err(Error::SessionLost),
        // Some servers say it with 400, in words that differ; a Legacy server has no other use for it after the handshake.
        (400, message) if has_session && !message.as_deref().is_some_and(echoes_an_id) => Err(Error::SessionLost),
        // What is no message says no more than the status.
        (400..=499, Some(message)) if !is_response(message) => Err(Error::Status(answer.status)),
        (200..=499, Some(message)) => Ok(message.clone()),
        (status, _) => Err(Error::Status(status)),
    }
}

fn is_response(message: &[u8]) -> bool {
    let envelope = Envelope::parse(message, defaults::JSON_DEPTH_MAX);
    envelope.is_ok_and(|envelope| matches!(envelope.kind(), Ok(Kind::Response { .. })))
}

/// Whether an error speaks of one request, rather than of the session as a whole.
fn echoes_an_id(message: &[u8]) -> bool {
    Envelope::parse(message, defaults::JSON_DEPTH_MAX)
        .is_ok_and(|envelope| envelope.id.and_then(Id::from_raw).is_some())
}

/// What is still said to a Legacy server when a call is over: that what it asks about it has no answer, and, if nobody
/// waits for its own answer any more, so much: to it a closed connection means nothing (2025-03-26, transports).
pub(super) struct Parting<'a> {
    /// Where it is said.
    pub(super) link: &'a HttpLink,
    /// The call whose questions are refused.
    pub(super) call: Option<&'a Begun>,
    /// The request that is cancelled, unless it was answered.
    pub(super) cancelled: Option<u64>,
}

impl Drop for Parting<'_> {
    fn drop(&mut self) {
        let mut messages: Vec<Bytes> = self.call.map(Begun::refuse_questions).unwrap_or_default();
        messages.extend(self.cancelled.map(|id| {
            let text =
                format!(r#"{{"jsonrpc":"2.0","method":"notifications/cancelled","params":{{"requestId":{id}}}}}"#);
            Bytes::from(text)
        }));
        let runtime = tokio::runtime::Handle::try_current();
        if let (false, Ok(runtime)) = (messages.is_empty(), runtime) {
            let link = self.link.clone();
            let partings = link.partings.clone();
            // Best effort: the server may be the very reason why nobody waits.
            let tell = async move {
                for message in messages {
                    drop(timeout(defaults::PARTING_TIMEOUT, link.http.tell(&link.headers, message)).await);
                }
            };
            runtime.spawn(partings.track_future(tell));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_without_a_message_is_told_by_its_status() {
        let answer = |status, body: Option<&'static str>| Answer {
            status,
            session: None,
            message: body.map(|body| Bytes::from_static(body.as_bytes())),
        };
        for status in [400, 404, 406, 429] {
            for body in [
                None,
                Some(""),
                Some(" \n"),
                Some("{}"),
                Some(r#"{"error":"slow down"}"#),
                Some("[]"),
            ] {
                let refused = checked(&answer(status, body), false);
                assert_eq!(refused, Err(Error::Status(status)), "{body:?}");
            }
            let error = r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32601,"message":"no"}}"#;
            let told = checked(&answer(status, Some(error)), false);
            assert_eq!(told, Ok(Bytes::from_static(error.as_bytes())), "{status}");
        }
        assert_eq!(checked(&answer(404, Some("")), true), Err(Error::SessionLost));
        assert_eq!(checked(&answer(401, Some("")), false), Err(Error::Auth(401)));
    }
}
