//! One member of a federation alone, under the names that its server gives.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use ::http::Request;
use http_body_util::Full;
use mcpfleet::fleet::PlanInput;
use mcpfleet::mcp::Revision;
use serde_json::{Value, json};

use crate::access::{ALICE, BOB, alice_and_bob, by_key};
use crate::support::event_stream::EventStream;
use crate::support::gateway::{TestGateway, plan_with};
use crate::support::http;
use crate::support::shelf::Shelf;
use crate::support::upstream::Upstream;

const BOTH: [Revision; 2] = [Revision::LATEST_LEGACY, Revision::LATEST];
const WHILE: Duration = Duration::from_millis(400);

fn names(answer: &Value) -> Vec<&str> {
    let tools = answer["result"]["tools"]
        .as_array()
        .unwrap_or_else(|| panic!("{answer}"));
    tools.iter().map(|tool| tool["name"].as_str().unwrap()).collect()
}

/// Two servers with a tool, a resource and a template of the same name, and one more tool each.
async fn two() -> [Upstream; 2] {
    let shelf = |name: &str| {
        let mut shelf = Shelf::empty()
            .with_tool("same", json!({"description": format!("of {name}")}))
            .with_tool(&format!("only_{name}"), json!({}))
            .with("x://same", &format!("of {name}"))
            .with("x://unlisted", &format!("of {name}"));
        shelf.resources = vec![json!({"uri": "x://same", "name": name})];
        shelf.templates = vec![json!({"uriTemplate": "t://{id}", "name": name})];
        shelf
    };
    [shelf("a").legacy().await, shelf("b").modern().await]
}

#[tokio::test]
async fn a_member_alone_has_its_own_names_and_nothing_of_others() {
    let [a, b] = two().await;
    let mut gateway = TestGateway::ready(&[("a", a.address), ("b", b.address)]).await;
    for (member, server) in [("a", &a), ("b", &b)] {
        gateway.turn_to(&format!("default/fed/servers/{member}"));
        for revision in BOTH {
            let tools = gateway.ask(revision, "tools/list", json!({})).await;
            assert_eq!(names(&tools), [format!("only_{member}"), "same".to_owned()]);
            let called = gateway.ask(revision, "tools/call", json!({"name": "same"})).await;
            assert_eq!(called["result"]["content"][0]["text"], "same");
            for uri in ["x://same", "x://unlisted"] {
                let read = gateway.ask(revision, "resources/read", json!({"uri": uri})).await;
                assert_eq!(read["result"]["contents"][0]["text"], format!("of {member}"), "{uri}");
            }
            for list in ["resources", "resourceTemplates"] {
                let method = if list == "resources" {
                    "resources/list"
                } else {
                    "resources/templates/list"
                };
                let listed = gateway.ask(revision, method, json!({})).await;
                let of: Vec<&Value> = listed["result"][list].as_array().unwrap().iter().collect();
                assert_eq!(of.len(), 1);
                assert_eq!(of[0]["name"], member);
            }
            for other in ["only_b", "only_a", "a__same", "b__same"] {
                if other != format!("only_{member}") {
                    let answer = gateway.ask(revision, "tools/call", json!({"name": other})).await;
                    assert_eq!(answer["error"]["code"], -32602, "{answer}");
                }
            }
        }
        assert_eq!(server.seen_of("tools/call").len(), 2);
        assert_eq!(server.seen_of("resources/read").len(), 4);
    }
}

#[tokio::test]
async fn what_a_member_does_not_have_is_missing_though_another_has_it() {
    let a = Shelf::empty().legacy().await;
    let b = Shelf::empty()
        .with("x://1", "of b")
        .with("ui://b/v", "of b")
        .modern()
        .await;
    let mut gateway = TestGateway::ready(&[("a", a.address), ("b", b.address)]).await;
    gateway.turn_to("default/fed/servers/a");
    for (revision, code) in BOTH.into_iter().zip([-32002, -32602]) {
        for uri in ["x://1", "ui://b/v"] {
            let read = gateway.ask(revision, "resources/read", json!({"uri": uri})).await;
            assert_eq!(read["error"]["code"], code, "{read}");
            assert_eq!(read["error"]["data"], json!({"uri": uri}));
        }
    }
    assert_eq!(a.seen_of("resources/read").len(), 4);
    assert!(b.seen_of("resources/read").is_empty());
}

