//! Servers that fail to give one list while they give the others, or list too much.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use mcpfleet::fleet::UpstreamState;
use mcpfleet::mcp::Revision;
use mcpfleet::upstream::{Endpoint, StdioCommand};
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::support::gateway::{TestGateway, plan};
use crate::support::held::{Tools, eventually};
use crate::support::upstream::{self, Answer, Seen, Upstream};

type Script = fn(&Seen) -> Answer;

/// A server of each list, with one entry each; `fails` answers what is asked for prompts while `is_ill`.
async fn server(tools: &Tools, is_ill: &Arc<AtomicBool>, fails: Script) -> Upstream {
    let (tools, is_ill) = (tools.clone(), Arc::clone(is_ill));
    let whole = |seen: &Seen, list: &str, entries: Value| {
        seen.result(json!({"resultType": "complete", list: entries, "ttlMs": 0, "cacheScope": "private"}))
    };
    Upstream::start(move |seen| match seen.method() {
        "server/discover" => seen.result(json!({
            "resultType": "complete", "supportedVersions": ["2026-07-28"], "ttlMs": 0, "cacheScope": "private",
            "capabilities": {"tools": {}, "resources": {}, "prompts": {}},
            "_meta": {"io.modelcontextprotocol/serverInfo": {"name": "s", "version": "1"}},
        })),
        "prompts/list" if is_ill.load(Ordering::SeqCst) => fails(seen),
        "prompts/list" => whole(seen, "prompts", json!([{"name": "brief"}])),
        "resources/list" => whole(seen, "resources", json!([{"name": "r", "uri": "memo://r"}])),
        "resources/templates/list" => whole(seen, "resourceTemplates", json!([])),
        _ => upstream::modern(seen, &tools.list()),
    })
    .await
}

/// What is listed of tools, resources and prompts.
async fn listed(gateway: &TestGateway) -> [usize; 3] {
    let mut counts = [0; 3];
    for (count, list) in counts.iter_mut().zip(["tools", "resources", "prompts"]) {
        let answer = gateway
            .ask(Revision::LATEST_LEGACY, &format!("{list}/list"), json!({}))
            .await;
        *count = answer["result"][list].as_array().unwrap().len();
    }
    counts
}

#[tokio::test]
async fn a_list_that_a_server_fails_to_give_is_missing_alone_until_it_gives_it() {
    let fails: [(Script, &str); 6] = [
        (|_| Answer::Hang, "no answer to prompts/list within 400ms"),
        (|_| Answer::status(503), "503"),
        (|_| Answer::status(404), "404"),
        (|_| Answer::status(401), "401"),
        (|_| Answer::status(403), "403"),
        (|seen| seen.result(json!({"prompts": null})), "malformed"),
    ];
    for (fails, words) in fails {
        let (tools, is_ill) = (Tools::default(), Arc::new(AtomicBool::new(true)));
        tools.add("one");
        let server = server(&tools, &is_ill, fails).await;
        let mut input = plan(&[("s", server.address)]);
        input.servers[0].terms.timeouts.list = Some(Duration::from_millis(400));
        let mut gateway = TestGateway::start(input).await;
        let seen = gateway
            .until(|o| o.servers.values().all(|s| s.state == UpstreamState::Ready))
            .await;
        let catalog = seen.servers.values().next().unwrap().catalog.clone().unwrap();
        assert!(!catalog.complete && catalog.withheld.len() == 1, "{catalog:?}");
        assert_eq!(catalog.withheld[0].name, "prompts/list");
        assert!(catalog.withheld[0].reason.contains(words), "{catalog:?}");
        assert_eq!(listed(&gateway).await, [1, 1, 0]);
        let asked = server.seen_of("prompts/list").len();
        is_ill.store(false, Ordering::SeqCst);
        let whole = gateway
            .until(|o| {
                o.servers
                    .values()
                    .all(|s| s.catalog.as_ref().is_some_and(|c| c.complete))
            })
            .await;
        assert!(
            whole
                .servers
                .values()
                .all(|s| s.catalog.as_ref().unwrap().withheld.is_empty())
        );
        assert_eq!(listed(&gateway).await, [1, 1, 1]);
        assert!(server.seen_of("prompts/list").len() > asked);
        assert_eq!(
            server.seen_of("server/discover").len(),
            1,
            "over the same connection: {words}"
        );
        gateway.stop().await;
    }
}

