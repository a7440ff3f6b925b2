//! A Modern server that asks whom it greets, and calls of it.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use crate::support::gateway::TestGateway;
use crate::support::upstream::{self, Answer, Seen, Upstream};

/// A Modern server whose tool `greet` asks for a name, and greets who has it.
pub(super) async fn modern_server() -> Upstream {
    Upstream::start(|seen| match seen.method() {
        "tools/call" => greet(seen),
        _ => upstream::modern(seen, &json!([{"name": "greet", "inputSchema": {"type": "object"}}])),
    })
    .await
}

pub(super) fn greet(seen: &Seen) -> Answer {
    let params = &seen.body["params"];
    match params["inputResponses"]["who"]["content"]["name"].as_str() {
        Some(name) if params["requestState"] == "theirs" => seen.result(json!({
            "resultType": "complete", "content": [{"type": "text", "text": format!("Hello {name}")}],
        })),
        Some(_) => seen.error(200, -32602, "the state is wrong"),
        None if params["inputResponses"]["who"].is_object() => seen.result(json!({
            "resultType": "complete", "content": [{"type": "text", "text": "Hello you"}],
        })),
        None => seen.result(json!({
            "resultType": "input_required", "requestState": "theirs",
            "inputRequests": {"who": {"method": "elicitation/create", "params": {
                "mode": "form", "message": "Name?", "requestedSchema": form(),
            }}},
        })),
    }
}

pub(super) fn form() -> Value {
    json!({"type": "object", "properties": {"name": {"type": "string", "default": "you"}}, "required": ["name"]})
}

pub(super) async fn modern_call(gateway: &TestGateway, params: Value, capabilities: Value) -> Value {
    let mut params = params;
    params["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": capabilities,
    });
    let headers = [
        ("mcp-protocol-version", "2026-07-28"),
        ("mcp-method", "tools/call"),
        ("mcp-name", params["name"].as_str().unwrap()),
    ];
    let body = json!({"jsonrpc": "2.0", "id": "q", "method": "tools/call", "params": params});
    gateway.post(body, &headers).await.json()
}

pub(crate) fn with(mut params: Value, more: &Value) -> Value {
    for (name, value) in more.as_object().unwrap() {
        params[name] = value.clone();
    }
    params
}

pub(super) async fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(10);
    while !holds() {
        assert!(Instant::now() < deadline, "never: {what}");
        sleep(Duration::from_millis(20)).await;
    }
}
