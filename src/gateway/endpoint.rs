//! One HTTP request, one answer: the way from a path to a federation, the limits, the choice of era, and the one
//! place where errors become statuses.

use std::future::ready;
use std::sync::Arc;

use arc_swap::ArcSwap;
use bytes::Bytes;
use http::header::{self, HeaderName, HeaderValue};
use http::{HeaderMap, Method as HttpMethod, Request, Response, StatusCode};
use http_body_util::Full;
use hyper::body::Incoming;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep, timeout};

use super::access::{self, AccessError, Principal};
use super::bridge::Bridge;
use super::dispatch::{self, dispatch};
use super::modern::{Refusal, refusal};
use super::origin::{self, Denied};
use super::session::{SessionError, Sessions};
use super::stream::{EventStream, Finished, ReplyBody, Work};
use super::{legacy, modern};
use crate::body::{self, BodyError};
use crate::defaults;
use crate::fleet::{Federation, Fleet};
use crate::mcp::meta::VersionClaim;
use crate::mcp::{Envelope, Era, Id, Kind, Members, Method, Revision, RpcError, headers, message};
use crate::metrics::Outcome;

/// Answers requests from the fleet's current snapshot.
#[derive(Clone, Debug)]
pub struct Endpoint {
    fleet: Arc<ArcSwap<Fleet>>,
    sessions: Arc<Sessions>,
    bridge: Arc<Bridge>,
    loopback: bool,
}

/// Where a message goes, who sends it, and its headers.
struct Post {
    federation: Arc<Federation>,
    sessions: Arc<Sessions>,
    bridge: Arc<Bridge>,
    principal: Principal,
    headers: HeaderMap,
    started: Instant,
}

/// What is sent back.
pub type Reply = Response<ReplyBody>;

impl Endpoint {
    /// An endpoint over `fleet`, for clients with `sessions`; `loopback` tells that it listens on a loopback address.
    pub fn new(fleet: Arc<ArcSwap<Fleet>>, sessions: Arc<Sessions>, loopback: bool) -> Self {
        let bridge = Arc::new(Bridge::new(Arc::clone(&sessions)));
        Self {
            fleet,
            sessions,
            bridge,
            loopback,
        }
    }

    /// Answers one request.
    pub async fn answer(&self, request: Request<Incoming>) -> Reply {
        let (parts, body) = request.into_parts();
        let origin = parts.headers.get(header::ORIGIN).cloned();
        let mut reply = match origin::check(&parts.uri, &parts.headers, self.loopback) {
            Err(denied) => deny(denied),
            Ok(()) => self.route(parts, body).await,
        };
        if let Some(origin) = origin.filter(|_| reply.status() != StatusCode::FORBIDDEN) {
            let headers = reply.headers_mut();
            headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin);
            headers.insert(
                header::ACCESS_CONTROL_EXPOSE_HEADERS,
                HeaderValue::from_static("Mcp-Session-Id, WWW-Authenticate"),
            );
            headers.append(header::VARY, HeaderValue::from_static("Origin"));
        }
        reply
    }

    async fn route(&self, parts: http::request::Parts, body: Incoming) -> Reply {
        let fleet = self.fleet.load_full();
        let Some(federation) = find(&fleet, parts.uri.path()) else {
            return plain(
                StatusCode::NOT_FOUND,
                "no federation is served here; endpoints are /NAMESPACE/NAME/mcp\n",
            );
        };
        if parts.method == HttpMethod::OPTIONS {
            return preflight(&parts.headers);
        }
        let started = Instant::now();
        let principal = match access::admit(&federation.access, &parts.headers) {
            Ok(principal) => principal,
            Err(error) => {
                tracing::debug!(federation = federation.name, reason = error.reason(), "not let in");
                federation.metrics.request(None, Outcome::Refused, started.elapsed());
                return keep_out(&parts.headers, error);
            }
        };
        let post = Post {
            federation: Arc::clone(federation),
            sessions: Arc::clone(&self.sessions),
            bridge: Arc::clone(&self.bridge),
            principal,
            headers: parts.headers,
            started,
        };
        match parts.method {
            HttpMethod::POST => answer_post(post, body).await,
            HttpMethod::DELETE if federation.sessions.enabled => end_session(&post),
            _ => not_allowed(federation),
        }
    }
}

/// The federation behind `/NAMESPACE/NAME/mcp`, or the one behind `/mcp`.
fn find<'f>(fleet: &'f Fleet, path: &str) -> Option<&'f Arc<Federation>> {
    let name = path.strip_suffix("/mcp")?;
    match name.strip_prefix('/') {
        None => fleet.default_federation(),
        Some(name) => fleet.federation(name),
    }
}

