//! What servers ask of clients on the way to an answer, over the eras.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use mcpfleet::mcp::Revision;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use crate::support::gateway::TestGateway;
use crate::support::legacy_client::LegacyClient;
use crate::support::upstream::{self, Answer, Seen, Upstream};

/// A Modern server whose tool `greet` asks for a name, and greets who has it.
async fn modern_server() -> Upstream {
    Upstream::start(|seen| match seen.method() {
        "tools/call" => greet(seen),
        _ => upstream::modern(seen, &json!([{"name": "greet", "inputSchema": {"type": "object"}}])),
    })
    .await
}

fn greet(seen: &Seen) -> Answer {
    let params = &seen.body["params"];
    match params["inputResponses"]["who"]["content"]["name"].as_str() {
        Some(name) if params["requestState"] == "theirs" => seen.result(json!({
            "resultType": "complete", "content": [{"type": "text", "text": format!("Hello {name}")}],
        })),
        Some(_) => seen.error(200, -32602, "the state is wrong"),
        None if params["inputResponses"]["who"].is_object() => seen.result(json!({
            "resultType": "complete", "content": [{"type": "text", "text": "Hello you"}],
        })),
        None => seen.result(json!({
            "resultType": "input_required", "requestState": "theirs",
            "inputRequests": {"who": {"method": "elicitation/create", "params": {
                "mode": "form", "message": "Name?", "requestedSchema": form(),
            }}},
        })),
    }
}

fn form() -> Value {
    json!({"type": "object", "properties": {"name": {"type": "string", "default": "you"}}, "required": ["name"]})
}

async fn modern_call(gateway: &TestGateway, params: Value, capabilities: Value) -> Value {
    let mut params = params;
    params["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": capabilities,
    });
    let headers = [
        ("mcp-protocol-version", "2026-07-28"),
        ("mcp-method", "tools/call"),
        ("mcp-name", params["name"].as_str().unwrap()),
    ];
    let body = json!({"jsonrpc": "2.0", "id": "q", "method": "tools/call", "params": params});
    gateway.post(body, &headers).await.json()
}

pub(crate) fn with(mut params: Value, more: &Value) -> Value {
    for (name, value) in more.as_object().unwrap() {
        params[name] = value.clone();
    }
    params
}

#[tokio::test]
async fn a_modern_servers_questions_reach_a_modern_client_and_its_answers_come_back() {
    let server = modern_server().await;
    let gateway = TestGateway::ready(&[("s", server.address)]).await;
    let forms = json!({"elicitation": {"form": {}}});
    let call = json!({"name": "s__greet", "arguments": {"a": 1, "b": 2}});
    let asked = modern_call(&gateway, call.clone(), forms.clone()).await;
    let result = &asked["result"];
    assert_eq!(result["resultType"], "input_required", "{asked}");
    assert_eq!(result["inputRequests"]["who"]["params"]["requestedSchema"], form());
    assert!(result.get("ttlMs").is_none());
    let state = result["requestState"].as_str().unwrap();
    assert_ne!(state, "theirs");
    let declared = &server.seen_of("tools/call")[0].body["params"]["_meta"];
    assert_eq!(declared["io.modelcontextprotocol/clientCapabilities"], forms);

    let answer = json!({
        "requestState": state, "inputResponses": {"who": {"action": "accept", "content": {"name": "Ada"}}},
    });
    // The same params may be written in another order.
    let again = with(json!({"arguments": {"b": 2, "a": 1}, "name": "s__greet"}), &answer);
    for stranger in [
        with(json!({"name": "s__greet", "arguments": {"a": 2, "b": 2}}), &answer),
        with(
            call.clone(),
            &with(answer.clone(), &json!({"requestState": format!("{state}x")})),
        ),
        with(call.clone(), &with(answer.clone(), &json!({"requestState": "theirs"}))),
        with(call.clone(), &with(answer.clone(), &json!({"requestState": 7}))),
        with(call.clone(), &with(answer.clone(), &json!({"inputResponses": []}))),
    ] {
        let refused = modern_call(&gateway, stranger.clone(), forms.clone()).await;
        assert_eq!(refused["error"]["code"], -32602, "{stranger}: {refused}");
    }
    let done = modern_call(&gateway, again.clone(), forms.clone()).await;
    assert_eq!(done["result"]["content"][0]["text"], "Hello Ada", "{done}");
    assert_eq!(done["result"]["resultType"], "complete");
    let replayed = modern_call(&gateway, again, forms).await;
    assert_eq!(replayed["error"]["code"], -32602, "a state is used once");
    assert_eq!(server.seen_of("tools/call").len(), 2, "strangers reached no server");
}

