//! With what is declared lists are read, and with what calls are made.

use std::collections::HashMap;
use std::sync::Mutex;
use std::time::Duration;

use ::http::Method;
use mcpfleet::fleet::UpstreamState;
use mcpfleet::mcp::Revision;
use mcpfleet::upstream::{Endpoint, StdioCommand};
use serde_json::{Value, json};

use crate::support::gateway::{TestGateway, plan};
use crate::support::held::{Streams, eventually};
use crate::support::peers::Peers;
use crate::support::remote::Remote;
use crate::support::upstream::{self, Answer, Seen, Upstream};

const SOON: Duration = Duration::from_secs(10);

fn everything() -> Value {
    json!({
        "roots": {"listChanged": true}, "sampling": {"context": {}, "tools": {}},
        "elicitation": {"form": {}, "url": {}},
        "extensions": {
            "io.modelcontextprotocol/skills": {},
            "io.modelcontextprotocol/ui": {"mimeTypes": ["text/html;profile=mcp-app"]},
        },
    })
}

/// Tools of a server that lists what its client can use.
fn tools_for(declared: &Value) -> Value {
    let names = ["roots", "sampling", "elicitation", "extensions"];
    let tools = names.into_iter().filter(|name| declared.get(name).is_some());
    tools
        .chain(["always"])
        .map(|name| json!({"name": name, "inputSchema": {"type": "object"}}))
        .collect()
}

/// A Legacy server whose sessions differ by what was declared in their handshakes; its tools answer with that.
fn legacy(seen: &Seen, sessions: &Mutex<HashMap<String, Value>>) -> Answer {
    let mut sessions = sessions.lock().unwrap();
    if seen.method() == "initialize" {
        let session = format!("s-{}", sessions.len());
        sessions.insert(session.clone(), seen.body["params"]["capabilities"].clone());
        let result = json!({
            "protocolVersion": "2025-11-25", "capabilities": {"tools": {}},
            "serverInfo": {"name": "l", "version": "1"},
        });
        return seen.result(result).with_header("mcp-session-id", &session);
    }
    let session = seen.header("mcp-session-id").unwrap_or_default();
    let declared = sessions.get(session).cloned().unwrap_or_default();
    match seen.method() {
        "tools/call" => seen.result(json!({
            "content": [{"type": "text", "text": json!([session, declared]).to_string()}],
        })),
        _ => upstream::legacy(seen, &tools_for(&declared)),
    }
}

async fn legacy_server() -> Upstream {
    let sessions = Mutex::default();
    Upstream::start(move |seen| legacy(seen, &sessions)).await
}

async fn names(gateway: &TestGateway) -> Vec<String> {
    let listed = gateway.modern("tools/list", json!({})).await;
    let tools = listed["result"]["tools"].as_array().unwrap().iter();
    tools.map(|tool| tool["name"].as_str().unwrap().to_owned()).collect()
}

async fn call(gateway: &TestGateway, capabilities: &Value) -> Value {
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": capabilities,
    });
    let params = json!({"name": "s__always", "arguments": {}, "_meta": meta});
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params});
    let headers = [
        ("mcp-protocol-version", "2026-07-28"),
        ("mcp-method", "tools/call"),
        ("mcp-name", "s__always"),
    ];
    let answer = gateway.post(body, &headers).await.json();
    let text = answer["result"]["content"][0]["text"].as_str();
    serde_json::from_str(text.unwrap_or_else(|| panic!("{answer}"))).unwrap()
}

