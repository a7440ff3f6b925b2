//! Pages that servers want a person to open: put to the client once, and waited for with patience.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use mcpfleet::mcp::Revision;
use serde_json::{Value, json};
use tokio::time::{Instant, timeout};

use crate::support::gateway::TestGateway;
use crate::support::legacy_client::LegacyClient;
use crate::support::upstream::{self, Answer, Seen, Upstream};

const URL: &str = "https://a.example/in";
const LATEST: Revision = Revision::LATEST_LEGACY;

fn tools() -> Value {
    json!([{"name": "sign_in", "inputSchema": {"type": "object"}}])
}

fn page(url: &str) -> Value {
    json!({"mode": "url", "message": "Sign in", "url": url})
}

fn pages() -> Value {
    json!({"elicitation": {"url": {}}})
}

/// When a server was called.
#[derive(Clone, Default)]
struct Calls(Arc<Mutex<Vec<Instant>>>);

impl Calls {
    /// Notes a call, and gives the number of those before.
    fn note(&self) -> usize {
        let mut calls = self.0.lock().unwrap();
        calls.push(Instant::now());
        calls.len() - 1
    }

    /// The whole seconds between one call and the next, from the call of this number on.
    fn pauses(&self, first: usize) -> Vec<u64> {
        let calls = self.0.lock().unwrap();
        calls[first..]
            .windows(2)
            .map(|two| (two[1] - two[0]).as_secs())
            .collect()
    }
}

/// A Modern server that asks in each call for the page that `wanted` names, by the number of the call, until there is
/// none.
async fn modern_server(wanted: impl Fn(usize) -> Option<&'static str> + Send + Sync + 'static) -> (Upstream, Calls) {
    let calls = Calls::default();
    let noted = calls.clone();
    let server = Upstream::start(move |seen| match seen.method() {
        "tools/call" => {
            let number = noted.note();
            seen.result(match wanted(number) {
                Some(url) => json!({
                    "resultType": "input_required", "requestState": number.to_string(),
                    "inputRequests": {"in": {"method": "elicitation/create", "params": page(url)}},
                }),
                None => json!({"resultType": "complete", "content": [{"type": "text", "text": "welcome"}]}),
            })
        }
        _ => upstream::modern(seen, &tools()),
    })
    .await;
    (server, calls)
}

/// What a server heard with each call but the first: the answer, and the state.
fn heard(server: &Upstream) -> Vec<(Value, Value)> {
    let calls = server.seen_of("tools/call").into_iter().skip(1);
    calls
        .map(|seen| {
            let params = &seen.body["params"];
            (params["inputResponses"]["in"].clone(), params["requestState"].clone())
        })
        .collect()
}

#[tokio::test]
async fn a_person_who_opened_a_page_is_not_asked_again_while_the_server_waits_for_it() {
    let (server, calls) = modern_server(|call| (call < 3).then_some(URL)).await;
    let gateway = TestGateway::ready(&[("s", server.address)]).await;
    let client = LegacyClient::open(&gateway, LATEST, pages()).await;
    let mut stream = client.call("s__sign_in").await;
    let asked = client.asked(&mut stream).await;
    assert_eq!(
        (&asked["params"]["mode"], &asked["params"]["url"]),
        (&json!("url"), &json!(URL))
    );
    // The revision demands an id, and the server has none.
    assert!(
        asked["params"]["elicitationId"]
            .as_str()
            .is_some_and(|id| !id.is_empty())
    );
    client.respond(&asked, json!({"result": {"action": "accept"}})).await;
    let done = stream.next().await;
    assert_eq!(done["result"]["content"][0]["text"], "welcome", "{done}");
    let accepted = |state: &str| (json!({"action": "accept"}), json!(state));
    assert_eq!(heard(&server), [accepted("0"), accepted("1"), accepted("2")]);
    assert_eq!(calls.pauses(1), [1, 2], "longer and longer");
}

#[tokio::test]
async fn each_page_is_put_to_the_person_and_a_refusal_is_told() {
    let (server, _) = modern_server(|call| [URL, "https://b.example/"].get(call).copied()).await;
    let gateway = TestGateway::ready(&[("s", server.address)]).await;
    let client = LegacyClient::open(&gateway, LATEST, pages()).await;
    let mut stream = client.call("s__sign_in").await;
    for (url, action) in [(URL, "accept"), ("https://b.example/", "decline")] {
        let asked = client.asked(&mut stream).await;
        assert_eq!(asked["params"]["url"], url);
        client.respond(&asked, json!({"result": {"action": action}})).await;
    }
    assert_eq!(stream.next().await["result"]["content"][0]["text"], "welcome");
    let actions: Vec<_> = heard(&server).into_iter().map(|(said, _)| said).collect();
    assert_eq!(actions, [json!({"action": "accept"}), json!({"action": "decline"})]);
}

