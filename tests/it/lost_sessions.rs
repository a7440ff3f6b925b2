//! Sessions that a Legacy server does not know any more, and streams that nobody reads any more.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use mcpfleet::mcp::{Era, Revision};
use serde_json::{Value, json};
use tokio::time::timeout;

use crate::support::gateway::TestGateway;
use crate::support::held::{Streams, eventually};
use crate::support::upstream::{self, Answer, Seen, Upstream};

const LEGACY: Revision = Revision::LATEST_LEGACY;

fn tools() -> Value {
    json!([{"name": "t", "inputSchema": {"type": "object"}}])
}

/// Answers what names a lost session, each in another way.
const LOST: [fn(&Seen) -> Answer; 4] = [
    |_| Answer::text(404, "text/plain", "Session not found"),
    |_| Answer::text(400, "text/plain", "Bad Request: No valid session ID provided"),
    |_| {
        let error = json!({"code": -32000, "message": "Bad Request: No valid session ID provided"});
        Answer::json(400, json!({"jsonrpc": "2.0", "id": null, "error": error}))
    },
    |_| {
        let error = json!({"code": -32000, "message": "Server not initialized"});
        Answer::json(400, json!({"jsonrpc": "2.0", "id": null, "error": error})).with_header("mcp-session-id", "bogus")
    },
];

/// A server that forgets all sessions of earlier generations.
async fn forgetful(lost: fn(&Seen) -> Answer) -> (Upstream, Arc<AtomicUsize>) {
    let (generation, opened) = (Arc::new(AtomicUsize::new(0)), AtomicUsize::new(0));
    let current = Arc::clone(&generation);
    let server = Upstream::start(move |seen| {
        let prefix = format!("{}-", current.load(Ordering::SeqCst));
        if seen.method() == "initialize" {
            let session = format!("{prefix}{}", opened.fetch_add(1, Ordering::SeqCst));
            let result = json!({
                "protocolVersion": "2025-11-25", "capabilities": {"tools": {}},
                "serverInfo": {"name": "l", "version": "1"},
            });
            return seen.result(result).with_header("mcp-session-id", &session);
        }
        match seen.header("mcp-session-id") {
            Some(session) if !session.starts_with(&prefix) => lost(seen),
            // One that opens a session for whatever comes.
            None => lost(seen),
            Some(_) => upstream::legacy(seen, &tools()),
        }
    })
    .await;
    (server, generation)
}

#[tokio::test]
async fn a_lost_session_is_made_again_for_clients_of_both_eras_however_the_server_says_it() {
    for (number, lost) in LOST.into_iter().enumerate() {
        let (server, generation) = forgetful(lost).await;
        let gateway = TestGateway::ready(&[("s", server.address)]).await;
        let call = json!({"name": "s__t", "arguments": {}});
        for round in 0..3 {
            generation.store(round, Ordering::SeqCst);
            for revision in [LEGACY, Revision::LATEST] {
                let answer = gateway.ask(revision, "tools/call", call.clone()).await;
                assert_eq!(
                    answer["result"]["content"][0]["text"], "t",
                    "{number} {round}: {answer}"
                );
            }
        }
        let bogus = |seen: &Seen| seen.header("mcp-session-id") == Some("bogus");
        assert!(!server.seen().iter().any(bogus), "a session comes of a handshake alone");
        gateway.stop().await;
    }
}

#[tokio::test]
async fn the_catalog_is_read_again_soon_after_a_session_was_lost() {
    let (server, generation) = forgetful(LOST[1]).await;
    let gateway = TestGateway::ready(&[("s", server.address)]).await;
    let call = async || {
        gateway
            .modern("tools/call", json!({"name": "s__t", "arguments": {}}))
            .await
    };
    call().await;
    generation.store(1, Ordering::SeqCst);
    call().await;
    let reads = || {
        let lists = server.seen_of("tools/list").into_iter();
        lists
            .filter(|seen| seen.header("mcp-session-id").is_some_and(|s| s.starts_with("1-")))
            .count()
    };
    eventually("read again", || reads() > 0).await;
}

/// A server whose calls never end.
async fn endless(era: Era) -> (Upstream, Streams) {
    let streams = Streams::default();
    let opened = streams.clone();
    let server = Upstream::start(move |seen| match (seen.method(), era) {
        ("tools/call", _) => opened.open(),
        (_, Era::Legacy) => upstream::legacy(seen, &tools()),
        (_, Era::Modern) => upstream::modern(seen, &tools()),
    })
    .await;
    (server, streams)
}

#[tokio::test]
async fn the_stream_of_a_modern_server_is_closed_when_its_client_disconnects() {
    let (server, streams) = endless(Era::Modern).await;
    let gateway = TestGateway::ready(&[("s", server.address)]).await;
    let call = gateway.modern("tools/call", json!({"name": "s__t", "arguments": {}}));
    let _gone = timeout(Duration::from_millis(500), call).await;
    eventually("closed", || streams.count() == 1 && !streams.is_read(0)).await;

    // The same once the answer is a stream.
    let params = json!({"name": "s__t", "arguments": {}});
    let stream = gateway.modern_events(json!(1), "tools/call", params).await;
    assert!(streams.is_read(1));
    drop(stream);
    eventually("closed", || !streams.is_read(1)).await;
}

#[tokio::test]
async fn the_stream_of_a_modern_server_is_closed_when_a_legacy_client_cancels() {
    let (server, streams) = endless(Era::Modern).await;
    let gateway = TestGateway::ready(&[("s", server.address)]).await;
    let session = gateway.open_session(LEGACY).await;
    let call =
        json!({"jsonrpc": "2.0", "id": "c", "method": "tools/call", "params": {"name": "s__t", "arguments": {}}});
    let cancel = json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": "c"}});
    let calling = gateway.post_events(&session, LEGACY, &call);
    let cancelling = async {
        eventually("called", || streams.count() == 1).await;
        assert!(streams.is_read(0));
        let headers = [
            ("accept", "application/json, text/event-stream"),
            ("mcp-session-id", session.as_str()),
            ("mcp-protocol-version", LEGACY.as_str()),
        ];
        let taken = gateway.bare_post(&cancel.to_string(), headers).await;
        assert_eq!(taken.status, 202);
        eventually("closed", || !streams.is_read(0)).await;
    };
    let calling = timeout(Duration::from_secs(10), calling);
    tokio::join!(
        async {
            let _ended = calling.await;
        },
        cancelling
    );
}
