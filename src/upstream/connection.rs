//! A live connection to one server: the handshake that makes it, and requests over it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http::HeaderMap;
use tokio::sync::Notify;
use tokio::time::timeout;

use super::endpoint::{Endpoint, Timeouts};
use super::error::Error;
use super::http::{Answer, HttpPeer, Question, routing_headers};
use super::open;
use super::request::{self, Call, Reply};
use super::state::Peer;
use super::stdio::StdioConnection;
use crate::defaults;
use crate::index::Annotations;
use crate::mcp::{Envelope, Era, Id, Method, message, notice};

/// A connection whose handshake is done.
#[derive(Debug)]
pub(crate) struct Connection {
    peer: Arc<Peer>,
    link: Link,
    ids: AtomicU64,
    changed: Notify,
}

/// What carries the messages.
#[derive(Debug)]
pub(super) enum Link {
    /// HTTP.
    Http(HttpLink),
    /// A child process.
    Stdio(StdioConnection),
}

/// HTTP with what every request of this connection carries: revision and session.
#[derive(Clone, Debug)]
pub(super) struct HttpLink {
    /// The server's endpoint.
    pub(super) http: Arc<HttpPeer>,
    /// Headers of every request.
    pub(super) headers: HeaderMap,
    /// Whether the server opened a session, so that it can also end it.
    pub(super) has_session: bool,
}

impl Connection {
    /// Connects to `endpoint` and shakes hands in the era that the server speaks.
    pub(crate) async fn open(server: &str, endpoint: &Endpoint, timeouts: Timeouts) -> Result<Self, Error> {
        match endpoint {
            Endpoint::Http(endpoint) => open::over_http(endpoint, timeouts.connect).await,
            Endpoint::Stdio(command) => open::over_stdio(server, command, timeouts.connect).await,
        }
    }

    /// What the server said of itself.
    pub(crate) fn peer(&self) -> &Arc<Peer> {
        &self.peer
    }

    /// Reads one page of a list.
    pub(crate) async fn list(&self, method: Method, cursor: Option<&str>, limit: Duration) -> Result<Reply, Error> {
        let params = request::list_params(self.peer.era(), cursor);
        self.exchange(self.next_id(), method, None, &params, Some(limit)).await
    }

    /// Carries a client's request. Dropping the future cancels the request at the server.
    pub(crate) async fn call(&self, call: &Call<'_>, limit: Option<Duration>) -> Result<Reply, Error> {
        let id = self.next_id();
        let params = call.params(self.peer.era(), id);
        self.exchange(id, call.method, Some(call), &params, limit).await
    }

    /// Whether the annotations of the server's tools bind us: only a Modern server over HTTP reads headers.
    pub(crate) fn annotations(&self) -> Annotations {
        match (&self.link, self.peer.era()) {
            (Link::Http(_), Era::Modern) => Annotations::Binding,
            (Link::Http(_), Era::Legacy) | (Link::Stdio(_), _) => Annotations::Inert,
        }
    }

    async fn exchange(
        &self,
        id: u64,
        method: Method,
        call: Option<&Call<'_>>,
        params: &[u8],
        limit: Option<Duration>,
    ) -> Result<Reply, Error> {
        let ear = call.and_then(|call| call.ear.clone());
        let body = Bytes::from(message::request(id, method.as_str(), params));
        let era = self.peer.era();
        let answer = async {
            match &self.link {
                Link::Http(link) => {
                    let question = Question {
                        id,
                        body,
                        ear: ear.as_deref(),
                        changed: &self.changed,
                    };
                    link.request(era, method, call, question).await
                }
                Link::Stdio(child) => Ok(child.request(id, body, ear).await?),
            }
        };
        let message = match limit {
            None => answer.await?,
            Some(after) => timeout(after, answer).await.map_err(|_| Error::Timeout {
                operation: method.as_str(),
                after,
            })??,
        };
        Reply::read(message, id, era)
    }

    fn next_id(&self) -> u64 {
        self.ids.fetch_add(1, Ordering::Relaxed)
    }

