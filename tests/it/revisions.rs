//! Clients of each revision get what their revision knows, from servers of either era. Whatever is answered is also held
//! against the schema of the revision, as everywhere.

use mcpfleet::mcp::{Era, Revision, elicitation, sampling};
use serde_json::{Value, json};

use crate::support::gateway::TestGateway;
use crate::support::upstream::{self, Seen, Upstream};
use crate::support::wire;

const OLDEST: Revision = Revision::V2024_11_05;

/// A tool whose result has all that revisions disagree about.
fn descriptors() -> Value {
    json!([
        {
            "name": "any", "title": "Any", "inputSchema": {"type": "object"}, "icons": [{"src": "data:,"}],
            "outputSchema": {"type": "array", "items": {"type": "integer"}}, "_meta": {"vendor.x/y": 1.50},
        },
        {"name": "object", "inputSchema": {"type": "object"}, "outputSchema": {"type": "object"}},
    ])
}

fn result(seen: &Seen) -> Value {
    let structured = match seen.body["params"]["name"].as_str() {
        Some("any") => json!([1, 2]),
        _ => json!({"n": 9_007_199_254_740_993_u64}),
    };
    json!({
        "content": [
            {"type": "text", "text": "found", "annotations": {"priority": 0.50}, "future": [1.0]},
            {"type": "image", "data": "AA==", "mimeType": "image/png"},
            {"type": "audio", "data": "AA==", "mimeType": "audio/wav", "_meta": {"vendor.x/y": 1}},
            {"type": "resource_link", "uri": "file:///a", "name": "a", "description": "the first"},
            {"type": "resource_link", "resource": {"uri": "https://example.com", "text": "View details"}},
            {"type": "resource", "resource": {"uri": "file:///b", "text": "resource_link"}},
        ],
        "structuredContent": structured, "isError": false, "future": {"deep": [null]},
    })
}

fn expected_content(revision: Revision, moved: Option<&str>) -> Value {
    let audio = match revision {
        OLDEST => json!({
            "type": "text", "text": "Audio (audio/wav) is left out: protocol revision 2024-11-05 has no audio.",
            "_meta": {"vendor.x/y": 1},
        }),
        _ => json!({"type": "audio", "data": "AA==", "mimeType": "audio/wav", "_meta": {"vendor.x/y": 1}}),
    };
    let (link, nested) = if revision < Revision::V2025_06_18 {
        (
            json!({"type": "text", "text": "Resource link: a <file:///a>\nthe first"}),
            json!({"type": "text", "text": "Resource link: View details <https://example.com>"}),
        )
    } else {
        (
            json!({"type": "resource_link", "uri": "file:///a", "name": "a", "description": "the first"}),
            json!({"type": "resource_link", "uri": "https://example.com", "name": "View details"}),
        )
    };
    let mut content = vec![
        json!({"type": "text", "text": "found", "annotations": {"priority": 0.50}, "future": [1.0]}),
        json!({"type": "image", "data": "AA==", "mimeType": "image/png"}),
        audio,
        link,
        nested,
        json!({"type": "resource", "resource": {"uri": "file:///b", "text": "resource_link"}}),
    ];
    content.extend(moved.map(|text| json!({"type": "text", "text": text})));
    Value::Array(content)
}

/// A server of each era with the same tools.
async fn both() -> (TestGateway, Upstream, Upstream) {
    let old = Upstream::start(|seen| match seen.method() {
        "tools/call" => seen.result(result(seen)),
        _ => upstream::legacy(seen, &descriptors()),
    })
    .await;
    let new = Upstream::start(|seen| match seen.method() {
        "tools/call" => {
            let mut result = result(seen);
            result["resultType"] = json!("complete");
            seen.result(result)
        }
        _ => upstream::modern(seen, &descriptors()),
    })
    .await;
    let gateway = TestGateway::ready(&[("old", old.address), ("new", new.address)]).await;
    (gateway, old, new)
}

