//! What a process says beside its answers, where several owners' calls go to it.

use std::time::Duration;

use mcpfleet::upstream::{Endpoint, Owner, StdioCommand, Subscription, Timeouts, Upstream};
use serde_json::json;
use tokio::time::{sleep, timeout};

use super::caller::{Client, PATIENCE, ready, session};

const WHILE: Duration = Duration::from_millis(500);

/// A Legacy server that logs late, and whose tool `touch` changes a resource: it tells of it who subscribed to it here.
const PROCESS: &str = r#"
import json, sys, threading, time
lock, subscribed = threading.Lock(), set()
def say(m):
    with lock: print(json.dumps({"jsonrpc": "2.0", **m}), flush=True)
def log(): say({"method": "notifications/message", "params": {"level": "info", "data": "late"}})
def call(m):
    tool = m["params"]["name"]
    if tool == "log_late": threading.Timer(0.3, log).start()
    if tool == "slow": time.sleep(0.8)
    if tool == "touch":
        for uri in sorted(subscribed): say({"method": "notifications/resources/updated", "params": {"uri": uri}})
    text = json.dumps(sorted(subscribed))
    say({"id": m["id"], "result": {"content": [{"type": "text", "text": text}]}})
for line in sys.stdin:
    m = json.loads(line)
    method, id = m.get("method"), m.get("id")
    if method == "initialize":
        say({"id": id, "result": {"protocolVersion": "2025-11-25", "serverInfo": {"name": "s", "version": "1"},
             "capabilities": {"tools": {}, "logging": {}, "resources": {"subscribe": True}}}})
    elif method == "tools/list": say({"id": id, "result": {"tools": []}})
    elif method == "resources/list": say({"id": id, "result": {"resources": []}})
    elif method == "resources/templates/list": say({"id": id, "result": {"resourceTemplates": []}})
    elif method == "tools/call": threading.Thread(target=call, args=(m,), daemon=True).start()
    elif method == "resources/subscribe": subscribed.add(m["params"]["uri"]); say({"id": id, "result": {}})
    elif method == "resources/unsubscribe": subscribed.discard(m["params"]["uri"]); say({"id": id, "result": {}})
    elif method and id is not None: say({"id": id, "error": {"code": -32601, "message": "unknown"}})
"#;

async fn process() -> Upstream {
    let command = StdioCommand {
        program: "python3".into(),
        args: vec!["-c".into(), PROCESS.into()],
        env: Default::default(),
        cwd: None,
    };
    let timeouts = Timeouts {
        connect: PATIENCE,
        ..Timeouts::default()
    };
    ready(Endpoint::Stdio(command), timeouts).await
}

#[tokio::test]
async fn a_late_log_is_heard_by_nobody_but_whom_it_can_be_for() {
    let upstream = process().await;
    let [first, same, other] = ["a", "a", "b"].map(|name| Client::silent(session(name)));
    first.text(&upstream, "log_late").await;
    same.text(&upstream, "slow").await;
    assert_eq!(same.heard().await["params"]["data"], "late");
    first.text(&upstream, "log_late").await;
    other.text(&upstream, "slow").await;
    assert!(!other.has_heard());
    upstream.stop().await;

    let upstream = process().await;
    let [first, second] = [(), ()].map(|()| Client::silent(Owner::Nobody));
    first.text(&upstream, "log_late").await;
    second.text(&upstream, "slow").await;
    assert!(!second.has_heard());
    upstream.stop().await;
}

async fn hears(subscription: &mut Subscription) -> usize {
    let mut count = 0;
    while timeout(WHILE, subscription.updated()).await.is_ok() {
        count += 1;
    }
    count
}

#[tokio::test]
async fn what_a_call_changes_is_told_to_who_subscribed_where_the_call_goes() {
    let upstream = process().await;
    let uri = "a://b";
    // The lane is there before one subscribes, and the other way round.
    let (before, after) = (
        Client::form_filler(session("before")),
        Client::form_filler(session("after")),
    );
    before.text(&upstream, "plain").await;
    let mut of_before = upstream.subscribe(&session("before").into(), uri).await.unwrap();
    let mut of_after = upstream.subscribe(&session("after").into(), uri).await.unwrap();
    let mut of_silent = upstream.subscribe(&session("silent").into(), "a://c").await.unwrap();

    before.text(&upstream, "touch").await;
    assert_eq!((hears(&mut of_before).await, hears(&mut of_after).await), (1, 0));
    after.text(&upstream, "touch").await;
    assert_eq!((hears(&mut of_before).await, hears(&mut of_after).await), (0, 1));

    // Who cannot be asked shares a process, and what changes there is for everybody.
    let silent = Client::silent(session("silent"));
    let subscribed = silent.text(&upstream, "touch").await;
    assert_eq!(subscribed, r#"["a://b", "a://c"]"#);
    let heard = (
        hears(&mut of_silent).await,
        hears(&mut of_before).await,
        hears(&mut of_after).await,
    );
    assert_eq!(heard, (1, 1, 1));

    drop((of_before, of_after));
    sleep(WHILE).await;
    assert_eq!(silent.text(&upstream, "touch").await, r#"["a://c"]"#);
    assert_eq!(after.text(&upstream, "touch").await, json!([]).to_string());
    upstream.stop().await;
}
