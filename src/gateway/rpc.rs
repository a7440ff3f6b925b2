//! One JSON-RPC message of a client: which era's rules it is under, and what they say of it.

use bytes::Bytes;
use http::StatusCode;

use super::bridge::session_lanes;
use super::dispatch::{self, dispatch};
use super::finished::Finished;
use super::line::{Caller, Line};
use super::modern::{Refusal, refusal};
use super::old_streams::OldStream;
use super::reply::without_session;
use super::session::Session;
use super::viewer::Viewer;
use super::visit::Visit;
use super::{batch, legacy, listen, modern};
use crate::defaults;
use crate::mcp::meta::VersionClaim;
use crate::mcp::{Envelope, Era, Id, Kind, Members, MessageError, Method, Revision, RpcError, headers, notice};
use crate::metrics::Outcome;

/// The client that sends a message, as far as the era's rules need to know it.
#[derive(Clone, Copy)]
pub(super) struct Client<'a> {
    pub(super) session: Option<&'a Session>,
    pub(super) revision: Revision,
    /// The line to it.
    pub(super) line: &'a Line,
    pub(super) takes_events: bool,
}

/// What a message came to, and how it is counted, if it is a request.
struct Told {
    method: Option<Method>,
    outcome: Option<Outcome>,
    finished: Finished,
}

/// A message with those of its parts that are read.
#[derive(Clone, Copy)]
struct Message<'a> {
    kind: Kind<'a>,
    params: Option<&'a Members<'a>>,
    meta: Option<&'a Members<'a>>,
    /// Whether it has parameters that cannot be read.
    is_spoilt: bool,
    /// All of it.
    body: &'a Bytes,
}

/// A request in it.
#[derive(Clone, Copy)]
struct Asked<'a> {
    id: Id<'a>,
    method: &'a str,
}

/// Answers what came as `body`, a message or a batch of them.
pub(super) async fn work(visit: Visit, body: Bytes, line: Line, takes_events: bool) -> Finished {
    match answer(&visit, &body, &line, takes_events).await {
        Some(finished) => finished,
        None => batch::answer(&visit, &body, &line).await,
    }
}

/// Answers the message in `body`, and counts it if it is a request; what is said before the answer goes to `line`.
/// `None` where it is no message but a batch, which some Legacy clients may send.
async fn answer(visit: &Visit, body: &Bytes, line: &Line, takes_events: bool) -> Option<Finished> {
    let told = match Envelope::parse(body, defaults::JSON_DEPTH_MAX) {
        Err(MessageError::Batch) if !visit.claims_modern() => {
            return None;
        }
        Err(error) => malformed(visit, None, &error),
        Ok(envelope) => match envelope.kind() {
            Err(error) => malformed(visit, envelope.id.and_then(Id::from_raw), &error),
            Ok(kind) => {
                let (params, meta) = parts(&envelope);
                let message = Message::new(kind, &envelope, params.as_ref(), meta.as_ref(), body);
                single(visit, message, line, takes_events).await
            }
        },
    };
    Some(counted(visit, told))
}

/// Answers one message of a batch from `client`; `None` where it asks for nothing.
pub(super) async fn answer_part(visit: &Visit, part: &Bytes, client: Client<'_>) -> Option<Finished> {
    let told = match Envelope::parse(part, defaults::JSON_DEPTH_MAX) {
        Err(error) => malformed(visit, None, &error),
        Ok(envelope) => match envelope.kind() {
            Err(error) => malformed(visit, envelope.id.and_then(Id::from_raw), &error),
            Ok(kind) => {
                let (params, meta) = parts(&envelope);
                let message = Message::new(kind, &envelope, params.as_ref(), meta.as_ref(), part);
                match message.asked() {
                    None => {
                        in_session(visit, message, client).await;
                        return None;
                    }
                    Some(asked) if message.claims_modern() || message.is_handshake() => {
                        let text = "a batch has neither initialize nor requests of later revisions in it";
                        let error = RpcError::new(RpcError::INVALID_REQUEST, text);
                        refused(visit, Some(asked.id), &refusal(StatusCode::OK, error))
                    }
                    Some(_) => in_session(visit, message, client).await,
                }
            }
        },
    };
    Some(counted(visit, told))
}

