//! A live connection to one server: the handshake that makes it, and requests over it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue};
use tokio::time::timeout;

use super::endpoint::{Endpoint, StdioCommand, Timeouts};
use super::error::Error;
use super::handshake::{self, Verdict};
use super::http::{Answer, HttpPeer, routing_headers};
use super::request::Reply;
use super::state::Peer;
use super::stdio::StdioConnection;
use crate::mcp::{Era, Method, Revision, headers, message};

/// A connection whose handshake is done.
#[derive(Debug)]
pub(crate) struct Connection {
    peer: Arc<Peer>,
    link: Link,
    ids: AtomicU64,
}

#[derive(Debug)]
enum Link {
    Http(HttpLink),
    Stdio(StdioConnection),
}

/// HTTP with what every request of this connection carries: revision and session.
#[derive(Clone, Debug)]
struct HttpLink {
    http: Arc<HttpPeer>,
    headers: HeaderMap,
    has_session: bool,
}

impl Connection {
    /// Connects to `endpoint` and shakes hands in the era that the server speaks.
    pub(crate) async fn open(server: &str, endpoint: &Endpoint, timeouts: Timeouts) -> Result<Self, Error> {
        match endpoint {
            Endpoint::Http(endpoint) => {
                let http = Arc::new(HttpPeer::new(endpoint.clone(), timeouts.connect)?);
                open_http(http, timeouts.connect).await
            }
            Endpoint::Stdio(command) => open_stdio(server, command, timeouts.connect).await,
        }
    }

    /// What the server said of itself.
    pub(crate) fn peer(&self) -> &Arc<Peer> {
        &self.peer
    }

