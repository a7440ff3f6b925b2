//! How much callers may have for themselves, and who gives way.

use std::time::Duration;

use serde_json::json;
use tokio::time::{Instant, sleep};

use super::desk::{ALICE, BOB, Client, Desk, TOKEN, forwarding, lists, start_with, tools_of, two, with_token};
use crate::support::event_stream::EventStream;
use crate::support::http;
use crate::support::upstream::{self, Upstream};

#[tokio::test]
async fn no_more_are_kept_than_there_is_room_for() {
    let tokens = ["one", "two", "three"];
    let server = Desk::of(&tokens.map(|token| (token, lists(&["tool"])))).legacy().await;
    let spec = json!({"limits": {"cacheEntries": 2}});
    let gateway = start_with(forwarding(&[("s", &server)], true, spec)).await;
    let of = |token| Client("key-of-alice", Some(token));
    let read = |token: &str| with_token(&server.seen_of("tools/list"), token).len();
    for token in ["one", "two", "one", "three", "one"] {
        assert_eq!(of(token).tools(&gateway).await, ["s__tool"]);
    }
    assert_eq!(tokens.map(read), [1, 1, 1]);
    // The second was used least recently, and had to go.
    assert_eq!(of("two").tools(&gateway).await, ["s__tool"]);
    assert_eq!(tokens.map(read), [1, 2, 1]);
    let page = gateway.metrics_page();
    assert!(page.contains(r#"mcpfleet_own_catalogs{federation="default/fed"} 2"#));
    assert!(page.contains(r#"mcpfleet_own_catalogs_evicted_total{federation="default/fed"} 2"#));
    let deadline = Instant::now() + Duration::from_secs(10);
    while server
        .seen()
        .iter()
        .filter(|seen| seen.http == ::http::Method::DELETE)
        .count()
        < 2
    {
        assert!(Instant::now() < deadline, "its sessions are ended");
        sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test]
async fn credentials_that_no_server_takes_drive_out_nobody() {
    let server = two().modern().await;
    let spec = json!({"limits": {"cacheEntries": 2}});
    let gateway = start_with(forwarding(&[("s", &server)], true, spec)).await;
    assert_eq!(ALICE.tools(&gateway).await.len(), 2);
    for token in ["wrong", "wrong as well", "and another one"] {
        assert!(Client("key-of-bob", Some(token)).tools(&gateway).await.is_empty());
    }
    assert_eq!(ALICE.tools(&gateway).await.len(), 2);
    assert_eq!(with_token(&server.seen_of("tools/list"), "token-of-alice").len(), 1);
}

#[tokio::test]
async fn a_key_that_listens_with_many_tokens_locks_nobody_out() {
    let tokens = ["one", "two", "three", "four"];
    let does = tokens.map(|token| (token, lists(&["tool"])));
    let desk = Desk::of(&does);
    desk.set("token-of-bob", lists(&["both", "of_bob"]));
    let (a, b) = (desk.modern().await, desk.modern().await);
    let spec = json!({"limits": {"cacheEntries": 8}});
    let gateway = start_with(forwarding(&[("a", &a), ("b", &b)], true, spec)).await;
    let mut heard = Vec::new();
    for token in tokens {
        let client = Client("key-of-alice", Some(token));
        assert_eq!(client.tools(&gateway).await, ["a__tool", "b__tool"]);
        if token != "three" && token != "four" {
            heard.push(client.listens(&gateway).await);
        }
    }
    // Sessions on the streams of older clients watch as well; a key has so many listens and no more.
    for token in ["three", "four"] {
        let client = Client("key-of-alice", Some(token));
        let session = client.session(&gateway).await;
        heard.push(client.hears(&gateway, &session).await);
    }
    let begun = Instant::now();
    desk.set("five", lists(&["tool"]));
    let fifth = Client("key-of-alice", Some("five"));
    let refused = fifth.modern(&gateway, "tools/list", json!({})).await;
    assert_eq!(
        refused["result"]["_meta"]["dev.mcpfleet/absent-members"],
        json!(["a", "b"]),
        "{refused}"
    );
    let refused = fifth.call(&gateway, "a__tool").await;
    let text = refused["error"]["message"].as_str().unwrap();
    assert!(
        text.contains("member \"a\"") && text.contains("this key has its share of 2"),
        "{text}"
    );
    let refused = fifth
        .modern(&gateway, "resources/read", json!({"uri": "res://nobody"}))
        .await;
    let text = refused["error"]["data"]["details"]
        .as_str()
        .unwrap_or_else(|| panic!("{refused}"));
    assert!(text.contains("2 members could not say: a: all 8 connections"), "{text}");
    for _ in 0..2 {
        let seen = BOB.tools(&gateway).await;
        assert_eq!(seen, ["a__both", "a__of_bob", "b__both", "b__of_bob"]);
    }
    assert!(
        begun.elapsed() < Duration::from_secs(5),
        "nobody waits: {:?}",
        begun.elapsed()
    );
    let page = gateway.metrics_page();
    assert!(page.contains(r#"mcpfleet_own_catalogs{federation="default/fed"} 8"#));
    assert!(page.contains(r#"mcpfleet_own_catalogs_refused_total{federation="default/fed",reason="Share"}"#));
    let wishes = json!({"notifications": {"toolsListChanged": true}});
    let deaf = fifth.modern(&gateway, "subscriptions/listen", wishes).await;
    let text = deaf["error"]["message"].as_str().unwrap_or_else(|| panic!("{deaf}"));
    assert!(text.contains("no change could be told: all 8 connections"), "{text}");
    // Who closes its streams has room again.
    drop(heard);
    let deadline = Instant::now() + Duration::from_secs(10);
    while fifth.tools(&gateway).await.is_empty() {
        assert!(Instant::now() < deadline, "there is room");
        sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test]
async fn callers_without_a_key_are_one_and_hear_at_once_that_there_is_no_room() {
    let desk = Desk::of(&["one", "two"].map(|token| (token, lists(&["tool"]))));
    let (a, b) = (desk.modern().await, desk.modern().await);
    let spec = json!({"limits": {"cacheEntries": 2}});
    let mut input = forwarding(&[("a", &a), ("b", &b)], true, spec);
    for federation in &mut input.federations {
        federation.access = mcpfleet::fleet::Access::Anonymous;
    }
    let gateway = start_with(input).await;
    let [one, two] = ["one", "two"].map(|token| Client("", Some(token)));
    assert_eq!(one.tools(&gateway).await, ["a__tool", "b__tool"], "all of it is theirs");
    let heard = one.listens(&gateway).await;
    let begun = Instant::now();
    let refused = two.modern(&gateway, "tools/list", json!({})).await;
    assert_eq!(
        refused["result"]["_meta"]["dev.mcpfleet/absent-members"],
        json!(["a", "b"]),
        "{refused}"
    );
    assert!(begun.elapsed() < Duration::from_secs(5));
    drop(heard);
    let deadline = Instant::now() + Duration::from_secs(10);
    while two.tools(&gateway).await.is_empty() {
        assert!(Instant::now() < deadline, "there is room");
        sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test]
async fn a_subscription_names_the_members_of_which_it_hears_nothing() {
    let desk = Desk::of(&["one", "two"].map(|token| (token, lists(&["tool"]))));
    let own = desk.modern().await;
    let shared = Upstream::start(|seen| upstream::modern(seen, &tools_of(&["tool"]))).await;
    let servers = [("own", &own), ("shared", &shared)];
    let mut input = forwarding(&servers, true, json!({"limits": {"cacheEntries": 1}}));
    for federation in &mut input.federations {
        federation.access = mcpfleet::fleet::Access::Anonymous;
    }
    input.servers[1].terms.lists = true;
    input.servers[1].terms.forwards = None;
    let gateway = start_with(input).await;
    let mut heard = Vec::new();
    for (token, unheard) in [("one", json!(null)), ("two", json!(["own"]))] {
        let wishes = json!({"notifications": {"toolsListChanged": true}});
        let mut request = gateway.modern_request(json!("l"), "subscriptions/listen", wishes, json!({}));
        request.headers_mut().insert(TOKEN, token.parse().unwrap());
        let mut stream = EventStream::open(&http::client(), request).await;
        let params = &stream.next().await["params"];
        assert_eq!(params["notifications"], json!({"toolsListChanged": true}));
        assert_eq!(params["_meta"]["dev.mcpfleet/absent-members"], unheard, "{token}");
        heard.push(stream);
    }
}
