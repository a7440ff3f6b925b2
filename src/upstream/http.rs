//! Streamable HTTP toward one server: one POST and its answer, plain or as an event stream.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT, ACCEPT_ENCODING, CONTENT_TYPE, USER_AGENT};
use http::uri::Scheme;
use http::{HeaderMap, HeaderValue, Method as HttpMethod, Request, Response, Uri};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper_rustls::ConfigBuilderExt;
use tokio::time::{sleep, timeout};

use super::ear::Ear;
use super::endpoint::HttpEndpoint;
use super::error::{Error, cause};
use super::event_stream::EventStream;
use super::http_content::{IDENTITY, MediaType, media_type, unexpected};
use super::http_pool::{self, HttpPool, SendError, Sending, Target};
use super::news::News;
use super::questions::{Begun, Heard, Questions};
use super::resumption::Resumption;
use crate::body::{self, BodyError};
use crate::cores::PerCore;
use crate::defaults;
use crate::mcp::asking::Asking;
use crate::mcp::{Envelope, Kind, headers, message, notice};

/// One server's endpoint with connection pools of its own, one for each core.
#[derive(Debug)]
pub(crate) struct HttpPeer {
    pools: Arc<PerCore<HttpPool>>,
    target: Target,
    /// Headers of the manifest.
    headers: HeaderMap,
}

/// A request on its way.
#[derive(Debug)]
pub(crate) struct Question<'a> {
    /// Its id.
    pub(crate) id: u64,
    /// The whole message.
    pub(crate) body: Bytes,
    /// Who hears what the server says before its answer.
    pub(crate) ear: Option<&'a dyn Ear>,
    /// What the server asks on the connection.
    pub(crate) questions: &'a Arc<Questions>,
    /// The call that the request carries, if its client can be asked.
    pub(crate) call: Option<&'a Begun>,
    /// Whether its stream can be read on when it breaks: servers with event ids are Legacy.
    pub(crate) resumes: bool,
    /// Takes what the server says of changes.
    pub(crate) news: &'a News,
    /// Whether it may reach the server twice.
    pub(super) sending: Sending,
}

/// What came back for a POST.
#[derive(Debug)]
pub(crate) struct Answer {
    /// The HTTP status.
    pub(crate) status: u16,
    /// The session that the answer opens, if it does.
    pub(crate) session: Option<HeaderValue>,
    /// The message in it, if it carries one.
    pub(crate) message: Option<Bytes>,
}

/// What came back for a request that may be answered by a stream.
#[derive(Debug)]
pub(crate) enum Opened {
    /// Events.
    Stream(Box<EventStream>),
    /// Anything else.
    Other {
        /// The HTTP status.
        status: u16,
        /// The message in it, if it may be one.
        message: Option<Bytes>,
    },
}

impl HttpPeer {
    /// A client for `endpoint` that gives up connecting after `connect`.
    pub(crate) fn new(endpoint: HttpEndpoint, connect: Duration) -> Result<Self, Error> {
        let connector = http_pool::connector(tls_config(&endpoint)?, connect);
        let patience = match endpoint.url.scheme() == Some(&Scheme::HTTPS) {
            true => defaults::IDLE_TLS_CONNECTION,
            false => defaults::IDLE_CONNECTION,
        };
        Ok(Self {
            pools: Arc::new(PerCore::new(|| HttpPool::new(connector.clone(), patience))),
            target: Target::of(&endpoint.url),
            headers: endpoint.headers,
        })
    }

    /// The same server at another address of the same origin, with the same connections.
    pub(crate) fn at(&self, url: &Uri) -> Self {
        Self {
            pools: Arc::clone(&self.pools),
            target: Target::of(url),
            headers: self.headers.clone(),
        }
    }

    /// Its address.
    pub(crate) fn url(&self) -> &Uri {
        self.target.url()
    }

    /// The headers of every request to this server: the manifest's first, so that the protocol's own win.
    pub(crate) fn base_headers(&self) -> HeaderMap {
        let mut map = self.headers.clone();
        map.insert(ACCEPT, HeaderValue::from_static("application/json, text/event-stream"));
        map.insert(ACCEPT_ENCODING, IDENTITY);
        map.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        map.insert(
            USER_AGENT,
            HeaderValue::from_static(concat!("mcpfleet/", env!("CARGO_PKG_VERSION"))),
        );
        map
    }

    /// Opens the server's own stream, or goes on behind the event `last_id`. The caller bounds the time.
    pub(crate) async fn open_stream(
        &self,
        headers: &HeaderMap,
        last_id: Option<&HeaderValue>,
    ) -> Result<Opened, Error> {
        let mut headers = headers.clone();
        headers.remove(CONTENT_TYPE);
        headers.insert(ACCEPT, HeaderValue::from_static("text/event-stream"));
        if let Some(id) = last_id {
            headers.insert(headers::LAST_EVENT_ID.clone(), id.clone());
        }
        opened(
            self.send(HttpMethod::GET, headers, Bytes::new(), Sending::Twice)
                .await?,
        )
        .await
    }

