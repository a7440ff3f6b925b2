//! Legacy clients that go away in the middle of a call: the work goes on for a while, and its stream can be taken up
//! again. Modern clients that go away cancel.

use std::time::Duration;

use mcpfleet::mcp::Revision;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use crate::support::event_stream::EventStream;
use crate::support::gateway::TestGateway;
use crate::support::upstream::{self, Answer, Seen, Upstream};

const LEGACY: Revision = Revision::LATEST_LEGACY;

/// Bytes of a large answer.
const LARGE: usize = 8 << 20;

/// A server whose tool tells of its progress three times and then answers, each after `pause`.
async fn server(pause: Duration) -> Upstream {
    Upstream::start(move |seen| script(seen, pause)).await
}

fn script(seen: &Seen, pause: Duration) -> Answer {
    if seen.method() != "tools/call" {
        return upstream::legacy(
            seen,
            &json!(["walk", "stall", "tell"].map(|name| json!({"name": name, "inputSchema": {"type": "object"}}))),
        );
    }
    if seen.body["params"]["name"] == "stall" {
        return Answer::Hang;
    }
    if seen.body["params"]["name"] == "tell" {
        let text = "x".repeat(LARGE);
        let answer =
            json!({"jsonrpc": "2.0", "id": seen.body["id"], "result": {"content": [{"type": "text", "text": text}]}});
        return Answer::Stream(vec![(pause, answer)]);
    }
    let token = &seen.body["params"]["_meta"]["progressToken"];
    let step = |n: u64| json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": {"progressToken": token, "progress": n}});
    let result = json!({"content": [{"type": "text", "text": "there"}]});
    let answer = json!({"jsonrpc": "2.0", "id": seen.body["id"], "result": result});
    let messages = [step(1), step(2), step(3), answer];
    Answer::Stream(messages.into_iter().map(|message| (pause, message)).collect())
}

/// A gateway whose streams are kept for `resume`.
async fn gateway(server: &Upstream, resume: &str) -> TestGateway {
    let spec = json!({"streaming": {"resume": resume}});
    TestGateway::ready_with(&[("s", server.address)], spec).await
}

fn call(id: Value, name: &str) -> Value {
    let params = json!({"name": format!("s__{name}"), "arguments": {}, "_meta": {"progressToken": "p"}});
    json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params})
}

/// What a message says: the step that was reached, or the text of the answer.
fn said(message: &Value) -> Value {
    match message.get("method") {
        Some(_) => message["params"]["progress"].clone(),
        None => message["result"]["content"][0]["text"].clone(),
    }
}

async fn all(stream: &mut EventStream) -> Vec<Value> {
    stream.rest().await.iter().map(said).collect()
}

async fn cancelled(server: &Upstream, within: Duration) -> bool {
    let deadline = Instant::now() + within;
    while Instant::now() < deadline {
        if !server.seen_of("notifications/cancelled").is_empty() {
            return true;
        }
        sleep(Duration::from_millis(20)).await;
    }
    false
}

#[tokio::test]
async fn a_stream_is_taken_up_where_it_broke() {
    let server = server(Duration::from_millis(150)).await;
    let gateway = gateway(&server, "10s").await;
    let session = gateway.open_session(LEGACY).await;
    let asked = call(json!("x"), "walk");

    let mut first = gateway.post_events(&session, LEGACY, &asked).await;
    assert_eq!(first.content_type(), "text/event-stream");
    let priming = first.event().await.unwrap();
    assert!(priming.data.is_empty() && priming.id.is_some(), "{priming:?}");
    assert_eq!(said(&first.message().await.unwrap()), 1);
    let after_one = first.last_id.clone().unwrap();
    drop(first);

    let resumed = gateway.get_events(&session, LEGACY, Some(&after_one)).await;
    assert_eq!(resumed.status, 200);
    let mut resumed = resumed.answering(&asked);
    assert_eq!(all(&mut resumed).await, [json!(2), json!(3), json!("there")]);
    assert_ne!(resumed.last_id.as_ref(), Some(&after_one));
    assert!(!cancelled(&server, Duration::from_millis(100)).await);
    assert_eq!(server.seen_of("tools/call").len(), 1, "the call was made once");

    // Everything is kept a while longer, from the beginning on.
    let beginning = priming.id.unwrap();
    let mut again = gateway
        .get_events(&session, LEGACY, Some(&beginning))
        .await
        .answering(&asked);
    assert_eq!(all(&mut again).await, [json!(1), json!(2), json!(3), json!("there")]);
}

