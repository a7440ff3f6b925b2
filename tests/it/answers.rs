//! What the gateway itself says to clients of each era: what it can do, what its results look like, and what its errors
//! tell a program.

use mcpfleet::fleet::UpstreamState;
use mcpfleet::mcp::Revision;
use serde_json::{Value, json};

use crate::support::gateway::{self, TestGateway};
use crate::support::http::Reply;
use crate::support::upstream::{self, Answer, Seen, Upstream};

const META_VERSION: &str = "io.modelcontextprotocol/protocolVersion";
const META_CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";
const META_SERVER: &str = "io.modelcontextprotocol/serverInfo";

/// A Modern server with a tool, and a prompt whose name no header can carry as it is.
fn script(seen: &Seen) -> Answer {
    match seen.method() {
        "server/discover" => seen.result(json!({
            "resultType": "complete", "supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}, "prompts": {}},
            "ttlMs": 0, "cacheScope": "private",
        })),
        "prompts/list" => seen.result(json!({
            "resultType": "complete", "prompts": [{"name": "Grüße"}], "ttlMs": 0, "cacheScope": "private",
        })),
        "prompts/get" => seen.result(json!({"resultType": "complete", "messages": []})),
        "tools/call" => seen.result(json!({
            "resultType": "complete", "content": [], "_meta": {"vendor.x/y": 1, META_SERVER: {"name": "it", "version": "9"}},
        })),
        _ => upstream::modern(seen, &json!([{"name": "restart", "inputSchema": {"type": "object"}}])),
    }
}

/// A gateway over that server whose federation has this in its spec too.
async fn gateway_with(name: &str, value: Value) -> (TestGateway, Upstream) {
    let server = Upstream::start(script).await;
    let mut plan = gateway::plan(&[("pods", server.address)]);
    let mut spec = serde_json::to_value(&plan.federations[0].spec).unwrap();
    spec[name] = value;
    plan.federations[0].spec = serde_json::from_value(spec).unwrap();
    let mut gateway = TestGateway::start(plan).await;
    gateway
        .until(|o| !o.servers.is_empty() && o.servers.values().all(|s| s.state == UpstreamState::Ready))
        .await;
    (gateway, server)
}

async fn gateway() -> (TestGateway, Upstream) {
    let server = Upstream::start(script).await;
    let gateway = TestGateway::ready(&[("pods", server.address)]).await;
    (gateway, server)
}

/// The headers of a Modern request for `method`.
fn headers(method: &str) -> Vec<(&'static str, &str)> {
    vec![("mcp-protocol-version", "2026-07-28"), ("mcp-method", method)]
}

/// A Modern request.
fn modern(method: &str, mut params: Value) -> String {
    params["_meta"] = json!({META_VERSION: "2026-07-28", META_CAPABILITIES: {}});
    json!({"jsonrpc": "2.0", "id": 3, "method": method, "params": params}).to_string()
}

#[track_caller]
fn assert_error(reply: &Reply, status: u16, code: i64) -> Value {
    let answer = reply.json();
    assert_eq!(
        (reply.status, answer["error"]["code"].as_i64()),
        (status, Some(code)),
        "{}",
        reply.text
    );
    assert_eq!(answer.get("result"), None);
    answer["error"]["data"].clone()
}

#[tokio::test]
async fn a_handshake_echoes_each_legacy_revision_and_nothing_of_the_modern_one() {
    let (gateway, _server) = gateway().await;
    for revision in Revision::LEGACY.map(Revision::as_str) {
        let reply = gateway.bare_post(&handshake(revision), []).await;
        let answer = reply.json();
        assert_eq!((reply.status, &answer["id"]), (200, &json!(7)));
        let result = &answer["result"];
        assert_eq!(
            (&result["protocolVersion"], &result["serverInfo"]["name"]),
            (&json!(revision), &json!("fed"))
        );
        for name in ["resultType", "ttlMs", "cacheScope", "_meta"] {
            assert_eq!(result.get(name), None, "{name}");
        }
        for name in ["tools", "resources", "prompts"] {
            assert!(
                result["capabilities"][name].is_object(),
                "lists are always answered: {result}"
            );
        }
        assert_eq!(result["capabilities"].get("extensions"), None, "it has none of its own");
    }
}

#[tokio::test]
async fn without_sessions_and_without_a_version_a_request_is_of_a_legacy_client() {
    let (gateway, _server) = gateway_with("sessions", json!({"enabled": false})).await;
    let list = |id: u32| json!({"jsonrpc": "2.0", "id": id, "method": "tools/list"}).to_string();
    let reply = gateway.bare_post(&list(1), []).await;
    assert_eq!(
        (reply.status, &reply.json()["result"]["tools"][0]["name"]),
        (200, &json!("pods__restart"))
    );
    let reply = gateway
        .bare_post(&list(3), [("mcp-protocol-version", "2023-01-01")])
        .await;
    let data = assert_error(&reply, 400, -32602);
    assert_eq!(
        (&reply.json()["id"], &data["requested"]),
        (&json!(3), &json!("2023-01-01"))
    );
    assert_eq!(
        data["supported"],
        json!(["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"])
    );
}

