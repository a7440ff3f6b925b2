//! Streams on which Legacy sessions hear of changes, calls that are cancelled, and batches.

use std::time::Duration;

use http::Request;
use http_body_util::Full;
use mcpfleet::mcp::Revision;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep, timeout};

use crate::support::gateway::{TestGateway, plan, plan_with};
use crate::support::http::{self as client, Reply};
use crate::support::upstream::{self, Answer, Upstream};

const LEGACY: Revision = Revision::LATEST_LEGACY;
const SOON: Duration = Duration::from_secs(5);
const WHILE: Duration = Duration::from_millis(400);

async fn server(tool: &'static str) -> Upstream {
    Upstream::start(
        move |seen| match (seen.method(), seen.body["params"]["name"].as_str()) {
            ("tools/call", Some("stall")) => Answer::Hang,
            ("tools/call", Some("slow")) => {
                let result = json!({"content": [{"type": "text", "text": "slow"}]});
                let answer = json!({"jsonrpc": "2.0", "id": seen.body["id"], "result": result});
                Answer::Stream(vec![(Duration::from_millis(300), answer)])
            }
            _ => {
                let tools =
                    [tool, "stall", "slow"].map(|name| json!({"name": name, "inputSchema": {"type": "object"}}));
                upstream::legacy(seen, &json!(tools))
            }
        },
    )
    .await
}

fn call(id: Value, tool: &str) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": {"name": format!("s__{tool}"), "arguments": {}}})
}

async fn get(gateway: &TestGateway, headers: &[(&str, &str)]) -> Reply {
    let request = headers
        .iter()
        .fold(Request::get(gateway.url()), |request, (name, value)| {
            request.header(*name, *value)
        });
    client::send(&gateway.client, request.body(Full::default()).unwrap()).await
}

async fn call_in(gateway: &TestGateway, session: &str, id: Value, tool: &str) -> Reply {
    post(gateway, session, LEGACY, &call(id, tool)).await
}

async fn post(gateway: &TestGateway, session: &str, revision: Revision, body: &Value) -> Reply {
    let headers = [
        ("accept", "application/json, text/event-stream"),
        ("mcp-session-id", session),
        ("mcp-protocol-version", revision.as_str()),
    ];
    gateway.bare_post(&body.to_string(), headers).await
}

async fn until(holds: impl Fn() -> bool) {
    let deadline = Instant::now() + SOON;
    while !holds() {
        assert!(Instant::now() < deadline, "never");
        sleep(Duration::from_millis(10)).await;
    }
}

