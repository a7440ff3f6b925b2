//! `mcpfleet up` as a person uses it: files, children, changes, mistakes.

use std::path::{Path, PathBuf};
use std::time::Duration;

use ::http::Request;
use http_body_util::Full;
use mcpfleet::mcp::Revision;
use rustix::process::{Pid, Signal, kill_process, test_kill_process};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::process::Command;
use tokio::time::{Instant, sleep};

use crate::support::event_stream::EventStream;
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
    // The process that was called, with its child, does for the lists as well; the one before it ends.
    let deadline = Instant::now() + Duration::from_secs(10);
    let first: Vec<_> = loop {
        let running: Vec<_> = files.pids().into_iter().filter(|pid| alive(*pid)).collect();
        if running.len() == 2 {
            break running;
        }
        assert!(Instant::now() < deadline, "still there: {running:?}");
        sleep(Duration::from_millis(20)).await;
    };

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
    files.write_servers(&["one", "two"], "first");
    up.says("manifests are right again", 0).await;

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
    kill_process(Pid::from_raw(first[0]).unwrap(), Signal::KILL).unwrap();
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
    let elsewhere = http::get(&format!("{admin}/")).await;
    assert_eq!(
        (elsewhere.status, elsewhere.text.as_str()),
        (404, "served here: /metrics, /livez and /readyz\n")
    );
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
        (
            vec![&open, "--listen", "0.0.0.0:0"],
            vec!["access", "anonymous: {}", "such as --listen 127.0.0.1:0"],
        ),
        (
            vec![&good, "--listen", "0.0.0.0:0"],
            vec![
                "no MCPFederation is in the files",
                "such as 127.0.0.1:8080",
                "access: {apiKeys",
            ],
        ),
        (
            vec![&good, "--listen", "localhost:8080"],
            vec!["--listen", "127.0.0.1:8080 for this machine"],
        ),
        (
            vec![&good, "--drain-timeout", "soon"],
            vec!["--drain-timeout", "such as 500ms"],
        ),
        (vec!["/dev/zero"], vec!["/dev/zero", "is a device", "mcpfleet up -"]),
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

/// A server whose every name and word is made to act on a terminal; it says all the time that its tools changed.
const NASTY: &str = r#"
import json, os, sys, threading, time
lock = threading.Lock()
def send(message):
    with lock: print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)
def nag():
    while True:
        time.sleep(0.2)
        send({"method": "notifications/tools/list_changed"})
esc = "\x1b[2J\x1b]0;owned\x07\u202e\u0085"
reads = 0
for line in sys.stdin:
    message = json.loads(line)
    if "id" not in message: continue
    method = message["method"]
    if method == "initialize":
        result = {"protocolVersion": "2025-06-18", "capabilities": {"tools": {"listChanged": True}, "resources": {}, "prompts": {}},
                  "serverInfo": {"name": "py" + esc, "version": "1" + esc}}
    elif method == "tools/list":
        reads += 1
        if reads == 1: threading.Thread(target=nag, daemon=True).start()
        open(os.environ["READS"], "w").write(str(reads))
        schema = {"type": "object"}
        result = {"tools": [{"name": n, "inputSchema": schema} for n in ["good", "bad" + esc, "two\nlines"]]
                           + [{"inputSchema": schema}] * (2 if reads < 3 else 3)}
    elif method == "prompts/list":
        result = {"prompts": [{"name": "p" + esc}, {"title": "nameless"}]}
    elif method == "resources/list":
        result = {"resources": [{"uri": "a://" + esc, "name": "r" + esc}]}
    elif method == "resources/templates/list":
        result = {"resourceTemplates": []}
    else:
        send({"id": message["id"], "error": {"code": -32601, "message": "no" + esc}})
        continue
    send({"id": message["id"], "result": result})
"#;

