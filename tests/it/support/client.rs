//! Unmodified MCP clients of other people, each of which visits an endpoint the same way.

use std::process::Stdio;
use std::time::Duration;

use rmcp::model::{CallToolRequestParams, ProtocolVersion};
use rmcp::transport::StreamableHttpClientTransport;
use rmcp::{ClientLifecycleMode, ClientServiceExt};
use serde::Deserialize;
use serde_json::{Map, Value};
use tokio::process::{ChildStdin, ChildStdout, Command};

use super::peers::{Peers, Python};

/// Python clients take a second to load; the rest is for a busy machine.
const LIMIT: Duration = Duration::from_secs(60);

/// A client, and how it is set to choose an era.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Client {
    TypescriptV1,
    /// The last line of the SDK whose newest revision is 2025-06-18.
    Typescript117,
    TypescriptV2Legacy,
    TypescriptV2Auto,
    TypescriptV2Modern,
    PythonV1,
    PythonV2Legacy,
    PythonV2Auto,
    PythonV2Modern,
    RmcpLegacy,
    RmcpAuto,
    RmcpModern,
    GoLegacy,
    GoAuto,
}

/// One tool call.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    pub(crate) tool: String,
    pub(crate) arguments: Map<String, Value>,
}

/// What a client saw.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Visit {
    /// The negotiated protocol revision.
    pub(crate) protocol_version: String,
    /// The names of all tools, in order.
    pub(crate) tools: Vec<String>,
    /// The calls it was asked to make.
    pub(crate) calls: Vec<Outcome>,
}

/// What came of one call.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Outcome {
    pub(crate) name: String,
    pub(crate) is_error: bool,
    /// The text of the result.
    pub(crate) text: String,
}

impl Client {
    /// Every client.
    pub(crate) const ALL: [Self; 14] = [
        Self::TypescriptV1,
        Self::Typescript117,
        Self::TypescriptV2Legacy,
        Self::TypescriptV2Auto,
        Self::TypescriptV2Modern,
        Self::PythonV1,
        Self::PythonV2Legacy,
        Self::PythonV2Auto,
        Self::PythonV2Modern,
        Self::RmcpLegacy,
        Self::RmcpAuto,
        Self::RmcpModern,
        Self::GoLegacy,
        Self::GoAuto,
    ];

    /// The revision that this client and a server of both eras agree on.
    pub(crate) fn revision(self) -> &'static str {
        match self {
            Self::Typescript117 => "2025-06-18",
            Self::TypescriptV1
            | Self::TypescriptV2Legacy
            | Self::PythonV1
            | Self::PythonV2Legacy
            | Self::RmcpLegacy
            | Self::GoLegacy => "2025-11-25",
            Self::TypescriptV2Auto
            | Self::TypescriptV2Modern
            | Self::PythonV2Auto
            | Self::PythonV2Modern
            | Self::RmcpAuto
            | Self::RmcpModern
            | Self::GoAuto => "2026-07-28",
        }
    }

    /// Connects to `url`, or to the program whose words stand in a JSON array after `stdio:`, lists all tools, makes the calls, and leaves. The error is for a person.
    pub(crate) async fn visit(self, peers: &Peers, url: &str, calls: &[Call]) -> Result<Visit, String> {
        let typescript_v1 = || peers.node("clients/typescript-v1.mjs");
        let typescript_v2 = || peers.node("clients/typescript-v2.mjs");
        let python_v2 = || peers.python(Python::McpV2, "clients/python_v2.py");
        let go = || Command::new(peers.go_program("client"));
        let preferred_versions = vec![ProtocolVersion::V_2026_07_28];
        let auto = ClientLifecycleMode::Auto {
            preferred_versions: preferred_versions.clone(),
            legacy_version: None,
        };
        let modern = ClientLifecycleMode::Discover { preferred_versions };
        let visit = async {
            match self {
                Self::TypescriptV1 => run(typescript_v1(), &["--sdk", "1.32"], url, calls).await,
                Self::Typescript117 => run(typescript_v1(), &["--sdk", "1.17"], url, calls).await,
                Self::TypescriptV2Legacy => run(typescript_v2(), &["--mode", "legacy"], url, calls).await,
                Self::TypescriptV2Auto => run(typescript_v2(), &["--mode", "auto"], url, calls).await,
                Self::TypescriptV2Modern => run(typescript_v2(), &["--mode", "modern"], url, calls).await,
                Self::PythonV1 => run(peers.python(Python::McpV1, "clients/python_v1.py"), &[], url, calls).await,
                Self::PythonV2Legacy => run(python_v2(), &["--mode", "legacy"], url, calls).await,
                Self::PythonV2Auto => run(python_v2(), &["--mode", "auto"], url, calls).await,
                Self::PythonV2Modern => run(python_v2(), &["--mode", "modern"], url, calls).await,
                Self::RmcpLegacy => rmcp(ClientLifecycleMode::Initialize, url, calls).await,
                Self::RmcpAuto => rmcp(auto, url, calls).await,
                Self::RmcpModern => rmcp(modern, url, calls).await,
                Self::GoLegacy => run(go(), &["--mode", "legacy"], url, calls).await,
                Self::GoAuto => run(go(), &["--mode", "auto"], url, calls).await,
            }
        };
        tokio::time::timeout(LIMIT, visit)
            .await
            .unwrap_or_else(|_| Err(format!("no answer within {} s", LIMIT.as_secs())))
    }
}