#[tokio::test]
async fn what_a_tool_asks_that_is_run_by_name_reaches_whoever_runs_it() {
    let (modern, legacy) = (modern_server().await, asking_legacy_server().await);
    let gateway = TestGateway::ready(&[("m", modern.address), ("l", legacy.address)]).await;
    let forms = json!({"elicitation": {"form": {}}});
    let run = |tool: &str| json!({"name": "execute_tool", "arguments": {"name": tool, "parameters": {"a": 1}}});
    let accepted = json!({"action": "accept", "content": {"name": "Ada"}});

    let asked = modern_call(&gateway, run("m__greet"), forms.clone()).await;
    assert_eq!(
        asked["result"]["inputRequests"]["who"]["method"], "elicitation/create",
        "{asked}"
    );
    let answer = json!({"requestState": asked["result"]["requestState"], "inputResponses": {"who": accepted}});
    // It is for what was run, not for another tool of the two.
    let elsewhere = modern_call(&gateway, with(run("l__think"), &answer), forms.clone()).await;
    assert_eq!(elsewhere["error"]["code"], -32602, "{elsewhere}");
    let done = modern_call(&gateway, with(run("m__greet"), &answer), forms.clone()).await;
    assert_eq!(done["result"]["content"][0]["text"], "Hello Ada", "{done}");

    let asked = modern_call(&gateway, run("l__think"), forms.clone()).await;
    let questions = asked["result"]["inputRequests"].as_object().unwrap();
    let (key, question) = questions.iter().next().unwrap();
    assert_eq!(question["params"]["requestedSchema"], form());
    let answer = json!({"requestState": asked["result"]["requestState"], "inputResponses": {key.as_str(): accepted}});
    let mut answering = with(run("l__think"), &answer);
    answering["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": forms,
    });
    let request = gateway.modern_request(json!("q"), "tools/call", answering, forms.clone());
    let waits = tokio::spawn(gateway.client.request(request));
    until("the server hears the answer", || {
        let heard = legacy.seen();
        heard
            .iter()
            .any(|seen| seen.body["id"] == "q-1" && seen.body["result"] == accepted)
    })
    .await;
    waits.abort();

    for tool in ["m__greet", "l__think"] {
        let client = LegacyClient::open(&gateway, Revision::V2025_11_25, forms.clone()).await;
        let mut stream = client.request("tools/call", run(tool)).await;
        let asked = client.asked(&mut stream).await;
        assert_eq!(asked["method"], "elicitation/create", "{asked}");
        assert_eq!(client.respond(&asked, json!({"result": accepted})).await, 202);
        if tool == "m__greet" {
            assert_eq!(stream.next().await["result"]["content"][0]["text"], "Hello Ada");
        }
    }
    until("the server hears both answers", || {
        let heard = legacy.seen();
        let answers = heard
            .iter()
            .filter(|seen| seen.body["id"] == "q-1" && seen.body["result"] == accepted);
        answers.count() == 2
    })
    .await;
}

#[tokio::test]
async fn a_server_that_asks_what_its_client_did_not_declare_has_failed() {
    let server = modern_server().await;
    let gateway = TestGateway::ready(&[("s", server.address)]).await;
    for capabilities in [json!({}), json!({"elicitation": {"url": {}}}), json!({"sampling": {}})] {
        let failed = modern_call(&gateway, json!({"name": "s__greet"}), capabilities).await;
        assert_eq!(failed["error"]["code"], -32603, "{failed}");
        assert!(
            failed["error"]["message"]
                .as_str()
                .unwrap()
                .contains("elicitation/create")
        );
    }
}

