//! Resources of servers that are subscribed to.

use std::time::Duration;

use ::http::Method;
use mcpfleet::metrics::Metrics;
use mcpfleet::upstream::{Endpoint, Health, HttpEndpoint, Owner, Upstream as Held};
use serde_json::json;
use tokio::time::{sleep, timeout};

use crate::support::held::{
    Forgetful, PATIENCE, Streams, Tools, eventually, hold, legacy, listened_to, modern, streaming, tagged, terms, until,
};
use crate::support::upstream::Upstream;

#[tokio::test]
async fn a_resource_is_subscribed_to_once_for_all_and_told_of_to_each() {
    let (tools, own) = (Tools::default(), Streams::default());
    let gets = own.clone();
    let server = Upstream::start(move |seen| match (seen.http.clone(), seen.method()) {
        (Method::GET, _) => gets.open(),
        (_, "resources/subscribe") if seen.body["params"]["uri"] == "a://refused" => {
            seen.error(200, -32602, "no such resource")
        }
        _ => legacy(seen, json!({"resources": {"subscribe": true}}), &tools),
    })
    .await;
    let held = hold(&server).await;
    let (mut first, second) = (
        held.subscribe(&Owner::Nobody.into(), "a://b").await.unwrap(),
        held.subscribe(&Owner::Nobody.into(), "a://b").await.unwrap(),
    );
    assert_eq!(server.seen_of("resources/subscribe").len(), 1);
    let update =
        r#"data: {"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"a:\/\/b/c", "x":1.0}}"#;
    own.say(json!(format!("{}\n\n", update.replace("a:\\/\\/b/c", "a://other"))));
    own.say(json!(format!("{update}\n\n")));
    let notice = timeout(PATIENCE, first.updated()).await.unwrap().unwrap();
    assert_eq!(&*notice.params, r#"{"uri":"a:\/\/b/c", "x":1.0}"#, "as it was written");
    assert_eq!(&*notice.uri, "a://b/c");

    let refused = held.subscribe(&Owner::Nobody.into(), "a://refused").await.unwrap_err();
    assert_eq!(refused.to_string(), "the server refused it: no such resource");
    drop(first);
    sleep(Duration::from_millis(100)).await;
    assert_eq!(
        server.seen_of("resources/unsubscribe").len(),
        0,
        "somebody still wants it"
    );
    drop(second);
    eventually("given up", || server.seen_of("resources/unsubscribe").len() == 1).await;
    assert_eq!(
        server.seen_of("resources/unsubscribe")[0].body["params"]["uri"],
        "a://b"
    );
}

#[tokio::test]
async fn who_is_held_for_one_caller_is_at_work_while_it_is_subscribed_to_and_a_subscription_ends_with_it() {
    let (tools, own) = (Tools::default(), Streams::default());
    let server = Upstream::start(move |seen| match seen.http {
        Method::GET => own.open(),
        _ => legacy(seen, json!({"resources": {"subscribe": true}}), &tools),
    })
    .await;
    let endpoint = Endpoint::Http(HttpEndpoint {
        url: format!("http://{}/mcp", server.address).parse().unwrap(),
        headers: Default::default(),
    });
    let metrics = Metrics::new().unwrap().server("default/s");
    let held = Held::start_for_caller("default/s".into(), endpoint, terms(), metrics);
    until(&held, "ready", |state| state.health == Health::Ready).await;
    assert!(!held.is_at_work());
    let mut subscription = held.subscribe(&Owner::Nobody.into(), "a://b").await.unwrap();
    assert!(held.is_at_work());
    held.stop().await;
    assert!(timeout(PATIENCE, subscription.updated()).await.unwrap().is_none());
    drop(subscription);
    assert!(!held.is_at_work());
}

#[tokio::test]
async fn a_subscription_outlives_the_session_and_what_was_missed_is_told_as_one_change() {
    let forgetful = Forgetful::start(json!({"resources": {"subscribe": true}})).await;
    let held = hold(&forgetful.server).await;
    let mut subscription = held.subscribe(&Owner::Nobody.into(), "a://b").await.unwrap();
    forgetful.forget();
    let notice = timeout(PATIENCE, subscription.updated()).await.unwrap().unwrap();
    assert_eq!(&*notice.params, r#"{"uri":"a://b"}"#);
    let asked = forgetful.server.seen_of("resources/subscribe");
    assert_eq!(asked.last().unwrap().header("mcp-session-id"), Some("s-1"));
}

#[tokio::test]
async fn a_modern_server_hears_of_new_resources_by_a_new_listen_before_the_old_one_ends() {
    let (streams, tools) = (Streams::default(), Tools::default());
    let own = streams.clone();
    let server = Upstream::start(move |seen| match seen.method() {
        "subscriptions/listen" => {
            let mut agreed = seen.body["params"]["notifications"].clone();
            if let Some(resources) = agreed["resourceSubscriptions"].as_array_mut() {
                resources.retain(|uri| uri != "a://unknown");
            }
            own.open_for(seen, Some(agreed))
        }
        _ => modern(
            seen,
            json!({"tools": {"listChanged": true}, "resources": {"subscribe": true}}),
            &tools,
        ),
    })
    .await;
    let held = hold(&server).await;
    let mut first = held.subscribe(&Owner::Nobody.into(), "a://b").await.unwrap();
    assert_eq!(
        server.seen_of("subscriptions/listen")[1].body["params"]["notifications"],
        json!({"toolsListChanged": true, "resourceSubscriptions": ["a://b"]})
    );
    eventually("the old one is closed", || !streams.is_read(0)).await;
    assert!(streams.is_read(1));
    let id = server.seen_of("subscriptions/listen")[1].body["id"].clone();
    streams.say(tagged("notifications/resources/updated", &id, json!({"uri": "a://b"})));
    let notice = timeout(PATIENCE, first.updated()).await.unwrap().unwrap();
    assert_eq!(&*notice.params, r#"{"uri":"a://b"}"#, "without what names our listen");

    let unknown = held.subscribe(&Owner::Nobody.into(), "a://unknown").await.unwrap_err();
    assert_eq!(unknown.reason(), "Refused");
    drop(first);
    eventually("lists alone are listened for", || {
        let last = server.seen_of("subscriptions/listen").pop().unwrap();
        last.body["params"]["notifications"] == json!({"toolsListChanged": true})
    })
    .await;
}

#[tokio::test]
async fn who_subscribes_right_after_the_last_one_left_is_told_of_changes_too() {
    let subscribe = json!({"resources": {"subscribe": true}});
    let (new, _streams) = listened_to(subscribe.clone(), &Tools::default()).await;
    let (old, _own) = streaming(subscribe, &Tools::default()).await;
    for server in [&new, &old] {
        let held = hold(server).await;
        for _ in 0..3 {
            let left = held.subscribe(&Owner::Nobody.into(), "a://b").await.unwrap();
            drop(left);
            let next = timeout(PATIENCE / 4, held.subscribe(&Owner::Nobody.into(), "a://b")).await;
            next.expect("it is told that it is subscribed").unwrap();
        }
    }
}

#[tokio::test]
async fn resources_are_subscribed_to_only_where_the_server_offers_it() {
    let tools = Tools::default();
    let server = Upstream::start(move |seen| legacy(seen, json!({"resources": {}}), &tools)).await;
    let held = hold(&server).await;
    assert_eq!(
        held.subscribe(&Owner::Nobody.into(), "a://b")
            .await
            .unwrap_err()
            .reason(),
        "NotOffered"
    );
    assert_eq!(server.seen_of("resources/subscribe").len(), 0);
}
