//! Errors of servers, and refusals of our own, as clients are told them.

use mcpfleet::mcp::Revision;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::support::gateway::{TestGateway, plan};
use crate::support::http;
use crate::support::upstream::{self, Answer, Seen, Upstream};

/// A server of either era with one tool and one resource, for which it has nothing but this answer.
fn script(seen: &Seen, modern: bool, status: u16, error: &str) -> Answer {
    let page = |list: &str, item: Value| {
        let mut page = json!({list: [item]});
        if modern {
            for (name, value) in [
                ("resultType", json!("complete")),
                ("ttlMs", json!(0)),
                ("cacheScope", json!("private")),
            ] {
                page[name] = value;
            }
        }
        seen.result(page)
    };
    match seen.method() {
        "tools/call" | "resources/read" => {
            let body = format!(r#"{{"jsonrpc":"2.0","id":{},"error":{error}}}"#, seen.body["id"]);
            Answer::text(status, "application/json", body)
        }
        "resources/list" => page("resources", json!({"uri": "a:b", "name": "r"})),
        "server/discover" if modern => seen.result(json!({
            "resultType": "complete", "supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}, "resources": {}},
            "ttlMs": 0, "cacheScope": "private",
        })),
        "initialize" if !modern => seen.result(json!({
            "protocolVersion": "2025-11-25", "capabilities": {"tools": {}, "resources": {}},
            "serverInfo": {"name": "l", "version": "1"},
        })).with_header("mcp-session-id", "s-1"),
        _ if modern => upstream::modern(seen, &json!([{"name": "t", "inputSchema": {"type": "object"}}])),
        _ => upstream::legacy(seen, &json!([{"name": "t", "inputSchema": {"type": "object"}}])),
    }
}

/// The error, as it was written, that a client of `revision` is told.
async fn told(gateway: &TestGateway, revision: Revision, method: &str, target: (&str, &str)) -> String {
    let mut params = json!({target.0: target.1});
    let mut headers = vec![("mcp-protocol-version", revision.as_str())];
    if revision == Revision::LATEST {
        params["_meta"] = json!({
            "io.modelcontextprotocol/protocolVersion": revision.as_str(),
            "io.modelcontextprotocol/clientCapabilities": {},
        });
        headers.extend([("mcp-method", method), ("mcp-name", target.1)]);
    }
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
    let session = match revision {
        Revision::V2026_07_28 => None,
        _ => gateway.session(Some(revision.as_str())).await,
    };
    headers.extend(session.as_deref().map(|session| ("mcp-session-id", session)));
    // Not every JSON reader takes the numbers in it.
    let reply = http::send(&gateway.client, http::legacy(&gateway.url(), &body, headers)).await;
    assert_eq!(reply.status, 200, "{}", reply.text);
    let (_, error) = reply
        .text
        .split_once(r#""error":"#)
        .unwrap_or_else(|| panic!("{}", reply.text));
    error.strip_suffix('}').unwrap().to_owned()
}

const READ: (&str, (&str, &str)) = ("resources/read", ("uri", "a:b"));
const CALL: (&str, (&str, &str)) = ("tools/call", ("name", "s__t"));

#[tokio::test]
async fn a_missing_resource_is_told_by_the_code_of_the_clients_era_and_by_its_uri() {
    for (modern, error, to_legacy, to_modern) in [
        (
            false,
            r#"{"code":-32002,"message":"gone"}"#,
            r#"{"code":-32002,"message":"gone"}"#,
            r#"{"code":-32602,"message":"gone","data":{"uri":"a:b"}}"#,
        ),
        (
            false,
            r#"{"code":-32002,"message":"gone","data":{"uri":"a:c","n":1e400}}"#,
            r#"{"code":-32002,"message":"gone","data":{"uri":"a:c","n":1e400}}"#,
            r#"{"code":-32602,"message":"gone","data":{"uri":"a:c","n":1e400}}"#,
        ),
        (
            true,
            r#"{"code":-32602,"message":"gone","data":{"uri":"a:b"}}"#,
            r#"{"code":-32002,"message":"gone","data":{"uri":"a:b"}}"#,
            r#"{"code":-32602,"message":"gone","data":{"uri":"a:b"}}"#,
        ),
        (
            true,
            r#"{"code":-32602,"message":"odd"}"#,
            r#"{"code":-32602,"message":"odd"}"#,
            r#"{"code":-32602,"message":"odd"}"#,
        ),
    ] {
        let server = Upstream::start(move |seen| script(seen, modern, 200, error)).await;
        let gateway = TestGateway::ready(&[("s", server.address)]).await;
        assert_eq!(told(&gateway, Revision::LATEST_LEGACY, READ.0, READ.1).await, to_legacy);
        assert_eq!(told(&gateway, Revision::LATEST, READ.0, READ.1).await, to_modern);
    }
}

#[tokio::test]
async fn a_code_that_is_not_the_servers_to_give_is_told_under_the_data_of_another() {
    for code in [-32002, -32020, -32042, -32099] {
        let error = format!(r#"{{"code":{code},"message":"m","data":{{"n":123456789012345678901234567890}}}}"#);
        let said = error.clone();
        let server = Upstream::start(move |seen| script(seen, false, 200, &said)).await;
        let gateway = TestGateway::ready(&[("s", server.address)]).await;
        let told = told(&gateway, Revision::LATEST, CALL.0, CALL.1).await;
        assert_eq!(
            told,
            format!(r#"{{"code":-32603,"message":"m","data":{{"upstream":{error}}}}}"#)
        );
    }
}

#[tokio::test]
async fn what_went_wrong_in_a_tool_is_told_as_it_was_told() {
    for modern in [false, true] {
        for error in [
            r#"{"code":-32001,"message":"Quota","data":{"retry_after":60}}"#,
            r#"{"code":-32000,"message":"a","data":[1.0,null]}"#,
            r#"{"code":-32019,"message":"b"}"#,
            r#"{"code":4711,"message":"Dock closed","data":"north"}"#,
        ] {
            let server = Upstream::start(move |seen| script(seen, modern, 200, error)).await;
            let gateway = TestGateway::ready(&[("s", server.address)]).await;
            for revision in [Revision::LATEST_LEGACY, Revision::LATEST] {
                assert_eq!(told(&gateway, revision, CALL.0, CALL.1).await, error, "{revision}");
            }
        }
        let server = Upstream::start(move |seen| match seen.method() {
            "tools/call" => {
                let mut result = json!({"content": [{"type": "text", "text": "no"}], "isError": true});
                if modern {
                    result["resultType"] = json!("complete");
                }
                seen.result(result)
            }
            _ => script(seen, modern, 200, "{}"),
        })
        .await;
        let gateway = TestGateway::ready(&[("s", server.address)]).await;
        for revision in Revision::ALL {
            let answer = gateway.ask(revision, "tools/call", json!({"name": "s__t"})).await;
            let result = &answer["result"];
            assert_eq!(result["isError"], true, "{revision}: {answer}");
            assert_eq!(result["content"], json!([{"type": "text", "text": "no"}]));
        }
    }
}

#[tokio::test]
async fn an_error_with_a_status_of_its_own_is_the_servers_answer() {
    let error =
        r#"{"code":-32602,"message":"no such argument","data":{"far":1e400,"long":123456789012345678901234567890}}"#;
    let server = Upstream::start(move |seen| script(seen, true, 400, error)).await;
    let gateway = TestGateway::ready(&[("s", server.address)]).await;
    for revision in [Revision::LATEST_LEGACY, Revision::LATEST] {
        assert_eq!(told(&gateway, revision, CALL.0, CALL.1).await, error, "{revision}");
    }
    let page = gateway.metrics_page();
    let counts = |outcome: &str| {
        let series = format!(r#"mcpfleet_upstream_requests_total{{outcome="{outcome}",server="default/s"}}"#);
        let line = page.lines().find_map(|line| line.strip_prefix(&series));
        line.map(|number| number.trim().to_owned())
    };
    assert_eq!(
        (counts("answered").as_deref(), counts("failed").as_deref()),
        (Some("2"), Some("0")),
        "{page}"
    );
}

#[tokio::test]
async fn whether_an_error_has_a_null_id_is_a_matter_of_the_session() {
    let gateway = TestGateway::start(plan(&[])).await;
    for (revision, has_id) in [(Revision::V2025_06_18, true), (Revision::V2025_11_25, false)] {
        let session = gateway.open_session(revision).await;
        // Said by nothing, or wrongly, by a header.
        for header in [None, Some("2025-06-18"), Some("2025-11-25")] {
            let request = ::http::Request::post(gateway.url())
                .header("content-type", "application/json")
                .header("mcp-session-id", &session);
            let request = header
                .into_iter()
                .fold(request, |request, name| request.header("mcp-protocol-version", name));
            let body = http_body_util::Full::new(bytes::Bytes::from_static(b"{"));
            let reply = http::send(&gateway.client, request.body(body).unwrap()).await;
            let answer = reply.json();
            assert_eq!(answer["error"]["code"], -32700);
            assert_eq!(
                answer.get("id").is_some_and(Value::is_null),
                has_id,
                "{revision}, {header:?}: {answer}"
            );
        }
    }
}

#[tokio::test]
async fn capabilities_are_an_object_and_clients_are_told_so() {
    let gateway = TestGateway::start(plan(&[])).await;
    for declared in [json!([]), json!("{}"), json!(1), Value::Null] {
        let params = json!({
            "protocolVersion": "2025-11-25", "capabilities": declared, "clientInfo": {"name": "t", "version": "1"},
        });
        let handshake = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params});
        let refused = gateway.post(handshake, &[]).await;
        assert!(refused.header("mcp-session-id").is_none());
        let meta = json!({
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": declared,
        });
        let list = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {"_meta": meta}});
        let headers = [("mcp-protocol-version", "2026-07-28"), ("mcp-method", "tools/list")];
        let modern = gateway.post(list, &headers).await;
        assert_eq!(modern.status, 400);
        for reply in [refused, modern] {
            let error = &reply.json()["error"];
            assert_eq!(error["code"], -32602, "{declared}: {error}");
            assert!(error["message"].as_str().unwrap().contains("sends {}"), "{error}");
        }
    }
}

#[tokio::test]
async fn a_level_of_logs_is_taken_only_where_there_are_any() {
    for (logging, code) in [
        (json!({"logging": {}, "tools": {}}), Value::Null),
        (json!({"tools": {}}), json!(-32601)),
    ] {
        let server = Upstream::start(move |seen| match seen.method() {
            "initialize" => seen
                .result(json!({
                    "protocolVersion": "2025-11-25", "capabilities": logging,
                    "serverInfo": {"name": "l", "version": "1"},
                }))
                .with_header("mcp-session-id", "s-1"),
            _ => upstream::legacy(seen, &json!([])),
        })
        .await;
        let gateway = TestGateway::ready(&[("s", server.address)]).await;
        let answer = gateway.legacy("logging/setLevel", json!({"level": "info"})).await;
        assert_eq!(answer["error"]["code"], code, "{answer}");
    }
}

#[tokio::test]
async fn nothing_is_completed_where_no_server_does_or_what_nobody_offers() {
    let complete = |reference: Value| json!({"ref": reference, "argument": {"name": "a", "value": "b"}});
    let prompt = json!({"type": "ref/prompt", "name": "s__p"});
    for completes in [false, true] {
        let server = Upstream::start(move |seen| match seen.method() {
            "initialize" => {
                let capabilities = if completes {
                    json!({"prompts": {}, "completions": {}})
                } else {
                    json!({"prompts": {}})
                };
                seen.result(json!({
                    "protocolVersion": "2025-11-25", "capabilities": capabilities,
                    "serverInfo": {"name": "l", "version": "1"},
                }))
                .with_header("mcp-session-id", "s-1")
            }
            "prompts/list" => seen.result(json!({"prompts": [{"name": "p"}]})),
            "completion/complete" => seen.error(200, -32602, "no such argument"),
            _ => upstream::legacy(seen, &json!([])),
        })
        .await;
        let gateway = TestGateway::ready(&[("s", server.address)]).await;
        let none = if completes { -32602 } else { -32601 };
        for reference in [
            prompt.clone(),
            json!({"type": "ref/prompt", "name": "other"}),
            json!({"type": "ref/resource", "uri": "a://{x}"}),
            json!({"type": "ref/tool", "name": "s__p"}),
        ] {
            let legacy = gateway.legacy("completion/complete", complete(reference.clone())).await;
            assert_eq!(legacy["error"]["code"], none, "{reference}: {legacy}");
            let modern = gateway.modern("completion/complete", complete(reference.clone())).await;
            assert_eq!(modern["error"]["code"], none, "{reference}: {modern}");
        }
        assert_eq!(
            server.seen_of("completion/complete").len(),
            if completes { 2 } else { 0 }
        );
    }
    let nobody = TestGateway::start(plan(&[])).await;
    let mut params = complete(prompt);
    params["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {},
    });
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": "completion/complete", "params": params});
    let headers = [
        ("mcp-protocol-version", "2026-07-28"),
        ("mcp-method", "completion/complete"),
    ];
    assert_eq!(nobody.post(body, &headers).await.status, 404);
}

