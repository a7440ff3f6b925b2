//! One JSON-RPC message of a client: which era's rules it is under, and what they say of it.

use bytes::Bytes;
use http::StatusCode;

use super::answer::Answer;
use super::dispatch::dispatch;
use super::finished::Finished;
use super::line::{Caller, Line};
use super::message::{Asked, Message};
use super::modern::{Refusal, refusal};
use super::reply::without_session;
use super::request::Request;
use super::session::Session;
use super::told::{Counting, Told};
use super::visit::Visit;
use super::{get, legacy, listen, modern, own, session_lanes};
use crate::mcp::{Envelope, Era, Id, Kind, Members, MessageError, Method, Revision, RpcError, headers, notice};
use crate::metrics::Outcome;

/// The line to who sends a message.
#[derive(Clone, Copy)]
pub(super) struct Hearing<'a> {
    pub(super) line: &'a Line,
    /// Whether anything can be said on it before the answer.
    pub(super) takes_events: bool,
}

/// The client that sends a message, as far as the era's rules need to know it.
#[derive(Clone, Copy)]
pub(super) struct Client<'a> {
    pub(super) session: Option<&'a Session>,
    pub(super) revision: Revision,
    pub(super) hearing: Hearing<'a>,
}

/// How a message came.
pub(super) enum Came<'a> {
    Alone(Hearing<'a>),
    InBatchOf(Client<'a>),
}

/// Answers the message in `body`, as it was `read`, and counts it if it is a request.
pub(super) async fn answer(
    visit: &Visit,
    read: Result<Envelope<'_>, MessageError>,
    body: &Bytes,
    came: Came<'_>,
) -> Finished {
    let told = match &read {
        Err(error) => Told::malformed(visit, None, error),
        Ok(envelope) => match (Message::of(envelope, body), came) {
            (Err(error), _) => Told::malformed(visit, envelope.id.and_then(Id::from_raw), &error),
            (Ok(message), _) if visit.is_crowded && message.asked().is_some() => crowded_out(visit, &message),
            (Ok(message), Came::Alone(hearing)) => alone(visit, &message, hearing).await,
            (Ok(message), Came::InBatchOf(client)) => in_batch(visit, &message, client).await,
        },
    };
    told.counted(visit)
}

/// A request for which there is no room.
fn crowded_out(visit: &Visit, message: &Message<'_>) -> Told {
    let text = "as many requests are at work already as may be; wait for the answer to one of them";
    let refused = refusal(StatusCode::OK, RpcError::new(RpcError::INTERNAL, text));
    Told::refused(visit, message.asked().map(|asked| asked.id), &refused)
}

async fn in_batch(visit: &Visit, message: &Message<'_>, client: Client<'_>) -> Told {
    match message.asked() {
        Some(asked) if message.claims_modern() || message.is_handshake() => {
            let text = "a batch has neither initialize nor requests of later revisions in it";
            let error = RpcError::new(RpcError::INVALID_REQUEST, text);
            Told::refused(visit, Some(asked.id), &refusal(StatusCode::OK, error))
        }
        _ => in_session(visit, message, client).await,
    }
}

/// A message that came alone.
async fn alone(visit: &Visit, message: &Message<'_>, hearing: Hearing<'_>) -> Told {
    let asked = message.asked();
    let knows_modern = visit.channel.as_ref().is_none_or(|channel| channel.knows_modern());
    if knows_modern && (message.claims_modern() || visit.claims_modern()) {
        return match (asked, message.kind) {
            (Some(asked), _) => modern_request(visit, message, asked, hearing).await,
            (None, Kind::Notification { method }) if visit.channel.is_some() => {
                notified(visit, None, method, message.params()).await;
                Told::nothing()
            }
            // A POST has nothing to cancel: whoever does not want an answer any more closes its stream.
            (None, _) => Told::nothing(),
        };
    }
    if let (Some(asked), Some(_)) = (asked, visit.channel.as_ref().filter(|_| knows_modern))
        && asked.method == Method::Discover.as_str()
    {
        return undeclared_discover(visit, message, asked, hearing).await;
    }
    let admitted = legacy::admitted(visit.federation.protocol, message.params(), visit.spoken_headers());
    // On a channel, nothing but requests is answered.
    if let Err(error) = admitted.or_else(|error| match (asked, &visit.channel) {
        (None, Some(_)) => Ok(()),
        _ => Err(error),
    }) {
        return Told::refused(visit, asked.map(|asked| asked.id), &error);
    }
    if let Some(asked) = asked.filter(|_| message.is_handshake()) {
        return handshake(visit, message, asked, hearing).await;
    }
    let revision = match visit.revision() {
        Ok(revision) => revision,
        Err(error) => return Told::refused(visit, asked.map(|asked| asked.id), &error),
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
        session: session.as_deref(),
        revision: session.as_ref().map_or(revision, |session| session.revision),
        hearing,
    };
    in_session(visit, message, client).await
}

/// A message of a Legacy client, in a session or where there are none.
async fn in_session(visit: &Visit, message: &Message<'_>, client: Client<'_>) -> Told {
    if let (Some(channel), Some(session)) = (&visit.channel, client.session) {
        channel.hear(session, || get::hear_once(visit, session));
    }
    let asked = match message.kind {
        Kind::Request { id, method } => Asked { id, method },
        Kind::Notification { method } => {
            notified(visit, client.session, method, message.params()).await;
            return Told::nothing();
        }
        Kind::Response { id } => {
            if let (Some(id), Some(session)) = (id, client.session) {
                visit.shared.conversations.answered(session.id, id, message.body);
            }
            return Told::nothing();
        }
    };
    client.hearing.line.set_caller(Caller {
        session: client.session.map(|session| session.id),
        revision: client.revision,
    });
    let checked = message.readable().and_then(|()| {
        let method = legacy::method(asked.method)?;
        message.check_arguments(method, Era::Legacy)?;
        Ok(method)
    });
    match checked {
        Err(error) => Told::refused(visit, Some(asked.id), &error),
        Ok(method) => carry_out(visit, message, asked.id, method, client).await,
    }
}

async fn modern_request(visit: &Visit, message: &Message<'_>, asked: Asked<'_>, hearing: Hearing<'_>) -> Told {
    if let Some(channel) = &visit.channel {
        channel.heard_modern();
    }
    let checked = message.readable().and_then(|()| {
        let method = modern::check(
            visit.federation.protocol,
            asked.method,
            message.params(),
            message.meta(),
            visit.spoken_headers(),
        )?;
        message.check_arguments(method, Era::Modern)?;
        Ok(method)
    });
    let client = Client {
        session: None,
        revision: Revision::LATEST,
        hearing,
    };
    match checked {
        Err(error) => Told::refused(visit, Some(asked.id), &error),
        Ok(method @ Method::Listen) => {
            let (outcome, finished) = match listened(visit, asked, message, hearing).await {
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

async fn listened(
    visit: &Visit,
    asked: Asked<'_>,
    message: &Message<'_>,
    hearing: Hearing<'_>,
) -> Result<Finished, Refusal> {
    let (params, takes_events) = (message.params(), hearing.takes_events);
    match visit.caller() {
        None => listen::open(visit, None, asked.id, params, takes_events).await,
        Some(caller) => {
            let seen = Box::pin(own::for_listen(visit, &caller, params)).await;
            listen::open(&seen, Some(caller), asked.id, params, takes_events).await
        }
    }
}

/// A client on a channel that asks what is spoken here, without having said what it speaks itself.
async fn undeclared_discover(visit: &Visit, message: &Message<'_>, asked: Asked<'_>, hearing: Hearing<'_>) -> Told {
    let client = Client {
        session: None,
        revision: Revision::LATEST,
        hearing,
    };
    carry_out(visit, message, asked.id, Method::Discover, client).await
}

async fn handshake(visit: &Visit, message: &Message<'_>, asked: Asked<'_>, hearing: Hearing<'_>) -> Told {
    let checked = message
        .readable()
        .and_then(|()| legacy::negotiated(visit.federation.protocol, message.params()));
    let revision = match checked {
        Ok(revision) => revision,
        Err(error) => return Told::refused(visit, Some(asked.id), &error),
    };
    if let Some(channel) = &visit.channel {
        let opened = channel.open_session(&visit.federation, &visit.principal, revision, message.params());
        let (session, before) = match opened {
            Ok(opened) => opened,
            Err(error) => return Told::refused(visit, Some(asked.id), &error),
        };
        if let Some(before) = before {
            visit.end(before.id);
        }
        let client = Client {
            session: Some(&session),
            revision,
            hearing,
        };
        return carry_out(visit, message, asked.id, Method::Initialize, client).await;
    }
    let client = Client {
        session: None,
        revision,
        hearing,
    };
    let (sessions, federation) = (&visit.shared.sessions, &visit.federation);
    let method = Method::Initialize;
    let (principal, shows_all) = (&visit.principal, visit.shows_all);
    match legacy::open_session(sessions, federation, principal, revision, shows_all, message.params()) {
        Err(error) => Told {
            method: Some(method),
            outcome: Some(Outcome::Failed),
            finished: without_session(error),
        },
        Ok(token) => {
            let mut told = carry_out(visit, message, asked.id, method, client).await;
            if let Some(token) = token {
                told.finished.headers.insert(headers::SESSION_ID.clone(), token);
            }
            told
        }
    }
}

/// Does what is asked, until it is done or the session cancels it.
async fn carry_out(visit: &Visit, message: &Message<'_>, id: Id<'_>, method: Method, client: Client<'_>) -> Told {
    let none = Members::default();
    let viewer = visit.viewer(client.session, message.meta());
    let request = Request {
        id,
        method,
        params: message.params().unwrap_or(&none),
        meta: message.meta(),
        revision: client.revision,
        body: message.body,
        principal: &visit.principal,
        audience: viewer.audience(&visit.federation),
        viewer: &viewer,
        fleet: &visit.shared.fleet,
        session: client.session,
        intermediate: Some(client.hearing.line).filter(|_| client.hearing.takes_events && visit.may_stream()),
        headers: visit.spoken_headers(),
        conversations: &visit.shared.conversations,
    };
    client.hearing.line.set_method(method);
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
    let mut dispatched = Box::pin(answered(visit, request));
    tokio::select! {
        biased;
        answer = &mut dispatched => {
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

/// The answer to `request`, by the federation as whoever sends it sees it.
async fn answered(visit: &Visit, request: Request<'_>) -> Answer {
    let seen = match request.viewer.caller() {
        None => None,
        Some(caller) => Some(Box::pin(own::federation(visit, caller, request)).await),
    };
    dispatch(seen.as_ref().unwrap_or(&visit.federation), request).await
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
        (notice::ROOTS_CHANGED, Some(session)) => session_lanes::roots_changed(&visit.seen(), session.id).await,
        _ => {}
    }
}
