//! Modern servers and Modern clients.

use mcpfleet::mcp::Revision;
use serde_json::json;

use super::greeting::{form, modern_call, modern_server, until, with};
use crate::support::gateway::TestGateway;
use crate::support::legacy_client::LegacyClient;
use crate::support::upstream::{self, Answer, Upstream};

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