/// Answers a message that came for `stream`, in the transport of 2024-11-05; what is said before goes to its line.
pub(super) async fn answer_on_stream(visit: &Visit, body: &Bytes, stream: &OldStream) -> Finished {
    let told = match Envelope::parse(body, defaults::JSON_DEPTH_MAX) {
        Err(error) => malformed(visit, None, &error),
        Ok(envelope) => match envelope.kind() {
            Err(error) => malformed(visit, envelope.id.and_then(Id::from_raw), &error),
            Ok(kind) => {
                let (params, meta) = parts(&envelope);
                let message = Message::new(kind, &envelope, params.as_ref(), meta.as_ref(), body);
                on_stream(visit, message, stream).await
            }
        },
    };
    counted(visit, told)
}

async fn on_stream(visit: &Visit, message: Message<'_>, stream: &OldStream) -> Told {
    let client = |session, revision| Client {
        session,
        revision,
        line: &stream.line,
        takes_events: true,
    };
    let Some(asked) = message.asked().filter(|_| message.is_handshake()) else {
        let session = stream.session();
        let revision = session.map_or(Revision::V2024_11_05, |session| session.revision);
        return in_session(visit, message, client(session, revision)).await;
    };
    let checked = message
        .readable()
        .and_then(|()| legacy::negotiated(visit.federation.protocol, message.params));
    match checked {
        Err(error) => refused(visit, Some(asked.id), &error),
        Ok(revision) => {
            let (federation, principal) = (&visit.federation, &visit.principal);
            let session = legacy::opening(federation, principal, revision, message.params, |opening| {
                Session::of_stream(stream.id, &opening)
            });
            stream.begin(session);
            carry_out(visit, message, asked.id, Method::Initialize, client(None, revision)).await
        }
    }
}

/// A message that came alone.
async fn single(visit: &Visit, message: Message<'_>, line: &Line, takes_events: bool) -> Told {
    let asked = message.asked();
    if message.claims_modern() || visit.claims_modern() {
        return match (asked, message.kind) {
            (Some(asked), _) => modern_request(visit, message, asked, line, takes_events).await,
            (None, Kind::Notification { method }) if visit.channel.is_some() => {
                notified(visit, None, method, message.params).await;
                Told::nothing()
            }
            // A POST has nothing to cancel: whoever does not want an answer any more closes its stream.
            (None, _) => Told::nothing(),
        };
    }
    if let (Some(asked), Some(_)) = (asked, &visit.channel)
        && asked.method == Method::Discover.as_str()
    {
        return undeclared_discover(visit, message, asked, line).await;
    }
    let admitted = legacy::admitted(visit.federation.protocol, message.params, visit.spoken_headers());
    // On a channel, nothing but requests is answered.
    if let Err(error) = admitted.or_else(|error| match (asked, &visit.channel) {
        (None, Some(_)) => Ok(()),
        _ => Err(error),
    }) {
        return refused(visit, asked.map(|asked| asked.id), &error);
    }
    if let Some(asked) = asked.filter(|_| message.is_handshake()) {
        return handshake(visit, message, asked, line).await;
    }
    let revision = match visit.revision() {
        Ok(revision) => revision,
        Err(error) => return refused(visit, asked.map(|asked| asked.id), &error),
    };
    let session = match visit.session() {
        Ok(session) => session,
        Err(error) => {
            return Told {
                method: None,
                outcome: asked.map(|_| Outcome::Refused),
                finished: without_session(error),
            };
        }
    };
    let client = Client {
        session: session.as_ref(),
        revision: session.as_ref().map_or(revision, |session| session.revision),
        line,
        takes_events,
    };
    in_session(visit, message, client).await
}

/// A message of a Legacy client, in a session or where there are none.
async fn in_session(visit: &Visit, message: Message<'_>, client: Client<'_>) -> Told {
    if let (Some(channel), Some(session)) = (&visit.channel, client.session) {
        channel.hear(visit, session);
    }
    let asked = match message.kind {
        Kind::Request { id, method } => Asked { id, method },
        Kind::Notification { method } => {
            notified(visit, client.session, method, message.params).await;
            return Told::nothing();
        }
        Kind::Response { id } => {
            if let (Some(id), Some(session)) = (id, client.session) {
                visit.shared.bridge.answered(session.id, id, message.body);
            }
            return Told::nothing();
        }
    };
    client.line.set_caller(Caller {
        session: client.session.map(|session| session.id),
        revision: client.revision,
    });
    let checked = message.readable().and_then(|()| {
        let method = legacy::method(asked.method)?;
        check_arguments(method, message.params, Era::Legacy)?;
        Ok(method)
    });
    match checked {
        Err(error) => refused(visit, Some(asked.id), &error),
        Ok(method) => carry_out(visit, message, asked.id, method, client).await,
    }
}

