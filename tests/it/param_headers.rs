//! Arguments that are repeated as `Mcp-Param-*` headers: checked of clients, sent to servers, and what becomes of tools
//! that ask for them wrongly.

use std::io::Write;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use http::{HeaderName, HeaderValue, Request};
use http_body_util::Full;
use mcpfleet::fleet::{ObjectKey, PlanInput};
use mcpfleet::upstream::{Endpoint, StdioCommand};
use serde_json::{Value, json};

use crate::support::client::{Call, Client};
use crate::support::gateway::{TestGateway, plan};
use crate::support::http::Reply;
use crate::support::peers::Peers;
use crate::support::remote::Remote;
use crate::support::upstream::{self, Seen, Upstream};

/// A tool whose arguments are repeated: a string, an integer, one that is nested and a boolean; one is not.
fn route() -> Value {
    json!({"name": "route", "inputSchema": {"type": "object", "required": ["region"], "properties": {
        "region": {"type": "string", "x-mcp-header": "Region"},
        "limit": {"type": "integer", "x-mcp-header": "Limit"},
        "scope": {"type": "object", "properties": {"tenant": {"type": "string", "x-mcp-header": "Tenant"}}},
        "dry": {"type": "boolean", "x-mcp-header": "Dry-Run"},
        "q": {"type": "string"},
    }}})
}

/// A gateway over a Modern server with the tool.
async fn modern() -> (TestGateway, Upstream) {
    let server = Upstream::start(|seen| upstream::modern(seen, &json!([route()]))).await;
    let gateway = TestGateway::ready(&[("s", server.address)]).await;
    (gateway, server)
}

