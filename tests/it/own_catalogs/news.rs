//! Changes of callers' own lists, of sessions and of what goes on.

use std::time::Duration;

use mcpfleet::upstream::Forwarding;
use serde_json::json;
use tokio::time::{Instant, sleep, timeout};

use super::desk::{ALICE, BOB, TOKEN, WHILE, forwarding, lists, start, start_with, tools_of, two, with_token};
use crate::support::upstream::{self, Upstream};

#[tokio::test]
async fn changes_are_told_to_those_whose_lists_changed() {
    let desk = two();
    let server = desk.modern().await;
    let mut input = forwarding(&[("s", &server)], true, json!({}));
    input.servers[0].terms.freshness.ttl = Duration::from_secs(1);
    let gateway = start_with(input).await;
    let (alices, bobs) = (ALICE.session(&gateway).await, BOB.session(&gateway).await);
    let mut heard = [
        ALICE.listens(&gateway).await,
        ALICE.hears(&gateway, &alices).await,
        BOB.listens(&gateway).await,
        BOB.hears(&gateway, &bobs).await,
    ];
    for client in [ALICE, BOB] {
        assert_eq!(client.tools(&gateway).await.len(), 2);
    }
    for stream in &mut heard {
        assert_eq!(
            stream.message_within(WHILE).await,
            None,
            "what comes first is no change"
        );
    }
    desk.set("token-of-alice", lists(&["both", "of_alice", "new"]));
    let [modern, legacy, others @ ..] = &mut heard;
    for stream in [modern, legacy] {
        let told = timeout(Duration::from_secs(10), stream.next())
            .await
            .expect("it is told");
        assert_eq!(told["method"], "notifications/tools/list_changed");
        assert_eq!(ALICE.tools(&gateway).await.len(), 3);
    }
    for stream in others {
        assert_eq!(stream.message_within(WHILE).await, None, "nothing of Bob's has changed");
    }
}

#[tokio::test]
async fn a_session_that_is_over_leaves_nothing_at_the_server() {
    let server = two().legacy().await;
    let gateway = start(&[("s", &server)]).await;
    let session = ALICE.session(&gateway).await;
    let params = json!({"name": "s__of_alice"});
    let called = ALICE.in_session(&gateway, &session, "tools/call", params).await;
    assert_eq!(called["result"]["content"][0]["text"], "of_alice");
    let ended = || {
        let seen = server.seen();
        let deletes = with_token(&seen, "token-of-alice").into_iter();
        deletes.filter(|seen| seen.http == ::http::Method::DELETE).count()
    };
    assert_eq!(ended(), 0);
    let request = ::http::Request::delete(gateway.url()).header("mcp-session-id", &session);
    let request = ALICE
        .headers()
        .into_iter()
        .fold(request, |request, (name, value)| request.header(name, value));
    let reply = gateway.send(request.body(Default::default()).unwrap()).await;
    assert_eq!(reply.status, 200);
    let deadline = Instant::now() + Duration::from_secs(10);
    while ended() == 0 {
        assert!(Instant::now() < deadline, "the session at the server is ended");
        sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test]
async fn an_edit_of_what_goes_on_drops_all() {
    let server = Upstream::start(|seen| {
        let token = seen
            .header(TOKEN)
            .or_else(|| seen.header("x-other"))
            .unwrap_or("nobody");
        let name = if token == "token-of-alice" { "old" } else { "new" };
        upstream::modern(seen, &tools_of(&[name]))
    })
    .await;
    let input = forwarding(&[("s", &server)], true, json!({}));
    let gateway = start_with(input.clone()).await;
    assert_eq!(ALICE.tools(&gateway).await, ["s__old"]);
    let mut edited = input;
    let other = Forwarding {
        headers: vec!["x-other".parse().unwrap()],
        own_lists: true,
    };
    edited.servers[0].terms.forwards = Some(other);
    gateway.input.send_replace(edited.into());
    let deadline = Instant::now() + Duration::from_secs(10);
    while ALICE.tools(&gateway).await != ["s__new"] {
        assert!(Instant::now() < deadline, "the edit is taken");
        sleep(Duration::from_millis(20)).await;
    }
    let before = with_token(&server.seen(), "token-of-alice").len();
    ALICE.call(&gateway, "s__new").await;
    assert_eq!(
        with_token(&server.seen(), "token-of-alice").len(),
        before,
        "it does not go on any more"
    );
}
