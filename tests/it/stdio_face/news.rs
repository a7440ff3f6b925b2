//! Changes, as subscriptions and sessions hear of them.

use mcpfleet::mcp::Revision;
use serde_json::{Value, json};

use super::host::Host;

#[tokio::test]
async fn changes_come_tagged_to_each_subscription_and_untagged_to_none_who_opened_no_session() {
    let mut host = Host::start();
    for id in [1, 2, 3] {
        host.modern(
            id,
            "subscriptions/listen",
            json!({"notifications": {"toolsListChanged": true}}),
        )
        .await;
        assert_eq!(host.next().await["method"], "notifications/subscriptions/acknowledged");
    }
    host.send(json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 2}}))
        .await;
    host.modern(4, "tools/call", json!({"name": "s__grow"})).await;
    let mut told: Vec<Value> = Vec::new();
    for _ in 0..3 {
        let message = host.next().await;
        if message["method"] == "notifications/tools/list_changed" {
            told.push(message["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"].clone());
        }
    }
    told.sort_by_key(Value::to_string);
    assert_eq!(told, [1, 3]);
    let (_, rest) = host.leave().await;
    let mut ended: Vec<_> = rest.iter().map(|message| message["id"].to_string()).collect();
    ended.sort();
    assert_eq!(ended, ["1", "3"], "the end is told with a result: {rest:?}");
    assert!(rest.iter().all(|message| message["result"]["resultType"] == "complete"));
}

#[tokio::test]
async fn a_session_hears_of_changes_once_and_untagged() {
    let mut host = Host::start();
    host.initialize(Revision::V2025_06_18, json!({})).await;
    host.legacy(1, "tools/call", json!({"name": "s__grow", "arguments": {}}))
        .await;
    let both = [host.next().await, host.next().await];
    let change = both.iter().find(|m| m["method"] == "notifications/tools/list_changed");
    assert!(
        change.is_some_and(|change| change["params"].get("_meta").is_none()),
        "{both:?}"
    );
    let (_, rest) = host.leave().await;
    assert!(rest.is_empty(), "{rest:?}");
}