fn tools_changed() -> Value {
    json!({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"})
}

#[tokio::test]
async fn a_session_hears_once_that_a_list_has_changed_and_then_sees_it() {
    let (first, second) = (server("a").await, server("b").await);
    let gateway = TestGateway::ready(&[("s", first.address)]).await;
    let session = gateway.open_session(LEGACY).await;
    let mut stream = gateway.get_events(&session, LEGACY, None).await;
    assert_eq!((stream.status, stream.content_type()), (200, "text/event-stream"));
    assert_eq!(stream.headers["cache-control"], "no-cache, no-transform");
    assert_eq!(stream.headers["x-accel-buffering"], "no");
    assert_eq!(stream.message_within(WHILE).await, None);

    let both = plan(&[("s", first.address), ("t", second.address)]);
    gateway.input.send_replace(both.clone().into());
    assert_eq!(stream.message().await, Some(tools_changed()));
    let listed = post(
        &gateway,
        &session,
        LEGACY,
        &json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"}),
    )
    .await;
    assert!(listed.text.contains("t__b"), "{}", listed.text);
    assert_eq!(stream.message_within(WHILE).await, None, "once");

    // What looks the same is no change.
    let mut same = both;
    same.federations[0].spec.members.reverse();
    gateway.input.send_replace(same.into());
    assert_eq!(stream.message_within(WHILE).await, None);
}

#[tokio::test]
async fn each_message_comes_on_exactly_one_stream_of_a_session() {
    let (first, second) = (server("a").await, server("b").await);
    let gateway = TestGateway::ready(&[("s", first.address)]).await;
    let session = gateway.open_session(LEGACY).await;
    let other = gateway.open_session(LEGACY).await;
    let mut old = gateway.get_events(&session, LEGACY, None).await;
    let mut new = gateway.get_events(&session, LEGACY, None).await;
    let mut others = gateway.get_events(&other, LEGACY, None).await;
    until(|| gateway.hub.sessions() == 2).await;
    gateway
        .input
        .send_replace(plan(&[("s", first.address), ("t", second.address)]).into());
    assert_eq!(new.message().await, Some(tools_changed()));
    assert_eq!(others.message().await, Some(tools_changed()));
    assert_eq!(old.message_within(WHILE).await, None);

    drop(new);
    sleep(Duration::from_millis(100)).await;
    gateway.input.send_replace(plan(&[("t", second.address)]).into());
    assert_eq!(old.message().await, Some(tools_changed()), "the older one takes over");
}

#[tokio::test]
async fn changes_that_were_missed_are_told_when_the_stream_is_taken_up() {
    let (first, second) = (server("a").await, server("b").await);
    let gateway = TestGateway::ready(&[("s", first.address)]).await;
    let session = gateway.open_session(LEGACY).await;
    let mut stream = gateway.get_events(&session, LEGACY, None).await;
    let id = stream.event().await.unwrap().id.unwrap();
    drop(stream);
    let both = plan(&[("s", first.address), ("t", second.address)]);
    let mut probe = gateway
        .get_events(&gateway.open_session(LEGACY).await, LEGACY, None)
        .await;
    gateway.input.send_replace(both.into());
    probe.message().await.unwrap();

    let mut unaware = gateway.get_events(&session, LEGACY, None).await;
    assert_eq!(
        unaware.message_within(WHILE).await,
        None,
        "it starts from what is there"
    );
    drop(unaware);
    let mut stream = gateway.get_events(&session, LEGACY, Some(&id)).await;
    assert_eq!(stream.message().await, Some(tools_changed()));
    assert_eq!(stream.message_within(WHILE).await, None);

    // What a client knows it may have been told by another process.
    let mut parts: Vec<&str> = id.split('.').collect();
    parts[4] = "feed";
    let mut stream = gateway.get_events(&session, LEGACY, Some(&parts.join("."))).await;
    let mut told =
        [stream.message().await.unwrap(), stream.message().await.unwrap()].map(|told| told["method"].clone());
    told.sort_by_key(|method| method.as_str().unwrap().to_owned());
    assert_eq!(
        told,
        ["notifications/prompts/list_changed", "notifications/tools/list_changed"]
    );
    assert_eq!(stream.message_within(WHILE).await, None);
}

#[tokio::test]
async fn the_first_revision_is_offered_no_changes_and_hears_none() {
    let (first, second) = (server("a").await, server("b").await);
    let gateway = TestGateway::ready(&[("s", first.address)]).await;
    let capabilities = async |revision: Revision| {
        let params = json!({
            "protocolVersion": revision.as_str(), "capabilities": {}, "clientInfo": {"name": "c", "version": "1"},
        });
        let answer = gateway.ask(revision, "initialize", params).await;
        answer["result"]["capabilities"].clone()
    };
    assert_eq!(
        capabilities(Revision::V2024_11_05).await,
        json!({"tools": {}, "resources": {}, "prompts": {}})
    );
    let announced = json!({
        "tools": {"listChanged": true}, "resources": {"subscribe": false, "listChanged": true},
        "prompts": {"listChanged": true},
    });
    assert_eq!(capabilities(Revision::V2025_03_26).await, announced);
    let discovered = gateway.modern("server/discover", json!({})).await;
    assert_eq!(discovered["result"]["capabilities"], announced);

    let session = gateway.open_session(Revision::V2024_11_05).await;
    let mut stream = gateway.get_events(&session, Revision::V2024_11_05, None).await;
    gateway
        .input
        .send_replace(plan(&[("s", first.address), ("t", second.address)]).into());
    assert_eq!(stream.message_within(Duration::from_secs(1)).await, None);
}

#[tokio::test]
async fn a_silent_stream_beats() {
    let gateway = TestGateway::start(plan_with(&[], json!({"notifications": {"heartbeat": "50ms"}}))).await;
    let session = gateway.open_session(LEGACY).await;
    let mut stream = gateway.get_events(&session, LEGACY, None).await;
    assert_eq!(stream.message_within(Duration::from_millis(500)).await, None);
    assert!(stream.comments >= 4, "{}", stream.comments);
}

#[tokio::test]
async fn a_stream_needs_a_session_and_a_client_that_takes_events() {
    let gateway = TestGateway::start(plan(&[])).await;
    let session = gateway.open_session(LEGACY).await;
    let (accept, own) = (("accept", "text/event-stream"), ("mcp-session-id", session.as_str()));
    let version = |name| ("mcp-protocol-version", name);
    for (headers, status) in [
        (vec![own, ("accept", "application/json")], 405),
        (vec![own, ("accept", "*/*")], 405),
        (vec![own], 405),
        (vec![own, accept, version("2026-07-28")], 405),
        (vec![own, accept, version("2023-01-01")], 400),
        (vec![accept], 400),
        (vec![accept, ("mcp-session-id", "rubbish")], 404),
        (vec![own, accept, ("last-event-id", "never-1")], 400),
    ] {
        let reply = get(&gateway, &headers).await;
        assert_eq!(reply.status, status, "{headers:?}: {}", reply.text);
        if status == 405 {
            assert_eq!(reply.header("allow"), Some("POST, GET, DELETE, OPTIONS"));
        }
    }
    let disabled = TestGateway::start(plan_with(&[], json!({"sessions": {"enabled": false}}))).await;
    let reply = get(&disabled, &[accept]).await;
    assert_eq!((reply.status, reply.header("allow")), (405, Some("POST, OPTIONS")));
}

#[tokio::test]
async fn streams_end_with_their_session_with_the_federation_and_with_the_process() {
    let server = server("a").await;
    let gateway = TestGateway::ready(&[("s", server.address)]).await;
    let session = gateway.open_session(LEGACY).await;
    let mut heard = gateway.get_events(&session, LEGACY, None).await;
    let calling = call_in(&gateway, &session, json!(1), "stall");
    let delete = async {
        until(|| !server.seen_of("tools/call").is_empty()).await;
        let request = Request::delete(gateway.url())
            .header("mcp-session-id", &session)
            .header("mcp-protocol-version", LEGACY.as_str());
        client::send(&gateway.client, request.body(Full::default()).unwrap()).await
    };
    let (called, deleted) = timeout(SOON, async { tokio::join!(calling, delete) }).await.unwrap();
    assert_eq!((called.status, called.text.as_str(), deleted.status), (202, "", 200));
    assert_eq!(heard.message().await, None);
    until(|| !server.seen_of("notifications/cancelled").is_empty()).await;
    assert_eq!(gateway.hub.sessions(), 0);

    let mut heard = gateway
        .get_events(&gateway.open_session(LEGACY).await, LEGACY, None)
        .await;
    let mut none = plan(&[("s", server.address)]);
    none.federations.clear();
    gateway.input.send_replace(none.into());
    assert_eq!(heard.message().await, None, "the federation is gone");

    let gateway = TestGateway::start(plan(&[])).await;
    let mut heard = gateway
        .get_events(&gateway.open_session(LEGACY).await, LEGACY, None)
        .await;
    let asked = Instant::now();
    gateway.stop_serving();
    assert_eq!(heard.message().await, None);
    assert!(
        asked.elapsed() < Duration::from_millis(500),
        "it does not hold up the drain"
    );
}

#[tokio::test]
async fn a_session_cancels_exactly_the_call_it_names() {
    let server = server("a").await;
    let gateway = TestGateway::ready(&[("s", server.address)]).await;
    let (mine, other) = (gateway.open_session(LEGACY).await, gateway.open_session(LEGACY).await);
    let stalls = async |session: &str, id: Value, who: &str| {
        let mut body = call(id, "stall");
        body["params"]["arguments"] = json!({"who": who});
        post(&gateway, session, LEGACY, &body).await
    };
    let calls = async {
        tokio::join!(
            stalls(&mine, json!(1), "meant"),
            timeout(SOON, stalls(&mine, json!("1"), "string")),
            timeout(SOON, stalls(&other, json!(1), "foreign")),
        )
    };
    let cancels = async {
        until(|| server.seen_of("tools/call").len() == 3).await;
        for id in [json!(2), json!(1.5), Value::Null, json!("0"), json!(1)] {
            let cancel = json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id}});
            assert_eq!(post(&gateway, &mine, LEGACY, &cancel).await.status, 202);
        }
    };
    let ((cancelled, string, foreign), ()) = tokio::join!(calls, cancels);
    assert_eq!(
        (cancelled.status, cancelled.text.as_str()),
        (202, ""),
        "nothing is sent for it"
    );
    assert!(string.is_err() && foreign.is_err(), "the others go on");
    let told = server.seen_of("notifications/cancelled");
    assert_eq!(told.len(), 1);
    let calls = server.seen_of("tools/call");
    let meant = calls
        .iter()
        .find(|seen| seen.body["params"]["arguments"]["who"] == "meant");
    assert_eq!(told[0].body["params"]["requestId"], meant.unwrap().body["id"]);
}

