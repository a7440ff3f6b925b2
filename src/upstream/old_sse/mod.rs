//! The transport of 2024-11-05 toward one server: all that it says comes on one stream that is opened by GET, and what
//! is said to it goes by POST to the address that the stream's first event names.

mod address;
mod calls;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Uri};
use tokio::sync::watch;
use tokio::time::{Instant, timeout};
use tokio_util::task::{AbortOnDropHandle, TaskTracker};

use self::calls::Calls;
use super::cut::Cut;
use super::error::Error;
use super::event_stream::EventStream;
use super::http::{HttpPeer, Opened};
use super::http_link::HttpLink;
use super::known::Known;
use super::questions::{Begun, Heard, Questions};
use super::stdio::incoming::{self, Incoming};
use crate::defaults;
use crate::mcp::sse::Event;
use crate::mcp::{Envelope, Id};

/// A connection by the old transport. The stream is closed when it is dropped.
#[derive(Debug)]
pub(super) struct OldSse {
    /// Where the stream was opened.
    pub(super) http: Arc<HttpPeer>,
    /// Where messages are posted to.
    pub(super) post: HttpLink,
    shared: Arc<Shared>,
    _reader: AbortOnDropHandle<()>,
}

#[derive(Debug, Default)]
struct Shared {
    calls: Calls,
    ended: watch::Sender<Option<Error>>,
}

impl OldSse {
    /// Opens the stream at the address of `http`, and waits until it names where to post, `limit` in all.
    pub(super) async fn open(
        http: &Arc<HttpPeer>,
        limit: Duration,
        questions: &Arc<Questions>,
        known: &Arc<Known>,
    ) -> Result<Self, Error> {
        let opened = timeout(limit, begin(http)).await;
        let (events, address) = opened.map_err(|_| Error::Timeout {
            operation: "the event that says where to post",
            after: limit,
        })??;
        let peer = Arc::new(http.at(&address));
        let post = HttpLink {
            headers: peer.base_headers(),
            http: peer,
            has_session: false,
            partings: TaskTracker::new(),
        };
        let shared = Arc::<Shared>::default();
        let reader = Reader {
            shared: Arc::clone(&shared),
            post: post.clone(),
            questions: Arc::clone(questions),
            known: Arc::clone(known),
        };
        Ok(Self {
            http: Arc::clone(http),
            post,
            shared,
            _reader: AbortOnDropHandle::new(tokio::spawn(reader.read(events))),
        })
    }

    /// Posts one whole request whose id is the number `id`, and waits for the answer of that id on the stream. Whoever
    /// hears of `call` hears its progress. There is no time limit but the caller's.
    pub(super) async fn request(&self, id: u64, message: Bytes, call: Option<&Begun>) -> Result<Bytes, Error> {
        self.request_with(&self.post.headers, id, message, call).await
    }

    /// The same with these headers, which are those of the connection and more.
    pub(super) async fn request_with(
        &self,
        headers: &HeaderMap,
        id: u64,
        message: Bytes,
        call: Option<&Begun>,
    ) -> Result<Bytes, Error> {
        let mut waiting = self.shared.calls.add(id, call.and_then(Begun::ear).cloned())?;
        let posted = self.post.http.tell(headers, message);
        tokio::select! {
            biased;
            answer = waiting.answer() => return answer,
            status = posted => match status? {
                200..=299 => {}
                status @ (401 | 403) => return Err(Error::Auth(status)),
                404 => return Err(Error::SessionLost),
                status => return Err(Error::Status(status)),
            },
        }
        waiting.answer().await
    }

    /// Whether the stream has ended.
    pub(super) fn has_ended(&self) -> bool {
        self.shared.ended.borrow().is_some()
    }

    /// Waits until the stream has ended.
    pub(super) async fn ended(&self) -> Error {
        let mut ended = self.shared.ended.subscribe();
        let ended = ended.wait_for(Option::is_some).await;
        ended.ok().and_then(|error| error.clone()).unwrap_or(Error::CutOff)
    }
}

