//! Making a connection: discovery, and the handshake where the server wants one.

use std::future::ready;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue};
use tokio::time::timeout;
use tokio_util::task::TaskTracker;

use super::connection::{Connection, Link};
use super::endpoint::{Endpoint, StdioCommand, Timeouts};
use super::error::Error;
use super::handshake::{self, Verdict};
use super::http::{Answer, HttpPeer, Question, routing_headers};
use super::http_link::{HttpLink, checked};
use super::http_pool::Sending;
use super::known::Known;
use super::old_sse::OldSse;
use super::pin::Pin;
use super::questions::Questions;
use super::state::{Peer, Transport};
use super::stdio::{StdioConnection, StdioError};
use super::terms::HttpTransport;
use super::verdict::LegacyWay;
use crate::mcp::{Era, Method, Revision, headers, message};

/// A connection in the making.
#[derive(Clone, Copy, Debug)]
pub(super) struct Opening<'a> {
    /// How long each exchange may take, of at most six over HTTP, or all of them with a process.
    pub(super) limit: Duration,
    /// What the server asks on the connection.
    pub(super) questions: &'a Arc<Questions>,
    /// What is known of the server anyway.
    pub(super) known: &'a Arc<Known>,
}

impl Connection {
    /// Connects to `endpoint` and shakes hands in the era that the server speaks. What the server asks on the connection
    /// is for `questions`; `known` is what is known of it anyway.
    pub(crate) async fn open(
        server: &str,
        endpoint: &Endpoint,
        timeouts: Timeouts,
        questions: &Arc<Questions>,
        known: &Arc<Known>,
    ) -> Result<Self, Error> {
        let opening = Opening {
            limit: timeouts.connect,
            questions,
            known,
        };
        match endpoint {
            Endpoint::Http(endpoint) => {
                let http = Arc::new(HttpPeer::new(endpoint.clone(), timeouts.connect)?);
                opening.over_http(&http).await
            }
            Endpoint::Stdio(command) => opening.over_stdio(server, command).await,
        }
    }

    /// Makes a further connection to the same Legacy server, with a session or a process of its own. A server that takes
    /// no handshake any more is asked anew what it speaks.
    pub(crate) async fn open_another(
        &self,
        server: &str,
        endpoint: &Endpoint,
        timeouts: Timeouts,
        questions: &Arc<Questions>,
    ) -> Result<Self, Error> {
        let opening = Opening {
            limit: timeouts.connect,
            questions,
            known: self.known(),
        };
        let opened = match (self.link(), endpoint) {
            (Link::Http(link), _) => opening.session(&link.http).await,
            (Link::OldSse(old_sse), _) => opening.old_sse(&old_sse.http).await,
            (Link::Stdio(_), Endpoint::Stdio(command)) => opening.process(server, command).await,
            (Link::Stdio(_), Endpoint::Http(_)) => {
                return Self::open(server, endpoint, timeouts, questions, self.known()).await;
            }
        };
        match opened {
            Err(Error::Refused(_) | Error::Revision(_) | Error::Protocol(_) | Error::Status(400..=499)) => {
                self.known().verdict.forget();
                Self::open(server, endpoint, timeouts, questions, self.known()).await
            }
            opened => opened,
        }
    }
}

