//! A host with as many requests at work as there may be.

use mcpfleet::mcp::Revision;
use serde_json::{Value, json};
use tempfile::TempDir;

use super::host::Host;

/// A Legacy server. `ask` asks its client for its roots and tells them, `slow` never answers.
const SERVER: &str = r#"
import json, sys
def send(m): print(json.dumps({"jsonrpc": "2.0", **m}), flush=True)
def text(id, text): send({"id": id, "result": {"content": [{"type": "text", "text": text}]}})
asked = {}
for line in sys.stdin:
    r = json.loads(line)
    method = r.get("method")
    if method is None: text(asked.pop(r["id"]), json.dumps(r["result"]))
    elif "id" not in r: pass
    elif method == "initialize": send({"id": r["id"], "result": {"protocolVersion": "2025-06-18", "serverInfo": {"name": "s", "version": "1"}, "capabilities": {"tools": {}}}})
    elif method == "tools/list": send({"id": r["id"], "result": {"tools": [{"name": t, "inputSchema": {"type": "object"}} for t in ["ask", "slow"]]}})
    elif method == "tools/call":
        if r["params"]["name"] == "ask":
            asked["q"] = r["id"]
            send({"id": "q", "method": "roots/list"})
    else: send({"id": r["id"], "error": {"code": -32601, "message": "no"}})
"#;

/// So many requests may be at work.
const MOST: u32 = 128;

/// A host whose places are all taken, with what it was asked meanwhile.
async fn crowded() -> (Host, Value) {
    let files = TempDir::new().unwrap();
    let (server, manifest) = (files.path().join("server.py"), files.path().join("mcp.json"));
    std::fs::write(&server, SERVER).unwrap();
    let fleet = json!({"mcpServers": {"s": {"command": "python3", "args": [server]}}});
    std::fs::write(&manifest, fleet.to_string()).unwrap();
    let mut host = Host::start_with(files, &["up".as_ref(), "--stdio".as_ref(), manifest.as_os_str()]);
    host.initialize(Revision::V2025_03_26, json!({"roots": {}})).await;
    host.legacy(1, "tools/call", json!({"name": "s__ask"})).await;
    for id in 2..=MOST {
        host.legacy(id, "tools/call", json!({"name": "s__slow"})).await;
    }
    let question = host.next().await;
    assert_eq!(question["method"], "roots/list", "{question}");
    (host, question)
}

fn refuses(answer: &Value, id: u32) {
    let text = answer["error"]["message"].as_str().unwrap_or_default();
    assert!(answer["id"] == id && text.contains("at work already"), "{answer}");
}

#[tokio::test]
async fn its_requests_are_refused_alone_and_in_batches_and_its_answers_are_taken() {
    let (mut host, question) = crowded().await;
    host.legacy(200, "ping", json!({})).await;
    refuses(&host.next().await, 200);
    let ping = |id: u32| json!({"jsonrpc": "2.0", "id": id, "method": "ping"});
    let roots = json!({"roots": [{"uri": "file:///a"}]});
    let answer = json!({"jsonrpc": "2.0", "id": question["id"], "result": roots});
    host.asked.extend([ping(201), ping(202)]);
    host.write(&json!([ping(201), answer, ping(202)]).to_string()).await;
    // The call goes on meanwhile.
    let (mut told, mut refused) = (None, None);
    for _ in 0..2 {
        match host.next().await {
            Value::Array(answers) => refused = Some(answers),
            answer => told = Some(answer),
        }
    }
    let refused = refused.unwrap();
    assert_eq!(refused.len(), 2);
    refuses(&refused[0], 201);
    refuses(&refused[1], 202);
    let told = told.unwrap();
    let text = told["result"]["content"][0]["text"].as_str().unwrap();
    assert!(told["id"] == 1 && text.contains("file:///a"), "{told}");
    // Its place is free.
    host.legacy(203, "ping", json!({})).await;
    assert_eq!(host.next().await["result"], json!({}));
}

#[tokio::test]
async fn a_batch_that_asks_waits_for_nothing_and_cancels_what_it_names() {
    let (mut host, question) = crowded().await;
    let call = json!({"jsonrpc": "2.0", "id": 201, "method": "tools/call", "params": {"name": "s__slow"}});
    let cancel = json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 2}});
    host.asked.push(call.clone());
    host.write(&json!([call, cancel]).to_string()).await;
    refuses(&host.next().await[0], 201);
    host.legacy(202, "ping", json!({})).await;
    assert_eq!(host.next().await["result"], json!({}), "there is room again");
    let answer = json!({"jsonrpc": "2.0", "id": question["id"], "result": {"roots": []}});
    host.write(&json!([answer]).to_string()).await;
    assert_eq!(host.next().await["id"], 1);
}
