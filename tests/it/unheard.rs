//! Servers that tell of no changes: served beside the others all the same, without a word to clients.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use ::http::Method;
use mcpfleet::mcp::Revision;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use crate::support::gateway::TestGateway;
use crate::support::held::{Streams, streams_asked_for};
use crate::support::upstream::{self, Answer, Upstream};

fn tool(name: &str) -> Value {
    json!({"name": name, "inputSchema": {"type": "object"}})
}

/// A Legacy server that answers like this where it is asked for its stream.
async fn server(stream: impl Fn() -> Answer + Send + Sync + 'static) -> Upstream {
    Upstream::start(move |seen| match (seen.http.clone(), seen.method()) {
        (Method::GET, _) => stream(),
        (_, "initialize") => seen
            .result(json!({
                "protocolVersion": "2025-11-25", "capabilities": {"tools": {"listChanged": true}},
                "serverInfo": {"name": "l", "version": "1"},
            }))
            .with_header("mcp-session-id", "s-1"),
        _ => upstream::legacy(seen, &json!([tool("t")])),
    })
    .await
}

#[tokio::test]
async fn servers_without_a_stream_or_with_a_broken_one_are_listed_throughout_and_nobody_is_told_anything() {
    let none = [
        server(|| Answer::status(405)).await,
        server(|| Answer::status(404)).await,
        server(|| Answer::text(200, "text/html", "<html>")).await,
    ];
    let broken = server(|| {
        let (stream, answer) = Answer::live();
        tokio::spawn(async move {
            sleep(Duration::from_secs(1)).await;
            drop(stream);
        });
        answer
    })
    .await;
    let streams = Streams::default();
    let open = streams.clone();
    let fine = server(move || open.open()).await;
    let members = [
        ("a", none[0].address),
        ("b", none[1].address),
        ("c", none[2].address),
        ("d", broken.address),
        ("e", fine.address),
    ];
    let gateway = TestGateway::ready(&members).await;
    // That they joined is told by then.
    sleep(Duration::from_secs(1)).await;
    let legacy = Revision::LATEST_LEGACY;
    let session = gateway.open_session(legacy).await;
    let mut own = gateway.get_events(&session, legacy, None).await;
    let wanted = json!({"toolsListChanged": true, "resourcesListChanged": true, "promptsListChanged": true});
    let listen = json!({"notifications": wanted});
    let mut listened = gateway.modern_events(json!(1), "subscriptions/listen", listen).await;
    listened.next().await;
    let all: Value = ["a", "b", "c", "d", "e"].map(|name| tool(&format!("{name}__t"))).into();
    let ends = Instant::now() + Duration::from_millis(4500);
    while Instant::now() < ends {
        let listed = gateway.ask(legacy, "tools/list", json!({})).await;
        assert_eq!(listed["result"]["tools"], all);
        sleep(Duration::from_millis(50)).await;
    }
    assert_eq!(own.message_within(Duration::from_millis(10)).await, None);
    assert_eq!(listened.message_within(Duration::from_millis(10)).await, None);
    for server in &none {
        assert_eq!(streams_asked_for(server).len(), 1);
    }
    let asked = streams_asked_for(&broken).len();
    assert!((2..=4).contains(&asked), "with longer and longer pauses: {asked}");
    assert_eq!(streams_asked_for(&fine).len(), 1);
}

#[tokio::test]
async fn a_modern_server_that_cannot_be_listened_to_is_read_again_when_its_lists_are_old() {
    let grown = Arc::new(AtomicBool::new(false));
    let has_grown = Arc::clone(&grown);
    let server = Upstream::start(move |seen| {
        let tools = if has_grown.load(Ordering::SeqCst) {
            json!([tool("t"), tool("u")])
        } else {
            json!([tool("t")])
        };
        match seen.method() {
            "server/discover" => seen.result(json!({
                "resultType": "complete", "supportedVersions": ["2026-07-28"], "ttlMs": 0, "cacheScope": "private",
                "capabilities": {"tools": {"listChanged": true}},
            })),
            _ => upstream::modern(seen, &tools),
        }
    })
    .await;
    let gateway = TestGateway::ready(&[("s", server.address)]).await;
    grown.store(true, Ordering::SeqCst);
    let deadline = Instant::now() + Duration::from_secs(75);
    while gateway.modern("tools/list", json!({})).await["result"]["tools"]
        .as_array()
        .unwrap()
        .len()
        == 1
    {
        assert!(Instant::now() < deadline, "it is never read again");
        sleep(Duration::from_millis(500)).await;
    }
    assert!(
        server.seen_of("subscriptions/listen").len() <= 2,
        "it is not asked again and again"
    );
    assert_eq!(server.seen_of("server/discover").len(), 1, "its era is known");
    assert_eq!(server.seen_of("initialize").len(), 0);
    assert!(
        !gateway.metrics_page().contains("mcpfleet_upstream_failures_total{"),
        "nothing failed"
    );
}
