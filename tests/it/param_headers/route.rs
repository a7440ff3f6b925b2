//! A tool whose arguments are repeated as headers, and calls of it.

use http::{HeaderValue, Request};
use http_body_util::Full;
use mcpfleet::fleet::PlanInput;
use serde_json::{Value, json};

use crate::support::gateway::TestGateway;
use crate::support::http::Reply;
use crate::support::upstream::{self, Seen, Upstream};

/// A tool whose arguments are repeated: a string, an integer, one that is nested and a boolean; one is not.
pub(super) fn route() -> Value {
    json!({"name": "route", "inputSchema": {"type": "object", "required": ["region"], "properties": {
        "region": {"type": "string", "x-mcp-header": "Region"},
        "limit": {"type": "integer", "x-mcp-header": "Limit"},
        "scope": {"type": "object", "properties": {"tenant": {"type": "string", "x-mcp-header": "Tenant"}}},
        "dry": {"type": "boolean", "x-mcp-header": "Dry-Run"},
        "q": {"type": "string"},
    }}})
}

/// A gateway over a Modern server with the tool.
pub(super) async fn modern() -> (TestGateway, Upstream) {
    let server = Upstream::start(|seen| upstream::modern(seen, &json!([route()]))).await;
    let gateway = TestGateway::ready(&[("s", server.address)]).await;
    (gateway, server)
}

/// A Modern call of `name` with these headers beside those that every call has.
pub(super) async fn call(gateway: &TestGateway, name: &str, arguments: Value, headers: &[(&str, &[u8])]) -> Reply {
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {
        "name": name, "arguments": arguments, "_meta": {
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": {}}}});
    let mut request = Request::post(format!("http://{}/default/fed/mcp", gateway.address))
        .header("content-type", "application/json")
        .header("accept", "application/json, text/event-stream")
        .header("mcp-protocol-version", "2026-07-28")
        .header("mcp-method", "tools/call")
        .header("mcp-name", name);
    for (name, value) in headers {
        request = request.header(*name, HeaderValue::from_bytes(value).unwrap());
    }
    gateway.send(request.body(Full::from(body.to_string())).unwrap()).await
}

/// The headers by which a request repeats arguments, in order.
pub(super) fn repeated(seen: &Seen) -> Vec<(&str, &str)> {
    let headers = seen.headers.iter();
    let mut repeated: Vec<_> = headers
        .filter_map(|(name, value)| Some((name.as_str().strip_prefix("mcp-param-")?, value.to_str().unwrap())))
        .collect();
    repeated.sort_unstable();
    repeated
}

pub(super) fn listed(answer: &Value) -> Vec<&str> {
    let tools = answer["result"]["tools"].as_array().unwrap();
    tools.iter().map(|tool| tool["name"].as_str().unwrap()).collect()
}

/// A gateway for `plan` whose servers are all ready.
pub(super) async fn ready(plan: PlanInput) -> TestGateway {
    use mcpfleet::fleet::UpstreamState;
    let mut gateway = TestGateway::start(plan).await;
    gateway
        .until(|o| !o.servers.is_empty() && o.servers.values().all(|s| s.state == UpstreamState::Ready))
        .await;
    gateway
}
