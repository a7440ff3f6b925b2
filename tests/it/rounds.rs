//! Rounds of a Modern server: those that ask for nothing but another round, those that never end, and those of requests
//! other than calls.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use mcpfleet::mcp::Revision;
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::support::gateway::TestGateway;
use crate::support::legacy_client::LegacyClient;
use crate::support::upstream::{self, Answer, Seen, Upstream};

/// A tool, a prompt and a resource, by the request that names them.
const REQUESTS: [&str; 3] = ["tools/call", "prompts/get", "resources/read"];

fn params(method: &str) -> Value {
    match method {
        "resources/read" => json!({"uri": "a://b"}),
        "prompts/get" => json!({"name": "s__p"}),
        _ => json!({"name": "s__t"}),
    }
}

fn done(seen: &Seen, mut more: Value) -> Answer {
    let result = match seen.method() {
        "resources/read" => json!({"contents": [{"uri": "a://b", "text": "done"}]}),
        "prompts/get" => json!({"messages": [{"role": "user", "content": {"type": "text", "text": "done"}}]}),
        _ => json!({"content": [{"type": "text", "text": "done"}]}),
    };
    for (name, value) in result.as_object().unwrap() {
        more[name] = value.clone();
    }
    seen.result(more)
}

/// A Modern server with one of each.
fn modern(seen: &Seen) -> Answer {
    let list = |name: &str, items: Value| {
        seen.result(json!({"resultType": "complete", name: items, "ttlMs": 0, "cacheScope": "private"}))
    };
    match seen.method() {
        "server/discover" => seen.result(json!({
            "resultType": "complete", "supportedVersions": ["2026-07-28"], "ttlMs": 0, "cacheScope": "private",
            "capabilities": {"tools": {}, "prompts": {}, "resources": {}},
        })),
        "prompts/list" => list("prompts", json!([{"name": "p"}])),
        "resources/list" => list("resources", json!([{"uri": "a://b", "name": "r"}])),
        "resources/templates/list" => list("resourceTemplates", json!([])),
        _ => upstream::modern(seen, &json!([{"name": "t", "inputSchema": {"type": "object"}}])),
    }
}

#[tokio::test]
async fn a_server_that_wants_another_round_and_nothing_else_gets_it_after_a_while() {
    const ROUNDS: usize = 3;
    let calls = Arc::new(Mutex::new(Vec::new()));
    let noted = Arc::clone(&calls);
    let server = Upstream::start(move |seen| match seen.method() {
        "tools/call" => {
            let mut calls = noted.lock().unwrap();
            calls.push(Instant::now());
            match calls.len() - 1 {
                ROUNDS => done(seen, json!({"resultType": "complete"})),
                round => {
                    seen.result(json!({"resultType": "input_required", "requestState": format!("\u{1f600}{round}")}))
                }
            }
        }
        _ => modern(seen),
    })
    .await;
    let gateway = TestGateway::ready(&[("s", server.address)]).await;
    let client = LegacyClient::open(&gateway, Revision::LATEST_LEGACY, json!({})).await;
    let [answer] = &client.call_to_end("s__t").await[..] else {
        panic!("its client is asked for nothing")
    };
    assert_eq!(answer["result"], json!({"content": [{"type": "text", "text": "done"}]}));
    let calls = calls.lock().unwrap();
    for two in calls.windows(2) {
        let pause = two[1] - two[0];
        assert!(pause >= Duration::from_millis(250), "{pause:?}");
    }
    let seen = server.seen_of("tools/call");
    let states: Vec<_> = seen
        .iter()
        .map(|seen| seen.body["params"].get("requestState"))
        .collect();
    let expected = [0, 1, 2].map(|round| json!(format!("\u{1f600}{round}")));
    assert_eq!(
        states,
        [None, Some(&expected[0]), Some(&expected[1]), Some(&expected[2])]
    );
    let mut ids: Vec<_> = seen.iter().map(|seen| seen.body["id"].to_string()).collect();
    ids.sort();
    ids.dedup();
    assert_eq!(ids.len(), ROUNDS + 1, "each round is a request of its own");
    assert!(
        seen.iter()
            .all(|seen| seen.body["params"].get("inputResponses").is_none())
    );
    assert!(seen.iter().all(|seen| seen.body["params"]["name"] == "t"));
}