#[tokio::test]
async fn results_that_ask_for_nothing_known_are_the_servers_failure() {
    let server = Upstream::start(|seen| match seen.method() {
        "tools/call" => seen.result(match seen.body["params"]["name"].as_str() {
            Some("nothing") => json!({"resultType": "input_required"}),
            Some("unknown") => json!({"resultType": "input_required", "inputRequests": {"a": {"method": "x/y"}}}),
            _ => json!({"resultType": "later"}),
        }),
        _ => upstream::modern(
            seen,
            &json!(
                ["nothing", "unknown", "later"].map(|name| json!({"name": name, "inputSchema": {"type": "object"}}))
            ),
        ),
    })
    .await;
    let gateway = TestGateway::ready(&[("s", server.address)]).await;
    for tool in ["nothing", "unknown", "later"] {
        let call = json!({"name": format!("s__{tool}")});
        let modern = modern_call(&gateway, call.clone(), json!({"elicitation": {}})).await;
        let legacy = gateway.legacy("tools/call", call).await;
        for failed in [modern, legacy] {
            assert_eq!(failed["error"]["code"], -32603, "{tool}: {failed}");
        }
    }
}

#[tokio::test]
async fn a_capability_that_the_client_lacks_is_named_to_it_and_one_that_the_gateway_lacks_is_not() {
    let server = Upstream::start(|seen| match seen.method() {
        "tools/call" => {
            let required = json!({"elicitation": {"form": {}}, "extensions": {"x.y/z": {}}});
            let error = json!({"code": -32021, "message": "not without", "data": {"requiredCapabilities": required}});
            Answer::json(400, json!({"jsonrpc": "2.0", "id": seen.body["id"], "error": error}))
        }
        _ => upstream::modern(seen, &json!([{"name": "needy", "inputSchema": {"type": "object"}}])),
    })
    .await;
    let gateway = TestGateway::ready(&[("s", server.address)]).await;
    let call = json!({"name": "s__needy"});
    for (capabilities, code) in [
        (json!({}), -32021),
        (json!({"elicitation": {"form": {}}}), -32021),
        (
            json!({"elicitation": {"form": {}}, "extensions": {"x.y/z": {}}}),
            -32603,
        ),
    ] {
        let refused = modern_call(&gateway, call.clone(), capabilities.clone()).await;
        assert_eq!(refused["error"]["code"], code, "{capabilities}: {refused}");
    }
    let legacy = gateway.legacy("tools/call", call).await;
    assert_eq!(legacy["error"]["code"], -32603);
}

