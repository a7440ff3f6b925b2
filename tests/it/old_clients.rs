//! Clients of the transport of 2024-11-05: a stream on which they are told everything, and an address to send to.

use std::time::Duration;

use http::Request;
use http_body_util::Full;
use mcpfleet::mcp::Revision;
use mcpfleet::upstream::{Endpoint, HttpTransport};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use crate::support::event_stream::EventStream;
use crate::support::gateway::{TestGateway, plan, plan_with};
use crate::support::http::{self as client, Reply};
use crate::support::upstream::{self, Answer, Upstream};

const REVISION: Revision = Revision::V2025_06_18;

async fn server() -> Upstream {
    Upstream::start(|seen| match (seen.method(), seen.body["params"]["name"].as_str()) {
        ("tools/call", Some("stall")) => Answer::Hang,
        ("tools/call", Some("ask")) => {
            let asks = json!({"jsonrpc": "2.0", "id": "q", "method": "roots/list"});
            let result = json!({"content": [{"type": "text", "text": "asked"}]});
            let answer = json!({"jsonrpc": "2.0", "id": seen.body["id"], "result": result});
            Answer::Stream(vec![(Duration::ZERO, asks), (Duration::from_secs(5), answer)])
        }
        ("tools/call", Some("walk")) => {
            let token = &seen.body["params"]["_meta"]["progressToken"];
            let progress = json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": {"progressToken": token, "progress": 1}});
            let result = json!({"content": [{"type": "text", "text": "there"}]});
            let answer = json!({"jsonrpc": "2.0", "id": seen.body["id"], "result": result});
            Answer::Stream([progress, answer].map(|message| (Duration::ZERO, message)).into())
        }
        _ => {
            let tools = ["walk", "stall", "ask"].map(|name| json!({"name": name, "inputSchema": {"type": "object"}}));
            upstream::legacy(seen, &json!(tools))
        }
    })
    .await
}

/// A client that has opened its stream.
struct Client<'g> {
    gateway: &'g TestGateway,
    stream: EventStream,
    address: String,
}

impl<'g> Client<'g> {
    async fn connect(gateway: &'g TestGateway) -> Self {
        Self::connect_as(gateway, REVISION).await
    }

    async fn connect_as(gateway: &'g TestGateway, revision: Revision) -> Self {
        let base = format!("http://{}/default/fed/", gateway.address);
        let request = Request::get(format!("{base}sse"))
            .header("accept", "text/event-stream")
            .header("mcp-protocol-version", revision.as_str());
        let mut stream = EventStream::open(&gateway.client, request.body(Full::default()).unwrap()).await;
        assert_eq!((stream.status, stream.content_type()), (200, "text/event-stream"));
        let first = stream.event().await.unwrap();
        assert_eq!(first.kind, "endpoint");
        let address = format!("{base}{}", String::from_utf8(first.data).unwrap());
        Self {
            gateway,
            stream,
            address,
        }
    }

    /// Connects and shakes hands.
    async fn begin(gateway: &'g TestGateway) -> Self {
        Self::begin_with(gateway, json!({})).await
    }

    async fn begin_with(gateway: &'g TestGateway, capabilities: Value) -> Self {
        Self::begin_as(gateway, REVISION, capabilities).await
    }

    async fn begin_as(gateway: &'g TestGateway, revision: Revision, capabilities: Value) -> Self {
        let mut client = Self::connect_as(gateway, revision).await;
        let params = json!({
            "protocolVersion": revision.as_str(), "capabilities": capabilities, "clientInfo": {"name": "old", "version": "1"},
        });
        let answer = client.ask(json!(0), "initialize", params).await;
        assert_eq!(answer["result"]["protocolVersion"], revision.as_str());
        client
            .send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}))
            .await;
        client
    }

    async fn send(&self, message: &Value) -> Reply {
        send_to(self.gateway, &self.address, message).await
    }

    async fn ask(&mut self, id: Value, method: &str, params: Value) -> Value {
        let message = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
        self.stream.expect(&message);
        assert_eq!(self.send(&message).await.status, 202);
        self.stream.next().await
    }
}

async fn send_to(gateway: &TestGateway, address: &str, message: &Value) -> Reply {
    let request = client::legacy(address, message, [("mcp-protocol-version", REVISION.as_str())]);
    client::send(&gateway.client, request).await
}

