//! Skills (Skills extension): those of servers under their members' prefixes, and the federation's own.

mod cluster;
mod federated;
mod files;
mod news;
mod own;
mod peers;
mod server;
mod uris;

use aws_lc_rs::digest::{SHA256, digest};
use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use mcpfleet::mcp::{Era, Revision};
use serde_json::{Value, json};

use crate::support::gateway::TestGateway;

const ERAS: [Era; 2] = [Era::Legacy, Era::Modern];
const CLIENTS: [Revision; 2] = [Revision::LATEST_LEGACY, Revision::LATEST];
const EXTENSION: &str = "io.modelcontextprotocol/skills";

fn proof(bytes: &[u8]) -> String {
    let hex = digest(&SHA256, bytes)
        .as_ref()
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect::<String>();
    format!("sha256:{hex}")
}

/// All skills that a client sees, over all pages.
async fn listed(gateway: &TestGateway, client: Revision) -> Vec<Value> {
    let (mut all, mut params) = (Vec::new(), json!({}));
    loop {
        let answer = gateway.ask(client, "skills/list", params).await;
        let result = &answer["result"];
        all.extend(
            result["skills"]
                .as_array()
                .unwrap_or_else(|| panic!("{answer}"))
                .iter()
                .cloned(),
        );
        match result.get("nextCursor") {
            Some(cursor) => params = json!({"cursor": cursor}),
            None => return all,
        }
    }
}

fn uris(entries: &[Value]) -> Vec<&str> {
    entries.iter().map(|entry| entry["uri"].as_str().unwrap()).collect()
}

fn bytes_of(answer: &Value) -> Vec<u8> {
    let content = &answer["result"]["contents"][0];
    match content["text"].as_str() {
        Some(text) => text.as_bytes().to_vec(),
        None => BASE64
            .decode(content["blob"].as_str().unwrap_or_else(|| panic!("{answer}")))
            .unwrap(),
    }
}

async fn capability(gateway: &TestGateway, client: Revision) -> Value {
    let answer = match client.era() {
        Era::Modern => gateway.ask(client, "server/discover", json!({})).await,
        Era::Legacy => {
            let params = json!({
                "protocolVersion": client.as_str(), "capabilities": {}, "clientInfo": {"name": "c", "version": "1"},
            });
            gateway.ask(client, "initialize", params).await
        }
    };
    assert!(answer["result"]["capabilities"]["resources"].is_object(), "{answer}");
    answer["result"]["capabilities"]["extensions"][EXTENSION].clone()
}
