//! Clients and servers of other people meet through `mcpfleet up`.
//!
//! Every row is a client and a fleet: the client lists the merged tools and calls one tool of each server. The fleets
//! are those of the examples with one more server, one of every server there is, and one of two servers that have no
//! revision in common.

use std::fs;
use std::path::{Path, PathBuf};

use futures::{StreamExt, stream};
use serde_json::{Map, Value, json};
use tempfile::TempDir;

use crate::support::client::{Call, Client, Visit};
use crate::support::peers::{self, Peers, Python};
use crate::support::remote::{Remote, RunningRemote};
use crate::support::up::Up;

/// Clients that visit at a time.
const AT_A_TIME: usize = 4;

#[tokio::test(flavor = "multi_thread")]
async fn every_client_uses_the_quickstart_with_one_more_server() {
    every_client_uses_the_examples(Files::Manifests).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_client_uses_the_quickstart_from_an_mcp_json() {
    every_client_uses_the_examples(Files::McpJson).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_client_uses_every_server() {
    let Some(peers) = Peers::installed() else { return };
    let Some(rmcp) = peers::rmcp_server() else { return };
    let running = stream::iter(Remote::ALL)
        .map(async |remote| (remote, remote.start(&peers).await))
        .buffered(AT_A_TIME);
    let running: Vec<(Remote, RunningRemote)> = running.collect().await;
    let over_http = running.iter().map(|(remote, running)| Served {
        name: format!("{}-http", remote.name()),
        tool: remote.tool(),
        entry: json!({"url": running.url}),
    });
    let python = |packages, script| peers.python_command(packages, &format!("servers/{script}.py"));
    let script = |name: &str| peers::sources().join("node/servers").join(name);
    let over_stdio: [(&str, &str, Vec<PathBuf>); 8] = [
        (
            "typescript-v1",
            "echo",
            vec![peers.node_program(), script("typescript-v1.mjs"), "--stdio".into()],
        ),
        (
            "typescript-v2",
            "echo",
            vec![peers.node_program(), script("typescript-v2-stdio.mjs")],
        ),
        (
            "python-v1",
            "echo",
            [python(Python::McpV1, "python_v1"), vec!["--stdio".into()]].concat(),
        ),
        (
            "python-v2",
            "echo",
            [python(Python::McpV2, "python_v2"), vec!["--stdio".into()]].concat(),
        ),
        (
            "fastmcp",
            "echo",
            [python(Python::FastMcp, "fastmcp_v4"), vec!["--stdio".into()]].concat(),
        ),
        ("rmcp", "echo", vec![rmcp, "--stdio".into()]),
        ("go", "greet", vec![peers.go_program("everything")]),
        (
            "everything",
            "echo",
            vec![peers.node_program(), peers.npm_package("server-everything")],
        ),
    ];
    let over_stdio = over_stdio.into_iter().map(|(name, tool, command)| Served {
        name: format!("{name}-stdio"),
        tool,
        entry: json!({"command": command[0], "args": command[1..]}),
    });
    let servers: Vec<Served> = over_http.chain(over_stdio).collect();
    assert_eq!(servers.len(), 18);

    let directory = TempDir::new().unwrap();
    let file = directory.path().join("mcp.json");
    let entries: Map<String, Value> = servers
        .iter()
        .map(|served| (served.name.clone(), served.entry.clone()))
        .collect();
    fs::write(&file, json!({"mcpServers": entries}).to_string()).unwrap();
    let up = Up::start(&[file], |_| ());
    let endpoint = up.endpoint("default").await;
    for served in &servers {
        up.ready(&served.name).await;
    }
    let wanted: Vec<Wanted> = servers.iter().map(Served::wanted).collect();
    every_client_uses(&peers, &endpoint, &wanted).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_client_uses_a_legacy_only_and_a_modern_only_server_of_one_federation() {
    let Some(peers) = Peers::installed() else { return };
    let (legacy, modern) = tokio::join!(Remote::LegacyOnly.start(&peers), Remote::ModernOnly.start(&peers));
    let directory = TempDir::new().unwrap();
    let file = directory.path().join("mcp.json");
    let entries = json!({"legacy": {"url": legacy.url}, "modern": {"url": modern.url}});
    fs::write(&file, json!({"mcpServers": entries}).to_string()).unwrap();
    let up = Up::start(&[file], |_| ());
    let endpoint = up.endpoint("default").await;
    up.ready("legacy").await;
    up.ready("modern").await;
    let wanted = ["legacy", "modern"].map(|server| Wanted {
        server: server.into(),
        call: call(server, "test_simple_text", json!({})),
        answer: "This is a simple text response for testing.",
    });
    every_client_uses(&peers, &endpoint, &wanted).await;
}

/// A server of the fleet of all servers.
#[derive(Debug)]
struct Served {
    name: String,
    /// Its tool that answers with what it is told.
    tool: &'static str,
    /// How it stands in an `mcp.json`.
    entry: Value,
}

impl Served {
    fn wanted(&self) -> Wanted {
        let argument = if self.tool == "greet" { "name" } else { "message" };
        Wanted {
            server: self.name.clone(),
            call: call(&self.name, self.tool, json!({argument: "hello"})),
            answer: "hello",
        }
    }
}

/// What a client should get of a server.
#[derive(Debug)]
struct Wanted {
    server: String,
    call: Call,
    /// The words that the answer has in it.
    answer: &'static str,
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

/// Starts the fleet of the examples and lets every client use it.
async fn every_client_uses_the_examples(files: Files) {
    let Some(peers) = Peers::installed() else { return };
    let directory = TempDir::new().unwrap();
    let shared = TempDir::new().unwrap();
    let greeting = shared.path().join("greeting.txt");
    fs::write(&greeting, "good morning").unwrap();
    let running = Remote::TypescriptV2.start(&peers).await;
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
    let wanted: Vec<Wanted> = files
        .servers()
        .iter()
        .map(|server| of_example(server, &greeting))
        .collect();
    every_client_uses(&peers, &endpoint, &wanted).await;
}

/// The call of one tool of a server of the examples.
fn of_example(server: &str, greeting: &Path) -> Wanted {
    let (call, answer) = match server {
        "filesystem" => (
            call(server, "read_text_file", json!({"path": greeting})),
            "good morning",
        ),
        _ => (call(server, "echo", json!({"message": "hello"})), "hello"),
    };
    Wanted {
        server: server.into(),
        call,
        answer,
    }
}

fn call(server: &str, tool: &str, arguments: Value) -> Call {
    let Value::Object(arguments) = arguments else {
        unreachable!()
    };
    Call {
        tool: format!("{server}__{tool}"),
        arguments,
    }
}

/// Lets every client list all tools and make all calls; fails with the rows that went wrong.
async fn every_client_uses(peers: &Peers, endpoint: &str, wanted: &[Wanted]) {
    let calls: Vec<Call> = wanted.iter().map(|wanted| wanted.call.clone()).collect();
    let visits = stream::iter(Client::ALL).map(|client| {
        let calls = &calls;
        async move {
            let visit = client.visit(peers, endpoint, calls).await;
            let judged = visit.and_then(|visit| judge(client, wanted, &visit));
            judged.err().map(|problem| format!("{client:?}: {problem}"))
        }
    });
    let wrong: Vec<String> = visits
        .buffer_unordered(AT_A_TIME)
        .filter_map(async |wrong| wrong)
        .collect()
        .await;
    let rows = Client::ALL.len();
    assert!(
        wrong.is_empty(),
        "{} of {rows} clients went wrong:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
}

/// Whether a client saw what it should have seen.
fn judge(client: Client, wanted: &[Wanted], visit: &Visit) -> Result<(), String> {
    let (spoken, expected) = (&visit.protocol_version, client.revision());
    if spoken != expected {
        return Err(format!("it speaks {spoken}, not {expected}"));
    }
    let is_of_a_server = |tool: &String| wanted.iter().any(|w| tool.starts_with(&format!("{}__", w.server)));
    if let Some(tool) = visit.tools.iter().find(|tool| !is_of_a_server(tool)) {
        return Err(format!("{tool} has no server's name in front"));
    }
    if visit.calls.len() != wanted.len() {
        return Err(format!("not every call was made: {:?}", visit.calls));
    }
    for (Wanted { server, answer, .. }, outcome) in wanted.iter().zip(&visit.calls) {
        if !visit.tools.contains(&outcome.name) {
            return Err(format!("{server}: {} is not among {:?}", outcome.name, visit.tools));
        }
        if outcome.is_error || !outcome.text.contains(answer) {
            return Err(format!("{server}: unexpected answer: {outcome:?}"));
        }
    }
    Ok(())
}

fn example(name: &str) -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("examples").join(name)).unwrap()
}
