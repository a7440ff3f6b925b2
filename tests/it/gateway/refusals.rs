//! What is refused, and by whom: each with its status and code.

use serde_json::{Value, json};

use super::mixed;
use crate::support::gateway::TestGateway;
use crate::support::upstream::{self, Upstream};

#[tokio::test]
async fn every_refusal_has_its_status_and_code() {
    let (gateway, ..) = mixed().await;
    let meta = json!({"io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {}});
    let modern =
        |method: &str| json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": {"_meta": meta}}).to_string();
    let legacy = |method: &str, params: Value| {
        json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).to_string()
    };
    let version = ("mcp-protocol-version", "2026-07-28");
    type Case<'a> = (&'a str, String, Vec<(&'a str, &'a str)>, u16, i64);
    let cases: Vec<Case<'_>> = vec![
        (
            "bad version header",
            legacy("tools/list", json!({})),
            vec![("mcp-protocol-version", "2023-01-01")],
            400,
            -32602,
        ),
        ("unknown method", legacy("tools/rename", json!({})), vec![], 200, -32601),
        ("parse error", r#"{"jsonrpc":"#.into(), vec![], 200, -32700),
        (
            "modern parse error",
            r#"{"jsonrpc":"#.into(),
            vec![("mcp-method", "tools/list")],
            400,
            -32700,
        ),
        (
            "wrong jsonrpc member",
            r#"{"jsonrpc":"1.1","id":1,"method":"ping"}"#.into(),
            vec![],
            200,
            -32600,
        ),
        (
            "null id",
            r#"{"jsonrpc":"2.0","id":null,"method":"ping"}"#.into(),
            vec![],
            200,
            -32600,
        ),
        (
            "batch",
            r#"[{"jsonrpc":"2.0","id":1,"method":"ping"}]"#.into(),
            vec![("mcp-protocol-version", "2025-11-25")],
            400,
            -32600,
        ),
        (
            "member twice",
            r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a","name":"b"}}"#.into(),
            vec![],
            400,
            -32602,
        ),
        (
            "too deep",
            legacy(
                "tools/call",
                serde_json::from_str(&format!("{}1{}", "{\"a\":".repeat(120), "}".repeat(120))).unwrap(),
            )
            .replace("\"a\":1", &format!("\"a\":{}1{}", "[".repeat(20), "]".repeat(20))),
            vec![],
            200,
            -32700,
        ),
        (
            "unknown tool",
            legacy("tools/call", json!({"name": "nope"})),
            vec![],
            200,
            -32602,
        ),
        (
            "unknown prompt",
            legacy("prompts/get", json!({"name": "nope"})),
            vec![],
            200,
            -32602,
        ),
        (
            "unknown resource",
            legacy("resources/read", json!({"uri": "a://b"})),
            vec![],
            200,
            -32002,
        ),
        (
            "arguments of a wrong type",
            legacy("tools/call", json!({"name": "old__echo", "arguments": "text"})),
            vec![],
            200,
            -32602,
        ),
        (
            "foreign cursor",
            legacy("tools/list", json!({"cursor": "x"})),
            vec![],
            200,
            -32602,
        ),
        (
            "missing method header",
            modern("tools/list"),
            vec![version],
            400,
            -32020,
        ),
        (
            "differing method header",
            modern("tools/list"),
            vec![version, ("mcp-method", "tools/call")],
            400,
            -32020,
        ),
        (
            "removed method",
            modern("ping"),
            vec![version, ("mcp-method", "ping")],
            404,
            -32601,
        ),
        (
            "header without envelope",
            legacy("tools/list", json!({})),
            vec![version, ("mcp-method", "tools/list")],
            400,
            -32602,
        ),
    ];
    for (what, body, headers, status, code) in cases {
        let reply = gateway.post(body, &headers).await;
        assert_eq!(
            (reply.status, reply.json()["error"]["code"].as_i64()),
            (status, Some(code)),
            "{what}: {}",
            reply.text
        );
    }
    let modern_miss = gateway.modern("resources/read", json!({"uri": "a://b"})).await;
    assert_eq!(
        (&modern_miss["error"]["code"], &modern_miss["error"]["data"]["uri"]),
        (&json!(-32602), &json!("a://b"))
    );
}

#[tokio::test]
async fn an_error_without_request_id_says_null_only_to_revisions_that_demand_it() {
    let (gateway, ..) = mixed().await;
    for (version, has_id) in [(None, true), (Some("2025-06-18"), true), (Some("2025-11-25"), false)] {
        let headers: Vec<_> = version.map(|v| ("mcp-protocol-version", v)).into_iter().collect();
        let answer = gateway.post("{", &headers).await.json();
        assert_eq!(answer.get("id").is_some_and(Value::is_null), has_id, "{version:?}");
    }
}

#[tokio::test]
async fn errors_of_servers_are_relayed_with_their_meaning() {
    let server = Upstream::start(|seen| match (seen.method(), seen.body["params"]["name"].as_str()) {
        ("tools/call", Some("own")) => seen.error(200, 4242, "mine"),
        ("tools/call", _) => seen.error(200, -32042, "visit a page"),
        _ => upstream::legacy(seen, &json!([{"name": "own", "inputSchema": {"type": "object"}}, {"name": "page", "inputSchema": {"type": "object"}}])),
    })
    .await;
    let gateway = TestGateway::ready(&[("s", server.address)]).await;
    for era in ["legacy", "modern"] {
        let call = async |name: &str| match era {
            "legacy" => gateway.legacy("tools/call", json!({"name": name})).await,
            _ => gateway.modern("tools/call", json!({"name": name})).await,
        };
        assert_eq!(
            call("s__own").await["error"],
            json!({"code": 4242, "message": "mine"}),
            "{era}"
        );
        let page = call("s__page").await;
        if era == "legacy" {
            assert_eq!(page["error"], json!({"code": -32042, "message": "visit a page"}));
        } else {
            assert_eq!(page["error"]["code"], -32603);
            assert_eq!(page["error"]["data"]["upstream"]["code"], -32042);
        }
    }
}