#[tokio::test]
async fn what_was_listed_stays_while_a_list_hangs_and_a_change_of_others_does_not_wait_for_it() {
    let (tools, is_ill) = (Tools::default(), Arc::new(AtomicBool::new(false)));
    tools.add("one");
    let server = server(&tools, &is_ill, |_| Answer::Hang).await;
    let mut input = plan(&[("s", server.address)]);
    input.servers[0].terms.timeouts.list = Some(Duration::from_secs(2));
    input.servers[0].terms.freshness.ttl = Duration::ZERO;
    let mut gateway = TestGateway::start(input).await;
    gateway
        .until(|o| o.federations.values().all(|f| f.index.prompts == 1))
        .await;
    is_ill.store(true, Ordering::SeqCst);
    gateway
        .until(|o| {
            o.servers
                .values()
                .all(|s| s.catalog.as_ref().is_some_and(|c| !c.complete))
        })
        .await;
    assert_eq!(listed(&gateway).await, [1, 1, 1]);
    // It is asked for again after a second, and then after two.
    eventually("asked again", || server.seen_of("prompts/list").len() >= 3).await;
    tokio::time::sleep(Duration::from_millis(2_100)).await;
    tools.add("two");
    let since = Instant::now();
    gateway
        .until(|o| o.federations.values().all(|f| f.index.tools == 2))
        .await;
    assert!(since.elapsed() < Duration::from_secs(2), "{:?}", since.elapsed());
    assert_eq!(listed(&gateway).await, [2, 1, 1]);
}

#[tokio::test]
async fn lists_that_hang_are_waited_for_together_at_first_and_later() {
    let (tools, is_ill) = (Tools::default(), Arc::new(AtomicBool::new(true)));
    tools.add("one");
    let (own, ill) = (tools.clone(), Arc::clone(&is_ill));
    let server = Upstream::start(move |seen| match seen.method() {
        "server/discover" => seen.result(json!({
            "resultType": "complete", "supportedVersions": ["2026-07-28"], "ttlMs": 0, "cacheScope": "private",
            "capabilities": {"tools": {}, "resources": {}, "prompts": {}},
            "_meta": {"io.modelcontextprotocol/serverInfo": {"name": "s", "version": "1"}},
        })),
        "tools/list" => upstream::modern(seen, &own.list()),
        _ if ill.load(Ordering::SeqCst) => Answer::Hang,
        "prompts/list" => seen.result(json!({
            "resultType": "complete", "prompts": [{"name": "brief"}], "ttlMs": 0, "cacheScope": "private",
        })),
        "resources/list" => seen.result(json!({
            "resultType": "complete", "resources": [], "ttlMs": 0, "cacheScope": "private",
        })),
        _ => seen.result(json!({
            "resultType": "complete", "resourceTemplates": [], "ttlMs": 0, "cacheScope": "private",
        })),
    })
    .await;
    let limit = Duration::from_secs(2);
    let mut input = plan(&[("s", server.address)]);
    input.servers[0].terms.timeouts.list = Some(limit);
    input.servers[0].terms.freshness.ttl = Duration::ZERO;
    let begun = Instant::now();
    let mut gateway = TestGateway::start(input).await;
    let seen = gateway
        .until(|o| o.servers.values().all(|s| s.state == UpstreamState::Ready))
        .await;
    assert!(begun.elapsed() < 2 * limit, "{:?}", begun.elapsed());
    let catalog = seen.servers.values().next().unwrap().catalog.clone().unwrap();
    let withheld: Vec<_> = catalog.withheld.iter().map(|entry| entry.name.as_str()).collect();
    assert_eq!(withheld, ["prompts/list", "resources/templates/list", "resources/list"]);
    is_ill.store(false, Ordering::SeqCst);
    gateway
        .until(|o| {
            o.servers
                .values()
                .all(|s| s.catalog.as_ref().is_some_and(|c| c.complete))
        })
        .await;
    is_ill.store(true, Ordering::SeqCst);
    let begun = Instant::now();
    gateway
        .until(|o| {
            o.servers
                .values()
                .all(|s| s.catalog.as_ref().is_some_and(|c| !c.complete))
        })
        .await;
    assert!(begun.elapsed() < 2 * limit, "{:?}", begun.elapsed());
    assert_eq!(listed(&gateway).await, [1, 0, 1]);
}

