//! Who may connect: by API key, or everyone; and that keys stay where they belong.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use ::http::Request;
use ::http::request::Builder;
use bytes::Bytes;
use http_body_util::Full;
use k8s_openapi::api::core::v1::Secret;
use kube::api::DeleteParams;
use mcpfleet::api::MCPFederation;
use mcpfleet::fleet::input::federation_input;
use mcpfleet::fleet::{Access, Content, PlanInput, Reference, ReferenceKind, References};
use mcpfleet::mcp::Revision;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::process::Command;

use crate::support::gateway::{TestGateway, plan, plan_with};
use crate::support::http::{self, Reply};
use crate::support::process::{Printed, Process};
use crate::support::replica::until;
use crate::support::up::Up;
use crate::support::upstream::{self, Upstream};
use crate::support::world::World;

pub(crate) const ALICE: (&str, &str) = ("authorization", "Bearer key-of-alice");
pub(crate) const BOB: (&str, &str) = ("x-api-key", "key-of-bob");

/// The plan of `plan`, with access by the keys of a Secret that has this content.
pub(crate) fn by_key(mut plan: PlanInput, content: Content) -> PlanInput {
    let federation = &mut plan.federations[0];
    let access = json!({"apiKeys": {"secretRef": {"name": "keys"}}});
    federation.spec.access = Some(serde_json::from_value(access).unwrap());
    let mut object = MCPFederation::new(&federation.key.name, federation.spec.clone());
    object.metadata.namespace = Some(federation.key.namespace.clone());
    let secret = Reference::new(ReferenceKind::Secret, &federation.key.namespace, "keys");
    let references: References = [(secret, content)].into_iter().collect();
    *federation = federation_input(&object, &references);
    plan
}

pub(crate) fn keys(keys: &[(&str, &str)]) -> Content {
    let keys = keys
        .iter()
        .map(|(name, key)| ((*name).to_owned(), key.as_bytes().to_vec()));
    Content::Found(keys.collect())
}

pub(crate) fn alice_and_bob() -> Content {
    keys(&[("alice", "key-of-alice"), ("bob", "key-of-bob\n")])
}

fn list() -> String {
    json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"}).to_string()
}

async fn modern_list(gateway: &TestGateway, key: &[(&str, &str)]) -> Reply {
    let meta = json!({"io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {}});
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {"_meta": meta}});
    let headers = [("mcp-protocol-version", "2026-07-28"), ("mcp-method", "tools/list")];
    gateway.bare_post(&body.to_string(), [&headers, key].concat()).await
}

async fn session(gateway: &TestGateway, key: (&str, &str)) -> String {
    let opened = http::open_session(&http::client(), &gateway.url(), Revision::LATEST_LEGACY, &[key]).await;
    opened.unwrap()
}

async fn list_in(gateway: &TestGateway, session: &str, key: (&str, &str)) -> u16 {
    let headers = [("mcp-session-id", session), key];
    gateway.bare_post(&list(), headers).await.status
}

fn assert_kept_out(reply: &Reply, what: &str) {
    assert_eq!(reply.status, 401, "{what}: {}", reply.text);
    assert!(
        reply.header("www-authenticate").unwrap().starts_with("Bearer"),
        "{what}"
    );
    let error = &reply.json()["error"];
    assert!(
        error["code"].is_i64() && error["message"].is_string(),
        "{what}: {error}"
    );
}

#[tokio::test]
async fn who_has_a_key_is_let_in_and_nobody_else() {
    let gateway = TestGateway::start(by_key(plan(&[]), alice_and_bob())).await;
    for key in [ALICE, BOB] {
        assert_eq!(modern_list(&gateway, &[key]).await.status, 200, "{key:?}");
        let session = session(&gateway, key).await;
        assert_eq!(list_in(&gateway, &session, key).await, 200, "{key:?}");
    }
    for wrong in [
        vec![],
        vec![("authorization", "Bearer key-of-carol")],
        vec![("authorization", "Bearer alice")],
        vec![("authorization", "key-of-alice")],
        vec![("x-api-key", "key-of-bob2")],
        vec![("cookie", "key-of-alice")],
    ] {
        assert_kept_out(&modern_list(&gateway, &wrong).await, &format!("Modern {wrong:?}"));
        let reply = gateway.bare_post(&list(), wrong.clone()).await;
        assert_kept_out(&reply, &format!("Legacy {wrong:?}"));
        let reply = gateway.bare_post("not even JSON", wrong.clone()).await;
        assert_kept_out(&reply, &format!("garbage {wrong:?}"));
    }
    let page = gateway.metrics_page();
    assert!(!page.contains("alice"), "{page}");
}