#[tokio::test]
async fn arguments_are_completed_by_whoever_owns_the_prompt_or_the_template() {
    let completing = |modern: bool| {
        move |seen: &Seen| {
            let typed = |mut result: Value| {
                if modern {
                    result["resultType"] = json!("complete");
                    (result["ttlMs"], result["cacheScope"]) = (json!(0), json!("private"));
                }
                seen.result(result)
            };
            match seen.method() {
                "server/discover" if modern => typed(json!({
                    "supportedVersions": ["2026-07-28"],
                    "capabilities": {"prompts": {}, "resources": {}, "completions": {}},
                })),
                "initialize" => seen.result(json!({
                    "protocolVersion": "2025-03-26", "serverInfo": {"name": "l", "version": "1"},
                    "capabilities": {"prompts": {}, "resources": {}, "completions": {}},
                })),
                "prompts/list" => typed(json!({"prompts": [{"name": "p"}]})),
                "resources/templates/list" => {
                    let uri = if modern { "m://{x}" } else { "l://{x}" };
                    typed(json!({"resourceTemplates": [{"uriTemplate": uri, "name": "t"}]}))
                }
                "resources/list" => typed(json!({"resources": []})),
                "completion/complete" => {
                    let result = json!({"completion": {"values": [seen.body["params"]["ref"].to_string()]}});
                    seen.result(if modern {
                        with(result, &json!({"resultType": "complete"}))
                    } else {
                        result
                    })
                }
                method if method.starts_with("notifications/") => Answer::status(202),
                _ => seen.error(404, -32601, "unknown method"),
            }
        }
    };
    let (modern, legacy) = (
        Upstream::start(completing(true)).await,
        Upstream::start(completing(false)).await,
    );
    let silent = Upstream::start(|seen| match seen.method() {
        "prompts/list" => seen.result(json!({"prompts": [{"name": "p"}]})),
        "initialize" => seen.result(json!({
            "protocolVersion": "2025-03-26", "serverInfo": {"name": "l", "version": "1"}, "capabilities": {"prompts": {}},
        })),
        _ => upstream::legacy(seen, &json!([])),
    })
    .await;
    let members = [("m", modern.address), ("l", legacy.address), ("silent", silent.address)];
    let gateway = TestGateway::ready(&members).await;
    let complete = |reference: &Value| json!({"ref": reference, "argument": {"name": "a", "value": "b"}});
    for (reference, completed) in [
        (
            json!({"type": "ref/prompt", "name": "m__p"}),
            vec![r#"{"type":"ref/prompt","name":"p"}"#],
        ),
        (
            json!({"type": "ref/prompt", "name": "l__p"}),
            vec![r#"{"type":"ref/prompt","name":"p"}"#],
        ),
        (
            json!({"type": "ref/resource", "uri": "m://{x}"}),
            vec![r#"{"type":"ref/resource","uri":"m://{x}"}"#],
        ),
        (
            json!({"type": "ref/resource", "uri": "l://{x}"}),
            vec![r#"{"type":"ref/resource","uri":"l://{x}"}"#],
        ),
        (json!({"type": "ref/prompt", "name": "silent__p"}), vec![]),
    ] {
        for revision in [Revision::V2025_03_26, Revision::V2025_11_25, Revision::LATEST] {
            let answer = gateway.ask(revision, "completion/complete", complete(&reference)).await;
            assert_eq!(
                answer["result"]["completion"]["values"],
                json!(completed),
                "{reference}: {answer}"
            );
        }
    }
    for odd in [
        json!({"type": "ref/prompt", "name": "none"}),
        json!({"type": "ref/tool"}),
        json!(1),
    ] {
        let refused = gateway.legacy("completion/complete", complete(&odd)).await;
        assert_eq!(refused["error"]["code"], -32602, "{odd}: {refused}");
    }
    assert!(silent.seen_of("completion/complete").is_empty());
}

#[tokio::test]
async fn a_modern_servers_questions_reach_a_legacy_client_as_requests() {
    let server = modern_server().await;
    let gateway = TestGateway::ready(&[("s", server.address)]).await;
    for (revision, mode, default) in [
        (Revision::V2025_06_18, Value::Null, Value::Null),
        (Revision::V2025_11_25, json!("form"), json!("you")),
    ] {
        let client = LegacyClient::open(&gateway, revision, json!({"elicitation": {}})).await;
        let stranger = LegacyClient::open(&gateway, revision, json!({"elicitation": {}})).await;
        let mut stream = client.call("s__greet").await;
        let asked = client.asked(&mut stream).await;
        assert_eq!(
            (&asked["method"], &asked["params"]["mode"]),
            (&json!("elicitation/create"), &mode)
        );
        assert_eq!(
            asked["params"]["requestedSchema"]["properties"]["name"]["default"],
            default
        );
        let said = json!({"result": {"action": "accept", "content": {"name": "Ada"}}});
        let forged = json!({"result": {"action": "accept", "content": {"name": "Eve"}}});
        assert_eq!(
            stranger.respond(&asked, forged).await,
            202,
            "it is no concern of this session"
        );
        assert_eq!(client.respond(&asked, said).await, 202);
        let done = stream.next().await;
        assert_eq!(done["id"], "q");
        assert_eq!(done["result"]["content"][0]["text"], "Hello Ada", "{done}");
        assert!(done["result"].get("resultType").is_none());
        stream.end().await;
    }
}

#[tokio::test]
async fn a_legacy_client_that_says_no_is_not_taken_for_one_that_says_yes() {
    let server = modern_server().await;
    let gateway = TestGateway::ready(&[("s", server.address)]).await;
    let client = LegacyClient::open(&gateway, Revision::V2025_11_25, json!({"elicitation": {}})).await;
    for (said, told) in [
        (json!({"result": {"action": "decline"}}), json!({"action": "decline"})),
        (
            json!({"error": {"code": -32603, "message": "no window"}}),
            json!({"action": "cancel"}),
        ),
        (json!({"result": "yes"}), json!({"action": "cancel"})),
    ] {
        let mut stream = client.call("s__greet").await;
        let asked = client.asked(&mut stream).await;
        client.respond(&asked, said).await;
        assert_eq!(stream.next().await["result"]["content"][0]["text"], "Hello you");
        let heard = server.seen_of("tools/call").pop().unwrap();
        assert_eq!(heard.body["params"]["inputResponses"]["who"], told);
    }
}

#[tokio::test]
async fn a_server_that_never_stops_asking_is_given_up() {
    let asked = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&asked);
    let server = Upstream::start(move |seen| match seen.method() {
        "tools/call" => {
            let round = count.fetch_add(1, Ordering::SeqCst);
            seen.result(json!({
                "resultType": "input_required", "requestState": round.to_string(),
                "inputRequests": {"where": {"method": "roots/list", "params": {}}},
            }))
        }
        _ => upstream::modern(seen, &json!([{"name": "ask", "inputSchema": {"type": "object"}}])),
    })
    .await;
    let gateway = TestGateway::ready(&[("s", server.address)]).await;
    let client = LegacyClient::open(&gateway, Revision::V2025_11_25, json!({"roots": {}})).await;
    let mut stream = client.call("s__ask").await;
    let mut rounds = 0;
    let end = loop {
        let message = stream.next().await;
        if message["method"] != "roots/list" {
            break message;
        }
        rounds += 1;
        client
            .respond(&message, json!({"result": {"roots": [{"uri": "file:///a"}]}}))
            .await;
    };
    assert_eq!(rounds, 8);
    assert_eq!(end["result"]["isError"], true, "{end}");
    let states: Vec<_> = server
        .seen_of("tools/call")
        .iter()
        .map(|seen| seen.body["params"]["requestState"].clone())
        .collect();
    let expected: Vec<_> = std::iter::once(Value::Null)
        .chain((0..8).map(|round| json!(round.to_string())))
        .collect();
    assert_eq!(states, expected);
}

#[tokio::test]
async fn a_refusal_that_the_server_cannot_be_told_ends_the_call() {
    let server = Upstream::start(|seen| match seen.method() {
        "tools/call" => seen.result(json!({
            "resultType": "input_required",
            "inputRequests": {"think": {"method": "sampling/createMessage", "params": {"messages": [], "maxTokens": 1}}},
        })),
        _ => upstream::modern(seen, &json!([{"name": "ask", "inputSchema": {"type": "object"}}])),
    })
    .await;
    let gateway = TestGateway::ready(&[("s", server.address)]).await;
    let client = LegacyClient::open(&gateway, Revision::V2025_11_25, json!({"sampling": {}})).await;
    let mut stream = client.call("s__ask").await;
    let asked = client.asked(&mut stream).await;
    client
        .respond(
            &asked,
            json!({"error": {"code": -1, "message": "User rejected sampling request"}}),
        )
        .await;
    let end = stream.next().await;
    assert_eq!(end["result"]["isError"], true, "{end}");
    assert!(
        end["result"]["content"][0]["text"]
            .as_str()
            .unwrap()
            .contains("sampling/createMessage")
    );
    assert_eq!(server.seen_of("tools/call").len(), 1);
}

#[tokio::test]
async fn a_wrong_answer_of_a_legacy_client_is_not_given_to_a_modern_server_and_told_to_the_client() {
    let form = json!({"message": "m", "requestedSchema": {"type": "object", "properties": {}}});
    for (method, params, said, why) in [
        (
            "elicitation/create",
            form,
            json!({"action": "maybe"}),
            "accept, decline or cancel",
        ),
        (
            "sampling/createMessage",
            json!({"messages": [], "maxTokens": 1}),
            json!({"role": "assistant"}),
            "must have a role, and content",
        ),
        ("roots/list", json!({}), json!({"roots": {}}), "must have roots, a list"),
    ] {
        let server = Upstream::start(move |seen| match seen.method() {
            "tools/call" => seen.result(json!({
                "resultType": "input_required", "inputRequests": {"it": {"method": method, "params": params}},
            })),
            _ => upstream::modern(seen, &json!([{"name": "ask", "inputSchema": {"type": "object"}}])),
        })
        .await;
        let gateway = TestGateway::ready(&[("s", server.address)]).await;
        let capabilities = json!({"elicitation": {}, "sampling": {}, "roots": {}});
        let client = LegacyClient::open(&gateway, Revision::V2025_11_25, capabilities).await;
        let mut stream = client.call("s__ask").await;
        let asked = client.asked(&mut stream).await;
        assert_eq!(client.respond(&asked, json!({"result": said})).await, 202);
        let end = stream.next().await;
        assert_eq!(end["result"]["isError"], true, "{end}");
        let text = end["result"]["content"][0]["text"].as_str().unwrap();
        assert!(text.contains(method) && text.contains(why), "{text}");
        assert_eq!(server.seen_of("tools/call").len(), 1, "{method}");
    }
}

#[tokio::test]
async fn a_page_is_known_to_each_side_by_an_id_of_its_own() {
    let server = Upstream::start(|seen| match seen.method() {
        "tools/call" => {
            let page = json!({
                "mode": "url", "message": "Sign in", "url": "https://a.example/in", "elicitationId": "theirs",
            });
            Answer::Stream(vec![
                (Duration::ZERO, json!({"jsonrpc": "2.0", "id": 9, "method": "elicitation/create", "params": page})),
                (Duration::from_millis(300), json!({
                    "jsonrpc": "2.0", "method": "notifications/elicitation/complete", "params": {"elicitationId": "theirs"},
                })),
                (Duration::ZERO, json!({"jsonrpc": "2.0", "id": seen.body["id"], "result": {"content": []}})),
            ])
        }
        "initialize" => seen
            .result(json!({
                "protocolVersion": "2025-11-25", "capabilities": {"tools": {}},
                "serverInfo": {"name": "l", "version": "1"},
            }))
            .with_header("mcp-session-id", "s-1"),
        "" => Answer::status(202),
        _ => upstream::legacy(seen, &json!([{"name": "sign_in", "inputSchema": {"type": "object"}}])),
    })
    .await;
    let gateway = TestGateway::ready(&[("s", server.address)]).await;
    let client = LegacyClient::open(&gateway, Revision::V2025_11_25, json!({"elicitation": {"url": {}}})).await;
    let mut stream = client.call("s__sign_in").await;
    let asked = client.asked(&mut stream).await;
    let ours = asked["params"]["elicitationId"].as_str().unwrap();
    assert_ne!(ours, "theirs");
    client.respond(&asked, json!({"result": {"action": "accept"}})).await;
    let visited = stream.next().await;
    assert_eq!(visited["method"], "notifications/elicitation/complete", "{visited}");
    assert_eq!(visited["params"], json!({"elicitationId": ours}));
    assert_eq!(stream.next().await["id"], "q");
    let answered = server
        .seen()
        .into_iter()
        .find(|seen| seen.body["id"] == 9 && seen.method().is_empty());
    assert_eq!(answered.unwrap().body["result"], json!({"action": "accept"}));
}

/// How often [`asking_legacy_server`] wants a page to be visited before it believes that it was.
const REFUSALS: usize = 4;

/// A Legacy server with a session, whose tool `think` asks its client for a form on the call's own stream, and whose tool
/// `refuse` wants a page to be visited first.
async fn asking_legacy_server() -> Upstream {
    let calls = AtomicUsize::new(0);
    Upstream::start(move |seen| match seen.method() {
        "tools/call" if seen.body["params"]["name"] == "refuse" => {
            let pages = json!([{"mode": "url", "elicitationId": "e", "url": "https://a.example/", "message": "m"}]);
            let error = json!({"code": -32042, "message": "visit first", "data": {"elicitations": pages}});
            if calls.fetch_add(1, Ordering::SeqCst) < REFUSALS {
                Answer::json(200, json!({"jsonrpc": "2.0", "id": seen.body["id"], "error": error}))
            } else {
                seen.result(json!({"content": [{"type": "text", "text": "visited"}]}))
            }
        }
        "tools/call" => {
            let asks = json!({"message": "Name?", "requestedSchema": form()});
            Answer::Stream(vec![
                (
                    Duration::ZERO,
                    json!({"jsonrpc": "2.0", "id": "q-1", "method": "elicitation/create", "params": asks}),
                ),
                (
                    Duration::from_secs(20),
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
        "" if seen.http == ::http::Method::POST => Answer::status(202),
        _ => upstream::legacy(
            seen,
            &json!(["think", "refuse"].map(|name| json!({"name": name, "inputSchema": {"type": "object"}}))),
        ),
    })
    .await
}

#[tokio::test]
async fn a_legacy_servers_question_is_put_to_a_modern_client_and_its_call_waits() {
    let server = asking_legacy_server().await;
    let gateway = TestGateway::ready(&[("s", server.address)]).await;
    let forms = json!({"elicitation": {}});
    let call = json!({"name": "s__think"});
    let asked = modern_call(&gateway, call.clone(), forms.clone()).await;
    assert_eq!(asked["result"]["resultType"], "input_required", "{asked}");
    let (key, question) = asked["result"]["inputRequests"]
        .as_object()
        .unwrap()
        .iter()
        .next()
        .unwrap();
    assert_eq!(question["params"]["requestedSchema"], form());
    let state = &asked["result"]["requestState"];
    // An answer to something else leaves the question open, under a new state.
    let odd = with(
        call.clone(),
        &json!({"requestState": state, "inputResponses": {"else": {"action": "accept"}}}),
    );
    let again = modern_call(&gateway, odd.clone(), forms.clone()).await;
    assert_eq!(again["result"]["inputRequests"][key], *question, "{again}");
    let spent = modern_call(&gateway, odd, forms.clone()).await;
    assert_eq!(spent["error"]["code"], -32602);
    // What is no answer is refused, and the question stays as it is.
    for wrong in [json!(1), json!({}), json!({"action": "accept", "content": "Ada"})] {
        let spoilt = json!({"requestState": again["result"]["requestState"], "inputResponses": {key.as_str(): wrong}});
        let refused = modern_call(&gateway, with(call.clone(), &spoilt), forms.clone()).await;
        assert_eq!(refused["error"]["code"], -32602, "{refused}");
        assert!(
            refused["error"]["message"].as_str().unwrap().contains("still open"),
            "{refused}"
        );
    }
    let answer = json!({"action": "accept", "content": {"name": "Ada"}});
    let right = json!({"requestState": again["result"]["requestState"], "inputResponses": {key.as_str(): answer}});
    let heard = async || loop {
        let mut seen = server.seen().into_iter();
        if let Some(heard) = seen.find(|seen| seen.body["id"] == "q-1" && seen.method().is_empty()) {
            return heard.body["result"].clone();
        }
        sleep(Duration::from_millis(20)).await;
    };
    // The server takes its time after it has heard the answer.
    let heard = tokio::select! {
        done = modern_call(&gateway, with(call, &right), forms) => panic!("{done}"),
        heard = heard() => heard,
        () = sleep(Duration::from_secs(10)) => panic!("the answer never reaches the server"),
    };
    assert_eq!(heard, answer);
    assert_eq!(server.seen_of("tools/call").len(), 1);
}

#[tokio::test]
async fn pages_that_a_legacy_server_wants_visited_are_put_to_a_modern_client() {
    let server = asking_legacy_server().await;
    let gateway = TestGateway::ready(&[("s", server.address)]).await;
    let call = json!({"name": "s__refuse"});
    let without = modern_call(&gateway, call.clone(), json!({"elicitation": {}})).await;
    assert_eq!(without["error"]["code"], -32603, "{without}");
    let pages = json!({"elicitation": {"url": {}}});
    let asked = modern_call(&gateway, call.clone(), pages.clone()).await;
    let before = server.seen_of("tools/call").len();
    let declined = json!({
        "requestState": asked["result"]["requestState"], "inputResponses": {"page-1": {"action": "decline"}},
    });
    let end = modern_call(&gateway, with(call.clone(), &declined), pages.clone()).await;
    assert_eq!(end["result"]["isError"], true, "{end}");
    assert_eq!(
        server.seen_of("tools/call").len(),
        before,
        "who declined is not asked again"
    );
    let asked = modern_call(&gateway, call.clone(), pages.clone()).await;
    let question = &asked["result"]["inputRequests"]["page-1"];
    assert_eq!(
        question["params"],
        json!({"mode": "url", "url": "https://a.example/", "message": "m"}),
        "{asked}"
    );
    let answer = json!({
        "requestState": asked["result"]["requestState"], "inputResponses": {"page-1": {"action": "accept"}},
    });
    let done = modern_call(&gateway, with(call, &answer), pages).await;
    assert_eq!(done["result"]["content"][0]["text"], "visited", "{done}");
    let calls = server.seen_of("tools/call");
    assert!(
        calls
            .iter()
            .all(|seen| seen.body["params"].get("inputResponses").is_none())
    );
}

#[tokio::test]
async fn what_a_legacy_server_asks_in_vain_and_fails_without_is_named_to_a_modern_client() {
    let server = Upstream::start(|seen| match seen.method() {
        "tools/call" => {
            let fails = seen.body["params"]["name"] == "needs";
            Answer::Stream(vec![
                (Duration::ZERO, json!({
                    "jsonrpc": "2.0", "id": 9, "method": "sampling/createMessage", "params": {"messages": [], "maxTokens": 1},
                })),
                (Duration::from_millis(100), json!({
                    "jsonrpc": "2.0", "id": seen.body["id"], "result": {"content": [], "isError": fails},
                })),
            ])
        }
        "" => Answer::status(202),
        _ => upstream::legacy(
            seen,
            &json!(["needs", "copes"].map(|name| json!({"name": name, "inputSchema": {"type": "object"}}))),
        ),
    })
    .await;
    let gateway = TestGateway::ready(&[("s", server.address)]).await;
    for capabilities in [json!({}), json!({"elicitation": {}})] {
        let needs = modern_call(&gateway, json!({"name": "s__needs"}), capabilities.clone()).await;
        assert_eq!(needs["error"]["code"], -32021, "{capabilities}: {needs}");
        assert_eq!(
            needs["error"]["data"],
            json!({"requiredCapabilities": {"sampling": {}}})
        );
        let copes = modern_call(&gateway, json!({"name": "s__copes"}), capabilities).await;
        assert_eq!(copes["result"]["resultType"], "complete", "{copes}");
    }
    let legacy = gateway.legacy("tools/call", json!({"name": "s__needs"})).await;
    assert_eq!(legacy["result"]["isError"], true, "{legacy}");
}

async fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(10);
    while !holds() {
        assert!(Instant::now() < deadline, "never: {what}");
        sleep(Duration::from_millis(20)).await;
    }
}
