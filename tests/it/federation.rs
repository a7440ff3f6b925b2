//! What clients see of a federation: pages, names, filters, rules, and what it says of itself.

use std::time::Duration;

use mcpfleet::fleet::PlanInput;
use mcpfleet::mcp::Revision;
use serde_json::{Value, json};

use crate::access::{ALICE, BOB, alice_and_bob, by_key, keys};
use crate::support::event_stream::EventStream;
use crate::support::gateway::{TestGateway, plan, plan_with};
use crate::support::http;
use crate::support::upstream::{self, Answer, Upstream};

const LEGACY: Revision = Revision::LATEST_LEGACY;

fn tools(names: impl IntoIterator<Item = String>) -> Value {
    let tools = names
        .into_iter()
        .map(|name| json!({"name": name, "inputSchema": {"type": "object"}}));
    tools.collect()
}

async fn server(names: &[&str]) -> Upstream {
    let tools = tools(names.iter().map(|name| (*name).to_owned()));
    Upstream::start(move |seen| upstream::modern(seen, &tools)).await
}

async fn numbered(range: std::ops::Range<usize>) -> Upstream {
    let tools = tools(range.map(|i| format!("t{i:02}")));
    Upstream::start(move |seen| upstream::legacy(seen, &tools)).await
}

/// One page: the names on it, and the cursor of the next.
fn page(result: &Value) -> (Vec<String>, Option<String>) {
    let tools = result["tools"].as_array().unwrap().iter();
    let names = tools.map(|tool| tool["name"].as_str().unwrap().to_owned());
    (names.collect(), result["nextCursor"].as_str().map(str::to_owned))
}

async fn listed(gateway: &TestGateway, revision: Revision, cursor: Option<&str>) -> Value {
    let params = cursor.map_or_else(|| json!({}), |cursor| json!({"cursor": cursor}));
    gateway.ask(revision, "tools/list", params).await
}

async fn names(gateway: &TestGateway) -> Vec<String> {
    page(&listed(gateway, LEGACY, None).await["result"]).0
}

#[tokio::test]
async fn clients_of_both_eras_follow_pages_to_the_end_and_nothing_is_on_two() {
    let (first, second) = (numbered(0..15).await, numbered(0..10).await);
    let servers = [("a", first.address), ("b", second.address)];
    let gateway = TestGateway::ready_with(&servers, json!({"limits": {"pageSize": 10}})).await;
    for revision in [LEGACY, Revision::LATEST] {
        let (mut all, mut sizes, mut cursor) = (Vec::new(), Vec::new(), None::<String>);
        loop {
            let answer = listed(&gateway, revision, cursor.as_deref()).await;
            let (names, next) = page(&answer["result"]);
            sizes.push(names.len());
            all.extend(names);
            cursor = next;
            if cursor.is_none() {
                break;
            }
        }
        assert_eq!(sizes, [10, 10, 5], "{revision}");
        assert!(all.is_sorted() && all.iter().collect::<std::collections::HashSet<_>>().len() == 25);
        for foreign in ["no-such", ""] {
            let refused = listed(&gateway, revision, Some(foreign)).await;
            assert_eq!(refused["error"]["code"], -32602, "{foreign:?}");
        }
    }
}

#[tokio::test]
async fn a_cursor_is_good_after_the_fleet_has_changed_and_for_its_list_alone() {
    let (first, second) = (numbered(0..15).await, numbered(0..10).await);
    let servers = [("a", first.address), ("b", second.address)];
    let paged = json!({"limits": {"pageSize": 10}});
    let mut gateway = TestGateway::ready_with(&servers, paged.clone()).await;
    let (_, next) = page(&listed(&gateway, LEGACY, None).await["result"]);
    let next = next.unwrap();
    let foreign = gateway.ask(LEGACY, "prompts/list", json!({"cursor": next})).await;
    assert_eq!(foreign["error"]["code"], -32602);

    let third = numbered(0..1).await;
    let more = [("a", first.address), ("aa", third.address), ("b", second.address)];
    gateway.input.send_replace(plan_with(&more, paged).into());
    gateway
        .until(|o| o.federations.values().all(|f| f.index.tools == 26))
        .await;
    let (names, _) = page(&listed(&gateway, LEGACY, Some(&next)).await["result"]);
    let expected: Vec<String> = (10..15)
        .map(|i| format!("a__t{i:02}"))
        .chain(["aa__t00".to_owned()])
        .chain((0..4).map(|i| format!("b__t{i:02}")))
        .collect();
    assert_eq!(names, expected);
}

