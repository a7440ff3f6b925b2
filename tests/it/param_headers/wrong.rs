//! What becomes of tools that ask for headers wrongly.

use std::io::Write;
use std::sync::{Arc, Mutex};

use mcpfleet::fleet::ObjectKey;
use mcpfleet::upstream::{Endpoint, StdioCommand};
use serde_json::{Value, json};

use super::route::{call, listed, ready, repeated};
use crate::support::gateway::{TestGateway, plan};
use crate::support::upstream::{self, Upstream};

/// One tool that is right and five that are not.
fn mixed() -> Value {
    let tool = |name: &str, schema: Value| json!({"name": name, "inputSchema": schema});
    let property = |type_: &str, header: &str| json!({"type": type_, "x-mcp-header": header});
    json!([
        tool(
            "ok",
            json!({"type": "object", "properties": {"a": property("string", "A")}})
        ),
        tool(
            "number",
            json!({"type": "object", "properties": {"a": property("number", "A")}})
        ),
        tool(
            "items",
            json!({"type": "object", "properties": {"a": {"type": "array", "items": property("string", "A")}}})
        ),
        tool("root", json!({"type": "object", "x-mcp-header": "A"})),
        tool(
            "name",
            json!({"type": "object", "properties": {"a": property("string", "My Header")}})
        ),
        tool(
            "twice",
            json!({"type": "object", "properties": {"a": property("string", "Region"), "b": property("string", "region")}})
        ),
    ])
}

#[tokio::test]
async fn wrongly_annotated_tools_of_modern_servers_are_withheld_and_named() {
    let log = Log::default();
    let _guard = log.capture();
    let server = Upstream::start(|seen| upstream::modern(seen, &mixed())).await;
    let mut gateway = TestGateway::ready(&[("s", server.address)]).await;
    for answer in [
        gateway.modern("tools/list", json!({})).await,
        gateway.legacy("tools/list", json!({})).await,
    ] {
        assert_eq!(listed(&answer), ["s__ok"]);
    }
    let reply = gateway.legacy("tools/call", json!({"name": "s__number"})).await;
    assert_eq!(reply["error"]["code"], -32602, "it cannot be called either");

    let observed = gateway.until(|_| true).await;
    let catalog = observed.servers[&ObjectKey::new("default", "s")]
        .catalog
        .clone()
        .unwrap();
    assert_eq!((catalog.tools, catalog.truncated), (1, 0));
    let withheld: Vec<_> = catalog.withheld.iter().map(|tool| tool.name.as_str()).collect();
    assert_eq!(withheld, ["number", "items", "root", "name", "twice"]);
    assert!(
        catalog.withheld[3].reason.contains(r#""My Header""#),
        "{:?}",
        catalog.withheld[3]
    );
    let page = gateway.metrics_page();
    assert!(
        page.contains(r#"mcpfleet_catalog_withheld{server="default/s"} 5"#),
        "{page}"
    );
    for (tool, reason) in [
        ("number", "WrongType"),
        ("items", "Misplaced"),
        ("root", "Misplaced"),
        ("name", "NotAToken"),
        ("twice", "Repeated"),
    ] {
        let line = format!(r#"kind="tool" name="{tool}" reason="{reason}""#);
        assert_eq!(log.text().matches(&line).count(), 1, "{line} in {}", log.text());
    }
}

#[tokio::test]
async fn of_many_withheld_tools_the_first_are_named_and_the_others_counted() {
    let tools: Value = (0..150)
        .map(|i| json!({"name": format!("t{i:03}"), "inputSchema": {"x-mcp-header": "A"}}))
        .collect();
    let server = Upstream::start(move |seen| upstream::modern(seen, &tools)).await;
    let mut gateway = TestGateway::ready(&[("s", server.address)]).await;
    let observed = gateway.until(|_| true).await;
    let catalog = observed.servers[&ObjectKey::new("default", "s")]
        .catalog
        .clone()
        .unwrap();
    assert_eq!((catalog.tools, catalog.withheld.len(), catalog.truncated), (0, 100, 50));
    assert_eq!(catalog.withheld[99].name, "t099");
}

#[tokio::test]
async fn where_annotations_say_nothing_wrong_ones_are_taken_out_and_the_tool_stays() {
    let over_http = Upstream::start(|seen| upstream::legacy(seen, &mixed())).await;
    let mut plan = plan(&[("http", over_http.address), ("stdio", over_http.address)]);
    if let Some(server) = plan.servers.iter_mut().find(|server| server.key.name == "stdio") {
        server.endpoint = Ok(Endpoint::Stdio(modern_child(&mixed())));
    }
    let gateway = ready(plan).await;
    let answer = gateway.modern("tools/list", json!({})).await;
    let tools = answer["result"]["tools"].as_array().unwrap();
    assert_eq!(tools.len(), 12, "{answer}");
    for tool in tools {
        let (member, name) = tool["name"].as_str().unwrap().split_once("__").unwrap();
        let annotated = tool.to_string().contains("x-mcp-header");
        assert_eq!(annotated, name == "ok", "{tool}");
        if name == "ok" {
            continue;
        }
        let call = call(
            &gateway,
            &format!("{member}__{name}"),
            json!({"a": "x"}),
            &[("Mcp-Param-A", b"y")],
        )
        .await;
        assert_eq!(call.status, 200, "nothing is left to check: {}", call.text);
    }
    assert!(
        over_http
            .seen_of("tools/call")
            .iter()
            .all(|seen| repeated(seen).is_empty())
    );
}

/// A Modern server with these tools that speaks on its standard input and output.
fn modern_child(tools: &Value) -> StdioCommand {
    let script = r#"
import json, os, sys
for line in sys.stdin:
    request = json.loads(line)
    result = {
        "server/discover": {"supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}}},
        "tools/list": {"tools": json.loads(os.environ["TOOLS"])},
        "tools/call": {"content": []},
    }[request["method"]]
    result["resultType"] = "complete"
    print(json.dumps({"jsonrpc": "2.0", "id": request["id"], "result": result}), flush=True)
"#;
    StdioCommand {
        program: "python3".into(),
        args: vec!["-c".into(), script.into()],
        env: [("TOOLS".to_owned(), tools.to_string())].into(),
        cwd: None,
    }
}

/// What is logged by this test.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Log {
    fn capture(&self) -> tracing::subscriber::DefaultGuard {
        let log = self.clone();
        let subscriber = tracing_subscriber::fmt()
            .with_ansi(false)
            .with_writer(move || log.clone())
            .finish();
        tracing::subscriber::set_default(subscriber)
    }

    fn text(&self) -> String {
        String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
    }
}

impl Write for Log {
    fn write(&mut self, text: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().write(text)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}
