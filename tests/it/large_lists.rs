//! Lists that are too large to be copied into each answer: whichever way they go, clients get the same.

use std::time::Duration;

use mcpfleet::defaults;
use mcpfleet::mcp::Revision;
use serde_json::{Value, json};

use crate::support::gateway::TestGateway;
use crate::support::upstream::{self, Answer, Upstream};

const TOOLS: usize = 40;

/// More than goes out at a time, all of them together.
fn tools() -> Value {
    let description = |number: usize| format!("{number}: {}", "very long ".repeat(2_000));
    let tool = |number: usize| json!({"name": format!("t{number:02}"), "description": description(number), "inputSchema": {"type": "object"}});
    let mut all: Vec<Value> = (0..TOOLS).map(tool).collect();
    all.push(json!({"name": "walks", "inputSchema": {"type": "object"}}));
    json!(all)
}

/// A server with those tools, which writes lists in several lines, and tells of progress.
async fn server() -> Upstream {
    let tools = tools();
    Upstream::start(move |seen| match seen.method() {
        "tools/call" => {
            let token = &seen.body["params"]["_meta"]["progressToken"];
            let params = json!({"progressToken": token, "progress": 1});
            let progress = json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": params});
            let result = json!({"content": []});
            let answer = json!({"jsonrpc": "2.0", "id": seen.body["id"], "result": result});
            Answer::Stream(
                [progress, answer]
                    .map(|message| (Duration::from_millis(50), message))
                    .into(),
            )
        }
        "tools/list" => match upstream::legacy(seen, &tools) {
            Answer::Respond { status, headers, body } => Answer::Respond {
                status,
                headers,
                body: body.replace(",\"inputSchema\"", ",\r\n\n  \"inputSchema\""),
            },
            other => other,
        },
        _ => upstream::legacy(seen, &tools),
    })
    .await
}

/// What clients are listed.
fn listed() -> Value {
    let mut tools = tools();
    for tool in tools.as_array_mut().unwrap() {
        tool["name"] = json!(format!("s__{}", tool["name"].as_str().unwrap()));
    }
    tools
}

#[tokio::test]
async fn a_large_list_is_the_same_in_an_answer_and_in_a_batch() {
    let server = server().await;
    let gateway = TestGateway::ready(&[("s", server.address)]).await;
    let listed = listed();
    assert!(listed.to_string().len() > 2 * defaults::FRAME_MAX);
    for revision in [Revision::V2024_11_05, Revision::LATEST_LEGACY, Revision::LATEST] {
        for _ in 0..2 {
            let answer = gateway.ask(revision, "tools/list", json!({})).await;
            assert!(answer["result"]["tools"] == listed, "{revision:?}");
        }
    }
    let list = |id: Value| json!({"jsonrpc": "2.0", "id": id, "method": "tools/list"});
    let ping = json!({"jsonrpc": "2.0", "id": 2, "method": "ping"});
    let version = [("mcp-protocol-version", Revision::V2025_03_26.as_str())];
    let reply = gateway.post(list(json!("a")), &version).await;
    assert_eq!(reply.header("content-length"), Some(&*reply.text.len().to_string()));
    assert!(
        reply.text.contains('\n'),
        "what the server wrote is passed on as it was"
    );
    let batch = json!([list(json!(1)), ping, list(json!("3"))]);
    let reply = gateway.post(batch, &version).await;
    assert_eq!(reply.header("content-length"), Some(&*reply.text.len().to_string()));
    let answers = reply.json();
    let ids: Vec<_> = answers.as_array().unwrap().iter().map(|answer| &answer["id"]).collect();
    assert_eq!(ids, [&json!(1), &json!(2), &json!("3")]);
    assert!(answers[0]["result"]["tools"] == listed && answers[2]["result"]["tools"] == listed);
}

#[tokio::test]
async fn a_large_list_is_one_event_on_a_stream_and_what_follows_it_comes_too() {
    let server = server().await;
    let gateway = TestGateway::ready(&[("s", server.address)]).await;
    let revision = Revision::V2025_03_26;
    let session = gateway.open_session(revision).await;
    let params = json!({"name": "s__walks", "arguments": {}, "_meta": {"progressToken": "p"}});
    let batch = json!([
        {"jsonrpc": "2.0", "id": 1, "method": "tools/list"},
        {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": params},
        {"jsonrpc": "2.0", "id": 3, "method": "tools/list"},
    ]);
    let mut stream = gateway.post_events(&session, revision, &batch).await;
    assert_eq!(stream.content_type(), "text/event-stream");
    let messages = stream.rest().await;
    let ids: Vec<_> = messages.iter().map(|message| &message["id"]).collect();
    assert_eq!(ids, [&Value::Null, &json!(1), &json!(2), &json!(3)]);
    let listed = listed();
    assert!(messages[1]["result"]["tools"] == listed && messages[3]["result"]["tools"] == listed);
}
