//! Listening to a Legacy server: the stream that is opened by GET (2025-03-26, transports), and its subscriptions.

use std::future::pending;

use tokio::time::{Instant, sleep};

use super::backoff::Backoff;
use super::beginning::Beginning;
use super::subscribing::keep_subscribed;
use crate::defaults;
use crate::mcp::message::{Envelope, Kind};
use crate::mcp::notice;
use crate::upstream::connection::{Connection, Link};
use crate::upstream::endpoint::Timeouts;
use crate::upstream::error::Error;
use crate::upstream::event_stream::EventStream;
use crate::upstream::http::Opened;
use crate::upstream::http_link::HttpLink;
use crate::upstream::news::Notice;
use crate::upstream::questions::Heard;
use crate::upstream::resumption::Resumption;

/// Follows the server's own stream, and subscribes to what is wanted.
pub(super) async fn listen(connection: &Connection, timeouts: Timeouts, beginning: &Beginning) -> Error {
    let stream = async {
        match connection.link() {
            Link::Http(link) => {
                let error = follow(link, connection, timeouts, Some(beginning)).await;
                beginning.settle(connection);
                match error {
                    Some(error) => error,
                    None => pending().await,
                }
            }
            // What it says comes on the one stream that there is.
            Link::OldSse(_) | Link::Stdio(_) => {
                beginning.settle(connection);
                pending().await
            }
        }
    };
    tokio::select! {
        error = stream => error,
        error = keep_subscribed(connection, timeouts) => error,
    }
}

/// Keeps the stream open. `None`: the server has none. Without a `beginning` nobody relies on hearing every change here.
pub(super) async fn follow(
    link: &HttpLink,
    connection: &Connection,
    timeouts: Timeouts,
    beginning: Option<&Beginning>,
) -> Option<Error> {
    let settle = || {
        if let Some(beginning) = beginning {
            beginning.settle(connection);
        }
    };
    let mut backoff = Backoff::new();
    let mut seen = Resumption::default();
    loop {
        let pause = match link.http.open_stream(&link.headers, seen.last_id()).await {
            Ok(Opened::Stream(events)) => {
                // Where events have ids the server sends what was missed; otherwise nobody knows what that was.
                if beginning.is_some_and(Beginning::is_over) && seen.last_id().is_none() {
                    missed(connection);
                }
                settle();
                read(*events, link, connection, &mut backoff, &mut seen).await;
                backoff.after_end()
            }
            Ok(Opened::Other { status, .. }) => match judge(status, link.has_session) {
                Refusal::NotServed => return None,
                Refusal::MaybeSessionLost => match connection.ping(timeouts.word()).await {
                    Err(Error::SessionLost) => return Some(Error::SessionLost),
                    // The session lives: it is the stream that there is not.
                    Ok(_) if status == 404 => return None,
                    _ => backoff.after_failure(),
                },
                Refusal::ForNow => backoff.after_failure(),
            },
            Err(_) => backoff.after_failure(),
        };
        settle();
        sleep(crate::upstream::pause::jittered(pause)).await;
    }
}

/// Reads one stream to its end.
async fn read(
    mut events: EventStream,
    link: &HttpLink,
    connection: &Connection,
    backoff: &mut Backoff,
    seen: &mut Resumption,
) {
    let opened = Instant::now();
    while let Ok(Some(event)) = events.next().await {
        if let Some(milliseconds) = event.retry {
            backoff.server_asks(milliseconds);
        }
        seen.saw(&event);
        let Some(message) = event.message() else { continue };
        backoff.was_of_use();
        connection.hearing().take(message);
        link.http
            .answer(&link.headers, connection.questions(), heard(message, connection))
            .await;
    }
    if opened.elapsed() >= defaults::STREAM_OF_USE {
        backoff.was_of_use();
    }
}

/// What is to be done about a message that the server asks something by, or takes a question back. Here nothing names
/// the call that it is about.
fn heard(message: &[u8], connection: &Connection) -> Heard {
    let Ok(envelope) = Envelope::parse(message, defaults::JSON_DEPTH_MAX) else {
        return Heard::Nothing;
    };
    match envelope.kind() {
        Ok(Kind::Request { id, .. }) => return connection.questions().hear(None, id, &envelope),
        Ok(Kind::Notification { method }) if method == notice::CANCELLED => {
            connection.questions().withdraw(&envelope);
        }
        Ok(Kind::Notification { method }) if notice::is_for_client(method) => {
            connection.questions().hear_notification(message);
        }
        _ => {}
    }
    Heard::Nothing
}

/// Changes may have been missed.
fn missed(connection: &Connection) {
    let known = connection.known();
    known.news.lists_may_have_changed();
    for (uri, was_accepted) in known.subscriptions.wanted() {
        if was_accepted {
            known.news.resource_changed(Notice::of(&uri));
        }
    }
}

/// What a server means that opens no stream.
#[derive(Debug, PartialEq, Eq)]
enum Refusal {
    /// It has none, and is not asked again.
    NotServed,
    /// It has none, or does not know the session any more.
    MaybeSessionLost,
    /// It has none now.
    ForNow,
}

/// A server without the stream answers 405, or something that is no stream at all (2025-03-26, transports).
fn judge(status: u16, has_session: bool) -> Refusal {
    match status {
        400 | 404 if has_session => Refusal::MaybeSessionLost,
        200..=299 | 404 | 405 | 410 | 501 => Refusal::NotServed,
        _ => Refusal::ForNow,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_without_the_stream_is_told_from_one_that_fails_now() {
        for status in [200, 202, 405, 404, 410, 501] {
            assert_eq!(judge(status, false), Refusal::NotServed, "{status}");
        }
        for status in [400, 404] {
            assert_eq!(judge(status, true), Refusal::MaybeSessionLost, "{status}");
        }
        for status in [400, 401, 403, 429, 500, 503] {
            assert_eq!(judge(status, false), Refusal::ForNow, "{status}");
        }
    }
}
