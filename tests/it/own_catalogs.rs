//! Servers that are asked with what callers present: each caller has lists and connections of its own, and nothing of
//! one reaches another.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use mcpfleet::fleet::{PlanInput, UpstreamState};
use mcpfleet::mcp::Revision;
use mcpfleet::upstream::Forwarding;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::time::{Instant, sleep, timeout};

use crate::access::{alice_and_bob, by_key};
use crate::support::event_stream::EventStream;
use crate::support::gateway::{TestGateway, plan_with};
use crate::support::http;
use crate::support::up::Up;
use crate::support::upstream::{self, Answer, Seen, Upstream};

const LEGACY: Revision = Revision::LATEST_LEGACY;
const ALICE: Client = Client("key-of-alice", Some("token-of-alice"));
const BOB: Client = Client("key-of-bob", Some("token-of-bob"));
const TOKEN: &str = "x-token";
/// Longer than anything that goes well takes, and than what is done in the background.
const WHILE: Duration = Duration::from_millis(400);

/// What a server does for one token.
#[derive(Clone, Debug)]
enum Does {
    Lists(Vec<&'static str>),
    Hangs,
    Fails,
}

/// A server that lists to each token what a test says, and lets nobody else in.
#[derive(Clone, Default)]
struct Desk(Arc<Mutex<HashMap<&'static str, Does>>>);

impl Desk {
    fn of(tokens: &[(&'static str, Does)]) -> Self {
        Self(Arc::new(Mutex::new(tokens.iter().cloned().collect())))
    }

    fn set(&self, token: &'static str, does: Does) {
        self.0.lock().unwrap().insert(token, does);
    }

    fn does(&self, seen: &Seen) -> Option<Does> {
        self.0.lock().unwrap().get(seen.header(TOKEN)?).cloned()
    }

    async fn modern(&self) -> Upstream {
        self.start(upstream::modern).await
    }

    async fn legacy(&self) -> Upstream {
        self.start(upstream::legacy).await
    }

    async fn start(&self, answer: fn(&Seen, &Value) -> Answer) -> Upstream {
        let desk = self.clone();
        Upstream::start(move |seen| match desk.does(seen) {
            None => Answer::status(401),
            Some(Does::Hangs) => Answer::Hang,
            Some(Does::Fails) => Answer::status(503),
            Some(Does::Lists(tools)) => answer(seen, &tools_of(&tools)),
        })
        .await
    }
}

fn tools_of(names: &[&str]) -> Value {
    let tool = |name: &&str| json!({"name": name, "inputSchema": {"type": "object"}});
    names.iter().map(tool).collect()
}

fn lists(tools: &[&'static str]) -> Does {
    Does::Lists(tools.to_vec())
}

/// Alice sees one tool, and Bob another one; both see a third.
fn two() -> Desk {
    Desk::of(&[
        ("token-of-alice", lists(&["both", "of_alice"])),
        ("token-of-bob", lists(&["both", "of_bob"])),
    ])
}

/// An API key, and a token for servers.
#[derive(Clone, Copy, Debug)]
struct Client(&'static str, Option<&'static str>);

impl Client {
    fn headers(self) -> Vec<(&'static str, &'static str)> {
        let key = ("x-api-key", self.0);
        [key].into_iter().chain(self.1.map(|token| (TOKEN, token))).collect()
    }

    async fn modern(self, gateway: &TestGateway, method: &str, mut params: Value) -> Value {
        params["_meta"]["io.modelcontextprotocol/protocolVersion"] = json!("2026-07-28");
        params["_meta"]["io.modelcontextprotocol/clientCapabilities"] = json!({});
        let name = ["name", "uri"].into_iter().find_map(|key| params[key].as_str());
        let name = name.map(str::to_owned);
        let mut headers = vec![
            ("mcp-protocol-version", "2026-07-28"),
            ("mcp-method", method),
            ("accept", "application/json, text/event-stream"),
        ];
        headers.extend(self.headers());
        headers.extend(name.as_deref().map(|name| ("mcp-name", name)));
        let body = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
        gateway.bare_post(&body.to_string(), headers).await.json()
    }

    async fn session(self, gateway: &TestGateway) -> String {
        let opened = http::open_session(&http::client(), &gateway.url(), LEGACY, &self.headers()).await;
        opened.unwrap()
    }

    async fn in_session(self, gateway: &TestGateway, session: &str, method: &str, params: Value) -> Value {
        let body = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
        let headers = [
            ("mcp-session-id", session),
            ("mcp-protocol-version", LEGACY.as_str()),
            ("accept", "application/json, text/event-stream"),
        ];
        let headers = headers.into_iter().chain(self.headers());
        gateway.bare_post(&body.to_string(), headers).await.json()
    }

    async fn tools(self, gateway: &TestGateway) -> Vec<String> {
        names(&self.modern(gateway, "tools/list", json!({})).await)
    }

    async fn call(self, gateway: &TestGateway, tool: &str) -> Value {
        self.modern(gateway, "tools/call", json!({"name": tool})).await
    }

    /// The stream on which `session` hears of changes.
    async fn hears(self, gateway: &TestGateway, session: &str) -> EventStream {
        let request = ::http::Request::get(gateway.url())
            .header("accept", "text/event-stream")
            .header("mcp-session-id", session)
            .header("mcp-protocol-version", LEGACY.as_str());
        let request = self
            .headers()
            .into_iter()
            .fold(request, |request, (name, value)| request.header(name, value));
        EventStream::open(&http::client(), request.body(Default::default()).unwrap()).await
    }

    /// The stream on which a Modern client hears of changes.
    async fn listens(self, gateway: &TestGateway) -> EventStream {
        let params = json!({"notifications": {"toolsListChanged": true}});
        let mut request = gateway.modern_request(json!("l"), "subscriptions/listen", params, json!({}));
        for (name, value) in self.headers() {
            request.headers_mut().insert(name, value.parse().unwrap());
        }
        let mut stream = EventStream::open(&http::client(), request).await;
        stream.next().await;
        stream
    }
}

fn names(answer: &Value) -> Vec<String> {
    let tools = answer["result"]["tools"].as_array();
    let tools = tools.unwrap_or_else(|| panic!("{answer}"));
    tools
        .iter()
        .map(|tool| tool["name"].as_str().unwrap().to_owned())
        .collect()
}

/// The plan for `servers`, all of which get the token of whoever calls.
fn forwarding(servers: &[(&str, &Upstream)], own_lists: bool, spec: Value) -> PlanInput {
    let addresses: Vec<_> = servers.iter().map(|(name, server)| (*name, server.address)).collect();
    let mut input = by_key(plan_with(&addresses, spec), alice_and_bob());
    for server in &mut input.servers {
        server.terms.lists = !own_lists;
        server.terms.forwards = Some(Forwarding {
            headers: vec![TOKEN.parse().unwrap()],
            own_lists,
        });
    }
    input
}

/// A gateway for `servers`, each of which has other lists for each caller.
async fn start(servers: &[(&str, &Upstream)]) -> TestGateway {
    start_with(forwarding(servers, true, json!({}))).await
}

async fn start_with(input: PlanInput) -> TestGateway {
    let mut gateway = TestGateway::start(input).await;
    gateway
        .until(|o| {
            o.servers
                .values()
                .all(|server| server.state != UpstreamState::Connecting)
        })
        .await;
    gateway
}

fn with_token<'s>(seen: &'s [Seen], token: &str) -> Vec<&'s Seen> {
    seen.iter().filter(|seen| seen.header(TOKEN) == Some(token)).collect()
}

#[tokio::test]
async fn each_caller_sees_and_calls_what_the_server_lists_for_it() {
    for is_legacy in [false, true] {
        let server = if is_legacy {
            two().legacy().await
        } else {
            two().modern().await
        };
        let mut gateway = start(&[("s", &server)]).await;
        gateway
            .until(|o| o.servers.len() == 1 && o.servers.values().all(|server| server.state == UpstreamState::Ready))
            .await;
        assert_eq!(ALICE.tools(&gateway).await, ["s__both", "s__of_alice"]);
        assert_eq!(BOB.tools(&gateway).await, ["s__both", "s__of_bob"]);
        let session = ALICE.session(&gateway).await;
        let listed = ALICE.in_session(&gateway, &session, "tools/list", json!({})).await;
        assert_eq!(names(&listed), ["s__both", "s__of_alice"]);
        for (client, own, other) in [(ALICE, "of_alice", "of_bob"), (BOB, "of_bob", "of_alice")] {
            let called = client.call(&gateway, &format!("s__{own}")).await;
            assert_eq!(called["result"]["content"][0]["text"], own, "{called}");
            let refused = client.call(&gateway, &format!("s__{other}")).await;
            assert_eq!(refused["error"]["code"], -32602, "{refused}");
        }
        let params = json!({"name": "s__of_alice"});
        let called = ALICE.in_session(&gateway, &session, "tools/call", params).await;
        assert_eq!(called["result"]["content"][0]["text"], "of_alice");

        let calls = server.seen_of("tools/call");
        assert!(calls.iter().all(|seen| {
            let token = format!(
                "token-{}",
                seen.body["params"]["name"].as_str().unwrap().replace('_', "-")
            );
            seen.header(TOKEN) == Some(&token)
        }));
        assert!(server.seen().iter().all(|seen| seen.header("x-api-key").is_none()));
        // Nothing is in common: not the connection, nor the session.
        let of_others = with_token(&calls, "token-of-bob");
        assert_eq!(of_others.len(), 1);
        gateway.stop().await;
    }
}

#[tokio::test]
async fn lists_are_fetched_once_for_all_who_wait_and_kept_for_later() {
    let server = two().modern().await;
    let gateway = start(&[("s", &server)]).await;
    let many = (0..8).map(|_| ALICE.tools(&gateway));
    for tools in futures::future::join_all(many).await {
        assert_eq!(tools.len(), 2);
    }
    ALICE.call(&gateway, "s__both").await;
    let search = json!({"name": "tool_search", "arguments": {"query": "both"}});
    ALICE.modern(&gateway, "tools/call", search).await;
    let asked = server.seen_of("tools/list");
    assert_eq!(with_token(&asked, "token-of-alice").len(), 1);
    // Who comes later is asked for then.
    assert!(with_token(&server.seen(), "token-of-bob").is_empty());
    BOB.tools(&gateway).await;
    assert_eq!(with_token(&server.seen_of("tools/list"), "token-of-bob").len(), 1);
    let page = gateway.metrics_page();
    assert!(
        page.contains(r#"mcpfleet_own_catalogs{federation="default/fed"} 2"#),
        "{page}"
    );
    assert!(page.contains(r#"mcpfleet_own_catalogs_opened_total{federation="default/fed"} 2"#));
}

#[tokio::test]
async fn only_the_member_that_is_called_is_asked_for_its_lists() {
    let (a, b) = (two().modern().await, two().modern().await);
    let gateway = start(&[("a", &a), ("b", &b)]).await;
    let called = ALICE.call(&gateway, "a__of_alice").await;
    assert_eq!(called["result"]["content"][0]["text"], "of_alice");
    assert!(with_token(&b.seen(), "token-of-alice").is_empty());
    // Under names without prefixes anybody may have it, and the first in order wins.
    let spec = json!({"naming": {"prefix": "Never"}});
    let gateway = start_with(forwarding(&[("a", &a), ("b", &b)], true, spec)).await;
    BOB.call(&gateway, "of_bob").await;
    assert_eq!(with_token(&a.seen_of("tools/call"), "token-of-bob").len(), 1);
    assert!(!with_token(&b.seen_of("tools/list"), "token-of-bob").is_empty());
}

#[tokio::test]
async fn who_presents_another_token_is_another_caller() {
    let desk = two();
    desk.set("second", lists(&["renewed"]));
    let server = desk.modern().await;
    let gateway = start(&[("s", &server)]).await;
    ALICE.tools(&gateway).await;
    let renewed = Client("key-of-alice", Some("second"));
    assert_eq!(renewed.tools(&gateway).await, ["s__renewed"]);
    // The same token in another hand is another caller too.
    let stolen = Client("key-of-bob", Some("token-of-alice"));
    assert_eq!(stolen.tools(&gateway).await.len(), 2);
    assert_eq!(with_token(&server.seen_of("tools/list"), "token-of-alice").len(), 2);
}

#[tokio::test]
async fn who_presents_nothing_is_asked_for_without_the_headers_of_the_manifest() {
    let server = Upstream::start(|seen| match seen.header(TOKEN) {
        None => Answer::status(401),
        Some(_) => upstream::modern(seen, &tools_of(&["secret"])),
    })
    .await;
    let mut input = forwarding(&[("s", &server)], true, json!({}));
    let Ok(mcpfleet::upstream::Endpoint::Http(endpoint)) = &mut input.servers[0].endpoint else {
        panic!("it is reached over HTTP")
    };
    endpoint.headers.insert(TOKEN, "of-the-manifest".parse().unwrap());
    let gateway = start_with(input).await;
    let nobody = Client("key-of-alice", None);
    assert!(nobody.tools(&gateway).await.is_empty());
    let refused = nobody.call(&gateway, "s__secret").await;
    let message = refused["error"]["message"].as_str().unwrap();
    assert!(message.contains("\"s\""), "{refused}");
    assert_eq!(ALICE.tools(&gateway).await, ["s__secret"]);
    assert!(
        server
            .seen()
            .iter()
            .any(|seen| seen.header(TOKEN) == Some("of-the-manifest"))
    );
}

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

#[tokio::test]
async fn where_lists_are_shared_only_calls_carry_what_the_caller_presents() {
    let server = Upstream::start(|seen| match (seen.method(), seen.header(TOKEN)) {
        ("tools/call", None) => Answer::status(401),
        _ => upstream::modern(seen, &tools_of(&["tool"])),
    })
    .await;
    let mut gateway = start_with(forwarding(&[("s", &server)], false, json!({}))).await;
    gateway
        .until(|o| o.servers.values().all(|server| server.state == UpstreamState::Ready))
        .await;
    let listed = ALICE.modern(&gateway, "tools/list", json!({})).await;
    assert_eq!(names(&listed), ["s__tool"]);
    assert_eq!(listed["result"]["cacheScope"], "public");
    let called = ALICE.call(&gateway, "s__tool").await;
    assert_eq!(called["result"]["content"][0]["text"], "tool", "{called}");
    assert!(
        server
            .seen_of("tools/list")
            .iter()
            .all(|seen| seen.header(TOKEN).is_none())
    );
    let calls = server.seen_of("tools/call");
    assert_eq!(with_token(&calls, "token-of-alice").len(), calls.len());
}

#[tokio::test]
async fn a_member_alone_is_each_callers_own_too() {
    let server = two().modern().await;
    let mut gateway = start(&[("s", &server)]).await;
    gateway.turn_to("default/fed/servers/s");
    assert_eq!(ALICE.tools(&gateway).await, ["both", "of_alice"]);
    assert_eq!(BOB.tools(&gateway).await, ["both", "of_bob"]);
    let called = BOB.call(&gateway, "of_bob").await;
    assert_eq!(called["result"]["content"][0]["text"], "of_bob");
    assert_eq!(ALICE.call(&gateway, "of_bob").await["error"]["code"], -32602);
}

#[tokio::test]
async fn searching_finds_and_runs_what_is_the_callers_own() {
    let server = two().modern().await;
    let members = json!([{"name": "s", "server": {"name": "s"}, "visibility": "Discoverable"}]);
    let gateway = start_with(forwarding(&[("s", &server)], true, json!({"members": members}))).await;
    for (client, own, other) in [(ALICE, "of_alice", "of_bob"), (BOB, "of_bob", "of_alice")] {
        let search = json!({"name": "tool_search", "arguments": {"query": "of"}});
        let found = client.modern(&gateway, "tools/call", search).await.to_string();
        assert!(found.contains(own) && !found.contains(other), "{found}");
        let run = |tool: &str| json!({"name": "execute_tool", "arguments": {"name": format!("s__{tool}")}});
        let ran = client.modern(&gateway, "tools/call", run(own)).await;
        assert_eq!(ran["result"]["content"][0]["text"], own, "{ran}");
        let refused = client.modern(&gateway, "tools/call", run(other)).await;
        assert_eq!(refused["result"]["isError"], true, "{refused}");
    }
}

#[tokio::test]
async fn nothing_that_goes_on_is_logged_or_shown() {
    let server = two().modern().await;
    let failing = Upstream::start(|_| Answer::status(503)).await;
    let files = TempDir::new().unwrap();
    let path: PathBuf = files.path().join("fleet.yaml");
    let manifest = |name: &str, address| {
        format!(
            "apiVersion: mcpfleet.dev/v1alpha1\nkind: MCPServer\nmetadata: {{name: {name}}}\nspec:\n  remote: {{url: \
             'http://{address}/mcp'}}\n  auth: {{forward: {{headers: [X-Token]}}}}\n---\n"
        )
    };
    let federation = "apiVersion: mcpfleet.dev/v1alpha1\nkind: MCPFederation\nmetadata: {name: all}\nspec:\n  members: \
                      [{name: all, selector: {}}]\n  access: {anonymous: {}}\n";
    let text = manifest("good", server.address) + &manifest("bad", failing.address) + federation;
    std::fs::write(&path, text).unwrap();
    let up = Up::start(&[&path], |command| {
        command.env("RUST_LOG", "trace");
    });
    let url = up.endpoint("all").await;
    let session = http::open_session(&http::client(), &url, LEGACY, &ALICE.headers())
        .await
        .unwrap();
    let ask = async |method: &str, params: Value| {
        let body = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
        let headers = [("mcp-session-id", session.as_str())];
        let headers = headers.into_iter().chain(ALICE.headers());
        http::exchange(&http::client(), http::legacy(&url, &body, headers))
            .await
            .json()
    };
    let deadline = Instant::now() + Duration::from_secs(20);
    while names(&ask("tools/list", json!({})).await).len() != 2 {
        assert!(Instant::now() < deadline, "Alice sees her tools");
        sleep(Duration::from_millis(50)).await;
    }
    let called = ask("tools/call", json!({"name": "good__of_alice"})).await;
    assert_eq!(called["result"]["content"][0]["text"], "of_alice");
    let refused = ask("tools/call", json!({"name": "bad__any"})).await;
    assert!(
        refused["error"]["message"].as_str().unwrap().contains("\"bad\""),
        "{refused}"
    );
    let metrics = http::get(&format!("{}/metrics", up.admin().await)).await.text;
    let printed = up.printed();
    let lines: Vec<_> = printed.output.iter().chain(&printed.errors).collect();
    assert!(lines.len() > 10, "the log is there");
    let shown = |text: &str| text.contains("token-of-alice") || text.contains("key-of-alice");
    assert!(!shown(&metrics) && !shown(&refused.to_string()));
    assert!(lines.iter().all(|line| !shown(line)), "{lines:#?}");
    up.stop().await;
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
