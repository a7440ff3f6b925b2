//! What callers present is told to nobody else.

use std::path::PathBuf;
use std::time::Duration;

use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::time::{Instant, sleep};

use super::desk::{ALICE, LEGACY, names, two};
use crate::support::http;
use crate::support::up::Up;
use crate::support::upstream::{Answer, Upstream};

#[tokio::test]
async fn nothing_that_goes_on_is_logged_or_shown() {
    let server = two().modern().await;
    let failing = Upstream::start(|_| Answer::status(503)).await;
    let files = TempDir::new().unwrap();
    let path: PathBuf = files.path().join("fleet.yaml");
    let manifest = |name: &str, address| {
        format!(
            "apiVersion: mcpfleet.dev/v1alpha1\nkind: MCPServer\nmetadata: {{name: {name}}}\nspec:\n  remote: {{url: \
             'http://{address}/mcp'}}\n  auth: {{forward: {{headers: [X-Token]}}}}\n---\n"
        )
    };
    let federation = "apiVersion: mcpfleet.dev/v1alpha1\nkind: MCPFederation\nmetadata: {name: all}\nspec:\n  members: \
                      [{name: all, selector: {}}]\n  access: {anonymous: {}}\n";
    let text = manifest("good", server.address) + &manifest("bad", failing.address) + federation;
    std::fs::write(&path, text).unwrap();
    let up = Up::start(&[&path], |command| {
        command.env("RUST_LOG", "trace");
    });
    let url = up.endpoint("all").await;
    let session = http::open_session(&http::client(), &url, LEGACY, &ALICE.headers())
        .await
        .unwrap();
    let ask = async |method: &str, params: Value| {
        let body = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
        let headers = [("mcp-session-id", session.as_str())];
        let headers = headers.into_iter().chain(ALICE.headers());
        http::exchange(&http::client(), http::legacy(&url, &body, headers))
            .await
            .json()
    };
    let deadline = Instant::now() + Duration::from_secs(20);
    while names(&ask("tools/list", json!({})).await).len() != 2 {
        assert!(Instant::now() < deadline, "Alice sees her tools");
        sleep(Duration::from_millis(50)).await;
    }
    let called = ask("tools/call", json!({"name": "good__of_alice"})).await;
    assert_eq!(called["result"]["content"][0]["text"], "of_alice");
    let refused = ask("tools/call", json!({"name": "bad__any"})).await;
    assert!(
        refused["error"]["message"].as_str().unwrap().contains("\"bad\""),
        "{refused}"
    );
    let metrics = http::get(&format!("{}/metrics", up.admin().await)).await.text;
    let printed = up.printed();
    let lines: Vec<_> = printed.output.iter().chain(&printed.errors).collect();
    assert!(lines.len() > 10, "the log is there");
    let shown = |text: &str| text.contains("token-of-alice") || text.contains("key-of-alice");
    assert!(!shown(&metrics) && !shown(&refused.to_string()));
    assert!(lines.iter().all(|line| !shown(line)), "{lines:#?}");
    up.stop().await;
}