#[tokio::test]
async fn a_modern_client_goes_the_rounds_itself() {
    let server = Upstream::start(
        |seen| match (seen.method(), seen.body["params"]["requestState"].as_str()) {
            ("tools/call", None) => seen.result(json!({"resultType": "input_required", "requestState": "theirs"})),
            ("tools/call", Some("theirs")) => done(seen, json!({"resultType": "complete"})),
            _ => modern(seen),
        },
    )
    .await;
    let gateway = TestGateway::ready(&[("s", server.address)]).await;
    let asked = gateway.modern("tools/call", json!({"name": "s__t"})).await;
    let result = &asked["result"];
    assert_eq!(result["resultType"], "input_required", "{asked}");
    assert_eq!(result.get("inputRequests"), None);
    let state = &result["requestState"];
    assert!(state.is_string() && state != "theirs");
    let again = json!({"name": "s__t", "requestState": state});
    let answer = gateway.modern("tools/call", again).await;
    assert_eq!(answer["result"]["content"][0]["text"], "done", "{answer}");
}

#[tokio::test]
async fn a_server_that_never_ends_is_given_up_in_the_words_of_the_method() {
    let server = Upstream::start(|seen| match seen.method() {
        method if REQUESTS.contains(&method) => {
            seen.result(json!({"resultType": "input_required", "requestState": "more"}))
        }
        _ => modern(seen),
    })
    .await;
    let gateway = TestGateway::ready(&[("s", server.address)]).await;
    let client = LegacyClient::open(&gateway, Revision::LATEST_LEGACY, json!({})).await;
    let ends = REQUESTS.map(|method| client.request_to_end(method, params(method)));
    for (method, messages) in REQUESTS.into_iter().zip(futures::future::join_all(ends).await) {
        let end = messages.last().unwrap();
        match method {
            // The model is told, and may go another way.
            "tools/call" => assert_eq!(end["result"]["isError"], true, "{end}"),
            _ => assert_eq!(end["error"]["code"], -32603, "{method}: {end}"),
        }
        assert_eq!(server.seen_of(method).len(), 9, "{method}: once, and eight rounds");
    }
}

/// What a Modern server asks for, under `who`.
fn asks(seen: &Seen) -> Answer {
    let form = json!({"type": "object", "properties": {"name": {"type": "string"}}});
    seen.result(json!({
        "resultType": "input_required", "requestState": "theirs",
        "inputRequests": {"who": {"method": "elicitation/create", "params": {
            "mode": "form", "message": "Who?", "requestedSchema": form,
        }}},
    }))
}

#[tokio::test]
async fn prompts_and_resources_ask_as_tools_do() {
    let server = Upstream::start(|seen| match seen.method() {
        method if REQUESTS.contains(&method) => {
            match seen.body["params"]["inputResponses"]["who"]["content"]["name"].as_str() {
                Some("Ada") => done(seen, json!({"resultType": "complete"})),
                _ => asks(seen),
            }
        }
        _ => modern(seen),
    })
    .await;
    let gateway = TestGateway::ready(&[("s", server.address)]).await;
    let forms = json!({"elicitation": {"form": {}}});
    let accept = json!({"action": "accept", "content": {"name": "Ada"}});
    let client = LegacyClient::open(&gateway, Revision::LATEST_LEGACY, forms.clone()).await;
    for method in REQUESTS {
        let mut stream = client.request(method, params(method)).await;
        let asked = client.asked(&mut stream).await;
        client.respond(&asked, json!({"result": accept})).await;
        let end = stream.next().await;
        assert!(end["result"].to_string().contains("done"), "{method}: {end}");

        let asked = gateway.modern_declaring(forms.clone(), method, params(method)).await;
        let mut again = params(method);
        again["requestState"] = asked[0]["result"]["requestState"].clone();
        again["inputResponses"] = json!({"who": accept});
        let end = gateway.modern_declaring(forms.clone(), method, again).await;
        assert!(end[0]["result"].to_string().contains("done"), "{method}: {end:?}");
        assert_eq!(server.seen_of(method).len(), 4);
    }
}