#[tokio::test]
async fn results_have_what_the_revision_knows() {
    let (gateway, _old, _new) = both().await;
    for revision in Revision::ALL {
        for (tool, structured, known_since) in [
            ("any", "[1,2]", Revision::V2026_07_28),
            ("object", r#"{"n":9007199254740993}"#, Revision::V2025_06_18),
        ] {
            for member in ["old", "new"] {
                let call = json!({"name": format!("{member}__{tool}")});
                let answer = gateway.ask(revision, "tools/call", call).await;
                let is_known = revision >= known_since;
                let what = format!("{member}__{tool} at {revision}");
                let content = expected_content(revision, (!is_known).then_some(structured));
                assert_eq!(answer["result"]["content"], content, "{what}");
                let expected: Option<Value> = is_known.then(|| serde_json::from_str(structured).unwrap());
                assert_eq!(answer["result"].get("structuredContent"), expected.as_ref(), "{what}");
                assert_eq!(answer["result"]["isError"], false, "{what}");
                assert_eq!(answer["result"]["future"], json!({"deep": [null]}), "{what}");
            }
        }
    }
}

#[tokio::test]
async fn a_value_that_is_told_as_text_already_just_goes() {
    let server = Upstream::start(|seen| match seen.method() {
        "tools/call" => seen.result(json!({
            "resultType": "complete", "structuredContent": [1, 2],
            "content": [{"type": "text", "text": "two"}, {"type": "text", "text": "[1, 2]"}],
        })),
        _ => upstream::modern(seen, &descriptors()),
    })
    .await;
    let gateway = TestGateway::ready(&[("s", server.address)]).await;
    for revision in Revision::LEGACY {
        let answer = gateway.ask(revision, "tools/call", json!({"name": "s__any"})).await;
        let texts = json!([{"type": "text", "text": "two"}, {"type": "text", "text": "[1, 2]"}]);
        assert_eq!(answer["result"], json!({"content": texts}), "{revision}");
    }
}

#[tokio::test]
async fn descriptors_promise_only_what_arrives() {
    let (gateway, _old, _new) = both().await;
    for revision in Revision::ALL {
        let answer = gateway.ask(revision, "tools/list", json!({})).await;
        for member in ["old", "new"] {
            let listed = |tool: &str| {
                let name = format!("{member}__{tool}");
                let tools = answer["result"]["tools"].as_array().unwrap();
                tools.iter().find(|listed| listed["name"] == name).unwrap().clone()
            };
            let mut any = descriptors()[0].clone();
            any["name"] = json!(format!("{member}__any"));
            if revision < Revision::V2026_07_28 {
                any.as_object_mut().unwrap().remove("outputSchema");
            }
            assert_eq!(listed("any"), any, "{revision}");
            let promises = listed("object").get("outputSchema").is_some();
            assert_eq!(promises, revision >= Revision::V2025_06_18, "{revision}");
        }
    }
}

#[tokio::test]
async fn tools_promise_no_tasks_of_the_kind_that_is_not_served() {
    let tools = json!([{
        "name": "slow", "inputSchema": {"type": "object"}, "execution": {"taskSupport": "optional"},
    }]);
    let (of_old, of_new) = (tools.clone(), tools);
    let old = Upstream::start(move |seen| upstream::legacy(seen, &of_old)).await;
    let new = Upstream::start(move |seen| upstream::modern(seen, &of_new)).await;
    let gateway = TestGateway::ready(&[("old", old.address), ("new", new.address)]).await;
    for revision in Revision::ALL {
        let answer = gateway.ask(revision, "tools/list", json!({})).await;
        let tools = answer["result"]["tools"].as_array().unwrap();
        let speaking: Vec<_> = tools
            .iter()
            .filter(|tool| tool.get("execution").is_some())
            .map(|tool| tool["name"].as_str().unwrap())
            .collect();
        assert!(speaking.is_empty(), "{revision}: {speaking:?}");
    }
    for (member, server) in [("old", &old), ("new", &new)] {
        let call = json!({"name": format!("{member}__slow"), "task": {"ttl": 1000}});
        gateway.legacy("tools/call", call).await;
        assert!(server.seen_of("tools/call")[0].body["params"].get("task").is_none());
    }
}

#[tokio::test]
async fn messages_of_prompts_have_what_the_revision_knows() {
    let server = Upstream::start(|seen| match seen.method() {
        "initialize" => seen
            .result(json!({
                "protocolVersion": "2025-06-18", "capabilities": {"prompts": {}},
                "serverInfo": {"name": "s", "version": "1"},
            }))
            .with_header("mcp-session-id", "s-1"),
        "prompts/list" => seen.result(json!({"prompts": [{"name": "p"}]})),
        "prompts/get" => seen.result(json!({"description": "d", "messages": [
            {"role": "user", "content": {"type": "audio", "data": "AA==", "mimeType": "audio/wav"}},
            {"role": "assistant", "content": {"type": "resource_link", "uri": "a:b", "name": "n"}},
            {"role": "user", "content": {"type": "text", "text": "t"}},
        ]})),
        _ => upstream::legacy(seen, &json!([])),
    })
    .await;
    let gateway = TestGateway::ready(&[("s", server.address)]).await;
    for revision in Revision::ALL {
        let answer = gateway.ask(revision, "prompts/get", json!({"name": "s__p"})).await;
        let messages = answer["result"]["messages"].as_array().unwrap();
        let kinds: Vec<_> = messages
            .iter()
            .map(|message| message["content"]["type"].as_str().unwrap())
            .collect();
        let expected = match revision {
            Revision::V2024_11_05 => ["text", "text", "text"],
            Revision::V2025_03_26 => ["audio", "text", "text"],
            _ => ["audio", "resource_link", "text"],
        };
        assert_eq!(kinds, expected, "{revision}");
        assert_eq!(messages[1]["role"], "assistant");
        assert_eq!(answer["result"]["description"], "d");
    }
}

#[test]
fn what_servers_ask_fits_the_revision_of_the_client() {
    let form = |fields: Value| {
        json!({
            "mode": "form", "message": "m", "task": {"ttl": 1}, "_meta": {"progressToken": 1},
            "requestedSchema": {"type": "object", "properties": fields, "required": ["f"]},
        })
    };
    let forms = [
        form(json!({"f": {"type": "string", "format": "email", "default": "a@example.com"}})),
        form(
            json!({"f": {"type": "number", "minimum": 0.5, "default": 1.5}, "b": {"type": "boolean", "default": true}}),
        ),
        form(json!({"f": {"type": "string", "oneOf": [{"const": "r", "title": "Red"}], "default": "r"}})),
        form(json!({"f": {"type": "array", "items": {"anyOf": [{"const": "r", "title": "Red"}]}, "default": ["r"]}})),
        json!({"mode": "url", "message": "m", "url": "https://a.example/", "elicitationId": "theirs"}),
    ];
    let text = json!({"type": "text", "text": "t"});
    let audio = json!({"type": "audio", "data": "AA==", "mimeType": "audio/wav"});
    let tool = json!({"name": "t", "inputSchema": {"type": "object"}});
    let answer = json!({"type": "tool_result", "toolUseId": "1", "content": [text], "structuredContent": [1]});
    let questions = [
        json!({"maxTokens": 1, "messages": [{"role": "user", "content": text}], "task": {}}),
        json!({"maxTokens": 1, "messages": [{"role": "user", "content": [text, audio]}], "_meta": {"progressToken": 1}}),
        json!({"maxTokens": 1, "messages": [{"role": "user", "content": [answer]}], "tools": [tool]}),
    ];
    let fits = |to: Revision, method: &str, params: String| {
        let params: Value = serde_json::from_str(&params).unwrap();
        let (definition, message) = match to.era() {
            Era::Legacy => (
                "ServerRequest",
                json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}),
            ),
            Era::Modern => ("InputRequest", json!({"method": method, "params": params})),
        };
        assert_eq!(wire::problems(to, definition, &message), [""; 0], "{message} for {to}");
        assert!(params.get("task").is_none() && params.get("_meta").is_none());
    };
    let mut asked = 0;
    for to in Revision::ALL {
        let forms = forms
            .iter()
            .filter_map(|form| elicitation::params(&form.to_string(), to, "e-1").ok());
        let questions = questions
            .iter()
            .filter_map(|question| sampling::params(&question.to_string(), to).ok());
        for params in forms {
            fits(to, "elicitation/create", params);
            asked += 1;
        }
        for params in questions {
            fits(to, "sampling/createMessage", params);
            asked += 1;
        }
    }
    assert_eq!(
        asked,
        (3 + 5 + 5) + (2 + 2 + 2 + 3 + 3),
        "no more is refused than must be"
    );
}
