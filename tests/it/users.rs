//! Users of one Legacy server on standard input and output, which cannot say whom it asks.

use mcpfleet::fleet::UpstreamState;
use mcpfleet::mcp::Revision;
use mcpfleet::upstream::{Endpoint, StdioCommand};
use serde_json::{Value, json};

use crate::support::gateway::{TestGateway, plan};
use crate::support::legacy_client::LegacyClient;

/// `ask` asks for the name of whom the call speaks for, and tells who answered.
const SERVER: &str = r#"
import json, sys, threading, time
lock, asked, count = threading.Lock(), {}, 0
def say(m):
    with lock: print(json.dumps({"jsonrpc": "2.0", **m}), flush=True)
def call(r):
    global count
    count += 1
    id, who = "q-%d" % count, r["params"]["arguments"]["who"]
    asked[id] = [threading.Event(), None]
    form = {"type": "object", "properties": {"name": {"type": "string"}}}
    time.sleep(0.1)
    say({"id": id, "method": "elicitation/create", "params": {"message": who, "requestedSchema": form}})
    asked[id][0].wait(20)
    text = "%s: %s" % (who, (asked[id][1].get("content") or {}).get("name"))
    say({"id": r["id"], "result": {"content": [{"type": "text", "text": text}]}})
for line in sys.stdin:
    r = json.loads(line)
    method = r.get("method")
    if method is None: asked[r["id"]][1] = r.get("result", {}); asked[r["id"]][0].set()
    elif method == "initialize": say({"id": r["id"], "result": {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": {"name": "s", "version": "1"}}})
    elif method == "tools/list": say({"id": r["id"], "result": {"tools": [{"name": "ask", "inputSchema": {"type": "object"}}]}})
    elif method == "tools/call": threading.Thread(target=call, args=(r,), daemon=True).start()
    elif "id" in r: say({"id": r["id"], "error": {"code": -32601, "message": "no"}})
"#;

async fn gateway() -> TestGateway {
    let mut input = plan(&[("s", "127.0.0.1:1".parse().unwrap())]);
    input.servers[0].endpoint = Ok(Endpoint::Stdio(StdioCommand {
        program: "python3".into(),
        args: vec!["-c".into(), SERVER.into()],
        env: Default::default(),
        cwd: None,
    }));
    input.servers[0].terms.timeouts.connect = std::time::Duration::from_secs(20);
    let mut gateway = TestGateway::start(input).await;
    gateway
        .until(|o| o.servers.values().all(|s| s.state == UpstreamState::Ready))
        .await;
    gateway
}

fn forms() -> Value {
    json!({"elicitation": {"form": {}}})
}

/// A person at a Legacy client: every question must be about this person, and is answered with the name.
async fn legacy_user(client: &LegacyClient, who: &str) {
    for round in 0..3 {
        let call = json!({"name": "s__ask", "arguments": {"who": who}});
        let mut stream = client.request("tools/call", call).await;
        let asked = client.asked(&mut stream).await;
        assert_eq!(asked["params"]["message"], who, "round {round}");
        let answer = json!({"action": "accept", "content": {"name": who}});
        client.respond(&asked, json!({"result": answer})).await;
        let end = stream.next().await;
        assert_eq!(end["result"]["content"][0]["text"], format!("{who}: {who}"), "{end}");
        stream.end().await;
    }
}

/// The same at a Modern client that has no name.
async fn modern_user(gateway: &TestGateway, who: &str) {
    for round in 0..3 {
        let mut call = json!({"name": "s__ask", "arguments": {"who": who}});
        let asked = gateway
            .modern_declaring(forms(), "tools/call", call.clone())
            .await
            .pop()
            .unwrap();
        let questions = asked["result"]["inputRequests"]
            .as_object()
            .unwrap_or_else(|| panic!("{who}: {asked}"));
        let [(key, question)] = &questions.iter().collect::<Vec<_>>()[..] else {
            panic!("{asked}")
        };
        assert_eq!(question["params"]["message"], who, "round {round}");
        call["requestState"] = asked["result"]["requestState"].clone();
        call["inputResponses"] = json!({key.as_str(): {"action": "accept", "content": {"name": who}}});
        let end = gateway
            .modern_declaring(forms(), "tools/call", call)
            .await
            .pop()
            .unwrap();
        assert_eq!(end["result"]["content"][0]["text"], format!("{who}: {who}"), "{end}");
    }
}

#[tokio::test]
async fn users_at_the_same_time_are_asked_about_their_own_calls_only() {
    let gateway = gateway().await;
    let revision = Revision::LATEST_LEGACY;
    let (ann, bob) = tokio::join!(
        LegacyClient::open(&gateway, revision, forms()),
        LegacyClient::open(&gateway, Revision::V2025_06_18, json!({"elicitation": {}})),
    );
    tokio::join!(
        legacy_user(&ann, "ann"),
        legacy_user(&bob, "bob"),
        modern_user(&gateway, "cem"),
        modern_user(&gateway, "dora"),
    );
    gateway.stop().await;
}

#[tokio::test]
async fn a_user_who_left_leaves_no_question_to_the_next() {
    let gateway = gateway().await;
    let ann = LegacyClient::open(&gateway, Revision::LATEST_LEGACY, forms()).await;
    let call = json!({"name": "s__ask", "arguments": {"who": "ann"}});
    let mut stream = ann.request("tools/call", call).await;
    ann.asked(&mut stream).await;
    drop(stream);
    let bob = LegacyClient::open(&gateway, Revision::LATEST_LEGACY, forms()).await;
    legacy_user(&bob, "bob").await;
    gateway.stop().await;
}
