//! One JSON-RPC message of a client: which era's rules it is under, and what they say of it.

use bytes::Bytes;
use http::{HeaderMap, StatusCode};
use tokio::sync::mpsc;

use super::dispatch::{self, dispatch};
use super::modern::{Refusal, refusal};
use super::post::Post;
use super::reply::{refuse, without_session};
use super::stream::Finished;
use super::{legacy, modern};
use crate::defaults;
use crate::mcp::meta::VersionClaim;
use crate::mcp::{Envelope, Era, Id, Kind, Members, MessageError, Method, Revision, RpcError, headers};
use crate::metrics::Outcome;

/// Answers the message in `body`; also tells how to count it, if it is a request.
pub(super) async fn answer(
    post: &Post,
    body: &Bytes,
    intermediate: Option<&mpsc::Sender<Bytes>>,
) -> (Option<Method>, Option<Outcome>, Finished) {
    let Post {
        federation,
        sessions,
        bridge,
        principal,
        headers,
        ..
    } = post;
    let refused = |id: Option<Id<'_>>, refused: &Refusal| (None, Some(Outcome::Refused), refuse(headers, id, refused));
    let envelope = match Envelope::parse(body, defaults::JSON_DEPTH_MAX) {
        Ok(envelope) => envelope,
        Err(error) => return refused(None, &refusal(malformed_status(headers, &error), error.to_rpc_error())),
    };
    let kind = match envelope.kind() {
        Ok(kind) => kind,
        Err(error) => {
            let id = envelope.id.and_then(Id::from_raw);
            return refused(id, &refusal(malformed_status(headers, &error), error.to_rpc_error()));
        }
    };
    let params = envelope.params.and_then(|raw| Members::parse(raw.get()));
    let meta = params
        .as_ref()
        .and_then(|p| p.get("_meta"))
        .and_then(|raw| Members::parse(raw.get()));
    let (params, meta) = (params.as_ref(), meta.as_ref());
    let is_modern = VersionClaim::of(meta) != VersionClaim::None || modern::claimed_by_headers(headers);
    let (request, is_handshake) = match kind {
        Kind::Request { id, method } => (Some((id, method)), !is_modern && method == Method::Initialize.as_str()),
        Kind::Notification { .. } | Kind::Response { .. } => (None, false),
    };
    if !is_modern && let Err(error) = legacy::admitted(federation.protocol, params, headers) {
        return refused(request.map(|(id, _)| id), &error);
    }
    let mut session = None;
    let mut revision = Revision::LATEST;
    if !is_modern && !is_handshake {
        revision = match legacy::revision(headers) {
            Ok(revision) => revision,
            Err(error) => return refused(request.map(|(id, _)| id), &error),
        };
        session = match legacy::session(sessions, federation, principal, headers) {
            Ok(session) => session,
            Err(error) => return (None, request.map(|_| Outcome::Refused), without_session(error)),
        };
    }
    if let (Kind::Response { id: Some(id) }, Some(session)) = (kind, &session) {
        bridge.answered(session.id, id, body);
    }
    let Some((id, name)) = request else {
        return (None, None, Finished::message(StatusCode::ACCEPTED, Vec::new()));
    };
    if envelope.params.is_some() && params.is_none() {
        let error = RpcError::new(RpcError::INVALID_PARAMS, "params names a member twice");
        return refused(Some(id), &refusal(StatusCode::BAD_REQUEST, error));
    }
    let checked = if is_modern {
        modern::check(federation.protocol, name, params, meta, headers).map(|method| (method, revision))
    } else if is_handshake {
        legacy::negotiated(federation.protocol, params).map(|revision| (Method::Initialize, revision))
    } else {
        let revision = session.as_ref().map_or(revision, |session| session.revision);
        legacy::method(name).map(|method| (method, revision))
    };
    let checked = checked.and_then(|(method, revision)| {
        check_arguments(method, params, revision.era())?;
        Ok((method, revision))
    });
    let (method, revision) = match checked {
        Ok(checked) => checked,
        Err(error) => return refused(Some(id), &error),
    };
    let none = Members::default();
    let request = dispatch::Request {
        id,
        method,
        params: params.unwrap_or(&none),
        meta,
        revision,
        body,
        principal,
        session: session.as_ref(),
        intermediate,
        headers: Some(headers),
        bridge,
    };
    let answer = dispatch(federation, request).await;
    let mut finished = Finished::message(answer.status, answer.body);
    if is_handshake {
        match legacy::open_session(sessions, federation, principal, revision, params) {
            Ok(None) => {}
            Ok(Some(token)) => drop(finished.headers.insert(headers::SESSION_ID, token)),
            Err(error) => return (Some(method), Some(Outcome::Failed), without_session(error)),
        }
    }
    (Some(method), Some(answer.outcome), finished)
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

/// Legacy clients are told of malformed messages with 200, as of every JSON-RPC error; batches are refused with 400
/// by both eras, since nobody can tell which of their parts was meant.
fn malformed_status(headers: &HeaderMap, error: &MessageError) -> StatusCode {
    match error {
        MessageError::Batch => StatusCode::BAD_REQUEST,
        _ if modern::claimed_by_headers(headers) => StatusCode::BAD_REQUEST,
        _ => StatusCode::OK,
    }
}
