//! Tools that are run by name.

use std::time::Duration;

use mcpfleet::mcp::Revision;
use serde_json::json;

use super::{ERAS, call, names, ready, search, text, tool};
use crate::support::upstream::{self, Answer, Upstream};

#[tokio::test]
async fn a_tool_is_run_by_name_as_if_it_had_been_called() {
    let region = json!({"type": "object", "properties": {"region": {"type": "string", "x-mcp-header": "Region"}}});
    let pods = Upstream::start(move |seen| {
        let tools = json!([{"name": "logs", "inputSchema": region}]);
        upstream::modern(seen, &tools)
    })
    .await;
    let gateway = ready(
        &[("pods", pods.address, json!({"visibility": "Discoverable"}))],
        json!({}),
    )
    .await;
    for revision in ERAS {
        for (arguments, expected) in [
            (
                json!({"parameters": {"tail": 5, "region": "eu"}}),
                json!({"tail": 5, "region": "eu"}),
            ),
            (
                json!({"parameters": {"tail": 1}, "arguments": {"tail": 2}}),
                json!({"tail": 1}),
            ),
            (
                json!({"parameters": null, "arguments": {"tail": 2}}),
                json!({"tail": 2}),
            ),
            (json!({}), json!({})),
        ] {
            let mut arguments = arguments;
            arguments["name"] = json!("pods__logs");
            let answer = call(&gateway, revision, "execute_tool", arguments.clone()).await;
            assert_eq!(text(&answer), "logs", "{answer}");
            let seen = pods.seen_of("tools/call").pop().unwrap();
            assert_eq!(seen.body["params"]["name"], "logs");
            assert_eq!(seen.body["params"]["arguments"], expected, "{arguments}");
            assert_eq!(seen.header("mcp-name"), Some("logs"));
            assert_eq!(seen.header("mcp-param-region"), expected["region"].as_str());
        }
    }
}

#[tokio::test]
async fn what_cannot_be_run_is_told_to_the_model() {
    let tools = || {
        json!([
            tool("logs"), {"name": "page", "inputSchema": {"type": "object"}, "_meta": {"ui": {"visibility": ["app"]}}},
        ])
    };
    let pods = Upstream::start(move |seen| upstream::modern(seen, &tools())).await;
    let gateway = ready(&[("pods", pods.address, json!({}))], json!({})).await;
    for revision in ERAS {
        for (arguments, words) in [
            (json!({"parameters": {}}), ["name", "required"]),
            (json!({"name": ""}), ["name", "required"]),
            (json!({"name": 7}), ["name", "required"]),
            (json!({"name": "ghost"}), ["\"ghost\"", "tool_search"]),
            (json!({"name": "pods__page"}), ["\"pods__page\"", "tool_search"]),
            (json!({"name": "tool_search"}), ["tool_search", "itself"]),
            (json!({"name": "execute_tool"}), ["execute_tool", "itself"]),
            (
                json!({"name": "pods__logs", "parameters": "tail"}),
                ["parameters", "object"],
            ),
        ] {
            let answer = call(&gateway, revision, "execute_tool", arguments.clone()).await;
            assert_eq!(answer["result"]["isError"], true, "{arguments} {answer}");
            for word in words {
                assert!(text(&answer).contains(word), "{arguments} {answer}");
            }
        }
    }
    assert!(pods.seen_of("tools/call").is_empty());
    assert_eq!(names(&search(&gateway, json!({})).await), ["pods__logs"]);
    let page = call(&gateway, Revision::LATEST, "pods__page", json!({})).await;
    assert_eq!(text(&page), "page", "an app calls it all the same");
}

#[tokio::test]
async fn progress_and_failure_of_what_is_run_are_those_of_the_tool() {
    let pods = Upstream::start(|seen| match seen.method() {
        "tools/call" => {
            let progress = &seen.body["params"]["_meta"]["progressToken"];
            let params = json!({"progressToken": progress, "progress": 1, "total": 2});
            let error = json!({"code": -32001, "message": "Quota", "data": {"retry_after": 60}});
            Answer::Stream(vec![
                (
                    Duration::ZERO,
                    json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": params}),
                ),
                (
                    Duration::from_millis(50),
                    json!({"jsonrpc": "2.0", "id": seen.body["id"], "error": error}),
                ),
            ])
        }
        _ => upstream::modern(seen, &json!([tool("logs")])),
    })
    .await;
    let gateway = ready(
        &[("pods", pods.address, json!({}))],
        json!({"streaming": {"delay": "0s"}}),
    )
    .await;
    let params = json!({
        "name": "execute_tool", "arguments": {"name": "pods__logs"}, "_meta": {"progressToken": "p-1"},
    });
    let mut events = gateway.modern_events(json!("q-1"), "tools/call", params).await;
    let progress = events.next().await;
    assert_eq!(progress["params"]["progressToken"], "p-1", "{progress}");
    let answer = events.next().await;
    assert_eq!(
        (&answer["id"], &answer["error"]["code"]),
        (&json!("q-1"), &json!(-32001))
    );
    assert_eq!(answer["error"]["data"]["retry_after"], 60);
}