#[tokio::test]
async fn names_and_words_of_servers_do_not_act_on_logs_and_terminals_and_are_told_once() {
    let files = Files::new();
    std::fs::write(files.path("nasty.py"), NASTY).unwrap();
    let (reads, command) = (files.path("reads"), files.path("nasty.py"));
    let entry = json!({"command": "python3", "args": ["-u", command], "env": {"READS": reads}});
    let path = files.path("mcp.json");
    std::fs::write(&path, json!({"mcpServers": {"nasty": entry}}).to_string()).unwrap();
    let up = Up::start(&[&path], |command| {
        command.env("RUST_LOG", "debug");
    });
    let url = up.endpoint("default").await;
    let ready = up.says("server nasty ready", 0).await;
    assert!(ready.ends_with("1 tool, 4 withheld"), "{ready}");
    assert_eq!(tools(&url).await, ["nasty__good"]);
    up.says("entries without name are left out", 2).await;
    let reads = || std::fs::read_to_string(&reads).unwrap_or_default().parse().unwrap_or(0);
    let deadline = Instant::now() + Duration::from_secs(20);
    while reads() < 6 {
        assert!(Instant::now() < deadline, "its lists are not read again");
        sleep(Duration::from_millis(50)).await;
    }
    let printed = up.printed();
    let lines: Vec<&String> = printed.output.iter().chain(&printed.errors).collect();
    for line in &lines {
        let acts = |c: char| c.is_control() || ('\u{202a}'..='\u{202e}').contains(&c);
        assert!(!line.chars().any(acts), "{line:?}");
    }
    let told = |words: &[&str]| {
        lines
            .iter()
            .filter(|line| words.iter().all(|w| line.contains(w)))
            .count()
    };
    assert_eq!(
        told(&["default/nasty", "is withheld: its name or URI has control characters"]),
        4
    );
    // Two of the first reading, and the one whose number changed in the third.
    assert_eq!(
        told(&["default/nasty", "entries without name are left out"]),
        3,
        "{lines:#?}"
    );
    assert_eq!(told(&["list=\"prompts\"", "count=1"]), 1);
    assert_eq!(told(&["list=\"tools\"", "count=3"]), 1);
}

#[tokio::test]
async fn endpoints_are_told_as_they_come_and_go_and_work_as_soon_as_they_are_told() {
    let files = Files::new();
    let servers = files.write_servers(&["one"], "x");
    let federation = |name: &str| {
        let text = format!(
            "apiVersion: mcpfleet.dev/v1alpha1\nkind: MCPFederation\nmetadata: {{name: {name}}}\nspec:\n  members:\n  - {{name: one, server: {{name: one}}}}\n"
        );
        std::fs::write(files.path(&format!("{name}.yaml")), text).unwrap();
    };
    federation("first");
    let up = Up::start(&[files.directory.path()], |_| {});
    let url = up.endpoint("first").await;
    let bare = up.says("/mcp (the same as /default/first/mcp)", 0).await;
    let bare = bare.split_whitespace().nth(1).unwrap().to_owned();
    let ping = json!({"jsonrpc": "2.0", "id": 1, "method": "ping"});
    assert!(http::post(&url, &ping).await["result"].is_object());
    assert!(http::post(&bare, &ping).await["result"].is_object());

    for name in ["second", "third", "fourth"] {
        federation(name);
        let url = up.endpoint(name).await;
        assert!(
            http::post(&url, &ping).await["result"].is_object(),
            "{name} is served once it is told"
        );
    }
    let removed = up.says(&format!("{bare} removed"), 0).await;
    assert!(removed.contains("--default-federation NAME"), "{removed}");
    for name in ["second", "third", "fourth"] {
        std::fs::remove_file(files.path(&format!("{name}.yaml"))).unwrap();
        up.says(&format!("/default/{name}/mcp removed"), 0).await;
    }
    up.says("/mcp (the same as /default/first/mcp)", 1).await;
    assert!(http::post(&bare, &ping).await["result"].is_object());
    drop(servers);
}

