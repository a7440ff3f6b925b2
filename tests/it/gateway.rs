//! What clients of a federation see: the rules of both eras on one endpoint, and values that arrive as they were sent.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;

use crate::support::gateway::TestGateway;
use crate::support::upstream::{self, Upstream};

fn tools() -> Value {
    json!([{"name": "echo", "inputSchema": {"type": "object"}}])
}

/// A gateway over one Legacy and one Modern server, each with a tool `echo`.
async fn mixed() -> (TestGateway, Upstream, Upstream) {
    let old = Upstream::start(|seen| upstream::legacy(seen, &tools())).await;
    let new = Upstream::start(|seen| upstream::modern(seen, &tools())).await;
    let gateway = TestGateway::ready(&[("old", old.address), ("new", new.address)]).await;
    (gateway, old, new)
}

#[tokio::test]
async fn who_misses_an_endpoint_is_told_which_may_be_meant() {
    let (gateway, _old, _new) = mixed().await;
    for (path, meant) in [
        ("/default/fed/mcp/", Some("/default/fed/mcp")),
        ("/default/fed", Some("/default/fed/mcp")),
        ("/Default//fed/MCP", Some("/default/fed/mcp")),
        ("/default/fed/sse/", Some("/default/fed/sse")),
        ("/default/other/mcp", None),
    ] {
        let request = ::http::Request::post(format!("http://{}{path}", gateway.address));
        let reply = crate::support::http::send(&gateway.client, request.body(Default::default()).unwrap()).await;
        assert_eq!(reply.status, 404);
        let told = meant.map(|meant| format!("did you mean {meant}?"));
        assert_eq!(
            reply.text.contains("did you mean"),
            told.is_some(),
            "{path}: {}",
            reply.text
        );
        assert!(reply.text.contains(&told.unwrap_or_default()), "{path}: {}", reply.text);
    }
}

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
async fn the_http_side_is_guarded() {
    let (gateway, ..) = mixed().await;
    let url = gateway.url();
    let session = gateway.session(None).await.unwrap();
    let ping = r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;
    let send = async |request: http::request::Builder, body: &str| {
        gateway
            .send(
                request
                    .body(http_body_util::Full::new(bytes::Bytes::copy_from_slice(
                        body.as_bytes(),
                    )))
                    .unwrap(),
            )
            .await
    };
    let json = |request: http::request::Builder| {
        let request = request.header("content-type", "application/json");
        request.header("mcp-session-id", &session)
    };
    let reply = send(
        json(http::Request::post(&url)).header("content-type", "application/json; charset=utf-8"),
        ping,
    )
    .await;
    assert_eq!(reply.status, 200);
    assert_eq!(
        send(http::Request::post(&url).header("content-type", "text/plain"), ping)
            .await
            .status,
        415
    );
    assert_eq!(
        send(json(http::Request::post(&url)).header("accept", "text/html"), ping)
            .await
            .status,
        406
    );
    for coding in ["gzip", "identity, gzip", "br", "x\u{ff}"] {
        let coding = http::HeaderValue::from_bytes(coding.as_bytes()).unwrap();
        let reply = send(json(http::Request::post(&url)).header("content-encoding", coding), ping).await;
        assert_eq!((reply.status, reply.header("accept-encoding")), (415, Some("identity")));
        assert!(reply.text.contains("send the body as it is"), "{}", reply.text);
    }
    let plain = send(
        json(http::Request::post(&url)).header("content-encoding", "Identity"),
        ping,
    )
    .await;
    assert_eq!(plain.status, 200);
    let get = send(http::Request::get(&url).header("accept", "application/json"), "").await;
    assert_eq!(
        (get.status, get.headers["allow"].to_str().unwrap()),
        (405, "POST, GET, DELETE, OPTIONS")
    );
    let unknown = format!("http://{}/default/other/mcp", gateway.address);
    assert_eq!(send(json(http::Request::post(unknown)), ping).await.status, 404);
    let bare = format!("http://{}/mcp", gateway.address);
    assert_eq!(
        send(json(http::Request::post(bare)), ping).await.status,
        200,
        "a single federation is served at /mcp too"
    );
    assert_eq!(
        send(
            json(http::Request::post(&url)).header("origin", "https://evil.example"),
            ping
        )
        .await
        .status,
        403
    );
    assert_eq!(
        send(json(http::Request::post(&url)).header("host", "evil.example"), ping)
            .await
            .status,
        403
    );
    let page = send(
        json(http::Request::post(&url)).header("origin", "http://localhost:5173"),
        ping,
    )
    .await;
    assert_eq!(page.headers["access-control-allow-origin"], "http://localhost:5173");
    let exposed = page.headers["access-control-expose-headers"].to_str().unwrap();
    assert!(exposed.contains("Mcp-Session-Id"), "pages can read their session");
    let preflight = http::Request::options(&url).header("origin", "http://localhost:5173");
    let preflight = send(preflight.header("access-control-request-headers", "mcp-name, x-y"), "").await;
    assert_eq!(
        (
            preflight.status,
            preflight.headers["access-control-allow-headers"].to_str().unwrap()
        ),
        (200, "mcp-name, x-y")
    );
    let large = format!(
        r#"{{"jsonrpc":"2.0","id":1,"method":"ping","params":{{"x":"{}"}}}}"#,
        "a".repeat(5 << 20)
    );
    assert_eq!(send(json(http::Request::post(&url)), &large).await.status, 413);
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

#[tokio::test]
async fn a_stopping_gateway_lets_running_requests_finish() {
    let server = Upstream::start(|seen| match seen.method() {
        "tools/call" => {
            std::thread::sleep(Duration::from_millis(400));
            upstream::legacy(seen, &tools())
        }
        _ => upstream::legacy(seen, &tools()),
    })
    .await;
    let gateway = TestGateway::ready(&[("s", server.address)]).await;
    let (answer, ()) = tokio::join!(gateway.legacy("tools/call", json!({"name": "s__echo"})), async {
        tokio::time::sleep(Duration::from_millis(100)).await;
        gateway.stop_serving();
    });
    assert_eq!(answer["result"]["content"][0]["text"], "echo");
    gateway.stop().await;
    assert!(
        server.seen().iter().any(|seen| seen.http == http::Method::DELETE),
        "the session was ended"
    );
}

/// Clients that send all before they read anything.
#[tokio::test]
async fn whoever_sends_too_much_is_told_so_when_it_listens_at_last() {
    let gateway = TestGateway::ready(&[]).await;
    let head = |more: &str| {
        format!(
            "POST /default/fed/mcp HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\naccept: application/json\r\n{more}\r\n\r\n"
        )
    };
    let size = 10 << 20;
    let sent = "a".repeat(size);
    let declared = head(&format!("content-length: {size}")) + &sent;
    let chunked = head("transfer-encoding: chunked") + &format!("{size:x}\r\n{sent}\r\n0\r\n\r\n");
    for message in [declared, chunked] {
        let mut stream = TcpStream::connect(gateway.address).await.unwrap();
        stream.write_all(message.as_bytes()).await.unwrap();
        assert!(first_line(&mut stream).await.starts_with("HTTP/1.1 413 "));
    }
    let mut waiting = TcpStream::connect(gateway.address).await.unwrap();
    let asking = head(&format!("content-length: {size}\r\nexpect: 100-continue"));
    waiting.write_all(asking.as_bytes()).await.unwrap();
    assert!(
        first_line(&mut waiting).await.starts_with("HTTP/1.1 413 "),
        "it is not asked for what is not wanted"
    );
}

async fn first_line(stream: &mut TcpStream) -> String {
    let mut line = String::new();
    BufReader::new(stream).read_line(&mut line).await.unwrap();
    line
}
