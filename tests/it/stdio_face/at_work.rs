//! Requests at work: what is asked meanwhile, what is cancelled, and the host's way of leaving.

use std::process::Stdio;
use std::time::Duration;

use mcpfleet::mcp::Revision;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;
use tempfile::TempDir;
use tokio::process::Command;
use tokio::time::{Instant, timeout};

use super::host::{Host, LIMIT, fleet};

#[tokio::test]
async fn a_host_that_leaves_before_it_said_anything_waits_for_no_server() {
    let files = TempDir::new().unwrap();
    let path = files.path().join("mcp.json");
    let slow = json!({"mcpServers": {"s": {"command": "sleep", "args": ["60"]}}});
    std::fs::write(&path, slow.to_string()).unwrap();
    let started = Instant::now();
    let host = Host::start_with(files, &["up".as_ref(), "--stdio".as_ref(), path.as_os_str()]);
    let (status, rest) = host.leave().await;
    assert!(status.success() && rest.is_empty(), "{status} {rest:?}");
    // A server may be given five seconds to start, and three to stop.
    assert!(
        started.elapsed() < Duration::from_millis(4_800),
        "{:?}",
        started.elapsed()
    );
}

#[tokio::test]
async fn subscriptions_take_no_places_of_requests() {
    let mut host = Host::start();
    for id in 1..=130 {
        let params = json!({"notifications": {"toolsListChanged": true}});
        host.modern(id, "subscriptions/listen", params).await;
        assert_eq!(host.next().await["method"], "notifications/subscriptions/acknowledged");
    }
    host.modern(
        200,
        "tools/call",
        json!({"name": "s__echo", "arguments": {"text": "a"}}),
    )
    .await;
    assert_eq!(host.next().await["result"]["content"][0]["text"], "a");
}

#[tokio::test]
async fn the_host_is_asked_what_a_server_asks() {
    let mut host = Host::start();
    host.initialize(Revision::V2025_11_25, json!({"elicitation": {}})).await;
    host.legacy(1, "tools/call", json!({"name": "s__ask", "arguments": {}}))
        .await;
    let question = host.next().await;
    assert_eq!(question["method"], "elicitation/create");
    let answer = json!({"action": "accept", "content": {"name": "Ada"}});
    host.write(&json!({"jsonrpc": "2.0", "id": question["id"], "result": answer}).to_string())
        .await;
    let answer = host.next().await;
    assert!(
        answer["result"]["content"][0]["text"].as_str().unwrap().contains("Ada"),
        "{answer}"
    );
}

#[tokio::test]
async fn requests_of_both_eras_are_cancelled_and_have_no_answer() {
    let mut host = Host::start();
    host.initialize(Revision::V2025_11_25, json!({})).await;
    host.legacy(1, "tools/call", json!({"name": "s__slow"})).await;
    host.modern(2, "tools/call", json!({"name": "s__slow"})).await;
    // Other requests do not wait.
    assert_eq!(host.call(3, "echo", json!({"text": "a"})).await, "a");
    for id in [1, 2] {
        host.send(json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id}}))
            .await;
    }
    let mut calls = 10..40;
    while host.call(calls.next().expect("not told"), "cancelled", json!({})).await != "2" {
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let (status, rest) = host.leave().await;
    assert!(status.success() && rest.is_empty(), "{rest:?}");
}

#[tokio::test]
async fn a_cancellation_right_behind_its_request_is_not_missed() {
    let mut host = Host::start();
    let listen = json!({"jsonrpc": "2.0", "id": 1, "method": "subscriptions/listen", "params": {
        "notifications": {"toolsListChanged": true}, "_meta": {
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": {}}}});
    let cancelled = json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}});
    host.write(&format!("{listen}\n{cancelled}")).await;
    let (status, rest) = host.leave().await;
    assert!(status.success());
    assert!(rest.iter().all(|message| message.get("result").is_none()), "{rest:?}");
}

#[tokio::test]
async fn a_host_that_does_not_read_holds_up_no_server_and_still_gets_its_answers() {
    let mut host = Host::start();
    host.initialize(Revision::V2025_11_25, json!({})).await;
    let params = json!({"name": "s__loud", "arguments": {"times": 3000}, "_meta": {"progressToken": "t"}});
    host.legacy(1, "tools/call", params).await;
    // Twelve megabytes come meanwhile, and the pipe holds a fraction of one.
    tokio::time::sleep(Duration::from_secs(3)).await;
    let mut heard = 0;
    let answer = loop {
        let message = host.next().await;
        if message["id"] == 1 {
            break message;
        }
        heard += 1;
    };
    assert_eq!(answer["result"]["content"][0]["text"], "done");
    assert!((1..3000).contains(&heard), "{heard}");
    assert_eq!(host.call(2, "echo", json!({"text": "b"})).await, "b");
}

#[tokio::test]
async fn it_ends_when_it_is_asked_to_whatever_is_at_work() {
    let mut host = Host::start();
    host.initialize(Revision::V2025_11_25, json!({})).await;
    host.legacy(1, "tools/call", json!({"name": "s__slow"})).await;
    host.legacy(2, "ping", json!({})).await;
    host.next().await;
    let pid = Pid::from_raw(host.child.id().unwrap().cast_signed()).unwrap();
    kill_process(pid, Signal::TERM).unwrap();
    let ended = timeout(Duration::from_secs(10), host.child.wait()).await;
    assert!(ended.expect("it does not end").unwrap().success());
}

#[tokio::test]
async fn a_host_that_is_gone_is_followed_though_nobody_reads_what_is_logged() {
    let files = fleet();
    let mut child = Command::new(env!("CARGO_BIN_EXE_mcpfleet"))
        .args(["up", "--stdio"])
        .arg(files.path().join("mcp.json"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    drop(child.stderr.take());
    drop(child.stdout.take());
    drop(child.stdin.take());
    let ended = timeout(LIMIT, child.wait()).await.expect("it does not end");
    assert!(ended.unwrap().success());
}