#[tokio::test]
async fn the_stream_of_a_cancelled_call_ends_without_an_answer() {
    let server = server("a").await;
    let spec = json!({"streaming": {"delay": "0s"}});
    let gateway = TestGateway::ready_with(&[("s", server.address)], spec).await;
    let session = gateway.open_session(LEGACY).await;
    let mut stream = gateway.post_events(&session, LEGACY, &call(json!("x"), "stall")).await;
    assert_eq!(stream.content_type(), "text/event-stream");
    until(|| !server.seen_of("tools/call").is_empty()).await;
    let cancel =
        json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": "x", "reason": "no"}});
    post(&gateway, &session, LEGACY, &cancel).await;
    assert_eq!(stream.message().await, None);
    until(|| !server.seen_of("notifications/cancelled").is_empty()).await;
}

#[tokio::test]
async fn a_modern_client_cancels_nothing_by_id() {
    let server = server("a").await;
    let gateway = TestGateway::ready(&[("s", server.address)]).await;
    let calling = gateway.modern("tools/call", json!({"name": "s__slow"}));
    let cancelling = async {
        until(|| !server.seen_of("tools/call").is_empty()).await;
        let cancel = json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}});
        let headers = [
            ("mcp-protocol-version", "2026-07-28"),
            ("mcp-method", "notifications/cancelled"),
        ];
        gateway.post(cancel, &headers).await
    };
    let (answer, told) = tokio::join!(calling, cancelling);
    assert_eq!(told.status, 202);
    assert_eq!(answer["result"]["content"][0]["text"], "slow");
}

