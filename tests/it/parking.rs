//! Calls to Legacy servers that wait for the answer of a Modern client: how long, for whom, and how they end; and what
//! the server is told of what a client answered.

use std::collections::BTreeMap;
use std::time::Duration;

use futures::future::join_all;
use mcpfleet::fleet::{PlanInput, UpstreamState};
use mcpfleet::mcp::Revision;
use mcpfleet::upstream::{Endpoint, StdioCommand};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use crate::access::{ALICE, BOB, alice_and_bob, by_key};
use crate::bridge::with;
use crate::support::gateway::{TestGateway, plan};
use crate::support::held::{Streams, eventually};
use crate::support::legacy_client::LegacyClient;
use crate::support::upstream::{self, Answer, Upstream};

/// A Modern client's call, with more in its params.
async fn call(gateway: &TestGateway, tool: &str, more: &Value, key: Option<(&str, &str)>) -> Value {
    let mut params = with(json!({"name": tool}), more);
    params["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {"elicitation": {}, "sampling": {}},
    });
    let headers = [
        ("mcp-protocol-version", "2026-07-28"),
        ("mcp-method", "tools/call"),
        ("mcp-name", tool),
    ];
    let headers: Vec<_> = headers.into_iter().chain(key).collect();
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params});
    gateway.post(body, &headers).await.json()
}

/// The state that continues a call which asks, and an answer to all that it asks.
fn answer_to(asked: &Value) -> Value {
    assert_eq!(asked["result"]["resultType"], "input_required", "{asked}");
    let questions = asked["result"]["inputRequests"].as_object().unwrap();
    let said = questions
        .keys()
        .map(|key| (key.clone(), json!({"action": "accept", "content": {}})));
    let responses: serde_json::Map<_, _> = said.collect();
    json!({"requestState": asked["result"]["requestState"], "inputResponses": responses})
}

