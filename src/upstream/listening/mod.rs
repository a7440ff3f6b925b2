//! Hearing of changes while nothing is asked: what runs beside each connection that is held.
//!
//! A Legacy server over HTTP tells of changes on a stream that is opened by GET, a Modern one on what it answers to
//! `subscriptions/listen`, and a process on its standard output. A server without any of it is not asked again, and its
//! lists are read anew when they are old. Streams that end are opened again with growing pauses, and since nobody knows
//! what was missed in between, the lists are read again then, and subscribed resources count as changed.

mod backoff;
mod beginning;
mod legacy;
mod listen;
mod modern;
mod refusal;
mod step;
mod subscribing;

pub(super) use self::beginning::Beginning;
pub(super) use self::subscribing::{Carried, keep_subscribed_on_lane};

use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::sleep;

use super::connection::{Connection, Link};
use super::endpoint::Timeouts;
use super::error::Error;
use super::open::Opening;
use super::pin::Pin;
use super::terms::HttpTransport;
use crate::defaults;
use crate::mcp::Era;

/// Listens on `connection`, for as long as the future is polled. It resolves only when the connection is of no more use.
pub(super) async fn listen(connection: &Arc<Connection>, timeouts: Timeouts, beginning: &Beginning) -> Error {
    let known = connection.known();
    known.subscriptions.begin();
    let listening = async {
        if !known.news.are_heeded() {
            beginning.settle(connection);
            return pending().await;
        }
        match connection.peer().era() {
            Era::Legacy => legacy::listen(connection, timeouts, beginning).await,
            Era::Modern => modern::listen(connection, timeouts, beginning).await,
        }
    };
    tokio::select! {
        error = listening => error,
        error = notifications_of_process(connection) => error,
        error = upgrade(connection, timeouts, defaults::ERA_VERDICT_TTL) => error,
    }
}

/// Takes what a server says on a lane beside the answers to its calls, for as long as the future is polled. Changes are
/// told to the connection that everybody shares as well: those that are missed here are not asked for.
pub(super) async fn listen_on_lane(connection: &Connection, timeouts: Timeouts, beginning: &Beginning) -> Error {
    if let Link::Http(link) = connection.link()
        && link.has_session
        && let Some(error) = legacy::follow(link, connection, timeouts, Some(beginning)).await
    {
        return error;
    }
    beginning.settle(connection);
    match connection.link() {
        Link::Http(_) | Link::OldSse(_) => pending().await,
        Link::Stdio(_) => notifications_of_process(connection).await,
    }
}

/// Takes what a process says of itself, which arrives on the one stream that there is. What of it is of a listen is
/// taken by [`modern`].
async fn notifications_of_process(connection: &Connection) -> Error {
    let Link::Stdio(child) = connection.link() else {
        return pending().await;
    };
    while let Some(notification) = child.notification().await {
        connection.hearing().take(&notification);
    }
    pending().await
}

/// Asks a server that was found to be Legacy, now and then, whether it still is: a rolling update may have replaced it
/// without breaking the connection.
async fn upgrade(connection: &Connection, timeouts: Timeouts, every: Duration) -> Error {
    let known = connection.known();
    let http = match connection.link() {
        Link::Http(link) => &link.http,
        Link::OldSse(old_sse) if known.transport == HttpTransport::Auto => &old_sse.http,
        Link::OldSse(_) | Link::Stdio(_) => return pending().await,
    };
    if connection.peer().era() == Era::Modern || known.pin != Pin::None {
        return pending().await;
    }
    let opening = Opening {
        limit: timeouts.connect,
        questions: connection.questions(),
        known,
    };
    loop {
        sleep(every).await;
        if opening.finds_modern(http).await {
            return Error::Outdated;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use axum::Router;
    use axum::http::StatusCode;
    use axum::response::IntoResponse;

    use tokio::time::timeout;

    use super::*;
    use crate::upstream::endpoint::{Endpoint, HttpEndpoint};
    use crate::upstream::known::Known;
    use crate::upstream::questions::Questions;

    #[tokio::test]
    async fn a_legacy_server_that_became_modern_is_noticed_without_a_failure() {
        let learnt = Arc::new(AtomicBool::new(false));
        let now = Arc::clone(&learnt);
        let answer = move |body: String| {
            let (is_modern, json) = (now.load(Ordering::SeqCst), [("content-type", "application/json")]);
            async move {
                if body.contains("initialize\"") {
                    let result = r#"{"jsonrpc":"2.0","id":2,"result":{"protocolVersion":"2025-06-18"}}"#;
                    (json, result).into_response()
                } else if is_modern && body.contains("server/discover") {
                    let result = r#"{"jsonrpc":"2.0","id":1,"result":{"supportedVersions":["2026-07-28"]}}"#;
                    (json, result).into_response()
                } else {
                    StatusCode::BAD_REQUEST.into_response()
                }
            }
        };
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/mcp", listener.local_addr().unwrap());
        let server = tokio::spawn(async move { axum::serve(listener, Router::new().fallback(answer)).await });
        let endpoint = Endpoint::Http(HttpEndpoint {
            url: url.parse().unwrap(),
            headers: http::HeaderMap::new(),
        });
        let (timeouts, known) = (Timeouts::default(), Arc::new(Known::default()));
        let connection = Connection::open("s", &endpoint, timeouts, &Questions::of_catalog(), &known)
            .await
            .unwrap();
        let noticed = async |limit| timeout(limit, upgrade(&connection, timeouts, Duration::from_millis(5))).await;
        assert!(noticed(Duration::from_millis(100)).await.is_err(), "it still is");
        learnt.store(true, Ordering::SeqCst);
        assert_eq!(noticed(Duration::from_secs(10)).await, Ok(Error::Outdated));
        server.abort();
    }
}