#[tokio::test]
async fn a_wrong_key_is_told_apart_from_none() {
    let gateway = TestGateway::start(by_key(plan(&[]), alice_and_bob())).await;
    let none = modern_list(&gateway, &[]).await;
    assert_eq!(none.header("www-authenticate"), Some("Bearer"));
    let message = none.json()["error"]["message"].as_str().unwrap().to_owned();
    assert!(
        message.contains("Authorization: Bearer KEY") && message.contains("X-API-Key"),
        "{message}"
    );
    let wrong = modern_list(&gateway, &[("x-api-key", "key-of-carol")]).await;
    assert_eq!(wrong.header("www-authenticate"), Some("Bearer error=\"invalid_token\""));
    assert!(!wrong.text.contains("carol"), "{}", wrong.text);
}

#[tokio::test]
async fn every_http_method_asks_for_the_key_but_a_browsers_question() {
    let gateway = TestGateway::start(by_key(plan(&[]), alice_and_bob())).await;
    let send = async |request: Builder| gateway.send(request.body(Full::<Bytes>::default()).unwrap()).await;
    assert_kept_out(&send(Request::get(gateway.url())).await, "GET");
    assert_kept_out(&send(Request::delete(gateway.url())).await, "DELETE");
    let preflight = send(Request::options(gateway.url()).header("origin", "http://localhost:5173")).await;
    assert_eq!(preflight.status, 200);
}

#[tokio::test]
async fn pages_of_other_sites_may_call_where_the_federation_says_so() {
    const LOCAL: &str = "http://localhost:5173";
    const NAMED: &str = "https://ui.example";
    const EVIL: &str = "https://evil.example";
    let with = |origins: Value| plan_with(&[], json!({"access": {"anonymous": {}, "origins": origins}}));
    let mut gateway = TestGateway::start(plan(&[])).await;
    let ping = r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;
    for (origins, let_in) in [
        (json!({}), &[LOCAL][..]),
        (json!({"allow": [NAMED]}), &[LOCAL, NAMED]),
        (json!({"policy": "AllowList", "allow": [NAMED]}), &[NAMED]),
        (json!({"policy": "Any"}), &[LOCAL, NAMED, EVIL]),
    ] {
        gateway.input.send_replace(with(origins.clone()).into());
        let probe = *let_in.last().unwrap();
        let preflight = async |gateway: &TestGateway, origin: &str| {
            let request = Request::options(gateway.url()).header("origin", origin);
            gateway.send(request.body(Full::<Bytes>::default()).unwrap()).await
        };
        until("the new policy", async || {
            (preflight(&gateway, probe).await.status == 200).then_some(())
        })
        .await;
        let session = gateway.open_session(Revision::LATEST_LEGACY).await;
        for origin in [LOCAL, NAMED, EVIL] {
            let expected = if let_in.contains(&origin) { 200 } else { 403 };
            let headers = [("mcp-session-id", session.as_str()), ("origin", origin)];
            for reply in [
                gateway.bare_post(ping, headers).await,
                preflight(&gateway, origin).await,
            ] {
                assert_eq!(reply.status, expected, "{origin} by {origins}");
                let told = reply.header("access-control-allow-origin");
                assert_eq!(told, (expected == 200).then_some(origin), "{origins}");
            }
        }
        let none = gateway.bare_post(ping, [("mcp-session-id", session.as_str())]).await;
        assert_eq!(none.status, 200, "who is no page by {origins}");
    }
    gateway.until(|_| true).await;
}

#[tokio::test]
async fn a_session_serves_its_principal_only() {
    let gateway = TestGateway::start(by_key(plan(&[]), alice_and_bob())).await;
    let alices = session(&gateway, ALICE).await;
    assert_eq!(list_in(&gateway, &alices, BOB).await, 404);
    let end = async |(name, value): (&str, &str)| {
        let request = Request::delete(gateway.url())
            .header("mcp-session-id", &alices)
            .header(name, value);
        gateway
            .send(request.body(Full::<Bytes>::default()).unwrap())
            .await
            .status
    };
    assert_eq!(end(BOB).await, 404, "nobody ends another's session");
    assert_eq!(list_in(&gateway, &alices, ALICE).await, 200);
    assert_eq!(end(ALICE).await, 200);
    assert_eq!(list_in(&gateway, &alices, ALICE).await, 404);
}

