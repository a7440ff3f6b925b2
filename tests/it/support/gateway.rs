//! A gateway in this process, over servers that a test chooses, and a client that says exactly what it is told.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use ::http::{HeaderMap, Request};
use arc_swap::ArcSwapOption;
use bytes::Bytes;
use http_body_util::Full;
use mcpfleet::api::MCPFederation;
use mcpfleet::cores::Cores;
use mcpfleet::fleet::{
    Access, DefaultFederation, FederationInput, ObjectKey, Observations, PlanInput, Runtime, ServerInput, UpstreamState,
};
use mcpfleet::gateway::Gateway;
use mcpfleet::gateway::hub::SessionHub;
use mcpfleet::gateway::session::{Keyring, Sessions};
use mcpfleet::mcp::{Era, Revision};
use mcpfleet::metrics::Metrics;
use mcpfleet::upstream::{Endpoint, HttpEndpoint, Terms, Timeouts};
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::event_stream::EventStream;
use super::http::{self, Http, Reply};
use super::wire;

/// A running gateway with one federation `default/fed`.
pub(crate) struct TestGateway {
    pub(crate) address: SocketAddr,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) input: watch::Sender<Arc<PlanInput>>,
    pub(crate) keyring: Arc<ArcSwapOption<Keyring>>,
    observations: watch::Receiver<Arc<Observations>>,
    runtime: Option<Runtime>,
    /// Run as long as it does.
    _cores: Arc<Cores>,
    stop: CancellationToken,
    pub(crate) client: Http,
    pub(crate) hub: Arc<SessionHub>,
    /// Which endpoint clients turn to.
    endpoint: String,
    /// The ids of the sessions that were opened, by revision.
    sessions: Mutex<HashMap<Revision, Option<String>>>,
}

/// The plan for servers at these addresses, each a member under its own name.
pub(crate) fn plan(servers: &[(&str, SocketAddr)]) -> PlanInput {
    plan_with(servers, json!({}))
}

/// The same with more in the federation's spec.
pub(crate) fn plan_with(servers: &[(&str, SocketAddr)], spec: Value) -> PlanInput {
    let input = |(name, address): &(&str, SocketAddr)| ServerInput {
        refresh: Default::default(),
        key: ObjectKey::new("default", *name),
        labels: Default::default(),
        allowed_namespaces: Default::default(),
        disabled: false,
        terms: Terms {
            timeouts: Timeouts {
                connect: Duration::from_secs(1),
                list: Some(Duration::from_secs(1)),
                ..Timeouts::default()
            },
            ..Terms::default()
        },
        endpoint: Ok(Endpoint::Http(HttpEndpoint {
            url: format!("http://{address}/mcp").parse().unwrap(),
            headers: HeaderMap::new(),
        })),
    };
    let members: Vec<Value> = servers
        .iter()
        .map(|(name, _)| json!({"name": name, "server": {"name": name}}))
        .collect();
    let mut federation = json!({
        "apiVersion": "mcpfleet.dev/v1alpha1", "kind": "MCPFederation", "metadata": {"name": "fed"},
        "spec": {"members": members, "access": {"anonymous": {}}},
    });
    for (name, value) in spec.as_object().unwrap() {
        federation["spec"][name] = value.clone();
    }
    let federation: MCPFederation = serde_json::from_value(federation).unwrap();
    PlanInput {
        servers: servers.iter().map(input).collect(),
        federations: vec![FederationInput {
            refresh: None,
            key: ObjectKey::new("default", "fed"),
            uid: None,
            spec: federation.spec,
            access: Access::Anonymous,
            skills: Default::default(),
        }],
        namespaces: Default::default(),
    }
}

impl TestGateway {
    /// Starts a gateway for `plan`.
    pub(crate) async fn start(plan: PlanInput) -> Self {
        Self::start_with_keys(plan, Some(Arc::new(Keyring::random().unwrap()))).await
    }