#[tokio::test]
async fn everything_is_listed_and_calls_declare_what_their_clients_did() {
    let server = legacy_server().await;
    let gateway = TestGateway::ready(&[("s", server.address)]).await;
    let expected = ["roots", "sampling", "elicitation", "extensions", "always"];
    let mut listed = names(&gateway).await;
    listed.sort();
    let mut expected = expected.map(|name| format!("s__{name}"));
    expected.sort();
    assert_eq!(listed, expected);

    // Those who declare the same and cannot be asked share one session, whoever they are, one request a call.
    for _ in 0..3 {
        assert_eq!(call(&gateway, &json!({})).await, json!(["s-1", {}]));
    }
    let apps = json!({"extensions": {"io.modelcontextprotocol/ui": {"mimeTypes": ["text/html"]}}});
    for _ in 0..2 {
        assert_eq!(call(&gateway, &apps).await, json!(["s-2", apps]));
    }
    assert_eq!(call(&gateway, &json!({})).await, json!(["s-1", {}]));
    assert_eq!(server.seen_of("tools/call").len(), 6);
    let declared = server.seen_of("initialize");
    let declared: Vec<_> = declared
        .iter()
        .map(|seen| &seen.body["params"]["capabilities"])
        .collect();
    assert_eq!(declared, [&everything(), &json!({}), &apps]);
}

#[tokio::test]
async fn a_modern_server_hears_everything_with_lists_and_the_clients_own_with_calls() {
    const DECLARED: &str = "io.modelcontextprotocol/clientCapabilities";
    let server = Upstream::start(|seen| {
        let declared = &seen.body["params"]["_meta"][DECLARED];
        match seen.method() {
            "tools/call" => seen.result(json!({
                "resultType": "complete", "content": [{"type": "text", "text": declared.to_string()}],
            })),
            _ => upstream::modern(seen, &tools_for(declared)),
        }
    })
    .await;
    let gateway = TestGateway::ready(&[("s", server.address)]).await;
    assert_eq!(names(&gateway).await.len(), 5);
    assert_eq!(call(&gateway, &json!({})).await, json!({}));
    let mut declared = everything();
    declared["roots"] = json!({});
    declared["extensions"]["io.modelcontextprotocol/tasks"] = json!({});
    assert_eq!(
        server.seen_of("tools/list")[0].body["params"]["_meta"][DECLARED],
        declared
    );
}

/// A Legacy server on standard input and output whose tools answer with what was declared, and where.
const PROCESS: &str = r#"
import json, os, sys
def say(m): print(json.dumps({"jsonrpc": "2.0", **m}), flush=True)
for line in sys.stdin:
    m = json.loads(line)
    method, id = m.get("method"), m.get("id")
    if method == "initialize":
        declared = m["params"]["capabilities"]
        say({"id": id, "result": {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}},
             "serverInfo": {"name": "s", "version": "1"}}})
    elif method == "tools/list":
        names = [*declared, "always", "pid-%d" % os.getpid()]
        say({"id": id, "result": {"tools": [{"name": n, "inputSchema": {"type": "object"}} for n in names]}})
    elif method == "tools/call":
        say({"id": id, "result": {"content": [{"type": "text", "text": json.dumps([os.getpid(), declared])}]}})
    elif id is not None: say({"id": id, "error": {"code": -32601, "message": "unknown"}})
"#;

#[tokio::test]
async fn a_process_lists_everything_and_another_one_is_called_by_all_who_cannot_be_asked() {
    let mut input = plan(&[("s", "127.0.0.1:1".parse().unwrap())]);
    input.servers[0].endpoint = Ok(Endpoint::Stdio(StdioCommand {
        program: "python3".into(),
        args: vec!["-c".into(), PROCESS.into()],
        env: Default::default(),
        cwd: None,
    }));
    input.servers[0].terms.timeouts.connect = SOON;
    let mut gateway = TestGateway::start(input).await;
    gateway
        .until(|o| o.servers.values().all(|s| s.state == UpstreamState::Ready))
        .await;
    let listed = names(&gateway).await;
    assert_eq!(listed.len(), 6, "{listed:?}");
    let [first, second] = [call(&gateway, &json!({})).await, call(&gateway, &json!({})).await];
    assert_eq!(first, second);
    assert_eq!(first[1], json!({}));
    assert!(!listed.contains(&format!("s__pid-{}", first[0])), "{listed:?}");
    gateway.stop().await;
}

