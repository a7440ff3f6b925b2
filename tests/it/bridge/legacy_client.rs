//! Modern servers and Legacy clients.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use mcpfleet::mcp::Revision;
use serde_json::{Value, json};

use super::greeting::{form, modern_server};
use crate::support::gateway::TestGateway;
use crate::support::legacy_client::LegacyClient;
use crate::support::upstream::{self, Answer, Upstream};

#[tokio::test]
async fn a_modern_servers_questions_reach_a_legacy_client_as_requests() {
    let server = modern_server().await;
    let gateway = TestGateway::ready(&[("s", server.address)]).await;
    for (revision, mode, default) in [
        (Revision::V2025_06_18, Value::Null, Value::Null),
        (Revision::V2025_11_25, json!("form"), json!("you")),
    ] {
        let client = LegacyClient::open(&gateway, revision, json!({"elicitation": {}})).await;
        let stranger = LegacyClient::open(&gateway, revision, json!({"elicitation": {}})).await;
        let mut stream = client.call("s__greet").await;
        let asked = client.asked(&mut stream).await;
        assert_eq!(
            (&asked["method"], &asked["params"]["mode"]),
            (&json!("elicitation/create"), &mode)
        );
        assert_eq!(
            asked["params"]["requestedSchema"]["properties"]["name"]["default"],
            default
        );
        let said = json!({"result": {"action": "accept", "content": {"name": "Ada"}}});
        let forged = json!({"result": {"action": "accept", "content": {"name": "Eve"}}});
        assert_eq!(
            stranger.respond(&asked, forged).await,
            202,
            "it is no concern of this session"
        );
        assert_eq!(client.respond(&asked, said).await, 202);
        let done = stream.next().await;
        assert_eq!(done["id"], "q");
        assert_eq!(done["result"]["content"][0]["text"], "Hello Ada", "{done}");
        assert!(done["result"].get("resultType").is_none());
        stream.end().await;
    }
}

#[tokio::test]
async fn a_legacy_client_that_says_no_is_not_taken_for_one_that_says_yes() {
    let server = modern_server().await;
    let gateway = TestGateway::ready(&[("s", server.address)]).await;
    let client = LegacyClient::open(&gateway, Revision::V2025_11_25, json!({"elicitation": {}})).await;
    for (said, told) in [
        (json!({"result": {"action": "decline"}}), json!({"action": "decline"})),
        (
            json!({"error": {"code": -32603, "message": "no window"}}),
            json!({"action": "cancel"}),
        ),
        (json!({"result": "yes"}), json!({"action": "cancel"})),
    ] {
        let mut stream = client.call("s__greet").await;
        let asked = client.asked(&mut stream).await;
        client.respond(&asked, said).await;
        assert_eq!(stream.next().await["result"]["content"][0]["text"], "Hello you");
        let heard = server.seen_of("tools/call").pop().unwrap();
        assert_eq!(heard.body["params"]["inputResponses"]["who"], told);
    }
}

#[tokio::test]
async fn a_server_that_never_stops_asking_is_given_up() {
    let asked = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&asked);
    let server = Upstream::start(move |seen| match seen.method() {
        "tools/call" => {
            let round = count.fetch_add(1, Ordering::SeqCst);
            seen.result(json!({
                "resultType": "input_required", "requestState": round.to_string(),
                "inputRequests": {"where": {"method": "roots/list", "params": {}}},
            }))
        }
        _ => upstream::modern(seen, &json!([{"name": "ask", "inputSchema": {"type": "object"}}])),
    })
    .await;
    let gateway = TestGateway::ready(&[("s", server.address)]).await;
    let client = LegacyClient::open(&gateway, Revision::V2025_11_25, json!({"roots": {}})).await;
    let mut stream = client.call("s__ask").await;
    let mut rounds = 0;
    let end = loop {
        let message = stream.next().await;
        if message["method"] != "roots/list" {
            break message;
        }
        rounds += 1;
        client
            .respond(&message, json!({"result": {"roots": [{"uri": "file:///a"}]}}))
            .await;
    };
    assert_eq!(rounds, 8);
    assert_eq!(end["result"]["isError"], true, "{end}");
    let states: Vec<_> = server
        .seen_of("tools/call")
        .iter()
        .map(|seen| seen.body["params"]["requestState"].clone())
        .collect();
    let expected: Vec<_> = std::iter::once(Value::Null)
        .chain((0..8).map(|round| json!(round.to_string())))
        .collect();
    assert_eq!(states, expected);
}

