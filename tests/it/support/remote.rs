//! Servers of other people over HTTP, each on a port of its own on loopback.

use std::net::TcpListener;
use std::time::Duration;

use tokio::process::Command;

use super::peers::{self, Peers, Python};
use super::process::{Printed, Process};

const START: Duration = Duration::from_secs(30);

/// A server that a federation has as a remote one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Remote {
    /// The official TypeScript SDK v1: Legacy, without sessions.
    TypescriptV1,
    /// The official TypeScript SDK v2: both eras, Legacy with sessions.
    TypescriptV2,
    /// The official Python SDK v1: Legacy, with sessions and answers as event streams.
    PythonV1,
    /// The official Python SDK v2: both eras.
    PythonV2,
    /// fastmcp 4: both eras.
    FastMcp,
    /// The official Rust SDK: both eras, Legacy with sessions.
    Rmcp,
    /// The example of the official Go SDK: Legacy with sessions, though it answers discovery.
    Go,
    /// server-everything: Legacy, with sessions and answers as event streams.
    Everything,
    /// The same over HTTP with server-sent events, the transport of 2024-11-05.
    EverythingSse,
    /// The official Python SDK v1, over that as well.
    PythonV1Sse,
    /// An example of MCP Apps: a tool with a page.
    Apps,
    /// The server of the conformance suite: both eras.
    DualEra,
    /// The same as one that knows the Legacy era only.
    LegacyOnly,
    /// The same as one that knows the Modern era only.
    ModernOnly,
}

/// A server that listens.
#[derive(Debug)]
pub(crate) struct RunningRemote {
    /// Its MCP endpoint.
    pub(crate) url: String,
    _process: Process,
}

impl Remote {
    /// Those of other people's SDKs, each with a tool that answers with what it is told.
    pub(crate) const ALL: [Self; 10] = [
        Self::TypescriptV1,
        Self::TypescriptV2,
        Self::PythonV1,
        Self::PythonV2,
        Self::FastMcp,
        Self::Rmcp,
        Self::Go,
        Self::Everything,
        Self::EverythingSse,
        Self::PythonV1Sse,
    ];

    /// Its name as a server of a fleet.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::TypescriptV1 => "typescript-v1",
            Self::TypescriptV2 => "typescript-v2",
            Self::PythonV1 => "python-v1",
            Self::PythonV2 => "python-v2",
            Self::FastMcp => "fastmcp",
            Self::Rmcp => "rmcp",
            Self::Go => "go",
            Self::Everything => "everything",
            Self::EverythingSse => "everything-sse",
            Self::PythonV1Sse => "python-v1-sse",
            Self::Apps => "apps",
            Self::DualEra => "dual-era",
            Self::LegacyOnly => "legacy-only",
            Self::ModernOnly => "modern-only",
        }
    }

    /// Its tool that answers with what it is told.
    pub(crate) fn tool(self) -> &'static str {
        match self {
            Self::Go => "greet",
            Self::Apps => "get-time",
            Self::DualEra | Self::LegacyOnly | Self::ModernOnly => "test_simple_text",
            _ => "echo",
        }
    }

    /// Starts the server and waits until it listens.
    pub(crate) async fn start(self, peers: &Peers) -> RunningRemote {
        let conformance = |era: &str| {
            let mut command = peers.node("servers/conformance/server.mjs");
            command.args(["--era", era]);
            command
        };
        let command = match self {
            Self::TypescriptV1 => peers.node("servers/typescript-v1.mjs"),
            Self::TypescriptV2 => peers.node("servers/typescript-v2.mjs"),
            Self::PythonV1 => peers.python(Python::McpV1, "servers/python_v1.py"),
            Self::PythonV2 => peers.python(Python::McpV2, "servers/python_v2.py"),
            Self::FastMcp => peers.python(Python::FastMcp, "servers/fastmcp_v4.py"),
            Self::PythonV1Sse => {
                let mut command = peers.python(Python::McpV1, "servers/python_v1.py");
                command.arg("--sse");
                command
            }
            Self::EverythingSse => {
                let port = free_port();
                let mut command = peers.npm_server("everything");
                command.arg("sse").env("PORT", port.to_string());
                let running = elsewhere(command, port, "running on port").await;
                return RunningRemote {
                    url: running.url.replace("/mcp", "/sse"),
                    ..running
                };
            }
            Self::Rmcp => Command::new(peers::rmcp_server().expect("the example is built")),
            Self::DualEra => conformance("dual"),
            Self::LegacyOnly => conformance("legacy"),
            Self::ModernOnly => conformance("modern"),
            Self::Go => {
                let port = free_port();
                let mut command = Command::new(peers.go_program("everything"));
                command.arg("-http").arg(format!("127.0.0.1:{port}"));
                return elsewhere(command, port, "listening at").await;
            }
            Self::Apps => {
                let port = free_port();
                let mut command = peers.npm_server("basic-vanillajs");
                command.env("PORT", port.to_string());
                return elsewhere(command, port, "listening on").await;
            }
            Self::Everything => {
                let port = free_port();
                let mut command = peers.npm_server("everything");
                command.arg("streamableHttp").env("PORT", port.to_string());
                return elsewhere(command, port, "listening on port").await;
            }
        };
        listening(Process::start(self.name(), command)).await
    }
}

/// Starts one of our own server programs, which say where they listen.
pub(crate) async fn start_own(name: &'static str, command: Command) -> RunningRemote {
    listening(Process::start(name, command)).await
}

/// Waits until one of our own server programs says where it listens.
async fn listening(process: Process) -> RunningRemote {
    let address = |printed: &Printed| {
        let mut lines = printed.output.iter();
        lines
            .find_map(|line| line.strip_prefix("listening on "))
            .map(String::from)
    };
    let url = process.wait_for("the address", START, address).await;
    RunningRemote { url, _process: process }
}

/// A port that nobody uses: these servers know no port 0.
fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// Starts a server of other people, and waits until it has said so in these words.
async fn elsewhere(command: Command, port: u16, words: &str) -> RunningRemote {
    let process = Process::start("a server of other people", command);
    process
        .wait_for("the listener", START, |printed| {
            let mut lines = printed.errors.iter().chain(&printed.output);
            lines.any(|line| line.contains(words)).then_some(())
        })
        .await;
    RunningRemote {
        url: format!("http://127.0.0.1:{port}/mcp"),
        _process: process,
    }
}