impl Opening<'_> {
    /// Connects over HTTP.
    pub(super) async fn over_http(self, http: &Arc<HttpPeer>) -> Result<Connection, Error> {
        match &self.known.pin {
            Pin::Modern(name) => return self.modern(http, Peer::taken_for(name)),
            Pin::Legacy(_) => return self.legacy(http).await,
            Pin::None if self.known.transport == HttpTransport::OldSse => return self.legacy(http).await,
            Pin::None => {}
        }
        if let Some(way) = self.known.verdict.recall() {
            let connected = match way {
                LegacyWay::Handshake => self.legacy(http).await,
                LegacyWay::OldSse => self.old_sse(http).await,
            };
            match connected {
                Err(error) => {
                    self.known.verdict.forget();
                    if !error.may_come_of_the_era() {
                        return Err(error);
                    }
                }
                connected => return connected,
            }
        }
        match self.discover(http).await? {
            Verdict::Modern(peer) => self.modern(http, peer),
            Verdict::Failed(error) => Err(error),
            Verdict::Later(name) => Err(refused_its_own(&name)),
            Verdict::Legacy => {
                let connection = self.legacy(http).await?;
                self.known.verdict.remember(match connection.peer().transport {
                    Transport::OldSse => LegacyWay::OldSse,
                    Transport::StreamableHttp | Transport::Stdio => LegacyWay::Handshake,
                });
                Ok(connection)
            }
        }
    }

    /// Connects to a Legacy server, by the transport that it has (2025-03-26, transports: backwards compatibility).
    pub(super) async fn legacy(self, http: &Arc<HttpPeer>) -> Result<Connection, Error> {
        match self.known.transport {
            HttpTransport::StreamableHttp => self.session(http).await,
            HttpTransport::OldSse => self.old_sse(http).await,
            HttpTransport::Auto => match self.session(http).await {
                Err(error @ Error::Status(400 | 404 | 405)) => self.old_sse(http).await.map_err(|_| error),
                connected => connected,
            },
        }
    }

    /// Opens the stream of the transport of 2024-11-05, and shakes hands.
    pub(super) async fn old_sse(self, http: &Arc<HttpPeer>) -> Result<Connection, Error> {
        let old_sse = OldSse::open(http, self.limit, self.questions, self.known).await?;
        let (_, id, body) = self.handshake();
        let answer = timeout(self.limit, old_sse.request(id, body, None)).await;
        let answer = answer.map_err(|_| Error::Timeout {
            operation: Method::Initialize.as_str(),
            after: self.limit,
        })??;
        let peer = handshake::read_initialized(&answer)?;
        let told = old_sse
            .post
            .http
            .tell(&old_sse.post.headers, Bytes::from_static(INITIALIZED));
        timeout(self.limit, told).await.map_err(|_| Error::Timeout {
            operation: "notifications/initialized",
            after: self.limit,
        })??;
        Ok(Connection::new(peer, Link::OldSse(old_sse), self.questions, self.known))
    }

    /// Shakes hands over HTTP, which opens a session with a server that keeps any.
    pub(super) async fn session(self, http: &Arc<HttpPeer>) -> Result<Connection, Error> {
        let base = http.base_headers();
        let answer = self.ask_http(http, &base, self.handshake()).await?;
        let peer = handshake::read_initialized(&checked(&answer, false)?)?;
        let mut headers = base;
        headers.insert(
            headers::PROTOCOL_VERSION.clone(),
            HeaderValue::from_static(peer.revision.as_str()),
        );
        let has_session = answer.session.is_some();
        if let Some(session) = answer.session {
            headers.insert(headers::SESSION_ID.clone(), session);
        }
        timeout(self.limit, http.tell(&headers, Bytes::from_static(INITIALIZED)))
            .await
            .map_err(|_| Error::Timeout {
                operation: "notifications/initialized",
                after: self.limit,
            })??;
        Ok(self.connection(peer, http, headers, has_session))
    }

    /// Whether a server that was found to be Legacy speaks Modern by now. One that says nothing of it, or cannot be
    /// reached, does not.
    pub(super) async fn finds_modern(self, http: &Arc<HttpPeer>) -> bool {
        matches!(self.discover(http).await, Ok(Verdict::Modern(_)))
    }

    /// Starts a process and connects to it. A Legacy server may ignore the first question, or die of it: so the
    /// handshake is offered beside it after a while, and alone to a second process.
    pub(super) async fn over_stdio(self, server: &str, command: &StdioCommand) -> Result<Connection, Error> {
        match &self.known.pin {
            Pin::Modern(name) => {
                let child = self.spawn(server, command)?;
                return self.finish_stdio(child, Peer::taken_for(name)).await;
            }
            Pin::Legacy(_) => return self.process(server, command).await,
            Pin::None => {}
        }
        if self.known.verdict.recall().is_some() {
            let connected = self.process(server, command).await;
            return connected.inspect_err(|_| self.known.verdict.forget());
        }
        let child = self.spawn(server, command)?;
        match timeout(self.limit, self.find_out(&child)).await {
            Ok(Ok(Some(peer))) => {
                if peer.era() == Era::Legacy {
                    self.known.verdict.remember(LegacyWay::Handshake);
                }
                return self.finish_stdio(child, peer).await;
            }
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
        let connection = self.process(server, command).await?;
        self.known.verdict.remember(LegacyWay::Handshake);
        Ok(connection)
    }

    /// Starts a process that gets the handshake alone.
    pub(super) async fn process(self, server: &str, command: &StdioCommand) -> Result<Connection, Error> {
        let child = self.spawn(server, command)?;
        let timed_out = Error::Timeout {
            operation: Method::Initialize.as_str(),
            after: self.limit,
        };
        let answer = timeout(self.limit, ask_stdio(&child, self.handshake())).await;
        match answer.map_err(|_| timed_out).and_then(initialized) {
            Ok(peer) => self.finish_stdio(child, peer).await,
            Err(error) => {
                child.stop().await;
                Err(error)
            }
        }
    }

    /// The verdict on what the server answers to discovery, in the latest revision that is known here, or in a later one
    /// if it wants that.
    async fn discover(self, http: &Arc<HttpPeer>) -> Result<Verdict, Error> {
        match self.discover_in(http, Revision::LATEST.as_str()).await? {
            Verdict::Later(name) => self.discover_in(http, &name).await,
            verdict => Ok(verdict),
        }
    }

    async fn discover_in(self, http: &Arc<HttpPeer>, revision: &str) -> Result<Verdict, Error> {
        let mut headers = modern_headers(http, revision)?;
        routing_headers(&mut headers, Method::Discover.as_str(), None);
        let answer = match self
            .ask_http(http, &headers, self.discovery(DISCOVER_ID, revision))
            .await
        {
            // Who answers what it does not know with a page may still take a handshake.
            Err(Error::Unexpected { .. }) => return Ok(Verdict::Legacy),
            answer => answer?,
        };
        Ok(handshake::judge_http(
            answer.status,
            answer.message.as_deref(),
            revision,
        ))
    }

    fn modern(self, http: &Arc<HttpPeer>, peer: Peer) -> Result<Connection, Error> {
        let headers = modern_headers(http, &peer.revision_name)?;
        Ok(self.connection(peer, http, headers, false))
    }

    fn connection(self, peer: Peer, http: &Arc<HttpPeer>, headers: HeaderMap, has_session: bool) -> Connection {
        let link = HttpLink {
            http: Arc::clone(http),
            headers,
            has_session,
            partings: TaskTracker::new(),
        };
        Connection::new(peer, Link::Http(link), self.questions, self.known)
    }

    async fn ask_http(
        self,
        http: &Arc<HttpPeer>,
        headers: &HeaderMap,
        (method, id, body): FirstQuestion,
    ) -> Result<Answer, Error> {
        let question = Question {
            id,
            body,
            ear: None,
            questions: self.questions,
            call: None,
            resumes: false,
            news: &self.known.news,
            sending: Sending::Twice,
        };
        let answer = timeout(self.limit, http.ask(headers.clone(), headers, question)).await;
        match answer {
            // Nothing was done yet that could be in doubt.
            Ok(Err(Error::Broken(why))) => Err(Error::Connect(why)),
            Ok(answer) => answer,
            Err(_) => Err(Error::Timeout {
                operation: method.as_str(),
                after: self.limit,
            }),
        }
    }

    fn spawn(self, server: &str, command: &StdioCommand) -> Result<StdioConnection, Error> {
        Ok(StdioConnection::spawn(
            server,
            command,
            Arc::clone(self.questions),
            self.known.metrics.clone(),
        )?)
    }

    /// What the process says of itself, by discovery or handshake. `None`: it ended before it said so.
    async fn find_out(self, child: &StdioConnection) -> Result<Option<Peer>, Error> {
        let discovered = ask_stdio(child, self.discovery(DISCOVER_ID, Revision::LATEST.as_str()));
        tokio::pin!(discovered);
        let shaken = ask_stdio(child, self.handshake());
        if let Ok(answer) = timeout(PROBE_PATIENCE, &mut discovered).await {
            return self.judge(child, answer, shaken).await;
        }
        tokio::pin!(shaken);
        let answer = tokio::select! {
            // Whoever answers both at once, being slow to start, knows discovery.
            biased;
            answer = &mut discovered => return self.judge(child, answer, shaken).await,
            answer = &mut shaken => answer,
        };
        let Ok(message) = answer else { return Ok(None) };
        match handshake::read_initialized(&message) {
            Ok(peer) => Ok(Some(peer)),
            // A Modern server refuses the handshake.
            Err(refused) => match timeout(REFUSED_PATIENCE, discovered).await {
                Ok(answer) => self.judge(child, answer, ready(Ok(message))).await,
                Err(_) => Err(refused),
            },
        }
    }

    async fn finish_stdio(self, child: StdioConnection, peer: Peer) -> Result<Connection, Error> {
        if peer.era() == Era::Legacy {
            child.notify(Bytes::from_static(INITIALIZED)).await?;
        }
        Ok(Connection::new(peer, Link::Stdio(child), self.questions, self.known))
    }

    /// What an answer to discovery leads to; `shaken` is the handshake, begun or not.
    async fn judge(
        self,
        child: &StdioConnection,
        discovered: Result<Bytes, StdioError>,
        shaken: impl Future<Output = Result<Bytes, StdioError>>,
    ) -> Result<Option<Peer>, Error> {
        let Ok(message) = discovered else { return Ok(None) };
        let mut verdict = handshake::judge_message(&message, Revision::LATEST.as_str());
        if let Verdict::Later(name) = &verdict {
            let Ok(message) = ask_stdio(child, self.discovery(DISCOVER_AGAIN_ID, name)).await else {
                return Ok(None);
            };
            verdict = handshake::judge_message(&message, name);
        }
        match verdict {
            Verdict::Modern(peer) => Ok(Some(peer)),
            Verdict::Failed(error) => Err(error),
            Verdict::Later(name) => Err(refused_its_own(&name)),
            Verdict::Legacy => match shaken.await {
                Ok(message) => handshake::read_initialized(&message).map(Some),
                Err(_) => Ok(None),
            },
        }
    }

    fn discovery(self, id: u64, revision: &str) -> FirstQuestion {
        let declared = self.questions.declared().to_json(Era::Modern);
        question(Method::Discover, id, &handshake::discover_params(revision, &declared))
    }

    fn handshake(self) -> FirstQuestion {
        let offered = match &self.known.pin {
            Pin::Legacy(revision) => *revision,
            Pin::None | Pin::Modern(_) => Revision::LATEST_LEGACY,
        };
        let declared = self.questions.declared().to_json(Era::Legacy);
        let params = handshake::initialize_params(offered, &declared);
        question(Method::Initialize, INITIALIZE_ID, &params)
    }
}

