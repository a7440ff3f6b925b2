//! One `subscriptions/listen` (2026-07-28, subscriptions), over either transport.

use std::fmt;
use std::future::poll_fn;
use std::pin::Pin;
use std::task::Poll;

use bytes::Bytes;
use tokio::time::Instant;

use super::refusal::refusal_text;
use crate::defaults;
use crate::mcp::message::{Envelope, Kind};
use crate::mcp::{RpcError, message};
use crate::upstream::connection::{Connection, Link};
use crate::upstream::http::{Opened, routing_headers};
use crate::upstream::http_link::HttpLink;
use crate::upstream::listen_filter::Filter;
use crate::upstream::request::error_code;

/// A listen on its way. It is read only while it is waited for.
pub(super) struct Listen<'c> {
    /// The id of its request, by which the server names it.
    pub(super) id: u64,
    /// What it asks for.
    pub(super) filter: Filter,
    /// When it was begun.
    pub(super) begun: Instant,
    run: Pin<Box<dyn Future<Output = End> + Send + 'c>>,
}

/// How a listen ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// The server has no such thing.
    NotServed,
    /// The server refuses this one.
    Refused(String),
    /// The server ended it in good order.
    Completed,
    /// It broke, or could not be begun.
    Broken,
}

impl<'c> Listen<'c> {
    /// A listen for what is in `filter`; nothing is sent before it is waited for.
    pub(super) fn new(connection: &'c Connection, filter: Filter) -> Self {
        let id = connection.next_id();
        let body = Bytes::from(message::request(id, METHOD, &filter.params(connection.peer())));
        Self {
            id,
            filter,
            begun: Instant::now(),
            run: Box::pin(run(connection, id, body)),
        }
    }

    /// Waits for its end. Nothing is lost when the future is dropped; to drop the listen is to end it.
    pub(super) async fn ended(&mut self) -> End {
        self.run.as_mut().await
    }

    /// Waits for the end of one of `held`, and takes that out.
    pub(super) async fn first_ended(held: &mut Vec<Self>) -> Self {
        poll_fn(|cx| {
            let mut listens = held.iter_mut();
            match listens.position(|listen| listen.run.as_mut().poll(cx).is_ready()) {
                Some(place) => Poll::Ready(held.remove(place)),
                None => Poll::Pending,
            }
        })
        .await
    }
}

impl fmt::Debug for Listen<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Listen").field("id", &self.id).finish_non_exhaustive()
    }
}

async fn run(connection: &Connection, id: u64, body: Bytes) -> End {
    let said = async {
        match connection.link() {
            Link::Http(link) => over_http(connection, link, id, body).await,
            Link::OldSse(_) => End::NotServed,
            Link::Stdio(child) => match child.request(id, body, None).await {
                Ok(answer) => judge(&answer),
                Err(_) => End::Broken,
            },
        }
    };
    tokio::select! {
        end = said => end,
        () = connection.words().cancelled(id) => End::Completed,
    }
}

async fn over_http(connection: &Connection, link: &HttpLink, id: u64, body: Bytes) -> End {
    let mut headers = link.headers.clone();
    routing_headers(&mut headers, METHOD, None);
    let mut events = match link.http.open_stream_by_post(headers, body).await {
        Ok(Opened::Stream(events)) => *events,
        Ok(Opened::Other {
            message: Some(message), ..
        }) => return judge(&message),
        Ok(Opened::Other { status, .. }) => {
            return match status {
                404 | 405 | 501 => End::NotServed,
                _ => End::Broken,
            };
        }
        Err(_) => return End::Broken,
    };
    while let Ok(Some(event)) = events.next().await {
        let Some(text) = event.message() else { continue };
        if is_answer(text, id) {
            return judge(text);
        }
        connection.hearing().take(text);
    }
    End::Broken
}

fn is_answer(text: &[u8], id: u64) -> bool {
    Envelope::parse(text, defaults::JSON_DEPTH_MAX).is_ok_and(
        |envelope| matches!(envelope.kind(), Ok(Kind::Response { id: of }) if of.is_none_or(|of| of.is_number(id))),
    )
}

/// What an answer to the listen means: its result is its end.
fn judge(message: &[u8]) -> End {
    let Ok(envelope) = Envelope::parse(message, defaults::JSON_DEPTH_MAX) else {
        return End::Broken;
    };
    match (envelope.result, envelope.error) {
        (Some(_), None) => End::Completed,
        (None, Some(error)) if error_code(error.get()) == Some(RpcError::METHOD_NOT_FOUND) => End::NotServed,
        (None, Some(error)) => End::Refused(refusal_text(error.get())),
        _ => End::Broken,
    }
}

const METHOD: &str = "subscriptions/listen";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_ends_the_listen_in_one_way_or_another() {
        let error = |code: i64| format!(r#"{{"jsonrpc":"2.0","id":7,"error":{{"code":{code},"message":"full\n"}}}}"#);
        assert_eq!(judge(br#"{"jsonrpc":"2.0","id":7,"result":{}}"#), End::Completed);
        assert_eq!(judge(error(-32601).as_bytes()), End::NotServed);
        assert_eq!(judge(error(-32603).as_bytes()), End::Refused("full".into()));
        assert_eq!(judge(b"<html>"), End::Broken);
        assert!(is_answer(br#"{"jsonrpc":"2.0","id":7,"result":{}}"#, 7));
        assert!(!is_answer(br#"{"jsonrpc":"2.0","id":8,"result":{}}"#, 7));
        assert!(!is_answer(br#"{"jsonrpc":"2.0","method":"notifications/x"}"#, 7));
    }
}