/// A process that lists the same to everybody, and more when it was asked to; of the first `ODD` another tool too.
const INDIFFERENT: &str = r#"
import json, os, sys
def say(m): print(json.dumps({"jsonrpc": "2.0", **m}), flush=True)
open(os.environ["STARTED"], "a").write("%d\n" % os.getpid())
is_odd = len(open(os.environ["STARTED"]).readlines()) <= int(os.environ.get("ODD", "0"))
tools = ["always", "odd"] if is_odd else ["always"]
for line in sys.stdin:
    m = json.loads(line)
    method, id = m.get("method"), m.get("id")
    if method == "initialize":
        say({"id": id, "result": {"protocolVersion": "2025-11-25", "capabilities": {"tools": {"listChanged": True}},
             "serverInfo": {"name": "s", "version": "1"}}})
    elif method == "tools/list":
        say({"id": id, "result": {"tools": [{"name": n, "inputSchema": {"type": "object"}} for n in tools]}})
    elif method == "tools/call":
        tools.append("more")
        say({"method": "notifications/tools/list_changed"})
        say({"id": id, "result": {"content": [{"type": "text", "text": json.dumps(os.getpid())}]}})
    elif id is not None: say({"id": id, "error": {"code": -32601, "message": "unknown"}})
"#;

#[tokio::test]
async fn a_process_to_which_it_makes_no_difference_is_one_process_in_the_end() {
    let directory = tempfile::tempdir().unwrap();
    let started = directory.path().join("started");
    let mut input = plan(&[("s", "127.0.0.1:1".parse().unwrap())]);
    input.servers[0].endpoint = Ok(Endpoint::Stdio(StdioCommand {
        program: "python3".into(),
        args: vec!["-c".into(), INDIFFERENT.into()],
        env: [("STARTED".to_owned(), started.to_str().unwrap().to_owned())].into(),
        cwd: None,
    }));
    input.servers[0].terms.timeouts.connect = SOON;
    let mut gateway = TestGateway::start(input).await;
    gateway
        .until(|o| o.servers.values().all(|s| s.state == UpstreamState::Ready))
        .await;
    let process = call(&gateway, &json!({})).await.to_string();
    let runs = |pid: &str| std::path::Path::new("/proc").join(pid).exists();
    let pids = std::fs::read_to_string(&started).unwrap();
    let others = || pids.lines().filter(|pid| **pid != process && runs(pid)).count();
    eventually("only one is left", || others() == 0).await;
    assert!(runs(&process));
    for _ in 0..100 {
        if names(&gateway).await.contains(&"s__more".to_owned()) {
            break;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert!(names(&gateway).await.contains(&"s__more".to_owned()));
    assert_eq!(call(&gateway, &json!({})).await.to_string(), process);
    gateway.stop().await;
    assert!(!runs(&process));
}

#[tokio::test]
async fn a_process_that_is_called_takes_over_from_one_that_is_started_again_later() {
    let directory = tempfile::tempdir().unwrap();
    let started = directory.path().join("started");
    let mut input = plan(&[("s", "127.0.0.1:1".parse().unwrap())]);
    input.servers[0].endpoint = Ok(Endpoint::Stdio(StdioCommand {
        program: "python3".into(),
        args: vec!["-c".into(), INDIFFERENT.into()],
        env: [
            ("STARTED".to_owned(), started.to_str().unwrap().to_owned()),
            ("ODD".to_owned(), "1".to_owned()),
        ]
        .into(),
        cwd: None,
    }));
    input.servers[0].terms.timeouts.connect = SOON;
    let mut gateway = TestGateway::start(input).await;
    gateway
        .until(|o| o.servers.values().all(|s| s.state == UpstreamState::Ready))
        .await;
    let process = call(&gateway, &json!({})).await.to_string();
    let pids = || -> Vec<String> {
        let started = std::fs::read_to_string(&started).unwrap();
        started.lines().map(str::to_owned).collect()
    };
    let runs = |pid: &String| std::path::Path::new("/proc").join(pid).exists();
    let first = pids()[0].clone();
    assert!(runs(&first) && first != process, "what lists other things stays");
    let killed = std::process::Command::new("kill").args(["-9", &first]).status();
    assert!(killed.unwrap().success());
    eventually("it is started again", || pids().len() == 3).await;
    eventually("only one is left", || {
        pids().iter().filter(|pid| runs(pid)).count() == 1
    })
    .await;
    assert_eq!(call(&gateway, &json!({})).await.to_string(), process);
    gateway.stop().await;
}

#[tokio::test]
async fn whatever_is_asked_where_the_catalog_is_read_is_refused() {
    let (own, sessions) = (Streams::default(), Mutex::default());
    let gets = own.clone();
    let server = Upstream::start(move |seen| match seen.http.clone() {
        Method::GET => gets.open(),
        _ if seen.method().is_empty() => Answer::status(202),
        _ => legacy(seen, &sessions),
    })
    .await;
    let _gateway = TestGateway::ready(&[("s", server.address)]).await;
    eventually("listened to", || own.count() == 1).await;
    let form = json!({"message": "m", "requestedSchema": {"type": "object", "properties": {}}});
    let sampling = json!({"messages": [], "maxTokens": 1});
    for (id, method, params) in [
        (1, "elicitation/create", form),
        (2, "sampling/createMessage", sampling),
        (3, "roots/list", json!({})),
    ] {
        own.say(json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}));
    }
    let answers = || -> Vec<Value> {
        let seen = server.seen().into_iter().map(|seen| seen.body);
        let mut answers: Vec<_> = seen
            .filter(|body| body.get("method").is_none() && body.get("id").is_some())
            .collect();
        answers.sort_by_key(|answer| answer["id"].as_u64());
        answers
    };
    eventually("answered", || answers().len() == 3).await;
    let answers = answers();
    assert_eq!(answers[0]["result"], json!({"action": "cancel"}));
    assert_eq!(answers[1]["error"]["code"], -1);
    assert_eq!(answers[2]["error"]["code"], -32601);
}

