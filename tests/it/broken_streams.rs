//! Answers whose stream breaks off: read on where the server can, sent again where that does no harm, and told
//! otherwise.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use ::http::Method;
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::support::gateway::TestGateway;
use crate::support::upstream::{self, Answer, Seen, Upstream};

fn tools() -> Value {
    json!([
        {"name": "writes", "inputSchema": {"type": "object"}},
        {"name": "reads", "inputSchema": {"type": "object"}, "annotations": {"readOnlyHint": true}},
        {"name": "settles", "inputSchema": {"type": "object"}, "annotations": {"idempotentHint": true, "title": "x"}},
    ])
}

/// A stream that ends before the answer.
fn cut(events: &str) -> Answer {
    Answer::text(200, "text/event-stream", format!(": hello\n\n{events}"))
}

fn answer_event(id: &Value) -> String {
    let result = json!({"content": [{"type": "text", "text": "late"}]});
    let message = json!({"jsonrpc": "2.0", "id": id, "result": result});
    format!("id: e-9\ndata: {message}\n\n")
}

#[tokio::test]
async fn only_calls_that_may_be_made_twice_are_sent_again_and_only_once() {
    let calls = AtomicUsize::new(0);
    let server = Upstream::start(move |seen| match seen.method() {
        // Every first one of two breaks off.
        "tools/call" if calls.fetch_add(1, Ordering::SeqCst).is_multiple_of(2) => cut(""),
        _ => upstream::modern(seen, &tools()),
    })
    .await;
    let gateway = TestGateway::ready(&[("s", server.address)]).await;
    for name in ["reads", "settles"] {
        let answer = gateway
            .modern("tools/call", json!({"name": format!("s__{name}")}))
            .await;
        assert_eq!(answer["result"]["content"][0]["text"], name);
    }
    let answer = gateway.modern("tools/call", json!({"name": "s__writes"})).await;
    assert_eq!(answer["error"]["code"], -32603);
    let text = answer["error"]["message"].as_str().unwrap();
    assert!(text.contains("whether it did what was asked is not known"), "{text}");
    let sent = server.seen_of("tools/call");
    assert_eq!(sent.len(), 5);
    assert_ne!(sent[0].body["id"], sent[1].body["id"], "as a request of its own");
    assert!(server.seen().iter().all(|seen| seen.http == Method::POST));
}

#[tokio::test]
async fn a_call_that_breaks_off_twice_fails() {
    let server = Upstream::start(|seen| match seen.method() {
        "tools/call" => cut(""),
        _ => upstream::modern(seen, &tools()),
    })
    .await;
    let gateway = TestGateway::ready(&[("s", server.address)]).await;
    let answer = gateway.modern("tools/call", json!({"name": "s__reads"})).await;
    assert_eq!(answer["error"]["code"], -32603);
    assert_eq!(server.seen_of("tools/call").len(), 2);
}

/// A Legacy server whose calls break off behind the event `e-5`, and what goes on behind it.
async fn legacy(rest: impl Fn(usize, &Seen) -> Answer + Send + Sync + 'static) -> (TestGateway, Upstream) {
    let resumed = AtomicUsize::new(0);
    let server = Upstream::start(move |seen| match (seen.http.clone(), seen.method()) {
        (_, "tools/call") => cut(&format!("id: e-5\nretry: 1\ndata:\n\n: {}\n\n", seen.body["id"])),
        (Method::GET, _) if seen.header("last-event-id").is_some() => {
            rest(resumed.fetch_add(1, Ordering::SeqCst), seen)
        }
        (Method::GET, _) => Answer::status(405),
        _ => upstream::legacy(seen, &tools()),
    })
    .await;
    (TestGateway::ready(&[("s", server.address)]).await, server)
}

fn resumptions(server: &Upstream) -> Vec<Seen> {
    let seen = server.seen().into_iter();
    seen.filter(|seen| seen.http == Method::GET && seen.header("last-event-id").is_some())
        .collect()
}

#[tokio::test]
async fn a_legacy_stream_goes_on_behind_its_last_event() {
    let (gateway, server) = legacy(|number, _| match number {
        0 => cut("id: e-6\ndata:\n\n"),
        1 => Answer::status(503),
        // Ids of calls on a connection are counted; this test makes one call, whose id is known from the script.
        _ => cut(&(4..20).map(|id| answer_event(&json!(id))).collect::<String>()),
    })
    .await;
    let begun = Instant::now();
    let answer = gateway.legacy("tools/call", json!({"name": "s__writes"})).await;
    assert_eq!(answer["result"]["content"][0]["text"], "late");
    assert!(
        begun.elapsed() >= Duration::from_millis(300),
        "a pause before each of three tries"
    );
    let after: Vec<_> = resumptions(&server)
        .iter()
        .map(|seen| seen.header("last-event-id").unwrap().to_owned())
        .collect();
    assert_eq!(after, ["e-5", "e-6", "e-6"]);
    assert!(
        resumptions(&server)
            .iter()
            .all(|seen| seen.header("mcp-session-id") == Some("s-1"))
    );
    assert_eq!(server.seen_of("tools/call").len(), 1);
}

#[tokio::test]
async fn a_legacy_stream_that_does_not_go_on_is_given_up() {
    for (status, tries) in [(404, 1), (503, 5)] {
        let (gateway, server) = legacy(move |_, _| Answer::status(status)).await;
        let answer = gateway.legacy("tools/call", json!({"name": "s__writes"})).await;
        assert_eq!(answer["error"]["code"], -32603, "{answer}");
        assert_eq!(resumptions(&server).len(), tries, "{status}");
        assert_eq!(
            server.seen_of("tools/call").len(),
            1,
            "nobody knows whether it was done"
        );
    }
}