#[tokio::test]
async fn a_stream_is_taken_up_before_anybody_noticed_that_it_broke() {
    let server = server(Duration::from_millis(200)).await;
    let gateway = gateway(&server, "10s").await;
    let session = gateway.open_session(LEGACY).await;
    let asked = call(json!(1), "walk");
    let mut first = gateway.post_events(&session, LEGACY, &asked).await;
    first.message().await.unwrap();
    let id = first.last_id.clone().unwrap();
    let mut second = gateway.get_events(&session, LEGACY, Some(&id)).await.answering(&asked);
    assert_eq!(all(&mut second).await, [json!(2), json!(3), json!("there")]);
    assert!(all(&mut first).await.is_empty(), "the old one ends without a word");
}

#[tokio::test]
async fn an_answer_that_came_meanwhile_is_kept_and_forgotten_in_time() {
    let server = server(Duration::from_millis(20)).await;
    let gateway = gateway(&server, "1s").await;
    let session = gateway.open_session(LEGACY).await;
    let asked = call(json!(1), "walk");
    let mut first = gateway.post_events(&session, LEGACY, &asked).await;
    first.message().await.unwrap();
    let id = first.last_id.clone().unwrap();
    drop(first);
    sleep(Duration::from_millis(300)).await;
    let mut second = gateway.get_events(&session, LEGACY, Some(&id)).await.answering(&asked);
    assert_eq!(all(&mut second).await, [json!(2), json!(3), json!("there")]);
    sleep(Duration::from_millis(1_200)).await;
    let late = gateway.get_events(&session, LEGACY, Some(&id)).await;
    assert_eq!(late.status, 400);
    assert_eq!(gateway.hub.sessions(), 0, "nothing is left of it");
}

#[tokio::test]
async fn large_answers_are_all_sent_and_kept_only_as_far_as_there_is_room() {
    let server = server(Duration::ZERO).await;
    let spec = json!({"streaming": {"resume": "60s", "delay": "0s"}});
    let gateway = TestGateway::ready_with(&[("s", server.address)], spec).await;
    let session = gateway.open_session(LEGACY).await;
    let mut ids = Vec::new();
    for id in 0..10 {
        let asked = call(json!(id), "tell");
        let mut stream = gateway.post_events(&session, LEGACY, &asked).await;
        let told = stream.message().await.unwrap();
        assert_eq!(said(&told).as_str().unwrap().len(), LARGE);
        ids.push(format!(
            "{}-0",
            stream.last_id.clone().unwrap().rsplit_once('-').unwrap().0
        ));
        stream.end().await;
    }
    let mut kept = Vec::new();
    for id in &ids {
        kept.push(gateway.get_events(&session, LEGACY, Some(id)).await.status == 200);
    }
    // Each is a little more than its text.
    assert_eq!(kept, [[true; 7].as_slice(), &[false; 3]].concat());
}

#[tokio::test]
async fn only_the_session_that_opened_a_stream_takes_it_up() {
    let server = server(Duration::from_millis(100)).await;
    let gateway = gateway(&server, "10s").await;
    let (mine, other) = (gateway.open_session(LEGACY).await, gateway.open_session(LEGACY).await);
    let mut stream = gateway.post_events(&mine, LEGACY, &call(json!(1), "walk")).await;
    stream.message().await.unwrap();
    let id = stream.last_id.clone().unwrap();
    let (name, _) = id.rsplit_once('-').unwrap();
    for wrong in [id.as_str(), "1", "x-1", &format!("{name}-99")] {
        let foreign = gateway.get_events(&other, LEGACY, Some(wrong)).await;
        assert_eq!(foreign.status, 400, "{wrong}");
    }
    let beyond = gateway.get_events(&mine, LEGACY, Some(&format!("{name}-99"))).await;
    assert_eq!(beyond.status, 400, "never said");
    let unknown = gateway.get_events("nobody", LEGACY, Some(&id)).await;
    assert_eq!(unknown.status, 404);
    assert!(!stream.rest().await.is_empty(), "the stream went on all the time");
}

