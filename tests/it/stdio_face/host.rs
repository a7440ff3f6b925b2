//! A host that starts it, and talks to it by pipes.

use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use mcpfleet::mcp::Revision;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::time::timeout;

use crate::support::upstream::modern;
use crate::support::wire;

pub(super) const LIMIT: Duration = Duration::from_secs(30);

/// A Legacy server. `ask` asks its client for a form, `slow` works until it is cancelled, which `cancelled` counts,
/// `loud` tells of much progress, and `grow` has one more tool from then on.
pub(super) const SERVER: &str = r#"
import json, sys, threading, time
lock, waiting, stopped, tools = threading.Lock(), {}, [], ["echo", "ask", "slow", "cancelled", "loud", "grow"]
def send(m):
    with lock: print(json.dumps({"jsonrpc": "2.0", **m}), flush=True)
def call(r):
    tool, args, text = r["params"]["name"], r["params"].get("arguments", {}), "done"
    if tool == "echo": text = args["text"]
    if tool == "ask":
        waiting["q"] = threading.Event()
        form = {"type": "object", "properties": {"name": {"type": "string"}}}
        send({"id": "q", "method": "elicitation/create", "params": {"message": "Who?", "requestedSchema": form}})
        waiting["q"].wait(20)
        text = json.dumps(waiting["answer"])
    if tool == "slow": return
    if tool == "cancelled": text = str(len(stopped))
    if tool == "loud":
        token = r["params"]["_meta"]["progressToken"]
        for i in range(args["times"]):
            send({"method": "notifications/progress", "params": {"progressToken": token, "progress": i + 1, "message": "x" * 4000}})
    if tool == "grow":
        tools.append("grown"); send({"method": "notifications/tools/list_changed"})
    send({"id": r["id"], "result": {"content": [{"type": "text", "text": text}]}})
for line in sys.stdin:
    r = json.loads(line)
    method = r.get("method")
    if method is None: waiting["answer"] = r.get("result"); waiting["q"].set()
    elif method == "notifications/cancelled": stopped.append(r)
    elif "id" not in r: pass
    elif method == "initialize": send({"id": r["id"], "result": {"protocolVersion": "2025-06-18", "serverInfo": {"name": "s", "version": "1"}, "capabilities": {"tools": {"listChanged": True}}}})
    elif method == "tools/list": send({"id": r["id"], "result": {"tools": [{"name": t, "inputSchema": {"type": "object"}} for t in tools]}})
    elif method == "tools/call": threading.Thread(target=call, args=(r,), daemon=True).start()
    else: send({"id": r["id"], "error": {"code": -32601, "message": "no"}})
"#;

/// A host with a server of ours.
pub(super) struct Host {
    pub(super) child: Child,
    pub(super) input: Option<ChildStdin>,
    pub(super) output: Lines<BufReader<ChildStdout>>,
    pub(super) asked: Vec<Value>,
    /// What was negotiated by the handshake.
    pub(super) negotiated: Revision,
    pub(super) _files: TempDir,
}

impl Host {
    pub(super) fn start() -> Self {
        let files = fleet();
        let path = files.path().join("mcp.json");
        Self::start_with(files, &["up".as_ref(), "--stdio".as_ref(), path.as_os_str()])
    }

    pub(super) fn start_with(files: TempDir, arguments: &[&std::ffi::OsStr]) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_mcpfleet"))
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        Self {
            input: child.stdin.take(),
            output: BufReader::new(child.stdout.take().unwrap()).lines(),
            child,
            asked: Vec::new(),
            negotiated: Revision::WITHOUT_HEADER,
            _files: files,
        }
    }

    pub(super) async fn write(&mut self, line: &str) {
        let input = self.input.as_mut().unwrap();
        input.write_all(line.as_bytes()).await.unwrap();
        input.write_all(b"\n").await.unwrap();
    }

    pub(super) async fn send(&mut self, message: Value) {
        self.asked.push(message.clone());
        self.write(&message.to_string()).await;
    }

    pub(super) async fn legacy(&mut self, id: u32, method: &str, params: Value) {
        self.send(json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}))
            .await;
    }

    pub(super) async fn modern(&mut self, id: u32, method: &str, mut params: Value) {
        params["_meta"]["io.modelcontextprotocol/protocolVersion"] = json!("2026-07-28");
        params["_meta"]["io.modelcontextprotocol/clientCapabilities"] = json!({});
        self.legacy(id, method, params).await;
    }

    pub(super) async fn initialize(&mut self, revision: Revision, capabilities: Value) -> Value {
        let params = json!({"protocolVersion": revision.as_str(), "capabilities": capabilities,
            "clientInfo": {"name": "host", "version": "1"}});
        self.negotiated = revision;
        self.legacy(0, "initialize", params).await;
        let answer = self.next().await;
        self.send(json!({"jsonrpc": "2.0", "method": "notifications/initialized"}))
            .await;
        answer
    }

    /// The next line, which fits the schema of whom it is for.
    pub(super) async fn next(&mut self) -> Value {
        let line = timeout(LIMIT, self.output.next_line()).await.expect("nothing is said");
        let line = line.unwrap().expect("the output ended");
        let message: Value = serde_json::from_str(&line).unwrap_or_else(|e| panic!("{e} in {line:?}"));
        let messages = match &message {
            Value::Array(batch) => batch.clone(),
            one => vec![one.clone()],
        };
        for message in messages {
            wire::assert_event(self.spoken(&message), &self.asked, &message);
        }
        message
    }

    pub(super) fn spoken(&self, message: &Value) -> Revision {
        let meta = "io.modelcontextprotocol/protocolVersion";
        let tag = "io.modelcontextprotocol/subscriptionId";
        let question = self
            .asked
            .iter()
            .rfind(|q| q.get("id").is_some() && q["id"] == message["id"]);
        let is_modern = question
            .is_some_and(|q| q["params"]["_meta"].get(meta).is_some() || q["method"] == "server/discover")
            || message["params"]["_meta"].get(tag).is_some();
        if is_modern { Revision::LATEST } else { self.negotiated }
    }

    pub(super) async fn call(&mut self, id: u32, tool: &str, arguments: Value) -> Value {
        self.legacy(
            id,
            "tools/call",
            json!({"name": format!("s__{tool}"), "arguments": arguments}),
        )
        .await;
        loop {
            let message = self.next().await;
            if message["id"] == id {
                return message["result"]["content"][0]["text"].clone();
            }
        }
    }

    /// Closes the input, and waits for the end; gives what was still said.
    pub(super) async fn leave(mut self) -> (ExitStatus, Vec<Value>) {
        drop(self.input.take());
        let mut rest = Vec::new();
        while let Some(line) = timeout(LIMIT, self.output.next_line()).await.unwrap().unwrap() {
            rest.push(serde_json::from_str(&line).unwrap());
        }
        (
            timeout(LIMIT, self.child.wait())
                .await
                .expect("it does not end")
                .unwrap(),
            rest,
        )
    }
}

pub(super) fn fleet() -> TempDir {
    let files = TempDir::new().unwrap();
    std::fs::write(files.path().join("server.py"), SERVER).unwrap();
    let fleet = json!({"mcpServers": {"s": {"command": "python3", "args": [files.path().join("server.py")]}}});
    std::fs::write(files.path().join("mcp.json"), fleet.to_string()).unwrap();
    files
}
