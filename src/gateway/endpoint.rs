//! One HTTP request, one answer: the way from a path to a federation, the limits, the choice of era, and the one
//! place where errors become statuses.

use std::sync::Arc;

use arc_swap::ArcSwap;
use bytes::{Bytes, BytesMut};
use http::header::{self, HeaderName, HeaderValue};
use http::{HeaderMap, Method as HttpMethod, Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::body::{Body, Incoming};
use tokio::time::Instant;

use super::dispatch::{self, dispatch};
use super::modern::{Refusal, refusal};
use super::origin::{self, Denied};
use super::{legacy, modern};
use crate::defaults;
use crate::fleet::{Federation, Fleet};
use crate::mcp::meta::VersionClaim;
use crate::mcp::{Envelope, Era, Id, Kind, Members, Method, Revision, RpcError, message};
use crate::metrics::Outcome;

/// Answers requests from the fleet's current snapshot.
#[derive(Clone, Debug)]
pub struct Endpoint {
    fleet: Arc<ArcSwap<Fleet>>,
    loopback: bool,
}

/// What is sent back.
pub type Reply = Response<Full<Bytes>>;

impl Endpoint {
    /// An endpoint over `fleet`; `loopback` tells that it listens on a loopback address.
    pub fn new(fleet: Arc<ArcSwap<Fleet>>, loopback: bool) -> Self {
        Self { fleet, loopback }
    }

    /// Answers one request.
    pub async fn answer(&self, request: Request<Incoming>) -> Reply {
        let (parts, body) = request.into_parts();
        let origin = parts.headers.get(header::ORIGIN).cloned();
        let mut reply = match origin::check(&parts.headers, self.loopback) {
            Err(denied) => deny(denied),
            Ok(()) => self.route(&parts, body).await,
        };
        if let Some(origin) = origin.filter(|_| reply.status() != StatusCode::FORBIDDEN) {
            reply.headers_mut().insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin);
            reply
                .headers_mut()
                .append(header::VARY, HeaderValue::from_static("Origin"));
        }
        reply
    }

    async fn route(&self, parts: &http::request::Parts, body: Incoming) -> Reply {
        let fleet = self.fleet.load_full();
        let Some(federation) = find(&fleet, parts.uri.path()) else {
            return plain(
                StatusCode::NOT_FOUND,
                "no federation is served here; endpoints are /NAMESPACE/NAME/mcp\n",
            );
        };
        match parts.method {
            HttpMethod::POST => post(federation, &parts.headers, body).await,
            HttpMethod::OPTIONS => preflight(&parts.headers),
            _ => {
                let mut reply = plain(StatusCode::METHOD_NOT_ALLOWED, "only POST is served here\n");
                reply
                    .headers_mut()
                    .insert(header::ALLOW, HeaderValue::from_static("POST, OPTIONS"));
                reply
            }
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

async fn post(federation: &Federation, headers: &HeaderMap, body: Incoming) -> Reply {
    let started = Instant::now();
    if !is_json(headers) {
        return plain(
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            "Content-Type must be application/json\n",
        );
    }
    if !accepts_json(headers) {
        return plain(
            StatusCode::NOT_ACCEPTABLE,
            "Accept must list application/json (and text/event-stream)\n",
        );
    }
    let body = match read_body(body).await {
        Ok(body) => body,
        Err(refused) => {
            federation.metrics.request(None, Outcome::Refused, started.elapsed());
            return refuse(headers, None, &refused);
        }
    };
    let (method, outcome, reply) = message(federation, headers, &body).await;
    if let Some(outcome) = outcome {
        federation.metrics.request(method, outcome, started.elapsed());
    }
    reply
}

/// Answers the message in `body`; also tells how to count it, if it is a request.
async fn message(
    federation: &Federation,
    headers: &HeaderMap,
    body: &[u8],
) -> (Option<Method>, Option<Outcome>, Reply) {
    let refused = |id: Option<Id<'_>>, refused: &Refusal| (None, Some(Outcome::Refused), refuse(headers, id, refused));
    let envelope = match Envelope::parse(body, defaults::JSON_DEPTH_MAX) {
        Ok(envelope) => envelope,
        Err(error) => return refused(None, &refusal(malformed_status(headers, &error), error.to_rpc_error())),
    };
    let (id, name) = match envelope.kind() {
        Ok(Kind::Request { id, method }) => (id, method),
        Ok(Kind::Notification { .. } | Kind::Response { .. }) => return (None, None, accepted()),
        Err(error) => {
            let id = envelope.id.and_then(Id::from_raw);
            return refused(id, &refusal(malformed_status(headers, &error), error.to_rpc_error()));
        }
    };
    let params = match envelope.params.map(|raw| Members::parse(raw.get())) {
        None => None,
        Some(Some(params)) => Some(params),
        Some(None) => {
            let error = RpcError::new(RpcError::INVALID_PARAMS, "params names a member twice");
            return refused(Some(id), &refusal(StatusCode::BAD_REQUEST, error));
        }
    };
    let meta = params
        .as_ref()
        .and_then(|p| p.get("_meta"))
        .and_then(|raw| Members::parse(raw.get()));
    let (params, meta) = (params.as_ref(), meta.as_ref());
    let is_modern = VersionClaim::of(meta) != VersionClaim::None || modern::claimed_by_headers(headers);
    let checked = if is_modern {
        modern::check(name, params, meta, headers).map(|method| (method, Revision::LATEST))
    } else if name == Method::Initialize.as_str() {
        Ok((Method::Initialize, Revision::LATEST_LEGACY))
    } else {
        legacy::revision(headers).and_then(|revision| Ok((legacy::method(name)?, revision)))
    };
    let checked = checked.and_then(|(method, revision)| {
        check_arguments(method, params, revision.era())?;
        Ok((method, revision))
    });
    match checked {
        Err(error) => refused(Some(id), &error),
        Ok((method, revision)) => {
            let answer = dispatch(
                federation,
                dispatch::Request {
                    id,
                    method,
                    params,
                    meta,
                    revision,
                },
            )
            .await;
            (Some(method), Some(answer.outcome), json(StatusCode::OK, answer.body))
        }
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

async fn read_body(mut body: Incoming) -> Result<Bytes, Refusal> {
    let too_large = || {
        let message = format!("The request is larger than {} bytes", defaults::REQUEST_BODY_MAX);
        refusal(
            StatusCode::PAYLOAD_TOO_LARGE,
            RpcError::new(RpcError::INVALID_REQUEST, message),
        )
    };
    if body.size_hint().lower() > defaults::REQUEST_BODY_MAX as u64 {
        return Err(too_large());
    }
    let mut first: Option<Bytes> = None;
    let mut more = BytesMut::new();
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|_| {
            refusal(
                StatusCode::BAD_REQUEST,
                RpcError::new(RpcError::PARSE, "The request's body ended early"),
            )
        })?;
        let Ok(data) = frame.into_data() else { continue };
        match &first {
            None => first = Some(data),
            Some(start) => {
                if more.is_empty() {
                    more.extend_from_slice(start);
                }
                more.extend_from_slice(&data);
            }
        }
        if first.as_ref().map_or(0, Bytes::len).max(more.len()) > defaults::REQUEST_BODY_MAX {
            return Err(too_large());
        }
    }
    Ok(if more.is_empty() {
        first.unwrap_or_default()
    } else {
        more.freeze()
    })
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

/// Whether a JSON answer is acceptable: every answer here is one. Clients that name nothing take anything.
fn accepts_json(headers: &HeaderMap) -> bool {
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
            let refused = parts.any(|p| p.trim().strip_prefix("q=").is_some_and(|q| q.parse::<f32>() == Ok(0.0)));
            !refused
                && ["application/json", "application/*", "*/*"]
                    .iter()
                    .any(|known| essence.eq_ignore_ascii_case(known))
        })
}

fn refuse(headers: &HeaderMap, id: Option<Id<'_>>, refused: &Refusal) -> Reply {
    let null = (!modern::claimed_by_headers(headers) && legacy::wants_null_id(headers)).then_some("null");
    let body = message::error_response(id.map(Id::as_json).or(null), &refused.error.to_json());
    json(refused.status, body)
}

fn json(status: StatusCode, body: Vec<u8>) -> Reply {
    let mut reply = Response::new(Full::new(Bytes::from(body)));
    *reply.status_mut() = status;
    let headers = reply.headers_mut();
    headers.insert(
        header::CONTENT_TYPE,
        HeaderValue::from_static("application/json; charset=utf-8"),
    );
    headers.insert(
        header::CACHE_CONTROL,
        HeaderValue::from_static("no-cache, no-store, must-revalidate"),
    );
    reply
}

fn accepted() -> Reply {
    let mut reply = Response::new(Full::default());
    *reply.status_mut() = StatusCode::ACCEPTED;
    reply
}

fn plain(status: StatusCode, text: &'static str) -> Reply {
    let mut reply = Response::new(Full::new(Bytes::from_static(text.as_bytes())));
    *reply.status_mut() = status;
    reply.headers_mut().insert(
        header::CONTENT_TYPE,
        HeaderValue::from_static("text/plain; charset=utf-8"),
    );
    reply
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
    let mut reply = Response::new(Full::default());
    let map = reply.headers_mut();
    let asked = headers.get(header::ACCESS_CONTROL_REQUEST_HEADERS).cloned();
    let known = HeaderValue::from_static(
        "Content-Type, Accept, Authorization, MCP-Protocol-Version, Mcp-Method, Mcp-Name, Mcp-Session-Id, Last-Event-ID",
    );
    for (name, value) in [
        (
            header::ACCESS_CONTROL_ALLOW_METHODS,
            HeaderValue::from_static("POST, GET, DELETE"),
        ),
        (header::ACCESS_CONTROL_ALLOW_HEADERS, asked.unwrap_or(known)),
        (header::ACCESS_CONTROL_MAX_AGE, HeaderValue::from_static("86400")),
        (
            HeaderName::from_static("access-control-expose-headers"),
            HeaderValue::from_static("Mcp-Session-Id, WWW-Authenticate"),
        ),
    ] {
        map.insert(name, value);
    }
    reply
}