/// The status of the answer to a ping with these headers, written as they are.
async fn status(gateway: &TestGateway, headers: &str) -> u16 {
    let mut connection = TcpStream::connect(gateway.address).await.unwrap();
    let body = r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;
    let request = format!(
        "POST /default/fed/mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\
         Connection: close\r\n{headers}\r\n{body}",
        body.len()
    );
    // It may be refused before all of it is written.
    drop(connection.write_all(request.as_bytes()).await);
    let mut answer = [0; 16];
    let mut read = 0;
    while read < 12 {
        match connection.read(&mut answer[read..]).await {
            Ok(0) | Err(_) => break,
            Ok(more) => read += more,
        }
    }
    let text = String::from_utf8_lossy(&answer[..read]).into_owned();
    text.split(' ')
        .nth(1)
        .and_then(|status| status.parse().ok())
        .unwrap_or_else(|| panic!("{text:?}"))
}

#[tokio::test]
async fn headers_are_bounded_in_number_and_in_size() {
    let gateway = TestGateway::start(plan(&[])).await;
    let session = gateway.open_session(Revision::WITHOUT_HEADER).await;
    let many = |count: usize| -> String {
        let own = format!("Mcp-Session-Id: {session}\r\n");
        (0..count).fold(own, |headers, number| format!("{headers}X-{number}: a\r\n"))
    };
    assert_eq!(status(&gateway, &many(90)).await, 200);
    assert_eq!(status(&gateway, &many(100)).await, 431);
    let large = |bytes: usize| format!("{}X-Large: {}\r\n", many(0), "a".repeat(bytes));
    assert_eq!(status(&gateway, &large(32 << 10)).await, 200);
    assert_eq!(status(&gateway, &large(80 << 10)).await, 431);
}

