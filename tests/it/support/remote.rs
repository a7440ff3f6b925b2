//! Servers of other people over Streamable HTTP, each on a port of its own on loopback.

use std::net::TcpListener;
use std::time::Duration;

use super::peers::{Peers, Python};
use super::process::{Printed, Process};

const START: Duration = Duration::from_secs(30);

/// A server that a federation has as a remote one. Each has a tool `echo`.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Remote {
    /// The official TypeScript SDK v2: both eras, Legacy with sessions.
    TypescriptV2,
    /// The official Python SDK v2: both eras.
    PythonV2,
    /// fastmcp 4: both eras.
    FastMcp,
    /// server-everything: Legacy, with sessions and answers as event streams.
    Everything,
}

/// A server that listens.
#[derive(Debug)]
pub(crate) struct RunningRemote {
    /// Its MCP endpoint.
    pub(crate) url: String,
    _process: Process,
}

impl Remote {
    /// Starts the server and waits until it listens.
    pub(crate) async fn start(self, peers: &Peers) -> RunningRemote {
        let command = match self {
            Self::TypescriptV2 => peers.node("servers/typescript-v2.mjs"),
            Self::PythonV2 => peers.python(Python::McpV2, "servers/python_v2.py"),
            Self::FastMcp => peers.python(Python::FastMcp, "servers/fastmcp_v4.py"),
            Self::Everything => return start_everything(peers).await,
        };
        listening(Process::start(&format!("{self:?}"), command)).await
    }
}

/// Waits until one of our own server programs says where it listens.
pub(crate) async fn listening(process: Process) -> RunningRemote {
    let address = |printed: &Printed| {
        let mut lines = printed.output.iter();
        lines
            .find_map(|line| line.strip_prefix("listening on "))
            .map(String::from)
    };
    let url = process.wait_for("the address", START, address).await;
    RunningRemote { url, _process: process }
}

/// This one takes its port from the environment and does not know port 0.
async fn start_everything(peers: &Peers) -> RunningRemote {
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let mut command = peers.npm_server("everything");
    command.arg("streamableHttp").env("PORT", port.to_string());
    let process = Process::start("server-everything", command);
    let listens = format!("listening on port {port}");
    process
        .wait_for("the listener", START, |printed| {
            printed.errors.iter().any(|line| line.contains(&listens)).then_some(())
        })
        .await;
    RunningRemote {
        url: format!("http://127.0.0.1:{port}/mcp"),
        _process: process,
    }
}
