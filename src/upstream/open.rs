//! Making a connection: discovery, and the handshake where the server wants one.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue};
use tokio::sync::Notify;
use tokio::time::timeout;
use tokio_util::task::TaskTracker;

use super::connection::{Connection, HttpLink, Link, checked};
use super::endpoint::StdioCommand;
use super::error::Error;
use super::handshake::{self, Verdict};
use super::http::{Answer, HttpPeer, Question, routing_headers};
use super::questions::Questions;
use super::state::Peer;
use super::stdio::{StdioConnection, StdioError};
use crate::mcp::{Era, Method, Revision, headers, message};

/// Connects over HTTP; each of at most three exchanges may take `limit`.
pub(super) async fn over_http(
    http: Arc<HttpPeer>,
    limit: Duration,
    questions: &Arc<Questions>,
) -> Result<Connection, Error> {
    let base = http.base_headers();
    let mut modern = base.clone();
    modern.insert(VERSION_HEADER, HeaderValue::from_static(Revision::LATEST.as_str()));
    let mut routed = modern.clone();
    routing_headers(&mut routed, Method::Discover.as_str(), None);
    let answer = ask_http(&http, &routed, Method::Discover, limit, questions).await?;
    match handshake::judge_http(answer.status, answer.message.as_deref()) {
        Verdict::Modern(peer) => Ok(Connection::new(
            peer,
            Link::Http(HttpLink {
                http,
                headers: modern,
                has_session: false,
                partings: TaskTracker::new(),
            }),
            questions,
        )),
        Verdict::Failed(error) => Err(error),
        Verdict::Legacy => session(http, limit, questions).await,
    }
}

/// Starts a process and connects to it, within `limit`. A Legacy server may ignore the first question, or die of it:
/// so the handshake is offered beside it after a while, and alone to a second process.
pub(super) async fn over_stdio(
    server: &str,
    command: &StdioCommand,
    limit: Duration,
    questions: &Arc<Questions>,
) -> Result<Connection, Error> {
    let child = StdioConnection::spawn(server, command, Arc::clone(questions))?;
    match timeout(limit, find_out(&child, questions)).await {
        Ok(Ok(Some(peer))) => return finish_stdio(child, peer, questions).await,
        Ok(Err(error)) => {
            child.stop().await;
            return Err(error);
        }
        Ok(Ok(None)) | Err(_) => child.stop().await,
    }
    tracing::debug!(
        server,
        "the process did not survive discovery; another one is offered the handshake alone"
    );
    process(server, command, limit, questions).await
}

/// Starts a process that gets the handshake alone, within `limit`.
pub(super) async fn process(
    server: &str,
    command: &StdioCommand,
    limit: Duration,
    questions: &Arc<Questions>,
) -> Result<Connection, Error> {
    let child = StdioConnection::spawn(server, command, Arc::clone(questions))?;
    let timed_out = Error::Timeout {
        operation: Method::Initialize.as_str(),
        after: limit,
    };
    match timeout(limit, ask_stdio(&child, Method::Initialize, questions))
        .await
        .map_err(|_| timed_out)
        .and_then(initialized)
    {
        Ok(peer) => finish_stdio(child, peer, questions).await,
        Err(error) => {
            child.stop().await;
            Err(error)
        }
    }
}

/// Shakes hands over HTTP, which opens a session with a server that keeps any; each of two exchanges may take `limit`.
pub(super) async fn session(
    http: Arc<HttpPeer>,
    limit: Duration,
    questions: &Arc<Questions>,
) -> Result<Connection, Error> {
    let base = http.base_headers();
    let answer = ask_http(&http, &base, Method::Initialize, limit, questions).await?;
    let peer = handshake::read_initialized(&checked(&answer, false)?)?;
    let mut headers = base;
    headers.insert(VERSION_HEADER, HeaderValue::from_static(peer.revision.as_str()));
    let has_session = answer.session.is_some();
    if let Some(session) = answer.session {
        headers.insert(SESSION_HEADER, session);
    }
    timeout(limit, http.tell(&headers, Bytes::from_static(INITIALIZED)))
        .await
        .map_err(|_| Error::Timeout {
            operation: "notifications/initialized",
            after: limit,
        })??;
    Ok(Connection::new(
        peer,
        Link::Http(HttpLink {
            http,
            headers,
            has_session,
            partings: TaskTracker::new(),
        }),
        questions,
    ))
}