    /// Sends a request whose answer is a stream that goes on.
    pub(crate) async fn open_stream_by_post(&self, headers: HeaderMap, body: Bytes) -> Result<Opened, Error> {
        opened(self.send(HttpMethod::POST, headers, body, Sending::Twice).await?).await
    }

    /// Sends a request with the headers `sent` and waits for its answer; what else is said about it carries `headers`.
    /// Dropping the future closes the stream. The caller bounds the time.
    pub(crate) async fn ask(
        self: &Arc<Self>,
        sent: HeaderMap,
        headers: &HeaderMap,
        question: Question<'_>,
    ) -> Result<Answer, Error> {
        let sending = question.sending;
        let response = self
            .send(HttpMethod::POST, sent, question.body.clone(), sending)
            .await?;
        let status = response.status().as_u16();
        if let Some(came) = unexpected(&response) {
            return Err(came);
        }
        let session = response.headers().get(&headers::SESSION_ID).cloned();
        let message = match opened(response).await? {
            Opened::Stream(events) => Some(Box::pin(self.read_stream(*events, headers, &question)).await?),
            Opened::Other { message, .. } => message,
        };
        Ok(Answer {
            status,
            session,
            message,
        })
    }

    /// Sends a notification or an answer of ours, and gives the HTTP status.
    pub(crate) async fn tell(&self, headers: &HeaderMap, body: Bytes) -> Result<u16, Error> {
        let sent = self.send(HttpMethod::POST, headers.clone(), body, Sending::Twice);
        let response = sent.await?;
        let status = response.status().as_u16();
        drop(body::read(&mut response.into_body(), ERROR_BODY_MAX).await);
        Ok(status)
    }

    /// Takes what is answered to a request of the server to it, beside whatever else is read from it.
    pub(crate) async fn answer(self: &Arc<Self>, headers: &HeaderMap, questions: &Questions, heard: Heard) {
        let (peer, headers) = (Arc::clone(self), headers.clone());
        // Whether the server still wants the answer is its own affair.
        let tell = async move |message| timeout(REPLY_TIMEOUT, peer.tell(&headers, message)).await;
        match heard {
            Heard::Nothing => {}
            Heard::Reply(message) => {
                let room = questions.room().await;
                tokio::spawn(async move {
                    drop(tell(message).await);
                    drop(room);
                });
            }
            Heard::Pending(pending) => drop(tokio::spawn(async move {
                let Some((message, undelivered)) = pending.reply().await else {
                    return;
                };
                if let Ok(Ok(400 | 404)) = tell(message).await {
                    undelivered.end_call();
                }
            })),
        }
    }

    /// Ends a session; a server may refuse, which changes nothing for us.
    pub(crate) async fn end_session(&self, headers: &HeaderMap) -> Result<u16, Error> {
        let sent = self.send(HttpMethod::DELETE, headers.clone(), Bytes::new(), Sending::Twice);
        Ok(sent.await?.status().as_u16())
    }

    async fn send(
        &self,
        method: HttpMethod,
        headers: HeaderMap,
        body: Bytes,
        sending: Sending,
    ) -> Result<Response<Incoming>, Error> {
        let mut request = Request::new(Full::new(body));
        *request.method_mut() = method;
        *request.headers_mut() = headers;
        let sent = self.pools.here().send(&self.target, request, sending).await;
        sent.map_err(|error| match error {
            SendError::Unreached(why) => Error::Connect(cause(&*why)),
            SendError::Broken(why) => Error::Broken(cause(&*why)),
        })
    }

    /// Reads an event stream up to the answer to `question`. One that breaks is read on where the server can do that.
    async fn read_stream(
        self: &Arc<Self>,
        mut events: EventStream,
        headers: &HeaderMap,
        question: &Question<'_>,
    ) -> Result<Bytes, Error> {
        let mut resumption = Resumption::default();
        loop {
            match self.read_on(&mut events, headers, question, &mut resumption).await {
                Ok(Some(answer)) => return Ok(answer),
                Ok(None) | Err(Error::Connect(_)) => {}
                Err(error) => return Err(error),
            }
            events = match question.resumes {
                true => self.resume(headers, &mut resumption).await?,
                false => return Err(Error::CutOff),
            };
        }
    }

    /// Reads to the answer, or to the end. Requests of the server are answered on the way.
    async fn read_on(
        self: &Arc<Self>,
        events: &mut EventStream,
        headers: &HeaderMap,
        question: &Question<'_>,
        resumption: &mut Resumption,
    ) -> Result<Option<Bytes>, Error> {
        while let Some(event) = events.next().await? {
            resumption.saw(&event);
            let Some(text) = event.message() else { continue };
            match classify(text, question)? {
                Seen::Answer => return Ok(Some(Bytes::from(event.data))),
                Seen::Request(heard) => self.answer(headers, question.questions, heard).await,
                Seen::Other => {}
            }
        }
        Ok(None)
    }