/// A server on pipes whose tool asks twice before it answers.
const ASKS: &str = r#"
import json, sys
def say(message): sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n"); sys.stdout.flush()
form = {"message": "Who?", "requestedSchema": {"type": "object", "properties": {}}}
call, asked = None, 0
for line in sys.stdin:
    m = json.loads(line)
    method = m.get("method")
    if method == "initialize":
        say({"id": m["id"], "result": {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": {"name": "asks", "version": "1"}}})
    elif method == "tools/list": say({"id": m["id"], "result": {"tools": [{"name": "ask", "inputSchema": {"type": "object"}}]}})
    elif method == "tools/call" or method is None:
        if method: call, asked = m["id"], 0
        asked += 1
        if asked <= 2: say({"id": "q%d" % asked, "method": "elicitation/create", "params": form})
        else: say({"id": call, "result": {"content": [{"type": "text", "text": "done"}]}})
    elif "id" in m: say({"id": m["id"], "error": {"code": -32601, "message": "unknown"}})
"#;

fn on_pipes() -> PlanInput {
    let mut input = plan(&[("s", "127.0.0.1:1".parse().unwrap())]);
    input.servers[0].terms.timeouts.connect = Duration::from_secs(30);
    input.servers[0].terms.timeouts.list = Some(Duration::from_secs(30));
    input.servers[0].endpoint = Ok(Endpoint::Stdio(StdioCommand {
        program: "python3".into(),
        args: vec!["-S".into(), "-E".into(), "-c".into(), ASKS.into()],
        env: BTreeMap::new(),
        cwd: None,
    }));
    by_key(input, alice_and_bob())
}

async fn ready(input: PlanInput) -> TestGateway {
    let mut gateway = TestGateway::start(input).await;
    gateway
        .until(|o| !o.servers.is_empty() && o.servers.values().all(|server| server.state == UpstreamState::Ready))
        .await;
    gateway
}

#[tokio::test]
async fn calls_of_one_caller_that_wait_lock_nobody_else_out() {
    let gateway = ready(on_pipes()).await;
    let (mut asked, nothing) = (Vec::new(), json!({}));
    for _ in 0..5 {
        asked.extend(join_all((0..8).map(|_| call(&gateway, "s__ask", &nothing, Some(ALICE)))).await);
    }
    let waits: Vec<_> = asked
        .iter()
        .filter(|answer| answer["result"]["resultType"] == "input_required")
        .collect();
    assert!(waits.len() > 8, "{asked:?}");
    let other = call(&gateway, "s__ask", &json!({}), Some(BOB)).await;
    let again = call(&gateway, "s__ask", &answer_to(&other), Some(BOB)).await;
    let done = call(&gateway, "s__ask", &answer_to(&again), Some(BOB)).await;
    assert_eq!(done["result"]["content"][0]["text"], "done", "{done}");
    let gave_way = call(&gateway, "s__ask", &answer_to(waits[0]), Some(ALICE)).await;
    assert_eq!(gave_way["error"]["code"], -32602, "{gave_way}");
    assert!(
        gave_way["error"]["message"].as_str().unwrap().contains("gave way"),
        "{gave_way}"
    );
    let last = call(&gateway, "s__ask", &answer_to(waits[waits.len() - 1]), Some(ALICE)).await;
    answer_to(&last);
    gateway.stop().await;
}

#[tokio::test]
async fn each_round_has_a_state_of_its_own_which_holds_for_its_principal_alone() {
    let gateway = ready(on_pipes()).await;
    let first = call(&gateway, "s__ask", &json!({}), Some(ALICE)).await;
    let stolen = call(&gateway, "s__ask", &answer_to(&first), Some(BOB)).await;
    assert_eq!(stolen["error"]["code"], -32602, "{stolen}");
    let second = call(&gateway, "s__ask", &answer_to(&first), Some(ALICE)).await;
    assert_ne!(answer_to(&first)["requestState"], answer_to(&second)["requestState"]);
    let spent = call(&gateway, "s__ask", &answer_to(&first), Some(ALICE)).await;
    assert_eq!(spent["error"]["code"], -32602, "{spent}");
    let done = call(&gateway, "s__ask", &answer_to(&second), Some(ALICE)).await;
    assert_eq!(done["result"]["content"][0]["text"], "done", "{done}");
    gateway.stop().await;
}

#[tokio::test]
async fn a_call_ends_whose_server_goes_away_while_it_waits() {
    let mut input = on_pipes();
    let mut gateway = ready(input.clone()).await;
    let asked = call(&gateway, "s__ask", &json!({}), Some(ALICE)).await;
    // Held anew, since it is said anew how.
    input.servers[0].terms.timeouts.call = Some(Duration::from_secs(100));
    gateway.input.send_replace(input.into());
    let deadline = Instant::now() + Duration::from_secs(20);
    while !gateway
        .metrics_page()
        .contains(r#"mcpfleet_upstream_lanes{server="default/s"} 0"#)
    {
        assert!(Instant::now() < deadline, "its process goes on");
        sleep(Duration::from_millis(20)).await;
    }
    gateway
        .until(|o| o.servers.values().all(|server| server.state == UpstreamState::Ready))
        .await;
    let over = call(&gateway, "s__ask", &answer_to(&asked), Some(ALICE)).await;
    assert_eq!(over["error"]["code"], -32603, "{over}");
    assert!(over["error"]["message"].as_str().unwrap().contains("\"s\""), "{over}");

    let asked = call(&gateway, "s__ask", &json!({}), Some(ALICE)).await;
    gateway.input.send_replace(by_key(plan(&[]), alice_and_bob()).into());
    gateway.until(|o| o.servers.is_empty()).await;
    let gone = call(&gateway, "s__ask", &answer_to(&asked), Some(ALICE)).await;
    assert_eq!(gone["error"]["code"], -32602, "the tool is not there any more: {gone}");
    gateway.stop().await;
}

#[tokio::test]
async fn a_call_by_http_ends_whose_server_is_edited_or_goes_away_while_it_waits_whatever_the_server_does() {
    let calls = Streams::default();
    let streams = calls.clone();
    // It answers no call, and goes on with them when their session is over.
    let server = Upstream::start(move |seen| match seen.method() {
        "initialize" => {
            let answer = seen.result(json!({
                "protocolVersion": "2025-11-25", "capabilities": {"tools": {}},
                "serverInfo": {"name": "s", "version": "1"},
            }));
            answer.with_header("mcp-session-id", "s-1")
        }
        "tools/list" => seen.result(json!({"tools": [{"name": "ask", "inputSchema": {"type": "object"}}]})),
        "tools/call" => {
            let answer = streams.open();
            let form = json!({"message": "m", "requestedSchema": {"type": "object", "properties": {}}});
            streams.say(json!({"jsonrpc": "2.0", "id": "q", "method": "elicitation/create", "params": form}));
            answer
        }
        "server/discover" => seen.error(200, -32601, "unknown method"),
        _ => Answer::status(202),
    })
    .await;
    let mut input = plan(&[("s", server.address)]);
    let mut gateway = ready(input.clone()).await;
    let asked = call(&gateway, "s__ask", &json!({}), None).await;
    input.servers[0].terms.timeouts.call = Some(Duration::from_secs(100));
    gateway.input.send_replace(input.into());
    eventually("the call is given up", || !calls.is_read(0)).await;
    eventually("and cancelled", || server.seen_of("notifications/cancelled").len() == 1).await;
    let refused = server.seen().into_iter().find(|seen| seen.body["id"] == "q");
    assert_eq!(refused.unwrap().body["result"], json!({"action": "cancel"}));
    gateway
        .until(|o| o.servers.values().all(|server| server.state == UpstreamState::Ready))
        .await;
    let over = call(&gateway, "s__ask", &answer_to(&asked), None).await;
    assert_eq!(over["error"]["code"], -32603, "{over}");
    let text = over["error"]["message"].as_str().unwrap();
    assert!(text.contains("\"s\"") && text.contains("let go of"), "{text}");

    let asked = call(&gateway, "s__ask", &json!({}), None).await;
    gateway.input.send_replace(plan(&[]).into());
    gateway.until(|o| o.servers.is_empty()).await;
    eventually("the other call is given up", || !calls.is_read(1)).await;
    let gone = call(&gateway, "s__ask", &answer_to(&asked), None).await;
    assert_eq!(gone["error"]["code"], -32602, "the tool is not there any more: {gone}");
    gateway.stop().await;
}

#[tokio::test]
async fn a_question_that_is_taken_back_while_its_call_waits_needs_no_answer() {
    let server = Upstream::start(|seen| match seen.method() {
        "tools/call" => {
            let form = json!({"message": "m", "requestedSchema": {"type": "object", "properties": {}}});
            let cancelled = json!({"requestId": "q"});
            let result = json!({"content": [{"type": "text", "text": "without you"}]});
            Answer::Stream(vec![
                (
                    Duration::ZERO,
                    json!({"jsonrpc": "2.0", "id": "q", "method": "elicitation/create", "params": form}),
                ),
                (
                    Duration::from_millis(300),
                    json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": cancelled}),
                ),
                (
                    Duration::from_millis(300),
                    json!({"jsonrpc": "2.0", "id": seen.body["id"], "result": result}),
                ),
            ])
        }
        "" => Answer::status(202),
        _ => upstream::legacy(seen, &json!([{"name": "hasty", "inputSchema": {"type": "object"}}])),
    })
    .await;
    let gateway = TestGateway::ready(&[("s", server.address)]).await;
    let asked = call(&gateway, "s__hasty", &json!({}), None).await;
    sleep(Duration::from_millis(500)).await;
    let done = call(&gateway, "s__hasty", &answer_to(&asked), None).await;
    assert_eq!(done["result"]["content"][0]["text"], "without you", "{done}");
    let heard = server.seen();
    assert!(
        !heard
            .iter()
            .any(|seen| seen.method().is_empty() && seen.body["id"] == "q"),
        "an answer came too late"
    );
}

/// A Legacy server that asks this, and answers when it was told something.
async fn asking(method: &'static str, params: Value) -> Upstream {
    Upstream::start(move |seen| match seen.method() {
        "tools/call" => {
            let asks = json!({"jsonrpc": "2.0", "id": "q", "method": method, "params": params});
            let answer = json!({"jsonrpc": "2.0", "id": seen.body["id"], "result": {"content": []}});
            Answer::Stream(vec![(Duration::ZERO, asks), (Duration::from_millis(700), answer)])
        }
        "" => Answer::status(202),
        _ => upstream::legacy(seen, &json!([{"name": "ask", "inputSchema": {"type": "object"}}])),
    })
    .await
}

/// What the server was told last.
fn heard(server: &Upstream) -> Value {
    let heard = server
        .seen()
        .into_iter()
        .rfind(|seen| seen.method().is_empty() && seen.body["id"] == "q");
    heard.expect("nothing was said").body
}

#[tokio::test]
async fn what_a_legacy_client_answers_to_a_legacy_server_is_passed_on_or_said_to_be_malformed() {
    let form = json!({"message": "m", "requestedSchema": {"type": "object", "properties": {}}});
    let think = json!({"messages": [], "maxTokens": 1});
    let error = json!({"code": -32603, "message": "no window", "data": {"why": 1.5}});
    let refused = json!({"code": -1, "message": "User rejected sampling request"});
    let odd = json!({"role": "assistant", "content": 7.0, "more": {}});
    for (method, params, said, is_passed_on) in [
        ("elicitation/create", &form, json!({"error": error}), true),
        (
            "elicitation/create",
            &form,
            json!({"result": {"action": "maybe"}}),
            true,
        ),
        ("elicitation/create", &form, json!({"result": "yes"}), false),
        ("sampling/createMessage", &think, json!({"error": refused}), true),
        (
            "sampling/createMessage",
            &think,
            json!({"result": {"role": "assistant"}}),
            true,
        ),
        ("sampling/createMessage", &think, json!({"result": odd}), true),
        ("sampling/createMessage", &think, json!({"result": null}), false),
        ("sampling/createMessage", &think, json!({"error": "no"}), false),
        ("roots/list", &json!({}), json!({"result": {"roots": 7}}), true),
        ("roots/list", &json!({}), json!({"result": []}), false),
    ] {
        let server = asking(method, params.clone()).await;
        let gateway = TestGateway::ready(&[("s", server.address)]).await;
        let capabilities = json!({"elicitation": {}, "sampling": {}, "roots": {}});
        let client = LegacyClient::open(&gateway, Revision::V2025_06_18, capabilities).await;
        let mut stream = client.call("s__ask").await;
        let asked = client.asked(&mut stream).await;
        client.respond(&asked, said.clone()).await;
        assert!(stream.next().await["result"].is_object());
        let heard = heard(&server);
        if is_passed_on {
            for part in ["result", "error"] {
                assert_eq!(heard.get(part), said.get(part), "{method}: {said}");
            }
        } else {
            assert_eq!(heard["error"]["code"], -32603, "{method}: {heard}");
            let text = heard["error"]["message"].as_str().unwrap();
            assert!(text.contains("malformed") && text.contains(method), "{text}");
        }
    }
}

#[tokio::test]
async fn what_a_modern_client_answers_that_is_no_answer_of_a_model_is_refused_and_may_be_answered_again() {
    let server = asking("sampling/createMessage", json!({"messages": [], "maxTokens": 1})).await;
    let gateway = TestGateway::ready(&[("s", server.address)]).await;
    let asked = call(&gateway, "s__ask", &json!({}), None).await;
    let mut answer = answer_to(&asked);
    for _ in 0..2 {
        let refused = call(&gateway, "s__ask", &answer, None).await;
        assert_eq!(refused["error"]["code"], -32602, "{refused}");
        let text = refused["error"]["message"].as_str().unwrap();
        assert!(
            text.contains("must have a role") && text.contains("still open"),
            "{text}"
        );
    }
    let said = json!({"role": "assistant", "model": "m", "content": {"type": "text", "text": "t"}});
    for given in answer["inputResponses"].as_object_mut().unwrap().values_mut() {
        given.clone_from(&said);
    }
    let done = call(&gateway, "s__ask", &answer, None).await;
    assert_eq!(done["result"]["resultType"], "complete", "{done}");
    assert_eq!(heard(&server)["result"], said);
}
