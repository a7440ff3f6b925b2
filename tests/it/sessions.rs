//! Sessions of Legacy clients: tokens that any replica takes, for one federation, until they expire or are ended.

use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwapOption;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bytes::Bytes;
use http::Request;
use http_body_util::Full;
use mcpfleet::api::federation::Sessions;
use mcpfleet::fleet::{ObjectKey, PlanInput};
use mcpfleet::gateway::session::Keyring;
use mcpfleet::mcp::Revision;
use serde_json::{Value, json};

use crate::support::apiserver::ApiServer;
use crate::support::gateway::{TestGateway, plan};
use crate::support::http::Reply;
use crate::support::replica::{Replica, options, until};
use crate::support::upstream::{self, Upstream};

const KEY: [u8; 32] = [7; 32];

fn keyring() -> Arc<Keyring> {
    Arc::new(Keyring::new(&KEY, []).unwrap())
}

/// A federation without members, whose sessions are as `spec` says.
fn with_sessions(spec: Value) -> PlanInput {
    let mut plan = plan(&[]);
    let sessions: Sessions = serde_json::from_value(spec).unwrap();
    plan.federations[0].spec.sessions = Some(sessions);
    plan
}

async fn gateway() -> TestGateway {
    TestGateway::start(plan(&[])).await
}

async fn initialize(gateway: &TestGateway) -> Reply {
    let params = json!({
        "protocolVersion": "2025-06-18", "capabilities": {"sampling": {}}, "clientInfo": {"name": "probe", "version": "0"},
    });
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params});
    gateway.bare_post(&body.to_string(), []).await
}

/// The token that a new session is given.
async fn open(gateway: &TestGateway) -> String {
    let reply = initialize(gateway).await;
    reply.header("mcp-session-id").expect("a session").to_owned()
}

fn list() -> String {
    json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"}).to_string()
}

async fn list_in(gateway: &TestGateway, session: &str) -> Reply {
    gateway.bare_post(&list(), [("mcp-session-id", session)]).await
}

async fn end(gateway: &TestGateway, headers: &[(&str, &str)]) -> Reply {
    let request = headers
        .iter()
        .fold(Request::delete(gateway.url()), |request, (name, value)| {
            request.header(*name, *value)
        });
    gateway.send(request.body(Full::<Bytes>::default()).unwrap()).await
}

fn assert_refused(reply: &Reply, status: u16, text: &str, what: &str) {
    assert_eq!((reply.status, reply.text.as_str()), (status, text), "{what}");
    assert!(
        reply.header("content-type").unwrap().starts_with("text/plain"),
        "{what}"
    );
}

#[tokio::test]
async fn a_handshake_opens_a_session_of_a_day() {
    let gateway = gateway().await;
    let reply = initialize(&gateway).await;
    assert_eq!(
        (reply.status, reply.header("content-type").unwrap()),
        (200, "application/json; charset=utf-8")
    );
    let token = reply.header("mcp-session-id").unwrap();
    let parts: Vec<&str> = token.split('.').collect();
    let part =
        |index: usize| -> Value { serde_json::from_slice(&URL_SAFE_NO_PAD.decode(parts[index]).unwrap()).unwrap() };
    assert_eq!((parts.len(), part(0)), (3, json!({"alg": "HS256", "typ": "JWT"})));
    let claims = part(1);
    assert_eq!(
        claims["exp"].as_u64().unwrap() - claims["iat"].as_u64().unwrap(),
        86_400
    );
    assert_eq!(
        (
            &claims["aud"],
            &claims["protocol"],
            &claims["capabilities"],
            &claims["client"]
        ),
        (
            &json!("default/fed"),
            &json!("2025-06-18"),
            &json!({"sampling": {}}),
            &json!("probe")
        )
    );
    assert_eq!(claims.get("sub"), None);
    assert!(list_in(&gateway, token).await.json()["result"]["tools"].is_array());
    assert_ne!(open(&gateway).await, token);
}

