//! Batches, which only 2025-03-26 has: what goes on of one part is no matter of the others.

use std::time::Duration;

use mcpfleet::mcp::Revision;
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::support::event_stream::EventStream;
use crate::support::gateway::TestGateway;
use crate::support::http;
use crate::support::upstream::{self, Answer, Seen, Upstream};

const REVISION: Revision = Revision::V2025_03_26;

/// A server whose tools answer after a while, tell of progress, fail, or ask for roots before they answer.
fn script(seen: &Seen) -> Answer {
    let name = seen.body["params"]["name"].as_str();
    let text = |text: &str| json!({"content": [{"type": "text", "text": text}]});
    let answer = |result: Value| json!({"jsonrpc": "2.0", "id": seen.body["id"], "result": result});
    match (seen.method(), name) {
        ("tools/call", Some(tool @ ("late" | "later"))) => {
            let pause = Duration::from_millis(if tool == "late" { 300 } else { 600 });
            Answer::Stream(vec![(pause, answer(text(tool)))])
        }
        ("tools/call", Some("fails")) => seen.error(200, 4711, "Dock closed"),
        ("tools/call", Some("dies")) => Answer::status(500),
        ("tools/call", Some("walks")) => {
            let token = &seen.body["params"]["_meta"]["progressToken"];
            let params = json!({"progressToken": token, "progress": 1});
            let progress = json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": params});
            Answer::Stream(
                [progress, answer(text("walks"))]
                    .map(|message| (Duration::from_millis(50), message))
                    .into(),
            )
        }
        ("tools/call", Some("asks")) => {
            let asks = json!({"jsonrpc": "2.0", "id": "q", "method": "roots/list"});
            Answer::Stream(vec![
                (Duration::ZERO, asks),
                (Duration::from_millis(500), answer(text("asks"))),
            ])
        }
        ("", _) => Answer::status(202),
        _ => {
            let tools = ["late", "later", "fails", "dies", "walks", "asks"];
            let tools = tools.map(|name| json!({"name": name, "inputSchema": {"type": "object"}}));
            upstream::legacy(seen, &json!(tools))
        }
    }
}

fn call(id: Value, tool: &str) -> Value {
    let params = json!({"name": format!("s__{tool}"), "_meta": {"progressToken": id}});
    json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params})
}

fn text(answer: &Value) -> &str {
    answer["result"]["content"][0]["text"].as_str().unwrap_or_default()
}

#[tokio::test]
async fn its_calls_are_made_at_once_and_answered_in_their_order() {
    let server = Upstream::start(script).await;
    let gateway = TestGateway::ready(&[("s", server.address)]).await;
    let batch = json!([
        call(json!(1), "later"),
        call(json!(2), "late"),
        call(json!(3), "later"),
        call(json!(4), "late")
    ]);
    let begun = Instant::now();
    let reply = gateway.post_accepting(batch, &[("accept", "application/json")]).await;
    let took = begun.elapsed();
    assert!(took < Duration::from_millis(1_500), "one after the other: {took:?}");
    let answers = reply.json();
    let told: Vec<_> = answers
        .as_array()
        .unwrap()
        .iter()
        .map(|answer| (answer["id"].clone(), text(answer)))
        .collect();
    let expected = [(1, "later"), (2, "late"), (3, "later"), (4, "late")];
    assert_eq!(told, expected.map(|(id, text)| (json!(id), text)));
}

#[tokio::test]
async fn what_fails_fails_alone() {
    let server = Upstream::start(script).await;
    let gateway = TestGateway::ready(&[("s", server.address)]).await;
    let batch = json!([
        call(json!("a"), "fails"),
        call(json!("b"), "dies"),
        call(json!("c"), "late"),
        call(json!("d"), "unknown"),
    ]);
    let answers = gateway.post(batch, &[]).await.json();
    let codes: Vec<_> = answers
        .as_array()
        .unwrap()
        .iter()
        .map(|answer| answer["error"]["code"].clone())
        .collect();
    assert_eq!(
        codes,
        [json!(4711), json!(-32603), Value::Null, json!(-32602)],
        "{answers}"
    );
    assert_eq!(text(&answers[2]), "late");
}

