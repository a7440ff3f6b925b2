//! Messages of every revision on one channel, right and wrong ones.

use mcpfleet::mcp::Revision;
use serde_json::{Value, json};

use super::host::Host;

#[tokio::test]
async fn a_host_of_each_legacy_revision_is_served_and_the_process_ends_with_its_input() {
    for revision in Revision::LEGACY {
        let mut host = Host::start();
        let answer = host.initialize(revision, json!({})).await;
        assert_eq!(answer["result"]["protocolVersion"], revision.as_str());
        assert_eq!(answer["result"]["capabilities"]["tools"]["listChanged"], true);
        host.legacy(1, "tools/list", json!({})).await;
        let tools = host.next().await;
        assert_eq!(
            tools["result"]["tools"].as_array().unwrap().len(),
            6,
            "with the first answer"
        );
        assert_eq!(host.call(2, "echo", json!({"text": "é\n"})).await, "é\n");
        let (status, rest) = host.leave().await;
        assert!(status.success() && rest.is_empty(), "{status} {rest:?}");
    }
}

#[tokio::test]
async fn a_modern_request_is_judged_by_what_it_says_itself() {
    let mut host = Host::start();
    host.legacy(1, "server/discover", json!({})).await;
    assert_eq!(host.next().await["result"]["supportedVersions"][0], "2026-07-28");
    host.modern(2, "server/discover", json!({})).await;
    assert!(host.next().await["result"]["capabilities"].is_object());
    host.modern(3, "tools/call", json!({"name": "s__echo", "arguments": {"text": "a"}}))
        .await;
    assert_eq!(host.next().await["result"]["content"][0]["text"], "a");
    for (id, version, capabilities, method, code) in [
        (4, "2026-07-28", json!(null), "tools/list", -32602),
        (5, "2031-01-01", json!({}), "tools/list", -32022),
        (6, "2026-07-28", json!({}), "ping", -32601),
        (7, "2026-07-28", json!({}), "nothing/such", -32601),
        (8, "2026-07-28", json!({}), "tools/call", -32602),
    ] {
        let mut meta = json!({"io.modelcontextprotocol/protocolVersion": version});
        if !capabilities.is_null() {
            meta["io.modelcontextprotocol/clientCapabilities"] = capabilities;
        }
        host.legacy(id, method, json!({"_meta": meta})).await;
        let answer = host.next().await;
        assert_eq!((&answer["id"], &answer["error"]["code"]), (&json!(id), &json!(code)));
    }
}

#[tokio::test]
async fn malformed_lines_are_answered_and_end_nothing() {
    let mut host = Host::start();
    for (line, code) in [
        ("nonsense", -32700),
        ("{", -32700),
        ("17", -32600),
        ("[]", -32600),
        (r#"[{"jsonrpc":"2.0","id":1,"method":"ping"}]"#, -32600),
        (r#"{"jsonrpc":"1.0","id":null,"method":"ping"}"#, -32600),
    ] {
        host.write(line).await;
        let answer = host.next().await;
        assert_eq!(
            (&answer["id"], &answer["error"]["code"]),
            (&Value::Null, &json!(code)),
            "{line}"
        );
    }
    host.write("").await;
    host.write(" \r").await;
    host.input.as_mut().unwrap().write_all(b"\"\xff\"\n").await.unwrap();
    assert_eq!(host.next().await["error"]["code"], -32700);
    let long = "x".repeat(5 << 20);
    for (line, id) in [
        (long.clone(), Value::Null),
        (
            format!(r#"{{"jsonrpc":"2.0","id":"early","method":"m","params":{{"x":"{long}"}}}}"#),
            json!("early"),
        ),
        (
            format!(r#"{{"method":"m","params":{{"x":"{long}"}},"jsonrpc":"2.0","id":77}}"#),
            json!(77),
        ),
    ] {
        host.asked.push(json!({"jsonrpc": "2.0", "id": id, "method": "m"}));
        host.write(&line).await;
        let answer = host.next().await;
        assert_eq!((&answer["id"], &answer["error"]["code"]), (&id, &json!(-32600)));
    }
    host.legacy(1, "ping", json!({})).await;
    assert_eq!(host.next().await["result"], json!({}));
}

#[tokio::test]
async fn a_byte_order_mark_before_the_first_message_is_passed_over() {
    let mut host = Host::start();
    host.input.as_mut().unwrap().write_all(b"\xef\xbb\xbf").await.unwrap();
    host.legacy(1, "ping", json!({})).await;
    assert_eq!(host.next().await["result"], json!({}));
}

#[tokio::test]
async fn only_a_session_of_the_revision_that_has_batches_sends_one() {
    let batch = r#"[{"jsonrpc":"2.0","id":1,"method":"ping"},{"jsonrpc":"2.0","id":2,"method":"ping"}]"#;
    let mut host = Host::start();
    host.initialize(Revision::V2025_03_26, json!({})).await;
    for id in [1, 2] {
        host.asked.push(json!({"id": id, "method": "ping"}));
    }
    host.write(batch).await;
    assert_eq!(host.next().await.as_array().unwrap().len(), 2);
    host.initialize(Revision::V2025_06_18, json!({})).await;
    host.write(batch).await;
    assert_eq!(host.next().await["error"]["code"], -32600);
}
