//! Clients and servers of both eras, each by the rules of its own.

use serde_json::json;

use super::mixed;

#[tokio::test]
async fn clients_of_both_eras_list_and_call_servers_of_both_eras() {
    let (gateway, old, new) = mixed().await;
    for answer in [
        gateway.legacy("tools/list", json!({})).await,
        gateway.modern("tools/list", json!({})).await,
    ] {
        let names: Vec<_> = answer["result"]["tools"]
            .as_array()
            .unwrap()
            .iter()
            .map(|t| &t["name"])
            .collect();
        assert_eq!(names, ["new__echo", "old__echo"]);
    }
    for name in ["new__echo", "old__echo"] {
        let call = json!({"name": name, "arguments": {"a": 1}});
        let legacy = gateway.legacy("tools/call", call.clone()).await;
        assert_eq!(
            legacy["result"],
            json!({"content": [{"type": "text", "text": "echo"}]}),
            "{name}"
        );
        let modern = gateway.modern("tools/call", call).await;
        assert_eq!(modern["result"]["resultType"], "complete", "{name}");
        assert_eq!(modern["result"]["content"][0]["text"], "echo", "{name}");
        let info = &modern["result"]["_meta"]["io.modelcontextprotocol/serverInfo"];
        assert_eq!(info["name"], "fed", "the federation answers for itself");
        assert!(modern["result"].get("ttlMs").is_none());
    }
    assert_eq!(old.seen_of("tools/call").len(), 2);
    assert_eq!(new.seen_of("tools/call").len(), 2);
}

#[tokio::test]
async fn the_handshake_is_answered_with_a_legacy_revision() {
    let (gateway, ..) = mixed().await;
    for (asked, answered) in [
        ("2025-06-18", "2025-06-18"),
        ("", "2025-11-25"),
        ("2026-07-28", "2025-11-25"),
        ("1999-12-31", "2025-11-25"),
    ] {
        let params =
            json!({"protocolVersion": asked, "capabilities": {}, "clientInfo": {"name": "probe", "version": "0"}});
        let body = json!({"jsonrpc": "2.0", "id": 7, "method": "initialize", "params": params});
        let answer = gateway.post(body, &[]).await.json();
        assert_eq!(answer["id"], 7);
        assert_eq!(answer["result"]["protocolVersion"], answered, "{asked}");
        assert_eq!(answer["result"]["serverInfo"]["name"], "fed");
        assert!(answer["result"].get("resultType").is_none());
    }
    let notified = gateway
        .post(json!({"jsonrpc": "2.0", "method": "notifications/initialized"}), &[])
        .await;
    assert_eq!((notified.status, notified.text.as_str()), (202, ""));
    let pong = gateway
        .post(json!({"jsonrpc": "2.0", "id": 1, "method": "ping"}), &[])
        .await
        .json();
    assert_eq!(pong, json!({"jsonrpc": "2.0", "id": 1, "result": {}}));
}

#[tokio::test]
async fn discovery_tells_every_revision_modern_first() {
    let (gateway, ..) = mixed().await;
    let result = gateway.modern("server/discover", json!({})).await["result"].take();
    let versions = json!(["2026-07-28", "2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"]);
    assert_eq!(result["supportedVersions"], versions);
    assert_eq!(
        (&result["resultType"], &result["ttlMs"]),
        (&json!("complete"), &json!(0))
    );
    assert_eq!(result["_meta"]["io.modelcontextprotocol/serverInfo"]["name"], "fed");
}