    /// Starts a gateway for `plan` whose sessions are signed with these keys, if it has any yet.
    pub(crate) async fn start_with_keys(plan: PlanInput, keyring: Option<Arc<Keyring>>) -> Self {
        let metrics = Arc::new(Metrics::new().unwrap());
        let holds_some = plan.servers.iter().any(|server| !server.disabled);
        let (input, inputs) = watch::channel(Arc::new(plan));
        let runtime = Runtime::start(inputs, DefaultFederation::Single, Arc::clone(&metrics));
        let gateway = Gateway::bind("127.0.0.1:0".parse().unwrap()).await.unwrap();
        let (address, hub) = (gateway.address(), gateway.hub());
        let stop = CancellationToken::new();
        let keyring = Arc::new(ArcSwapOption::new(keyring));
        let sessions = Arc::new(Sessions::new(Arc::clone(&keyring), metrics.sessions()));
        let cores = Arc::new(Cores::start().unwrap());
        let serving = Arc::clone(&cores);
        tokio::spawn(gateway.serve(serving, runtime.fleet(), sessions, stop.clone(), Duration::from_secs(1)));
        let observations = runtime.observations();
        let client = http::client();
        let mut gateway = Self {
            address,
            metrics,
            input,
            observations,
            runtime: Some(runtime),
            _cores: cores,
            stop,
            client,
            hub,
            keyring,
            endpoint: "default/fed".to_owned(),
            sessions: Mutex::default(),
        };
        gateway
            .until(|o| {
                let is_served = o.federations.contains_key(&ObjectKey::new("default", "fed"));
                is_served && (!holds_some || !o.servers.is_empty())
            })
            .await;
        gateway
    }

    /// Starts a gateway and waits until all its servers are ready.
    pub(crate) async fn ready(servers: &[(&str, SocketAddr)]) -> Self {
        Self::ready_with(servers, json!({})).await
    }

    /// The same with more in the federation's spec.
    pub(crate) async fn ready_with(servers: &[(&str, SocketAddr)], spec: Value) -> Self {
        let mut gateway = Self::start(plan_with(servers, spec)).await;
        gateway
            .until(|o| {
                o.servers.is_empty() == servers.is_empty()
                    && o.servers.values().all(|s| s.state == UpstreamState::Ready)
            })
            .await;
        gateway
    }

    /// Waits until what the fleet shows of itself is as asked.
    pub(crate) async fn until(&mut self, holds: impl Fn(&Observations) -> bool) -> Arc<Observations> {
        let waited = tokio::time::timeout(Duration::from_secs(20), self.observations.wait_for(|o| holds(o))).await;
        waited.expect("the fleet never got there").unwrap().clone()
    }

    /// Sends `body` to the endpoint with these headers beside the usual ones.
    pub(crate) async fn post(&self, body: impl ToString, headers: &[(&str, &str)]) -> Reply {
        let usual = [("accept", "application/json, text/event-stream")];
        self.post_accepting(body, &[&usual, headers].concat()).await
    }

    /// The same without an `Accept` of its own.
    pub(crate) async fn post_accepting(&self, body: impl ToString, headers: &[(&str, &str)]) -> Reply {
        let body = body.to_string();
        let named = |wanted: &str| {
            headers
                .iter()
                .find(|(name, _)| *name == wanted)
                .map(|(_, value)| *value)
        };
        let opens = body.contains(r#""method":"initialize""#);
        let version = named("mcp-protocol-version");
        let is_modern = named("mcp-method").is_some() || version == Some(Revision::LATEST.as_str());
        let session = match named("mcp-session-id") {
            None if !opens && !is_modern => self.session(version).await,
            _ => None,
        };
        let own = session.iter().map(|id| ("mcp-session-id", id.as_str()));
        self.bare_post(&body, own.chain(headers.iter().copied())).await
    }

    /// Sends `body` to the endpoint with these headers and none of a session.
    pub(crate) async fn bare_post<'h>(
        &self,
        body: &str,
        headers: impl IntoIterator<Item = (&'h str, &'h str)>,
    ) -> Reply {
        let request = Request::post(self.url()).header("content-type", "application/json");
        let request = headers
            .into_iter()
            .fold(request, |request, (name, value)| request.header(name, value));
        self.send(request.body(Full::new(Bytes::from(body.to_owned()))).unwrap())
            .await
    }

    /// The session of a client that sends this version header, opened when it is needed first.
    pub(crate) async fn session(&self, version: Option<&str>) -> Option<String> {
        let revision = version.and_then(Revision::parse).unwrap_or(Revision::WITHOUT_HEADER);
        if let Some(known) = self.sessions.lock().unwrap().get(&revision) {
            return known.clone();
        }
        let opened = http::open_session(&self.client, &self.url(), revision, &[]).await;
        self.sessions.lock().unwrap().insert(revision, opened.clone());
        opened
    }

    /// The endpoint.
    pub(crate) fn url(&self) -> String {
        format!("http://{}/{}/mcp", self.address, self.endpoint)
    }

    /// From now on clients turn to this endpoint.
    pub(crate) fn turn_to(&mut self, endpoint: &str) {
        self.endpoint = endpoint.to_owned();
        self.sessions.lock().unwrap().clear();
    }