#[tokio::test]
async fn names_that_clash_get_prefixes_and_calls_reach_their_server_by_the_original_name() {
    let (one, two) = (server(&["search", "only_one"]).await, server(&["search"]).await);
    let servers = [("one", one.address), ("two", two.address)];
    let gateway = TestGateway::ready_with(&servers, json!({"naming": {"prefix": "OnConflict"}})).await;
    assert_eq!(names(&gateway).await, ["one__search", "only_one", "two__search"]);
    for (name, owner, original) in [("two__search", &two, "search"), ("only_one", &one, "only_one")] {
        let answer = gateway
            .modern("tools/call", json!({"name": name, "arguments": {}}))
            .await;
        assert!(answer["result"].is_object(), "{answer}");
        let calls = owner.seen_of("tools/call");
        let call = calls.last().unwrap();
        assert_eq!(call.body["params"]["name"], original);
        assert_eq!(call.header("mcp-name"), Some(original));
    }
}

fn with_member(spec: Value) -> Value {
    let mut member = json!({"name": "pods", "server": {"name": "pods"}});
    for (name, value) in spec.as_object().unwrap() {
        member[name] = value.clone();
    }
    json!({"members": [member]})
}

#[tokio::test]
async fn what_is_filtered_is_neither_listed_nor_called() {
    let pods = server(&["logs", "restart"]).await;
    let spec = with_member(json!({"tools": {"allow": ["logs"]}}));
    let gateway = TestGateway::ready_with(&[("pods", pods.address)], spec).await;
    assert_eq!(names(&gateway).await, ["pods__logs"]);
    let refused = gateway
        .legacy("tools/call", json!({"name": "pods__restart", "arguments": {}}))
        .await;
    assert_eq!(refused["error"]["code"], -32602);
    assert!(pods.seen_of("tools/call").is_empty());
}

#[tokio::test]
async fn an_edited_filter_or_override_is_told_once_and_nothing_where_nothing_visible_changed() {
    let pods = server(&["logs", "restart"]).await;
    let servers = [("pods", pods.address)];
    let gateway = TestGateway::ready(&servers).await;
    let session = gateway.open_session(LEGACY).await;
    let mut legacy = gateway.get_events(&session, LEGACY, None).await;
    legacy.event().await.unwrap();
    let mut modern = listen(&gateway).await;
    let edit = |spec: Value| {
        gateway
            .input
            .send_replace(plan_with(&servers, with_member(spec)).into())
    };
    for spec in [
        json!({"tools": {"deny": ["restart"]}}),
        json!({"tools": {"deny": ["restart"], "overrides": [{"name": "logs", "description": "ours"}]}}),
        json!({}),
    ] {
        edit(spec);
        for stream in [&mut legacy, &mut modern] {
            let told = stream.message().await.unwrap();
            assert_eq!(told["method"], "notifications/tools/list_changed");
        }
        tokio::time::sleep(Duration::from_millis(150)).await;
    }
    edit(json!({"tools": {"deny": ["no-such"]}}));
    for stream in [&mut legacy, &mut modern] {
        assert_eq!(stream.message_within(Duration::from_millis(400)).await, None);
    }
}

async fn listen(gateway: &TestGateway) -> EventStream {
    let params = json!({"notifications": {"toolsListChanged": true}});
    let mut stream = gateway.modern_events(json!(1), "subscriptions/listen", params).await;
    stream.message().await.unwrap();
    stream
}

/// A plan by which Alice may use everything, and Bob what is called `a` or in `also`.
fn ruled(servers: &[(&str, std::net::SocketAddr)], also: &str) -> PlanInput {
    let mut plan = by_key(plan(servers), alice_and_bob());
    let rules = json!([{"principals": ["alice"]}, {"principals": ["bob"], "members": ["s"], "names": ["a", also]}]);
    let access = plan.federations[0].spec.access.as_mut().unwrap();
    access.rules = serde_json::from_value(rules).unwrap();
    plan
}

