//! A server that lists to each token what a test says, and callers with keys and tokens.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use mcpfleet::fleet::{PlanInput, UpstreamState};
use mcpfleet::mcp::Revision;
use mcpfleet::upstream::Forwarding;
use serde_json::{Value, json};

use crate::access::{alice_and_bob, by_key};
use crate::support::event_stream::EventStream;
use crate::support::gateway::{TestGateway, plan_with};
use crate::support::http;
use crate::support::upstream::{self, Answer, Seen, Upstream};

pub(super) const LEGACY: Revision = Revision::LATEST_LEGACY;

pub(super) const ALICE: Client = Client("key-of-alice", Some("token-of-alice"));

pub(super) const BOB: Client = Client("key-of-bob", Some("token-of-bob"));

pub(super) const TOKEN: &str = "x-token";

/// Longer than anything that goes well takes, and than what is done in the background.
pub(super) const WHILE: Duration = Duration::from_millis(400);

/// What a server does for one token.
#[derive(Clone, Debug)]
pub(super) enum Does {
    Lists(Vec<&'static str>),
    Hangs,
    Fails,
}

/// A server that lists to each token what a test says, and lets nobody else in.
#[derive(Clone, Default)]
pub(super) struct Desk(Arc<Mutex<HashMap<&'static str, Does>>>);

impl Desk {
    pub(super) fn of(tokens: &[(&'static str, Does)]) -> Self {
        Self(Arc::new(Mutex::new(tokens.iter().cloned().collect())))
    }

    pub(super) fn set(&self, token: &'static str, does: Does) {
        self.0.lock().unwrap().insert(token, does);
    }

    pub(super) fn does(&self, seen: &Seen) -> Option<Does> {
        self.0.lock().unwrap().get(seen.header(TOKEN)?).cloned()
    }

    pub(super) async fn modern(&self) -> Upstream {
        self.start(upstream::modern).await
    }

    pub(super) async fn legacy(&self) -> Upstream {
        self.start(upstream::legacy).await
    }

    pub(super) async fn start(&self, answer: fn(&Seen, &Value) -> Answer) -> Upstream {
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

pub(super) fn tools_of(names: &[&str]) -> Value {
    let tool = |name: &&str| json!({"name": name, "inputSchema": {"type": "object"}});
    names.iter().map(tool).collect()
}

pub(super) fn lists(tools: &[&'static str]) -> Does {
    Does::Lists(tools.to_vec())
}

/// Alice sees one tool, and Bob another one; both see a third.
pub(super) fn two() -> Desk {
    Desk::of(&[
        ("token-of-alice", lists(&["both", "of_alice"])),
        ("token-of-bob", lists(&["both", "of_bob"])),
    ])
}

/// An API key, and a token for servers.
#[derive(Clone, Copy, Debug)]
pub(super) struct Client(pub(super) &'static str, pub(super) Option<&'static str>);

impl Client {
    pub(super) fn headers(self) -> Vec<(&'static str, &'static str)> {
        let key = ("x-api-key", self.0);
        [key].into_iter().chain(self.1.map(|token| (TOKEN, token))).collect()
    }

    pub(super) async fn modern(self, gateway: &TestGateway, method: &str, mut params: Value) -> Value {
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

    pub(super) async fn session(self, gateway: &TestGateway) -> String {
        let opened = http::open_session(&http::client(), &gateway.url(), LEGACY, &self.headers()).await;
        opened.unwrap()
    }

    pub(super) async fn in_session(self, gateway: &TestGateway, session: &str, method: &str, params: Value) -> Value {
        let body = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
        let headers = [
            ("mcp-session-id", session),
            ("mcp-protocol-version", LEGACY.as_str()),
            ("accept", "application/json, text/event-stream"),
        ];
        let headers = headers.into_iter().chain(self.headers());
        gateway.bare_post(&body.to_string(), headers).await.json()
    }

    pub(super) async fn tools(self, gateway: &TestGateway) -> Vec<String> {
        names(&self.modern(gateway, "tools/list", json!({})).await)
    }

    pub(super) async fn call(self, gateway: &TestGateway, tool: &str) -> Value {
        self.modern(gateway, "tools/call", json!({"name": tool})).await
    }

    /// The stream on which `session` hears of changes.
    pub(super) async fn hears(self, gateway: &TestGateway, session: &str) -> EventStream {
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
    pub(super) async fn listens(self, gateway: &TestGateway) -> EventStream {
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

pub(super) fn names(answer: &Value) -> Vec<String> {
    let tools = answer["result"]["tools"].as_array();
    let tools = tools.unwrap_or_else(|| panic!("{answer}"));
    tools
        .iter()
        .map(|tool| tool["name"].as_str().unwrap().to_owned())
        .collect()
}

/// The plan for `servers`, all of which get the token of whoever calls.
pub(super) fn forwarding(servers: &[(&str, &Upstream)], own_lists: bool, spec: Value) -> PlanInput {
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
pub(super) async fn start(servers: &[(&str, &Upstream)]) -> TestGateway {
    start_with(forwarding(servers, true, json!({}))).await
}

pub(super) async fn start_with(input: PlanInput) -> TestGateway {
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

pub(super) fn with_token<'s>(seen: &'s [Seen], token: &str) -> Vec<&'s Seen> {
    seen.iter().filter(|seen| seen.header(TOKEN) == Some(token)).collect()
}
