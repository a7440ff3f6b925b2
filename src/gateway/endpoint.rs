//! One HTTP request, one answer: the way from a path to a federation, and who may go it.

use std::sync::Arc;

use http::header::{self, HeaderValue};
use http::{Method as HttpMethod, Request, StatusCode};
use hyper::body::Incoming;
use tokio::time::Instant;

use super::finished::Finished;
use super::post;
use super::reply::{self, Reply};
use super::visit::{Shared, Visit};
use super::{access, get, legacy, old_sse, origin, show_all};
use crate::defaults;
use crate::fleet::{Federation, Fleet, OriginPlan};
use crate::metrics::Outcome;

/// Answers requests from the fleet's current snapshot.
#[derive(Clone, Debug)]
pub struct Endpoint {
    shared: Arc<Shared>,
    loopback: bool,
}

impl Endpoint {
    /// An endpoint for clients who share this; `loopback` tells that it listens on a loopback address.
    pub fn new(shared: Shared, loopback: bool) -> Self {
        let shared = Arc::new(shared);
        Self { shared, loopback }
    }

    /// Answers one request.
    pub async fn answer(&self, request: Request<Incoming>) -> Reply {
        let (parts, body) = request.into_parts();
        if !is_within_bounds(&parts) {
            return reply::plain(
                StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE,
                "the headers of a request have at most 64 KiB together\n",
            );
        }
        let origin = parts.headers.get(header::ORIGIN).cloned();
        let fleet = self.shared.fleet.load_full();
        let found = find(&fleet, parts.uri.path());
        // Where nothing is served, nobody says which pages may know of that.
        let unknown = OriginPlan::default();
        let origins = found.map_or(&unknown, |(federation, _)| &federation.origins);
        let mut reply = match origin::check(&parts.uri, &parts.headers, self.loopback, origins) {
            Err(denied) => reply::deny(denied),
            Ok(()) => self.route(found, parts, body).await,
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

    async fn route(
        &self,
        found: Option<(&Arc<Federation>, Face)>,
        parts: http::request::Parts,
        body: Incoming,
    ) -> Reply {
        let Some((federation, face)) = found else {
            let text = not_found(&self.shared.fleet.load(), parts.uri.path());
            return reply::whole(Finished::text(StatusCode::NOT_FOUND, text));
        };
        if parts.method == HttpMethod::OPTIONS {
            return reply::preflight(&parts.headers);
        }
        let started = Instant::now();
        let principal = match access::admit(&federation.access, &parts.headers) {
            Ok(principal) => principal,
            Err(error) => {
                tracing::debug!(federation = federation.name, reason = error.reason(), "not let in");
                federation.metrics.request(None, Outcome::Refused, started.elapsed());
                let wants_null_id = legacy::wants_null_id(&self.shared.sessions, federation, &parts.headers);
                return reply::keep_out(wants_null_id, error);
            }
        };
        let visit = Visit {
            shared: Arc::clone(&self.shared),
            federation: Arc::clone(federation),
            principal,
            shows_all: show_all::wished(&parts.headers, parts.uri.query()),
            headers: parts.headers,
            channel: None,
            is_crowded: false,
            started,
        };
        match (face, parts.method) {
            (Face::Mcp, HttpMethod::POST) => post::answer(visit, body).await,
            (Face::Mcp, HttpMethod::GET) if federation.sessions.enabled => get::answer(&visit),
            (Face::Mcp, HttpMethod::DELETE) if federation.sessions.enabled => end_session(&visit),
            (Face::Mcp, _) => reply::not_allowed(federation),
            (Face::OldStream, HttpMethod::GET) => old_sse::open(visit),
            (Face::OldMessages, HttpMethod::POST) => old_sse::take(visit, parts.uri.query(), body).await,
            (Face::OldStream, _) => reply::only("GET, OPTIONS", "only GET is served here\n"),
            (Face::OldMessages, _) => reply::only("POST, OPTIONS", "only POST is served here\n"),
        }
    }
}

/// Whether the headers are small enough. How much of them is read is bounded before, but only roughly.
fn is_within_bounds(parts: &http::request::Parts) -> bool {
    let headers = parts.headers.iter();
    let bytes: usize = headers.map(|(name, value)| name.as_str().len() + value.len()).sum();
    bytes + parts.uri.path().len() <= defaults::HEADER_BYTES_MAX
}

/// In which way a path is spoken to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Face {
    /// By Streamable HTTP.
    Mcp,
    /// By the stream of the transport of 2024-11-05.
    OldStream,
    /// By the messages of that transport.
    OldMessages,
}

/// The federation behind `/NAMESPACE/NAME/mcp`, the member of it behind `/NAMESPACE/NAME/servers/MEMBER/mcp`, or the
/// federation behind `/mcp`; the same for the older transport's two paths.
fn find<'f>(fleet: &'f Fleet, path: &str) -> Option<(&'f Arc<Federation>, Face)> {
    let faces = [
        ("/mcp", Face::Mcp),
        ("/sse", Face::OldStream),
        ("/messages", Face::OldMessages),
    ];
    let (name, face) = faces
        .into_iter()
        .find_map(|(end, face)| Some((path.strip_suffix(end)?, face)))?;
    let federation = match name.strip_prefix('/') {
        None => fleet.default_federation(),
        Some(name) => fleet.federation(name),
    };
    Some((federation?, face))
}

/// What whoever asks for `path`, at which nothing is served, may have meant.
fn not_found(fleet: &Fleet, path: &str) -> String {
    let parts: Vec<_> = path.split('/').filter(|part| !part.is_empty()).collect();
    let path = parts.join("/").to_lowercase();
    let meant = match path.as_str() {
        "" => vec!["/mcp".to_owned()],
        _ => vec![format!("/{path}"), format!("/{path}/mcp")],
    };
    let meant = meant.into_iter().find(|path| find(fleet, path).is_some());
    let meant = meant.map_or_else(String::new, |path| format!("did you mean {path}? "));
    format!(
        "no federation is served here; {meant}Endpoints are /NAMESPACE/NAME/mcp, and of one member alone \
         /NAMESPACE/NAME/servers/MEMBER/mcp\n"
    )
}

/// Ends the session that a DELETE names, with everything that is going on of it.
fn end_session(visit: &Visit) -> Reply {
    if let Err(error) = legacy::revision(&visit.headers) {
        return reply::whole(visit.refuse(None, &error));
    }
    match visit.session() {
        Ok(session) => {
            if let Some(session) = session {
                visit.shared.sessions.end(&session, legacy::now());
                visit.end(session.id);
            }
            reply::whole(Finished::nothing(StatusCode::OK))
        }
        Err(error) => reply::whole(reply::without_session(error)),
    }
}