/// The stream, and where it says to post.
async fn begin(http: &HttpPeer) -> Result<(EventStream, Uri), Error> {
    let mut events = match http.open_stream(&http.base_headers(), None).await? {
        Opened::Stream(events) => *events,
        Opened::Other {
            status: status @ (401 | 403),
            ..
        } => return Err(Error::Auth(status)),
        Opened::Other { status, .. } => return Err(Error::Status(status)),
    };
    // The stream is everybody's: an answer that is too large fails its call, and no other.
    events.skip_too_large();
    while let Some(event) = events.next().await? {
        if event.kind != "endpoint" {
            continue;
        }
        let named = String::from_utf8_lossy(&event.data);
        let address = address::resolve(http.url(), named.trim());
        return match address {
            Some(address) => Ok((events, address)),
            None => Err(Error::Protocol(
                "it wants messages posted to an address that is not of its own origin".into(),
            )),
        };
    }
    Err(Error::Protocol("its stream ended before it said where to post".into()))
}

/// Reads the stream.
struct Reader {
    shared: Arc<Shared>,
    post: HttpLink,
    questions: Arc<Questions>,
    known: Arc<Known>,
}

impl Reader {
    async fn read(self, mut events: EventStream) {
        let opened = Instant::now();
        let broke = loop {
            match events.next().await {
                Ok(Some(Event {
                    data, tail: Some(tail), ..
                })) => self.passed_over(&data, &tail),
                Ok(Some(event)) => {
                    if event.message().is_some() {
                        for message in incoming::read(&Bytes::from(event.data)) {
                            self.take(message).await;
                        }
                    }
                }
                Ok(None) => break Error::Connect("it closed its stream".into()),
                Err(error) => break error,
            }
        };
        self.shared.calls.end();
        // One that lasted is most often closed by something on the way: a new one can be had at once.
        let ended = if opened.elapsed() >= defaults::STREAM_OF_USE {
            Error::SessionLost
        } else {
            broke
        };
        self.shared.ended.send_replace(Some(ended));
    }

    /// A message was too large, of which this is the beginning and the end.
    fn passed_over(&self, head: &[u8], tail: &[u8]) {
        self.known.metrics.skipped();
        let mut cut = Cut::new(head);
        cut.push(tail);
        match cut.answers() {
            Some(id) => self.shared.calls.fail(id, Error::TooLarge(defaults::EVENT_MAX)),
            None => tracing::warn!(most = defaults::EVENT_MAX, "a message that is larger is passed over"),
        }
    }

    async fn take(&self, message: Incoming) {
        let envelope = |message: &[u8], take: &mut dyn FnMut(&Envelope<'_>)| {
            if let Ok(envelope) = Envelope::parse(message, defaults::JSON_DEPTH_MAX) {
                take(&envelope);
            }
        };
        match message {
            Incoming::Answer(id, message) => self.shared.calls.answer(id, message),
            Incoming::Progress(id, message) => self.shared.calls.progress(id, &message),
            Incoming::Notification(message) => envelope(&message, &mut |notification| {
                if let Some(method) = &notification.method {
                    let origin = self.questions.origin();
                    self.known.news.take(origin, method.as_str(), notification.params);
                }
            }),
            Incoming::ForClient(message) => self.questions.hear_notification(&message),
            Incoming::Withdrawal(message) => envelope(&message, &mut |told| self.questions.withdraw(told)),
            Incoming::Request(message) => {
                let mut heard = Heard::Nothing;
                envelope(&message, &mut |request| {
                    if let Some(id) = request.id.and_then(Id::from_raw) {
                        heard = self.questions.hear(None, id, request);
                    }
                });
                self.post.http.answer(&self.post.headers, &self.questions, heard).await;
            }
            Incoming::Junk(_) => {}
        }
    }
}