#[tokio::test]
async fn a_refusal_that_the_server_cannot_be_told_ends_the_call() {
    let server = Upstream::start(|seen| match seen.method() {
        "tools/call" => seen.result(json!({
            "resultType": "input_required",
            "inputRequests": {"think": {"method": "sampling/createMessage", "params": {"messages": [], "maxTokens": 1}}},
        })),
        _ => upstream::modern(seen, &json!([{"name": "ask", "inputSchema": {"type": "object"}}])),
    })
    .await;
    let gateway = TestGateway::ready(&[("s", server.address)]).await;
    let client = LegacyClient::open(&gateway, Revision::V2025_11_25, json!({"sampling": {}})).await;
    let mut stream = client.call("s__ask").await;
    let asked = client.asked(&mut stream).await;
    client
        .respond(
            &asked,
            json!({"error": {"code": -1, "message": "User rejected sampling request"}}),
        )
        .await;
    let end = stream.next().await;
    assert_eq!(end["result"]["isError"], true, "{end}");
    assert!(
        end["result"]["content"][0]["text"]
            .as_str()
            .unwrap()
            .contains("sampling/createMessage")
    );
    assert_eq!(server.seen_of("tools/call").len(), 1);
}

#[tokio::test]
async fn a_wrong_answer_of_a_legacy_client_is_not_given_to_a_modern_server_and_told_to_the_client() {
    let form = json!({"message": "m", "requestedSchema": {"type": "object", "properties": {}}});
    for (method, params, said, why) in [
        (
            "elicitation/create",
            form.clone(),
            json!({"action": "maybe"}),
            "accept, decline or cancel",
        ),
        ("elicitation/create", form, json!("yes"), "must be an object"),
        (
            "sampling/createMessage",
            json!({"messages": [], "maxTokens": 1}),
            json!({"role": "assistant"}),
            "must have a role, and content",
        ),
        ("roots/list", json!({}), json!({"roots": {}}), "must have roots, a list"),
    ] {
        let server = Upstream::start(move |seen| match seen.method() {
            "tools/call" => seen.result(json!({
                "resultType": "input_required", "inputRequests": {"it": {"method": method, "params": params}},
            })),
            _ => upstream::modern(seen, &json!([{"name": "ask", "inputSchema": {"type": "object"}}])),
        })
        .await;
        let gateway = TestGateway::ready(&[("s", server.address)]).await;
        let capabilities = json!({"elicitation": {}, "sampling": {}, "roots": {}});
        let client = LegacyClient::open(&gateway, Revision::V2025_11_25, capabilities).await;
        let mut stream = client.call("s__ask").await;
        let asked = client.asked(&mut stream).await;
        assert_eq!(client.respond(&asked, json!({"result": said})).await, 202);
        let end = stream.next().await;
        assert_eq!(end["result"]["isError"], true, "{end}");
        let text = end["result"]["content"][0]["text"].as_str().unwrap();
        assert!(text.contains(method) && text.contains(why), "{text}");
        assert_eq!(server.seen_of("tools/call").len(), 1, "{method}");
    }
}

#[tokio::test]
async fn a_page_is_known_to_each_side_by_an_id_of_its_own() {
    let server = Upstream::start(|seen| match seen.method() {
        "tools/call" => {
            let page = json!({
                "mode": "url", "message": "Sign in", "url": "https://a.example/in", "elicitationId": "theirs",
            });
            Answer::Stream(vec![
                (Duration::ZERO, json!({"jsonrpc": "2.0", "id": 9, "method": "elicitation/create", "params": page})),
                (Duration::from_millis(300), json!({
                    "jsonrpc": "2.0", "method": "notifications/elicitation/complete", "params": {"elicitationId": "theirs"},
                })),
                (Duration::ZERO, json!({"jsonrpc": "2.0", "id": seen.body["id"], "result": {"content": []}})),
            ])
        }
        "initialize" => seen
            .result(json!({
                "protocolVersion": "2025-11-25", "capabilities": {"tools": {}},
                "serverInfo": {"name": "l", "version": "1"},
            }))
            .with_header("mcp-session-id", "s-1"),
        "" => Answer::status(202),
        _ => upstream::legacy(seen, &json!([{"name": "sign_in", "inputSchema": {"type": "object"}}])),
    })
    .await;
    let gateway = TestGateway::ready(&[("s", server.address)]).await;
    let client = LegacyClient::open(&gateway, Revision::V2025_11_25, json!({"elicitation": {"url": {}}})).await;
    let mut stream = client.call("s__sign_in").await;
    let asked = client.asked(&mut stream).await;
    let ours = asked["params"]["elicitationId"].as_str().unwrap();
    assert_ne!(ours, "theirs");
    client.respond(&asked, json!({"result": {"action": "accept"}})).await;
    let visited = stream.next().await;
    assert_eq!(visited["method"], "notifications/elicitation/complete", "{visited}");
    assert_eq!(visited["params"], json!({"elicitationId": ours}));
    assert_eq!(stream.next().await["id"], "q");
    let answered = server
        .seen()
        .into_iter()
        .find(|seen| seen.body["id"] == 9 && seen.method().is_empty());
    assert_eq!(answered.unwrap().body["result"], json!({"action": "accept"}));
}
