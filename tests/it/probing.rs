//! Processes that do not bear the first question.

use std::time::Duration;

use futures::future::join_all;
use mcpfleet::mcp::Era;
use mcpfleet::upstream::{Endpoint, StdioCommand, Terms, Timeouts};
use tokio::time::Instant;

use crate::support::held::{hold_at, terms};

/// A Legacy server that does `when_asked` with a question before the handshake.
fn server(when_asked: &str) -> Endpoint {
    let script = format!(
        r#"
import json, sys
def say(m): print(json.dumps({{"jsonrpc": "2.0", **m}}), flush=True)
for line in sys.stdin:
    m = json.loads(line)
    method, id = m.get("method"), m.get("id")
    if method == "server/discover": {when_asked}
    elif method == "initialize":
        say({{"id": id, "result": {{"protocolVersion": "2025-06-18", "capabilities": {{"tools": {{}}}},
             "serverInfo": {{"name": "s", "version": "1"}}}}}})
    elif method == "tools/list": say({{"id": id, "result": {{"tools": [{{"name": "t", "inputSchema": {{"type": "object"}}}}]}}}})
"#
    );
    python(script)
}

/// A Modern server that takes its time to start, and then answers at once whatever it was asked meanwhile.
fn slow_modern() -> Endpoint {
    python(
        r#"
import json, sys, time
def answer(m):
    method, id = m.get("method"), m.get("id")
    whole = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private"}
    if method == "server/discover":
        return {"id": id, "result": {"supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}}, **whole}}
    if method == "tools/list":
        return {"id": id, "result": {"tools": [{"name": "t", "inputSchema": {"type": "object"}}], **whole}}
    return {"id": id, "error": {"code": -32601, "message": "unknown"}}
def say(*all):
    sys.stdout.write("".join(json.dumps({"jsonrpc": "2.0", **answer(m)}) + "\n" for m in all)); sys.stdout.flush()
time.sleep(5.5)
first = [json.loads(sys.stdin.readline()) for _ in range(2)]
say(*reversed(first))
for line in sys.stdin: say(json.loads(line))
"#
        .to_owned(),
    )
}

fn python(script: String) -> Endpoint {
    Endpoint::Stdio(StdioCommand {
        program: "python3".into(),
        args: vec!["-c".into(), script],
        env: Default::default(),
        cwd: None,
    })
}

async fn connected(when_asked: &str, connect: Duration) -> Duration {
    connected_to(server(when_asked), connect, Era::Legacy).await
}

async fn connected_to(server: Endpoint, connect: Duration, era: Era) -> Duration {
    let what = format!("{server:?}");
    let terms = Terms {
        timeouts: Timeouts {
            connect,
            ..terms().timeouts
        },
        ..terms()
    };
    let started = Instant::now();
    let held = hold_at(server, terms).await;
    let state = held.state().borrow().clone();
    assert_eq!(state.peer.as_ref().unwrap().era(), era, "{what}");
    assert_eq!(state.catalog.as_ref().unwrap().tools.len(), 1, "{what}");
    held.stop().await;
    started.elapsed()
}

#[tokio::test]
async fn a_process_that_dies_of_discovery_is_started_again_and_offered_the_handshake_alone() {
    for dying in ["sys.exit(3)", "raise RuntimeError(method)", "sys.stdout.close(); break"] {
        connected(dying, Duration::from_secs(8)).await;
    }
}

#[tokio::test]
async fn a_process_that_refuses_discovery_is_offered_the_handshake() {
    let refusal = r#"say({"id": id, "error": {"code": -32601, "message": "unknown"}})"#;
    assert!(connected(refusal, Duration::from_secs(8)).await < Duration::from_secs(5));
}

#[tokio::test]
async fn a_process_that_ignores_discovery_is_offered_the_handshake_beside_it() {
    assert!(connected("pass", Duration::from_secs(9)).await >= Duration::from_secs(5));
}

#[tokio::test]
async fn a_process_that_is_too_slow_for_both_is_offered_the_handshake_alone() {
    connected("pass", Duration::from_secs(3)).await;
}

#[tokio::test]
async fn a_process_that_is_slow_to_start_is_taken_for_what_it_says_to_discovery() {
    join_all((0..4).map(|_| connected_to(slow_modern(), Duration::from_secs(9), Era::Modern))).await;
}

#[tokio::test]
async fn a_process_that_dies_late_of_discovery_is_started_again() {
    let dying = "import time; time.sleep(5.5); sys.exit(3)";
    join_all((0..4).map(|_| connected(dying, Duration::from_secs(9)))).await;
}