#[tokio::test]
async fn streams_begin_at_once_where_there_is_no_delay_and_lists_never_do() {
    let server = server("a").await;
    let spec = json!({"streaming": {"delay": "0s", "keepAlive": "50ms"}});
    let gateway = TestGateway::ready_with(&[("s", server.address)], spec).await;
    let mut slow = gateway
        .modern_events(json!(1), "tools/call", json!({"name": "s__slow"}))
        .await;
    assert_eq!(slow.content_type(), "text/event-stream");
    assert_eq!(slow.rest().await.len(), 1);
    assert!(slow.comments >= 2, "{}", slow.comments);
    let list = gateway.modern_events(json!(1), "tools/list", json!({})).await;
    assert_eq!(list.content_type(), "application/json; charset=utf-8");
}

#[tokio::test]
async fn a_batch_is_answered_part_by_part() {
    let server = server("a").await;
    let gateway = TestGateway::ready(&[("s", server.address)]).await;
    let revision = Revision::V2025_03_26;
    let session = gateway.open_session(revision).await;
    let notification = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
    let response = json!({"jsonrpc": "2.0", "id": 77, "result": {}});
    let handshake = json!({"jsonrpc": "2.0", "id": 4, "method": "initialize", "params": {}});
    let batch = json!([
        call(json!(1), "slow"),
        notification,
        call(json!("1"), "a"),
        response,
        {"jsonrpc": "2.0", "id": 2, "method": "no/such"},
        handshake,
        17,
    ]);
    let reply = post(&gateway, &session, revision, &batch).await;
    assert_eq!(reply.status, 200);
    let answers = reply.json();
    let answer = |id: Value| {
        answers
            .as_array()
            .unwrap()
            .iter()
            .find(|a| a["id"] == id)
            .unwrap()
            .clone()
    };
    assert_eq!(answers.as_array().unwrap().len(), 5);
    assert_eq!(answer(json!(1))["result"]["content"][0]["text"], "slow");
    assert_eq!(answer(json!("1"))["result"]["content"][0]["text"], "a");
    assert_eq!(answer(json!(2))["error"]["code"], -32601);
    assert_eq!(answer(json!(4))["error"]["code"], -32600);
    assert_eq!(answer(Value::Null)["error"]["code"], -32600);

    let told = post(&gateway, &session, revision, &json!([notification, response])).await;
    assert_eq!((told.status, told.text.as_str()), (202, ""));
    for wrong in [json!([]), Value::Array(vec![notification.clone(); 65])] {
        let reply = post(&gateway, &session, revision, &wrong).await;
        assert_eq!((reply.status, &reply.json()["error"]["code"]), (400, &json!(-32600)));
    }
}