#[tokio::test]
async fn a_refused_handshake_opens_none() {
    let gateway = gateway().await;
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"capabilities": {}}});
    let reply = gateway.bare_post(&body.to_string(), []).await;
    assert_eq!((reply.status, &reply.json()["error"]["code"]), (200, &json!(-32602)));
    assert_eq!(reply.header("mcp-session-id"), None);
}

#[tokio::test]
async fn everything_else_of_a_legacy_client_needs_its_session() {
    let gateway = gateway().await;
    let token = open(&gateway).await;
    let mut tampered = token.clone();
    let other = if token.as_bytes()[60] == b'A' { "B" } else { "A" };
    tampered.replace_range(60..61, other);
    let ping = json!({"jsonrpc": "2.0", "id": 1, "method": "ping"});
    let unknown = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/rename"});
    let told = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
    let answered = json!({"jsonrpc": "2.0", "id": 1, "result": {}});
    for body in [
        list(),
        ping.to_string(),
        unknown.to_string(),
        told.to_string(),
        answered.to_string(),
    ] {
        let reply = gateway.bare_post(&body, []).await;
        assert_refused(&reply, 400, "MCP-Session-Id header required", &body);
        for session in ["", "abc.def", "abc", &tampered, &format!("{token}A")] {
            let reply = gateway.bare_post(&body, [("mcp-session-id", session)]).await;
            assert_refused(&reply, 404, "Session not found", &format!("{body} in {session}"));
        }
        let reply = gateway.bare_post(&body, [("mcp-session-id", &*token)]).await;
        assert!(
            matches!(reply.status, 200 | 202),
            "{body}: {} {}",
            reply.status,
            reply.text
        );
    }
    let page = gateway.metrics_page();
    let line = r#"mcpfleet_requests_total{federation="default/fed",method="other",outcome="refused"} 19"#;
    assert!(
        page.contains(line),
        "messages that want no answer are not counted: {page}"
    );
}

#[tokio::test]
async fn a_session_speaks_the_revision_it_was_opened_with() {
    let tools =
        json!([{"name": "t", "title": "T", "inputSchema": {"type": "object"}, "outputSchema": {"type": "object"}}]);
    let server = Upstream::start(move |seen| upstream::legacy(seen, &tools)).await;
    let gateway = TestGateway::ready(&[("s", server.address)]).await;
    let old = gateway.session(Some("2025-03-26")).await.unwrap();
    let new = gateway.session(Some("2025-06-18")).await.unwrap();
    let listed = async |headers: &[(&str, &str)]| {
        let reply = gateway.bare_post(&list(), headers.iter().copied()).await;
        reply.json()["result"]["tools"][0]["outputSchema"].is_object()
    };
    assert!(
        listed(&[("mcp-session-id", &new)]).await,
        "clients may leave the version out"
    );
    assert!(listed(&[("mcp-session-id", &new), ("mcp-protocol-version", "2025-06-18")]).await);
    assert!(!listed(&[("mcp-session-id", &old)]).await);
    assert!(!listed(&[("mcp-session-id", &old), ("mcp-protocol-version", "2025-11-25")]).await);
}

#[tokio::test]
async fn the_version_header_is_checked_beside_the_session() {
    let gateway = gateway().await;
    let token = open(&gateway).await;
    let version = ("mcp-protocol-version", "2023-01-01");
    for session in [&*token, "abc"] {
        let reply = gateway.bare_post(&list(), [("mcp-session-id", session), version]).await;
        assert_eq!((reply.status, &reply.json()["error"]["code"]), (400, &json!(-32602)));
    }
    assert_eq!(end(&gateway, &[("mcp-session-id", &token), version]).await.status, 400);
    assert_eq!(list_in(&gateway, &token).await.status, 200, "it goes on");
}

#[tokio::test]
async fn any_replica_with_the_same_key_takes_a_session() {
    let first = TestGateway::start_with_keys(plan(&[]), Some(keyring())).await;
    let token = open(&first).await;
    first.stop().await;
    let second = TestGateway::start_with_keys(plan(&[]), Some(keyring())).await;
    assert_eq!(list_in(&second, &token).await.status, 200);
    let stranger = gateway().await;
    assert_refused(
        &list_in(&stranger, &token).await,
        404,
        "Session not found",
        "another key",
    );
}