fn handshake(version: &str) -> String {
    let params =
        json!({"protocolVersion": version, "capabilities": {}, "clientInfo": {"name": "probe", "version": "0"}});
    json!({"jsonrpc": "2.0", "id": 7, "method": "initialize", "params": params}).to_string()
}

#[tokio::test]
async fn a_handshake_for_an_unknown_revision_is_refused_where_the_federation_says_so() {
    let (gateway, _server) = gateway_with("protocol", json!({"legacyUnsupportedVersion": "Reject"})).await;
    for version in ["2026-07-28", "1999-12-31"] {
        let reply = gateway.bare_post(&handshake(version), []).await;
        let data = assert_error(&reply, 200, -32602);
        let legacy = json!(["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"]);
        assert_eq!((&data["requested"], &data["supported"]), (&json!(version), &legacy));
        assert_eq!(reply.header("mcp-session-id"), None);
    }
    for (version, spoken) in [("2025-03-26", "2025-03-26"), ("", "2025-11-25")] {
        let reply = gateway.bare_post(&handshake(version), []).await;
        assert_eq!(reply.json()["result"]["protocolVersion"], spoken);
    }
}

#[tokio::test]
async fn a_federation_may_serve_modern_clients_only() {
    let (gateway, server) = gateway_with("protocol", json!({"legacy": false})).await;
    let call =
        json!({"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": {"name": "pods__restart"}}).to_string();
    let told = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#.to_owned();
    let version = [("mcp-protocol-version", "2025-06-18")];
    for (body, headers, requested) in [
        (handshake("2025-11-25"), &version[..0], "2025-11-25"),
        (call.clone(), &version[..0], "2025-03-26"),
        (call, &version[..], "2025-06-18"),
        (told, &version[..], "2025-06-18"),
        (format!("[{}]", handshake("2025-03-26")), &version[..0], "2025-03-26"),
    ] {
        let reply = gateway.bare_post(&body, headers.iter().copied()).await;
        let data = assert_error(&reply, 400, -32022);
        assert_eq!(
            data,
            json!({"supported": ["2026-07-28"], "requested": requested}),
            "{body}"
        );
    }
    let found = gateway.modern("server/discover", json!({})).await;
    assert_eq!(found["result"]["supportedVersions"], json!(["2026-07-28"]));
    let answer = gateway.modern("tools/call", json!({"name": "pods__restart"})).await;
    assert_eq!(answer["result"]["resultType"], "complete");
    assert_eq!(server.seen_of("tools/call").len(), 1);
    for method in ["GET", "DELETE"] {
        let request = http::Request::builder().method(method).uri(gateway.url());
        let reply = gateway.send(request.body(Default::default()).unwrap()).await;
        assert_eq!(
            (reply.status, reply.header("allow")),
            (405, Some("POST, OPTIONS")),
            "{method}"
        );
    }
}

