//! How lists are kept fresh: read again when they are old, when somebody wants it, and after failures.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use mcpfleet::fleet::UpstreamState;
use mcpfleet::upstream::{Endpoint, Freshness, Health, HttpEndpoint, Terms, Upstream as Held};
use serde_json::json;
use tokio::time::{Instant, sleep};

use crate::support::gateway::{TestGateway, plan};
use crate::support::held::{Tools, eventually, hold_at, terms, until, until_it_has};
use crate::support::upstream::{self, Answer, Upstream};

async fn hold(server: &Upstream, freshness: Freshness) -> Held {
    let endpoint = Endpoint::Http(HttpEndpoint {
        url: format!("http://{}/mcp", server.address).parse().unwrap(),
        headers: Default::default(),
    });
    hold_at(endpoint, Terms { freshness, ..terms() }).await
}

fn seldom() -> Freshness {
    Freshness {
        ttl: Duration::from_secs(3600),
        ..Freshness::default()
    }
}

#[tokio::test]
async fn lists_are_read_again_when_they_are_old_and_not_before() {
    let tools = Tools::default();
    let listed = tools.clone();
    let server = Upstream::start(move |seen| upstream::modern(seen, &listed.list())).await;
    let ttl = Duration::ZERO;
    let fresh = hold(&server, Freshness { ttl, ..seldom() }).await;
    let stale = hold(&server, seldom()).await;
    tools.add("new");
    until_it_has(&fresh, "new").await;
    let before = server.seen_of("tools/list").len();
    sleep(Duration::from_millis(2_500)).await;
    let read = server.seen_of("tools/list").len() - before;
    assert!((1..=3).contains(&read), "at most once a second: {read}");
    assert!(stale.state().borrow().catalog.as_ref().unwrap().tools.is_empty());
    stale.refresh();
    until_it_has(&stale, "new").await;
}

#[tokio::test]
async fn clients_are_answered_from_what_was_read_and_a_new_mark_has_it_read_again() {
    let tools = Tools::default();
    let listed = tools.clone();
    let server = Upstream::start(move |seen| upstream::modern(seen, &listed.list())).await;
    let input = plan(&[("s", server.address)]);
    let mut gateway = TestGateway::start(input.clone()).await;
    gateway
        .until(|o| o.servers.values().all(|s| s.state == UpstreamState::Ready))
        .await;
    for _ in 0..2 {
        gateway.modern("tools/list", json!({})).await;
    }
    assert_eq!(server.seen_of("tools/list").len(), 1);

    let (mut on_server, mut on_federation) = (input.clone(), input.clone());
    on_server.servers[0].refresh.insert("now".into());
    on_federation.federations[0].refresh = Some("now".into());
    for (tool, marked) in [("first", on_server), ("second", on_federation)] {
        tools.add(tool);
        gateway.input.send_replace(marked.into());
        let name = format!("s__{tool}");
        let deadline = Instant::now() + Duration::from_secs(10);
        while !gateway
            .modern("tools/list", json!({}))
            .await
            .to_string()
            .contains(&name)
        {
            assert!(Instant::now() < deadline, "{tool} never came");
            sleep(Duration::from_millis(20)).await;
        }
    }
    assert_eq!(
        server.seen_of("server/discover").len(),
        1,
        "nothing was connected to again"
    );
    let before = server.seen_of("tools/list").len();
    gateway.input.send_replace(input.into());
    sleep(Duration::from_millis(1300)).await;
    assert_eq!(
        server.seen_of("tools/list").len(),
        before,
        "a mark that goes asks for nothing"
    );
}

#[tokio::test]
async fn lists_that_cannot_be_read_are_tried_again_while_calls_go_on() {
    let tools = Tools::default();
    tools.add("a");
    let (listed, lists) = (tools.clone(), Arc::new(AtomicUsize::new(0)));
    let counted = Arc::clone(&lists);
    let server = Upstream::start(move |seen| match seen.method() {
        "tools/list" if matches!(counted.fetch_add(1, Ordering::SeqCst), 1 | 2) => Answer::status(503),
        _ => upstream::modern(seen, &listed.list()),
    })
    .await;
    let input = plan(&[("s", server.address)]);
    let mut gateway = TestGateway::start(input.clone()).await;
    gateway
        .until(|o| o.servers.values().all(|s| s.state == UpstreamState::Ready))
        .await;
    tools.add("b");
    let mut marked = input;
    marked.servers[0].refresh.insert("now".into());
    gateway.input.send_replace(marked.into());
    let failed = gateway
        .until(|o| o.servers.values().any(|s| s.state != UpstreamState::Ready))
        .await;
    let state = &failed.servers.values().next().unwrap().state;
    let UpstreamState::Failed { reason, .. } = state else {
        panic!("{state:?}")
    };
    assert_eq!(*reason, "BadStatus");
    let answer = gateway
        .modern("tools/call", json!({"name": "s__a", "arguments": {}}))
        .await;
    assert_eq!(answer["result"]["content"][0]["text"], "a", "{answer}");
    let since = Instant::now();
    gateway
        .until(|o| o.servers.values().all(|s| s.state == UpstreamState::Ready))
        .await;
    assert!(
        since.elapsed() > Duration::from_millis(2500),
        "after one and two seconds"
    );
    let listed = gateway.modern("tools/list", json!({})).await;
    assert_eq!(listed["result"]["tools"].as_array().unwrap().len(), 2, "{listed}");
    assert_eq!(lists.load(Ordering::SeqCst), 4);
    assert_eq!(server.seen_of("server/discover").len(), 1);
}

