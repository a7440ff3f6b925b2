//! `mcpfleet up` as a person uses it: files, children, changes, mistakes.

use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::process::{Pid, test_kill_process};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::process::Command;
use tokio::time::{Instant, sleep};

use crate::support::http;
use crate::support::up::Up;

/// A stdio server with one tool, which answers with what `ANSWER` says; it has a child of its own, as npx has.
const SERVER: &str = r#"
import json, os, subprocess, sys
child = subprocess.Popen(["sleep", "600"])
open(os.environ["PIDS"], "a").write(f"{os.getpid()} {child.pid}\n")
for line in sys.stdin:
    message = json.loads(line)
    if "id" not in message: continue
    method = message["method"]
    if method == "initialize":
        result = {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": {"name": "py", "version": "1"}}
    elif method == "tools/list":
        result = {"tools": [{"name": "tell", "inputSchema": {"type": "object"}}]}
    elif method == "tools/call":
        result = {"content": [{"type": "text", "text": os.environ["ANSWER"]}]}
    else:
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "error": {"code": -32601, "message": "no"}}), flush=True)
        continue
    print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}), flush=True)
"#;

struct Files {
    directory: TempDir,
}

impl Files {
    fn new() -> Self {
        let directory = TempDir::new().unwrap();
        std::fs::write(directory.path().join("server.py"), SERVER).unwrap();
        Self { directory }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// An `mcp.json` with these servers, each answering its own name and `answer`.
    fn write_servers(&self, names: &[&str], answer: &str) -> PathBuf {
        let entry = |name: &str| {
            let env = json!({"PIDS": self.path("pids"), "ANSWER": format!("{name} {answer}")});
            json!({"command": "python3", "args": ["-u", "server.py"], "cwd": ".", "env": env})
        };
        let servers: serde_json::Map<String, Value> = names.iter().map(|name| ((*name).into(), entry(name))).collect();
        let path = self.path("mcp.json");
        std::fs::write(&path, json!({"mcpServers": servers}).to_string()).unwrap();
        path
    }

    /// All processes that servers wrote down.
    fn pids(&self) -> Vec<i32> {
        let text = std::fs::read_to_string(self.path("pids")).unwrap_or_default();
        text.split_whitespace().map(|pid| pid.parse().unwrap()).collect()
    }
}

fn alive(pid: i32) -> bool {
    // A zombie that waits for its parent is gone for our purposes.
    let state = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let zombie = state
        .rsplit(')')
        .next()
        .is_some_and(|rest| rest.trim_start().starts_with('Z'));
    Pid::from_raw(pid).is_some_and(|pid| test_kill_process(pid).is_ok()) && !zombie
}

async fn gone(pids: &[i32]) {
    let deadline = Instant::now() + Duration::from_secs(10);
    while pids.iter().any(|pid| alive(*pid)) {
        assert!(Instant::now() < deadline, "still there: {pids:?}");
        sleep(Duration::from_millis(20)).await;
    }
}

async fn tools(url: &str) -> Vec<String> {
    let answer = http::post(url, &json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"})).await;
    let tools = answer["result"]["tools"].as_array().unwrap().clone();
    tools
        .iter()
        .map(|tool| tool["name"].as_str().unwrap().to_owned())
        .collect()
}

async fn call(url: &str, name: &str) -> String {
    let params = json!({"name": name, "arguments": {}});
    let answer = http::post(
        url,
        &json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}),
    )
    .await;
    answer["result"]["content"][0]["text"]
        .as_str()
        .unwrap_or_else(|| panic!("{answer}"))
        .to_owned()
}

#[tokio::test]
async fn edits_are_taken_without_a_restart_and_wrong_ones_are_not() {
    let files = Files::new();
    let path = files.write_servers(&["one"], "first");
    let up = Up::start(&[&path], |_| {});
    let url = up.endpoint("default").await;
    up.ready("one").await;
    assert_eq!(call(&url, "one__tell").await, "one first");
    let first = files.pids();

    files.write_servers(&["one", "two"], "first");
    up.ready("two").await;
    assert_eq!(tools(&url).await, ["one__tell", "two__tell"]);
    assert!(
        first.iter().all(|pid| alive(*pid)),
        "the server that stayed as it was goes on"
    );

    std::fs::write(&path, "{\"mcpServers\": {\"one\": {}}}").unwrap();
    let told = up.says("mcp.json", 0).await;
    assert!(told.contains("one"), "{told}");
    assert_eq!(tools(&url).await, ["one__tell", "two__tell"], "what ran before goes on");

    files.write_servers(&["two"], "second");
    up.says("server one removed", 0).await;
    up.says("server two ready", 1).await;
    assert_eq!(
        call(&url, "two__tell").await,
        "two second",
        "a changed command is a new process"
    );
    gone(&first).await;

    let all = files.pids();
    assert!(up.stop().await.success());
    gone(&all).await;
}