async fn modern_request(
    visit: &Visit,
    message: Message<'_>,
    asked: Asked<'_>,
    line: &Line,
    takes_events: bool,
) -> Told {
    if let Some(channel) = &visit.channel {
        channel.heard_modern();
    }
    let checked = message.readable().and_then(|()| {
        let method = modern::check(
            visit.federation.protocol,
            asked.method,
            message.params,
            message.meta,
            visit.spoken_headers(),
        )?;
        check_arguments(method, message.params, Era::Modern)?;
        Ok(method)
    });
    let client = Client {
        session: None,
        revision: Revision::LATEST,
        line,
        takes_events,
    };
    match checked {
        Err(error) => refused(visit, Some(asked.id), &error),
        Ok(method @ Method::Listen) => {
            let (outcome, finished) = match listen::open(visit, asked.id, message.params, takes_events).await {
                Ok(finished) => (Outcome::Ok, finished),
                Err(error) => (Outcome::Refused, visit.refuse(Some(asked.id), &error)),
            };
            Told {
                method: Some(method),
                outcome: Some(outcome),
                finished,
            }
        }
        Ok(method) => carry_out(visit, message, asked.id, method, client).await,
    }
}

/// A client on a channel that asks what is spoken here, without having said what it speaks itself.
async fn undeclared_discover(visit: &Visit, message: Message<'_>, asked: Asked<'_>, line: &Line) -> Told {
    let client = Client {
        session: None,
        revision: Revision::LATEST,
        line,
        takes_events: false,
    };
    carry_out(visit, message, asked.id, Method::Discover, client).await
}

async fn handshake(visit: &Visit, message: Message<'_>, asked: Asked<'_>, line: &Line) -> Told {
    let checked = message
        .readable()
        .and_then(|()| legacy::negotiated(visit.federation.protocol, message.params));
    let revision = match checked {
        Ok(revision) => revision,
        Err(error) => return refused(visit, Some(asked.id), &error),
    };
    if let Some(channel) = &visit.channel {
        let session = match channel.open_session(visit, revision, message.params) {
            Ok(session) => session,
            Err(error) => return refused(visit, Some(asked.id), &error),
        };
        let client = Client {
            session: Some(&session),
            revision,
            line,
            takes_events: false,
        };
        return carry_out(visit, message, asked.id, Method::Initialize, client).await;
    }
    let client = Client {
        session: None,
        revision,
        line,
        takes_events: false,
    };
    let (sessions, federation) = (&visit.shared.sessions, &visit.federation);
    let method = Method::Initialize;
    match legacy::open_session(sessions, federation, &visit.principal, revision, message.params) {
        Err(error) => Told {
            method: Some(method),
            outcome: Some(Outcome::Failed),
            finished: without_session(error),
        },
        Ok(token) => {
            let mut told = carry_out(visit, message, asked.id, method, client).await;
            if let Some(token) = token {
                told.finished.headers.insert(headers::SESSION_ID, token);
            }
            told
        }
    }
}

/// Does what is asked, until it is done or the session cancels it.
async fn carry_out(visit: &Visit, message: Message<'_>, id: Id<'_>, method: Method, client: Client<'_>) -> Told {
    let none = Members::default();
    let request = dispatch::Request {
        id,
        method,
        params: message.params.unwrap_or(&none),
        meta: message.meta,
        revision: client.revision,
        body: message.body,
        principal: &visit.principal,
        audience: Viewer::of(visit).audience(&visit.federation),
        session: client.session,
        intermediate: client.takes_events.then_some(client.line),
        headers: visit.spoken_headers(),
        bridge: &visit.shared.bridge,
    };
    let begun = visit.begin(client.session, method, id);
    let withdrawn = async {
        match &begun {
            Some(begun) => begun.withdrawn().await,
            None => std::future::pending().await,
        }
    };
    let mut counting = Counting {
        visit,
        method,
        is_over: false,
    };
    tokio::select! {
        biased;
        answer = dispatch(&visit.federation, request) => {
            counting.is_over = true;
            Told {
                method: Some(method),
                outcome: Some(answer.outcome),
                finished: Finished::message(answer.status, answer.body),
            }
        }
        () = withdrawn => Told::nothing(),
    }
}

/// Counts a request that comes to no end.
struct Counting<'a> {
    visit: &'a Visit,
    method: Method,
    is_over: bool,
}

impl Drop for Counting<'_> {
    fn drop(&mut self) {
        if !self.is_over {
            let elapsed = self.visit.started.elapsed();
            let metrics = &self.visit.federation.metrics;
            metrics.request(Some(self.method), Outcome::Cancelled, elapsed);
        }
    }
}