#[tokio::test]
async fn a_session_is_no_key() {
    let gateway = TestGateway::start(by_key(plan(&[]), alice_and_bob())).await;
    let alices = session(&gateway, ALICE).await;
    let reply = gateway.bare_post(&list(), [("mcp-session-id", &*alices)]).await;
    assert_kept_out(&reply, "the session alone");
}

#[tokio::test]
async fn a_key_that_was_taken_away_is_refused_at_once_and_a_new_one_serves_the_same_session() {
    let mut gateway = TestGateway::start(by_key(plan(&[]), alice_and_bob())).await;
    let alices = session(&gateway, ALICE).await;
    let changed = by_key(plan(&[]), keys(&[("alice", "another")]));
    gateway.input.send(Arc::new(changed)).unwrap();
    let new = ("x-api-key", "another");
    until("the new key", async || {
        (modern_list(&gateway, &[new]).await.status == 200).then_some(())
    })
    .await;
    assert_eq!(list_in(&gateway, &alices, ALICE).await, 401);
    assert_eq!(
        list_in(&gateway, &alices, new).await,
        200,
        "the session is hers, not the key's"
    );
    gateway.input.send(Arc::new(plan(&[]))).unwrap();
    until("no key asked for", async || {
        (modern_list(&gateway, &[]).await.status == 200).then_some(())
    })
    .await;
    let reply = gateway.bare_post(&list(), [("mcp-session-id", &*alices)]).await;
    assert_eq!(reply.status, 404, "it was opened by somebody, and nobody is known now");
    gateway.until(|_| true).await;
}

#[tokio::test]
async fn without_its_keys_a_federation_is_closed_to_everyone() {
    for content in [Content::Missing, Content::Unreadable("forbidden".into())] {
        let plan = by_key(plan(&[]), content);
        assert!(matches!(plan.federations[0].access, Access::Closed(_)));
        let gateway = TestGateway::start(plan).await;
        for key in [vec![], vec![ALICE], vec![("authorization", "Bearer ")]] {
            let reply = modern_list(&gateway, &key).await;
            assert_eq!(reply.status, 503, "{}", reply.text);
            assert!(reply.json()["error"]["message"].is_string());
            assert!(
                !reply.text.contains("keys\""),
                "whoever asks is not told which Secret: {}",
                reply.text
            );
            assert_eq!(gateway.bare_post(&list(), key).await.status, 503);
        }
    }
    let gateway = TestGateway::start(by_key(plan(&[]), keys(&[]))).await;
    assert_kept_out(
        &modern_list(&gateway, &[("x-api-key", "")]).await,
        "an empty key for an empty Secret",
    );
}

#[tokio::test]
async fn a_key_never_reaches_a_server() {
    let tools = json!([{"name": "echo", "inputSchema": {"type": "object"}}]);
    let server = Upstream::start(move |seen| upstream::legacy(seen, &tools)).await;
    let mut gateway = TestGateway::start(by_key(plan(&[("s", server.address)]), alice_and_bob())).await;
    gateway
        .until(|o| o.federations.values().any(|federation| federation.index.tools == 1))
        .await;
    let body =
        json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "s__echo", "arguments": {}}});
    for key in [ALICE, BOB] {
        let session = session(&gateway, key).await;
        let reply = gateway
            .bare_post(&body.to_string(), [("mcp-session-id", &*session), key])
            .await;
        assert_eq!(reply.json()["result"]["content"][0]["text"], "echo");
    }
    assert_eq!(server.seen_of("tools/call").len(), 2);
    for seen in server.seen() {
        let shown = format!("{:?} {}", seen.headers, seen.text);
        assert!(!shown.contains("key-of"), "{shown}");
    }
}

struct Files(TempDir);

impl Files {
    fn new() -> Self {
        Self(TempDir::new().unwrap())
    }

    /// A federation with keys in a Secret of the same file.
    fn write(&self, keys: &Value) -> PathBuf {
        let federation = json!({
            "apiVersion": "mcpfleet.dev/v1alpha1", "kind": "MCPFederation", "metadata": {"name": "tools"},
            "spec": {"access": {"apiKeys": {"secretRef": {"name": "keys"}}}},
        });
        let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "keys"}, "stringData": keys});
        let path = self.0.path().join("fleet.yaml");
        std::fs::write(&path, format!("{federation}\n---\n{secret}\n")).unwrap();
        path
    }
}

/// The status that a Modern client gets at `url`.
async fn status(url: &str, key: &str) -> u16 {
    let body = json!({"jsonrpc": "2.0", "method": "notifications/x"}).to_string();
    let request = Request::post(url)
        .header("content-type", "application/json")
        .header("mcp-method", "notifications/x")
        .header("authorization", format!("Bearer {key}"));
    let request = request.body(Full::new(Bytes::from(body))).unwrap();
    http::send(&http::client(), request).await.status
}