#[tokio::test]
async fn of_a_servers_stream_the_answer_is_taken_that_has_the_requests_id_and_its_end_is_not_waited_for() {
    for modern in [false, true] {
        let (sender, live) = Answer::live();
        let server = Upstream::start(move |seen| match seen.method() {
            "tools/call" => {
                let result = |text: &str| {
                    let mut result = json!({"content": [{"type": "text", "text": text}]});
                    if modern {
                        result["resultType"] = json!("complete");
                    }
                    result.to_string()
                };
                let id = seen.body["id"].as_u64().unwrap();
                // Of another id, of the same id in another type, under another event's name, and at last the answer.
                for (event, id, text) in [
                    ("", (id + 1).to_string(), "foreign"),
                    ("", format!("\"{id}\""), "text"),
                    ("event: note\n", id.to_string(), "note"),
                    ("", id.to_string(), "right"),
                ] {
                    let message = format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{}}}"#, result(text));
                    sender.send(json!(format!("{event}data: {message}\n\n"))).unwrap();
                }
                live.clone()
            }
            _ => script(seen, modern, 200, "{}"),
        })
        .await;
        let gateway = TestGateway::ready(&[("s", server.address)]).await;
        let call = gateway.legacy("tools/call", json!({"name": "s__t"}));
        let answer = tokio::time::timeout(std::time::Duration::from_secs(2), call).await;
        let answer = answer.expect("the stream's end is waited for");
        assert_eq!(answer["result"]["content"][0]["text"], "right", "{answer}");
    }
}