    /// The rest of a stream.
    async fn resume(&self, headers: &HeaderMap, resumption: &mut Resumption) -> Result<EventStream, Error> {
        while let Some((pause, last_id)) = resumption.next() {
            sleep(pause).await;
            match self.open_stream(headers, Some(&last_id)).await {
                Ok(Opened::Stream(events)) => return Ok(*events),
                Ok(Opened::Other { status, .. }) if status != 429 && status < 500 => break,
                Ok(Opened::Other { .. }) | Err(_) => {}
            }
        }
        Err(Error::CutOff)
    }
}

impl From<BodyError> for Error {
    fn from(error: BodyError) -> Self {
        match error {
            BodyError::TooLarge(limit) => Self::TooLarge(limit),
            BodyError::Broken(broken) => Self::Broken(cause(&broken)),
        }
    }
}

/// What one message of a stream is to us.
enum Seen {
    Answer,
    Request(Heard),
    Other,
}

fn classify(text: &[u8], question: &Question<'_>) -> Result<Seen, Error> {
    let protocol = |e: message::MessageError| Error::Protocol(e.to_string());
    let envelope = Envelope::parse(text, defaults::JSON_DEPTH_MAX).map_err(protocol)?;
    Ok(match envelope.kind().map_err(protocol)? {
        Kind::Response { id: Some(answered) } if answered.is_number(question.id) => Seen::Answer,
        Kind::Response { id: None } => Seen::Answer,
        Kind::Response { .. } => Seen::Other,
        Kind::Notification { method } => {
            if method == notice::CANCELLED {
                question.questions.withdraw(&envelope);
            } else if !question.news.take(question.questions.origin(), method, envelope.params)
                && let Some(ear) = question.ear
                && (notice::is_for_client(method) || notice::progress_token(&envelope) == Some(question.id))
            {
                ear.heard(text);
            }
            Seen::Other
        }
        Kind::Request { id, method } => {
            // Where nobody can be asked, no call is kept in mind; whose stream it is, is known all the same.
            if question.call.is_none()
                && let (Some(ear), Some(kind)) = (question.ear, Asking::of_method(method))
            {
                ear.lacked(kind);
            }
            Seen::Request(question.questions.hear(question.call, id, &envelope))
        }
    })
}

async fn opened(response: Response<Incoming>) -> Result<Opened, Error> {
    let status = response.status();
    let message = match media_type(&response) {
        MediaType::EventStream if status.is_success() && unexpected(&response).is_none() => {
            return Ok(Opened::Stream(Box::new(EventStream::new(response.into_body()))));
        }
        MediaType::Json => Some(body::read(&mut response.into_body(), defaults::RESPONSE_BODY_MAX).await?),
        _ => {
            // A short body is read so that the connection can be used again; a long one is not worth it.
            drop(body::read(&mut response.into_body(), ERROR_BODY_MAX).await);
            None
        }
    };
    Ok(Opened::Other {
        status: status.as_u16(),
        message,
    })
}

/// One TLS configuration for all servers: the platform's roots are loaded once, and only where TLS is used.
fn tls_config(endpoint: &HttpEndpoint) -> Result<rustls::ClientConfig, Error> {
    if endpoint.url.scheme() != Some(&Scheme::HTTPS) {
        let no_roots = rustls::RootCertStore::empty();
        return Ok(rustls::ClientConfig::builder()
            .with_root_certificates(no_roots)
            .with_no_client_auth());
    }
    static CONFIG: OnceLock<Result<rustls::ClientConfig, String>> = OnceLock::new();
    let config = CONFIG.get_or_init(|| {
        let config = rustls::ClientConfig::builder()
            .try_with_platform_verifier()
            .map_err(|e| e.to_string())?;
        Ok(config.with_no_client_auth())
    });
    config
        .clone()
        .map_err(|e| Error::Connect(format!("TLS is not usable: {e}")))
}

/// The names under which a request is routed on a Modern hop.
pub(crate) fn routing_headers(map: &mut HeaderMap, method: &'static str, target: Option<&str>) {
    map.insert(headers::METHOD.clone(), HeaderValue::from_static(method));
    if let Some(target) = target
        && let Ok(value) = HeaderValue::from_str(&headers::encode(target))
    {
        map.insert(headers::NAME.clone(), value);
    }
}

/// Bodies that carry no message are read this far.
const ERROR_BODY_MAX: usize = 64 << 10;
/// An answer to a server's own request is given this long.
const REPLY_TIMEOUT: Duration = Duration::from_secs(5);