/// Runs a client program and reads the summary it ends with.
async fn run(mut program: Command, choice: &[&str], url: &str, calls: &[Call]) -> Result<Visit, String> {
    program.args(["--url", url]).args(choice);
    for call in calls {
        program
            .arg("--call")
            .arg(format!("{}={}", call.tool, Value::Object(call.arguments.clone())));
    }
    let ended = program
        .stdin(Stdio::null())
        .kill_on_drop(true)
        .output()
        .await
        .map_err(|error| error.to_string())?;
    let (output, errors) = (
        String::from_utf8_lossy(&ended.stdout),
        String::from_utf8_lossy(&ended.stderr),
    );
    let summary = output.lines().last().unwrap_or_default();
    if !ended.status.success() {
        let tail: Vec<&str> = errors.lines().rev().take(12).collect();
        let tail: Vec<&str> = tail.into_iter().rev().collect();
        return Err(format!("{}: {summary}\n{}", ended.status, tail.join("\n")));
    }
    serde_json::from_str(summary).map_err(|error| format!("{error} in {summary}"))
}

/// A program, by its pipes. It ends with its input.
fn pipes(words: &[String]) -> std::io::Result<(ChildStdout, ChildStdin)> {
    let mut program = Command::new(&words[0])
        .args(&words[1..])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()?;
    Ok((program.stdout.take().unwrap(), program.stdin.take().unwrap()))
}

/// The official Rust SDK, in this process.
async fn rmcp(era: ClientLifecycleMode, url: &str, calls: &[Call]) -> Result<Visit, String> {
    let told = |error: &dyn std::fmt::Display| error.to_string();
    // The HTTP client asks for one even where no TLS is spoken; a second installation changes nothing.
    drop(rustls::crypto::aws_lc_rs::default_provider().install_default());
    let client = match url.strip_prefix("stdio:") {
        None => {
            let transport = StreamableHttpClientTransport::from_uri(url);
            ().serve_with_lifecycle(transport, era).await
        }
        Some(words) => {
            let words: Vec<String> = serde_json::from_str(words).map_err(|error| told(&error))?;
            ().serve_with_lifecycle(pipes(&words).map_err(|error| told(&error))?, era)
                .await
        }
    };
    let client = client.map_err(|error| told(&error))?;
    let tools = client.list_all_tools().await.map_err(|error| told(&error))?;
    let mut outcomes = Vec::new();
    for Call { tool, arguments } in calls {
        let call = CallToolRequestParams::new(tool.clone()).with_arguments(arguments.clone());
        let result = client.call_tool(call).await.map_err(|error| told(&error))?;
        let text = result
            .content
            .iter()
            .filter_map(|block| block.as_text())
            .map(|block| &*block.text)
            .collect();
        outcomes.push(Outcome {
            name: tool.clone(),
            is_error: result.is_error == Some(true),
            text,
        });
    }
    let protocol_version = client
        .peer_info()
        .ok_or("no protocol version")?
        .protocol_version
        .to_string();
    client.cancel().await.map_err(|error| told(&error))?;
    let tools = tools.into_iter().map(|tool| tool.name.into_owned()).collect();
    Ok(Visit {
        protocol_version,
        tools,
        calls: outcomes,
    })
}
