//! Values that arrive as they were sent, and what is of one hop alone.

use serde_json::{Value, json};

use super::mixed;
use crate::support::gateway::TestGateway;
use crate::support::upstream::{self, Upstream};

#[tokio::test]
async fn a_server_gets_the_headers_and_the_envelope_of_its_own_hop() {
    let (gateway, old, new) = mixed().await;
    let body = |name: &str| {
        json!({"jsonrpc": "2.0", "id": "x", "method": "tools/call", "params": {
            "name": name, "arguments": {}, "_meta": {"progressToken": 9, "traceparent": "00-a-b-01"}}})
    };
    let secrets = [("authorization", "Bearer secret"), ("cookie", "c=1"), ("x-own", "1")];
    gateway.post(body("old__echo"), &secrets).await;
    gateway.post(body("new__echo"), &secrets).await;
    let session = gateway.session(None).await.unwrap();

    let call = old.seen_of("tools/call").pop().unwrap();
    assert_eq!(call.header("mcp-session-id"), Some("s-1"));
    assert_eq!(call.header("mcp-protocol-version"), Some("2025-06-18"));
    assert_eq!(call.header("mcp-method"), None);
    let own_token = &call.body["id"];
    assert_eq!(
        call.body["params"]["_meta"],
        json!({"traceparent": "00-a-b-01", "progressToken": own_token})
    );
    let call = new.seen_of("tools/call").pop().unwrap();
    assert_eq!(call.header("mcp-method"), Some("tools/call"));
    assert_eq!(call.header("mcp-name"), Some("echo"));
    assert_eq!(call.header("mcp-protocol-version"), Some("2026-07-28"));
    assert_eq!(call.header("mcp-session-id"), None);
    assert_eq!(
        call.body["params"]["_meta"]["io.modelcontextprotocol/clientCapabilities"],
        json!({})
    );
    for seen in old.seen().iter().chain(&new.seen()) {
        for (name, value) in &secrets {
            assert_ne!(
                seen.header(name),
                Some(*value),
                "{name} of a client must never reach a server"
            );
        }
        assert_ne!(seen.header("mcp-session-id"), Some(&*session));
    }
}

#[tokio::test]
async fn descriptors_and_results_arrive_value_for_value() {
    let descriptor = json!({
        "name": "odd", "title": "T", "inputSchema": {"type": "object", "$defs": {"x": {"future": [1, 2.50, null]}}},
        "outputSchema": {"type": "object"}, "annotations": {"readOnlyHint": true, "unknownHint": {"a": []}},
        "icons": [{"src": "data:,"}], "_meta": {"vendor.x/y": {"deep": {"er": 12_345_678_901_234_567_u64}}},
        "inventedForThis": {"name": "odd", "list": [[], {}, "ü\u{1f600}\u{7f}"]},
    });
    let link = json!({
        "type": "resource_link", "uri": "x://1", "name": "one", "size": 7, "_meta": {"vendor.x/y": [1.0]},
        "inventedForThis": {"a": null},
    });
    let result = |content: Value| {
        json!({
            "content": content, "structuredContent": {"n": 1.0e300, "i": -7}, "isError": false,
            "_meta": {"vendor.x/y": 1}, "inventedForThis": ["a", {"b": null}],
        })
    };
    let results = [result(json!([])), result(json!([link]))];
    let own = results.clone();
    let answer = move |seen: &upstream::Seen| {
        let place = usize::from(seen.body["params"]["arguments"]["link"] == true);
        own[place].clone()
    };
    let (listed, answered) = (json!([descriptor]), answer.clone());
    let old = Upstream::start(move |seen| match seen.method() {
        "tools/call" => seen.result(answered(seen)),
        _ => upstream::legacy(seen, &listed),
    })
    .await;
    let (listed, answered) = (json!([descriptor]), answer.clone());
    let new = Upstream::start(move |seen| match seen.method() {
        "tools/call" => {
            let mut result = answered(seen);
            result["resultType"] = json!("complete");
            seen.result(result)
        }
        _ => upstream::modern(seen, &listed),
    })
    .await;
    let gateway = TestGateway::ready(&[("new", new.address), ("old", old.address)]).await;

    let named = |name: &str| {
        let mut expected = descriptor.clone();
        expected["name"] = json!(name);
        expected
    };
    for answer in [
        gateway.legacy("tools/list", json!({})).await,
        gateway.modern("tools/list", json!({})).await,
    ] {
        assert_eq!(answer["result"]["tools"], json!([named("new__odd"), named("old__odd")]));
    }
    for name in ["new__odd", "old__odd"] {
        for (has_link, result) in [false, true].into_iter().zip(&results) {
            let call = json!({"name": name, "arguments": {"link": has_link}});
            assert_eq!(
                gateway.legacy("tools/call", call.clone()).await["result"],
                *result,
                "{name}"
            );
            let mut modern = gateway.modern("tools/call", call).await["result"].take();
            let added = modern.as_object_mut().unwrap();
            assert_eq!(added.remove("resultType"), Some(json!("complete")));
            let info = added["_meta"]
                .as_object_mut()
                .unwrap()
                .remove("io.modelcontextprotocol/serverInfo");
            assert!(info.is_some());
            assert_eq!(modern, *result, "{name}");
        }
    }
}

#[tokio::test]
async fn ids_and_arguments_are_kept_as_they_were_written() {
    let (gateway, old, _new) = mixed().await;
    for id in ["1", "\"1\"", "12345678901234567890123", "-0.5", "\"\\u00fc\""] {
        let body = format!(
            r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{"name":"old__echo","arguments":{{"big":98765432109876543210987 ,"f":1.10}}}}}}"#
        );
        let reply = gateway.post(body, &[]).await;
        assert!(
            reply.text.starts_with(&format!(r#"{{"jsonrpc":"2.0","id":{id},"#)),
            "{}",
            reply.text
        );
    }
    let call = old.seen_of("tools/call").pop().unwrap();
    assert!(
        call.text
            .contains(r#""arguments":{"big":98765432109876543210987 ,"f":1.10}"#),
        "{}",
        call.text
    );
}