async fn answer_post(post: Post, body: Incoming) -> Reply {
    if !is_json(&post.headers) {
        return plain(
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            "Content-Type must be application/json\n",
        );
    }
    if !accepts(&post.headers, &["application/json", "application/*", "*/*"]) {
        return plain(
            StatusCode::NOT_ACCEPTABLE,
            "Accept must list application/json (and text/event-stream)\n",
        );
    }
    let body = match timeout(defaults::BODY_TIMEOUT, read_body(body))
        .await
        .unwrap_or_else(|_| Err(too_slow()))
    {
        Ok(body) => body,
        Err(refused) => {
            let elapsed = post.started.elapsed();
            post.federation.metrics.request(None, Outcome::Refused, elapsed);
            return whole(refuse(&post.headers, None, &refused));
        }
    };
    // Streams must be asked for by name; who takes just anything may not be able to read one.
    if !post.headers.contains_key(header::ACCEPT) || !accepts(&post.headers, &["text/event-stream"]) {
        return whole(work(post, body, None).await);
    }
    let (out, mut intermediate) = mpsc::channel(defaults::INTERMEDIATE_MAX);
    let mut work: Work = Box::pin(work(post, body, Some(out)));
    tokio::select! {
        biased;
        finished = &mut work => match intermediate.try_recv() {
            Ok(first) => events(EventStream::new(Box::pin(ready(finished)), intermediate, Some(first))),
            Err(_) => whole(finished),
        },
        Some(first) = intermediate.recv() => events(EventStream::new(work, intermediate, Some(first))),
        () = sleep(defaults::STREAM_DELAY) => events(EventStream::new(work, intermediate, None)),
    }
}

/// Answers the message in `body`, and counts it if it is a request.
async fn work(post: Post, body: Bytes, intermediate: Option<mpsc::Sender<Bytes>>) -> Finished {
    let (method, outcome, finished) = message(&post, &body, intermediate.as_ref()).await;
    if let Some(outcome) = outcome {
        post.federation.metrics.request(method, outcome, post.started.elapsed());
    }
    finished
}

