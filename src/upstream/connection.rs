//! A live connection to one server, and requests over it.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use tokio::time::timeout;

use super::error::Error;
use super::handshake;
use super::hearing::{Hearing, Words};
use super::http::Question;
use super::http_link::{HttpLink, Parting};
use super::http_pool::Sending;
use super::known::Known;
use super::log_level::ToldLevel;
use super::old_sse::OldSse;
use super::questions::{Begun, Ended, Questions};
use super::request::{self, Call, Reply};
use super::sharing::Holds;
use super::state::{Peer, Transport};
use super::stdio::StdioConnection;
use crate::defaults;
use crate::index::Annotations;
use crate::mcp::{Era, Method, message};

/// A connection whose handshake is done.
#[derive(Debug)]
pub(crate) struct Connection {
    peer: Arc<Peer>,
    link: Link,
    ids: AtomicU64,
    known: Arc<Known>,
    words: Words,
    questions: Arc<Questions>,
    told_level: ToldLevel,
}

/// What carries the messages.
#[derive(Debug)]
pub(super) enum Link {
    /// HTTP.
    Http(HttpLink),
    /// The transport of 2024-11-05.
    OldSse(OldSse),
    /// A child process.
    Stdio(StdioConnection),
}

impl Connection {
    /// What the server said of itself.
    pub(crate) fn peer(&self) -> &Arc<Peer> {
        &self.peer
    }

    /// What the server keeps for this connection.
    pub(crate) fn holds(&self) -> Holds {
        match (&self.link, self.peer.era()) {
            (Link::Stdio(_), Era::Legacy) => Holds::Process,
            (Link::Http(link), Era::Legacy) if link.has_session => Holds::Session,
            (Link::OldSse(_), _) => Holds::Session,
            (_, Era::Modern) | (Link::Http(_), Era::Legacy) => Holds::Nothing,
        }
    }

    /// Whether it can carry nothing more; one over HTTP always can.
    pub(crate) fn has_ended(&self) -> bool {
        match &self.link {
            Link::Http(_) => false,
            Link::OldSse(old_sse) => old_sse.has_ended(),
            Link::Stdio(child) => child.has_ended(),
        }
    }

    /// Reads one page of a list.
    pub(crate) async fn list(
        &self,
        method: Method,
        cursor: Option<&str>,
        limit: Option<Duration>,
    ) -> Result<Reply, Error> {
        let params = request::list_params(&self.peer, cursor);
        self.exchange(self.next_id(), method.as_str(), (None, None), &params, limit)
            .await
    }

    /// Asks something of our own.
    pub(super) async fn ask(&self, method: &'static str, params: &[u8], limit: Duration) -> Result<Reply, Error> {
        self.exchange(self.next_id(), method, (None, None), params, Some(limit))
            .await
    }

    /// Asks a Legacy server whether it is there, and whether it knows the session.
    pub(super) async fn ping(&self, limit: Duration) -> Result<Reply, Error> {
        self.ask(Method::Ping.as_str(), b"{}", limit).await
    }

    /// Asks whether the server is there, whatever it says to it.
    pub(super) async fn is_there(&self, limit: Duration) -> Result<(), Error> {
        match self.peer.era() {
            Era::Legacy => self.ping(limit).await.map(drop),
            Era::Modern => {
                let declared = self.questions.declared().to_json(Era::Modern);
                let params = handshake::discover_params(&self.peer.revision_name, &declared);
                self.ask(Method::Discover.as_str(), &params, limit).await.map(drop)
            }
        }
    }

