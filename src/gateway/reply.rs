//! Answers on their way out: the one place where errors become HTTP statuses.

use bytes::Bytes;
use http::header::{self, HeaderName, HeaderValue};
use http::{HeaderMap, Response, StatusCode};
use http_body_util::Full;

use super::access::AccessError;
use super::finished::{Content, Events, Finished, ReplyBody};
use super::modern::{Refusal, refusal};
use super::origin::Denied;
use super::outgoing::Outgoing;
use super::session::SessionError;
use crate::defaults;
use crate::fleet::Federation;
use crate::mcp::{Id, RpcError, message};
use crate::upstream::{Taken, share_of};

/// What is sent back.
pub(super) type Reply = Response<ReplyBody>;

/// The answer to a message that is refused.
pub(super) fn refuse(wants_null_id: bool, id: Option<Id<'_>>, refused: &Refusal) -> Finished {
    let null = wants_null_id.then_some("null");
    let message = message::error_response(id.map(Id::as_json).or(null), &refused.error.to_json());
    Finished::message(refused.status, message)
}

/// The answer to a client that has no session where it needs one: what clients look at is the status.
pub(super) fn without_session(error: SessionError) -> Finished {
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
pub(super) fn keep_out(wants_null_id: bool, error: AccessError) -> Reply {
    let (status, challenge) = match error {
        AccessError::Missing => (StatusCode::UNAUTHORIZED, Some("Bearer")),
        AccessError::Unknown => (StatusCode::UNAUTHORIZED, Some("Bearer error=\"invalid_token\"")),
        AccessError::Closed => (StatusCode::SERVICE_UNAVAILABLE, None),
    };
    let error = RpcError::new(RpcError::INVALID_REQUEST, error.to_string());
    let mut reply = whole(refuse(wants_null_id, None, &refusal(status, error)));
    if let Some(challenge) = challenge {
        reply
            .headers_mut()
            .insert(header::WWW_AUTHENTICATE, HeaderValue::from_static(challenge));
    }
    reply
}

/// The answer to an HTTP method that is not served, or not so.
pub(super) fn not_allowed(federation: &Federation) -> Reply {
    let (text, allowed) = if federation.sessions.enabled {
        (
            "POST and DELETE are served here, and GET with Accept: text/event-stream\n",
            "POST, GET, DELETE, OPTIONS",
        )
    } else {
        ("only POST is served here\n", "POST, OPTIONS")
    };
    only(allowed, text)
}

/// The answer to an HTTP method other than those `allowed`.
pub(super) fn only(allowed: &'static str, text: &'static str) -> Reply {
    let mut reply = plain(StatusCode::METHOD_NOT_ALLOWED, text);
    reply
        .headers_mut()
        .insert(header::ALLOW, HeaderValue::from_static(allowed));
    reply
}

/// The answer to a client for whose stream there is no place (RFC 6585 section 4).
pub(super) fn no_place(taken: Taken) -> Reply {
    let status = match taken {
        Taken::All => StatusCode::SERVICE_UNAVAILABLE,
        Taken::Share => StatusCode::TOO_MANY_REQUESTS,
    };
    let text = crowded(taken, "streams", defaults::STREAMS_MAX);
    whole(Finished::text(status, format!("{text}\n")))
}

/// Says that there is no place for one more of `what`, of which `most` may be open.
pub(super) fn crowded(taken: Taken, what: &str, most: usize) -> String {
    match taken {
        Taken::All => format!("{most} {what} are open here, and no more can be; try again later"),
        Taken::Share => {
            let share = share_of(true, most);
            format!("{share} {what} of this key are open here, and no more may be; close one first")
        }
    }
}

/// An answer that is known, or that comes in events from now on.
pub(super) fn whole(finished: Finished) -> Reply {
    let content = match finished.content {
        Content::Events(stream) => return events(stream),
        Content::Nothing => Bytes::new().into(),
        Content::Message(message) => message,
        Content::Batch(answers) => Outgoing::batch(answers),
    };
    let is_empty = content.is_empty();
    let mut reply = Response::new(ReplyBody::of(content));
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
pub(super) fn events(stream: Events) -> Reply {
    let mut reply = Response::new(ReplyBody::events(stream));
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

pub(super) fn plain(status: StatusCode, text: &'static str) -> Reply {
    whole(Finished::text(status, text))
}

/// The answer to a body in a coding (RFC 9110 section 15.5.16).
pub(super) fn encoded() -> Reply {
    let mut reply = plain(
        StatusCode::UNSUPPORTED_MEDIA_TYPE,
        "Content-Encoding is not taken: send the body as it is, without compression\n",
    );
    let headers = reply.headers_mut();
    headers.insert(header::ACCEPT_ENCODING, HeaderValue::from_static("identity"));
    reply
}

pub(super) fn deny(denied: Denied) -> Reply {
    plain(
        StatusCode::FORBIDDEN,
        match denied {
            Denied::Origin => "Origin not allowed\n",
            Denied::Host => "Host not allowed: this listener is for loopback names\n",
        },
    )
}

/// The answer to a browser that asks before it posts.
pub(super) fn preflight(headers: &HeaderMap) -> Reply {
    let mut reply = Response::new(ReplyBody::Whole(Full::default()));
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
    ] {
        map.insert(name, value);
    }
    reply
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_gets_no_stream_is_told_whose_streams_there_are_too_many_of() {
        for (taken, status, text) in [
            (Taken::All, 503, "8192 streams are open here"),
            (Taken::Share, 429, "2048 streams of this key are open here"),
        ] {
            assert_eq!(no_place(taken).status(), status);
            assert!(crowded(taken, "streams", defaults::STREAMS_MAX).starts_with(text));
        }
    }
}
