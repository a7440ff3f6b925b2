//! Tools that are not listed: found by search, run by name, and listed to those who want to see everything.

mod finding;
mod listing;
mod members;
mod running;

use std::net::SocketAddr;

use mcpfleet::fleet::UpstreamState;
use mcpfleet::mcp::Revision;
use serde_json::{Value, json};

use crate::support::gateway::{TestGateway, plan_with};
use crate::support::http;
use crate::support::upstream::{self, Upstream};

const LATEST: Revision = Revision::LATEST_LEGACY;
const ERAS: [Revision; 2] = [Revision::LATEST_LEGACY, Revision::LATEST];
const SHOW_ALL: &str = "x-mcp-show-all";
const MODERN: [(&str, &str); 2] = [("mcp-protocol-version", "2026-07-28"), ("mcp-method", "tools/list")];
const LEGACY: [(&str, &str); 1] = [("mcp-protocol-version", "2025-11-25")];
const SEEN: [&str; 2] = ["execute_tool", "tool_search"];

fn tool(name: &str) -> Value {
    json!({"name": name, "description": format!("The tool {name}."), "inputSchema": {"type": "object"}})
}

async fn server(names: &'static [&'static str]) -> Upstream {
    let tools = move || Value::from_iter(names.iter().map(|name| tool(name)));
    Upstream::start(move |seen| upstream::modern(seen, &tools())).await
}

/// A federation of these servers, of each of which its member says this.
fn members(servers: &[(&str, SocketAddr, Value)], mut spec: Value) -> mcpfleet::fleet::PlanInput {
    let addresses: Vec<(&str, SocketAddr)> = servers.iter().map(|(name, address, _)| (*name, *address)).collect();
    let members = servers.iter().map(|(name, _, said)| {
        let mut member = json!({"name": name, "server": {"name": name}});
        for (key, value) in said.as_object().unwrap() {
            member[key] = value.clone();
        }
        member
    });
    spec["members"] = members.collect();
    plan_with(&addresses, spec)
}

async fn ready(servers: &[(&str, SocketAddr, Value)], spec: Value) -> TestGateway {
    let count = servers.len();
    let mut gateway = TestGateway::start(members(servers, spec)).await;
    gateway
        .until(|o| o.servers.len() == count && o.servers.values().all(|s| s.state == UpstreamState::Ready))
        .await;
    gateway
}

async fn call(gateway: &TestGateway, revision: Revision, name: &str, arguments: Value) -> Value {
    let params = json!({"name": name, "arguments": arguments});
    gateway.ask(revision, "tools/call", params).await
}

/// The rows that a search gives.
async fn search(gateway: &TestGateway, arguments: Value) -> Vec<Value> {
    let answer = call(gateway, LATEST, "tool_search", arguments).await;
    let text = text(&answer);
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error} in {text}"))
}

fn text(answer: &Value) -> &str {
    answer["result"]["content"][0]["text"]
        .as_str()
        .unwrap_or_else(|| panic!("{answer}"))
}

fn names(rows: &[Value]) -> Vec<&str> {
    rows.iter().map(|row| row["name"].as_str().unwrap()).collect()
}

/// The tools that are listed to who sends this header and query, in the session if there is one.
async fn listed(gateway: &TestGateway, era: &[(&str, &str)], header: Option<&str>, query: &str) -> Vec<String> {
    let mut params = json!({});
    if era.iter().any(|(name, _)| *name == "mcp-method") {
        params = json!({"_meta": {
            "io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {},
        }});
    }
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": params});
    let header = header.map(|value| (SHOW_ALL, value));
    let request = http::legacy(
        &format!("{}{query}", gateway.url()),
        &body,
        era.iter().copied().chain(header),
    );
    let answer = gateway.send(request).await.json();
    let tools = answer["result"]["tools"]
        .as_array()
        .unwrap_or_else(|| panic!("{answer}"));
    tools
        .iter()
        .map(|tool| tool["name"].as_str().unwrap().to_owned())
        .collect()
}