#[tokio::test]
async fn filters_and_rules_hold_and_only_names_are_the_servers() {
    let [a, b] = two().await;
    let members = json!([
        {"name": "a", "server": {"name": "a"}, "tools": {
            "deny": ["only_*"], "overrides": [{"name": "same", "as": "other", "description": "ours"}],
        }},
        {"name": "b", "server": {"name": "b"}},
    ]);
    let rules = json!([{"members": ["a"]}, {"members": ["b"], "names": ["same", "x://unlisted"]}]);
    let spec = json!({"members": members, "access": {"anonymous": {}, "rules": rules}});
    let mut gateway = TestGateway::ready_with(&[("a", a.address), ("b", b.address)], spec).await;
    let whole = gateway.legacy("tools/list", json!({})).await;
    assert_eq!(names(&whole), ["a__other", "b__same"]);
    gateway.turn_to("default/fed/servers/a");
    for revision in BOTH {
        let tools = gateway.ask(revision, "tools/list", json!({})).await;
        assert_eq!(names(&tools), ["same"]);
        assert_eq!(tools["result"]["tools"][0]["description"], "ours");
        for name in ["only_a", "other"] {
            let answer = gateway.ask(revision, "tools/call", json!({"name": name})).await;
            assert_eq!(answer["error"]["data"], json!({"name": name}));
        }
    }
    gateway.turn_to("default/fed/servers/b");
    for revision in BOTH {
        assert_eq!(names(&gateway.ask(revision, "tools/list", json!({})).await), ["same"]);
        let answer = gateway.ask(revision, "tools/call", json!({"name": "only_b"})).await;
        assert_eq!(answer["error"]["data"], json!({"name": "only_b"}));
        let read = |uri| gateway.ask(revision, "resources/read", json!({"uri": uri}));
        assert_eq!(read("x://same").await["error"]["data"], json!({"uri": "x://same"}));
        assert_eq!(read("x://unlisted").await["result"]["contents"][0]["text"], "of b");
    }
}

#[tokio::test]
async fn access_is_that_of_the_federation() {
    let [a, _b] = two().await;
    let mut gateway = TestGateway::start(by_key(plan_with(&[("a", a.address)], json!({})), alice_and_bob())).await;
    gateway
        .until(|seen| seen.servers.values().all(|server| server.catalog.is_some()))
        .await;
    gateway.turn_to("default/fed/servers/a");
    let list = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"});
    let refused = gateway.bare_post(&list.to_string(), []).await;
    assert_eq!(refused.status, 401);
    for key in [ALICE, BOB] {
        let session = http::open_session(&gateway.client, &gateway.url(), Revision::LATEST_LEGACY, &[key]).await;
        let own = [("mcp-session-id", session.as_deref().unwrap()), key];
        let headers = [own[0], own[1], ("mcp-protocol-version", "2025-11-25")];
        let request = http::legacy(&gateway.url(), &list, headers);
        assert_eq!(names(&gateway.send(request).await.json()), ["only_a", "same"]);
    }
}

#[tokio::test]
async fn a_session_holds_at_the_endpoint_where_it_was_opened() {
    let [a, b] = two().await;
    let mut gateway = TestGateway::ready(&[("a", a.address), ("b", b.address)]).await;
    let endpoints = ["default/fed", "default/fed/servers/a", "default/fed/servers/b"];
    let list = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"});
    for opened in endpoints {
        gateway.turn_to(opened);
        let session = gateway.open_session(Revision::LATEST_LEGACY).await;
        for used in endpoints {
            gateway.turn_to(used);
            let headers = [
                ("mcp-session-id", session.as_str()),
                ("mcp-protocol-version", "2025-11-25"),
            ];
            let reply = gateway.send(http::legacy(&gateway.url(), &list, headers)).await;
            assert_eq!(reply.status, if opened == used { 200 } else { 404 }, "{opened} {used}");
        }
    }
}

#[tokio::test]
async fn what_is_no_member_is_not_found() {
    let [a, _b] = two().await;
    let mut gateway = TestGateway::ready(&[("a", a.address)]).await;
    for path in [
        "default/fed/servers/c",
        "default/fed/servers/",
        "default/fed/servers",
        "default/fed/servers/a/servers/a",
        "default/other/servers/a",
        "servers/a",
    ] {
        gateway.turn_to(path);
        let list = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"}).to_string();
        let reply = gateway.bare_post(&list, []).await;
        assert_eq!(reply.status, 404, "{path}");
        assert!(
            reply.text.contains("/NAMESPACE/NAME/servers/MEMBER/mcp"),
            "{}",
            reply.text
        );
    }
}

#[tokio::test]
async fn a_selected_server_is_a_member_by_its_name() {
    let [a, b] = two().await;
    let members = json!([{"name": "b", "server": {"name": "a"}}, {"name": "rest", "selector": {}}]);
    let spec = json!({"members": members});
    let mut gateway = TestGateway::ready_with(&[("a", a.address), ("b", b.address)], spec).await;
    for (member, tool) in [("b", "only_a"), ("default.b", "only_b")] {
        gateway.turn_to(&format!("default/fed/servers/{member}"));
        let tools = gateway.modern("tools/list", json!({})).await;
        assert_eq!(names(&tools), [tool, "same"]);
    }
}