#[tokio::test]
async fn a_client_that_opens_no_pages_is_not_asked_to() {
    for (revision, capabilities) in [
        (Revision::V2025_06_18, json!({"elicitation": {}})),
        (LATEST, json!({"elicitation": {}})),
        (LATEST, json!({"elicitation": {"form": {}}})),
    ] {
        let (server, _) = modern_server(|call| (call == 0).then_some(URL)).await;
        let gateway = TestGateway::ready(&[("s", server.address)]).await;
        let answer = {
            let client = LegacyClient::open(&gateway, revision, capabilities.clone()).await;
            client.call_to_end("s__sign_in").await
        };
        assert_eq!(answer.len(), 1, "{revision} {capabilities}: {answer:?}");
        assert_eq!(heard(&server), [(json!({"action": "cancel"}), json!("0"))]);
        let declared = &server.seen_of("tools/call")[0].body["params"]["_meta"];
        let declared = &declared["io.modelcontextprotocol/clientCapabilities"]["elicitation"];
        assert_eq!(declared.get("url"), None);
    }
}

/// A Legacy server that wants a page to be visited before it takes a call, and believes it after so many calls.
async fn legacy_server(believes_after: usize) -> (Upstream, Calls) {
    let calls = Calls::default();
    let noted = calls.clone();
    let refuse = move |seen: &Seen| {
        if noted.note() >= believes_after {
            return match seen.method() {
                "prompts/get" => seen.result(json!({"messages": []})),
                _ => seen.result(json!({"content": [{"type": "text", "text": "welcome"}]})),
            };
        }
        let mut page = page(URL);
        page["elicitationId"] = json!("theirs");
        let error = json!({"code": -32042, "message": "visit first", "data": {"elicitations": [page]}});
        Answer::json(200, json!({"jsonrpc": "2.0", "id": seen.body["id"], "error": error}))
    };
    let server = Upstream::start(move |seen| match seen.method() {
        "tools/call" | "prompts/get" => refuse(seen),
        "prompts/list" => seen.result(json!({"prompts": [{"name": "p"}]})),
        "initialize" => seen
            .result(json!({
                "protocolVersion": "2025-11-25", "capabilities": {"tools": {}, "prompts": {}},
                "serverInfo": {"name": "l", "version": "1"},
            }))
            .with_header("mcp-session-id", "s-1"),
        _ => upstream::legacy(seen, &tools()),
    })
    .await;
    (server, calls)
}

/// What continues a request for which all pages of `asked` were answered like this.
fn continued(mut params: Value, asked: &Value, action: &str) -> Value {
    let result = &asked["result"];
    let questions = result["inputRequests"].as_object().unwrap_or_else(|| panic!("{asked}"));
    let answers = questions.keys().map(|key| (key.clone(), json!({"action": action})));
    params["inputResponses"] = answers.collect();
    params["requestState"] = result["requestState"].clone();
    params
}

async fn last(gateway: &TestGateway, method: &str, params: Value) -> Value {
    let answer = gateway.modern_declaring(pages(), method, params);
    let messages = timeout(Duration::from_secs(60), answer).await.expect("no end");
    messages.last().unwrap().clone()
}

#[tokio::test]
async fn a_legacy_server_is_asked_again_with_patience_until_it_believes_that_its_page_was_visited() {
    let (server, calls) = legacy_server(3).await;
    let gateway = TestGateway::ready(&[("s", server.address)]).await;
    let call = json!({"name": "s__sign_in"});
    let asked = last(&gateway, "tools/call", call.clone()).await;
    let [question] = &asked["result"]["inputRequests"]
        .as_object()
        .unwrap()
        .values()
        .collect::<Vec<_>>()[..]
    else {
        panic!("{asked}")
    };
    assert_eq!(
        **question,
        json!({"method": "elicitation/create", "params": page(URL)}),
        "Modern clients know no ids of pages"
    );
    let done = last(&gateway, "tools/call", continued(call, &asked, "accept")).await;
    assert_eq!(done["result"]["content"][0]["text"], "welcome", "{done}");
    assert_eq!(calls.pauses(1), [1, 2], "longer and longer");
    let calls = server.seen_of("tools/call");
    assert!(
        calls
            .iter()
            .all(|seen| seen.body["params"].get("inputResponses").is_none())
    );
    assert!(
        calls
            .iter()
            .all(|seen| seen.body["params"].get("requestState").is_none())
    );
}