    /// Asks for `method` and waits for the answer. Dropping the future cancels the request at the server.
    pub(crate) async fn request(
        &self,
        method: Method,
        target: Option<&str>,
        params: &[u8],
        limit: Option<Duration>,
    ) -> Result<Reply, Error> {
        let id = self.ids.fetch_add(1, Ordering::Relaxed);
        let body = Bytes::from(message::request(id, method.as_str(), params));
        let era = self.peer.era();
        let answer = async {
            match &self.link {
                Link::Http(link) => link.request(era, method, target, body, id).await,
                Link::Stdio(child) => Ok(child.request(id, body).await?),
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

    /// Resolves when the connection can carry nothing more; one over HTTP never does.
    pub(crate) async fn closed(&self) -> Error {
        match &self.link {
            Link::Http(_) => std::future::pending().await,
            Link::Stdio(child) => child.exited().await.into(),
        }
    }

    /// Resolves when the server says that one of its lists changed; over HTTP that is not listened for.
    pub(crate) async fn list_changed(&self) {
        match &self.link {
            Link::Http(_) => std::future::pending().await,
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

    fn new(peer: Peer, link: Link) -> Self {
        Self {
            peer: Arc::new(peer),
            link,
            ids: AtomicU64::new(FIRST_ID),
        }
    }
}

async fn open_http(http: Arc<HttpPeer>, limit: Duration) -> Result<Connection, Error> {
    let base = http.base_headers();
    let mut modern = base.clone();
    modern.insert(VERSION_HEADER, HeaderValue::from_static(Revision::LATEST.as_str()));
    let answer = shake(&http, &with_routing(&modern, Method::Discover), Method::Discover, limit).await?;
    match handshake::judge_http(answer.status, answer.message.as_deref()) {
        Verdict::Modern(peer) => Ok(Connection::new(
            peer,
            Link::Http(HttpLink {
                http,
                headers: modern,
                has_session: false,
            }),
        )),
        Verdict::Failed(error) => Err(error),
        Verdict::Legacy => {
            let answer = shake(&http, &base, Method::Initialize, limit).await?;
            let message = checked(&answer, false)?;
            let peer = handshake::read_initialized(&message)?;
            let mut headers = base;
            headers.insert(VERSION_HEADER, HeaderValue::from_static(peer.revision.as_str()));
            let has_session = answer.session.is_some();
            if let Some(session) = answer.session {
                headers.insert(HeaderName::from_static(headers::SESSION_ID), session);
            }
            let told = http.tell(&headers, Bytes::from_static(INITIALIZED));
            timeout(limit, told).await.map_err(|_| Error::Timeout {
                operation: "notifications/initialized",
                after: limit,
            })??;
            Ok(Connection::new(
                peer,
                Link::Http(HttpLink {
                    http,
                    headers,
                    has_session,
                }),
            ))
        }
    }
}

async fn shake(http: &HttpPeer, headers: &HeaderMap, method: Method, limit: Duration) -> Result<Answer, Error> {
    let params = if method == Method::Discover {
        handshake::discover_params()
    } else {
        handshake::initialize_params()
    };
    let body = Bytes::from(message::request(HANDSHAKE_ID, method.as_str(), &params));
    timeout(limit, http.ask(headers, body, HANDSHAKE_ID))
        .await
        .map_err(|_| Error::Timeout {
            operation: method.as_str(),
            after: limit,
        })?
}

fn with_routing(headers: &HeaderMap, method: Method) -> HeaderMap {
    let mut map = headers.clone();
    routing_headers(&mut map, method.as_str(), None);
    map
}

/// Starts the process and finds out its era. A Legacy server may ignore the first question, or die of it: so the
/// handshake is offered beside it after a while, and alone to a second process.
async fn open_stdio(server: &str, command: &StdioCommand, limit: Duration) -> Result<Connection, Error> {
    let child = StdioConnection::spawn(server, command)?;
    let first = tokio::select! {
        judged = timeout(limit, judge_stdio(&child)) => judged.unwrap_or(Ok(None)),
        cause = child.exited() => {
            tracing::debug!(server, cause = %Error::from(cause), "the process ended during discovery; starting it again for a handshake");
            Ok(None)
        }
    };
    match first {
        Ok(Some(peer)) => return finish_stdio(child, peer).await,
        Ok(None) => child.stop().await,
        Err(error) => {
            child.stop().await;
            return Err(error);
        }
    }
    let child = StdioConnection::spawn(server, command)?;
    let initialized = async {
        let body = message::request(
            HANDSHAKE_ID,
            Method::Initialize.as_str(),
            &handshake::initialize_params(),
        );
        handshake::read_initialized(&child.request(HANDSHAKE_ID, Bytes::from(body)).await?)
    };
    let after = limit;
    let peer = timeout(limit, initialized).await.unwrap_or(Err(Error::Timeout {
        operation: "initialize",
        after,
    }));
    match peer {
        Ok(peer) => finish_stdio(child, peer).await,
        Err(error) => {
            child.stop().await;
            Err(error)
        }
    }
}

/// Discovers, and after [`PROBE_PATIENCE`] without an answer shakes hands on the side. `None`: it died or cannot go on.
async fn judge_stdio(child: &StdioConnection) -> Result<Option<Peer>, Error> {
    let discover = message::request(HANDSHAKE_ID, Method::Discover.as_str(), &handshake::discover_params());
    let initialize = message::request(
        HANDSHAKE_ID + 1,
        Method::Initialize.as_str(),
        &handshake::initialize_params(),
    );
    let discovered = child.request(HANDSHAKE_ID, Bytes::from(discover));
    tokio::pin!(discovered);
    let answer = match timeout(PROBE_PATIENCE, &mut discovered).await {
        Ok(answer) => answer,
        Err(_) => {
            let initialized = child.request(HANDSHAKE_ID + 1, Bytes::from(initialize.clone()));
            tokio::pin!(initialized);
            tokio::select! {
                answer = &mut discovered => match answer.map(|message| handshake::judge_message(&message)) {
                    Ok(Verdict::Modern(peer)) => return Ok(Some(peer)),
                    Ok(Verdict::Failed(error)) => return Err(error),
                    Ok(Verdict::Legacy) => return Ok(handshake::read_initialized(&initialized.await?).map(Some)?),
                    Err(_) => return Ok(None),
                },
                answer = &mut initialized => return handshake::read_initialized(&answer?).map(Some),
            }
        }
    };
    let Ok(message) = answer else { return Ok(None) };
    match handshake::judge_message(&message) {
        Verdict::Modern(peer) => Ok(Some(peer)),
        Verdict::Failed(error) => Err(error),
        Verdict::Legacy => match child.request(HANDSHAKE_ID + 1, Bytes::from(initialize)).await {
            Ok(message) => handshake::read_initialized(&message).map(Some),
            Err(_) => Ok(None),
        },
    }
}

async fn finish_stdio(child: StdioConnection, peer: Peer) -> Result<Connection, Error> {
    if peer.era() == Era::Legacy {
        child.notify(Bytes::from_static(INITIALIZED)).await?;
    }
    Ok(Connection::new(peer, Link::Stdio(child)))
}

impl HttpLink {
    async fn request(
        &self,
        era: Era,
        method: Method,
        target: Option<&str>,
        body: Bytes,
        id: u64,
    ) -> Result<Bytes, Error> {
        let answer = match era {
            Era::Modern => {
                let mut headers = self.headers.clone();
                routing_headers(&mut headers, method.as_str(), target);
                self.http.ask(&headers, body, id).await?
            }
            Era::Legacy => {
                let guard = CancelOnDrop { link: Some(self), id };
                let answer = self.http.ask(&self.headers, body, id).await;
                guard.disarm();
                answer?
            }
        };
        checked(&answer, self.has_session)
    }
}

/// The message of an answer, or what its status means.
fn checked(answer: &Answer, has_session: bool) -> Result<Bytes, Error> {
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
    crate::mcp::Envelope::parse(message, crate::defaults::JSON_DEPTH_MAX)
        .is_ok_and(|envelope| envelope.id.and_then(crate::mcp::Id::from_raw).is_some())
}

fn is_list_changed(notification: &[u8]) -> bool {
    let envelope = crate::mcp::Envelope::parse(notification, crate::defaults::JSON_DEPTH_MAX);
    let method = envelope
        .ok()
        .and_then(|envelope| envelope.method.map(|method| method.as_str().to_owned()));
    method.is_some_and(|method| method.ends_with("/list_changed") || method.ends_with("/listChanged"))
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

const VERSION_HEADER: HeaderName = HeaderName::from_static(headers::PROTOCOL_VERSION);
const INITIALIZED: &[u8] = br#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;
/// Ids of the handshake; those of requests follow them, so that none is used twice in a session.
const HANDSHAKE_ID: u64 = 1;
const FIRST_ID: u64 = 3;
/// A process is given this long to answer discovery before it is offered a handshake as well.
const PROBE_PATIENCE: Duration = Duration::from_secs(5);
/// Parting words are given this long.
const END_TIMEOUT: Duration = Duration::from_secs(2);
