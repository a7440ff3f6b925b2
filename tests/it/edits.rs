//! Edits of a federation while clients are connected: what they forbid ends.

use std::time::Duration;

use ::http::Request;
use http_body_util::Full;
use mcpfleet::fleet::PlanInput;
use mcpfleet::mcp::Revision;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::{Instant, sleep};

use crate::access::{ALICE, BOB, alice_and_bob, by_key, keys};
use crate::support::event_stream::EventStream;
use crate::support::gateway::{TestGateway, plan_with};
use crate::support::http;
use crate::support::upstream::{self, Answer, Seen, Upstream};

const REVISION: Revision = Revision::LATEST_LEGACY;

/// A Modern server whose tool never answers.
fn script(seen: &Seen) -> Answer {
    match seen.method() {
        "tools/call" => Answer::Hang,
        _ => upstream::modern(seen, &json!([{"name": "stall", "inputSchema": {"type": "object"}}])),
    }
}

async fn old_stream(gateway: &TestGateway, headers: &[(&str, &str)]) -> EventStream {
    let request =
        Request::get(format!("http://{}/default/fed/sse", gateway.address)).header("accept", "text/event-stream");
    let request = headers
        .iter()
        .fold(request, |request, (name, value)| request.header(*name, *value));
    let mut stream = EventStream::open(&gateway.client, request.body(Full::default()).unwrap()).await;
    assert_eq!(stream.event().await.unwrap().kind, "endpoint");
    stream
}

/// Opens a stream for what happens to the session of a client with this `key`.
async fn session_stream(gateway: &TestGateway, session: &str, key: &[(&str, &str)]) -> EventStream {
    let request = Request::get(gateway.url())
        .header("accept", "text/event-stream")
        .header("mcp-session-id", session)
        .header("mcp-protocol-version", REVISION.as_str());
    let request = key
        .iter()
        .fold(request, |request, (name, value)| request.header(*name, *value));
    let mut stream = EventStream::open(&gateway.client, request.body(Full::default()).unwrap()).await;
    assert_eq!(stream.status, 200);
    assert!(stream.event().await.unwrap().id.is_some(), "an event to resume from");
    stream
}

async fn begun(what: &str, holds: impl Fn() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(10);
    while !holds() {
        assert!(Instant::now() < deadline, "never: {what}");
        sleep(Duration::from_millis(10)).await;
    }
}

/// A stream that nothing came on goes on.
async fn goes_on(stream: &mut EventStream) {
    let next = tokio::time::timeout(Duration::from_millis(300), stream.event()).await;
    assert!(next.is_err(), "{next:?}");
}

#[tokio::test]
async fn streams_of_legacy_clients_end_when_those_are_served_no_more() {
    let edits: [(Value, bool); 3] = [
        (json!({"protocol": {"legacy": false}}), true),
        (json!({"sessions": {"enabled": false}}), false),
        (json!({"streaming": {"delay": "1s"}}), false),
    ];
    for (number, (edit, ends_old)) in edits.into_iter().enumerate() {
        let ends_sessions = number < 2;
        let gateway = TestGateway::start(plan_with(&[], json!({}))).await;
        let session = gateway.open_session(REVISION).await;
        let mut hears = session_stream(&gateway, &session, &[]).await;
        let mut old = old_stream(&gateway, &[]).await;
        let mut listens = gateway
            .modern_events(json!("l"), "subscriptions/listen", json!({"notifications": {}}))
            .await;
        listens.next().await;
        gateway.input.send_replace(plan_with(&[], edit.clone()).into());
        for (stream, ends) in [(&mut hears, ends_sessions), (&mut old, ends_old), (&mut listens, false)] {
            if ends {
                stream.end().await;
            } else {
                goes_on(stream).await;
            }
        }
    }
}

