//! What several members have is one list, and each request goes to one of them.

use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use mcpfleet::mcp::Revision;
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::support::gateway::{TestGateway, plan_with};
use crate::support::http;
use crate::support::shelf::Shelf;
use crate::support::upstream::{Answer, Upstream};

const BOTH: [Revision; 2] = [Revision::LATEST_LEGACY, Revision::LATEST];

fn unprefixed(names: [&str; 2]) -> Value {
    let members = names.map(|name| json!({"name": name, "server": {"name": name}, "prefix": ""}));
    json!({"members": members})
}

#[tokio::test]
async fn a_failure_of_the_owner_is_the_answer_and_nobody_else_is_called() {
    let scan = || Shelf::empty().with_tool("scan", json!({}));
    let failing = scan();
    let a = Upstream::start(move |seen| match seen.method() {
        "tools/call" => Answer::status(500),
        _ => failing.answer_legacy(seen),
    })
    .await;
    let b = scan().modern().await;
    let servers = [("a", a.address), ("b", b.address)];
    let gateway = TestGateway::ready_with(&servers, unprefixed(["a", "b"])).await;
    for revision in BOTH {
        let answer = gateway.ask(revision, "tools/call", json!({"name": "scan"})).await;
        assert_eq!(answer["error"]["code"], -32603, "{answer}");
        assert!(
            answer["error"]["message"].as_str().unwrap().contains("\"a\""),
            "{answer}"
        );
    }
    assert!(b.seen_of("tools/call").is_empty());
}

#[tokio::test]
async fn lists_are_there_though_a_member_cannot_list() {
    let a = Upstream::start(|seen| match seen.method() {
        "resources/list" | "tools/list" => Answer::status(500),
        _ => Shelf::empty().answer_modern(seen),
    })
    .await;
    let mut shelf = Shelf::empty().with_tool("tool", json!({}));
    shelf.resources = vec![json!({"uri": "b://1", "name": "one"})];
    let b = shelf.legacy().await;
    let mut gateway = TestGateway::start(plan_with(&[("a", a.address), ("b", b.address)], json!({}))).await;
    gateway
        .until(|seen| seen.servers.values().filter(|server| server.catalog.is_some()).count() == 1)
        .await;
    for revision in BOTH {
        let tools = gateway.ask(revision, "tools/list", json!({})).await;
        assert_eq!(tools["result"]["tools"][0]["name"], "b__tool");
        let resources = gateway.ask(revision, "resources/list", json!({})).await;
        assert_eq!(resources["result"]["resources"][0]["uri"], "b://1");
    }
}

#[tokio::test]
async fn resources_of_all_are_sorted_and_of_two_alike_the_first_members_stands() {
    let shelf = |resources: &[(&str, &str)]| Shelf {
        resources: resources
            .iter()
            .map(|(uri, name)| json!({"uri": uri, "name": name}))
            .collect(),
        ..Shelf::empty().with("b://1", resources[0].1)
    };
    let a = shelf(&[("b://1", "of a"), ("c://1", "of a")]).modern().await;
    let b = shelf(&[("a://1", "of b"), ("b://1", "of b")]).legacy().await;
    let gateway = TestGateway::ready(&[("a", a.address), ("b", b.address)]).await;
    for revision in BOTH {
        let listed = gateway.ask(revision, "resources/list", json!({})).await;
        let expected = json!([
            {"uri": "a://1", "name": "of b"}, {"uri": "b://1", "name": "of a"}, {"uri": "c://1", "name": "of a"},
        ]);
        assert_eq!(listed["result"]["resources"], expected);
        let read = gateway.ask(revision, "resources/read", json!({"uri": "b://1"})).await;
        assert_eq!(read["result"]["contents"][0]["text"], "of a");
    }
}

#[tokio::test]
async fn an_exact_resource_is_read_before_a_template_that_it_fits() {
    let mut templates = Shelf::empty()
        .with("inv://X", "by template")
        .with("inv://Y", "by template");
    templates.templates = vec![json!({"uriTemplate": "inv://{sku}", "name": "any"})];
    let mut exact = Shelf::empty().with("inv://X", "exact");
    exact.resources = vec![json!({"uri": "inv://X", "name": "x"})];
    let (a, b) = (templates.legacy().await, exact.modern().await);
    let gateway = TestGateway::ready(&[("a", a.address), ("b", b.address)]).await;
    for revision in BOTH {
        for (uri, text) in [("inv://X", "exact"), ("inv://Y", "by template")] {
            let read = gateway.ask(revision, "resources/read", json!({"uri": uri})).await;
            assert_eq!(read["result"]["contents"][0]["text"], text);
        }
    }
}