    /// Has a Legacy server log what the client of `call` wants to hear; others may use the connection too if it
    /// `is_shared`.
    pub(super) async fn make_log(&self, call: &Call<'_>, is_shared: bool) {
        let Some(level) = call
            .log_level
            .filter(|_| self.peer.era() == Era::Legacy && self.peer.capabilities.logging)
        else {
            return;
        };
        if !self.told_level.note(level, is_shared) {
            return;
        }
        let id = self.next_id();
        let params = format!(r#"{{"level":"{}"}}"#, level.as_str());
        let body = Bytes::from(message::request(id, "logging/setLevel", params.as_bytes()));
        let told = async {
            match &self.link {
                Link::Http(link) => {
                    let question = Question {
                        id,
                        body,
                        ear: None,
                        questions: &self.questions,
                        call: None,
                        resumes: false,
                        news: &self.known.news,
                        sending: Sending::Twice,
                    };
                    drop(link.http.ask(link.headers.clone(), &link.headers, question).await);
                }
                Link::OldSse(old_sse) => drop(old_sse.request(id, body, None).await),
                Link::Stdio(child) => drop(child.request(id, body, None).await),
            }
        };
        // The call is worth more than its log: if anything is amiss here, it will find out.
        drop(timeout(defaults::PARTING_TIMEOUT, Box::pin(told)).await);
    }

    /// Whether the annotations of the server's tools bind us: only a Modern server over HTTP reads headers.
    pub(crate) fn annotations(&self) -> Annotations {
        match (&self.link, self.peer.era()) {
            (Link::Http(_), Era::Modern) => Annotations::Binding,
            (Link::Http(_), Era::Legacy) | (Link::OldSse(_) | Link::Stdio(_), _) => Annotations::Inert,
        }
    }

    /// Sends a request for a client, and waits for its answer.
    pub(super) async fn carry(
        &self,
        call: &Call<'_>,
        begun: Option<&Begun>,
        limit: Option<Duration>,
    ) -> Result<Reply, Error> {
        let id = self.next_id();
        let params = call.params(&self.peer, id);
        self.exchange(id, call.method.as_str(), (Some(call), begun), &params, limit)
            .await
    }

    async fn exchange(
        &self,
        id: u64,
        method: &'static str,
        (call, begun): (Option<&Call<'_>>, Option<&Begun>),
        params: &[u8],
        limit: Option<Duration>,
    ) -> Result<Reply, Error> {
        let body = Bytes::from(message::request(id, method, params));
        let era = self.peer.era();
        // In place, since it is large and would be moved otherwise.
        let mut answer = pin!(async {
            match &self.link {
                Link::Http(link) => {
                    let question = Question {
                        id,
                        body,
                        ear: call.and_then(|call| call.ear.as_deref()),
                        questions: &self.questions,
                        call: begun,
                        resumes: era == Era::Legacy,
                        news: &self.known.news,
                        // What a client asks for is repeated by who knows whether that harms.
                        sending: if call.is_some() { Sending::Once } else { Sending::Twice },
                    };
                    link.request(era, method, call, question).await
                }
                Link::OldSse(old_sse) => {
                    let mut parting = Parting {
                        link: &old_sse.post,
                        call: begun,
                        cancelled: Some(id),
                    };
                    let headers = request::headers_of(call, &old_sse.post.headers);
                    let answer = old_sse.request_with(&headers, id, body, begun).await;
                    parting.cancelled = None;
                    answer
                }
                Link::Stdio(child) => Ok(child.request(id, body, begun).await?),
            }
        });
        let answered = match (begun, limit) {
            (Some(begun), limit) => begun.wait_for(limit, answer.as_mut()).await,
            (None, Some(limit)) => timeout(limit, answer).await.map_err(|_| Ended::TimedOut),
            (None, None) => Ok(answer.await),
        };
        let message = answered.map_err(|ended| match ended {
            Ended::TimedOut => Error::Timeout {
                operation: method,
                after: limit.unwrap_or_default(),
            },
            Ended::Lost => Error::Unanswered,
        })??;
        Reply::read(message, id, era)
    }

    /// Says what is still to be said when a call is over. It is waited for before the session is ended.
    pub(super) fn part(&self, words: impl Future<Output = ()> + Send + 'static) {
        let Ok(runtime) = tokio::runtime::Handle::try_current() else {
            return;
        };
        match &self.link {
            Link::Http(link) => drop(runtime.spawn(link.partings.track_future(words))),
            Link::OldSse(_) | Link::Stdio(_) => drop(runtime.spawn(words)),
        }
    }

    pub(super) fn next_id(&self) -> u64 {
        self.ids.fetch_add(1, Ordering::Relaxed)
    }

    /// Sends a whole notification, as far as the server takes it within a short time.
    pub(crate) async fn tell(&self, notification: &'static [u8]) {
        let message = Bytes::from_static(notification);
        match &self.link {
            Link::Http(link) => drop(timeout(defaults::PARTING_TIMEOUT, link.http.tell(&link.headers, message)).await),
            Link::OldSse(old_sse) => {
                let post = &old_sse.post;
                drop(timeout(defaults::PARTING_TIMEOUT, post.http.tell(&post.headers, message)).await);
            }
            Link::Stdio(child) => drop(timeout(defaults::PARTING_TIMEOUT, child.notify(message)).await),
        }
    }

    /// Resolves when the connection can carry nothing more; one over HTTP never does.
    pub(crate) async fn closed(&self) -> Error {
        match &self.link {
            Link::Http(_) => std::future::pending().await,
            Link::OldSse(old_sse) => old_sse.ended().await,
            Link::Stdio(child) => child.exited().await.into(),
        }
    }

    /// What carries its messages.
    pub(super) fn link(&self) -> &Link {
        &self.link
    }

    /// What the server asks on it.
    pub(super) fn questions(&self) -> &Arc<Questions> {
        &self.questions
    }

    /// Takes what the server says beside its answers.
    pub(super) fn hearing(&self) -> Hearing<'_> {
        Hearing::new(&self.known.news, &self.words, self.questions.origin())
    }

    /// What the server last said of listens on this connection.
    pub(super) fn words(&self) -> &Words {
        &self.words
    }

    /// What it has in common with other connections to the server.
    pub(super) fn known(&self) -> &Arc<Known> {
        &self.known
    }

    /// Ends the session or the process.
    pub(crate) async fn close(&self) {
        match &self.link {
            Link::Http(link) if link.has_session => {
                link.partings.close();
                drop(timeout(defaults::PARTING_TIMEOUT, link.partings.wait()).await);
                // A server that does not answer this keeps a session that it will forget by itself.
                drop(timeout(defaults::PARTING_TIMEOUT, link.http.end_session(&link.headers)).await);
            }
            // Its stream is closed when nobody uses it any more.
            Link::Http(_) | Link::OldSse(_) => {}
            Link::Stdio(child) => child.stop().await,
        }
    }

    /// The connection to `peer`, whose handshake is done.
    pub(super) fn new(peer: Peer, link: Link, questions: &Arc<Questions>, known: &Arc<Known>) -> Self {
        questions.negotiated(peer.revision);
        let transport = match &link {
            Link::Http(_) => Transport::StreamableHttp,
            Link::OldSse(_) => Transport::OldSse,
            Link::Stdio(_) => Transport::Stdio,
        };
        let peer = Peer { transport, ..peer };
        Self {
            peer: Arc::new(peer),
            link,
            ids: AtomicU64::new(FIRST_ID),
            known: Arc::clone(known),
            words: Words::default(),
            questions: Arc::clone(questions),
            told_level: ToldLevel::default(),
        }
    }
}

/// Ids below this one are the handshake's, so that none is used twice in a session.
const FIRST_ID: u64 = 4;