#[tokio::test]
async fn errors_to_legacy_clients_say_what_is_wrong() {
    let (gateway, _server) = gateway().await;
    let reply = gateway
        .post(json!({"jsonrpc": "2.0", "id": "q", "method": "tools/rename"}), &[])
        .await;
    assert_eq!(assert_error(&reply, 200, -32601)["method"], "tools/rename");
    assert_eq!(reply.json()["id"], "q");
    let reply = gateway.post(r#"{"jsonrpc":"#, &[]).await;
    let details = assert_error(&reply, 200, -32700)["details"].take();
    assert!(
        details.as_str().is_some_and(|details| !details.is_empty()),
        "{}",
        reply.text
    );
    let reply = gateway
        .post(json!({"jsonrpc": "1.1", "id": 1, "method": "ping"}), &[])
        .await;
    assert_error(&reply, 200, -32600);
}

#[tokio::test]
async fn errors_to_modern_clients_say_what_is_wrong() {
    let (gateway, server) = gateway().await;
    let reply = gateway.post(modern("ping", json!({})), &headers("ping")).await;
    assert_eq!(assert_error(&reply, 404, -32601)["method"], "ping");

    let only_version = json!({"jsonrpc": "2.0", "id": 3, "method": "tools/list", "params": {
        "_meta": {META_VERSION: "2026-07-28"},
    }});
    let reply = gateway.post(only_version, &headers("tools/list")).await;
    let details = assert_error(&reply, 400, -32602)["details"].take();
    assert!(
        details
            .as_str()
            .is_some_and(|details| details.contains(META_CAPABILITIES)),
        "{details}"
    );

    let later = modern("tools/list", json!({})).replace("2026-07-28", "2031-01-01");
    let reply = gateway
        .post(
            later,
            &[("mcp-protocol-version", "2031-01-01"), ("mcp-method", "tools/list")],
        )
        .await;
    let data = assert_error(&reply, 400, -32022);
    assert_eq!(data["requested"], "2031-01-01");
    let supported = json!(["2026-07-28", "2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"]);
    assert_eq!(data["supported"], supported);

    let call = json!({"name": "nope", "arguments": {}});
    let named = [headers("tools/call"), vec![("mcp-name", "nope")]].concat();
    assert_error(&gateway.post(modern("tools/call", call), &named).await, 200, -32602);

    let call = json!({"name": "pods__restart", "arguments": "text"});
    let named = [headers("tools/call"), vec![("mcp-name", "pods__restart")]].concat();
    assert_error(&gateway.post(modern("tools/call", call), &named).await, 400, -32602);
    assert_eq!(server.seen_of("tools/call").len(), 0);
}

#[tokio::test]
async fn headers_of_modern_requests_repeat_the_body() {
    let (gateway, server) = gateway().await;
    let list = modern("tools/list", json!({}));
    let call = modern("tools/call", json!({"name": "pods__restart", "arguments": {}}));
    let version = ("mcp-protocol-version", "2026-07-28");
    type Case<'a> = (&'a str, &'a str, Vec<(&'a str, &'a str)>);
    let refused: [Case<'_>; 8] = [
        ("no method", &list, vec![version]),
        ("another method", &list, vec![version, ("mcp-method", "tools/call")]),
        (
            "the method in capitals",
            &list,
            vec![version, ("mcp-method", "TOOLS/LIST")],
        ),
        ("no version", &list, vec![("mcp-method", "tools/list")]),
        (
            "a Legacy version",
            &list,
            vec![("mcp-protocol-version", "2025-11-25"), ("mcp-method", "tools/list")],
        ),
        ("no name", &call, headers("tools/call")),
        (
            "another name",
            &call,
            [headers("tools/call"), vec![("mcp-name", "pods__stop")]].concat(),
        ),
        (
            "broken base64",
            &call,
            [headers("tools/call"), vec![("mcp-name", "=?base64?@@?=")]].concat(),
        ),
    ];
    for (what, body, headers) in refused {
        let reply = gateway.post(body, &headers).await;
        assert_eq!(
            (reply.status, &reply.json()["error"]["code"]),
            (400, &json!(-32020)),
            "{what}: {}",
            reply.text
        );
    }
    assert_eq!(server.seen_of("tools/call").len(), 0, "no tool was run");

    // What no header can carry as it is comes encoded, and so does whatever a client likes to encode.
    let prompt = modern("prompts/get", json!({"name": "pods__Grüße"}));
    let encoded = "=?base64?cG9kc19fR3LDvMOfZQ==?=";
    let reply = gateway
        .post(&prompt, &[headers("prompts/get"), vec![("mcp-name", encoded)]].concat())
        .await;
    assert_eq!(reply.status, 200, "{}", reply.text);
    let seen = server.seen_of("prompts/get").pop().unwrap();
    assert_eq!(
        seen.header("mcp-name"),
        Some("=?base64?R3LDvMOfZQ==?="),
        "our own hop has the server's name"
    );
}

#[tokio::test]
async fn results_for_modern_clients_say_what_they_are_and_who_may_keep_them() {
    let (gateway, _server) = gateway().await;
    for (method, list) in [
        ("tools/list", "tools"),
        ("prompts/list", "prompts"),
        ("resources/list", "resources"),
    ] {
        let result = gateway.modern(method, json!({})).await["result"].take();
        assert!(result[list].is_array());
        assert_eq!(
            (&result["resultType"], &result["cacheScope"]),
            (&json!("complete"), &json!("public"))
        );
        assert!(result["ttlMs"].is_u64(), "{result}");
        assert_eq!(result["_meta"][META_SERVER]["name"], "fed");
    }
    let result = gateway
        .modern("tools/call", json!({"name": "pods__restart", "arguments": {}}))
        .await["result"]
        .take();
    assert_eq!(result["resultType"], "complete");
    assert_eq!((result.get("ttlMs"), result.get("cacheScope")), (None, None));
    assert_eq!(result["_meta"]["vendor.x/y"], 1, "what the server says there is kept");
    assert_eq!(
        result["_meta"][META_SERVER]["name"], "fed",
        "who answers is the federation"
    );
}

#[tokio::test]
async fn answers_are_json_that_nobody_on_the_way_keeps() {
    let (gateway, _server) = gateway().await;
    let list = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"}).to_string();
    for reply in [
        gateway
            .post(json!({"jsonrpc": "2.0", "id": 1, "method": "ping"}), &[])
            .await,
        gateway.post(list, &[]).await,
        gateway
            .post(modern("tools/list", json!({})), &headers("tools/list"))
            .await,
        gateway
            .post(json!({"jsonrpc": "2.0", "id": 1, "method": "nope"}), &[])
            .await,
    ] {
        assert_eq!(reply.header("content-type"), Some("application/json; charset=utf-8"));
        assert!(
            reply
                .header("cache-control")
                .is_some_and(|control| control.contains("no-store"))
        );
    }
    let pong = gateway
        .post(json!({"jsonrpc": "2.0", "id": 1, "method": "ping"}), &[])
        .await;
    assert_eq!(pong.json(), json!({"jsonrpc": "2.0", "id": 1, "result": {}}));
}