#[tokio::test]
async fn a_default_federation_that_goes_away_is_missed_aloud() {
    let files = Files::new();
    files.write_servers(&["one"], "x");
    let federation = |name: &str| {
        format!(
            "apiVersion: mcpfleet.dev/v1alpha1\nkind: MCPFederation\nmetadata: {{name: {name}}}\nspec:\n  members:\n  - {{name: one, server: {{name: one}}}}\n"
        )
    };
    std::fs::write(files.path("a.yaml"), federation("one")).unwrap();
    let path = files.path("b.yaml");
    std::fs::write(&path, federation("wanted")).unwrap();
    let up = Up::start(&[files.directory.path()], |command| {
        command.args(["--default-federation", "wanted"]);
    });
    up.says("/mcp (the same as /default/wanted/mcp)", 0).await;
    std::fs::write(&path, federation("renamed")).unwrap();
    let told = up
        .says("/mcp removed: --default-federation names default/wanted", 0)
        .await;
    assert!(
        told.ends_with("no MCPFederation of that name is in the files any more"),
        "{told}"
    );
    std::fs::write(&path, federation("wanted")).unwrap();
    up.says("/mcp (the same as /default/wanted/mcp)", 1).await;
}

#[tokio::test]
async fn a_program_from_a_variable_is_not_told() {
    let files = Files::new();
    let servers = json!({"gone": {"command": "${SERVER}"}, "folder": {"command": "/${SERVER}/serve"}, "plain": {"command": "no-such"}});
    let path = files.path("mcp.json");
    std::fs::write(&path, json!({ "mcpServers": servers }).to_string()).unwrap();
    let up = Up::start(&[&path], |command| {
        command.env("SERVER", "hunter2").env("RUST_LOG", "trace");
    });
    up.says(
        "server gone failed: ProgramNotFound: program \"${SERVER}\" was not found",
        0,
    )
    .await;
    up.says("program \"/${SERVER}/serve\" was not found", 0).await;
    up.says("program \"no-such\" was not found", 0).await;
    let printed = up.printed();
    let lines = printed.output.iter().chain(&printed.errors);
    assert!(!lines.clone().any(|line| line.contains("hunter2")), "{printed:#?}");
}

#[tokio::test]
async fn namespaces_are_known_by_their_names_and_by_nothing_else() {
    let files = Files::new();
    let server = |name: &str, label: &str| {
        format!(
            "apiVersion: mcpfleet.dev/v1alpha1\nkind: MCPServer\nmetadata: {{name: {name}, namespace: other}}\nspec:\n  remote: {{url: \"http://127.0.0.1:9/mcp\"}}\n  federation: {{allowedNamespaces: {{from: Selector, selector: {{matchLabels: {{{label}}}}}}}}}\n---\n"
        )
    };
    let members = "apiVersion: mcpfleet.dev/v1alpha1\nkind: MCPFederation\nmetadata: {name: tools}\nspec:\n  members:\n  - {name: open, server: {name: open, namespace: other}}\n  - {name: shut, server: {name: shut, namespace: other}}\n";
    let text = server("open", "kubernetes.io/metadata.name: default") + &server("shut", "team: red") + members;
    let path = files.path("fleet.yaml");
    std::fs::write(&path, text).unwrap();
    let up = Up::start(&[&path], |_| {});
    let told = up.says("by labels that default does not have", 0).await;
    assert!(told.contains("other/shut"), "{told}");
    up.says("member shut of tools contributes nothing: NotPermitted", 0)
        .await;
    let printed = up.printed();
    assert!(
        !printed.output.iter().any(|line| line.contains("member open")),
        "{printed:#?}"
    );
}

