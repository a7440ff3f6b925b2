//! A Legacy server on standard input and output whose tools ask.

use std::collections::BTreeMap;

use mcpfleet::upstream::{Endpoint, StdioCommand, Timeouts, Upstream};

use super::caller::{PATIENCE, ready};

/// A Legacy server on standard input and output. `ask` asks who calls and gives the answer back.
const DESK: &str = r#"
import json, os, sys, threading, time
lock, answers = threading.Lock(), {}
def say(message):
    with lock: sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n"); sys.stdout.flush()
def ask(id, method, params):
    answers[id] = [threading.Event(), None]
    say({"id": id, "method": method, "params": params})
    answers[id][0].wait()
    return answers[id][1]
form = {"message": "Who?", "requestedSchema": {"type": "object", "properties": {}}}
roots, cancelled, declared = None, [], {}
def call(r):
    tool, text = r["params"]["name"], None
    if tool == "plain": text = str(os.getpid())
    if tool == "slow": time.sleep(0.5); text = str(os.getpid())
    if tool == "ask": text = json.dumps(ask("q%s" % r["id"], "elicitation/create", form))
    if tool == "ask_late": threading.Timer(0.2, lambda: ask("late", "elicitation/create", form)).start(); text = "done"
    if tool == "late": time.sleep(0.4); text = json.dumps(answers["late"][1])
    if tool == "roots": text = json.dumps(roots)
    if tool == "log": say({"method": "notifications/message", "params": {"level": "info", "data": "hello"}}); text = ""
    if tool == "die": threading.Thread(target=ask, args=("q", "elicitation/create", form)).start(); time.sleep(0.2); os._exit(3)
    if tool == "cancelled": text = json.dumps(cancelled)
    say({"id": r["id"], "result": {"content": [{"type": "text", "text": text}]}})
def ask_roots():
    global roots
    roots = ask("r", "roots/list", {})
for line in sys.stdin:
    m = json.loads(line)
    method = m.get("method")
    if method == "initialize":
        declared = m["params"]["capabilities"]
        say({"id": m["id"], "result": {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": {"name": "desk", "version": "1"}}})
    elif method == "notifications/initialized":
        if "roots" in declared: threading.Thread(target=ask_roots).start()
    elif method == "notifications/cancelled": cancelled.append("cancelled")
    elif method == "tools/list": say({"id": m["id"], "result": {"tools": [{"name": "ask", "inputSchema": {"type": "object"}}]}})
    elif method == "tools/call": threading.Thread(target=call, args=(m,), daemon=True).start()
    elif method: say({"id": m["id"], "error": {"code": -32601, "message": "unknown"}})
    else:
        cancelled.append(m["id"])
        answers[m["id"]][1] = m.get("result") or m["error"]["code"]; answers[m["id"]][0].set()
"#;

pub(super) async fn process_desk() -> Upstream {
    let command = StdioCommand {
        program: "python3".into(),
        args: vec!["-c".into(), DESK.into()],
        env: BTreeMap::new(),
        cwd: None,
    };
    let timeouts = Timeouts {
        connect: PATIENCE,
        ..Timeouts::default()
    };
    ready(Endpoint::Stdio(command), timeouts).await
}
