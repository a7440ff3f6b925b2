//! What is listed to whom, of what is only found by search.

use std::time::Duration;

use mcpfleet::mcp::Revision;
use serde_json::json;

use super::{ERAS, LATEST, LEGACY, MODERN, SEEN, SHOW_ALL, call, listed, members, ready, server, text};
use crate::support::http;

const ALL: [&str; 2] = ["pods__logs", "pods__stop"];

#[tokio::test]
async fn who_wants_to_see_everything_says_so_with_each_request_where_there_are_no_sessions() {
    let pods = server(&["logs", "stop"]).await;
    let hidden = [("pods", pods.address, json!({"visibility": "Discoverable"}))];
    let gateway = ready(&hidden, json!({"sessions": {"enabled": false}})).await;
    for era in [&MODERN[..], &LEGACY] {
        for (header, query, expected) in [
            (None, "", SEEN),
            (Some("true"), "", ALL),
            (Some("TRUE"), "", ALL),
            (None, "?show_all=true", ALL),
            (Some("false"), "?show_all=true", SEEN),
        ] {
            let seen = listed(&gateway, era, header, query).await;
            assert_eq!(seen, expected, "{era:?} {header:?} {query}");
        }
    }
    let kept = ready(&hidden, json!({"discovery": {"showAllAllowed": false}})).await;
    assert_eq!(listed(&kept, &MODERN, Some("true"), "").await, SEEN);
}

#[tokio::test]
async fn a_session_sees_what_it_wanted_to_see_when_it_was_opened() {
    let pods = server(&["logs", "stop"]).await;
    let gateway = ready(
        &[("pods", pods.address, json!({"visibility": "Discoverable"}))],
        json!({}),
    )
    .await;
    for (opened, expected) in [(&[][..], SEEN), (&[(SHOW_ALL, "true")], ALL)] {
        let session = http::open_session(&gateway.client, &gateway.url(), LATEST, opened)
            .await
            .unwrap();
        let era = [LEGACY[0], ("mcp-session-id", session.as_str())];
        for header in [None, Some("true"), Some("false")] {
            assert_eq!(
                listed(&gateway, &era, header, "").await,
                expected,
                "{opened:?} {header:?}"
            );
        }
    }
    // What it hears of goes by the same.
    let session = http::open_session(&gateway.client, &gateway.url(), LATEST, &[(SHOW_ALL, "true")]).await;
    let mut all = gateway.get_events(&session.unwrap(), LATEST, None).await;
    let mut some = gateway
        .get_events(&gateway.open_session(LATEST).await, LATEST, None)
        .await;
    let more = server(&["logs", "start", "stop"]).await;
    let hidden = json!({"visibility": "Discoverable"});
    gateway
        .input
        .send_replace(members(&[("pods", more.address, hidden)], json!({})).into());
    assert_eq!(all.next().await["method"], "notifications/tools/list_changed");
    assert_eq!(some.message_within(Duration::from_millis(400)).await, None);
}

#[tokio::test]
async fn the_two_tools_are_listed_and_told_of_while_there_is_something_to_find() {
    let pods = server(&["logs"]).await;
    let spec = json!({"identity": {"instructions": "Pick a dock."}});
    let gateway = ready(&[("pods", pods.address, json!({}))], spec.clone()).await;
    let discover = async || gateway.modern("server/discover", json!({})).await["result"]["instructions"].clone();
    assert_eq!(listed(&gateway, &MODERN, None, "").await, ["pods__logs"]);
    assert_eq!(discover().await, "Pick a dock.");
    let ghost = call(&gateway, Revision::LATEST, "ghost", json!({})).await;
    assert_eq!(ghost["error"]["code"], -32602);
    assert!(
        !ghost["error"]["message"].as_str().unwrap().contains("tool_search"),
        "{ghost}"
    );

    let mut hears = gateway
        .get_events(&gateway.open_session(LATEST).await, LATEST, None)
        .await;
    let hidden = json!({"visibility": "Discoverable"});
    gateway
        .input
        .send_replace(members(&[("pods", pods.address, hidden)], spec).into());
    assert_eq!(hears.next().await["method"], "notifications/tools/list_changed");
    assert_eq!(listed(&gateway, &MODERN, None, "").await, SEEN);
    let told = discover().await;
    let hint = told.as_str().unwrap().strip_prefix("Pick a dock.\n\n").unwrap();
    assert!(hint.contains("tool_search") && hint.contains("execute_tool"), "{hint}");
    for revision in ERAS {
        let ghost = call(&gateway, revision, "ghost", json!({})).await;
        let message = ghost["error"]["message"].as_str().unwrap();
        for word in ["ghost", "tool_search", "execute_tool"] {
            assert!(message.contains(word), "{message}");
        }
        assert_eq!(ghost["error"]["data"]["name"], "ghost");
        let called = call(&gateway, revision, "pods__logs", json!({})).await;
        assert_eq!(text(&called), "logs", "what is not listed can be called");
    }
}
