//! What is checked of clients: that headers repeat arguments.

use serde_json::{Value, json};

use super::route::{call, modern, repeated, route};
use crate::support::gateway::TestGateway;
use crate::support::upstream::{self, Upstream};

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