async fn ask_stdio(child: &StdioConnection, (_, id, body): FirstQuestion) -> Result<Bytes, StdioError> {
    child.request(id, body, None).await
}

fn initialized(answer: Result<Bytes, StdioError>) -> Result<Peer, Error> {
    handshake::read_initialized(&answer?)
}

fn refused_its_own(name: &str) -> Error {
    Error::Protocol(format!("it refuses revision {name}, which it lists as supported"))
}

fn modern_headers(http: &HttpPeer, revision: &str) -> Result<HeaderMap, Error> {
    let mut headers = http.base_headers();
    let name = HeaderValue::from_str(revision);
    let name = name.map_err(|_| Error::Protocol("its revision has a name that no header can carry".into()))?;
    headers.insert(headers::PROTOCOL_VERSION.clone(), name);
    Ok(headers)
}

/// A question that a connection begins with: method, id and the whole message.
type FirstQuestion = (Method, u64, Bytes);

fn question(method: Method, id: u64, params: &[u8]) -> FirstQuestion {
    (method, id, Bytes::from(message::request(id, method.as_str(), params)))
}

const DISCOVER_ID: u64 = 1;
const INITIALIZE_ID: u64 = 2;
const DISCOVER_AGAIN_ID: u64 = 3;
const INITIALIZED: &[u8] = br#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;
/// A process is given this long to answer discovery before it is offered a handshake as well.
const PROBE_PATIENCE: Duration = Duration::from_secs(5);
/// And, once it refused the handshake, this long to answer discovery all the same.
const REFUSED_PATIENCE: Duration = Duration::from_secs(1);