async fn until(holds: impl Fn() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(5);
    while !holds() {
        assert!(Instant::now() < deadline, "never");
        sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test]
async fn everything_is_told_on_the_stream() {
    let server = server().await;
    let gateway = TestGateway::ready(&[("s", server.address)]).await;
    let mut client = Client::begin(&gateway).await;
    let listed = client.ask(json!("l"), "tools/list", json!({})).await;
    assert_eq!(listed["result"]["tools"].as_array().unwrap().len(), 3);
    let params = json!({"name": "s__walk", "arguments": {}, "_meta": {"progressToken": "p"}});
    let progress = client.ask(json!(1), "tools/call", params).await;
    assert_eq!(progress["params"], json!({"progressToken": "p", "progress": 1}));
    let answer = client.stream.next().await;
    assert_eq!(
        (&answer["id"], &answer["result"]["content"][0]["text"]),
        (&json!(1), &json!("there"))
    );
    let unknown = client.ask(json!(2), "no/such", json!({})).await;
    assert_eq!((&unknown["id"], &unknown["error"]["code"]), (&json!(2), &json!(-32601)));

    gateway.input.send_replace(plan(&[]).into());
    let changed = client.stream.next().await;
    assert_eq!(changed["method"], "notifications/tools/list_changed");
}

#[tokio::test]
async fn a_large_list_is_one_event_and_answers_follow_it() {
    let tools = (0..40).map(|number| {
        let description = "very long ".repeat(2_000);
        json!({"name": format!("t{number:02}"), "description": description, "inputSchema": {"type": "object"}})
    });
    let tools = json!(tools.collect::<Vec<_>>());
    let server = Upstream::start(move |seen| upstream::legacy(seen, &tools)).await;
    let gateway = TestGateway::ready(&[("s", server.address)]).await;
    let mut client = Client::begin(&gateway).await;
    for id in [1, 2] {
        let listed = client.ask(json!(id), "tools/list", json!({})).await;
        assert_eq!(listed["id"], id);
        assert_eq!(listed["result"]["tools"].as_array().unwrap().len(), 40);
        let pong = client.ask(json!("p"), "ping", json!({})).await;
        assert_eq!(pong["id"], "p");
    }
}

#[tokio::test]
async fn nothing_later_than_the_transport_is_spoken_on_it() {
    let gateway = TestGateway::start(plan(&[])).await;
    let mut client = Client::begin(&gateway).await;
    let unknown = client.ask(json!(1), "server/discover", json!({})).await;
    assert_eq!(unknown["error"]["code"], -32601, "{unknown}");
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {},
    });
    let listed = client.ask(json!(2), "tools/list", json!({"_meta": meta})).await;
    assert_eq!(listed["result"], json!({"tools": []}));
    let unknown = client
        .ask(json!(3), "subscriptions/listen", json!({"_meta": meta}))
        .await;
    assert_eq!(unknown["error"]["code"], -32601, "{unknown}");
}

#[tokio::test]
async fn an_address_is_closed_with_its_stream_whether_or_not_hands_were_shaken() {
    let gateway = TestGateway::start(plan(&[])).await;
    let client = Client::connect(&gateway).await;
    let ping = json!({"jsonrpc": "2.0", "id": 1, "method": "ping"});
    assert_eq!(client.send(&ping).await.status, 202);
    let address = client.address.clone();
    drop(client);
    let deadline = Instant::now() + Duration::from_secs(5);
    while send_to(&gateway, &address, &ping).await.status != 404 {
        assert!(Instant::now() < deadline, "its address is taken for ever");
        sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test]
async fn a_session_ends_with_its_stream_and_its_calls_with_it() {
    let server = server().await;
    let gateway = TestGateway::ready(&[("s", server.address)]).await;
    let client = Client::begin(&gateway).await;
    let call = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "s__stall"}});
    assert_eq!(client.send(&call).await.status, 202);
    until(|| !server.seen_of("tools/call").is_empty()).await;
    let address = client.address.clone();
    drop(client);
    until(|| !server.seen_of("notifications/cancelled").is_empty()).await;
    assert_eq!(send_to(&gateway, &address, &call).await.status, 404);
    until(|| gateway.hub.sessions() == 0).await;
}

#[tokio::test]
async fn a_call_is_cancelled_by_its_id() {
    let server = server().await;
    let gateway = TestGateway::ready(&[("s", server.address)]).await;
    let mut client = Client::begin(&gateway).await;
    let call = json!({"jsonrpc": "2.0", "id": "x", "method": "tools/call", "params": {"name": "s__stall"}});
    client.send(&call).await;
    until(|| !server.seen_of("tools/call").is_empty()).await;
    let cancel = json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": "x"}});
    client.send(&cancel).await;
    until(|| !server.seen_of("notifications/cancelled").is_empty()).await;
    assert_eq!(
        client.ask(json!(2), "ping", json!({})).await["id"],
        2,
        "nothing is told of it"
    );
}

#[tokio::test]
async fn what_is_wrong_is_refused() {
    let gateway = TestGateway::start(plan(&[])).await;
    let client = Client::begin(&gateway).await;
    let ping = json!({"jsonrpc": "2.0", "id": 1, "method": "ping"});
    let base = format!("http://{}/default/fed", gateway.address);
    for (address, status) in [
        (format!("{base}/messages"), 404),
        (format!("{base}/messages?session=nobody"), 404),
        (client.address.replace("/default/fed/", "/"), 202),
        (format!("{base}/sse"), 405),
    ] {
        assert_eq!(send_to(&gateway, &address, &ping).await.status, status, "{address}");
    }
    for (path, accept, status) in [("messages", "text/event-stream", 405), ("sse", "application/json", 406)] {
        let request = Request::get(format!("{base}/{path}")).header("accept", accept);
        let reply = client::send(&gateway.client, request.body(Full::default()).unwrap()).await;
        assert_eq!(reply.status, status, "{path}");
    }
    let modern_only = TestGateway::start(plan_with(&[], json!({"protocol": {"legacy": false}}))).await;
    let url = format!("http://{}/default/fed/sse", modern_only.address);
    let request = Request::get(url).header("accept", "text/event-stream");
    let reply = client::send(&gateway.client, request.body(Full::default()).unwrap()).await;
    assert_eq!(reply.status, 400);
}