#[tokio::test]
async fn a_server_that_dies_is_started_again() {
    let files = Files::new();
    let up = Up::start(&[files.write_servers(&["one"], "x")], |_| {});
    let url = up.endpoint("default").await;
    up.ready("one").await;
    let first = files.pids();
    rustix::process::kill_process(Pid::from_raw(first[0]).unwrap(), rustix::process::Signal::KILL).unwrap();
    up.says("server one failed", 0).await;
    up.says("server one ready", 1).await;
    assert_eq!(call(&url, "one__tell").await, "one x");
    gone(&first).await;
}

#[tokio::test]
async fn health_and_metrics_are_served_apart() {
    let files = Files::new();
    let up = Up::start(&[files.write_servers(&["one"], "x")], |_| {});
    let (admin, url) = (up.admin().await, up.endpoint("default").await);
    up.ready("one").await;
    call(&url, "one__tell").await;
    let live = http::get(&format!("{admin}/livez")).await;
    assert_eq!((live.status, live.text.as_str()), (200, "ok\n"));
    assert_eq!(http::get(&format!("{admin}/readyz")).await.status, 200);
    let metrics = http::get(&format!("{admin}/metrics")).await;
    let page = metrics.text;
    assert_eq!(metrics.status, 200);
    assert!(
        page.contains(r#"mcpfleet_upstream_up{server="default/one"} 1"#),
        "{page}"
    );
    assert!(page.contains("process_resident_memory_bytes"), "{page}");
}

#[tokio::test]
async fn mistakes_end_the_start_with_a_message_that_says_what_to_do() {
    let files = Files::new();
    let write = |name: &str, text: &str| {
        std::fs::write(files.path(name), text).unwrap();
        files.path(name).display().to_string()
    };
    let good = files.write_servers(&["one"], "x").display().to_string();
    let server = "apiVersion: mcpfleet.dev/v1alpha1\nkind: MCPServer\nmetadata: {name: a}\nspec:\n  remote:\n";
    let field = write("field.yaml", &format!("{server}    url: ftp://x\n"));
    let unknown = write("unknown.yaml", &format!("{server}    uri: http://x/mcp\n"));
    let kind = write("kind.yaml", "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\n");
    let open = write(
        "open.yaml",
        "apiVersion: mcpfleet.dev/v1alpha1\nkind: MCPFederation\nmetadata: {name: f}\nspec: {}\n",
    );
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = taken.local_addr().unwrap().to_string();
    let cases: Vec<(Vec<&str>, Vec<&str>)> = vec![
        (
            vec![&field],
            vec!["field.yaml:6", "spec.remote.url", "absolute http or https"],
        ),
        (vec![&unknown], vec!["unknown.yaml:6", "uri", "did you mean `url`"]),
        (vec![&kind], vec!["kind.yaml", "Pod", "MCPServer"]),
        (vec!["/nowhere.yaml"], vec!["/nowhere.yaml", "cannot be read"]),
        (
            vec![&good, "--default-federation", "other"],
            vec!["default/other", "no MCPFederation"],
        ),
        (vec![&good, "--listen", &taken], vec![&taken, "--listen"]),
        (vec![&open, "--listen", "0.0.0.0:0"], vec!["access", "anonymous: {}"]),
        (vec![], vec!["<FILE|DIR>"]),
    ];
    for (args, expected) in cases {
        let mut command = Command::new(env!("CARGO_BIN_EXE_mcpfleet"));
        command.arg("up").args(&args).args(["--admin-listen", "127.0.0.1:0"]);
        if !args.contains(&"--listen") {
            command.args(["--listen", "127.0.0.1:0"]);
        }
        let ended = tokio::time::timeout(Duration::from_secs(20), command.kill_on_drop(true).output()).await;
        let ended = ended.unwrap_or_else(|_| panic!("{args:?} goes on")).unwrap();
        let told = String::from_utf8_lossy(&ended.stderr);
        assert!(!ended.status.success(), "{args:?}: {told}");
        for words in expected {
            assert!(told.contains(words), "{words:?} in: {told}");
        }
    }
    assert!(
        Path::new(&files.path("pids")).metadata().is_err(),
        "nothing was started"
    );
}
