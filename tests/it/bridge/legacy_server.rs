//! Legacy servers and Modern clients.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::json;
use tokio::time::sleep;

use super::greeting::{form, modern_call, with};
use crate::support::gateway::TestGateway;
use crate::support::upstream::{self, Answer, Upstream};

/// How often [`asking_legacy_server`] wants a page to be visited before it believes that it was.
const REFUSALS: usize = 4;

/// A Legacy server with a session, whose tool `think` asks its client for a form on the call's own stream, and whose tool
/// `refuse` wants a page to be visited first.
async fn asking_legacy_server() -> Upstream {
    let calls = AtomicUsize::new(0);
    Upstream::start(move |seen| match seen.method() {
        "tools/call" if seen.body["params"]["name"] == "refuse" => {
            let pages = json!([{"mode": "url", "elicitationId": "e", "url": "https://a.example/", "message": "m"}]);
            let error = json!({"code": -32042, "message": "visit first", "data": {"elicitations": pages}});
            if calls.fetch_add(1, Ordering::SeqCst) < REFUSALS {
                Answer::json(200, json!({"jsonrpc": "2.0", "id": seen.body["id"], "error": error}))
            } else {
                seen.result(json!({"content": [{"type": "text", "text": "visited"}]}))
            }
        }
        "tools/call" => {
            let asks = json!({"message": "Name?", "requestedSchema": form()});
            Answer::Stream(vec![
                (
                    Duration::ZERO,
                    json!({"jsonrpc": "2.0", "id": "q-1", "method": "elicitation/create", "params": asks}),
                ),
                (
                    Duration::from_secs(20),
                    json!({"jsonrpc": "2.0", "id": seen.body["id"], "result": {"content": []}}),
                ),
            ])
        }
        "initialize" => seen
            .result(json!({
                "protocolVersion": "2025-11-25", "capabilities": {"tools": {}},
                "serverInfo": {"name": "l", "version": "1"},
            }))
            .with_header("mcp-session-id", "s-1"),
        "" if seen.http == ::http::Method::POST => Answer::status(202),
        _ => upstream::legacy(
            seen,
            &json!(["think", "refuse"].map(|name| json!({"name": name, "inputSchema": {"type": "object"}}))),
        ),
    })
    .await
}

#[tokio::test]
async fn a_legacy_servers_question_is_put_to_a_modern_client_and_its_call_waits() {
    let server = asking_legacy_server().await;
    let gateway = TestGateway::ready(&[("s", server.address)]).await;
    let forms = json!({"elicitation": {}});
    let call = json!({"name": "s__think"});
    let asked = modern_call(&gateway, call.clone(), forms.clone()).await;
    assert_eq!(asked["result"]["resultType"], "input_required", "{asked}");
    let (key, question) = asked["result"]["inputRequests"]
        .as_object()
        .unwrap()
        .iter()
        .next()
        .unwrap();
    assert_eq!(question["params"]["requestedSchema"], form());
    let state = &asked["result"]["requestState"];
    // An answer to something else leaves the question open, under a new state.
    let odd = with(
        call.clone(),
        &json!({"requestState": state, "inputResponses": {"else": {"action": "accept"}}}),
    );
    let again = modern_call(&gateway, odd.clone(), forms.clone()).await;
    assert_eq!(again["result"]["inputRequests"][key], *question, "{again}");
    let spent = modern_call(&gateway, odd, forms.clone()).await;
    assert_eq!(spent["error"]["code"], -32602);
    // What is no answer is refused, and the question stays as it is.
    for wrong in [json!(1), json!({}), json!({"action": "accept", "content": "Ada"})] {
        let spoilt = json!({"requestState": again["result"]["requestState"], "inputResponses": {key.as_str(): wrong}});
        let refused = modern_call(&gateway, with(call.clone(), &spoilt), forms.clone()).await;
        assert_eq!(refused["error"]["code"], -32602, "{refused}");
        assert!(
            refused["error"]["message"].as_str().unwrap().contains("still open"),
            "{refused}"
        );
    }
    let answer = json!({"action": "accept", "content": {"name": "Ada"}});
    let right = json!({"requestState": again["result"]["requestState"], "inputResponses": {key.as_str(): answer}});
    let heard = async || loop {
        let mut seen = server.seen().into_iter();
        if let Some(heard) = seen.find(|seen| seen.body["id"] == "q-1" && seen.method().is_empty()) {
            return heard.body["result"].clone();
        }
        sleep(Duration::from_millis(20)).await;
    };
    // The server takes its time after it has heard the answer.
    let heard = tokio::select! {
        done = modern_call(&gateway, with(call, &right), forms) => panic!("{done}"),
        heard = heard() => heard,
        () = sleep(Duration::from_secs(10)) => panic!("the answer never reaches the server"),
    };
    assert_eq!(heard, answer);
    assert_eq!(server.seen_of("tools/call").len(), 1);
}