async fn seen_by(gateway: &TestGateway, key: (&str, &str)) -> (Vec<String>, Value) {
    let meta = json!({"io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {}});
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {"_meta": meta}});
    let headers = [
        ("mcp-protocol-version", "2026-07-28"),
        ("mcp-method", "tools/list"),
        key,
    ];
    let reply = gateway.bare_post(&body.to_string(), headers).await.json();
    (page(&reply["result"]).0, reply["result"]["cacheScope"].clone())
}

#[tokio::test]
async fn each_caller_sees_and_calls_what_a_rule_for_them_covers_and_hears_of_nothing_else() {
    let s = server(&["a", "b", "c"]).await;
    let servers = [("s", s.address)];
    let mut gateway = TestGateway::start(ruled(&servers, "none")).await;
    gateway
        .until(|o| o.federations.values().all(|f| f.index.tools == 3))
        .await;
    let all = ["s__a", "s__b", "s__c"].map(str::to_owned).to_vec();
    assert_eq!(seen_by(&gateway, ALICE).await, (all.clone(), json!("private")));
    assert_eq!(
        seen_by(&gateway, BOB).await,
        (vec!["s__a".to_owned()], json!("private"))
    );

    let mut streams = Vec::new();
    for key in [ALICE, BOB] {
        let session = http::open_session(&http::client(), &gateway.url(), LEGACY, &[key])
            .await
            .unwrap();
        let call =
            json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "s__b", "arguments": {}}});
        let answer = gateway
            .bare_post(&call.to_string(), [("mcp-session-id", session.as_str()), key])
            .await
            .json();
        assert_eq!(answer["result"].is_object(), key == ALICE, "{answer}");
        let request = ::http::Request::get(gateway.url())
            .header("accept", "text/event-stream")
            .header("mcp-session-id", &session)
            .header("mcp-protocol-version", LEGACY.as_str())
            .header(key.0, key.1);
        let mut stream = EventStream::open(&gateway.client, request.body(Default::default()).unwrap()).await;
        stream.event().await.unwrap();
        streams.push(stream);
    }
    assert_eq!(s.seen_of("tools/call").len(), 1);

    gateway.input.send_replace(ruled(&servers, "b").into());
    let [alice, bob] = &mut streams[..] else { unreachable!() };
    assert_eq!(
        bob.message().await.unwrap()["method"],
        "notifications/tools/list_changed"
    );
    assert_eq!(
        alice.message_within(Duration::from_millis(300)).await,
        None,
        "nothing changed for her"
    );
    assert_eq!(seen_by(&gateway, BOB).await.0, ["s__a", "s__b"]);
    assert_eq!(seen_by(&gateway, ALICE).await.0, all);
}

#[tokio::test]
async fn nobody_is_served_the_list_of_another_however_warm_it_is() {
    let s = server(&["a", "b", "c"]).await;
    let mut plan = by_key(
        plan_with(&[("s", s.address)], json!({"limits": {"pageSize": 1}})),
        keys(&[
            ("alice", "key-of-alice"),
            ("bob", "key-of-bob"),
            ("carol", "key-of-carol"),
        ]),
    );
    let rules = json!([{"principals": ["alice"], "names": ["a", "b"]}, {"principals": ["bob"], "names": ["a"]}]);
    plan.federations[0].spec.access.as_mut().unwrap().rules = serde_json::from_value(rules).unwrap();
    let mut gateway = TestGateway::start(plan).await;
    gateway
        .until(|o| o.federations.values().all(|f| f.index.tools == 2))
        .await;
    const CAROL: (&str, &str) = ("x-api-key", "key-of-carol");
    let ask = async |key: (&str, &str), revision: Revision, method: &str, params: Value| {
        let mut headers = vec![key];
        let mut params = params;
        let session;
        if revision == LEGACY {
            session = http::open_session(&gateway.client, &gateway.url(), LEGACY, &[key])
                .await
                .unwrap();
            headers.extend([
                ("mcp-session-id", session.as_str()),
                ("mcp-protocol-version", LEGACY.as_str()),
            ]);
        } else {
            params["_meta"] = json!({"io.modelcontextprotocol/protocolVersion": "2026-07-28",
                "io.modelcontextprotocol/clientCapabilities": {}});
            headers.extend([("mcp-protocol-version", "2026-07-28"), ("mcp-method", method)]);
            headers.extend((method == "tools/call").then_some(("mcp-name", "tool_search")));
        }
        let body = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
        gateway.bare_post(&body.to_string(), headers).await.json()["result"].take()
    };
    let mut cursor = None;
    for revision in [LEGACY, Revision::LATEST, LEGACY, Revision::LATEST] {
        for (key, expected) in [(ALICE, &["s__a", "s__b"][..]), (BOB, &["s__a"]), (CAROL, &[])] {
            let (mut seen, mut params) = (Vec::new(), json!({}));
            loop {
                let result = ask(key, revision, "tools/list", params).await;
                seen.extend(page(&result).0);
                if revision == Revision::LATEST {
                    assert_eq!(result["cacheScope"], "private");
                }
                match result.get("nextCursor") {
                    Some(next) => params = json!({"cursor": next}),
                    None => break,
                }
                cursor = Some(params.clone());
            }
            assert_eq!(seen, expected, "{key:?} {revision}");
            let found = ask(
                key,
                revision,
                "tools/call",
                json!({"name": "tool_search", "arguments": {}}),
            )
            .await;
            let text = found["content"][0]["text"].as_str().unwrap();
            for name in ["s__a", "s__b", "s__c"] {
                assert_eq!(text.contains(name), expected.contains(&name), "{key:?} finds {text}");
            }
            // Where another has left off, nothing more is shown than there is for oneself.
            let behind = ask(key, revision, "tools/list", cursor.clone().unwrap()).await;
            let behind = behind["tools"].as_array().map_or(0, Vec::len);
            assert!(behind <= expected.len().saturating_sub(1), "{key:?}");
        }
    }
}

