//! One call in which the server asks for a form, then for an answer of a model, then tells of progress, then logs, and
//! then answers: over every pair of eras.

use std::collections::HashMap;
use std::sync::Mutex;
use std::time::Duration;

use mcpfleet::mcp::Revision;
use serde_json::{Value, json};
use tokio::sync::mpsc::UnboundedSender;
use tokio::time::Instant;

use crate::support::gateway::TestGateway;
use crate::support::legacy_client::LegacyClient;
use crate::support::upstream::{self, Answer, Seen, Upstream};

fn tools() -> Value {
    json!([{"name": "survey", "inputSchema": {"type": "object"}}])
}

fn both() -> Value {
    json!({"elicitation": {"form": {}}, "sampling": {}})
}

fn form() -> Value {
    let schema = json!({"type": "object", "properties": {"name": {"type": "string"}}});
    json!({"mode": "form", "message": "Who?", "requestedSchema": schema})
}

fn thought() -> Value {
    json!({"messages": [{"role": "user", "content": {"type": "text", "text": "Think"}}], "maxTokens": 9})
}

fn progress(call: &Value) -> Value {
    let token = &call["params"]["_meta"]["progressToken"];
    json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": {"progressToken": token, "progress": 1}})
}

fn log() -> Value {
    json!({"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "info", "data": "nearly"}})
}

/// The text of the result: who serves, and what it heard.
fn heard(own: &str, form: &Value, model: &Value) -> String {
    format!("{own} {} {}", form["content"]["name"], model["content"]["text"])
}

/// A Legacy server called `own`, with its own ids for what it asks.
async fn legacy_server(own: &'static str) -> Upstream {
    type Open = HashMap<String, (UnboundedSender<Value>, Value, Value)>;
    let open = Mutex::new(Open::new());
    Upstream::start(move |seen| {
        let session = seen.header("mcp-session-id").unwrap_or_default().to_owned();
        let mut open = open.lock().unwrap();
        match (seen.method(), &seen.body["id"]) {
            ("tools/call", _) => {
                let (say, answer) = Answer::live();
                say.send(json!({"jsonrpc": "2.0", "id": "form", "method": "elicitation/create", "params": form()}))
                    .unwrap();
                open.insert(session, (say, seen.body.clone(), Value::Null));
                answer
            }
            ("", Value::String(_)) => {
                let (say, _, answered) = open.get_mut(&session).unwrap();
                *answered = seen.body["result"].clone();
                say.send(json!({"jsonrpc": "2.0", "id": 7, "method": "sampling/createMessage", "params": thought()}))
                    .unwrap();
                Answer::status(202)
            }
            ("", Value::Number(_)) => {
                let (say, call, answered) = open.remove(&session).unwrap();
                let text = heard(own, &answered, &seen.body["result"]);
                let result = json!({"content": [{"type": "text", "text": text}]});
                for message in [
                    progress(&call),
                    log(),
                    json!({"jsonrpc": "2.0", "id": call["id"], "result": result}),
                ] {
                    say.send(message).unwrap();
                }
                Answer::status(202)
            }
            ("initialize", _) => {
                let sessions = open.len();
                seen.result(json!({
                    "protocolVersion": "2025-11-25", "capabilities": {"tools": {}, "logging": {}},
                    "serverInfo": {"name": own, "version": "1"},
                }))
                .with_header("mcp-session-id", &format!("{own}-{sessions}"))
            }
            ("logging/setLevel", _) => seen.result(json!({})),
            _ => upstream::legacy(seen, &tools()),
        }
    })
    .await
}

/// A Modern server called `own`, whose state is what it heard.
async fn modern_server(own: &'static str) -> Upstream {
    Upstream::start(move |seen| match seen.method() {
        "tools/call" => survey(own, seen),
        "server/discover" => seen.result(json!({
            "resultType": "complete", "supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}, "logging": {}},
            "ttlMs": 0, "cacheScope": "private",
        })),
        _ => upstream::modern(seen, &tools()),
    })
    .await
}

fn survey(own: &str, seen: &Seen) -> Answer {
    let params = &seen.body["params"];
    let asks = |method: &str, params: Value, state: Value| {
        seen.result(json!({
            "resultType": "input_required", "requestState": state.to_string(),
            "inputRequests": {"it": {"method": method, "params": params}},
        }))
    };
    let said = &params["inputResponses"]["it"];
    let Some(state) = params["requestState"].as_str() else {
        return asks("elicitation/create", form(), Value::Null);
    };
    let state: Value = serde_json::from_str(state).unwrap();
    if state.is_null() {
        return asks("sampling/createMessage", thought(), said.clone());
    }
    let text = heard(own, &state, said);
    let result = json!({"resultType": "complete", "content": [{"type": "text", "text": text}]});
    let answer = json!({"jsonrpc": "2.0", "id": seen.body["id"], "result": result});
    let messages = [progress(&seen.body), log(), answer];
    Answer::Stream(messages.map(|message| (Duration::ZERO, message)).into())
}

fn filled(name: &str) -> Value {
    json!({"action": "accept", "content": {"name": name}})
}

fn thinks(text: &str) -> Value {
    json!({"role": "assistant", "model": "m", "content": {"type": "text", "text": text}})
}

#[tokio::test]
async fn a_legacy_client_gets_each_in_order_on_the_stream_of_its_call() {
    let (old, new) = (legacy_server("old").await, modern_server("new").await);
    let gateway = TestGateway::ready(&[("old", old.address), ("new", new.address)]).await;
    let client = LegacyClient::open(&gateway, Revision::LATEST_LEGACY, both()).await;
    client
        .request_to_end("logging/setLevel", json!({"level": "info"}))
        .await;
    for own in ["old", "new"] {
        let call = json!({"name": format!("{own}__survey"), "_meta": {"progressToken": "mine"}});
        let mut stream = client.request("tools/call", call).await;
        let first = client.asked(&mut stream).await;
        assert_eq!(first["method"], "elicitation/create", "{own}");
        client.respond(&first, json!({"result": filled("Ada")})).await;
        let second = client.asked(&mut stream).await;
        assert_eq!(second["method"], "sampling/createMessage", "{own}");
        assert_ne!(first["id"], second["id"]);
        for id in [&first["id"], &second["id"]] {
            assert!(
                ![json!("form"), json!(7), json!("q")].contains(id),
                "{own}: {id} is of another hop"
            );
        }
        client.respond(&second, json!({"result": thinks("42")})).await;
        let told = [stream.next().await, stream.next().await, stream.next().await];
        assert_eq!(
            told[0]["params"],
            json!({"progressToken": "mine", "progress": 1}),
            "{own}"
        );
        assert_eq!(told[1]["params"]["data"], "nearly", "{own}");
        assert_eq!(told[2]["id"], "q");
        assert_eq!(told[2]["result"]["content"][0]["text"], format!(r#"{own} "Ada" "42""#));
        stream.end().await;
    }
    assert_eq!(old.seen_of("tools/call").len(), 1);
    assert_eq!(new.seen_of("tools/call").len(), 3);
}

#[tokio::test]
async fn a_modern_client_gets_one_round_for_each_question_and_what_is_told_with_the_last() {
    let (old, new) = (legacy_server("old").await, modern_server("new").await);
    let gateway = TestGateway::ready(&[("old", old.address), ("new", new.address)]).await;
    let meta = json!({"progressToken": 5, "io.modelcontextprotocol/logLevel": "info"});
    for own in ["old", "new"] {
        let mut call = json!({"name": format!("{own}__survey"), "_meta": meta});
        for (method, answer) in [
            ("elicitation/create", filled("Ada")),
            ("sampling/createMessage", thinks("42")),
        ] {
            let messages = gateway.modern_declaring(both(), "tools/call", call.clone()).await;
            let [asked] = &messages[..] else {
                panic!("{own}: {messages:?}")
            };
            let questions = asked["result"]["inputRequests"]
                .as_object()
                .unwrap_or_else(|| panic!("{own}: {asked}"));
            let [(key, question)] = &questions.iter().collect::<Vec<_>>()[..] else {
                panic!("{asked}")
            };
            assert_eq!(question["method"], method, "{own}");
            call["requestState"] = asked["result"]["requestState"].clone();
            call["inputResponses"] = json!({key.as_str(): answer});
        }
        let messages = gateway.modern_declaring(both(), "tools/call", call).await;
        let [progress, log, done] = &messages[..] else {
            panic!("{own}: {messages:?}")
        };
        assert_eq!(progress["params"], json!({"progressToken": 5, "progress": 1}), "{own}");
        assert_eq!(log["params"]["data"], "nearly", "{own}");
        assert_eq!(done["result"]["resultType"], "complete");
        assert_eq!(done["result"]["content"][0]["text"], format!(r#"{own} "Ada" "42""#));
    }
    assert_eq!(old.seen_of("tools/call").len(), 1, "its call waited");
    assert_eq!(new.seen_of("tools/call").len(), 3);
}

#[tokio::test]
async fn a_client_that_declared_half_of_it_is_told_at_once_what_is_missing() {
    let (old, new) = (legacy_server("old").await, modern_server("new").await);
    let gateway = TestGateway::ready(&[("old", old.address), ("new", new.address)]).await;
    let half = json!({"elicitation": {"form": {}}});
    let began = Instant::now();
    for own in ["old", "new"] {
        let client = LegacyClient::open(&gateway, Revision::LATEST_LEGACY, half.clone()).await;
        let mut stream = client.call(&format!("{own}__survey")).await;
        let asked = client.asked(&mut stream).await;
        client.respond(&asked, json!({"result": filled("Ada")})).await;
        let end = stream.next().await;
        if own == "old" {
            // It was told that nobody thinks for it, and went on.
            assert_eq!(end["result"]["content"][0]["text"], r#"old "Ada" null"#);
        } else {
            assert_eq!(end["result"]["isError"], true, "{end}");
            let text = end["result"]["content"][0]["text"].as_str().unwrap();
            assert!(text.contains("sampling/createMessage"), "{text}");
        }
    }
    assert!(began.elapsed() < Duration::from_secs(5));
}