/// Waits until this key is taken at `url`.
async fn let_in(url: &str, key: &str) {
    until(key, async || (status(url, key).await == 202).then_some(())).await;
}

#[tokio::test]
async fn up_takes_keys_from_its_files_and_writes_them_nowhere() {
    let files = Files::new();
    let path = files.write(&json!({"alice": "key-of-alice"}));
    let up = Up::start(&[&path], |command| {
        command.env("RUST_LOG", "trace");
    });
    let url = up.endpoint("tools").await;
    let_in(&url, "key-of-alice").await;
    assert_eq!(status(&url, "key-of-bob").await, 401);
    files.write(&json!({"alice": "key-of-alice", "bob": "key-of-bob", "carol": "has spaces in it"}));
    let_in(&url, "key-of-bob").await;
    let told = up.says("federation default/tools", 0).await;
    assert!(told.contains("carol") && told.contains("cannot carry"), "{told}");
    let printed = up.printed();
    assert!(printed.errors.len() > 20, "the log is there");
    for line in printed.output.iter().chain(&printed.errors) {
        assert!(!line.contains("key-of") && !line.contains("has spaces"), "{line}");
    }
    up.stop().await;
}

#[tokio::test]
async fn up_refuses_files_without_the_secret_and_listens_to_others_with_it() {
    let files = Files::new();
    let path = files.write(&json!({"alice": "key-of-alice"}));
    let text = std::fs::read_to_string(&path).unwrap();
    let without = files.0.path().join("without.yaml");
    std::fs::write(&without, text.split("---").next().unwrap()).unwrap();
    let up = |path: &Path| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_mcpfleet"));
        command
            .arg("up")
            .arg(path)
            .args(["--listen", "0.0.0.0:0", "--admin-listen", "127.0.0.1:0"]);
        command
    };
    let ended = up(&without).kill_on_drop(true).output().await.unwrap();
    let told = String::from_utf8_lossy(&ended.stderr);
    assert!(
        !ended.status.success() && told.contains("spec.access.apiKeys.secretRef.name"),
        "{told}"
    );
    let running = Process::start("mcpfleet up", up(&path));
    let listens = |printed: &Printed| {
        let address = printed
            .output
            .iter()
            .find_map(|line| line.strip_prefix("listening on "))?;
        Some(address.replace("0.0.0.0", "127.0.0.1"))
    };
    let address = running.wait_for("the address", Duration::from_secs(20), listens).await;
    let url = format!("{address}/default/tools/mcp");
    let_in(&url, "key-of-alice").await;
    assert_eq!(status(&url, "key-of-bob").await, 401);
    running.terminate().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn in_a_cluster_keys_follow_their_secret_and_status_says_what_is_missing() {
    let Some(world) = World::start("access").await else {
        return;
    };
    let access = json!({"apiKeys": {"secretRef": {"name": "keys"}}});
    world
        .apply::<MCPFederation>("all", json!({"spec": {"access": access}}))
        .await;
    world.federation_with("all", "ResolvedRefs", "False RefNotFound").await;
    world.federation_with("all", "Ready", "False RefNotFound").await;

    let principal = async |key: &str| {
        let input = world.replica.input().await;
        match &input.federations.first()?.access {
            Access::ApiKeys(keys) => keys.principal(key.as_bytes()),
            _ => None,
        }
    };
    for key in ["one", "two"] {
        world
            .apply::<Secret>("keys", json!({"stringData": {"alice": key}}))
            .await;
        let name = until(key, async || principal(key).await).await;
        assert_eq!(&*name, "alice");
    }
    assert_eq!(principal("one").await, None);
    world.federation_with("all", "ResolvedRefs", "True Resolved").await;
    world.federation_with("all", "Ready", "True NoMembers").await;

    let values = json!({"stringData": {"alice": "two", "bob": "b o b"}});
    world.apply::<Secret>("keys", values).await;
    let federation = world.federation_with("all", "ResolvedRefs", "False InvalidKey").await;
    let status = serde_json::to_string(&federation.status).unwrap();
    assert!(status.contains("bob") && !status.contains("b o b"), "{status}");
    world.federation_with("all", "Ready", "True NoMembers").await;

    world
        .api::<Secret>()
        .delete("keys", &DeleteParams::default())
        .await
        .unwrap();
    world.federation_with("all", "Ready", "False RefNotFound").await;
    assert_eq!(principal("two").await, None, "it is closed, not open");
    world.replica.stop().await;
}