    /// Resolves when the connection can carry nothing more; one over HTTP never does.
    pub(crate) async fn closed(&self) -> Error {
        match &self.link {
            Link::Http(_) => std::future::pending().await,
            Link::Stdio(child) => child.exited().await.into(),
        }
    }

    /// Resolves when the server says that one of its lists changed, on whatever stream it says so.
    pub(crate) async fn list_changed(&self) {
        match &self.link {
            Link::Http(_) => self.changed.notified().await,
            Link::Stdio(child) => loop {
                let Some(notification) = child.notification().await else {
                    return std::future::pending().await;
                };
                if is_list_changed(&notification) {
                    return;
                }
            },
        }
    }

    /// Ends the session or the process.
    pub(crate) async fn close(&self) {
        match &self.link {
            Link::Http(link) if link.has_session => {
                // A server that does not answer this keeps a session that it will forget by itself.
                drop(timeout(END_TIMEOUT, link.http.end_session(&link.headers)).await);
            }
            Link::Http(_) => {}
            Link::Stdio(child) => child.stop().await,
        }
    }

    /// The connection to `peer`, whose handshake is done.
    pub(super) fn new(peer: Peer, link: Link) -> Self {
        Self {
            peer: Arc::new(peer),
            link,
            ids: AtomicU64::new(FIRST_ID),
            changed: Notify::new(),
        }
    }
}

impl HttpLink {
    async fn request(
        &self,
        era: Era,
        method: Method,
        call: Option<&Call<'_>>,
        question: Question<'_>,
    ) -> Result<Bytes, Error> {
        let answer = match era {
            Era::Modern => {
                let mut headers = self.headers.clone();
                let named = call.filter(|_| method.target().is_some()).map(|call| call.target);
                routing_headers(&mut headers, method.as_str(), named);
                if let Some(call) = call {
                    call.write_param_headers(&mut headers)?;
                }
                self.http.ask(&headers, question).await?
            }
            Era::Legacy => {
                let guard = CancelOnDrop {
                    link: Some(self),
                    id: question.id,
                };
                let answer = self.http.ask(&self.headers, question).await;
                guard.disarm();
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
        (200..=499, Some(message)) => Ok(message.clone()),
        (status, _) => Err(Error::Status(status)),
    }
}

/// Whether an error speaks of one request, rather than of the session as a whole.
fn echoes_an_id(message: &[u8]) -> bool {
    Envelope::parse(message, defaults::JSON_DEPTH_MAX)
        .is_ok_and(|envelope| envelope.id.and_then(Id::from_raw).is_some())
}

fn is_list_changed(notification: &[u8]) -> bool {
    Envelope::parse(notification, defaults::JSON_DEPTH_MAX).is_ok_and(|envelope| {
        envelope
            .method
            .is_some_and(|method| notice::is_list_changed(method.as_str()))
    })
}

/// Tells a Legacy server that nobody waits any more: to it a closed connection means nothing (2025-03-26, transports).
struct CancelOnDrop<'a> {
    link: Option<&'a HttpLink>,
    id: u64,
}

impl CancelOnDrop<'_> {
    fn disarm(mut self) {
        self.link = None;
    }
}

impl Drop for CancelOnDrop<'_> {
    fn drop(&mut self) {
        let (Some(link), Ok(runtime)) = (self.link, tokio::runtime::Handle::try_current()) else {
            return;
        };
        let (link, id) = (link.clone(), self.id);
        runtime.spawn(async move {
            let body =
                format!(r#"{{"jsonrpc":"2.0","method":"notifications/cancelled","params":{{"requestId":{id}}}}}"#);
            // Best effort: the server may be the very reason why nobody waits.
            drop(timeout(END_TIMEOUT, link.http.tell(&link.headers, Bytes::from(body))).await);
        });
    }
}

/// Ids below this one are the handshake's, so that none is used twice in a session.
const FIRST_ID: u64 = 3;
/// Parting words are given this long.
const END_TIMEOUT: Duration = Duration::from_secs(2);