#[tokio::test]
async fn prompts_have_prefixes_and_reach_their_server_by_their_own_name() {
    let b = Shelf::empty().modern().await;
    let a = Upstream::start(|seen| match seen.method() {
        "initialize" => seen.result(json!({
            "protocolVersion": "2025-11-25", "capabilities": {"prompts": {}},
            "serverInfo": {"name": "kb", "version": "1"},
        })),
        "prompts/list" => seen.result(json!({"prompts": [{"name": "brief", "description": "In short"}]})),
        "prompts/get" => seen.result(json!({"messages": [
            {"role": "user", "content": {"type": "text", "text": seen.body["params"]["name"]}},
        ]})),
        _ => Shelf::empty().answer_legacy(seen),
    })
    .await;
    let gateway = TestGateway::ready(&[("kb", a.address), ("other", b.address)]).await;
    for revision in BOTH {
        let listed = gateway.ask(revision, "prompts/list", json!({})).await;
        let expected = json!([{"name": "kb__brief", "description": "In short"}]);
        assert_eq!(listed["result"]["prompts"], expected);
        let got = gateway.ask(revision, "prompts/get", json!({"name": "kb__brief"})).await;
        assert_eq!(got["result"]["messages"][0]["content"]["text"], "brief");
        let ghost = gateway.ask(revision, "prompts/get", json!({"name": "ghost"})).await;
        assert_eq!(
            (&ghost["error"]["code"], &ghost["error"]["data"]),
            (&json!(-32602), &json!({"name": "ghost"}))
        );
    }
}

#[tokio::test]
async fn a_read_of_nothing_is_told_so() {
    let a = Shelf::empty().legacy().await;
    let gateway = TestGateway::ready(&[("a", a.address)]).await;
    for params in [json!({}), json!({"uri": ""}), json!({"uri": 7})] {
        let body = json!({"jsonrpc": "2.0", "id": 1, "method": "resources/read", "params": params});
        let headers = [("mcp-protocol-version", "2025-11-25")];
        let session = gateway.open_session(Revision::LATEST_LEGACY).await;
        let own = [("mcp-session-id", session.as_str()), headers[0]];
        let accept = ("accept", "application/json, text/event-stream");
        let reply = gateway
            .bare_post(&body.to_string(), own.into_iter().chain([accept]))
            .await;
        assert_eq!(reply.status, 200);
        let error = &reply.json()["error"];
        assert_eq!(error["code"], -32602, "{}", reply.text);
        assert!(error["message"].as_str().unwrap().contains("uri"), "{}", reply.text);
    }
}

#[tokio::test]
async fn all_parts_of_a_result_arrive_in_their_order() {
    let content = json!([
        {"type": "text", "text": "first"}, {"type": "image", "data": "AAEC/w==", "mimeType": "image/png"},
        {"type": "text", "text": "last"},
    ]);
    let result = json!({"content": content, "structuredContent": {"rows": [1.5, {"a": "b"}]}});
    let shelf = || Shelf::empty().with_tool("mixed", json!({}));
    let (answered, old) = (result.clone(), shelf());
    let a = Upstream::start(move |seen| match seen.method() {
        "tools/call" => seen.result(answered.clone()),
        _ => old.answer_legacy(seen),
    })
    .await;
    let (mut answered, new) = (result.clone(), shelf());
    answered["resultType"] = json!("complete");
    let b = Upstream::start(move |seen| match seen.method() {
        "tools/call" => seen.result(answered.clone()),
        _ => new.answer_modern(seen),
    })
    .await;
    let gateway = TestGateway::ready(&[("a", a.address), ("b", b.address)]).await;
    for revision in BOTH {
        for tool in ["a__mixed", "b__mixed"] {
            let answer = gateway.ask(revision, "tools/call", json!({"name": tool})).await;
            assert_eq!(answer["result"]["content"], result["content"], "{tool}");
            assert_eq!(
                answer["result"]["structuredContent"], result["structuredContent"],
                "{tool}"
            );
        }
    }
}