#[tokio::test]
async fn a_session_is_for_one_federation() {
    let mut plan = plan(&[]);
    let mut other = plan.federations[0].clone();
    other.key = ObjectKey::new("default", "other");
    plan.federations.push(other);
    let gateway = TestGateway::start(plan).await;
    let token = open(&gateway).await;
    let other = Request::post(gateway.url().replace("/fed/", "/other/"))
        .header("content-type", "application/json")
        .header("mcp-session-id", &token);
    let reply = gateway.send(other.body(Full::new(Bytes::from(list()))).unwrap()).await;
    assert_refused(&reply, 404, "Session not found", "another federation");
}

#[tokio::test]
async fn a_session_outlives_changes_of_the_fleet() {
    let server =
        Upstream::start(|seen| upstream::legacy(seen, &json!([{"name": "t", "inputSchema": {"type": "object"}}])))
            .await;
    let mut gateway = TestGateway::start(plan(&[])).await;
    let token = open(&gateway).await;
    gateway.input.send(Arc::new(plan(&[("s", server.address)]))).unwrap();
    gateway
        .until(|o| o.federations.values().any(|federation| federation.index.tools == 1))
        .await;
    assert_eq!(
        list_in(&gateway, &token).await.json()["result"]["tools"][0]["name"],
        "s__t"
    );
}

#[tokio::test]
async fn a_session_ends_by_delete() {
    let gateway = gateway().await;
    let (ended, other) = (open(&gateway).await, open(&gateway).await);
    let missing = end(&gateway, &[]).await;
    assert_refused(&missing, 400, "MCP-Session-Id header required", "no session");
    let unknown = end(&gateway, &[("mcp-session-id", "abc.def")]).await;
    assert_refused(&unknown, 404, "Session not found", "no such session");
    let reply = end(&gateway, &[("mcp-session-id", &ended)]).await;
    assert_eq!((reply.status, reply.text.as_str()), (200, ""));
    assert_refused(&list_in(&gateway, &ended).await, 404, "Session not found", "ended");
    let again = end(&gateway, &[("mcp-session-id", &ended)]).await;
    assert_refused(&again, 404, "Session not found", "ended before");
    assert_eq!(list_in(&gateway, &other).await.status, 200, "others go on");
    assert!(gateway.metrics_page().contains("mcpfleet_sessions_denied 1\n"));
}