/// A Modern call of `name` with these headers beside those that every call has.
async fn call(gateway: &TestGateway, name: &str, arguments: Value, headers: &[(&str, &[u8])]) -> Reply {
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {
        "name": name, "arguments": arguments, "_meta": {
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": {}}}});
    let mut request = Request::post(format!("http://{}/default/fed/mcp", gateway.address))
        .header("content-type", "application/json")
        .header("accept", "application/json, text/event-stream")
        .header("mcp-protocol-version", "2026-07-28")
        .header("mcp-method", "tools/call")
        .header("mcp-name", name);
    for (name, value) in headers {
        request = request.header(*name, HeaderValue::from_bytes(value).unwrap());
    }
    gateway.send(request.body(Full::from(body.to_string())).unwrap()).await
}

/// The headers by which a request repeats arguments, in order.
fn repeated(seen: &Seen) -> Vec<(&str, &str)> {
    let headers = seen.headers.iter();
    let mut repeated: Vec<_> = headers
        .filter_map(|(name, value)| Some((name.as_str().strip_prefix("mcp-param-")?, value.to_str().unwrap())))
        .collect();
    repeated.sort_unstable();
    repeated
}

fn listed(answer: &Value) -> Vec<&str> {
    let tools = answer["result"]["tools"].as_array().unwrap();
    tools.iter().map(|tool| tool["name"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn a_call_runs_when_its_headers_repeat_its_arguments() {
    let (gateway, server) = modern().await;
    type Case<'a> = (&'a str, Value, &'a [(&'a str, &'a [u8])]);
    let region: (&str, &[u8]) = ("Mcp-Param-Region", b"us");
    let cases: [Case<'_>; 8] = [
        ("matching", json!({"region": "us"}), &[region]),
        ("null argument", json!({"region": "us", "limit": null}), &[region]),
        (
            "numbers are compared as numbers",
            json!({"region": "us", "limit": 42}),
            &[region, ("Mcp-Param-Limit", b"42.0")],
        ),
        (
            "nested",
            json!({"region": "us", "scope": {"tenant": "acme"}}),
            &[region, ("Mcp-Param-Tenant", b"acme")],
        ),
        (
            "encoded",
            json!({"region": "Grüße"}),
            &[("Mcp-Param-Region", b"=?base64?R3LDvMOfZQ==?=")],
        ),
        (
            "boolean and negative",
            json!({"region": "us", "dry": true, "limit": -7}),
            &[region, ("Mcp-Param-Dry-Run", b"true"), ("Mcp-Param-Limit", b"-7")],
        ),
        (
            "names without regard to case",
            json!({"region": "us"}),
            &[("mCP-pARAM-rEGION", b"us")],
        ),
        (
            "headers that no annotation speaks of",
            json!({"region": "us", "q": "z"}),
            &[region, ("Mcp-Param-Q", b"other"), ("Mcp-Param-Own", b"\xff")],
        ),
    ];
    let count = cases.len();
    for (what, arguments, headers) in cases {
        let reply = call(&gateway, "s__route", arguments, headers).await;
        assert_eq!(reply.status, 200, "{what}: {}", reply.text);
        assert_eq!(reply.json()["result"]["content"][0]["text"], "route", "{what}");
    }
    assert_eq!(server.seen_of("tools/call").len(), count);
}

#[tokio::test]
async fn a_call_whose_headers_differ_from_its_arguments_reaches_no_server() {
    let (gateway, server) = modern().await;
    type Case<'a> = (&'a str, Value, &'a [(&'a str, &'a [u8])]);
    let region: (&str, &[u8]) = ("Mcp-Param-Region", b"us");
    let cases: [Case<'_>; 11] = [
        ("missing", json!({"region": "us"}), &[]),
        (
            "missing for a nested value",
            json!({"region": "us", "scope": {"tenant": "acme"}}),
            &[region],
        ),
        ("case of the value", json!({"region": "US"}), &[region]),
        (
            "header without value",
            json!({"region": "us"}),
            &[region, ("Mcp-Param-Limit", b"5")],
        ),
        (
            "header for null",
            json!({"region": "us", "limit": null}),
            &[region, ("Mcp-Param-Limit", b"5")],
        ),
        ("twice", json!({"region": "us"}), &[region, region]),
        (
            "raw bytes beyond ASCII",
            json!({"region": "é"}),
            &[("Mcp-Param-Region", b"\xc3\xa9")],
        ),
        (
            "bad padding",
            json!({"region": "us"}),
            &[("Mcp-Param-Region", b"=?base64?dXM?=")],
        ),
        (
            "not UTF-8",
            json!({"region": "us"}),
            &[("Mcp-Param-Region", b"=?base64?/w==?=")],
        ),
        (
            "a fraction",
            json!({"region": "us", "limit": 1.5}),
            &[region, ("Mcp-Param-Limit", b"1.5")],
        ),
        (
            "an integer that readers disagree on",
            json!({"region": "us", "limit": 9_007_199_254_740_993_i64}),
            &[region, ("Mcp-Param-Limit", b"9007199254740993")],
        ),
    ];
    for (what, arguments, headers) in cases {
        let reply = call(&gateway, "s__route", arguments, headers).await;
        let answer = reply.json();
        assert_eq!(
            (reply.status, &answer["error"]["code"], &answer["id"]),
            (400, &json!(-32020), &json!(1)),
            "{what}: {}",
            reply.text
        );
    }
    assert!(server.seen_of("tools/call").is_empty());
    let page = gateway.metrics_page();
    let refused = r#"mcpfleet_requests_total{federation="default/fed",method="tools/call",outcome="refused"} 11"#;
    assert!(page.contains(refused), "{page}");
}

#[tokio::test]
async fn earlier_checks_win() {
    let (gateway, _server) = modern().await;
    let not_an_object = call(&gateway, "s__route", json!("text"), &[]).await;
    assert_eq!(
        (not_an_object.status, &not_an_object.json()["error"]["code"]),
        (400, &json!(-32602))
    );
    let unknown = call(
        &gateway,
        "s__other",
        json!({"region": "us"}),
        &[("Mcp-Param-Region", b"eu")],
    )
    .await;
    assert_eq!(unknown.json()["error"]["code"], -32602, "no tool, no annotations");
}

#[tokio::test]
async fn tools_of_servers_that_read_no_headers_are_checked_too_and_get_none() {
    let server = Upstream::start(|seen| upstream::legacy(seen, &json!([route()]))).await;
    let gateway = TestGateway::ready(&[("s", server.address)]).await;
    let listed = gateway.modern("tools/list", json!({})).await;
    let schema = &listed["result"]["tools"][0]["inputSchema"];
    assert_eq!(*schema, route()["inputSchema"], "clients are asked for the headers");
    let refused = call(&gateway, "s__route", json!({"region": "us"}), &[]).await;
    assert_eq!(
        (refused.status, &refused.json()["error"]["code"]),
        (400, &json!(-32020))
    );
    let answered = call(
        &gateway,
        "s__route",
        json!({"region": "us"}),
        &[("Mcp-Param-Region", b"us")],
    )
    .await;
    assert_eq!(answered.status, 200);
    let calls = server.seen_of("tools/call");
    assert_eq!(calls.len(), 1);
    assert!(repeated(&calls[0]).is_empty(), "{:?}", calls[0].headers);
}

#[tokio::test]
async fn legacy_clients_are_never_checked_and_their_calls_get_the_headers_on_the_way() {
    let (gateway, server) = modern().await;
    let arguments = json!({"region": "us", "limit": 10, "scope": {"tenant": "Grüße"}, "q": "z"});
    let params = json!({"name": "s__route", "arguments": arguments});
    let answer = gateway.legacy("tools/call", params.clone()).await;
    assert_eq!(answer["result"]["content"][0]["text"], "route");
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params});
    let wrong = gateway.post(body, &[("mcp-param-region", "eu")]).await;
    assert_eq!(wrong.status, 200, "to a Legacy client the header means nothing");
    for seen in server.seen_of("tools/call") {
        assert_eq!(
            repeated(&seen),
            [("limit", "10"), ("region", "us"), ("tenant", "=?base64?R3LDvMOfZQ==?=")]
        );
        assert_eq!(seen.header("mcp-name"), Some("route"));
    }
}

#[tokio::test]
async fn headers_toward_a_server_are_made_from_the_arguments_and_never_copied() {
    let server = Upstream::start(|seen| upstream::modern(seen, &json!([route()]))).await;
    let mut plan = plan(&[("s", server.address)]);
    for server in &mut plan.servers {
        if let Ok(Endpoint::Http(endpoint)) = &mut server.endpoint {
            for name in ["mcp-param-region", "mcp-param-dry-run", "x-own"] {
                let name = HeaderName::from_static(name);
                endpoint.headers.insert(name, HeaderValue::from_static("configured"));
            }
        }
    }
    let gateway = ready(plan).await;
    let reply = call(
        &gateway,
        "s__route",
        json!({"region": "us", "limit": 10, "q": "z"}),
        &[
            ("Mcp-Param-Region", b"=?base64?dXM=?="),
            ("Mcp-Param-Limit", b"10.0"),
            ("Mcp-Param-Q", b"z"),
            ("Mcp-Param-Other", b"secret"),
        ],
    )
    .await;
    assert_eq!(reply.status, 200, "{}", reply.text);
    let seen = server.seen_of("tools/call").pop().unwrap();
    assert_eq!(repeated(&seen), [("limit", "10"), ("region", "us")]);
    assert_eq!(seen.header("x-own"), Some("configured"));
    assert!(
        seen.text.contains(r#""arguments":{"region":"us","limit":10,"q":"z"}"#),
        "{}",
        seen.text
    );
}

#[tokio::test]
async fn arguments_that_no_header_can_repeat_are_the_clients_error() {
    let (gateway, server) = modern().await;
    for arguments in [
        json!({"region": 1}),
        json!({"region": "us", "limit": 0.5}),
        json!({"region": "us", "limit": 9_007_199_254_740_993_i64}),
        json!({"region": "us", "dry": "true"}),
        json!({"region": "a".repeat(100_000)}),
    ] {
        let answer = gateway
            .legacy("tools/call", json!({"name": "s__route", "arguments": arguments}))
            .await;
        assert_eq!(answer["error"]["code"], -32602, "{answer}");
    }
    assert!(server.seen_of("tools/call").is_empty());
    let page = gateway.metrics_page();
    assert!(
        page.contains(r#"mcpfleet_upstream_requests_total{outcome="failed",server="default/s"} 0"#),
        "{page}"
    );
}

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

#[tokio::test]
async fn a_server_that_wants_other_headers_than_it_said_is_asked_again_and_called_once_more() {
    let plain = json!([{"name": "route", "inputSchema": {"type": "object"}}]);
    let annotated = Arc::new(AtomicBool::new(false));
    let now = Arc::clone(&annotated);
    let server = Upstream::start(move |seen| match seen.method() {
        "tools/call" if seen.header("mcp-param-region") != Some("us") => {
            now.store(true, Ordering::SeqCst);
            seen.error(400, -32020, "Mcp-Param-Region is missing")
        }
        _ if now.load(Ordering::SeqCst) => upstream::modern(seen, &json!([route()])),
        _ => upstream::modern(seen, &plain),
    })
    .await;
    let gateway = TestGateway::ready(&[("s", server.address)]).await;
    let reply = call(&gateway, "s__route", json!({"region": "us"}), &[]).await;
    assert_eq!(reply.json()["result"]["content"][0]["text"], "route", "{}", reply.text);
    assert_eq!(server.seen_of("tools/call").len(), 2);
    assert_eq!(server.seen_of("tools/list").len(), 2, "one at the start, one for this");
    assert!(annotated.load(Ordering::SeqCst));
}

#[tokio::test]
async fn a_server_that_refuses_headers_for_good_is_named_as_the_cause() {
    let server = Upstream::start(|seen| match seen.method() {
        "tools/call" => seen.error(400, -32020, "no header pleases me"),
        _ => upstream::modern(seen, &json!([route()])),
    })
    .await;
    let gateway = TestGateway::ready(&[("s", server.address)]).await;
    let arguments = json!({"region": "us"});
    // Many at once share one reading.
    let sent: &[(&str, &[u8])] = &[("Mcp-Param-Region", b"us")];
    let calls = (0..8).map(|_| call(&gateway, "s__route", arguments.clone(), sent));
    for reply in futures::future::join_all(calls).await {
        let error = reply.json()["error"].take();
        assert_eq!(
            (reply.status, &error["code"], &error["message"]),
            (200, &json!(-32603), &json!("no header pleases me")),
            "the client's own headers were right"
        );
        assert_eq!(error["data"]["upstream"]["code"], -32020);
    }
    assert_eq!(server.seen_of("tools/call").len(), 16, "each is sent twice at most");
    assert!(server.seen_of("tools/list").len() <= 3);
}

#[tokio::test]
async fn a_tool_that_is_gone_after_the_reading_is_not_called_again() {
    let calls = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&calls);
    let server = Upstream::start(move |seen| match seen.method() {
        "tools/call" => {
            count.fetch_add(1, Ordering::SeqCst);
            seen.error(400, -32020, "gone")
        }
        _ if count.load(Ordering::SeqCst) > 0 => upstream::modern(seen, &json!([])),
        _ => upstream::modern(seen, &json!([route()])),
    })
    .await;
    let gateway = TestGateway::ready(&[("s", server.address)]).await;
    let answer = gateway
        .legacy("tools/call", json!({"name": "s__route", "arguments": {"region": "us"}}))
        .await;
    assert_eq!(answer["error"]["code"], -32603);
    assert_eq!(calls.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn only_modern_servers_over_http_and_only_calls_of_tools_are_tried_again() {
    let server = Upstream::start(|seen| match seen.method() {
        "tools/call" => seen.error(200, -32020, "odd for a Legacy server"),
        _ => upstream::legacy(seen, &json!([route()])),
    })
    .await;
    let prompts = Upstream::start(|seen| match seen.method() {
        "server/discover" => seen.result(json!({
            "resultType": "complete", "supportedVersions": ["2026-07-28"], "capabilities": {"prompts": {}},
        })),
        "prompts/list" => seen.result(json!({"resultType": "complete", "prompts": [{"name": "p"}]})),
        _ => seen.error(400, -32020, "odd for a prompt"),
    })
    .await;
    let gateway = TestGateway::ready(&[("s", server.address), ("p", prompts.address)]).await;
    let answer = gateway
        .legacy("tools/call", json!({"name": "s__route", "arguments": {"region": "us"}}))
        .await;
    assert_eq!(answer["error"]["code"], -32603);
    let answer = gateway.legacy("prompts/get", json!({"name": "p__p"})).await;
    assert_eq!(answer["error"]["code"], -32603);
    assert_eq!(server.seen_of("tools/call").len(), 1);
    assert_eq!(prompts.seen_of("prompts/get").len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn clients_and_servers_of_other_people_agree_on_the_headers() {
    let Some(peers) = Peers::installed() else {
        return;
    };
    let typescript = Remote::TypescriptV2.start(&peers).await;
    let python = Remote::PythonV2.start(&peers).await;
    let address = |url: &str| {
        url.parse::<http::Uri>()
            .unwrap()
            .authority()
            .unwrap()
            .as_str()
            .parse()
            .unwrap()
    };
    let gateway = TestGateway::ready(&[
        ("typescript", address(&typescript.url)),
        ("python", address(&python.url)),
    ])
    .await;
    let url = format!("http://{}/default/fed/mcp", gateway.address);
    let calls: Vec<Call> = ["us", "Grüße", " x ", ""]
        .iter()
        .flat_map(|region| {
            ["typescript", "python"].map(|member| Call {
                tool: format!("{member}__execute_sql"),
                arguments: [("region", *region), ("query", "q")]
                    .map(|(name, value)| (name.to_owned(), json!(value)))
                    .into_iter()
                    .collect(),
            })
        })
        .collect();
    for client in Client::ALL {
        let visit = client
            .visit(&peers, &url, &calls)
            .await
            .unwrap_or_else(|problem| panic!("{client:?}: {problem}"));
        for (call, outcome) in calls.iter().zip(&visit.calls) {
            let expected = format!("{}: q", call.arguments["region"].as_str().unwrap());
            assert_eq!(
                (outcome.is_error, outcome.text.as_str()),
                (false, expected.as_str()),
                "{client:?} {call:?}"
            );
        }
        assert_eq!(visit.calls.len(), calls.len(), "{client:?}");
    }
}

/// A gateway for `plan` whose servers are all ready.
async fn ready(plan: PlanInput) -> TestGateway {
    use mcpfleet::fleet::UpstreamState;
    let mut gateway = TestGateway::start(plan).await;
    gateway
        .until(|o| !o.servers.is_empty() && o.servers.values().all(|s| s.state == UpstreamState::Ready))
        .await;
    gateway
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
