//! `mcpfleet up --stdio` and `mcpfleet connect`, as a host starts them: by pipes.

use std::process::{ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures::{StreamExt, stream};
use mcpfleet::mcp::Revision;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::time::{Instant, timeout};

use crate::support::client::{Call, Client};
use crate::support::peers::Peers;
use crate::support::remote::Remote;
use crate::support::upstream::{Answer, Upstream, modern};
use crate::support::wire;

const LIMIT: Duration = Duration::from_secs(30);

/// A Legacy server. `ask` asks its client for a form, `slow` works until it is cancelled, which `cancelled` counts,
/// `loud` tells of much progress, and `grow` has one more tool from then on.
const SERVER: &str = r#"
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
struct Host {
    child: Child,
    input: Option<ChildStdin>,
    output: Lines<BufReader<ChildStdout>>,
    asked: Vec<Value>,
    /// What was negotiated by the handshake.
    negotiated: Revision,
    _files: TempDir,
}

impl Host {
    fn start() -> Self {
        let files = fleet();
        let path = files.path().join("mcp.json");
        Self::start_with(files, &["up".as_ref(), "--stdio".as_ref(), path.as_os_str()])
    }

    fn start_with(files: TempDir, arguments: &[&std::ffi::OsStr]) -> Self {
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

    async fn write(&mut self, line: &str) {
        let input = self.input.as_mut().unwrap();
        input.write_all(line.as_bytes()).await.unwrap();
        input.write_all(b"\n").await.unwrap();
    }

    async fn send(&mut self, message: Value) {
        self.asked.push(message.clone());
        self.write(&message.to_string()).await;
    }

    async fn legacy(&mut self, id: u32, method: &str, params: Value) {
        self.send(json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}))
            .await;
    }

    async fn modern(&mut self, id: u32, method: &str, mut params: Value) {
        params["_meta"]["io.modelcontextprotocol/protocolVersion"] = json!("2026-07-28");
        params["_meta"]["io.modelcontextprotocol/clientCapabilities"] = json!({});
        self.legacy(id, method, params).await;
    }

    async fn initialize(&mut self, revision: Revision, capabilities: Value) -> Value {
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
    async fn next(&mut self) -> Value {
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

    fn spoken(&self, message: &Value) -> Revision {
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

    async fn call(&mut self, id: u32, tool: &str, arguments: Value) -> Value {
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
    async fn leave(mut self) -> (ExitStatus, Vec<Value>) {
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

fn fleet() -> TempDir {
    let files = TempDir::new().unwrap();
    std::fs::write(files.path().join("server.py"), SERVER).unwrap();
    let fleet = json!({"mcpServers": {"s": {"command": "python3", "args": [files.path().join("server.py")]}}});
    std::fs::write(files.path().join("mcp.json"), fleet.to_string()).unwrap();
    files
}

#[tokio::test]
async fn a_host_of_each_legacy_revision_is_served_and_the_process_ends_with_its_input() {
    for revision in Revision::LEGACY {
        let mut host = Host::start();
        let answer = host.initialize(revision, json!({})).await;
        assert_eq!(answer["result"]["protocolVersion"], revision.as_str());
        assert_eq!(answer["result"]["capabilities"]["tools"]["listChanged"], true);
        host.legacy(1, "tools/list", json!({})).await;
        let tools = host.next().await;
        assert_eq!(
            tools["result"]["tools"].as_array().unwrap().len(),
            6,
            "with the first answer"
        );
        assert_eq!(host.call(2, "echo", json!({"text": "é\n"})).await, "é\n");
        let (status, rest) = host.leave().await;
        assert!(status.success() && rest.is_empty(), "{status} {rest:?}");
    }
}

#[tokio::test]
async fn a_modern_request_is_judged_by_what_it_says_itself() {
    let mut host = Host::start();
    host.legacy(1, "server/discover", json!({})).await;
    assert_eq!(host.next().await["result"]["supportedVersions"][0], "2026-07-28");
    host.modern(2, "server/discover", json!({})).await;
    assert!(host.next().await["result"]["capabilities"].is_object());
    host.modern(3, "tools/call", json!({"name": "s__echo", "arguments": {"text": "a"}}))
        .await;
    assert_eq!(host.next().await["result"]["content"][0]["text"], "a");
    for (id, version, capabilities, method, code) in [
        (4, "2026-07-28", json!(null), "tools/list", -32602),
        (5, "2031-01-01", json!({}), "tools/list", -32022),
        (6, "2026-07-28", json!({}), "ping", -32601),
        (7, "2026-07-28", json!({}), "nothing/such", -32601),
        (8, "2026-07-28", json!({}), "tools/call", -32602),
    ] {
        let mut meta = json!({"io.modelcontextprotocol/protocolVersion": version});
        if !capabilities.is_null() {
            meta["io.modelcontextprotocol/clientCapabilities"] = capabilities;
        }
        host.legacy(id, method, json!({"_meta": meta})).await;
        let answer = host.next().await;
        assert_eq!((&answer["id"], &answer["error"]["code"]), (&json!(id), &json!(code)));
    }
}

#[tokio::test]
async fn malformed_lines_are_answered_and_end_nothing() {
    let mut host = Host::start();
    for (line, code) in [
        ("nonsense", -32700),
        ("{", -32700),
        ("17", -32600),
        ("[]", -32600),
        (r#"[{"jsonrpc":"2.0","id":1,"method":"ping"}]"#, -32600),
        (r#"{"jsonrpc":"1.0","id":null,"method":"ping"}"#, -32600),
    ] {
        host.write(line).await;
        let answer = host.next().await;
        assert_eq!(
            (&answer["id"], &answer["error"]["code"]),
            (&Value::Null, &json!(code)),
            "{line}"
        );
    }
    host.write("").await;
    host.write(" \r").await;
    host.input.as_mut().unwrap().write_all(b"\"\xff\"\n").await.unwrap();
    assert_eq!(host.next().await["error"]["code"], -32700);
    let long = "x".repeat(5 << 20);
    for (line, id) in [
        (long.clone(), Value::Null),
        (
            format!(r#"{{"jsonrpc":"2.0","id":"early","method":"m","params":{{"x":"{long}"}}}}"#),
            json!("early"),
        ),
        (
            format!(r#"{{"method":"m","params":{{"x":"{long}"}},"jsonrpc":"2.0","id":77}}"#),
            json!(77),
        ),
    ] {
        host.asked.push(json!({"jsonrpc": "2.0", "id": id, "method": "m"}));
        host.write(&line).await;
        let answer = host.next().await;
        assert_eq!((&answer["id"], &answer["error"]["code"]), (&id, &json!(-32600)));
    }
    host.legacy(1, "ping", json!({})).await;
    assert_eq!(host.next().await["result"], json!({}));
}

#[tokio::test]
async fn a_byte_order_mark_before_the_first_message_is_passed_over() {
    let mut host = Host::start();
    host.input.as_mut().unwrap().write_all(b"\xef\xbb\xbf").await.unwrap();
    host.legacy(1, "ping", json!({})).await;
    assert_eq!(host.next().await["result"], json!({}));
}

#[tokio::test]
async fn a_host_that_leaves_before_it_said_anything_waits_for_no_server() {
    let files = TempDir::new().unwrap();
    let path = files.path().join("mcp.json");
    let slow = json!({"mcpServers": {"s": {"command": "sleep", "args": ["60"]}}});
    std::fs::write(&path, slow.to_string()).unwrap();
    let started = Instant::now();
    let host = Host::start_with(files, &["up".as_ref(), "--stdio".as_ref(), path.as_os_str()]);
    let (status, rest) = host.leave().await;
    assert!(status.success() && rest.is_empty(), "{status} {rest:?}");
    // A server may be given five seconds to start, and three to stop.
    assert!(
        started.elapsed() < Duration::from_millis(4_800),
        "{:?}",
        started.elapsed()
    );
}

#[tokio::test]
async fn subscriptions_take_no_places_of_requests() {
    let mut host = Host::start();
    for id in 1..=130 {
        let params = json!({"notifications": {"toolsListChanged": true}});
        host.modern(id, "subscriptions/listen", params).await;
        assert_eq!(host.next().await["method"], "notifications/subscriptions/acknowledged");
    }
    host.modern(
        200,
        "tools/call",
        json!({"name": "s__echo", "arguments": {"text": "a"}}),
    )
    .await;
    assert_eq!(host.next().await["result"]["content"][0]["text"], "a");
}

#[tokio::test]
async fn only_a_session_of_the_revision_that_has_batches_sends_one() {
    let batch = r#"[{"jsonrpc":"2.0","id":1,"method":"ping"},{"jsonrpc":"2.0","id":2,"method":"ping"}]"#;
    let mut host = Host::start();
    host.initialize(Revision::V2025_03_26, json!({})).await;
    for id in [1, 2] {
        host.asked.push(json!({"id": id, "method": "ping"}));
    }
    host.write(batch).await;
    assert_eq!(host.next().await.as_array().unwrap().len(), 2);
    host.initialize(Revision::V2025_06_18, json!({})).await;
    host.write(batch).await;
    assert_eq!(host.next().await["error"]["code"], -32600);
}

#[tokio::test]
async fn the_host_is_asked_what_a_server_asks() {
    let mut host = Host::start();
    host.initialize(Revision::V2025_11_25, json!({"elicitation": {}})).await;
    host.legacy(1, "tools/call", json!({"name": "s__ask", "arguments": {}}))
        .await;
    let question = host.next().await;
    assert_eq!(question["method"], "elicitation/create");
    let answer = json!({"action": "accept", "content": {"name": "Ada"}});
    host.write(&json!({"jsonrpc": "2.0", "id": question["id"], "result": answer}).to_string())
        .await;
    let answer = host.next().await;
    assert!(
        answer["result"]["content"][0]["text"].as_str().unwrap().contains("Ada"),
        "{answer}"
    );
}

#[tokio::test]
async fn requests_of_both_eras_are_cancelled_and_have_no_answer() {
    let mut host = Host::start();
    host.initialize(Revision::V2025_11_25, json!({})).await;
    host.legacy(1, "tools/call", json!({"name": "s__slow"})).await;
    host.modern(2, "tools/call", json!({"name": "s__slow"})).await;
    // Other requests do not wait.
    assert_eq!(host.call(3, "echo", json!({"text": "a"})).await, "a");
    for id in [1, 2] {
        host.send(json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id}}))
            .await;
    }
    let mut calls = 10..40;
    while host.call(calls.next().expect("not told"), "cancelled", json!({})).await != "2" {
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let (status, rest) = host.leave().await;
    assert!(status.success() && rest.is_empty(), "{rest:?}");
}

#[tokio::test]
async fn a_cancellation_right_behind_its_request_is_not_missed() {
    let mut host = Host::start();
    let listen = json!({"jsonrpc": "2.0", "id": 1, "method": "subscriptions/listen", "params": {
        "notifications": {"toolsListChanged": true}, "_meta": {
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": {}}}});
    let cancelled = json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}});
    host.write(&format!("{listen}\n{cancelled}")).await;
    let (status, rest) = host.leave().await;
    assert!(status.success());
    assert!(rest.iter().all(|message| message.get("result").is_none()), "{rest:?}");
}

#[tokio::test]
async fn changes_come_tagged_to_each_subscription_and_untagged_to_none_who_opened_no_session() {
    let mut host = Host::start();
    for id in [1, 2, 3] {
        host.modern(
            id,
            "subscriptions/listen",
            json!({"notifications": {"toolsListChanged": true}}),
        )
        .await;
        assert_eq!(host.next().await["method"], "notifications/subscriptions/acknowledged");
    }
    host.send(json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 2}}))
        .await;
    host.modern(4, "tools/call", json!({"name": "s__grow"})).await;
    let mut told: Vec<Value> = Vec::new();
    for _ in 0..3 {
        let message = host.next().await;
        if message["method"] == "notifications/tools/list_changed" {
            told.push(message["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"].clone());
        }
    }
    told.sort_by_key(Value::to_string);
    assert_eq!(told, [1, 3]);
    let (_, rest) = host.leave().await;
    let mut ended: Vec<_> = rest.iter().map(|message| message["id"].to_string()).collect();
    ended.sort();
    assert_eq!(ended, ["1", "3"], "the end is told with a result: {rest:?}");
    assert!(rest.iter().all(|message| message["result"]["resultType"] == "complete"));
}

#[tokio::test]
async fn a_session_hears_of_changes_once_and_untagged() {
    let mut host = Host::start();
    host.initialize(Revision::V2025_06_18, json!({})).await;
    host.legacy(1, "tools/call", json!({"name": "s__grow", "arguments": {}}))
        .await;
    let both = [host.next().await, host.next().await];
    let change = both.iter().find(|m| m["method"] == "notifications/tools/list_changed");
    assert!(
        change.is_some_and(|change| change["params"].get("_meta").is_none()),
        "{both:?}"
    );
    let (_, rest) = host.leave().await;
    assert!(rest.is_empty(), "{rest:?}");
}

#[tokio::test]
async fn a_host_that_does_not_read_holds_up_no_server_and_still_gets_its_answers() {
    let mut host = Host::start();
    host.initialize(Revision::V2025_11_25, json!({})).await;
    let params = json!({"name": "s__loud", "arguments": {"times": 3000}, "_meta": {"progressToken": "t"}});
    host.legacy(1, "tools/call", params).await;
    // Twelve megabytes come meanwhile, and the pipe holds a fraction of one.
    tokio::time::sleep(Duration::from_secs(3)).await;
    let mut heard = 0;
    let answer = loop {
        let message = host.next().await;
        if message["id"] == 1 {
            break message;
        }
        heard += 1;
    };
    assert_eq!(answer["result"]["content"][0]["text"], "done");
    assert!((1..3000).contains(&heard), "{heard}");
    assert_eq!(host.call(2, "echo", json!({"text": "b"})).await, "b");
}

#[tokio::test]
async fn it_ends_when_it_is_asked_to_whatever_is_at_work() {
    let mut host = Host::start();
    host.initialize(Revision::V2025_11_25, json!({})).await;
    host.legacy(1, "tools/call", json!({"name": "s__slow"})).await;
    host.legacy(2, "ping", json!({})).await;
    host.next().await;
    let pid = Pid::from_raw(host.child.id().unwrap().cast_signed()).unwrap();
    kill_process(pid, Signal::TERM).unwrap();
    let ended = timeout(Duration::from_secs(10), host.child.wait()).await;
    assert!(ended.expect("it does not end").unwrap().success());
}

#[tokio::test]
async fn a_host_that_is_gone_is_followed_though_nobody_reads_what_is_logged() {
    let files = fleet();
    let mut child = Command::new(env!("CARGO_BIN_EXE_mcpfleet"))
        .args(["up", "--stdio"])
        .arg(files.path().join("mcp.json"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    drop(child.stderr.take());
    drop(child.stdout.take());
    drop(child.stdin.take());
    let ended = timeout(LIMIT, child.wait()).await.expect("it does not end");
    assert!(ended.unwrap().success());
}

#[tokio::test]
async fn which_of_several_federations_is_served_must_be_said() {
    let files = TempDir::new().unwrap();
    let federation = |name: &str| {
        format!(
            "apiVersion: mcpfleet.dev/v1alpha1\nkind: MCPFederation\nmetadata: {{name: {name}}}\nspec: {{members: [{{name: \
             all, selector: {{}}}}], access: {{anonymous: {{}}}}}}\n---\n"
        )
    };
    let path = files.path().join("two.yaml");
    std::fs::write(&path, federation("a") + &federation("b")).unwrap();
    let up = |more: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_mcpfleet"));
        command.args(["up", "--stdio"]).arg(&path).args(more);
        command.stdin(Stdio::null()).kill_on_drop(true);
        command
    };
    let refused = up(&[]).output().await.unwrap();
    let told = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(
        !refused.status.success() && told.contains("--default-federation"),
        "{told}"
    );
    assert!(refused.stdout.is_empty());
    let served = up(&["--default-federation", "b"]).output().await.unwrap();
    assert!(served.status.success() && served.stdout.is_empty(), "{served:?}");
}

#[tokio::test]
async fn a_remote_server_is_served_under_its_own_names_with_the_headers_that_are_given() {
    let remote =
        Upstream::start(|seen| modern(seen, &json!([{"name": "own", "inputSchema": {"type": "object"}}]))).await;
    let url = format!("http://{}/mcp", remote.address);
    let arguments = ["connect", &url, "--header", "X-Token=a=b", "--show-all"].map(std::ffi::OsStr::new);
    let mut host = Host::start_with(TempDir::new().unwrap(), &arguments);
    host.initialize(Revision::V2025_11_25, json!({})).await;
    host.legacy(1, "tools/list", json!({})).await;
    assert_eq!(host.next().await["result"]["tools"][0]["name"], "own");
    let seen = remote.seen_of("tools/list");
    assert_eq!(seen[0].header("x-token"), Some("a=b"));
    assert_eq!(seen[0].header("x-mcp-show-all"), Some("true"));
    assert!(host.leave().await.0.success());
}

#[tokio::test]
async fn a_remote_server_out_of_reach_is_told_of_with_what_to_do_and_served_once_it_is_there() {
    let lets_in = Arc::new(AtomicBool::new(false));
    let open = Arc::clone(&lets_in);
    let remote = Upstream::start(move |seen| match open.load(Ordering::SeqCst) {
        false => Answer::status(401),
        true => modern(seen, &json!([{"name": "own", "inputSchema": {"type": "object"}}])),
    })
    .await;
    let nobody = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let (refusing, silent) = (remote.address, nobody.local_addr().unwrap());
    drop(nobody);
    for (address, reason, words) in [
        (silent, "ConnectFailed", "check host and port"),
        (refusing, "AuthFailed", "--header"),
    ] {
        let url = format!("http://{address}/mcp");
        let mut host = Host::start_with(TempDir::new().unwrap(), &["connect".as_ref(), url.as_ref()]);
        let is_told = |answer: &Value| {
            let error = &answer["error"];
            assert_eq!(
                (&error["code"], &error["data"]["reason"]),
                (&json!(-32603), &json!(reason))
            );
            assert!(error["message"].as_str().unwrap().contains(words), "{answer}");
        };
        is_told(&host.initialize(Revision::V2025_11_25, json!({})).await);
        host.legacy(1, "tools/list", json!({})).await;
        is_told(&host.next().await);
        host.modern(2, "tools/list", json!({})).await;
        is_told(&host.next().await);
        host.legacy(3, "ping", json!({})).await;
        assert_eq!(host.next().await["result"], json!({}));
        if address == refusing {
            lets_in.store(true, Ordering::SeqCst);
            let answer = host.initialize(Revision::V2025_11_25, json!({})).await;
            assert!(answer["result"]["serverInfo"].is_object(), "{answer}");
            host.legacy(4, "tools/list", json!({})).await;
            assert_eq!(host.next().await["result"]["tools"][0]["name"], "own");
        }
        assert!(host.leave().await.0.success());
    }
}

#[tokio::test]
async fn a_remote_server_speaks_for_itself_and_its_skills_are_there() {
    const SKILLS: &str = "io.modelcontextprotocol/skills";
    const TEXT: &str = "First.\n\n## A heading\n\nThen.";
    let info =
        json!({"name": "far", "version": "7", "title": "Far end", "icons": [{"src": "https://a.example/i.png"}]});
    let skill = json!({
        "uri": "skill://a/SKILL.md", "frontmatter": {"name": "a", "description": "About a"},
        "resources": [{"uri": "skill://a/SKILL.md", "digest": format!("sha256:{}", "0".repeat(64)), "size": 3}],
    });
    let (said, listed) = (info.clone(), skill.clone());
    let remote = Upstream::start(move |seen| {
        // Shown only to those who know of them.
        let declared = &seen.body["params"]["_meta"]["io.modelcontextprotocol/clientCapabilities"]["extensions"];
        let knows = declared[SKILLS].is_object();
        match seen.method() {
            "server/discover" => seen.result(json!({
                "resultType": "complete", "supportedVersions": ["2026-07-28"], "ttlMs": 0, "cacheScope": "private",
                "capabilities": {"tools": {}, "extensions": if knows { json!({SKILLS: {}}) } else { json!({}) }},
                "instructions": TEXT, "_meta": {"io.modelcontextprotocol/serverInfo": said},
            })),
            "skills/list" if knows => seen.result(json!({
                "resultType": "complete", "skills": [listed], "ttlMs": 0, "cacheScope": "private",
            })),
            _ => modern(seen, &json!([])),
        }
    })
    .await;
    let url = format!("http://{}/mcp", remote.address);
    let arguments = ["connect", &url].map(std::ffi::OsStr::new);
    let mut host = Host::start_with(TempDir::new().unwrap(), &arguments);
    let answer = host.initialize(Revision::V2025_11_25, json!({})).await;
    assert_eq!(answer["result"]["serverInfo"], info);
    assert_eq!(answer["result"]["instructions"], TEXT);
    assert!(
        answer["result"]["capabilities"]["extensions"][SKILLS].is_object(),
        "{answer}"
    );
    host.legacy(1, "skills/list", json!({})).await;
    assert_eq!(host.next().await["result"]["skills"], json!([skill]));
    assert!(host.leave().await.0.success());
}

#[tokio::test]
async fn who_wants_to_be_listed_everything_says_so_at_the_start() {
    for (wish, listed) in [
        (None, ["execute_tool", "tool_search"]),
        (Some("--show-all"), ["s__ask", "s__echo"]),
    ] {
        let files = fleet();
        let server = json!({"apiVersion": "mcpfleet.dev/v1alpha1", "kind": "MCPFederation", "metadata": {"name": "f"},
            "spec": {"access": {"anonymous": {}}, "members": [{
                "name": "s", "server": {"name": "s"}, "visibility": "Discoverable",
                "tools": {"allow": ["ask", "echo"]},
            }]},
        });
        std::fs::write(files.path().join("fed.yaml"), server.to_string()).unwrap();
        let (servers, federation) = (files.path().join("mcp.json"), files.path().join("fed.yaml"));
        let mut arguments = vec![
            "up".as_ref(),
            "--stdio".as_ref(),
            servers.as_os_str(),
            federation.as_os_str(),
        ];
        arguments.extend(wish.map(std::ffi::OsStr::new));
        let mut host = Host::start_with(files, &arguments);
        let names = |answer: Value| -> Vec<String> {
            let tools = answer["result"]["tools"].as_array().unwrap().iter();
            tools.map(|tool| tool["name"].as_str().unwrap().to_owned()).collect()
        };
        host.modern(1, "tools/list", json!({})).await;
        assert_eq!(names(host.next().await), listed, "{wish:?}");
        let opened = host.initialize(Revision::V2025_11_25, json!({})).await;
        assert_eq!(
            opened["result"].get("instructions").is_some(),
            wish.is_none(),
            "{opened}"
        );
        host.legacy(2, "tools/list", json!({})).await;
        assert_eq!(names(host.next().await), listed, "{wish:?}");
        assert_eq!(host.call(3, "echo", json!({"text": "a"})).await, "a", "listed or not");
        assert!(host.leave().await.0.success());
    }
}

/// Clients that visit at a time.
const AT_A_TIME: usize = 4;

#[tokio::test(flavor = "multi_thread")]
async fn the_clients_of_other_people_start_it_and_use_it() {
    let Some(peers) = Peers::installed() else { return };
    let files = fleet();
    let file = files.path().join("mcp.json").display().to_string();
    every_client_uses(&peers, &["up", "--stdio", &file], "s__echo", "text").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_clients_of_other_people_use_a_remote_server_by_it() {
    let Some(peers) = Peers::installed() else { return };
    // One of each era: Legacy with sessions, and both.
    for remote in [Remote::PythonV1, Remote::TypescriptV2] {
        let running = remote.start(&peers).await;
        every_client_uses(&peers, &["connect", &running.url], "echo", "message").await;
    }
}

/// Lets every client start this command of ours, list the tools, and call the one that answers with what it is told.
async fn every_client_uses(peers: &Peers, arguments: &[&str], tool: &str, argument: &str) {
    let words: Vec<_> = [env!("CARGO_BIN_EXE_mcpfleet")].iter().chain(arguments).collect();
    let target = format!("stdio:{}", json!(words));
    let call = Call {
        tool: tool.to_owned(),
        arguments: json!({argument: "hello"}).as_object().unwrap().clone(),
    };
    let visits = stream::iter(Client::ALL).map(async |client| {
        let visit = client.visit(peers, &target, std::slice::from_ref(&call)).await;
        let visit = visit.unwrap_or_else(|error| panic!("{client:?} and {words:?}: {error}"));
        assert_eq!(visit.protocol_version, client.revision(), "{client:?}");
        assert!(visit.tools.contains(&tool.to_owned()), "{client:?}: {:?}", visit.tools);
        assert!(visit.calls[0].text.contains("hello"), "{client:?}: {:?}", visit.calls);
    });
    visits.buffer_unordered(AT_A_TIME).for_each(async |()| ()).await;
}