/// A server whose list grows by a tool when it is told so, and tells of it within a second.
async fn growing(shelf: Shelf) -> (Upstream, Arc<AtomicBool>) {
    let has_grown = Arc::new(AtomicBool::new(false));
    let grown = Arc::clone(&has_grown);
    let larger = shelf.clone().with_tool("zz_new", json!({}));
    let server = Upstream::start(move |seen| {
        if grown.load(Ordering::Relaxed) {
            larger.answer_modern(seen)
        } else {
            shelf.answer_modern(seen)
        }
    })
    .await;
    (server, has_grown)
}

/// The same plan, whose servers are read again.
fn read_again(plan: &PlanInput, mark: &str) -> PlanInput {
    let mut plan = plan.clone();
    for server in &mut plan.servers {
        server.refresh.insert(mark.to_owned());
    }
    plan
}

#[tokio::test]
async fn who_listens_to_a_member_hears_of_its_changes_alone() {
    let (a, a_grown) = growing(Shelf::empty().with_tool("same", json!({}))).await;
    let (b, b_grown) = growing(Shelf::empty().with_tool("zz_new", json!({}))).await;
    let servers = [("a", a.address), ("b", b.address)];
    // Where nothing has a prefix, the tool that b lists already hides the new one of a from the whole.
    let members = json!([
        {"name": "a", "server": {"name": "a"}}, {"name": "b", "server": {"name": "b"}, "priority": 1},
    ]);
    let plan = plan_with(&servers, json!({"members": members, "naming": {"prefix": "Never"}}));
    let mut gateway = TestGateway::start(plan.clone()).await;
    gateway
        .until(|seen| seen.servers.values().all(|server| server.catalog.is_some()))
        .await;
    let mut streams = Vec::new();
    for endpoint in ["default/fed/servers/a", "default/fed/servers/b", "default/fed"] {
        gateway.turn_to(endpoint);
        let params = json!({"notifications": {"toolsListChanged": true}});
        let mut stream = gateway.modern_events(json!(1), "subscriptions/listen", params).await;
        stream.message().await.unwrap();
        streams.push(stream);
    }
    let [of_a, of_b, whole] = &mut streams[..] else {
        panic!()
    };
    a_grown.store(true, Ordering::Relaxed);
    gateway.input.send_replace(Arc::new(read_again(&plan, "1")));
    let heard = of_a.message_within(Duration::from_secs(5)).await.unwrap();
    assert_eq!(heard["method"], "notifications/tools/list_changed");
    assert_eq!(of_b.message_within(WHILE).await, None);
    assert_eq!(whole.message_within(WHILE).await, None, "the whole shows the same");
    b_grown.store(true, Ordering::Relaxed);

    // Whoever listens to a member that is none any more hears the end.
    let mut without = plan.clone();
    without.federations[0].spec.members.retain(|member| member.name != "a");
    gateway.input.send_replace(Arc::new(without));
    let last = of_a.message_within(Duration::from_secs(5)).await.unwrap();
    assert_eq!(last["result"]["resultType"], "complete", "{last}");
    of_a.end().await;
    assert_eq!(of_b.message_within(WHILE).await, None);
    gateway.turn_to("default/fed/servers/a");
    let list = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"}).to_string();
    assert_eq!(gateway.bare_post(&list, []).await.status, 404);
}

#[tokio::test]
async fn requests_to_a_member_are_counted_with_the_federation() {
    let [a, _b] = two().await;
    let mut gateway = TestGateway::ready(&[("a", a.address)]).await;
    gateway.turn_to("default/fed/servers/a");
    gateway.modern("tools/list", json!({})).await;
    let page = gateway.metrics_page();
    let counted = page
        .lines()
        .find(|line| line.contains("tools/list") && line.contains(r#"federation="default/fed""#));
    assert!(counted.is_some(), "{page}");
    assert!(!page.contains("servers/a"), "{page}");
}

#[tokio::test]
async fn clients_of_the_oldest_transport_find_a_member_too() {
    let [a, _b] = two().await;
    let mut gateway = TestGateway::ready(&[("a", a.address)]).await;
    gateway.turn_to("default/fed/servers/a");
    let base = gateway.url().replace("/mcp", "/");
    let request = Request::get(format!("{base}sse")).header("accept", "text/event-stream");
    let mut stream = EventStream::open(&gateway.client, request.body(Full::default()).unwrap()).await;
    let address = String::from_utf8(stream.event().await.unwrap().data).unwrap();
    let params = json!({
        "protocolVersion": "2024-11-05", "capabilities": {}, "clientInfo": {"name": "old", "version": "1"},
    });
    for message in [
        json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params}),
        json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"}),
    ] {
        stream.expect(&message);
        let sent = http::legacy(&format!("{base}{address}"), &message, []);
        assert_eq!(http::send(&gateway.client, sent).await.status, 202);
        let answer = stream.next().await;
        if message["id"] == 1 {
            assert_eq!(names(&answer), ["only_a", "same"]);
        }
    }
}