#[tokio::test]
async fn a_slow_batch_streams_one_answer_after_the_other() {
    let server = server("a").await;
    let spec = json!({"streaming": {"delay": "0s"}});
    let gateway = TestGateway::ready_with(&[("s", server.address)], spec).await;
    let session = gateway.open_session(Revision::V2025_03_26).await;
    let batch = json!([call(json!(1), "slow"), call(json!(2), "a")]);
    let mut stream = gateway.post_events(&session, Revision::V2025_03_26, &batch).await;
    assert_eq!(stream.content_type(), "text/event-stream");
    let ids: Vec<Value> = stream.rest().await.iter().map(|answer| answer["id"].clone()).collect();
    assert_eq!(ids, [json!(1), json!(2)]);
}

#[tokio::test]
async fn other_revisions_know_no_batches() {
    let gateway = TestGateway::start(plan(&[])).await;
    let batch = json!([{"jsonrpc": "2.0", "id": 1, "method": "ping"}]);
    for revision in [Revision::V2024_11_05, Revision::V2025_06_18, Revision::V2025_11_25] {
        let session = gateway.open_session(revision).await;
        let reply = post(&gateway, &session, revision, &batch).await;
        assert_eq!(
            (reply.status, &reply.json()["error"]["code"]),
            (400, &json!(-32600)),
            "{revision}"
        );
        // The header of another revision does not help.
        let reply = post(&gateway, &session, Revision::V2025_03_26, &batch).await;
        assert_eq!(reply.status, 400, "{revision}");
    }
    let modern = [("mcp-protocol-version", "2026-07-28"), ("mcp-method", "ping")];
    assert_eq!(gateway.post(batch, &modern).await.status, 400);
}

#[tokio::test]
async fn a_thousand_sessions_leave_nothing() {
    let server = server("a").await;
    let gateway = TestGateway::ready(&[("s", server.address)]).await;
    for number in 0..1_000 {
        let session = gateway.open_session(LEGACY).await;
        if number % 10 == 0 {
            let mut stream = gateway.get_events(&session, LEGACY, None).await;
            stream.event().await.unwrap();
        }
        if number % 5 == 0 {
            let reply = call_in(&gateway, &session, json!(1), "a").await;
            assert_eq!(reply.status, 200);
        }
        if number % 2 == 0 {
            let request = Request::delete(gateway.url()).header("mcp-session-id", &session);
            let deleted = client::send(&gateway.client, request.body(Full::default()).unwrap()).await;
            assert_eq!(deleted.status, 200);
        }
    }
    until(|| gateway.hub.sessions() == 0).await;
}