#[tokio::test]
async fn a_session_ends_by_itself() {
    let gateway = TestGateway::start(with_sessions(json!({"ttl": "1s"}))).await;
    let token = open(&gateway).await;
    assert_eq!(list_in(&gateway, &token).await.status, 200);
    let expired = tokio::time::timeout(Duration::from_secs(10), async {
        loop {
            let reply = list_in(&gateway, &token).await;
            if reply.status != 200 {
                return reply;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    });
    assert_refused(&expired.await.unwrap(), 404, "Session not found", "expired");
}

#[tokio::test]
async fn an_id_that_is_too_long_to_be_one_is_unknown_and_holds_nobody_up() {
    let gateway = gateway().await;
    let token = open(&gateway).await;
    let rubbish = [
        "x".repeat(10_000),
        "a.".repeat(5_000),
        format!("{token}{}", ".".repeat(10_000)),
    ];
    let began = tokio::time::Instant::now();
    for _ in 0..50 {
        for session in &rubbish {
            assert_refused(&list_in(&gateway, session).await, 404, "Session not found", "rubbish");
        }
    }
    assert!(began.elapsed() < Duration::from_secs(5));
    assert_eq!(list_in(&gateway, &token).await.status, 200, "others go on");
}

#[tokio::test]
async fn modern_clients_have_no_sessions() {
    let gateway = gateway().await;
    let meta = json!({"io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {}});
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {"_meta": meta}}).to_string();
    let headers = [("mcp-protocol-version", "2026-07-28"), ("mcp-method", "tools/list")];
    let without = gateway.bare_post(&body, headers).await;
    let with_any = [headers.as_slice(), &[("mcp-session-id", "abc")]].concat();
    let with_any = gateway.bare_post(&body, with_any).await;
    for reply in [without, with_any] {
        assert_eq!(reply.status, 200, "{}", reply.text);
        assert_eq!(reply.header("mcp-session-id"), None);
    }
    let told = json!({"jsonrpc": "2.0", "method": "notifications/x", "params": {"_meta": meta}}).to_string();
    assert_eq!(gateway.bare_post(&told, headers).await.status, 202);
    assert_eq!(
        gateway.bare_post(&told, []).await.status,
        202,
        "the body alone tells the era"
    );
}

#[tokio::test]
async fn with_sessions_disabled_each_request_stands_for_itself() {
    let gateway = TestGateway::start(with_sessions(json!({"enabled": false}))).await;
    let reply = initialize(&gateway).await;
    assert_eq!((reply.status, reply.header("mcp-session-id")), (200, None));
    assert_eq!(gateway.bare_post(&list(), []).await.status, 200);
    assert_eq!(
        list_in(&gateway, "abc").await.status,
        200,
        "whatever it may be is ignored"
    );
    let told = json!({"jsonrpc": "2.0", "method": "notifications/initialized"}).to_string();
    assert_eq!(gateway.bare_post(&told, []).await.status, 202);
    let reply = end(&gateway, &[("mcp-session-id", "abc")]).await;
    assert_eq!((reply.status, reply.header("allow")), (405, Some("POST, OPTIONS")));
}

#[tokio::test]
async fn until_the_key_is_there_legacy_clients_wait_and_others_do_not() {
    let gateway = TestGateway::start_with_keys(plan(&[]), None).await;
    let reply = initialize(&gateway).await;
    assert_refused(&reply, 503, "sessions are not ready yet; try again", "no key");
    assert_eq!(reply.header("retry-after"), Some("1"));
    let elsewhere = TestGateway::start_with_keys(plan(&[]), Some(keyring())).await;
    let token = open(&elsewhere).await;
    assert_eq!(list_in(&gateway, &token).await.status, 503, "nobody may call it gone");
    assert!(gateway.modern("tools/list", json!({})).await["result"]["tools"].is_array());
    gateway.keyring.store(Some(keyring()));
    assert_eq!(list_in(&gateway, &token).await.status, 200);
    let own = gateway.session(Some(Revision::LATEST_LEGACY.as_str())).await.unwrap();
    assert_eq!(list_in(&elsewhere, &own).await.status, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn in_a_cluster_every_replica_signs_with_what_the_leader_made() {
    let Some(server) = ApiServer::shared().await else {
        return;
    };
    let namespace = server.namespace("session-keys").await;
    let start = async |controller: bool| {
        let keyring = Arc::new(ArcSwapOption::empty());
        let mut options = options(&namespace);
        options.controller = controller;
        options.session_keys = Some(Arc::clone(&keyring));
        (Replica::start(server.client().await, options), keyring)
    };
    let (follower, early) = start(false).await;
    follower.input().await;
    assert!(
        early.load().is_none(),
        "nobody has made a key, and this replica never does"
    );
    let (leader, own) = start(true).await;
    until("keys for both", async || {
        (early.load().is_some() && own.load().is_some()).then_some(())
    })
    .await;
    follower.stop().await;
    leader.stop().await;
    let (restarted, after) = start(false).await;
    until("the key after a restart", async || after.load().is_some().then_some(())).await;
    restarted.stop().await;

    let gateways = [early, own, after].map(|keyring| TestGateway::start_with_keys(plan(&[]), keyring.load_full()));
    let [early, own, after] = futures::future::join_all(gateways).await.try_into().ok().unwrap();
    let token = open(&early).await;
    for gateway in [&own, &after] {
        assert_eq!(list_in(gateway, &token).await.status, 200);
    }
}
