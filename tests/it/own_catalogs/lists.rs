//! What each caller sees and calls, and when its lists are read.

use mcpfleet::fleet::UpstreamState;
use serde_json::json;

use super::desk::{ALICE, BOB, Client, TOKEN, forwarding, lists, names, start, start_with, tools_of, two, with_token};
use crate::support::upstream::{self, Answer, Upstream};

#[tokio::test]
async fn each_caller_sees_and_calls_what_the_server_lists_for_it() {
    for is_legacy in [false, true] {
        let server = if is_legacy {
            two().legacy().await
        } else {
            two().modern().await
        };
        let mut gateway = start(&[("s", &server)]).await;
        gateway
            .until(|o| o.servers.len() == 1 && o.servers.values().all(|server| server.state == UpstreamState::Ready))
            .await;
        assert_eq!(ALICE.tools(&gateway).await, ["s__both", "s__of_alice"]);
        assert_eq!(BOB.tools(&gateway).await, ["s__both", "s__of_bob"]);
        let session = ALICE.session(&gateway).await;
        let listed = ALICE.in_session(&gateway, &session, "tools/list", json!({})).await;
        assert_eq!(names(&listed), ["s__both", "s__of_alice"]);
        for (client, own, other) in [(ALICE, "of_alice", "of_bob"), (BOB, "of_bob", "of_alice")] {
            let called = client.call(&gateway, &format!("s__{own}")).await;
            assert_eq!(called["result"]["content"][0]["text"], own, "{called}");
            let refused = client.call(&gateway, &format!("s__{other}")).await;
            assert_eq!(refused["error"]["code"], -32602, "{refused}");
        }
        let params = json!({"name": "s__of_alice"});
        let called = ALICE.in_session(&gateway, &session, "tools/call", params).await;
        assert_eq!(called["result"]["content"][0]["text"], "of_alice");

        let calls = server.seen_of("tools/call");
        assert!(calls.iter().all(|seen| {
            let token = format!(
                "token-{}",
                seen.body["params"]["name"].as_str().unwrap().replace('_', "-")
            );
            seen.header(TOKEN) == Some(&token)
        }));
        assert!(server.seen().iter().all(|seen| seen.header("x-api-key").is_none()));
        // Nothing is in common: not the connection, nor the session.
        let of_others = with_token(&calls, "token-of-bob");
        assert_eq!(of_others.len(), 1);
        gateway.stop().await;
    }
}