#[tokio::test]
async fn asked_to_stop_it_ends_streams_with_a_word_and_waits_for_none() {
    let files = Files::new();
    let path = files.write_servers(&["one"], "first");
    let up = Up::start(&[&path], |_| {});
    let url = up.endpoint("default").await;
    up.ready("one").await;
    let client = http::client();
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {},
    });
    let mut subscriptions = Vec::new();
    for id in [json!("a"), json!(2)] {
        let params = json!({"notifications": {"toolsListChanged": true}, "_meta": meta});
        let listen = json!({"jsonrpc": "2.0", "id": id, "method": "subscriptions/listen", "params": params});
        let headers = [
            ("mcp-protocol-version", "2026-07-28"),
            ("mcp-method", "subscriptions/listen"),
        ];
        let mut stream = EventStream::open(&client, http::legacy(&url, &listen, headers)).await;
        stream.next().await;
        subscriptions.push((id, stream));
    }
    let session = http::open_session(&client, &url, Revision::LATEST_LEGACY, &[])
        .await
        .unwrap();
    let get = Request::get(&url)
        .header("accept", "text/event-stream")
        .header("mcp-session-id", session)
        .header("mcp-protocol-version", "2025-11-25");
    let mut heard = EventStream::open(&client, get.body(Full::default()).unwrap()).await;
    assert!(heard.event().await.is_some());

    let asked = Instant::now();
    // Who asks twice gets the same.
    kill_process(Pid::from_raw(up.id()).unwrap(), Signal::TERM).unwrap();
    let stopped = tokio::spawn(up.stop());
    for (id, stream) in &mut subscriptions {
        let last = stream.next().await;
        assert_eq!((&last["id"], &last["result"]["resultType"]), (&*id, &json!("complete")));
        stream.end().await;
    }
    heard.end().await;
    assert!(stopped.await.unwrap().success());
    assert!(asked.elapsed() < Duration::from_secs(10), "{:?}", asked.elapsed());
}

#[tokio::test]
async fn asked_to_stop_while_a_server_still_starts_it_stops_at_once() {
    let files = Files::new();
    let path = files.path("hang.json");
    std::fs::write(
        &path,
        r#"{"mcpServers": {"mute": {"command": "sleep", "args": ["30"]}}}"#,
    )
    .unwrap();
    let up = Up::start(&[&path], |_| {});
    up.endpoint("default").await;
    let asked = Instant::now();
    assert!(up.stop().await.success());
    assert!(asked.elapsed() < Duration::from_secs(3), "{:?}", asked.elapsed());
}

#[tokio::test]
async fn what_was_closed_is_not_open_once_its_federation_is_gone_from_the_files() {
    let files = Files::new();
    let servers = files.write_servers(&["one"], "first");
    let federation = files.path("closed.yaml");
    let closed = json!({
        "apiVersion": "mcpfleet.dev/v1alpha1", "kind": "MCPFederation", "metadata": {"name": "closed"},
        "spec": {
            "members": [{"name": "one", "server": {"name": "one"}}],
            "access": {"apiKeys": {"secretRef": {"name": "keys"}}},
        },
    });
    let keys =
        json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "keys"}, "stringData": {"alice": "key"}});
    std::fs::write(&federation, format!("{closed}\n---\n{keys}\n")).unwrap();
    let up = Up::start(&[&servers, &federation], |_| {});
    let url = up.endpoint("closed").await;
    up.ready("one").await;
    let list = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"});
    let client = http::client();
    let status = async || http::send(&client, http::legacy(&url, &list, [])).await.status;
    assert_eq!(status().await, 401);
    std::fs::write(&federation, "").unwrap();
    let told = up.says("hold no MCPFederation any more", 0).await;
    assert!(told.contains("write one down again"), "{told}");
    assert_eq!(status().await, 401, "what ran before goes on");
    let bare = url.replace("/default/closed/mcp", "/default/default/mcp");
    let reply = http::send(&client, http::legacy(&bare, &list, [])).await;
    assert_eq!(reply.status, 404);
}
