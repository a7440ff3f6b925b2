//! Entries of lists that clients could not read: mended where all know what is meant, left out otherwise, so that no
//! client has to refuse a whole list for one of them. That what is served fits the schema of its revision is held
//! against all that the gateway sends.

use mcpfleet::mcp::Revision;
use serde_json::{Value, json};

use crate::support::gateway::TestGateway;
use crate::support::upstream::{self, Upstream};

/// What a server lists: what is served of it, however odd, and what is not.
fn lists() -> [(&'static str, Vec<Value>, Vec<Value>); 4] {
    let schema = json!({"type": "object"});
    let tool = |name: &str, more: Value| {
        let mut tool = json!({"name": name, "inputSchema": schema});
        tool.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        tool
    };
    let nothing = json!({"title": null, "description": null, "icons": null, "_meta": null, "annotations": null});
    let tools = vec![
        tool("nulls", nothing.clone()),
        tool(
            "deep-nulls",
            json!({"annotations": {"title": null}, "icons": [{"src": "a:b", "mimeType": null, "sizes": null}]}),
        ),
        tool(
            "no-properties",
            json!({"inputSchema": {"type": "object", "properties": null, "required": null}}),
        ),
        tool(
            "boolean-schemas",
            json!({"inputSchema": {"type": "object", "properties": {"a": true, "b": false}}}),
        ),
    ];
    let bad_tools = vec![
        tool("list", json!({"inputSchema": {"type": "object", "properties": []}})),
        tool(
            "word",
            json!({"inputSchema": {"type": "object", "properties": {"a": "string"}}}),
        ),
        tool("title", json!({"title": 5})),
        tool("icons", json!({"icons": [{"mimeType": "image/png"}]})),
        tool("meta", json!({"_meta": []})),
        tool("hint", json!({"annotations": {"readOnlyHint": "yes"}})),
        tool("execution", json!({"execution": "later"})),
        tool(
            "output",
            json!({"outputSchema": {"type": "object", "properties": {"a": {"enum": []}}}}),
        ),
    ];
    let mut resource = json!({"uri": "memo://nulls", "name": null, "mimeType": null, "size": null});
    resource
        .as_object_mut()
        .unwrap()
        .extend(nothing.as_object().unwrap().clone());
    let resources = vec![resource, json!({"uri": "memo://bare"})];
    let bad_resources = vec![
        json!({"uri": "memo", "name": "no URI"}),
        json!({"uri": "memo://1", "name": 1}),
        json!({"uri": "memo://2", "name": "n", "size": "2"}),
        json!({"uri": "memo://3", "name": "n", "annotations": {"audience": "user"}}),
    ];
    let templates = vec![json!({"uriTemplate": "memo://{bare}", "mimeType": null})];
    let bad_templates = vec![json!({"uriTemplate": "memo://{a}", "name": "n", "description": {}})];
    let prompts = vec![
        json!({"name": "nulls", "arguments": [{"name": "a", "required": null}]}),
        json!({"name": "none", "arguments": null}),
    ];
    let bad_prompts = vec![
        json!({"name": "map", "arguments": {"a": {}}}),
        json!({"name": "nameless", "arguments": [{"description": "d"}]}),
        json!({"name": "required", "arguments": [{"name": "a", "required": "no"}]}),
    ];
    [
        ("tools", tools, bad_tools),
        ("resources", resources, bad_resources),
        ("resourceTemplates", templates, bad_templates),
        ("prompts", prompts, bad_prompts),
    ]
}

#[tokio::test]
async fn no_entry_that_clients_could_not_read_reaches_their_lists_and_each_is_named() {
    let server = Upstream::start(|seen| {
        let list = |place: usize| {
            let (member, good, bad) = lists()[place].clone();
            let all = [bad, good].concat();
            json!({member: all})
        };
        match seen.method() {
            "initialize" => seen.result(json!({
                "protocolVersion": "2025-11-25", "capabilities": {"tools": {}, "resources": {}, "prompts": {}},
                "serverInfo": {"name": "odd", "version": "1"},
            })),
            "tools/list" => seen.result(list(0)),
            "resources/list" => seen.result(list(1)),
            "resources/templates/list" => seen.result(list(2)),
            "prompts/list" => seen.result(list(3)),
            _ => upstream::legacy(seen, &json!([])),
        }
    })
    .await;
    let mut gateway = TestGateway::ready(&[("odd", server.address)]).await;
    for revision in Revision::ALL {
        for (method, (member, good, _)) in [
            "tools/list",
            "resources/list",
            "resources/templates/list",
            "prompts/list",
        ]
        .into_iter()
        .zip(lists())
        {
            let served = gateway.ask(revision, method, json!({})).await["result"][member].take();
            assert_eq!(
                served.as_array().map(Vec::len),
                Some(good.len()),
                "{revision} {method}: {served}"
            );
        }
    }
    let resources = gateway.legacy("resources/list", json!({})).await;
    assert_eq!(
        resources["result"]["resources"],
        json!([{"uri": "memo://bare", "name": "memo://bare"}, {"uri": "memo://nulls", "name": "memo://nulls"}])
    );
    let observed = gateway.until(|_| true).await;
    let catalog = observed.servers.values().next().unwrap().catalog.clone().unwrap();
    let withheld: Vec<_> = catalog.withheld.iter().map(|entry| entry.name.as_str()).collect();
    let bad = lists().into_iter().flat_map(|(_, _, bad)| bad);
    let key = |entry: &Value| {
        let keys = ["uri", "uriTemplate", "name"].map(|key| entry[key].as_str().map(str::to_owned));
        keys.into_iter().flatten().next().unwrap()
    };
    assert_eq!(withheld, bad.map(|entry| key(&entry)).collect::<Vec<_>>());
}
