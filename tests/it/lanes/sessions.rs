//! What the sessions that we have with a Legacy server are told, and what becomes of them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use futures::future::join_all;
use http::HeaderMap;
use mcpfleet::mcp::LogLevel;
use mcpfleet::upstream::{Endpoint, HttpEndpoint, Owner, Timeouts};
use serde_json::{Value, json};

use super::caller::{Client, principal, ready, session, until};
use super::desk::Desk;
use crate::support::gateway::TestGateway;
use crate::support::upstream;

#[tokio::test]
async fn a_lost_session_is_made_again_once_for_all_calls_of_its_owner() {
    let desk = Desk::start().await;
    let upstream = desk.upstream().await;
    let (a, b) = (Client::asking(session("a")), Client::silent(principal("b")));
    a.text(&upstream, "plain").await;
    b.text(&upstream, "plain").await;
    desk.lost.store(true, Ordering::SeqCst);
    let sessions = join_all((0..4).map(|_| a.text(&upstream, "plain"))).await;
    assert!(sessions.iter().all(|session| session == "s-3"), "{sessions:?}");
    assert_eq!(desk.declared().len(), 4);
}

#[tokio::test]
async fn a_server_logs_what_a_caller_wants_and_is_told_so_once() {
    let desk = Desk::start().await;
    let upstream = desk.upstream().await;
    let client = Client::hearing_logs(session("a"), LogLevel::Info);
    for _ in 0..2 {
        client.text(&upstream, "log").await;
        assert_eq!(client.heard().await["params"]["data"], "s-1");
    }
    for level in [LogLevel::Warning, LogLevel::Error, LogLevel::Debug] {
        Client::hearing_logs(Owner::Nobody, level)
            .text(&upstream, "plain")
            .await;
    }
    let levels = desk.server.seen_of("logging/setLevel").into_iter().map(|seen| {
        let session = seen.header("mcp-session-id").unwrap().to_owned();
        (session, seen.body["params"]["level"].as_str().unwrap().to_owned())
    });
    let expected = [("s-1", "info"), ("s-2", "warning"), ("s-2", "debug")];
    assert_eq!(
        levels.collect::<Vec<_>>(),
        expected.map(|(session, level)| (session.to_owned(), level.to_owned()))
    );
}

#[tokio::test]
async fn changed_roots_are_told_on_the_lanes_of_their_session_only() {
    let desk = Desk::start().await;
    let upstream = desk.upstream().await;
    for client in [
        Client::asking(session("a")),
        Client::silent(session("a")),
        Client::asking(session("b")),
    ] {
        client.text(&upstream, "plain").await;
    }
    upstream.roots_changed(&session("a")).await;
    upstream.roots_changed(&session("c")).await;
    let told = desk.server.seen_of("notifications/roots/list_changed");
    let sessions: Vec<_> = told.iter().map(|seen| seen.header("mcp-session-id")).collect();
    assert_eq!(sessions, [Some("s-1")]);
}

#[tokio::test]
async fn what_a_client_tells_of_its_session_reaches_the_lanes_of_that_session() {
    let desk = Desk::start().await;
    let gateway = TestGateway::ready(&[("s", desk.server.address)]).await;
    let post = async |body: Value, session: Option<&str>| {
        let usual = [
            ("accept", "application/json, text/event-stream"),
            ("mcp-protocol-version", "2025-06-18"),
        ];
        let own = session.map(|session| ("mcp-session-id", session));
        gateway.bare_post(&body.to_string(), usual.into_iter().chain(own)).await
    };
    let mut clients = Vec::new();
    for _ in 0..2 {
        let params = json!({
            "protocolVersion": "2025-06-18", "capabilities": {"roots": {"listChanged": true}},
            "clientInfo": {"name": "c", "version": "1"},
        });
        let opened = post(
            json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params}),
            None,
        )
        .await;
        let client = opened.header("mcp-session-id").unwrap().to_owned();
        let params = json!({"name": "s__t", "arguments": {}});
        let call = json!({"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": params});
        let text = post(call, Some(&client)).await.json()["result"]["content"][0]["text"].clone();
        clients.push((client, text.as_str().unwrap().to_owned()));
    }
    let [(first, lane), (_, other)] = &clients[..] else {
        panic!("{clients:?}");
    };
    assert_ne!(lane, other);
    assert_eq!(desk.declared()[1], json!({"roots": {"listChanged": true}}));

    let changed = json!({"jsonrpc": "2.0", "method": "notifications/roots/list_changed"});
    assert_eq!(post(changed, Some(first)).await.status, 202);
    let told = desk.server.seen_of("notifications/roots/list_changed");
    let sessions: Vec<_> = told.iter().map(|seen| seen.header("mcp-session-id")).collect();
    assert_eq!(sessions, [Some(lane.as_str())]);

    let delete = http::Request::delete(gateway.url()).header("mcp-session-id", first);
    let delete = delete.header("mcp-protocol-version", "2025-06-18");
    gateway.send(delete.body(Default::default()).unwrap()).await;
    let ended = || {
        let seen = desk
            .server
            .seen()
            .into_iter()
            .filter(|seen| seen.http == http::Method::DELETE);
        seen.map(|seen| seen.header("mcp-session-id").unwrap().to_owned())
            .collect::<Vec<_>>()
    };
    until("the server's session is ended", || !ended().is_empty()).await;
    assert_eq!(ended(), std::slice::from_ref(lane));
}

#[tokio::test]
async fn a_server_that_became_modern_meanwhile_is_spoken_to_as_one() {
    let is_new = Arc::new(AtomicBool::new(false));
    let was_replaced = Arc::clone(&is_new);
    let server = upstream::Upstream::start(move |seen| {
        let tools = json!([{"name": "t", "inputSchema": {"type": "object"}}]);
        if was_replaced.load(Ordering::SeqCst) {
            return upstream::modern(seen, &tools);
        }
        upstream::legacy(seen, &tools)
    })
    .await;
    let endpoint = Endpoint::Http(HttpEndpoint {
        url: format!("http://{}/mcp", server.address).parse().unwrap(),
        headers: HeaderMap::new(),
    });
    let upstream = ready(endpoint, Timeouts::default()).await;
    is_new.store(true, Ordering::SeqCst);
    let client = Client::asking(session("a"));
    assert_eq!(client.text(&upstream, "t").await, "t");
    let called = server.seen_of("tools/call").pop().unwrap();
    assert_eq!(called.header("mcp-protocol-version"), Some("2026-07-28"));
    let capabilities = &called.body["params"]["_meta"]["io.modelcontextprotocol/clientCapabilities"];
    assert_eq!(*capabilities, json!({"roots": {}, "elicitation": {"form": {}}}));
}
