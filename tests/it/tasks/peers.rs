//! Tasks of servers of other people.

use serde_json::{Value, json};

use super::{ask, over, task_of};
use crate::support::gateway::TestGateway;
use crate::support::peers::Peers;
use crate::support::remote::Remote;

fn address(url: &str) -> std::net::SocketAddr {
    let url: http::Uri = url.parse().unwrap();
    url.authority().unwrap().as_str().parse().unwrap()
}

fn text(result: &Value) -> &str {
    result["content"][0]["text"]
        .as_str()
        .unwrap_or_else(|| panic!("{result}"))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tool_of_the_everything_server_that_makes_tasks_is_called_by_every_client() {
    let Some(peers) = Peers::installed() else { return };
    let server = Remote::Everything.start(&peers).await;
    // The answer comes whole, however long it takes.
    let spec = json!({"streaming": {"delay": "60s"}});
    let gateway = TestGateway::ready_with(&[("e", address(&server.url))], spec).await;
    let call = json!({"name": "e__simulate-research-query", "arguments": {"topic": "rust"}});
    let (legacy, modern, task) = tokio::join!(
        gateway.legacy("tools/call", call.clone()),
        ask(&gateway, "tools/call", call.clone(), json!({}), &[]),
        async {
            let name = task_of(&gateway, call.clone()).await;
            over(&gateway, &name).await
        }
    );
    let modern = modern.json();
    for result in [&legacy["result"], &modern["result"], &task["result"]] {
        assert!(text(result).starts_with("# Research Report: rust"), "{result}");
    }
    assert_eq!(task["status"], "completed");
}