    /// Sends a request as it is; the answer must fit the schema of its revision.
    pub(crate) async fn send(&self, request: Request<Full<Bytes>>) -> Reply {
        http::exchange(&self.client, request).await
    }

    /// A request for `method` from a client of `revision`; gives the whole response.
    pub(crate) async fn ask(&self, revision: Revision, method: &str, params: Value) -> Value {
        if revision.era() == Era::Modern {
            return self.modern(method, params).await;
        }
        let body = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
        self.post(body, &[("mcp-protocol-version", revision.as_str())])
            .await
            .json()
    }

    /// A Legacy request for `method`; gives the whole response.
    pub(crate) async fn legacy(&self, method: &str, params: Value) -> Value {
        self.ask(Revision::LATEST_LEGACY, method, params).await
    }

    /// A Modern request for `method`; gives the whole response.
    pub(crate) async fn modern(&self, method: &str, mut params: Value) -> Value {
        params["_meta"]["io.modelcontextprotocol/protocolVersion"] = json!("2026-07-28");
        params["_meta"]["io.modelcontextprotocol/clientCapabilities"] = json!({});
        let target = params["name"]
            .as_str()
            .or_else(|| params["uri"].as_str())
            .map(str::to_owned);
        let mut headers = vec![("mcp-protocol-version", "2026-07-28"), ("mcp-method", method)];
        if let Some(target) = &target {
            headers.push(("mcp-name", target));
        }
        let body = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
        self.post(body, &headers).await.json()
    }

    /// A new session of a client that speaks `revision`.
    pub(crate) async fn open_session(&self, revision: Revision) -> String {
        let opened = http::open_session(&self.client, &self.url(), revision, &[]).await;
        opened.expect("a session")
    }

    /// Sends a Legacy message in `session`, and gives the answer as it comes.
    pub(crate) async fn post_events(&self, session: &str, revision: Revision, message: &Value) -> EventStream {
        let headers = [("mcp-session-id", session), ("mcp-protocol-version", revision.as_str())];
        let request = http::legacy(&self.url(), message, headers);
        EventStream::open(&self.client, request).await
    }

    /// Sends a Modern request, and gives the answer as it comes.
    pub(crate) async fn modern_events(&self, id: Value, method: &str, params: Value) -> EventStream {
        let request = self.modern_request(id, method, params, json!({}));
        EventStream::open(&self.client, request).await
    }

    /// A Modern request for `method` from a client with these capabilities; gives the messages of the answer, of which the
    /// response is the last.
    pub(crate) async fn modern_declaring(&self, capabilities: Value, method: &str, params: Value) -> Vec<Value> {
        let reply = self
            .send(self.modern_request(json!("q"), method, params, capabilities))
            .await;
        wire::messages(&reply)
    }

    /// A Modern request for `method` from a client with these capabilities.
    pub(crate) fn modern_request(
        &self,
        id: Value,
        method: &str,
        mut params: Value,
        capabilities: Value,
    ) -> Request<Full<Bytes>> {
        params["_meta"]["io.modelcontextprotocol/protocolVersion"] = json!("2026-07-28");
        params["_meta"]["io.modelcontextprotocol/clientCapabilities"] = capabilities;
        let body = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
        let target = params["name"].as_str().or_else(|| params["uri"].as_str());
        let headers = [("mcp-protocol-version", "2026-07-28"), ("mcp-method", method)];
        let name = target.map(|target| ("mcp-name", target));
        http::legacy(&self.url(), &body, headers.into_iter().chain(name))
    }

    /// Opens the stream that `session` hears on, or takes one up after `last_event`.
    pub(crate) async fn get_events(&self, session: &str, revision: Revision, last_event: Option<&str>) -> EventStream {
        let request = Request::get(self.url())
            .header("accept", "text/event-stream")
            .header("mcp-session-id", session)
            .header("mcp-protocol-version", revision.as_str());
        let request = last_event
            .into_iter()
            .fold(request, |request, id| request.header("last-event-id", id));
        EventStream::open(&self.client, request.body(Full::default()).unwrap()).await
    }

    /// The metrics page.
    pub(crate) fn metrics_page(&self) -> String {
        String::from_utf8(self.metrics.page().unwrap().0).unwrap()
    }

    /// Takes no more connections; requests in flight go on.
    pub(crate) fn stop_serving(&self) {
        self.stop.cancel();
    }

    /// Stops everything.
    pub(crate) async fn stop(mut self) {
        self.stop.cancel();
        if let Some(runtime) = self.runtime.take() {
            runtime.stop().await;
        }
    }
}
