//! The way of an HTTP request through the server.

use std::convert::Infallible;
use std::sync::atomic::Ordering::Relaxed;

use bytes::Bytes;
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::Incoming;
use hyper::header::{HeaderMap, HeaderValue};
use hyper::{Method, Request as HttpRequest, Response, StatusCode};
use mcpfleet_load::{MODERN, VERSION_KEY};
use serde_json::{Value, json};

use crate::message::{Answer, Message, Refusal, Request, header, headers_as_json, response};
use crate::server::{Change, Server, lock};
use crate::stream::Events;
use crate::{legacy, modern, tools};

/// The body of every HTTP response.
pub(crate) type Body = BoxBody<Bytes, Infallible>;

impl Server {
    /// Answers one HTTP request.
    pub(crate) async fn handle(&'static self, request: HttpRequest<Incoming>) -> Result<Response<Body>, Infallible> {
        let path = request.uri().path();
        if path == "/mcp" && !self.args.any_host && !comes_from_here(request.headers()) {
            let refusal = Refusal::new(-32000, "Forbidden: Host or Origin not allowed");
            return Ok(self.refuse("null", &refusal.with_status(403)));
        }
        Ok(match (request.method(), path) {
            (&Method::POST, "/mcp") => self.count(request).await,
            (&Method::GET, "/mcp") if self.args.sessions => match legacy::listen(self, request.headers()) {
                Ok(events) => stream_response(events),
                Err(refusal) => self.refuse("null", &refusal),
            },
            (&Method::DELETE, "/mcp") if self.args.sessions => {
                let session = header(request.headers(), "mcp-session-id").unwrap_or_default();
                let status = if lock(&self.sessions).remove(session) { 200 } else { 404 };
                plain_response(status, "")
            }
            (_, "/mcp") => {
                let mut response = plain_response(405, "method not allowed\n");
                response.headers_mut().insert("allow", HeaderValue::from_static("POST"));
                response
            }
            (&Method::GET, "/healthz") => plain_response(200, "ok\n"),
            (&Method::GET, "/stats") => json_response(200, self.stats().to_string()),
            (&Method::GET, "/admin/requests") => {
                json_response(200, self.recorded().to_string())
            }
            (&Method::POST, "/admin/bump") => {
                let added = self.added.fetch_add(1, Relaxed) + 1;
                self.list_tools(tools::list_as_json(self.args.tools, added));
                self.tell(Change::Tools);
                json_response(200, json!({"added_tools": added}).to_string())
            }
            (&Method::POST, "/admin/touch") => {
                self.tell(Change::Resource);
                json_response(200, "{}".into())
            }
            _ => plain_response(404, "not found\n"),
        })
    }

    async fn count(&'static self, request: HttpRequest<Incoming>) -> Response<Body> {
        self.counters.requests.fetch_add(1, Relaxed);
        let running = self.counters.running.fetch_add(1, Relaxed) + 1;
        self.counters.most_running.fetch_max(running, Relaxed);
        let response = self.post(request).await;
        self.counters.running.fetch_sub(1, Relaxed);
        response
    }

    async fn post(&'static self, request: HttpRequest<Incoming>) -> Response<Body> {
        let (parts, body) = request.into_parts();
        if !self.is_authorized(&parts.headers) {
            let mut response = json_response(401, json!({"error": "invalid_token"}).to_string());
            let challenge = HeaderValue::from_static("Bearer error=\"invalid_token\"");
            response.headers_mut().insert("www-authenticate", challenge);
            return response;
        }
        let body = match mcpfleet_load::read_body(body).await {
            Ok(body) => body,
            Err(error) => return plain_response(400, error),
        };
        let message: Message<'_> = match serde_json::from_slice(&body) {
            Ok(message) => message,
            Err(error) => {
                let refusal = Refusal::new(-32700, format!("Parse error: {error}"));
                return self.refuse("null", &refusal.with_status(400));
            }
        };
        self.record(|| {
            let body: Value = serde_json::from_slice(&body).unwrap_or_default();
            json!({"method": message.method, "headers": headers_as_json(&parts.headers), "body": body})
        });
        let (Some(id), Some(method)) = (message.id, message.method.as_deref()) else {
            return plain_response(202, ""); // a notification, or a client's answer
        };
        let request = Request {
            id: id.get(),
            method,
            params: &message.params,
            headers: &parts.headers,
        };
        let answer = if is_modern(&request) {
            modern::answer(self, &request).await
        } else {
            legacy::answer(self, &request).await
        };
        match answer {
            Ok(Answer::Result(result)) => json_response(200, response(request.id, &result)),
            Ok(Answer::Opened { result, session }) => {
                let mut response = json_response(200, response(request.id, &result));
                if let Ok(session) = HeaderValue::from_str(&session) {
                    response.headers_mut().insert("mcp-session-id", session);
                }
                response
            }
            Ok(Answer::Stream(events)) => stream_response(events),
            Err(refusal) => self.refuse(request.id, &refusal),
        }
    }

    fn is_authorized(&self, headers: &HeaderMap) -> bool {
        let Some(token) = &self.args.token else {
            return true;
        };
        header(headers, "authorization").and_then(|value| value.strip_prefix("Bearer ")) == Some(token)
    }

    fn refuse(&self, id: &str, refusal: &Refusal) -> Response<Body> {
        self.counters.errors.fetch_add(1, Relaxed);
        json_response(refusal.status, refusal.response(id))
    }
}

/// Whether Host and Origin, as far as they are there, name this machine.
fn comes_from_here(headers: &HeaderMap) -> bool {
    let is_local = |value: &str| {
        let address = value.trim_start_matches("http://").trim_start_matches("https://");
        let host = match address.strip_prefix('[') {
            Some(rest) => rest.split(']').next(),
            None => address.split(':').next(),
        };
        matches!(host, Some("localhost" | "127.0.0.1" | "::1"))
    };
    ["host", "origin"]
        .iter()
        .all(|name| header(headers, name).is_none_or(is_local))
}

fn is_modern(request: &Request<'_>) -> bool {
    request
        .params
        .pointer("/_meta")
        .is_some_and(|meta| meta.get(VERSION_KEY).is_some())
        || request
            .header("mcp-protocol-version")
            .is_some_and(|version| version >= MODERN)
}

fn plain_response(status: u16, text: impl Into<Bytes>) -> Response<Body> {
    typed_response(status, "text/plain", Full::new(text.into()).boxed())
}

fn json_response(status: u16, text: String) -> Response<Body> {
    typed_response(status, "application/json", Full::new(text.into()).boxed())
}

fn stream_response(events: Events) -> Response<Body> {
    let mut response = typed_response(200, "text/event-stream", BodyExt::boxed(StreamBody::new(events)));
    let headers = response.headers_mut();
    headers.insert("cache-control", HeaderValue::from_static("no-cache, no-transform"));
    headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
    response
}

fn typed_response(status: u16, kind: &'static str, body: Body) -> Response<Body> {
    let mut response = Response::new(body);
    *response.status_mut() = StatusCode::from_u16(status).unwrap_or_default();
    response
        .headers_mut()
        .insert("content-type", HeaderValue::from_static(kind));
    response
}