/// Answers one thing after the other, and takes its time for each.
const ONE_BY_ONE: &str = r#"
import json, sys, time
lists = {"tools/list": "tools", "prompts/list": "prompts", "resources/list": "resources", "resources/templates/list": "resourceTemplates"}
for line in sys.stdin:
    r = json.loads(line)
    method = r.get("method")
    if "id" not in r: continue
    if method == "initialize": result = {"protocolVersion": "2025-06-18", "serverInfo": {"name": "s", "version": "1"}, "capabilities": {"tools": {}, "prompts": {}, "resources": {}}}
    elif method in lists:
        time.sleep(0.8)
        entry = {"name": "n", "uri": "memo://r", "uriTemplate": "memo://{r}", "inputSchema": {"type": "object"}}
        result = {lists[method]: [entry]}
    else:
        print(json.dumps({"jsonrpc": "2.0", "id": r["id"], "error": {"code": -32601, "message": "no"}}), flush=True)
        continue
    print(json.dumps({"jsonrpc": "2.0", "id": r["id"], "result": result}), flush=True)
"#;

#[tokio::test]
async fn a_process_that_answers_one_thing_after_the_other_gives_all_its_lists() {
    let mut input = plan(&[("s", "127.0.0.1:1".parse().unwrap())]);
    let args = ["-c", ONE_BY_ONE].map(str::to_owned);
    input.servers[0].endpoint = Ok(Endpoint::Stdio(StdioCommand {
        program: "python3".into(),
        args: args.into(),
        env: Default::default(),
        cwd: None,
    }));
    // Shorter than it takes for all, and longer than for one.
    input.servers[0].terms.timeouts.list = Some(Duration::from_millis(2_000));
    let mut gateway = TestGateway::start(input).await;
    let seen = gateway
        .until(|o| o.servers.values().all(|s| s.state == UpstreamState::Ready))
        .await;
    let catalog = seen.servers.values().next().unwrap().catalog.clone().unwrap();
    assert!(catalog.complete && catalog.withheld.is_empty(), "{catalog:?}");
    assert_eq!(listed(&gateway).await, [1, 1, 1]);
}

#[tokio::test]
async fn a_server_that_gives_none_of_its_lists_has_failed() {
    let server = Upstream::start(|seen| match seen.method() {
        "server/discover" => seen.result(json!({
            "resultType": "complete", "supportedVersions": ["2026-07-28"], "ttlMs": 0, "cacheScope": "private",
            "capabilities": {"resources": {}, "prompts": {}},
            "_meta": {"io.modelcontextprotocol/serverInfo": {"name": "s", "version": "1"}},
        })),
        _ => Answer::status(503),
    })
    .await;
    let mut gateway = TestGateway::start(plan(&[("s", server.address)])).await;
    gateway
        .until(|o| {
            o.servers.values().all(|s| {
                matches!(
                    s.state,
                    UpstreamState::Failed {
                        reason: "BadStatus",
                        ..
                    }
                )
            })
        })
        .await;
}

#[tokio::test]
async fn a_name_that_a_server_lists_twice_is_offered_once_and_told_of() {
    let server = Upstream::start(|seen| {
        let tool =
            |description: &str| json!({"name": "same", "description": description, "inputSchema": {"type": "object"}});
        upstream::modern(seen, &json!([tool("first"), tool("second")]))
    })
    .await;
    let mut gateway = TestGateway::ready(&[("s", server.address)]).await;
    let seen = gateway.until(|_| true).await;
    let catalog = seen.servers.values().next().unwrap().catalog.clone().unwrap();
    assert_eq!((catalog.tools, catalog.complete, catalog.withheld.len()), (1, true, 1));
    assert_eq!(catalog.withheld[0].name, "same");
    assert!(catalog.withheld[0].reason.contains("twice"), "{catalog:?}");
    let listed = gateway.modern("tools/list", json!({})).await;
    assert_eq!(listed["result"]["tools"][0]["description"], "first");
}