#[tokio::test]
async fn the_last_good_lists_are_served_for_a_while_and_then_nothing_with_the_reason() {
    let is_away = Arc::new(AtomicBool::new(false));
    let away = Arc::clone(&is_away);
    let server = Upstream::start(move |seen| {
        if away.load(Ordering::SeqCst) {
            return Answer::status(503);
        }
        upstream::modern(seen, &json!([{"name": "a", "inputSchema": {"type": "object"}}]))
    })
    .await;
    let stale_for = Duration::from_millis(700);
    let held = hold(&server, Freshness { stale_for, ..seldom() }).await;
    for _ in 0..2 {
        is_away.store(true, Ordering::SeqCst);
        held.refresh();
        let failed = until(&held, "failed", |state| matches!(state.health, Health::Failed(_))).await;
        assert_eq!(failed.catalog.as_ref().unwrap().tools.len(), 1);
        let since = Instant::now();
        let empty = until(&held, "empty", |state| state.catalog.is_none()).await;
        let passed = since.elapsed();
        assert!(
            passed > stale_for - Duration::from_millis(200) && passed < stale_for * 2,
            "{passed:?}"
        );
        assert_eq!(empty.health.reason(), "BadStatus");
        is_away.store(false, Ordering::SeqCst);
        until_it_has(&held, "a").await;
    }
}

#[tokio::test]
async fn a_failure_is_not_kept_and_the_next_reading_counts() {
    let lists = AtomicUsize::new(0);
    let server = Upstream::start(move |seen| match seen.method() {
        "tools/list" if lists.fetch_add(1, Ordering::SeqCst) == 0 => seen.error(200, -32603, "not yet"),
        _ => upstream::modern(seen, &json!([{"name": "a", "inputSchema": {"type": "object"}}])),
    })
    .await;
    let gateway = TestGateway::start(plan(&[("s", server.address)])).await;
    eventually("asked", || !server.seen_of("tools/list").is_empty()).await;
    let first = gateway.modern("tools/list", json!({})).await;
    assert_eq!(first["result"]["tools"], json!([]));
    let deadline = Instant::now() + Duration::from_secs(5);
    while gateway.modern("tools/list", json!({})).await["result"]["tools"] == json!([]) {
        assert!(Instant::now() < deadline, "never read again");
        sleep(Duration::from_millis(50)).await;
    }
}

#[tokio::test]
async fn members_that_limit_their_calls_share_one_connection_under_the_servers_name() {
    let tools = Tools::default();
    let listed = tools.clone();
    let server = Upstream::start(move |seen| match seen.method() {
        "tools/call" => Answer::Hang,
        _ => upstream::modern(seen, &listed.list()),
    })
    .await;
    tools.add("first");
    let members = json!([
        {"name": "hasty", "server": {"name": "s"}, "prefix": "hasty", "timeouts": {"call": "300ms", "resource": "1s"}},
        {"name": "hastier", "server": {"name": "s"}, "prefix": "hastier", "timeouts": {"call": "200ms"}},
        {"name": "calm", "server": {"name": "s"}, "prefix": "calm"},
    ]);
    let gateway = TestGateway::ready_with(&[("s", server.address)], json!({"members": members})).await;
    assert_eq!(server.seen_of("tools/list").len(), 1, "they are read once for all");
    for (member, limit) in [("hasty", "300ms"), ("hastier", "200ms")] {
        let called = gateway
            .modern("tools/call", json!({"name": format!("{member}__first")}))
            .await;
        let message = called["error"]["message"].as_str().unwrap();
        assert!(message.contains(limit), "{called}");
    }
    let calm = gateway.modern("tools/call", json!({"name": "calm__first"}));
    assert!(tokio::time::timeout(Duration::from_millis(900), calm).await.is_err());
    assert_eq!(server.seen_of("tools/list").len(), 1);
}

#[tokio::test]
async fn a_member_has_lists_as_fresh_and_waits_as_long_as_it_says_itself() {
    let tools = Tools::default();
    let listed = tools.clone();
    let server = Upstream::start(move |seen| match seen.method() {
        "tools/call" => Answer::Hang,
        _ => upstream::modern(seen, &listed.list()),
    })
    .await;
    tools.add("first");
    let members = json!([
        {"name": "hasty", "server": {"name": "s"}, "prefix": "hasty",
         "cache": {"ttl": "-1s"}, "timeouts": {"call": "300ms"}},
        {"name": "calm", "server": {"name": "s"}, "prefix": "calm", "cache": {"ttl": "1h"}},
    ]);
    let gateway = TestGateway::ready_with(&[("s", server.address)], json!({"members": members})).await;
    let listed = async || gateway.modern("tools/list", json!({})).await.to_string();
    let until = async |tools: &[&str]| {
        let deadline = Instant::now() + Duration::from_secs(10);
        loop {
            let listed = listed().await;
            if tools.iter().all(|tool| listed.contains(tool)) {
                return listed;
            }
            assert!(Instant::now() < deadline, "{listed}");
            sleep(Duration::from_millis(20)).await;
        }
    };
    until(&["calm__first", "hasty__first"]).await;
    tools.add("second");
    let now = until(&["hasty__second"]).await;
    assert!(!now.contains("calm__second"), "they are fresh for it");
    // What a member says otherwise is nothing that a series is called by.
    let page = gateway.metrics_page();
    let servers = page.lines().filter(|line| line.contains("server=\""));
    let strange: Vec<&str> = servers.filter(|line| !line.contains("server=\"default/s\"")).collect();
    assert!(strange.is_empty(), "{strange:?}");

    let called = gateway.modern("tools/call", json!({"name": "hasty__first"})).await;
    let message = called["error"]["message"].as_str().unwrap();
    assert!(message.contains("300ms"), "{called}");
    let calm = gateway.modern("tools/call", json!({"name": "calm__first"}));
    assert!(tokio::time::timeout(Duration::from_millis(900), calm).await.is_err());
}
