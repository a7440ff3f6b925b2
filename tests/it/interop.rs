//! Clients and servers of other people meet through `mcpfleet up`.
//!
//! Every row is a client and a fleet: the two servers of the quickstart example, from npm over stdio, and one remote
//! server over Streamable HTTP. In each, the client lists the merged tools and calls one tool of each server.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::support::client::{Call, Client, Visit};
use crate::support::peers::{self, Peers};
use crate::support::remote::Remote;
use crate::support::up::Up;

#[tokio::test(flavor = "multi_thread")]
async fn every_client_uses_a_fleet_with_a_typescript_server() {
    every_client_uses(Remote::TypescriptV2, Files::Manifests).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_client_uses_a_fleet_with_a_python_server() {
    every_client_uses(Remote::PythonV2, Files::Manifests).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_client_uses_a_fleet_with_a_fastmcp_server() {
    every_client_uses(Remote::FastMcp, Files::Manifests).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_client_uses_a_fleet_with_a_legacy_server_with_sessions() {
    every_client_uses(Remote::Everything, Files::Manifests).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_client_uses_a_fleet_from_an_mcp_json() {
    every_client_uses(Remote::TypescriptV2, Files::McpJson).await;
}

/// The form in which the fleet is written down.
#[derive(Clone, Copy, Debug)]
enum Files {
    /// `examples/quickstart.yaml` and `examples/remote.yaml`.
    Manifests,
    /// `examples/quickstart.mcp.json` with the remote server added, and a stdio server that speaks both eras.
    McpJson,
}

impl Files {
    /// The federation that the files make.
    fn federation(self) -> &'static str {
        match self {
            Self::Manifests => "quickstart",
            Self::McpJson => "default",
        }
    }

    /// The servers of the fleet.
    fn servers(self) -> &'static [&'static str] {
        match self {
            Self::Manifests => &["everything", "filesystem", "remote"],
            Self::McpJson => &["everything", "filesystem", "remote", "stdio"],
        }
    }

    /// Writes the examples into `directory`, with the places of this test in place of their own.
    fn write(self, directory: &Path, shared: &Path, remote: &str, peers: &Peers) -> Vec<PathBuf> {
        let shared = shared.to_str().unwrap();
        match self {
            Self::Manifests => {
                let quickstart = example("quickstart.yaml").replace("[/tmp]", &format!("[{shared}]"));
                let added = example("remote.yaml").replace("http://127.0.0.1:9202/mcp", remote);
                let files = [directory.join("quickstart.yaml"), directory.join("remote.yaml")];
                fs::write(&files[0], quickstart).unwrap();
                fs::write(&files[1], added).unwrap();
                files.into()
            }
            Self::McpJson => {
                let mut hosts: Value = serde_json::from_str(&example("quickstart.mcp.json")).unwrap();
                let servers = &mut hosts["mcpServers"];
                servers["filesystem"]["args"][2] = shared.into();
                servers["remote"] = json!({"url": remote});
                let script = peers::sources().join("node/servers/typescript-v2-stdio.mjs");
                servers["stdio"] = json!({"command": peers.node_program(), "args": [script]});
                let file = directory.join("mcp.json");
                fs::write(&file, hosts.to_string()).unwrap();
                vec![file]
            }
        }
    }
}

/// Starts the fleet and lets one client after the other use it; fails with the rows that went wrong.
async fn every_client_uses(remote: Remote, files: Files) {
    let Some(peers) = Peers::installed() else {
        return;
    };
    let directory = TempDir::new().unwrap();
    let shared = TempDir::new().unwrap();
    let greeting = shared.path().join("greeting.txt");
    fs::write(&greeting, "good morning").unwrap();
    let running = remote.start(&peers).await;
    let up = Up::start(
        &files.write(directory.path(), shared.path(), &running.url, &peers),
        |command| {
            command
                .env("NPM_CONFIG_CACHE", peers.npm_cache())
                .env("NPM_CONFIG_PREFER_OFFLINE", "true");
        },
    );
    let endpoint = up.endpoint(files.federation()).await;
    for server in files.servers() {
        up.ready(server).await;
    }

    let calls: Vec<Call> = files.servers().iter().map(|server| call(server, &greeting)).collect();
    let mut wrong = Vec::new();
    for client in Client::ALL {
        let visit = client.visit(&peers, &endpoint, &calls).await;
        if let Err(problem) = visit.and_then(|visit| judge(client, files, &visit)) {
            wrong.push(format!("{client:?} × {remote:?} from {files:?}: {problem}"));
        }
    }
    let rows = Client::ALL.len();
    assert!(
        wrong.is_empty(),
        "{} of {rows} rows went wrong:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
}

/// The call of one tool of a server.
fn call(server: &str, greeting: &Path) -> Call {
    let (tool, arguments) = match server {
        "filesystem" => ("read_text_file", json!({"path": greeting})),
        _ => ("echo", json!({"message": "hello"})),
    };
    let Value::Object(arguments) = arguments else {
        unreachable!()
    };
    Call {
        tool: format!("{server}__{tool}"),
        arguments,
    }
}

/// The words that the answer to that call has in it.
fn answer(server: &str) -> &'static str {
    match server {
        "filesystem" => "good morning",
        _ => "hello",
    }
}

/// Whether a client saw what it should have seen.
fn judge(client: Client, files: Files, visit: &Visit) -> Result<(), String> {
    let servers = files.servers();
    if visit.protocol_version != client.revision() {
        return Err(format!(
            "it speaks {}, not {}",
            visit.protocol_version,
            client.revision()
        ));
    }
    let prefixes: Vec<String> = servers.iter().map(|server| format!("{server}__")).collect();
    let stray = |tool: &&String| !prefixes.iter().any(|prefix| tool.starts_with(prefix));
    if let Some(tool) = visit.tools.iter().find(stray) {
        return Err(format!("{tool} has no server's name in front"));
    }
    if visit.calls.len() != servers.len() {
        return Err(format!("not every call was made: {:?}", visit.calls));
    }
    for (server, outcome) in servers.iter().zip(&visit.calls) {
        if !visit.tools.contains(&outcome.name) {
            return Err(format!("{} is not among {:?}", outcome.name, visit.tools));
        }
        if outcome.is_error || !outcome.text.contains(answer(server)) {
            return Err(format!("unexpected answer: {outcome:?}"));
        }
    }
    Ok(())
}

fn example(name: &str) -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("examples").join(name)).unwrap()
}