fn instructed(seen: &upstream::Seen) -> Answer {
    match seen.method() {
        "initialize" => seen
            .result(json!({
                "protocolVersion": "2025-11-25", "capabilities": {"tools": {}},
                "serverInfo": {"name": "s", "version": "1"}, "instructions": "Search first.\n## other\nThen call.",
            }))
            .with_header("mcp-session-id", "s-1"),
        _ => upstream::legacy(seen, &json!([])),
    }
}

#[tokio::test]
async fn a_federation_says_who_it_is_and_how_its_servers_want_to_be_used() {
    let server = Upstream::start(instructed).await;
    let icons = json!([{"src": "https://a.example/i.png", "mimeType": "image/png"}]);
    let identity =
        json!({"name": "ops", "title": "Operations", "version": "3", "icons": icons, "instructions": "Be brief."});
    let spec = json!({"identity": identity});
    let gateway = TestGateway::ready_with(&[("gh", server.address)], spec).await;
    let info = json!({"name": "ops", "title": "Operations", "version": "3", "icons": icons});
    let text = "Be brief.\n\n## gh\n\nSearch first. ## other Then call.";

    let params =
        json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "c", "version": "1"}});
    let initialized = gateway.ask(LEGACY, "initialize", params).await;
    assert_eq!(initialized["result"]["serverInfo"], info);
    assert_eq!(initialized["result"]["instructions"], text);
    let discovered = gateway.modern("server/discover", json!({})).await;
    assert_eq!(discovered["result"]["instructions"], text);
    let listed = gateway.modern("tools/list", json!({})).await;
    assert_eq!(listed["result"]["_meta"]["io.modelcontextprotocol/serverInfo"], info);
}

#[tokio::test]
async fn texts_of_json_become_toon_where_a_federation_wants_it_and_all_else_stays() {
    let result = json!({
        "content": [
            {"type": "text", "text": "{\"pods\":[{\"name\":\"api\",\"restarts\":0},{\"name\":\"db\",\"restarts\":2}]}"},
            {"type": "text", "text": "plain"},
        ],
        "structuredContent": {"a": [1]},
    });
    let given = result.clone();
    let server = Upstream::start(move |seen| match seen.method() {
        "tools/call" => seen.result(given.clone()),
        _ => upstream::legacy(seen, &json!([{"name": "t", "inputSchema": {"type": "object"}}])),
    })
    .await;
    let call = json!({"name": "s__t", "arguments": {}});
    for (spec, text) in [
        (
            json!({"results": {"encoding": "TOON"}}),
            "pods[2]{name,restarts}:\n  api,0\n  db,2",
        ),
        (json!({}), result["content"][0]["text"].as_str().unwrap()),
    ] {
        let gateway = TestGateway::ready_with(&[("s", server.address)], spec).await;
        let told = gateway.legacy("tools/call", call.clone()).await["result"].take();
        assert_eq!(told["content"][0]["text"], text);
        assert_eq!(told["content"][1], result["content"][1]);
        assert_eq!(told["structuredContent"], result["structuredContent"]);
    }
}

