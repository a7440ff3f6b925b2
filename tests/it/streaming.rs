//! Answers that take their time: when they become event streams, and what comes on those.

use std::net::SocketAddr;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::{Instant, timeout};

use crate::support::event_stream::EventStream;
use crate::support::gateway::TestGateway;
use crate::support::http::{self, Reply};
use crate::support::upstream::{self, Answer, Upstream};

const TOOLS: [&str; 4] = ["quick", "slow", "talkative", "fails"];

fn tools() -> Value {
    let tools = TOOLS.iter();
    tools
        .map(|name| json!({"name": name, "inputSchema": {"type": "object"}}))
        .collect()
}

/// A server whose tools answer at once, late, or with progress and a log message on the way.
fn script(seen: &upstream::Seen, modern: bool) -> Answer {
    let base = || {
        if modern {
            upstream::modern(seen, &tools())
        } else {
            upstream::legacy(seen, &tools())
        }
    };
    let result = match base() {
        Answer::Respond { body, .. } => serde_json::from_str::<Value>(&body).unwrap_or_default(),
        _ => Value::Null,
    };
    let token = &seen.body["params"]["_meta"]["progressToken"];
    match (seen.method(), seen.body["params"]["name"].as_str()) {
        ("tools/call", Some("quick")) => Answer::Stream(vec![(Duration::ZERO, result)]),
        ("tools/call", Some("slow")) => Answer::Stream(vec![(Duration::from_millis(2300), result)]),
        ("tools/call", Some("fails")) => {
            let error = json!({"code": 4711, "message": "Dock closed", "data": {"dock": 3}});
            let answer = json!({"jsonrpc": "2.0", "id": seen.body["id"], "error": error});
            Answer::Stream(vec![(Duration::from_millis(300), answer)])
        }
        ("tools/call", Some("talkative")) => {
            let progress = |n: u64| json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": {"progressToken": token, "progress": n, "odd": {}}});
            let foreign = json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": {"progressToken": "other", "progress": 9}});
            let log =
                json!({"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "info", "data": "hi"}});
            let at_once = [progress(1), foreign, log, progress(2), result];
            Answer::Stream(
                at_once
                    .into_iter()
                    .map(|message| (Duration::from_millis(20), message))
                    .collect(),
            )
        }
        _ => base(),
    }
}

async fn gateway(modern: bool) -> (TestGateway, Upstream) {
    gateway_with(modern, json!({})).await
}

async fn gateway_with(modern: bool, streaming: Value) -> (TestGateway, Upstream) {
    let server = Upstream::start(move |seen| script(seen, modern)).await;
    let spec = json!({"streaming": streaming});
    (TestGateway::ready_with(&[("s", server.address)], spec).await, server)
}

async fn call(gateway: &TestGateway, name: &str, meta: Value, accept: &str) -> Reply {
    let params = json!({"name": format!("s__{name}"), "arguments": {}, "_meta": meta});
    let body = json!({"jsonrpc": "2.0", "id": "x", "method": "tools/call", "params": params});
    let modern = meta.get("io.modelcontextprotocol/protocolVersion").is_some();
    let exposed = format!("s__{name}");
    let mut headers = vec![("accept", accept)];
    if modern {
        headers.extend([
            ("mcp-protocol-version", "2026-07-28"),
            ("mcp-method", "tools/call"),
            ("mcp-name", &exposed),
        ]);
    }
    gateway.post_accepting(body, &headers).await
}

fn modern_meta(more: Value) -> Value {
    let mut meta = json!({"io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {}});
    for (key, value) in more.as_object().unwrap() {
        meta[key] = value.clone();
    }
    meta
}

fn messages(reply: &Reply) -> Vec<Value> {
    let data = reply
        .text
        .split("\n\n")
        .filter(|event| !event.starts_with(':') && !event.is_empty());
    data.map(|event| {
        let lines = event.lines().filter_map(|line| line.strip_prefix("data: "));
        serde_json::from_str(&lines.collect::<Vec<_>>().join("\n")).unwrap_or_else(|e| panic!("{e}: {event}"))
    })
    .collect()
}

fn content_type(reply: &Reply) -> &str {
    reply.headers["content-type"].to_str().unwrap()
}

const BOTH: &str = "application/json, text/event-stream";

#[tokio::test]
async fn a_quick_answer_is_plain_even_if_the_server_streams_it() {
    let (gateway, _server) = gateway(true).await;
    let reply = call(&gateway, "quick", json!({"progressToken": 1}), BOTH).await;
    assert_eq!(content_type(&reply), "application/json; charset=utf-8");
    assert_eq!(reply.json()["result"]["content"][0]["text"], "quick");
}

#[tokio::test]
async fn a_late_answer_is_streamed_to_clients_that_name_the_type_and_to_no_others() {
    let (gateway, _server) = gateway(true).await;
    let accepts = [
        BOTH,
        "application/json",
        "*/*",
        "application/json, text/event-stream;q=0",
    ];
    let (streamed, plain, any, refused) = tokio::join!(
        call(&gateway, "slow", json!({}), accepts[0]),
        call(&gateway, "slow", json!({}), accepts[1]),
        call(&gateway, "slow", json!({}), accepts[2]),
        call(&gateway, "slow", json!({}), accepts[3]),
    );
    assert_eq!(content_type(&streamed), "text/event-stream");
    assert_eq!(streamed.headers["x-accel-buffering"], "no");
    assert_eq!(streamed.headers["cache-control"], "no-cache, no-transform");
    let events = messages(&streamed);
    assert_eq!(events.len(), 1);
    assert_eq!(
        (&events[0]["id"], &events[0]["result"]["content"][0]["text"]),
        (&json!("x"), &json!("slow"))
    );
    for reply in [plain, any, refused] {
        assert_eq!(content_type(&reply), "application/json; charset=utf-8");
        assert_eq!(reply.json()["result"]["content"][0]["text"], "slow");
    }
}

#[tokio::test]
async fn without_delay_an_instant_answer_comes_on_a_stream_and_a_refusal_keeps_its_status() {
    let (gateway, _server) = gateway_with(true, json!({"delay": "0s"})).await;
    for meta in [json!({}), modern_meta(json!({}))] {
        let streamed = call(&gateway, "quick", meta.clone(), BOTH).await;
        assert_eq!(content_type(&streamed), "text/event-stream", "{meta}");
        let events = messages(&streamed);
        assert_eq!(events.len(), 1);
        assert_eq!(events[0]["result"]["content"][0]["text"], "quick");
        for accept in ["application/json", "*/*"] {
            let plain = call(&gateway, "quick", meta.clone(), accept).await;
            assert_eq!(content_type(&plain), "application/json; charset=utf-8", "{accept}");
        }
        let unknown = call(&gateway, "no_such", meta, BOTH).await;
        assert_eq!(messages(&unknown)[0]["error"]["code"], -32602);
    }
    let list = gateway.legacy("tools/list", json!({})).await;
    assert!(list["result"]["tools"].is_array(), "lists come whole: {list}");
    let odd = modern_meta(json!({"io.modelcontextprotocol/logLevel": "loud"}));
    let refused = call(&gateway, "quick", odd, BOTH).await;
    assert_eq!(
        (refused.status, content_type(&refused)),
        (400, "application/json; charset=utf-8")
    );
}

#[tokio::test]
async fn with_a_negative_delay_no_answer_comes_on_a_stream() {
    let (gateway, _server) = gateway_with(true, json!({"delay": "-1s"})).await;
    for meta in [json!({"progressToken": 1}), modern_meta(json!({"progressToken": 1}))] {
        let (slow, talkative) = tokio::join!(
            call(&gateway, "slow", meta.clone(), BOTH),
            call(&gateway, "talkative", meta.clone(), BOTH)
        );
        for (reply, text) in [(slow, "slow"), (talkative, "talkative")] {
            assert_eq!(content_type(&reply), "application/json; charset=utf-8", "{meta}");
            assert_eq!(reply.json()["result"]["content"][0]["text"], text);
        }
    }
    let mut listening = gateway
        .modern_events(json!("l"), "subscriptions/listen", json!({"notifications": {}}))
        .await;
    assert_eq!(
        listening.content_type(),
        "text/event-stream",
        "what is a stream stays one"
    );
    assert_eq!(
        listening.next().await["method"],
        "notifications/subscriptions/acknowledged"
    );
}

#[tokio::test]
async fn an_error_after_the_stream_has_begun_comes_on_it() {
    for modern_server in [false, true] {
        let (gateway, _server) = gateway_with(modern_server, json!({"delay": "50ms"})).await;
        for meta in [json!({}), modern_meta(json!({}))] {
            let reply = call(&gateway, "fails", meta, BOTH).await;
            assert_eq!((reply.status, content_type(&reply)), (200, "text/event-stream"));
            let events = messages(&reply);
            assert_eq!(events.len(), 1, "{events:?}");
            let expected = json!({"code": 4711, "message": "Dock closed", "data": {"dock": 3}});
            assert_eq!((&events[0]["id"], &events[0]["error"]), (&json!("x"), &expected));
        }
    }
}

#[tokio::test]
async fn two_clients_with_the_same_token_at_the_same_time_hear_their_own_progress() {
    for modern_server in [false, true] {
        let (gateway, server) = gateway(modern_server).await;
        let token = json!({"progressToken": 1});
        let (one, other) = tokio::join!(
            call(&gateway, "talkative", modern_meta(token.clone()), BOTH),
            call(&gateway, "talkative", token, BOTH)
        );
        for reply in [one, other] {
            let events = messages(&reply);
            let told: Vec<_> = events.iter().map(|event| &event["params"]["progress"]).collect();
            assert_eq!(told, [&json!(1), &json!(2), &Value::Null], "{events:?}");
        }
        let calls = server.seen_of("tools/call");
        let tokens: Vec<_> = calls
            .iter()
            .map(|seen| &seen.body["params"]["_meta"]["progressToken"])
            .collect();
        if modern_server {
            assert!(
                tokens[0] == &calls[0].body["id"] && tokens[1] == &calls[1].body["id"],
                "{tokens:?}"
            );
        }
    }
}

#[tokio::test]
async fn a_token_that_is_none_is_not_echoed() {
    let (gateway, server) = gateway(true).await;
    for token in [json!(1.5), json!({}), json!(true), Value::Null] {
        let reply = call(&gateway, "talkative", json!({"progressToken": token}), BOTH).await;
        assert_eq!(content_type(&reply), "application/json; charset=utf-8", "{token}");
    }
    for seen in server.seen_of("tools/call") {
        assert!(
            seen.body["params"]["_meta"].get("progressToken").is_none(),
            "{}",
            seen.text
        );
    }
}

#[tokio::test]
async fn progress_comes_under_the_clients_token_before_the_answer() {
    for modern_server in [false, true] {
        let (gateway, server) = gateway(modern_server).await;
        for meta in [
            json!({"progressToken": "mine"}),
            modern_meta(json!({"progressToken": 7})),
        ] {
            let started = Instant::now();
            let reply = call(&gateway, "talkative", meta.clone(), BOTH).await;
            assert!(
                started.elapsed() < Duration::from_secs(2),
                "at once, not after the delay"
            );
            let events = messages(&reply);
            let progress: Vec<_> = events
                .iter()
                .filter(|e| e["method"] == "notifications/progress")
                .collect();
            assert_eq!(progress.len(), 2, "{events:?}");
            for (n, event) in progress.iter().enumerate() {
                assert_eq!(
                    event["params"],
                    json!({"progressToken": meta["progressToken"], "progress": n + 1, "odd": {}})
                );
            }
            assert!(
                !events.iter().any(|e| e["method"] == "notifications/message"),
                "nobody asked for a log"
            );
            assert_eq!(events.last().unwrap()["result"]["content"][0]["text"], "talkative");
        }
        let sent = &server.seen_of("tools/call")[0].body;
        assert_eq!(
            sent["params"]["_meta"]["progressToken"], sent["id"],
            "a token of our own"
        );
    }
}

#[tokio::test]
async fn who_wants_no_progress_gets_a_plain_answer() {
    let (gateway, server) = gateway(true).await;
    let reply = call(&gateway, "talkative", modern_meta(json!({})), BOTH).await;
    assert_eq!(content_type(&reply), "application/json; charset=utf-8");
    assert!(
        server.seen_of("tools/call")[0].body["params"]["_meta"]
            .get("progressToken")
            .is_none()
    );
}

#[tokio::test]
async fn log_messages_come_on_the_stream_of_a_modern_request_that_names_a_level() {
    let (gateway, server) = gateway(true).await;
    let meta = modern_meta(json!({"io.modelcontextprotocol/logLevel": "info"}));
    let events = messages(&call(&gateway, "talkative", meta, BOTH).await);
    assert_eq!(events[0]["params"], json!({"level": "info", "data": "hi"}));
    assert_eq!(events.len(), 2);
    let sent = &server.seen_of("tools/call")[0].body["params"]["_meta"];
    assert_eq!(sent["io.modelcontextprotocol/logLevel"], "info");
}

/// A proxy that cuts connections on which nothing comes from the server for `idle`, and that keeps back what comes until
/// there is much of it, unless the answer says `X-Accel-Buffering: no`.
async fn impatient_proxy(to: SocketAddr, idle: Duration) -> SocketAddr {
    const KEPT_BACK: usize = 1 << 16;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((mut client, _)) = listener.accept().await {
            tokio::spawn(async move {
                let mut server = TcpStream::connect(to).await.unwrap();
                let (mut from_client, mut to_client) = client.split();
                let (mut from_server, mut to_server) = server.split();
                let answers = async {
                    let (mut chunk, mut kept, mut buffers) = ([0; 4096], Vec::new(), true);
                    while let Ok(Ok(read @ 1..)) = timeout(idle, from_server.read(&mut chunk)).await {
                        kept.extend_from_slice(&chunk[..read]);
                        let text = String::from_utf8_lossy(&kept).to_ascii_lowercase();
                        buffers &= !text.contains("\r\nx-accel-buffering: no\r\n");
                        let is_whole = text.contains("content-length:") && text.contains("\r\n\r\n");
                        if !buffers || is_whole || kept.len() > KEPT_BACK {
                            to_client.write_all(&kept).await.unwrap();
                            kept.clear();
                        }
                    }
                    to_client.write_all(&kept).await.unwrap();
                };
                tokio::select! {
                    () = answers => {}
                    Err(_) = tokio::io::copy(&mut from_client, &mut to_server) => {}
                }
            });
        }
    });
    address
}

#[tokio::test]
async fn progress_comes_at_once_also_through_a_proxy_that_buffers() {
    const PAUSE: Duration = Duration::from_millis(400);
    for modern_server in [false, true] {
        let server = Upstream::start(move |seen| match seen.method() {
            "tools/call" => {
                let token = &seen.body["params"]["_meta"]["progressToken"];
                let progress = |n: u64| {
                    let params = json!({"progressToken": token, "progress": n});
                    json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": params})
                };
                let result = match modern_server {
                    true => json!({"resultType": "complete", "content": []}),
                    false => json!({"content": []}),
                };
                let answer = json!({"jsonrpc": "2.0", "id": seen.body["id"], "result": result});
                Answer::Stream(vec![
                    (PAUSE, progress(1)),
                    (PAUSE, progress(2)),
                    (PAUSE, progress(3)),
                    (3 * PAUSE, answer),
                ])
            }
            _ => script(seen, modern_server),
        })
        .await;
        let gateway = TestGateway::ready(&[("s", server.address)]).await;
        let proxy = impatient_proxy(gateway.address, 5 * PAUSE).await;
        let url = format!("http://{proxy}/default/fed/mcp");
        let session = gateway.session(Some("2025-11-25")).await.unwrap();
        let modern = [
            ("mcp-protocol-version", "2026-07-28"),
            ("mcp-method", "tools/call"),
            ("mcp-name", "s__slow"),
        ];
        let legacy = [
            ("mcp-protocol-version", "2025-11-25"),
            ("mcp-session-id", session.as_str()),
        ];
        for (headers, meta) in [
            (&modern[..], modern_meta(json!({"progressToken": 7}))),
            (&legacy[..], json!({"progressToken": 7})),
        ] {
            let params = json!({"name": "s__slow", "arguments": {}, "_meta": meta});
            let body = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params});
            let asked = Instant::now();
            let request = http::legacy(&url, &body, headers.iter().copied());
            let mut stream = EventStream::open(&http::client(), request).await;
            for n in 1..=3 {
                assert_eq!(stream.next().await["params"]["progress"], n);
                let late = asked.elapsed().saturating_sub(PAUSE * n);
                assert!(
                    late < Duration::from_secs(1),
                    "progress {n} came {late:?} after it was sent"
                );
            }
            assert!(stream.next().await["result"].is_object());
            assert!(asked.elapsed() >= 6 * PAUSE);
        }
    }
}

#[tokio::test]
async fn a_silent_call_outlives_a_proxy_that_cuts_silent_connections() {
    let server = Upstream::start(|seen| script(seen, true)).await;
    for (keep_alive, arrives) in [("200ms", true), ("1m", false)] {
        let spec = json!({"streaming": {"delay": "100ms", "keepAlive": keep_alive}});
        let gateway = TestGateway::ready_with(&[("s", server.address)], spec).await;
        let proxy = impatient_proxy(gateway.address, Duration::from_secs(1)).await;
        let params = json!({"name": "s__slow", "arguments": {}, "_meta": modern_meta(json!({}))});
        let body = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params});
        let headers = [
            ("mcp-protocol-version", "2026-07-28"),
            ("mcp-method", "tools/call"),
            ("mcp-name", "s__slow"),
        ];
        let request = http::legacy(&format!("http://{proxy}/default/fed/mcp"), &body, headers);
        let mut stream = EventStream::open(&http::client(), request).await;
        let answer = stream.message().await;
        assert_eq!(answer.is_some(), arrives, "{keep_alive}: {answer:?}");
    }
}
