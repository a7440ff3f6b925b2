//! Changes and failures of servers of skills, as clients see them.

use std::time::Duration;

use mcpfleet::fleet::{Observations, UpstreamState};
use mcpfleet::mcp::{Era, Revision};
use serde_json::{Value, json};
use tokio::time::timeout;

use super::server::{Server, Unlisted, skill};
use super::{CLIENTS, ERAS, listed, uris};
use crate::support::gateway::{TestGateway, plan_with};

#[tokio::test]
async fn a_list_that_was_read_once_is_served_while_the_server_is_away() {
    let server = Server::start(Era::Modern, skill("a", "x")).await;
    let mut gateway = TestGateway::ready(&[("m", server.upstream.address)]).await;
    drop(server);
    let found = gateway
        .modern("resources/read", json!({"uri": "skill://m/a/picture"}))
        .await;
    assert!(found["error"].is_object());
    gateway.until(|seen| !states(seen).any(is_ready)).await;
    for client in CLIENTS {
        assert_eq!(uris(&listed(&gateway, client).await), ["skill://m/a/SKILL.md"]);
    }
    gateway.stop().await;
}

#[tokio::test]
async fn a_list_that_cannot_be_read_again_when_it_is_old_stays_and_its_skills_can_be_got() {
    for (era, fails) in [
        (Era::Legacy, Unlisted::Status),
        (Era::Modern, Unlisted::Status),
        (Era::Legacy, Unlisted::Error),
        (Era::Modern, Unlisted::Error),
    ] {
        let server = Server::start(era, skill("a", "x")).await;
        let mut plan = plan_with(&[("m", server.upstream.address)], json!({}));
        plan.servers[0].terms.freshness.ttl = Duration::from_millis(200);
        let mut gateway = TestGateway::start(plan).await;
        gateway.until(|seen| states(seen).all(is_ready)).await;
        let first = listed(&gateway, Revision::LATEST).await;
        assert_eq!(uris(&first), ["skill://m/a/SKILL.md"]);
        server.shelf.lock().unwrap().list_fails = Some(fails);
        gateway.until(|seen| !is_whole(seen)).await;
        for client in CLIENTS {
            assert_eq!(listed(&gateway, client).await, first, "{fails:?}");
            let params = json!({"uri": "skill://m/a/SKILL.md"});
            let got = gateway.ask(client, "skills/get", params).await;
            assert_eq!(got["result"]["skill"], first[0], "{got}");
        }
        server.shelf.lock().unwrap().list_fails = None;
        gateway.until(is_whole).await;
        gateway.stop().await;
    }
}

/// Whether every server is ready and gives all its lists.
fn is_whole(seen: &Observations) -> bool {
    let mut catalogs = seen.servers.values().map(|server| server.catalog.as_ref());
    states(seen).all(is_ready) && catalogs.all(|catalog| catalog.is_some_and(|catalog| catalog.complete))
}

fn states(seen: &Observations) -> impl Iterator<Item = &UpstreamState> {
    seen.servers.values().map(|server| &server.state)
}

fn is_ready(state: &UpstreamState) -> bool {
    *state == UpstreamState::Ready
}

#[tokio::test]
async fn an_update_of_a_file_names_it_as_its_client_does() {
    for era in ERAS {
        let server = Server::start(era, skill("a", "x")).await;
        let gateway = TestGateway::ready(&[("m", server.upstream.address)]).await;
        let uri = "skill://m/a/SKILL.md";
        let params = json!({"notifications": {"resourceSubscriptions": [uri]}});
        let mut events = gateway.modern_events(json!(7), "subscriptions/listen", params).await;
        let acknowledged = events.next().await;
        assert_eq!(
            acknowledged["params"]["notifications"]["resourceSubscriptions"],
            json!([uri]),
            "{acknowledged}"
        );
        let hearers = server.shelf.lock().unwrap().hearers.clone();
        for hearer in hearers {
            let updated = json!({"jsonrpc": "2.0", "method": "notifications/resources/updated", "params": {"uri": "skill://a/SKILL.md"}});
            drop(hearer.send(updated));
        }
        let told = timeout(Duration::from_secs(5), events.next()).await.unwrap();
        assert_eq!(
            (&told["method"], &told["params"]["uri"]),
            (&json!("notifications/resources/updated"), &json!(uri))
        );
        gateway.stop().await;
    }
}

#[tokio::test]
async fn a_change_of_skills_is_told_as_one_of_resources() {
    let server = Server::start(Era::Modern, skill("a", "x")).await;
    let gateway = TestGateway::ready(&[("m", server.upstream.address)]).await;
    let params = json!({"notifications": {"resourcesListChanged": true, "toolsListChanged": true}});
    let mut events = gateway.modern_events(json!(1), "subscriptions/listen", params).await;
    events.next().await;
    server.shelf.lock().unwrap().unlisted = vec!["skill://a/SKILL.md".into()];
    let hearers = server.shelf.lock().unwrap().hearers.clone();
    for hearer in hearers {
        drop(hearer.send(json!({"jsonrpc": "2.0", "method": "notifications/resources/list_changed"})));
    }
    let told = timeout(Duration::from_secs(5), events.next()).await.unwrap();
    assert_eq!(told["method"], "notifications/resources/list_changed");
    assert_eq!(listed(&gateway, Revision::LATEST).await, Vec::<Value>::new());
    gateway.stop().await;
}
