//! Servers that fail for one caller.

use std::time::Duration;

use serde_json::json;
use tokio::time::{Instant, timeout};

use super::desk::{ALICE, BOB, Does, WHILE, lists, names, start, two};

#[tokio::test]
async fn a_server_that_fails_or_hangs_for_one_caller_is_left_out_for_that_one_alone() {
    let (whole, other) = (two().modern().await, two());
    for does in [Does::Fails, Does::Hangs] {
        other.set("token-of-alice", does.clone());
        let part = other.modern().await;
        let gateway = start(&[("a", &whole), ("b", &part)]).await;
        assert_eq!(BOB.tools(&gateway).await.len(), 4);
        let started = Instant::now();
        let listed = ALICE.modern(&gateway, "tools/list", json!({})).await;
        assert_eq!(names(&listed), ["a__both", "a__of_alice"]);
        assert_eq!(listed["result"]["_meta"]["dev.mcpfleet/absent-members"], json!(["b"]));
        assert_eq!(listed["result"]["cacheScope"], "private");
        // As long as reading a list may take, and no more.
        assert!(started.elapsed() < Duration::from_secs(2), "{:?}", started.elapsed());
        let started = Instant::now();
        let refused = ALICE.call(&gateway, "b__of_alice").await;
        let message = refused["error"]["message"].as_str().unwrap();
        assert!(message.contains("member \"b\""), "{does:?} {refused}");
        assert!(
            ALICE.tools(&gateway).await.len() == 2 && started.elapsed() < WHILE,
            "nobody waits twice"
        );
        let called = BOB.call(&gateway, "b__of_bob").await;
        assert_eq!(called["result"]["content"][0]["text"], "of_bob");
        gateway.stop().await;
    }
}

#[tokio::test]
async fn what_failed_first_is_there_as_soon_as_it_works() {
    let desk = two();
    desk.set("token-of-alice", Does::Fails);
    let server = desk.modern().await;
    let gateway = start(&[("s", &server)]).await;
    let mut heard = ALICE.listens(&gateway).await;
    assert!(ALICE.tools(&gateway).await.is_empty());
    desk.set("token-of-alice", lists(&["back"]));
    let told = timeout(Duration::from_secs(10), heard.next())
        .await
        .expect("it is told");
    assert_eq!(told["method"], "notifications/tools/list_changed");
    assert_eq!(ALICE.tools(&gateway).await, ["s__back"]);
}