#[tokio::test]
async fn a_state_continues_the_request_it_was_given_for_and_no_other_method_or_name() {
    let server = Upstream::start(|seen| match seen.method() {
        method if REQUESTS.contains(&method) => asks(seen),
        _ => modern(seen),
    })
    .await;
    let gateway = TestGateway::ready(&[("s", server.address), ("other", server.address)]).await;
    let forms = json!({"elicitation": {"form": {}}});
    let asked = gateway
        .modern_declaring(forms.clone(), "tools/call", params("tools/call"))
        .await;
    let state = &asked[0]["result"]["requestState"];
    let before = server.seen().len();
    for (method, mut params) in [
        ("prompts/get", params("prompts/get")),
        ("resources/read", params("resources/read")),
        ("tools/call", json!({"name": "other__t"})),
    ] {
        params["requestState"] = state.clone();
        params["inputResponses"] = json!({"who": {"action": "decline"}});
        let refused = gateway.modern_declaring(forms.clone(), method, params).await;
        assert_eq!(refused[0]["error"]["code"], -32602, "{method}: {refused:?}");
    }
    assert_eq!(server.seen().len(), before, "nobody was called");
}

#[tokio::test]
async fn prompts_and_resources_of_a_legacy_server_ask_a_modern_client() {
    let calls = AtomicUsize::new(0);
    let waiting = Mutex::new(Vec::new());
    let server = Upstream::start(move |seen| match seen.method() {
        method if REQUESTS.contains(&method) => {
            let id = format!("q-{}", calls.fetch_add(1, Ordering::SeqCst));
            let (say, answer) = Answer::live();
            let asks = json!({"message": "Who?", "requestedSchema": {"type": "object", "properties": {}}});
            say.send(json!({"jsonrpc": "2.0", "id": id, "method": "elicitation/create", "params": asks}))
                .unwrap();
            waiting.lock().unwrap().push((id, say, seen.clone()));
            answer
        }
        "" if seen.http == ::http::Method::POST => {
            let mut waiting = waiting.lock().unwrap();
            let place = waiting.iter().position(|(id, ..)| seen.body["id"] == *id).unwrap();
            let (_, say, call) = waiting.remove(place);
            let Answer::Respond { body, .. } = done(&call, json!({})) else {
                unreachable!()
            };
            say.send(serde_json::from_str(&body).unwrap()).unwrap();
            Answer::status(202)
        }
        "initialize" => seen
            .result(json!({
                "protocolVersion": "2025-11-25", "capabilities": {"tools": {}, "prompts": {}, "resources": {}},
                "serverInfo": {"name": "l", "version": "1"},
            }))
            .with_header("mcp-session-id", "s-1"),
        "prompts/list" => seen.result(json!({"prompts": [{"name": "p"}]})),
        "resources/list" => seen.result(json!({"resources": [{"uri": "a://b", "name": "r"}]})),
        "resources/templates/list" => seen.result(json!({"resourceTemplates": []})),
        _ => upstream::legacy(seen, &json!([{"name": "t", "inputSchema": {"type": "object"}}])),
    })
    .await;
    let gateway = TestGateway::ready(&[("s", server.address)]).await;
    let forms = json!({"elicitation": {}});
    for method in REQUESTS {
        let asked = gateway.modern_declaring(forms.clone(), method, params(method)).await;
        let asked = &asked.last().unwrap()["result"];
        let questions = asked["inputRequests"]
            .as_object()
            .unwrap_or_else(|| panic!("{method}: {asked}"));
        let key = questions.keys().next().unwrap();
        let mut again = params(method);
        again["requestState"] = asked["requestState"].clone();
        again["inputResponses"] = json!({key: {"action": "accept", "content": {}}});
        let end = gateway.modern_declaring(forms.clone(), method, again).await;
        assert!(end[0]["result"].to_string().contains("done"), "{method}: {end:?}");
        assert_eq!(server.seen_of(method).len(), 1, "the call waited");
    }
}