#[tokio::test]
async fn a_real_server_lists_what_depends_on_its_client_and_tells_each_session_of_its_resources() {
    let Some(peers) = Peers::installed() else { return };
    let running = Remote::Everything.start(&peers).await;
    let mut input = plan(&[("s", "127.0.0.1:1".parse().unwrap())]);
    if let Ok(Endpoint::Http(http)) = &mut input.servers[0].endpoint {
        http.url = running.url.parse().unwrap();
    }
    let mut gateway = TestGateway::start(input).await;
    gateway
        .until(|o| o.servers.values().all(|s| s.state == UpstreamState::Ready))
        .await;
    let wanted = [
        "get-roots-list",
        "trigger-elicitation-request",
        "trigger-sampling-request",
    ];
    let wanted = wanted.map(|name| format!("s__{name}"));
    let mut listed = names(&gateway).await;
    for _ in 0..100 {
        if wanted.iter().all(|name| listed.contains(name)) {
            break;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
        listed = names(&gateway).await;
    }
    assert!(wanted.iter().all(|name| listed.contains(name)), "{listed:?}");

    // It tells of resources in the session of the call that changes them, and in no other.
    let revision = Revision::LATEST_LEGACY;
    for calls_first in [false, true] {
        let session = gateway.open_session(revision).await;
        let mut heard = gateway.get_events(&session, revision, None).await;
        let ask = async |method: &str, params: Value| {
            let body = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
            let headers = [
                ("accept", "application/json, text/event-stream"),
                ("mcp-session-id", session.as_str()),
                ("mcp-protocol-version", revision.as_str()),
            ];
            let answer = gateway.bare_post(&body.to_string(), headers).await;
            assert!(answer.text.contains(r#""result""#), "{method}: {}", answer.text);
        };
        if calls_first {
            ask("tools/call", json!({"name": "s__echo", "arguments": {"message": "m"}})).await;
        }
        let uri = "demo://resource/dynamic/text/1";
        let listed = gateway.modern("resources/list", json!({})).await;
        let uri = listed["result"]["resources"][0]["uri"].as_str().unwrap_or(uri);
        ask("resources/subscribe", json!({"uri": uri})).await;
        ask(
            "tools/call",
            json!({"name": "s__toggle-subscriber-updates", "arguments": {}}),
        )
        .await;
        let told = heard.message().await.unwrap();
        assert_eq!(told["method"], "notifications/resources/updated");
        assert_eq!(told["params"]["uri"], uri);
    }
}