#[tokio::test]
async fn its_calls_tell_of_their_progress_on_the_stream_that_answers_it() {
    let server = Upstream::start(script).await;
    let gateway = TestGateway::ready(&[("s", server.address)]).await;
    let session = gateway.open_session(REVISION).await;
    let batch = json!([
        call(json!(1), "walks"),
        call(json!(2), "late"),
        call(json!("1"), "walks")
    ]);
    let mut stream = gateway.post_events(&session, REVISION, &batch).await;
    assert_eq!(stream.content_type(), "text/event-stream");
    let messages = stream.rest().await;
    let (progress, answers): (Vec<_>, Vec<_>) = messages.iter().partition(|message| message.get("method").is_some());
    let mut tokens: Vec<_> = progress
        .iter()
        .map(|told| told["params"]["progressToken"].to_string())
        .collect();
    tokens.sort();
    assert_eq!(tokens, [r#""1""#, "1"], "{messages:?}");
    let ids: Vec<_> = answers.iter().map(|answer| &answer["id"]).collect();
    assert_eq!(ids, [&json!(1), &json!(2), &json!("1")]);
}

#[tokio::test]
async fn its_client_is_asked_on_the_stream_that_answers_it_and_answers_in_a_batch_too() {
    let server = Upstream::start(script).await;
    let gateway = TestGateway::ready(&[("s", server.address)]).await;
    let params = json!({
        "protocolVersion": REVISION.as_str(), "capabilities": {"roots": {}},
        "clientInfo": {"name": "test", "version": "1"},
    });
    let handshake = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params});
    let opened = gateway.post(handshake, &[]).await;
    let session = opened.header("mcp-session-id").unwrap();
    let batch = json!([call(json!(1), "asks"), call(json!(2), "late")]);
    let mut stream: EventStream = gateway.post_events(session, REVISION, &batch).await;
    let asked = stream.next().await;
    assert_eq!(asked["method"], "roots/list", "{asked}");
    let roots = json!({"roots": [{"uri": "file:///a"}]});
    let said = json!([{"jsonrpc": "2.0", "id": asked["id"], "result": roots}]);
    let headers = [("mcp-session-id", session), ("mcp-protocol-version", REVISION.as_str())];
    let reply = http::send(&gateway.client, http::legacy(&gateway.url(), &said, headers)).await;
    assert_eq!(reply.status, 202);
    let answers = stream.rest().await;
    assert_eq!(answers.iter().map(text).collect::<Vec<_>>(), ["asks", "late"]);
    let heard = server
        .seen()
        .into_iter()
        .find(|seen| seen.body["id"] == "q" && seen.method().is_empty());
    assert_eq!(heard.unwrap().body["result"], roots);
}

#[tokio::test]
async fn a_part_that_is_cancelled_has_no_answer() {
    let server = Upstream::start(script).await;
    let gateway = TestGateway::ready(&[("s", server.address)]).await;
    let session = gateway.open_session(REVISION).await;
    let batch = json!([call(json!(1), "later"), call(json!(2), "late")]);
    let headers = [("mcp-session-id", session.as_str())];
    let answering = gateway.post(batch, &headers);
    let cancelling = async {
        while server.seen_of("tools/call").len() < 2 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        let cancel = json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}});
        gateway.post(cancel, &headers).await
    };
    let (reply, _) = tokio::join!(answering, cancelling);
    let answers = reply.json();
    let ids: Vec<_> = answers
        .as_array()
        .unwrap()
        .iter()
        .map(|answer| answer["id"].clone())
        .collect();
    assert_eq!(ids, [json!(2)], "{answers}");
}