#[tokio::test]
async fn a_tool_with_a_schema_that_clients_choke_on_is_withheld_and_nothing_else_unless_its_server_is_to_be() {
    let bad = json!([
        {"name": "good", "inputSchema": {"type": "object"}},
        {"name": "typed", "inputSchema": {"type": "int"}},
        {"name": "lost", "inputSchema": {"type": "object", "properties": {"a": {"$ref": "#/$defs/gone"}}}},
    ]);
    let first = Upstream::start(move |seen| upstream::modern(seen, &bad)).await;
    let second = server(&["x", "y"]).await;
    let servers = [("a", first.address), ("b", second.address)];
    let mut gateway = TestGateway::ready(&servers).await;
    assert_eq!(names(&gateway).await, ["a__good", "b__x", "b__y"]);
    let observed = gateway.until(|_| true).await;
    let catalog = observed
        .servers
        .values()
        .find_map(|server| server.catalog.clone().filter(|c| c.tools == 1));
    let withheld = catalog.unwrap().withheld;
    let told: Vec<_> = withheld.iter().map(|tool| (&*tool.name, &*tool.reason)).collect();
    let [("typed", typed), ("lost", lost)] = told[..] else {
        panic!("{told:?}")
    };
    assert!(
        typed.contains("type \"object\"") && lost.contains("properties/a"),
        "{told:?}"
    );
    let page = gateway.metrics_page();
    for line in [
        r#"mcpfleet_catalog_withheld{server="default/a"} 2"#,
        r#"mcpfleet_catalog_withheld{server="default/b"} 0"#,
    ] {
        assert!(page.contains(line), "{line} in {page}");
    }

    let mut strict = plan(&servers);
    strict.servers[0].terms.withholds_whole = true;
    gateway.input.send_replace(strict.into());
    gateway
        .until(|o| o.federations.values().all(|f| f.index.tools == 2))
        .await;
    assert_eq!(names(&gateway).await, ["b__x", "b__y"]);
}

#[tokio::test]
async fn legacy_clients_are_told_by_both_names_where_a_federation_wants_it_and_modern_ones_by_one() {
    let pods = server(&["logs"]).await;
    let both = json!({"notifications": {"legacyNames": "Both"}});
    let gateway = TestGateway::start(plan_with(&[], both.clone())).await;
    let session = gateway.open_session(LEGACY).await;
    let mut legacy = gateway.get_events(&session, LEGACY, None).await;
    legacy.event().await.unwrap();
    let mut modern = listen(&gateway).await;
    gateway
        .input
        .send_replace(plan_with(&[("pods", pods.address)], both).into());
    for method in ["notifications/tools/list_changed", "notifications/tools/listChanged"] {
        assert_eq!(legacy.message().await.unwrap()["method"], method);
    }
    assert_eq!(
        modern.message().await.unwrap()["method"],
        "notifications/tools/list_changed"
    );
    for stream in [&mut legacy, &mut modern] {
        assert_eq!(stream.message_within(Duration::from_millis(300)).await, None);
    }
}

#[tokio::test]
async fn instructions_of_members_are_for_those_who_may_use_them() {
    let server = Upstream::start(instructed).await;
    let mut plan = by_key(plan(&[("s", server.address)]), alice_and_bob());
    let access = plan.federations[0].spec.access.as_mut().unwrap();
    access.rules =
        serde_json::from_value(json!([{"principals": ["alice"]}, {"principals": ["bob"], "members": ["t"]}])).unwrap();
    let mut gateway = TestGateway::start(plan).await;
    gateway
        .until(|o| {
            o.servers
                .values()
                .all(|s| s.state == mcpfleet::fleet::UpstreamState::Ready)
                && !o.servers.is_empty()
        })
        .await;
    let meta = json!({"io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {}});
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": "server/discover", "params": {"_meta": meta}});
    for key in [ALICE, BOB] {
        let headers = [
            ("mcp-protocol-version", "2026-07-28"),
            ("mcp-method", "server/discover"),
            key,
        ];
        let found = gateway.bare_post(&body.to_string(), headers).await.json()["result"].take();
        assert_eq!(found["instructions"].is_string(), key == ALICE, "{found}");
        assert_eq!(found["cacheScope"], "private");
    }
}