#[tokio::test]
async fn a_member_that_is_taken_out_is_gone_in_one_step_that_is_told_once() {
    let shelf = |name: &str| {
        let shelf = Shelf::empty().with_tool(name, json!({}));
        shelf.with_tool(&format!("{name}2"), json!({}))
    };
    let (a, b) = (shelf("x").legacy().await, shelf("y").modern().await);
    let servers = [("a", a.address), ("b", b.address)];
    let gateway = TestGateway::ready(&servers).await;
    let params = json!({"notifications": {"toolsListChanged": true}});
    let mut stream = gateway.modern_events(json!(1), "subscriptions/listen", params).await;
    stream.message().await.unwrap();
    let session = gateway.open_session(Revision::LATEST_LEGACY).await;
    let mut legacy = gateway.get_events(&session, Revision::LATEST_LEGACY, None).await;
    gateway
        .input
        .send_replace(Arc::new(plan_with(&servers[1..], json!({}))));
    let names = async |revision| {
        let listed = gateway.ask(revision, "tools/list", json!({})).await;
        let tools = listed["result"]["tools"].as_array().unwrap().iter();
        tools
            .map(|tool| tool["name"].as_str().unwrap().to_owned())
            .collect::<Vec<_>>()
    };
    let (both, one) = (["a__x", "a__x2", "b__y", "b__y2"], ["b__y", "b__y2"]);
    loop {
        let names = names(Revision::LATEST).await;
        if names == one {
            break;
        }
        assert_eq!(names, both);
    }
    for stream in [&mut stream, &mut legacy] {
        let told = stream.message().await.unwrap();
        assert_eq!(told["method"], "notifications/tools/list_changed");
    }
    assert_eq!(names(Revision::LATEST_LEGACY).await, one);
    let gone = gateway
        .ask(Revision::LATEST, "tools/call", json!({"name": "a__x"}))
        .await;
    assert_eq!(gone["error"]["code"], -32602, "{gone}");
    for stream in [&mut stream, &mut legacy] {
        assert_eq!(stream.message_within(Duration::from_millis(400)).await, None);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_large_fleet_is_listed_to_many_at_once_without_asking_any_server() {
    const SERVERS: usize = 20;
    const TOOLS: usize = 100;
    const CLIENTS: usize = 30;
    let servers = join_all((0..SERVERS).map(async |server| {
        let shelf = (0..TOOLS).fold(Shelf::empty(), |shelf, tool| {
            shelf.with_tool(&format!("t{tool}"), json!({"description": "x".repeat(1_000)}))
        });
        let upstream = if server.is_multiple_of(2) {
            shelf.modern().await
        } else {
            shelf.legacy().await
        };
        (format!("s{server}"), upstream)
    }))
    .await;
    let addresses: Vec<_> = servers
        .iter()
        .map(|(name, server)| (name.as_str(), server.address))
        .collect();
    for (visibility, listed) in [("Native", SERVERS * TOOLS), ("Discoverable", 2)] {
        let members = addresses
            .iter()
            .map(|(name, _)| json!({"name": name, "server": {"name": name}, "visibility": visibility}));
        let spec = json!({"members": members.collect::<Vec<_>>()});
        let mut gateway = TestGateway::start(plan_with(&addresses, spec)).await;
        let all = i64::try_from(SERVERS * TOOLS).unwrap();
        gateway
            .until(|o| o.federations.values().all(|federation| federation.index.tools == all))
            .await;
        let asked = || {
            servers
                .iter()
                .map(|(_, server)| server.seen_of("tools/list").len())
                .sum::<usize>()
        };
        let before = asked();
        let visits = join_all((0..CLIENTS).map(async |client| {
            let http = http::client();
            let session = match client.is_multiple_of(2) {
                true => Some(gateway.open_session(Revision::LATEST_LEGACY).await),
                false => None,
            };
            let mut waited = Vec::new();
            for _ in 0..2 {
                let request = match &session {
                    Some(session) => http::legacy(
                        &gateway.url(),
                        &json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"}),
                        [
                            ("mcp-session-id", session.as_str()),
                            ("mcp-protocol-version", "2025-11-25"),
                        ],
                    ),
                    None => gateway.modern_request(json!(1), "tools/list", json!({}), json!({})),
                };
                let since = Instant::now();
                let reply = http::send(&http, request).await;
                waited.push(since.elapsed());
                assert_eq!(reply.text.matches(r#""inputSchema""#).count(), listed, "{visibility}");
            }
            waited
        }))
        .await;
        let longest = visits.into_iter().flatten().max().unwrap();
        assert!(longest < Duration::from_secs(10), "{visibility}: {longest:?}");
        assert_eq!(asked(), before, "lists come from what was read");
        let page = gateway.metrics_page();
        let bytes = page
            .lines()
            .find_map(|line| line.strip_prefix("mcpfleet_list_bytes{federation=\"default/fed\"} "));
        let bytes: usize = bytes.unwrap().parse().unwrap();
        assert_eq!(bytes > SERVERS * TOOLS * 1_000, visibility == "Native", "{bytes}");
    }
}
