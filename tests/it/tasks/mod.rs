//! Tasks: those that Modern servers make of calls, and those that servers of 2025-11-25 are asked for.

mod changes;
mod core;
mod extension;
mod lost;
mod peers;

use std::time::Duration;

use serde_json::{Value, json};

use crate::support::gateway::TestGateway;
use crate::support::http::Reply;

/// What a client declares that takes tasks.
fn takes_tasks() -> Value {
    json!({"extensions": {"io.modelcontextprotocol/tasks": {}}})
}

/// A Modern request of a client with these capabilities; `more` are headers beside the usual ones.
async fn ask(
    gateway: &TestGateway,
    method: &str,
    mut params: Value,
    capabilities: Value,
    more: &[(&str, &str)],
) -> Reply {
    params["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": capabilities,
    });
    let name = ["name", "taskId"].into_iter().find_map(|name| params[name].as_str());
    let mut headers = vec![("mcp-protocol-version", "2026-07-28"), ("mcp-method", method)];
    headers.extend(name.map(|name| ("mcp-name", name)));
    headers.extend(more);
    let body = json!({"jsonrpc": "2.0", "id": "q", "method": method, "params": params});
    gateway.post(body, &headers).await
}

/// The result of a request of a client that takes tasks.
async fn result(gateway: &TestGateway, method: &str, params: Value) -> Value {
    let mut answer = ask(gateway, method, params, takes_tasks(), &[]).await.json();
    assert!(answer.get("result").is_some(), "{method}: {answer}");
    answer["result"].take()
}

/// The error of a request, with its status.
async fn refused(gateway: &TestGateway, method: &str, params: Value, capabilities: Value) -> (u16, Value) {
    let reply = ask(gateway, method, params, capabilities, &[]).await;
    let mut answer = reply.json();
    assert!(answer.get("error").is_some(), "{method}: {answer}");
    (reply.status, answer["error"].take())
}

/// The name of a task that this call becomes.
async fn task_of(gateway: &TestGateway, call: Value) -> String {
    let made = result(gateway, "tools/call", call).await;
    assert_eq!(made["resultType"], "task", "{made}");
    made["taskId"].as_str().unwrap().to_owned()
}

/// Asks for a task until it is over.
async fn over(gateway: &TestGateway, name: &str) -> Value {
    let deadline = tokio::time::Instant::now() + Duration::from_secs(20);
    loop {
        let task = result(gateway, "tasks/get", json!({"taskId": name})).await;
        if !matches!(task["status"].as_str(), Some("working" | "input_required")) {
            return task;
        }
        assert!(tokio::time::Instant::now() < deadline, "never over: {task}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}
