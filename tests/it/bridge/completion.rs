//! Arguments are completed by whoever owns what they are of.

use mcpfleet::mcp::Revision;
use serde_json::{Value, json};

use super::greeting::with;
use crate::support::gateway::TestGateway;
use crate::support::upstream::{self, Answer, Seen, Upstream};

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