#[tokio::test]
async fn a_page_that_was_not_opened_ends_the_request_in_the_words_of_its_method() {
    let (server, calls) = legacy_server(usize::MAX).await;
    let gateway = TestGateway::ready(&[("s", server.address)]).await;
    for (number, action) in ["decline", "cancel"].into_iter().enumerate() {
        let call = json!({"name": "s__sign_in"});
        let asked = last(&gateway, "tools/call", call.clone()).await;
        let end = last(&gateway, "tools/call", continued(call, &asked, action)).await;
        assert_eq!(end["result"]["isError"], true, "{end}");

        let get = json!({"name": "s__p"});
        let asked = last(&gateway, "prompts/get", get.clone()).await;
        let end = last(&gateway, "prompts/get", continued(get, &asked, action)).await;
        assert_eq!(end["error"]["code"], -32603, "{end}");
        assert_eq!(calls.pauses(0).len() + 1, 2 * (number + 1), "nothing is asked again");
    }
}

#[tokio::test]
async fn a_page_that_is_never_completed_is_given_up() {
    let (modern, modern_calls) = modern_server(|_| Some(URL)).await;
    let (legacy, legacy_calls) = legacy_server(usize::MAX).await;
    let gateway = TestGateway::ready(&[("m", modern.address), ("l", legacy.address)]).await;
    let client = LegacyClient::open(&gateway, LATEST, pages()).await;
    let of_legacy_client = async {
        let mut stream = client.call("m__sign_in").await;
        let asked = client.asked(&mut stream).await;
        client.respond(&asked, json!({"result": {"action": "accept"}})).await;
        let end = stream.message_within(Duration::from_secs(60)).await;
        end.expect("no end")
    };
    let of_modern_client = async {
        let call = json!({"name": "l__sign_in"});
        let asked = last(&gateway, "tools/call", call.clone()).await;
        last(&gateway, "tools/call", continued(call, &asked, "accept")).await
    };
    for end in <[_; 2]>::from(tokio::join!(of_legacy_client, of_modern_client)) {
        assert_eq!(end["result"]["isError"], true, "{end}");
        let text = end["result"]["content"][0]["text"].as_str().unwrap();
        assert!(text.contains("call again"), "{text}");
    }
    assert_eq!(modern_calls.pauses(1), [1, 2, 4, 8, 8, 8]);
    assert_eq!(legacy_calls.pauses(1), [1, 2, 4, 8, 8]);
}

#[tokio::test]
async fn that_a_page_was_visited_is_not_told_to_modern_clients_which_have_no_word_for_it() {
    let server = Upstream::start(|seen| match seen.method() {
        "tools/call" => {
            let mut asks = page(URL);
            asks["elicitationId"] = json!("theirs");
            Answer::Stream(vec![
                (
                    Duration::ZERO,
                    json!({"jsonrpc": "2.0", "id": 9, "method": "elicitation/create", "params": asks}),
                ),
                (
                    Duration::from_millis(500),
                    json!({
                        "jsonrpc": "2.0", "method": "notifications/elicitation/complete",
                        "params": {"elicitationId": "theirs"},
                    }),
                ),
                (
                    Duration::from_millis(100),
                    json!({"jsonrpc": "2.0", "id": seen.body["id"], "result": {"content": []}}),
                ),
            ])
        }
        "initialize" => seen
            .result(json!({
                "protocolVersion": "2025-11-25", "capabilities": {"tools": {}},
                "serverInfo": {"name": "l", "version": "1"},
            }))
            .with_header("mcp-session-id", "s-1"),
        "" => Answer::status(202),
        _ => upstream::legacy(seen, &tools()),
    })
    .await;
    let gateway = TestGateway::ready(&[("s", server.address)]).await;
    let call = json!({"name": "s__sign_in", "_meta": {"progressToken": 1}});
    let asked = last(&gateway, "tools/call", call.clone()).await;
    let again = continued(call, &asked, "accept");
    let messages = gateway.modern_declaring(pages(), "tools/call", again).await;
    let [done] = &messages[..] else { panic!("{messages:?}") };
    assert_eq!(done["result"]["resultType"], "complete");
    let mut answers = server.seen().into_iter().filter(|seen| seen.body["id"] == 9);
    assert_eq!(answers.next().unwrap().body["result"], json!({"action": "accept"}));
}
