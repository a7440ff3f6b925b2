//! What subscriptions are told of tasks whose servers do not tell of them.

use std::collections::BTreeMap;
use std::time::Duration;

use mcpfleet::upstream::{Endpoint, StdioCommand};
use serde_json::{Value, json};

use super::core::{Server, done};
use super::{ask, result, takes_tasks, task_of};
use crate::access::{ALICE, BOB, alice_and_bob, by_key};
use crate::support::event_stream::EventStream;
use crate::support::gateway::{TestGateway, plan};
use crate::support::upstream::Upstream;

/// A subscription to these tasks; gives the stream and which of them were agreed to.
pub(super) async fn listen(
    gateway: &TestGateway,
    names: Value,
    key: Option<(&'static str, &str)>,
) -> (EventStream, Value) {
    let params = json!({"notifications": {"taskIds": names}});
    let mut request = gateway.modern_request(json!("sub"), "subscriptions/listen", params, takes_tasks());
    if let Some((header, key)) = key {
        request.headers_mut().insert(header, key.parse().unwrap());
    }
    let mut stream = EventStream::open(&gateway.client, request).await;
    let acknowledged = stream.next().await;
    assert_eq!(
        acknowledged["method"], "notifications/subscriptions/acknowledged",
        "{acknowledged}"
    );
    (stream, acknowledged["params"]["notifications"].clone())
}

/// The params of what is told next, which must be of the task `name`.
pub(super) async fn told(stream: &mut EventStream, name: &str) -> Value {
    let mut told = stream.next().await;
    assert_eq!(told["method"], "notifications/tasks", "{told}");
    let params = told["params"].take();
    assert_eq!(params["taskId"], name, "{params}");
    let tag = json!({"io.modelcontextprotocol/subscriptionId": "sub"});
    assert_eq!(params["_meta"], tag);
    params
}

fn looks(server: &Upstream) -> usize {
    server.seen_of("tasks/get").len()
}

#[tokio::test]
async fn changes_of_a_task_of_2025_11_25_are_told_in_the_words_of_the_extension() {
    let server = Server::new(&["working", "working", "input_required", "failed"], done());
    let server = server.start().await;
    let gateway = TestGateway::ready(&[("s", server.address)]).await;
    let name = task_of(&gateway, json!({"name": "s__job"})).await;
    let (mut stream, agreed) = listen(&gateway, json!(["forged", name]), None).await;
    assert_eq!(agreed, json!({"taskIds": [name]}));
    // Nothing is asked of the client of such a task, so that nothing is told of what it waits for.
    let over = told(&mut stream, &name).await;
    assert_eq!(over["status"], "completed", "its tool failed, and not the task: {over}");
    assert_eq!(
        over["result"],
        json!({"resultType": "complete", "content": done()["content"], "_meta": {"k": 1}})
    );
    assert_eq!(over["ttlMs"], 60_000, "{over}");
    let asked = looks(&server);
    assert_eq!(stream.message_within(Duration::from_millis(600)).await, None);
    assert_eq!(looks(&server), asked, "one that is over is asked for no more");

    // What it is already is told to who comes later.
    let (mut stream, _) = listen(&gateway, json!([name]), None).await;
    assert_eq!(told(&mut stream, &name).await["status"], "completed");
}

#[tokio::test]
async fn whoever_goes_away_has_tasks_asked_for_no_longer() {
    let server = Server::new(&["working"], done()).start().await;
    let gateway = TestGateway::ready(&[("s", server.address)]).await;
    let name = task_of(&gateway, json!({"name": "s__job"})).await;
    let (mut stream, _) = listen(&gateway, json!([name]), None).await;
    let begun = looks(&server);
    assert_eq!(
        stream.message_within(Duration::from_millis(900)).await,
        None,
        "nothing has changed"
    );
    assert!(looks(&server) > begun);
    drop(stream);
    tokio::time::sleep(Duration::from_millis(400)).await;
    let over = looks(&server);
    tokio::time::sleep(Duration::from_millis(700)).await;
    assert_eq!(looks(&server), over);
}

#[tokio::test]
async fn a_server_that_fails_now_and_then_is_asked_again_and_nobody_hears_of_the_tasks_of_others() {
    let server = Server::new(&["working", "broken", "completed"], done()).start().await;
    let mut gateway = TestGateway::start(by_key(plan(&[("s", server.address)]), alice_and_bob())).await;
    gateway
        .until(|o| !o.servers.is_empty() && o.servers.values().all(|s| s.catalog.is_some()))
        .await;
    let call = json!({"name": "s__job"});
    let made = ask(&gateway, "tools/call", call, takes_tasks(), &[ALICE]).await.json();
    let name = made["result"]["taskId"].as_str().unwrap().to_owned();
    let (_, agreed) = listen(&gateway, json!([name]), Some(BOB)).await;
    assert_eq!(agreed, json!({}));
    let (mut stream, agreed) = listen(&gateway, json!([name]), Some(ALICE)).await;
    assert_eq!(agreed, json!({"taskIds": [name]}));
    assert_eq!(told(&mut stream, &name).await["status"], "completed");
}

#[tokio::test]
async fn changes_of_a_task_that_is_kept_here_are_told_with_its_questions() {
    let server = Server::new(&["working", "input_required"], done()).start().await;
    let gateway = TestGateway::ready(&[("s", server.address)]).await;
    let mut capabilities = takes_tasks();
    capabilities["elicitation"] = json!({"form": {}});
    let made = ask(&gateway, "tools/call", json!({"name": "s__job"}), capabilities, &[]).await;
    let name = made.json()["result"]["taskId"].as_str().unwrap().to_owned();
    let (mut stream, agreed) = listen(&gateway, json!([name]), None).await;
    assert_eq!(agreed, json!({"taskIds": [name]}));
    let asking = told(&mut stream, &name).await;
    assert_eq!(asking["status"], "input_required", "{asking}");
    let (key, question) = asking["inputRequests"].as_object().unwrap().iter().next().unwrap();
    assert_eq!(question["params"]["message"], "Name?");
    let answer = json!({"action": "accept", "content": {"name": "Ada"}});
    result(
        &gateway,
        "tasks/update",
        json!({"taskId": name, "inputResponses": {key: answer}}),
    )
    .await;
    assert_eq!(told(&mut stream, &name).await["status"], "working");
    let over = told(&mut stream, &name).await;
    assert_eq!(over["status"], "completed");
    assert_eq!(over["result"]["content"][0]["text"], "\"Ada\"");
}

/// A Modern server on pipes whose tool becomes a task, which is over at the third look.
const ON_PIPES: &str = r#"
import json, sys
TASKS = {"io.modelcontextprotocol/tasks": {}}
looks = 0
for line in sys.stdin:
    m = json.loads(line)
    method, result = m.get("method"), {"resultType": "complete"}
    task = {"taskId": "p-1", "status": "working", "createdAt": "2026-11-30T10:00:00Z", "lastUpdatedAt": "2026-11-30T10:00:00Z", "ttlMs": None}
    fresh = {"ttlMs": 0, "cacheScope": "private"}
    if "id" not in m: continue
    if method == "server/discover": result.update({"supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}, "extensions": TASKS}}, **fresh)
    elif method == "tools/list": result.update({"tools": [{"name": "job", "inputSchema": {"type": "object"}}]}, **fresh)
    elif method == "tools/call": result = dict(task, resultType="task")
    elif method == "tasks/get" and m["params"]["taskId"] == "p-1":
        looks += 1
        result.update(task, pollIntervalMs=1)
        if looks > 2: result.update({"status": "completed", "result": {"resultType": "complete", "content": [{"type": "text", "text": "over pipes"}]}})
    else:
        print(json.dumps({"jsonrpc": "2.0", "id": m["id"], "error": {"code": -32601, "message": "unknown"}}), flush=True)
        continue
    print(json.dumps({"jsonrpc": "2.0", "id": m["id"], "result": result}), flush=True)
"#;

#[tokio::test]
async fn changes_of_a_task_of_a_modern_server_on_pipes_are_told() {
    let mut input = plan(&[("s", "127.0.0.1:1".parse().unwrap())]);
    input.servers[0].terms.timeouts.connect = Duration::from_secs(30);
    input.servers[0].terms.timeouts.list = Some(Duration::from_secs(30));
    input.servers[0].endpoint = Ok(Endpoint::Stdio(StdioCommand {
        program: "python3".into(),
        args: vec!["-S".into(), "-E".into(), "-c".into(), ON_PIPES.into()],
        env: BTreeMap::new(),
        cwd: None,
    }));
    let mut gateway = TestGateway::start(input).await;
    gateway
        .until(|o| !o.servers.is_empty() && o.servers.values().all(|s| s.catalog.is_some()))
        .await;
    let name = task_of(&gateway, json!({"name": "s__job"})).await;
    let (mut stream, agreed) = listen(&gateway, json!([name]), None).await;
    assert_eq!(agreed, json!({"taskIds": [name]}));
    let over = told(&mut stream, &name).await;
    assert_eq!(over["status"], "completed", "{over}");
    assert_eq!(over["result"]["content"][0]["text"], "over pipes");
    gateway.stop().await;
}