#[tokio::test]
async fn lists_are_fetched_once_for_all_who_wait_and_kept_for_later() {
    let server = two().modern().await;
    let gateway = start(&[("s", &server)]).await;
    let many = (0..8).map(|_| ALICE.tools(&gateway));
    for tools in futures::future::join_all(many).await {
        assert_eq!(tools.len(), 2);
    }
    ALICE.call(&gateway, "s__both").await;
    let search = json!({"name": "tool_search", "arguments": {"query": "both"}});
    ALICE.modern(&gateway, "tools/call", search).await;
    let asked = server.seen_of("tools/list");
    assert_eq!(with_token(&asked, "token-of-alice").len(), 1);
    // Who comes later is asked for then.
    assert!(with_token(&server.seen(), "token-of-bob").is_empty());
    BOB.tools(&gateway).await;
    assert_eq!(with_token(&server.seen_of("tools/list"), "token-of-bob").len(), 1);
    let page = gateway.metrics_page();
    assert!(
        page.contains(r#"mcpfleet_own_catalogs{federation="default/fed"} 2"#),
        "{page}"
    );
    assert!(page.contains(r#"mcpfleet_own_catalogs_opened_total{federation="default/fed"} 2"#));
}

#[tokio::test]
async fn only_the_member_that_is_called_is_asked_for_its_lists() {
    let (a, b) = (two().modern().await, two().modern().await);
    let gateway = start(&[("a", &a), ("b", &b)]).await;
    let called = ALICE.call(&gateway, "a__of_alice").await;
    assert_eq!(called["result"]["content"][0]["text"], "of_alice");
    assert!(with_token(&b.seen(), "token-of-alice").is_empty());
    // Under names without prefixes anybody may have it, and the first in order wins.
    let spec = json!({"naming": {"prefix": "Never"}});
    let gateway = start_with(forwarding(&[("a", &a), ("b", &b)], true, spec)).await;
    BOB.call(&gateway, "of_bob").await;
    assert_eq!(with_token(&a.seen_of("tools/call"), "token-of-bob").len(), 1);
    assert!(!with_token(&b.seen_of("tools/list"), "token-of-bob").is_empty());
}

#[tokio::test]
async fn who_presents_another_token_is_another_caller() {
    let desk = two();
    desk.set("second", lists(&["renewed"]));
    let server = desk.modern().await;
    let gateway = start(&[("s", &server)]).await;
    ALICE.tools(&gateway).await;
    let renewed = Client("key-of-alice", Some("second"));
    assert_eq!(renewed.tools(&gateway).await, ["s__renewed"]);
    // The same token in another hand is another caller too.
    let stolen = Client("key-of-bob", Some("token-of-alice"));
    assert_eq!(stolen.tools(&gateway).await.len(), 2);
    assert_eq!(with_token(&server.seen_of("tools/list"), "token-of-alice").len(), 2);
}

#[tokio::test]
async fn who_presents_nothing_is_asked_for_without_the_headers_of_the_manifest() {
    let server = Upstream::start(|seen| match seen.header(TOKEN) {
        None => Answer::status(401),
        Some(_) => upstream::modern(seen, &tools_of(&["secret"])),
    })
    .await;
    let mut input = forwarding(&[("s", &server)], true, json!({}));
    let Ok(mcpfleet::upstream::Endpoint::Http(endpoint)) = &mut input.servers[0].endpoint else {
        panic!("it is reached over HTTP")
    };
    endpoint.headers.insert(TOKEN, "of-the-manifest".parse().unwrap());
    let gateway = start_with(input).await;
    let nobody = Client("key-of-alice", None);
    assert!(nobody.tools(&gateway).await.is_empty());
    let refused = nobody.call(&gateway, "s__secret").await;
    let message = refused["error"]["message"].as_str().unwrap();
    assert!(message.contains("\"s\""), "{refused}");
    assert_eq!(ALICE.tools(&gateway).await, ["s__secret"]);
    assert!(
        server
            .seen()
            .iter()
            .any(|seen| seen.header(TOKEN) == Some("of-the-manifest"))
    );
}

#[tokio::test]
async fn where_lists_are_shared_only_calls_carry_what_the_caller_presents() {
    let server = Upstream::start(|seen| match (seen.method(), seen.header(TOKEN)) {
        ("tools/call", None) => Answer::status(401),
        _ => upstream::modern(seen, &tools_of(&["tool"])),
    })
    .await;
    let mut gateway = start_with(forwarding(&[("s", &server)], false, json!({}))).await;
    gateway
        .until(|o| o.servers.values().all(|server| server.state == UpstreamState::Ready))
        .await;
    let listed = ALICE.modern(&gateway, "tools/list", json!({})).await;
    assert_eq!(names(&listed), ["s__tool"]);
    assert_eq!(listed["result"]["cacheScope"], "public");
    let called = ALICE.call(&gateway, "s__tool").await;
    assert_eq!(called["result"]["content"][0]["text"], "tool", "{called}");
    assert!(
        server
            .seen_of("tools/list")
            .iter()
            .all(|seen| seen.header(TOKEN).is_none())
    );
    let calls = server.seen_of("tools/call");
    assert_eq!(with_token(&calls, "token-of-alice").len(), calls.len());
}

#[tokio::test]
async fn a_member_alone_is_each_callers_own_too() {
    let server = two().modern().await;
    let mut gateway = start(&[("s", &server)]).await;
    gateway.turn_to("default/fed/servers/s");
    assert_eq!(ALICE.tools(&gateway).await, ["both", "of_alice"]);
    assert_eq!(BOB.tools(&gateway).await, ["both", "of_bob"]);
    let called = BOB.call(&gateway, "of_bob").await;
    assert_eq!(called["result"]["content"][0]["text"], "of_bob");
    assert_eq!(ALICE.call(&gateway, "of_bob").await["error"]["code"], -32602);
}

#[tokio::test]
async fn searching_finds_and_runs_what_is_the_callers_own() {
    let server = two().modern().await;
    let members = json!([{"name": "s", "server": {"name": "s"}, "visibility": "Discoverable"}]);
    let gateway = start_with(forwarding(&[("s", &server)], true, json!({"members": members}))).await;
    for (client, own, other) in [(ALICE, "of_alice", "of_bob"), (BOB, "of_bob", "of_alice")] {
        let search = json!({"name": "tool_search", "arguments": {"query": "of"}});
        let found = client.modern(&gateway, "tools/call", search).await.to_string();
        assert!(found.contains(own) && !found.contains(other), "{found}");
        let run = |tool: &str| json!({"name": "execute_tool", "arguments": {"name": format!("s__{tool}")}});
        let ran = client.modern(&gateway, "tools/call", run(own)).await;
        assert_eq!(ran["result"]["content"][0]["text"], own, "{ran}");
        let refused = client.modern(&gateway, "tools/call", run(other)).await;
        assert_eq!(refused["result"]["isError"], true, "{refused}");
    }
}