async fn ask_http(
    http: &Arc<HttpPeer>,
    headers: &HeaderMap,
    method: Method,
    limit: Duration,
    questions: &Arc<Questions>,
) -> Result<Answer, Error> {
    let (id, body) = question(method, questions);
    let question = Question {
        id,
        body,
        ear: None,
        questions,
        call: None,
        changed: &Notify::new(),
    };
    timeout(limit, http.ask(headers, question))
        .await
        .map_err(|_| Error::Timeout {
            operation: method.as_str(),
            after: limit,
        })?
}

/// What the process says of itself, by discovery or handshake. `None`: it ended before it said so.
async fn find_out(child: &StdioConnection, questions: &Questions) -> Result<Option<Peer>, Error> {
    let discovered = ask_stdio(child, Method::Discover, questions);
    tokio::pin!(discovered);
    let shaken = ask_stdio(child, Method::Initialize, questions);
    if let Ok(answer) = timeout(PROBE_PATIENCE, &mut discovered).await {
        return judge(answer, shaken).await;
    }
    tokio::pin!(shaken);
    tokio::select! {
        answer = &mut discovered => judge(answer, shaken).await,
        answer = &mut shaken => initialized(answer).map(Some),
    }
}

/// What an answer to discovery leads to; `shaken` is the handshake, begun or not.
async fn judge(
    discovered: Result<Bytes, StdioError>,
    shaken: impl Future<Output = Result<Bytes, StdioError>>,
) -> Result<Option<Peer>, Error> {
    let Ok(message) = discovered else { return Ok(None) };
    match handshake::judge_message(&message) {
        Verdict::Modern(peer) => Ok(Some(peer)),
        Verdict::Failed(error) => Err(error),
        Verdict::Legacy => match shaken.await {
            Ok(message) => handshake::read_initialized(&message).map(Some),
            Err(_) => Ok(None),
        },
    }
}

async fn ask_stdio(child: &StdioConnection, method: Method, questions: &Questions) -> Result<Bytes, StdioError> {
    let (id, body) = question(method, questions);
    child.request(id, body, None).await
}

fn initialized(answer: Result<Bytes, StdioError>) -> Result<Peer, Error> {
    handshake::read_initialized(&answer?)
}

async fn finish_stdio(child: StdioConnection, peer: Peer, questions: &Arc<Questions>) -> Result<Connection, Error> {
    if peer.era() == Era::Legacy {
        child.notify(Bytes::from_static(INITIALIZED)).await?;
    }
    Ok(Connection::new(peer, Link::Stdio(child), questions))
}

/// Discovery or handshake as a whole message, with its id.
fn question(method: Method, questions: &Questions) -> (u64, Bytes) {
    let (id, params) = match method {
        Method::Discover => (DISCOVER_ID, handshake::discover_params()),
        _ => {
            let declared = questions.declared().to_json(Era::Legacy);
            (INITIALIZE_ID, handshake::initialize_params(&declared))
        }
    };
    (id, Bytes::from(message::request(id, method.as_str(), &params)))
}

const DISCOVER_ID: u64 = 1;
const INITIALIZE_ID: u64 = 2;
const INITIALIZED: &[u8] = br#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;
const VERSION_HEADER: HeaderName = HeaderName::from_static(headers::PROTOCOL_VERSION);
const SESSION_HEADER: HeaderName = HeaderName::from_static(headers::SESSION_ID);
/// A process is given this long to answer discovery before it is offered a handshake as well.
const PROBE_PATIENCE: Duration = Duration::from_secs(5);