#[tokio::test]
async fn the_work_goes_on_without_the_client_and_is_given_up_in_time() {
    for streams in [false, true] {
        let server = server(Duration::from_millis(100)).await;
        let spec = json!({"streaming": {"resume": "1s", "delay": if streams { "0s" } else { "5s" }}});
        let gateway = TestGateway::ready_with(&[("s", server.address)], spec).await;
        let session = gateway.open_session(LEGACY).await;
        let asked = call(json!(1), "stall");
        let posted = gateway.post_events(&session, LEGACY, &asked);
        let stream = tokio::time::timeout(Duration::from_millis(500), posted).await;
        assert_eq!(stream.is_ok(), streams);
        while server.seen_of("tools/call").is_empty() {
            sleep(Duration::from_millis(10)).await;
        }
        drop(stream);
        assert!(
            !cancelled(&server, Duration::from_millis(400)).await,
            "too early ({streams})"
        );
        assert!(cancelled(&server, Duration::from_secs(3)).await, "never ({streams})");
        sleep(Duration::from_millis(100)).await;
        assert_eq!(gateway.hub.sessions(), 0);
    }
}

#[tokio::test]
async fn who_was_gone_before_anything_was_said_gets_its_work_done() {
    let server = server(Duration::from_millis(150)).await;
    let gateway = gateway(&server, "10s").await;
    let session = gateway.open_session(LEGACY).await;
    let mut silent = call(json!(1), "walk");
    silent["params"]["_meta"] = json!({});
    let posted = gateway.post_events(&session, LEGACY, &silent);
    assert!(tokio::time::timeout(Duration::from_millis(100), posted).await.is_err());
    sleep(Duration::from_millis(900)).await;
    assert!(server.seen_of("notifications/cancelled").is_empty());
    assert!(
        gateway
            .metrics_page()
            .contains(r#"mcpfleet_requests_total{federation="default/fed",method="tools/call",outcome="ok"} 1"#),
        "it was finished"
    );
    assert_eq!(gateway.hub.sessions(), 0);
}

#[tokio::test]
async fn older_clients_get_ids_and_no_empty_event() {
    let server = server(Duration::from_millis(20)).await;
    let gateway = gateway(&server, "10s").await;
    for revision in [Revision::V2025_03_26, Revision::V2025_06_18] {
        let session = gateway.open_session(revision).await;
        let mut stream = gateway.post_events(&session, revision, &call(json!(1), "walk")).await;
        let first = stream.event().await.unwrap();
        assert!(!first.data.is_empty() && first.id.is_some(), "{first:?}");
    }
}

#[tokio::test]
async fn ids_of_events_are_unique_in_a_session() {
    let server = server(Duration::from_millis(10)).await;
    let gateway = gateway(&server, "10s").await;
    let session = gateway.open_session(LEGACY).await;
    let mut ids = std::collections::BTreeSet::new();
    for number in 0..3 {
        let mut stream = gateway
            .post_events(&session, LEGACY, &call(json!(number), "walk"))
            .await;
        while let Some(event) = stream.event().await {
            assert!(ids.insert(event.id.clone().unwrap()), "{event:?}");
        }
    }
    for _ in 0..2 {
        let mut stream = gateway.get_events(&session, LEGACY, None).await;
        let priming = stream.event().await.unwrap();
        assert!(ids.insert(priming.id.clone().unwrap()), "{priming:?}");
    }
}

#[tokio::test]
async fn modern_streams_have_no_ids_and_their_clients_cancel_by_going_away() {
    let server = server(Duration::from_millis(100)).await;
    let gateway = gateway(&server, "10s").await;
    let params = |name: &str| json!({"name": format!("s__{name}"), "arguments": {}, "_meta": {"progressToken": 1}});
    let mut stream = gateway.modern_events(json!(1), "tools/call", params("walk")).await;
    while let Some(event) = stream.event().await {
        assert_eq!(event.id, None);
    }
    let mut stream = gateway.modern_events(json!(2), "tools/call", params("walk")).await;
    stream.message().await.unwrap();
    drop(stream);
    assert!(cancelled(&server, Duration::from_secs(1)).await);
}
