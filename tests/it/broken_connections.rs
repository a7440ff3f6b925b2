//! Connections to a server that break when they are used again: what harms nothing is asked once more on a new one, and
//! of anything else is said that nobody knows whether it was done.

use std::time::Duration;

use serde_json::{Value, json};

use crate::support::fickle::{Second, way_to};
use crate::support::gateway::TestGateway;
use crate::support::upstream::{self, Answer, Seen, Upstream};

fn tools() -> Value {
    json!([
        {"name": "writes", "inputSchema": {"type": "object"}},
        {"name": "reads", "inputSchema": {"type": "object"}, "annotations": {"readOnlyHint": true}},
    ])
}

fn modern(seen: &Seen) -> Answer {
    upstream::modern(seen, &tools())
}

fn legacy(seen: &Seen) -> Answer {
    match seen.http {
        http::Method::GET => Answer::status(405),
        _ => upstream::legacy(seen, &tools()),
    }
}

#[tokio::test]
async fn a_server_is_ready_at_once_though_no_connection_to_it_is_good_for_two_requests() {
    for (script, hello) in [
        (modern as fn(&Seen) -> Answer, "server/discover"),
        (legacy, "initialize"),
    ] {
        for second in [Second::Lost, Second::Unanswered] {
            let server = Upstream::start(script).await;
            let way = way_to(server.address, second).await;
            let gateway = TestGateway::ready(&[("s", way)]).await;
            let listed = gateway.modern("tools/list", json!({})).await;
            assert_eq!(listed["result"]["tools"].as_array().unwrap().len(), 2);
            let greeted = server.seen_of(hello).len();
            let twice = usize::from(second == Second::Unanswered) + 1;
            assert!(greeted <= twice, "{hello} {second:?}: {greeted}");
        }
    }
}

#[tokio::test]
async fn only_calls_that_may_be_made_twice_are_made_again_where_a_connection_breaks() {
    for script in [modern as fn(&Seen) -> Answer, legacy] {
        let server = Upstream::start(script).await;
        let way = way_to(server.address, Second::Unanswered).await;
        let gateway = TestGateway::ready(&[("s", way)]).await;
        let mut lost = 0;
        for _ in 0..6 {
            let answer = gateway.modern("tools/call", json!({"name": "s__reads"})).await;
            assert_eq!(answer["result"]["content"][0]["text"], "reads", "{answer}");
            // Its connection is kept before the next request.
            tokio::time::sleep(Duration::from_millis(5)).await;
            let before = server.seen_of("tools/call").len();
            let answer = gateway.modern("tools/call", json!({"name": "s__writes"})).await;
            let sent = server.seen_of("tools/call").len() - before;
            assert_eq!(sent, 1, "{answer}");
            if let Some(text) = answer["error"]["message"].as_str() {
                assert!(text.contains("whether it did what was asked is not known"), "{text}");
                assert!(!text.contains("cannot reach"), "{text}");
                lost += 1;
            }
        }
        assert!(lost > 0, "some connection was used again");
    }
}