#[tokio::test]
async fn pages_that_a_legacy_server_wants_visited_are_put_to_a_modern_client() {
    let server = asking_legacy_server().await;
    let gateway = TestGateway::ready(&[("s", server.address)]).await;
    let call = json!({"name": "s__refuse"});
    let without = modern_call(&gateway, call.clone(), json!({"elicitation": {}})).await;
    assert_eq!(without["error"]["code"], -32603, "{without}");
    let pages = json!({"elicitation": {"url": {}}});
    let asked = modern_call(&gateway, call.clone(), pages.clone()).await;
    let before = server.seen_of("tools/call").len();
    let declined = json!({
        "requestState": asked["result"]["requestState"], "inputResponses": {"page-1": {"action": "decline"}},
    });
    let end = modern_call(&gateway, with(call.clone(), &declined), pages.clone()).await;
    assert_eq!(end["result"]["isError"], true, "{end}");
    assert_eq!(
        server.seen_of("tools/call").len(),
        before,
        "who declined is not asked again"
    );
    let asked = modern_call(&gateway, call.clone(), pages.clone()).await;
    let question = &asked["result"]["inputRequests"]["page-1"];
    assert_eq!(
        question["params"],
        json!({"mode": "url", "url": "https://a.example/", "message": "m"}),
        "{asked}"
    );
    let answer = json!({
        "requestState": asked["result"]["requestState"], "inputResponses": {"page-1": {"action": "accept"}},
    });
    let done = modern_call(&gateway, with(call, &answer), pages).await;
    assert_eq!(done["result"]["content"][0]["text"], "visited", "{done}");
    let calls = server.seen_of("tools/call");
    assert!(
        calls
            .iter()
            .all(|seen| seen.body["params"].get("inputResponses").is_none())
    );
}

#[tokio::test]
async fn what_a_legacy_server_asks_in_vain_and_fails_without_is_named_to_a_modern_client() {
    let server = Upstream::start(|seen| match seen.method() {
        "tools/call" => {
            let fails = seen.body["params"]["name"] == "needs";
            Answer::Stream(vec![
                (Duration::ZERO, json!({
                    "jsonrpc": "2.0", "id": 9, "method": "sampling/createMessage", "params": {"messages": [], "maxTokens": 1},
                })),
                (Duration::from_millis(100), json!({
                    "jsonrpc": "2.0", "id": seen.body["id"], "result": {"content": [], "isError": fails},
                })),
            ])
        }
        "" => Answer::status(202),
        _ => upstream::legacy(
            seen,
            &json!(["needs", "copes"].map(|name| json!({"name": name, "inputSchema": {"type": "object"}}))),
        ),
    })
    .await;
    let gateway = TestGateway::ready(&[("s", server.address)]).await;
    for capabilities in [json!({}), json!({"elicitation": {}})] {
        let needs = modern_call(&gateway, json!({"name": "s__needs"}), capabilities.clone()).await;
        assert_eq!(needs["error"]["code"], -32021, "{capabilities}: {needs}");
        assert_eq!(
            needs["error"]["data"],
            json!({"requiredCapabilities": {"sampling": {}}})
        );
        let copes = modern_call(&gateway, json!({"name": "s__copes"}), capabilities).await;
        assert_eq!(copes["result"]["resultType"], "complete", "{copes}");
    }
    let legacy = gateway.legacy("tools/call", json!({"name": "s__needs"})).await;
    assert_eq!(legacy["result"]["isError"], true, "{legacy}");
}