/// What a client tells. Of its requests at work it may cancel those of its session, or of its channel (2025-11-25,
/// cancellation).
async fn notified(visit: &Visit, session: Option<&Session>, method: &str, params: Option<&Members<'_>>) {
    match (method, session) {
        (notice::CANCELLED, _) => {
            if let Some(id) = params.and_then(|params| params.get("requestId")) {
                visit.cancel(session, id.get());
            }
        }
        (notice::ROOTS_CHANGED, Some(session)) => session_lanes::roots_changed(&visit.federation, session.id).await,
        _ => {}
    }
}

impl<'a> Message<'a> {
    fn new(
        kind: Kind<'a>,
        envelope: &Envelope<'_>,
        params: Option<&'a Members<'a>>,
        meta: Option<&'a Members<'a>>,
        body: &'a Bytes,
    ) -> Self {
        Self {
            kind,
            params,
            meta,
            is_spoilt: envelope.params.is_some() && params.is_none(),
            body,
        }
    }

    fn asked(&self) -> Option<Asked<'a>> {
        match self.kind {
            Kind::Request { id, method } => Some(Asked { id, method }),
            Kind::Notification { .. } | Kind::Response { .. } => None,
        }
    }

    /// Whether it says itself that it is under the Modern rules.
    fn claims_modern(&self) -> bool {
        VersionClaim::of(self.meta) != VersionClaim::None
    }

    fn is_handshake(&self) -> bool {
        self.asked()
            .is_some_and(|asked| asked.method == Method::Initialize.as_str())
    }

    fn readable(&self) -> Result<(), Refusal> {
        if self.is_spoilt {
            let error = RpcError::new(RpcError::INVALID_PARAMS, "params names a member twice");
            return Err(refusal(StatusCode::BAD_REQUEST, error));
        }
        Ok(())
    }
}

/// The parameters of a message, and the `_meta` in them.
fn parts<'a>(envelope: &Envelope<'a>) -> (Option<Members<'a>>, Option<Members<'a>>) {
    let params = envelope.params.and_then(|raw| Members::parse(raw.get()));
    let meta = params
        .as_ref()
        .and_then(|params| params.get("_meta"))
        .and_then(|raw| Members::parse(raw.get()));
    (params, meta)
}

/// `arguments` is an object, if it is there.
fn check_arguments(method: Method, params: Option<&Members<'_>>, era: Era) -> Result<(), Refusal> {
    if !matches!(method, Method::ToolsCall | Method::PromptsGet) {
        return Ok(());
    }
    let arguments = params.and_then(|members| members.get("arguments"));
    match arguments.map(serde_json::value::RawValue::get) {
        None | Some("null") => Ok(()),
        Some(text) if text.starts_with('{') => Ok(()),
        Some(_) => {
            let status = if era == Era::Modern {
                StatusCode::BAD_REQUEST
            } else {
                StatusCode::OK
            };
            Err(refusal(
                status,
                RpcError::new(RpcError::INVALID_PARAMS, "params.arguments must be an object"),
            ))
        }
    }
}

impl Told {
    fn nothing() -> Self {
        Self {
            method: None,
            outcome: None,
            finished: Finished::nothing(StatusCode::ACCEPTED),
        }
    }
}

fn counted(visit: &Visit, told: Told) -> Finished {
    if let Some(outcome) = told.outcome {
        let elapsed = visit.started.elapsed();
        visit.federation.metrics.request(told.method, outcome, elapsed);
    }
    told.finished
}

fn refused(visit: &Visit, id: Option<Id<'_>>, refused: &Refusal) -> Told {
    Told {
        method: None,
        outcome: Some(Outcome::Refused),
        finished: visit.refuse(id, refused),
    }
}

fn malformed(visit: &Visit, id: Option<Id<'_>>, error: &MessageError) -> Told {
    let refusal = refusal(malformed_status(visit, error), error.to_rpc_error());
    refused(visit, id, &refusal)
}

/// Legacy clients are told of malformed messages with 200, as of every JSON-RPC error; batches are refused with 400
/// where they are not known, since nobody can tell which of their parts was meant.
fn malformed_status(visit: &Visit, error: &MessageError) -> StatusCode {
    match error {
        MessageError::Batch => StatusCode::BAD_REQUEST,
        _ if visit.claims_modern() => StatusCode::BAD_REQUEST,
        _ => StatusCode::OK,
    }
}