#[tokio::test]
async fn a_session_that_does_not_read_is_not_worked_for_without_end() {
    let server = server().await;
    let gateway = TestGateway::ready(&[("s", server.address)]).await;
    let client = Client::begin(&gateway).await;
    let call = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "s__stall"}});
    let mut refused = 0;
    for _ in 0..100 {
        refused += usize::from(client.send(&call).await.status == 503);
    }
    assert!(refused > 30, "{refused}");
}

/// A client with a server's question, and all of whose places are taken.
async fn crowded(gateway: &TestGateway, revision: Revision) -> (Client<'_>, Value) {
    let mut client = Client::begin_as(gateway, revision, json!({"roots": {}})).await;
    let call = |id: u32, tool: &str| {
        let params = json!({"name": format!("s__{tool}"), "arguments": {}});
        json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params})
    };
    client.stream.expect(&call(1, "ask"));
    assert_eq!(client.send(&call(1, "ask")).await.status, 202);
    let question = client.stream.next().await;
    assert_eq!(question["method"], "roots/list");
    for id in 2..=64 {
        assert_eq!(client.send(&call(id, "stall")).await.status, 202);
    }
    assert_eq!(client.send(&call(65, "stall")).await.status, 503);
    (client, question)
}

#[tokio::test]
async fn a_session_with_all_places_taken_can_still_answer_and_cancel() {
    let server = server().await;
    let gateway = TestGateway::ready(&[("s", server.address)]).await;
    let (client, question) = crowded(&gateway, REVISION).await;
    let roots = json!({"roots": [{"uri": "file:///a"}]});
    let answer = json!({"jsonrpc": "2.0", "id": question["id"], "result": roots});
    assert_eq!(client.send(&answer).await.status, 202);
    until(|| server.seen().iter().any(|seen| seen.body["result"] == roots)).await;
    let cancel = json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 2}});
    assert_eq!(client.send(&cancel).await.status, 202);
    until(|| !server.seen_of("notifications/cancelled").is_empty()).await;
}

#[tokio::test]
async fn a_batch_answers_though_all_places_are_taken_and_what_it_asks_is_refused() {
    let server = server().await;
    let gateway = TestGateway::ready(&[("s", server.address)]).await;
    let (mut client, question) = crowded(&gateway, Revision::V2025_03_26).await;
    let ping = json!({"jsonrpc": "2.0", "id": 70, "method": "ping"});
    assert_eq!(client.send(&json!([ping])).await.status, 503);
    let roots = json!({"roots": [{"uri": "file:///a"}]});
    let answer = json!({"jsonrpc": "2.0", "id": question["id"], "result": roots});
    client.stream.expect(&ping);
    assert_eq!(client.send(&json!([ping, answer])).await.status, 202);
    until(|| server.seen().iter().any(|seen| seen.body["result"] == roots)).await;
    let refused = client.stream.next().await;
    let text = refused[0]["error"]["message"].as_str().unwrap();
    assert!(refused[0]["id"] == 70 && text.contains("at work already"), "{refused}");
    let cancel = json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 2}});
    assert_eq!(client.send(&json!([cancel])).await.status, 202);
    until(|| !server.seen_of("notifications/cancelled").is_empty()).await;
}

#[tokio::test]
async fn streams_end_when_the_process_stops() {
    let gateway = TestGateway::start(plan(&[])).await;
    let mut begun = Client::begin(&gateway).await;
    let mut silent = Client::connect(&gateway).await;
    let asked = Instant::now();
    gateway.stop_serving();
    begun.stream.end().await;
    silent.stream.end().await;
    assert!(asked.elapsed() < Duration::from_millis(500));
}

#[tokio::test]
async fn one_gateway_is_the_old_server_of_another() {
    let server = server().await;
    let inner = TestGateway::ready(&[("s", server.address)]).await;
    let mut outer = plan(&[("g", inner.address)]);
    outer.servers[0].terms.transport = HttpTransport::OldSse;
    let Ok(Endpoint::Http(http)) = &mut outer.servers[0].endpoint else {
        panic!("an HTTP server")
    };
    http.url = format!("http://{}/default/fed/sse", inner.address).parse().unwrap();
    let mut gateway = TestGateway::start(outer).await;
    gateway
        .until(|o| o.servers.values().all(|server| server.catalog.is_some()))
        .await;
    let answer = gateway.legacy("tools/call", json!({"name": "g__s__walk"})).await;
    assert_eq!(answer["result"]["content"][0]["text"], "there", "{answer}");
}
