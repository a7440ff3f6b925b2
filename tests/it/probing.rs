//! Processes that do not bear the first question.

use std::time::Duration;

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
    Endpoint::Stdio(StdioCommand {
        program: "python3".into(),
        args: vec!["-c".into(), script],
        env: Default::default(),
        cwd: None,
    })
}

async fn connected(when_asked: &str, connect: Duration) -> Duration {
    let terms = Terms {
        timeouts: Timeouts {
            connect,
            ..terms().timeouts
        },
        ..terms()
    };
    let started = Instant::now();
    let held = hold_at(server(when_asked), terms).await;
    let state = held.state().borrow().clone();
    assert_eq!(state.peer.as_ref().unwrap().era(), Era::Legacy, "{when_asked}");
    assert_eq!(state.catalog.as_ref().unwrap().tools.len(), 1, "{when_asked}");
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
