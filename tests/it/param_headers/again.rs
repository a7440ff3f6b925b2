//! A server that refuses the headers is read again, and called once more.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use serde_json::json;

use super::route::{call, route};
use crate::support::gateway::TestGateway;
use crate::support::upstream::{self, Upstream};

#[tokio::test]
async fn a_server_that_wants_other_headers_than_it_said_is_asked_again_and_called_once_more() {
    let plain = json!([{"name": "route", "inputSchema": {"type": "object"}}]);
    let annotated = Arc::new(AtomicBool::new(false));
    let now = Arc::clone(&annotated);
    let server = Upstream::start(move |seen| match seen.method() {
        "tools/call" if seen.header("mcp-param-region") != Some("us") => {
            now.store(true, Ordering::SeqCst);
            seen.error(400, -32020, "Mcp-Param-Region is missing")
        }
        _ if now.load(Ordering::SeqCst) => upstream::modern(seen, &json!([route()])),
        _ => upstream::modern(seen, &plain),
    })
    .await;
    let gateway = TestGateway::ready(&[("s", server.address)]).await;
    let reply = call(&gateway, "s__route", json!({"region": "us"}), &[]).await;
    assert_eq!(reply.json()["result"]["content"][0]["text"], "route", "{}", reply.text);
    assert_eq!(server.seen_of("tools/call").len(), 2);
    assert_eq!(server.seen_of("tools/list").len(), 2, "one at the start, one for this");
    assert!(annotated.load(Ordering::SeqCst));
}

#[tokio::test]
async fn a_server_that_refuses_headers_for_good_is_named_as_the_cause() {
    let server = Upstream::start(|seen| match seen.method() {
        "tools/call" => seen.error(400, -32020, "no header pleases me"),
        _ => upstream::modern(seen, &json!([route()])),
    })
    .await;
    let gateway = TestGateway::ready(&[("s", server.address)]).await;
    let arguments = json!({"region": "us"});
    // Many at once share one reading.
    let sent: &[(&str, &[u8])] = &[("Mcp-Param-Region", b"us")];
    let calls = (0..8).map(|_| call(&gateway, "s__route", arguments.clone(), sent));
    for reply in futures::future::join_all(calls).await {
        let error = reply.json()["error"].take();
        assert_eq!(
            (reply.status, &error["code"], &error["message"]),
            (200, &json!(-32603), &json!("no header pleases me")),
            "the client's own headers were right"
        );
        assert_eq!(error["data"]["upstream"]["code"], -32020);
    }
    assert_eq!(server.seen_of("tools/call").len(), 16, "each is sent twice at most");
    assert!(server.seen_of("tools/list").len() <= 3);
}

#[tokio::test]
async fn a_tool_that_is_gone_after_the_reading_is_not_called_again() {
    let calls = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&calls);
    let server = Upstream::start(move |seen| match seen.method() {
        "tools/call" => {
            count.fetch_add(1, Ordering::SeqCst);
            seen.error(400, -32020, "gone")
        }
        _ if count.load(Ordering::SeqCst) > 0 => upstream::modern(seen, &json!([])),
        _ => upstream::modern(seen, &json!([route()])),
    })
    .await;
    let gateway = TestGateway::ready(&[("s", server.address)]).await;
    let answer = gateway
        .legacy("tools/call", json!({"name": "s__route", "arguments": {"region": "us"}}))
        .await;
    assert_eq!(answer["error"]["code"], -32603);
    assert_eq!(calls.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn only_modern_servers_over_http_and_only_calls_of_tools_are_tried_again() {
    let server = Upstream::start(|seen| match seen.method() {
        "tools/call" => seen.error(200, -32020, "odd for a Legacy server"),
        _ => upstream::legacy(seen, &json!([route()])),
    })
    .await;
    let prompts = Upstream::start(|seen| match seen.method() {
        "server/discover" => seen.result(json!({
            "resultType": "complete", "supportedVersions": ["2026-07-28"], "capabilities": {"prompts": {}},
        })),
        "prompts/list" => seen.result(json!({"resultType": "complete", "prompts": [{"name": "p"}]})),
        _ => seen.error(400, -32020, "odd for a prompt"),
    })
    .await;
    let gateway = TestGateway::ready(&[("s", server.address), ("p", prompts.address)]).await;
    let answer = gateway
        .legacy("tools/call", json!({"name": "s__route", "arguments": {"region": "us"}}))
        .await;
    assert_eq!(answer["error"]["code"], -32603);
    let answer = gateway.legacy("prompts/get", json!({"name": "p__p"})).await;
    assert_eq!(answer["error"]["code"], -32603);
    assert_eq!(server.seen_of("tools/call").len(), 1);
    assert_eq!(prompts.seen_of("prompts/get").len(), 1);
}