#[tokio::test]
async fn everything_that_goes_on_of_a_principal_ends_with_its_key() {
    let server = Upstream::start(script).await;
    let with = |keys| -> PlanInput {
        let spec = json!({"streaming": {"delay": "50ms"}});
        by_key(plan_with(&[("s", server.address)], spec), keys)
    };
    let mut gateway = TestGateway::start(with(alice_and_bob())).await;
    gateway
        .until(|o| !o.servers.is_empty() && o.servers.values().all(|server| server.catalog.is_some()))
        .await;
    let mut all = Vec::new();
    for key in [ALICE, BOB] {
        let opened = http::open_session(&gateway.client, &gateway.url(), REVISION, &[key]).await;
        let session = opened.unwrap();
        let hears = session_stream(&gateway, &session, &[key]).await;
        let old = old_stream(&gateway, &[key]).await;
        let call = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "s__stall"}});
        let headers = [
            ("mcp-session-id", session.as_str()),
            ("mcp-protocol-version", REVISION.as_str()),
            key,
        ];
        let legacy = EventStream::open(&gateway.client, http::legacy(&gateway.url(), &call, headers)).await;
        let meta = json!({
            "io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {},
        });
        let params = json!({"name": "s__stall", "_meta": meta});
        let call = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params});
        let headers = [
            ("mcp-protocol-version", "2026-07-28"),
            ("mcp-method", "tools/call"),
            ("mcp-name", "s__stall"),
            key,
        ];
        let modern = EventStream::open(&gateway.client, http::legacy(&gateway.url(), &call, headers)).await;
        for stream in [&legacy, &modern] {
            assert_eq!(stream.content_type(), "text/event-stream");
        }
        all.push([hears, old, legacy, modern]);
    }
    begun("all calls", || server.seen_of("tools/call").len() == 4).await;
    gateway.input.send_replace(with(keys(&[("bob", "key-of-bob")])).into());
    let [alice, bob] = all.try_into().ok().unwrap();
    for mut stream in alice {
        while let Some(event) = stream.event().await {
            assert!(event.message().is_none(), "{event:?}");
        }
    }
    for mut stream in bob.into_iter().take(2) {
        goes_on(&mut stream).await;
    }
}

#[tokio::test]
async fn a_stream_does_not_begin_for_a_key_that_was_taken_away_while_its_request_came_in() {
    let with = |keys| by_key(plan_with(&[], json!({})), keys);
    let gateway = TestGateway::start(with(alice_and_bob())).await;
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {},
    });
    let params = json!({"notifications": {"toolsListChanged": true}, "_meta": meta});
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": "subscriptions/listen", "params": params}).to_string();
    let mut connection = TcpStream::connect(gateway.address).await.unwrap();
    let (name, value) = ALICE;
    let head = format!(
        "POST /default/fed/mcp HTTP/1.1\r\nhost: {}\r\n{name}: {value}\r\nmcp-protocol-version: 2026-07-28\r\n\
         mcp-method: subscriptions/listen\r\naccept: application/json, text/event-stream\r\n\
         content-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
        gateway.address,
        body.len()
    );
    connection.write_all(head.as_bytes()).await.unwrap();
    sleep(Duration::from_millis(200)).await;
    gateway.input.send_replace(with(keys(&[("bob", "key-of-bob")])).into());
    let deadline = Instant::now() + Duration::from_secs(10);
    let list = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"});
    let asked = async || http::exchange(&gateway.client, http::legacy(&gateway.url(), &list, [ALICE])).await;
    while asked().await.status != 401 {
        assert!(Instant::now() < deadline, "the key is taken all the time");
        sleep(Duration::from_millis(10)).await;
    }
    connection.write_all(body.as_bytes()).await.unwrap();
    let mut answer = String::new();
    let read = tokio::time::timeout(Duration::from_secs(5), connection.read_to_string(&mut answer));
    read.await.expect("it ends").unwrap();
    assert!(answer.starts_with("HTTP/1.1 200 "), "it was let in then: {answer}");
}
