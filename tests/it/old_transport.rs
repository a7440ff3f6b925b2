//! Servers that are reached by HTTP with server-sent events, the transport of 2024-11-05.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use ::http::Method;
use mcpfleet::fleet::{PlanInput, UpstreamState};
use mcpfleet::upstream::HttpTransport;
use serde_json::{Value, json};
use tokio::sync::mpsc::UnboundedSender;
use tokio::time::{Instant, sleep};

use crate::support::gateway::{TestGateway, plan};
use crate::support::peers::Peers;
use crate::support::remote::Remote;
use crate::support::upstream::{Answer, Seen, Upstream};

/// The streams that are open, by the session in the address that they name.
#[derive(Clone, Default)]
struct Streams(Arc<Mutex<HashMap<String, UnboundedSender<Value>>>>);

impl Streams {
    fn open(&self, endpoint: &str) -> Answer {
        let (sender, answer) = Answer::live();
        let mut streams = self.0.lock().unwrap();
        let session = (streams.len() + 1).to_string();
        let named = endpoint.replace("SESSION", &session);
        sender
            .send(json!(format!(": hi\n\nevent: endpoint\ndata: {named}\n\n")))
            .unwrap();
        streams.insert(session, sender);
        answer
    }

    /// Says on the stream of this POST what a Legacy server answers.
    fn answer(&self, seen: &Seen, session: &str) -> Answer {
        let answer = match seen.method() {
            "tools/call" if seen.body["params"]["name"] == "hang" => return Answer::status(202),
            "initialize" => seen.result(json!({
                "protocolVersion": "2024-11-05", "capabilities": {"tools": {}},
                "serverInfo": {"name": "old", "version": "1"},
            })),
            "tools/list" => seen.result(json!({"tools": [
                {"name": "echo", "inputSchema": {"type": "object"}}, {"name": "hang", "inputSchema": {"type": "object"}},
            ]})),
            "tools/call" => {
                let token = &seen.body["params"]["_meta"]["progressToken"];
                if !token.is_null() {
                    let params = json!({"progressToken": token, "progress": 1});
                    self.say(session, json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": params}));
                }
                seen.result(json!({"content": [{"type": "text", "text": seen.body["params"]["name"]}]}))
            }
            _ => return Answer::status(202),
        };
        let Answer::Respond { body, .. } = answer else {
            unreachable!("a result is a response")
        };
        self.say(session, serde_json::from_str(&body).unwrap());
        Answer::text(202, "text/plain", "Accepted")
    }

    fn say(&self, session: &str, message: Value) {
        drop(self.0.lock().unwrap()[session].send(message));
    }

    fn close_all(&self) {
        let mut streams = self.0.lock().unwrap();
        // The numbers of sessions go on.
        for sender in streams.values_mut() {
            *sender = tokio::sync::mpsc::unbounded_channel().0;
        }
    }
}

/// A server that knows nothing newer; `endpoint` is where it wants messages, `SESSION` standing for the session.
async fn old(endpoint: &'static str) -> (Upstream, Streams) {
    let streams = Streams::default();
    let own = streams.clone();
    let server = Upstream::start(move |seen| {
        let session = seen.query("session");
        match (&seen.http, seen.path.as_str(), session) {
            (&Method::GET, "/mcp", _) => own.open(endpoint),
            (&Method::POST, "/messages", Some(session)) => own.answer(seen, &session),
            (&Method::POST, "/mcp", _) => Answer::text(405, "text/html", "<html>Method Not Allowed"),
            _ => Answer::status(404),
        }
    })
    .await;
    (server, streams)
}

fn by(transport: HttpTransport, server: &Upstream) -> PlanInput {
    let mut input = plan(&[("s", server.address)]);
    input.servers[0].terms.transport = transport;
    input
}

async fn ready(input: PlanInput) -> TestGateway {
    let mut gateway = TestGateway::start(input).await;
    gateway
        .until(|o| o.servers.values().all(|s| s.state == UpstreamState::Ready))
        .await;
    gateway
}

#[tokio::test]
async fn a_server_without_anything_newer_is_found_to_be_one_and_called() {
    let (server, _streams) = old("/messages?session=SESSION").await;
    let mut gateway = ready(by(HttpTransport::Auto, &server)).await;
    let observed = gateway.until(|_| true).await;
    let observed = observed.servers.values().next().unwrap();
    assert_eq!(observed.transport, Some("SSE"));
    assert_eq!(observed.server_info.as_ref().unwrap().protocol_version, "2024-11-05");
    for answer in [
        gateway.legacy("tools/call", json!({"name": "s__echo"})).await,
        gateway.modern("tools/call", json!({"name": "s__echo"})).await,
    ] {
        assert_eq!(answer["result"]["content"][0]["text"], "echo", "{answer}");
    }
    let asked: Vec<_> = server
        .seen()
        .iter()
        .map(|seen| format!("{} {} {}", seen.http, seen.path, seen.method()))
        .collect();
    assert_eq!(
        asked[..5],
        [
            "POST /mcp server/discover",
            "POST /mcp initialize",
            "GET /mcp ",
            "POST /messages initialize",
            "POST /messages notifications/initialized"
        ]
    );
}

#[tokio::test]
async fn a_server_that_is_said_to_be_one_is_asked_for_its_stream_at_once() {
    let (server, _streams) = old("messages?session=SESSION").await;
    let gateway = ready(by(HttpTransport::OldSse, &server)).await;
    let answer = gateway.legacy("tools/call", json!({"name": "s__echo"})).await;
    assert_eq!(answer["result"]["content"][0]["text"], "echo");
    assert_eq!(server.seen()[0].http, Method::GET);
    assert_eq!(server.seen()[0].header("accept"), Some("text/event-stream"));
    assert_eq!(server.seen_of("server/discover").len(), 0);
}

#[tokio::test]
async fn a_server_that_is_said_to_be_newer_is_not_asked_for_the_old_stream() {
    let (server, _streams) = old("/messages?session=SESSION").await;
    let mut gateway = TestGateway::start(by(HttpTransport::StreamableHttp, &server)).await;
    gateway
        .until(|o| {
            o.servers
                .values()
                .all(|s| matches!(s.state, UpstreamState::Failed { .. }))
        })
        .await;
    assert!(server.seen().iter().all(|seen| seen.http == Method::POST));
}

#[tokio::test]
async fn an_address_of_another_origin_gets_nothing() {
    let elsewhere = Upstream::start(|_| Answer::status(202)).await;
    let address = format!("http://{}/messages?session=SESSION", elsewhere.address);
    let (server, _streams) = old(address.leak()).await;
    let mut gateway = TestGateway::start(by(HttpTransport::OldSse, &server)).await;
    let observed = gateway
        .until(|o| {
            o.servers
                .values()
                .all(|s| matches!(s.state, UpstreamState::Failed { .. }))
        })
        .await;
    let UpstreamState::Failed { reason, message } = &observed.servers.values().next().unwrap().state else {
        unreachable!("it was waited for")
    };
    assert_eq!(*reason, "ProtocolError");
    assert!(message.contains("origin"), "{message}");
    assert!(elsewhere.seen().is_empty());
}

#[tokio::test]
async fn a_stream_that_ends_fails_its_calls_and_is_opened_again() {
    let (server, streams) = old("/messages?session=SESSION").await;
    let gateway = ready(by(HttpTransport::OldSse, &server)).await;
    let hangs = gateway.legacy("tools/call", json!({"name": "s__hang"}));
    let ends = async {
        while server.seen_of("tools/call").is_empty() {
            sleep(Duration::from_millis(10)).await;
        }
        streams.close_all();
    };
    let (answer, ()) = tokio::join!(hangs, ends);
    assert_eq!(answer["error"]["code"], -32603, "{answer}");
    let deadline = Instant::now() + Duration::from_secs(10);
    loop {
        let answer = gateway.modern("tools/call", json!({"name": "s__echo"})).await;
        if answer["result"]["content"][0]["text"] == "echo" {
            break;
        }
        assert!(Instant::now() < deadline, "it never came back: {answer}");
        sleep(Duration::from_millis(100)).await;
    }
}

#[tokio::test]
async fn an_answer_that_is_too_large_fails_its_call_and_no_other() {
    let (server, streams) = old("/messages?session=SESSION").await;
    let gateway = ready(by(HttpTransport::OldSse, &server)).await;
    let large = gateway.legacy("tools/call", json!({"name": "s__hang"}));
    let other = async {
        while server.seen_of("tools/call").is_empty() {
            sleep(Duration::from_millis(10)).await;
        }
        let call = server.seen_of("tools/call").remove(0);
        let answer = json!({"jsonrpc": "2.0", "id": call.body["id"], "result": {"text": "x".repeat(17 << 20)}});
        streams.say(&call.query("session").unwrap(), answer);
        gateway.modern("tools/call", json!({"name": "s__echo"})).await
    };
    let (large, other) = tokio::join!(large, other);
    let told = large["error"]["message"].as_str().unwrap();
    assert!(told.contains("larger than 16777216 bytes"), "{large}");
    assert_eq!(other["result"]["content"][0]["text"], "echo", "{other}");
    let opened = || {
        server
            .seen()
            .into_iter()
            .filter(|seen| seen.http == Method::GET)
            .count()
    };
    let before = opened();
    let again = gateway.legacy("tools/call", json!({"name": "s__echo"})).await;
    assert_eq!(again["result"]["content"][0]["text"], "echo", "{again}");
    assert_eq!(opened(), before, "the stream goes on");
}

#[tokio::test]
async fn a_call_that_is_given_up_is_cancelled_and_a_ping_is_answered() {
    let (server, streams) = old("/messages?session=SESSION").await;
    let gateway = ready(by(HttpTransport::OldSse, &server)).await;
    streams.say("1", json!({"jsonrpc": "2.0", "id": "p", "method": "ping"}));
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "s__hang"}});
    let call = gateway.modern("tools/call", body["params"].clone());
    assert!(tokio::time::timeout(Duration::from_millis(500), call).await.is_err());
    let deadline = Instant::now() + Duration::from_secs(10);
    let said = |seen: &Seen| seen.body == json!({"jsonrpc": "2.0", "id": "p", "result": {}});
    while server.seen_of("notifications/cancelled").is_empty() || !server.seen().iter().any(said) {
        assert!(Instant::now() < deadline, "{:?}", server.seen());
        sleep(Duration::from_millis(20)).await;
    }
    let called = server.seen_of("tools/call").remove(0);
    let cancelled = server.seen_of("notifications/cancelled").remove(0);
    assert_eq!(cancelled.body["params"]["requestId"], called.body["id"]);
}

#[tokio::test]
async fn servers_of_other_people_are_reached_by_it() {
    let Some(peers) = Peers::installed() else { return };
    for remote in [Remote::EverythingSse, Remote::PythonV1Sse] {
        let running = remote.start(&peers).await;
        let mut input = plan(&[("s", "127.0.0.1:1".parse().unwrap())]);
        let url = running.url.parse().unwrap();
        if let Ok(mcpfleet::upstream::Endpoint::Http(http)) = &mut input.servers[0].endpoint {
            http.url = url;
        }
        input.servers[0].terms.timeouts.connect = Duration::from_secs(10);
        let gateway = ready(input).await;
        for answer in [
            gateway
                .legacy(
                    "tools/call",
                    json!({"name": "s__echo", "arguments": {"message": "hello"}}),
                )
                .await,
            gateway
                .modern(
                    "tools/call",
                    json!({"name": "s__echo", "arguments": {"message": "hello"}}),
                )
                .await,
        ] {
            let text = answer["result"]["content"][0]["text"].as_str().unwrap_or_default();
            assert!(text.contains("hello"), "{remote:?}: {answer}");
        }
        gateway.stop().await;
    }
}