/// Answers the message in `body`; also tells how to count it, if it is a request.
async fn message(
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
        modern::check(name, params, meta, headers).map(|method| (method, revision))
    } else if is_handshake {
        legacy::negotiated(params).map(|revision| (Method::Initialize, revision))
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

/// Ends the session that a DELETE names.
fn end_session(post: &Post) -> Reply {
    if let Err(error) = legacy::revision(&post.headers) {
        return whole(refuse(&post.headers, None, &error));
    }
    match legacy::session(&post.sessions, &post.federation, &post.principal, &post.headers) {
        Ok(session) => {
            if let Some(session) = session {
                post.sessions.end(&session, legacy::now());
            }
            whole(Finished::message(StatusCode::OK, Vec::new()))
        }
        Err(error) => whole(without_session(error)),
    }
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
fn malformed_status(headers: &HeaderMap, error: &crate::mcp::MessageError) -> StatusCode {
    match error {
        crate::mcp::MessageError::Batch => StatusCode::BAD_REQUEST,
        _ if modern::claimed_by_headers(headers) => StatusCode::BAD_REQUEST,
        _ => StatusCode::OK,
    }
}

async fn read_body(body: Incoming) -> Result<Bytes, Refusal> {
    body::read(body, defaults::REQUEST_BODY_MAX)
        .await
        .map_err(|error| match error {
            BodyError::TooLarge(_) => refusal(
                StatusCode::PAYLOAD_TOO_LARGE,
                RpcError::new(RpcError::INVALID_REQUEST, error.to_string()),
            ),
            BodyError::Broken(_) => refusal(
                StatusCode::BAD_REQUEST,
                RpcError::new(RpcError::PARSE, "The request's body ended early"),
            ),
        })
}

fn too_slow() -> Refusal {
    let message = format!("The request's body did not arrive within {:?}", defaults::BODY_TIMEOUT);
    refusal(
        StatusCode::REQUEST_TIMEOUT,
        RpcError::new(RpcError::INVALID_REQUEST, message),
    )
}

fn is_json(headers: &HeaderMap) -> bool {
    let value = headers
        .get(header::CONTENT_TYPE)
        .and_then(|v| v.to_str().ok())
        .unwrap_or_default();
    value
        .split(';')
        .next()
        .unwrap_or_default()
        .trim()
        .eq_ignore_ascii_case("application/json")
}

/// Whether one of `wanted` is acceptable. Clients that name nothing take anything.
fn accepts(headers: &HeaderMap, wanted: &[&str]) -> bool {
    let mut values = headers.get_all(header::ACCEPT).iter().peekable();
    if values.peek().is_none() {
        return true;
    }
    values
        .filter_map(|v| v.to_str().ok())
        .flat_map(|v| v.split(','))
        .any(|range| {
            let mut parts = range.split(';');
            let essence = parts.next().unwrap_or_default().trim();
            let weight = parts
                .find_map(|p| p.trim().strip_prefix("q="))
                .map_or(Ok(1.0), str::parse::<f32>);
            weight.is_ok_and(|q| q > 0.0) && wanted.iter().any(|known| essence.eq_ignore_ascii_case(known))
        })
}

fn refuse(headers: &HeaderMap, id: Option<Id<'_>>, refused: &Refusal) -> Finished {
    let null = (!modern::claimed_by_headers(headers) && legacy::wants_null_id(headers)).then_some("null");
    let message = message::error_response(id.map(Id::as_json).or(null), &refused.error.to_json());
    Finished::message(refused.status, message)
}

/// The answer to a client that has no session where it needs one: what clients look at is the status.
fn without_session(error: SessionError) -> Finished {
    tracing::debug!(reason = error.reason(), "no session");
    let status = match error {
        SessionError::Missing => StatusCode::BAD_REQUEST,
        SessionError::NotFound => StatusCode::NOT_FOUND,
        SessionError::NotReady => StatusCode::SERVICE_UNAVAILABLE,
        SessionError::Failed => StatusCode::INTERNAL_SERVER_ERROR,
    };
    let mut finished = Finished::text(status, error.to_string());
    if error == SessionError::NotReady {
        finished
            .headers
            .insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
    }
    finished
}

/// The answer to a request that is not let in (RFC 6750 section 3).
fn keep_out(headers: &HeaderMap, error: AccessError) -> Reply {
    let (status, challenge) = match error {
        AccessError::Missing => (StatusCode::UNAUTHORIZED, Some("Bearer")),
        AccessError::Unknown => (StatusCode::UNAUTHORIZED, Some("Bearer error=\"invalid_token\"")),
        AccessError::Closed => (StatusCode::SERVICE_UNAVAILABLE, None),
    };
    let error = RpcError::new(RpcError::INVALID_REQUEST, error.to_string());
    let mut reply = whole(refuse(headers, None, &refusal(status, error)));
    if let Some(challenge) = challenge {
        reply
            .headers_mut()
            .insert(header::WWW_AUTHENTICATE, HeaderValue::from_static(challenge));
    }
    reply
}

/// The answer to an HTTP method that is not served.
fn not_allowed(federation: &Federation) -> Reply {
    let (text, allowed) = if federation.sessions.enabled {
        ("only POST and DELETE are served here\n", "POST, DELETE, OPTIONS")
    } else {
        ("only POST is served here\n", "POST, OPTIONS")
    };
    let mut reply = plain(StatusCode::METHOD_NOT_ALLOWED, text);
    reply
        .headers_mut()
        .insert(header::ALLOW, HeaderValue::from_static(allowed));
    reply
}

/// An answer that is known as a whole.
fn whole(finished: Finished) -> Reply {
    let is_empty = finished.message.is_empty();
    let mut reply = Response::new(ReplyBody::Whole(Full::new(Bytes::from(finished.message))));
    *reply.status_mut() = finished.status;
    *reply.headers_mut() = finished.headers;
    if !is_empty {
        let headers = reply.headers_mut();
        headers
            .entry(header::CONTENT_TYPE)
            .or_insert(HeaderValue::from_static("application/json; charset=utf-8"));
        headers.insert(
            header::CACHE_CONTROL,
            HeaderValue::from_static("no-cache, no-store, must-revalidate"),
        );
    }
    reply
}

/// An answer that comes in events.
fn events(stream: EventStream) -> Reply {
    let mut reply = Response::new(ReplyBody::Events(stream));
    let headers = reply.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert(
        header::CACHE_CONTROL,
        HeaderValue::from_static("no-cache, no-transform"),
    );
    headers.insert(
        HeaderName::from_static("x-accel-buffering"),
        HeaderValue::from_static("no"),
    );
    reply
}

fn plain(status: StatusCode, text: &'static str) -> Reply {
    whole(Finished::text(status, text))
}

fn deny(denied: Denied) -> Reply {
    plain(
        StatusCode::FORBIDDEN,
        match denied {
            Denied::Origin => "Origin not allowed\n",
            Denied::Host => "Host not allowed: this listener is for loopback names\n",
        },
    )
}

/// The answer to a browser that asks before it posts.
fn preflight(headers: &HeaderMap) -> Reply {
    let mut reply = Response::new(ReplyBody::Whole(Full::default()));
    let map = reply.headers_mut();
    let asked = headers.get(header::ACCESS_CONTROL_REQUEST_HEADERS).cloned();
    let known = HeaderValue::from_static(
        "Content-Type, Accept, Authorization, MCP-Protocol-Version, Mcp-Method, Mcp-Name, Mcp-Session-Id, Last-Event-ID",
    );
    for (name, value) in [
        (
            header::ACCESS_CONTROL_ALLOW_METHODS,
            HeaderValue::from_static("POST, DELETE"),
        ),
        (header::ACCESS_CONTROL_ALLOW_HEADERS, asked.unwrap_or(known)),
        (header::ACCESS_CONTROL_MAX_AGE, HeaderValue::from_static("86400")),
    ] {
        map.insert(name, value);
    }
    reply
}
