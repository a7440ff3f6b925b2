//! Updates of single resources, and levels of logs: asked for by sessions and subscriptions, heard by nobody else.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use ::http::{Method, Request};
use mcpfleet::fleet::PlanInput;
use mcpfleet::mcp::{Era, Revision};
use serde_json::{Value, json};
use tokio::sync::mpsc::UnboundedSender;

use crate::access::{ALICE, alice_and_bob, by_key};
use crate::support::event_stream::EventStream;
use crate::support::gateway::{TestGateway, plan};
use crate::support::http;
use crate::support::upstream::{Answer, Seen, Upstream};

const LEGACY: Revision = Revision::LATEST_LEGACY;

/// A server with the resource `a:b`, whose clients hear that it changed, and that logs when its tool is called.
struct Server {
    upstream: Upstream,
    hearers: Hearers,
}

/// Who listens to a server, and what its messages are tagged with.
type Hearers = Arc<Mutex<Vec<(Option<Value>, UnboundedSender<Value>)>>>;

impl Server {
    async fn start(era: Era) -> Self {
        let hearers = Hearers::default();
        let upstream = {
            let hearers = Arc::clone(&hearers);
            Upstream::start(move |seen| match era {
                Era::Legacy => legacy(seen, &hearers),
                Era::Modern => modern(seen, &hearers),
            })
            .await
        };
        Self { upstream, hearers }
    }

    /// The resource changes; those who left hear nothing.
    fn touch(&self) {
        let mut hearers = self.hearers.lock().unwrap();
        hearers.retain(|(tag, hearer)| hearer.send(updated(tag.as_ref())).is_ok());
        assert!(!hearers.is_empty(), "nobody listens");
    }
}

fn updated(tag: Option<&Value>) -> Value {
    let mut params = json!({"uri": "a:b", "future": 1});
    if let Some(tag) = tag {
        params["_meta"] = json!({"io.modelcontextprotocol/subscriptionId": tag});
    }
    json!({"jsonrpc": "2.0", "method": "notifications/resources/updated", "params": params})
}

fn legacy(seen: &Seen, hearers: &Hearers) -> Answer {
    match seen.method() {
        _ if seen.http == Method::GET => {
            let (hearer, stream) = Answer::live();
            hearers.lock().unwrap().push((None, hearer));
            stream
        }
        "initialize" => seen
            .result(json!({
                "protocolVersion": "2025-11-25", "serverInfo": {"name": "l", "version": "1"},
                "capabilities": {"resources": {"subscribe": true}, "tools": {}, "logging": {}},
            }))
            .with_header("mcp-session-id", "s-1"),
        "resources/list" => seen.result(json!({"resources": [{"uri": "a:b", "name": "r"}]})),
        "resources/templates/list" => seen.result(json!({"resourceTemplates": []})),
        "tools/list" => seen.result(json!({"tools": [{"name": "log", "inputSchema": {"type": "object"}}]})),
        "tools/call" => logging(seen, json!({"content": []})),
        "resources/subscribe" | "resources/unsubscribe" | "logging/setLevel" => seen.result(json!({})),
        method if method.starts_with("notifications/") => Answer::status(202),
        _ if seen.http == Method::DELETE => Answer::status(204),
        _ => seen.error(400, -32601, "unknown"),
    }
}

fn modern(seen: &Seen, hearers: &Hearers) -> Answer {
    let complete = |mut result: Value| {
        (result["resultType"], result["ttlMs"], result["cacheScope"]) = (json!("complete"), json!(0), json!("private"));
        seen.result(result)
    };
    match seen.method() {
        "server/discover" => complete(json!({
            "supportedVersions": ["2026-07-28"],
            "capabilities": {"resources": {"subscribe": true}, "tools": {}, "logging": {}},
        })),
        "resources/list" => complete(json!({"resources": [{"uri": "a:b", "name": "r"}]})),
        "resources/templates/list" => complete(json!({"resourceTemplates": []})),
        "tools/list" => complete(json!({"tools": [{"name": "log", "inputSchema": {"type": "object"}}]})),
        "tools/call" => logging(seen, json!({"resultType": "complete", "content": []})),
        "subscriptions/listen" => {
            let id = &seen.body["id"];
            let acknowledged = json!({
                "jsonrpc": "2.0", "method": "notifications/subscriptions/acknowledged", "params": {
                    "_meta": {"io.modelcontextprotocol/subscriptionId": id},
                    "notifications": seen.body["params"]["notifications"],
                },
            });
            let (hearer, stream) = Answer::live();
            hearer.send(acknowledged).unwrap();
            hearers.lock().unwrap().push((Some(id.clone()), hearer));
            stream
        }
        _ => seen.error(404, -32601, "unknown"),
    }
}

/// Logs at three levels, and answers.
fn logging(seen: &Seen, result: Value) -> Answer {
    let log = |level: &str| {
        let params = json!({"level": level, "data": level});
        (
            Duration::ZERO,
            json!({"jsonrpc": "2.0", "method": "notifications/message", "params": params}),
        )
    };
    let answer = json!({"jsonrpc": "2.0", "id": seen.body["id"], "result": result});
    Answer::Stream(vec![
        log("debug"),
        log("warning"),
        log("alert"),
        (Duration::ZERO, answer),
    ])
}

fn ask(id: u64, method: &str, params: Value) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params})
}

/// What a Legacy session is answered.
async fn post(gateway: &TestGateway, session: &str, message: &Value) -> Value {
    let headers = [("mcp-session-id", session), ("mcp-protocol-version", LEGACY.as_str())];
    gateway.post(message, &headers).await.json()
}

#[tokio::test]
async fn a_session_hears_of_the_resources_that_it_subscribed_to_and_no_other_session_does() {
    for era in [Era::Legacy, Era::Modern] {
        let server = Server::start(era).await;
        let gateway = TestGateway::ready(&[("s", server.upstream.address)]).await;
        let [mine, other] = [gateway.open_session(LEGACY).await, gateway.open_session(LEGACY).await];
        let mut hears = gateway.get_events(&mine, LEGACY, None).await;
        let mut silent = gateway.get_events(&other, LEGACY, None).await;
        let subscribe = ask(1, "resources/subscribe", json!({"uri": "a:b"}));
        let accepted = post(&gateway, &mine, &subscribe).await;
        assert_eq!(accepted["result"], json!({}), "{era:?}: {accepted}");
        let unknown = ask(2, "resources/subscribe", json!({"uri": "no:where"}));
        let refused = post(&gateway, &mine, &unknown).await;
        assert_eq!(refused["error"]["code"], -32002, "{refused}");
        server.touch();
        let heard = hears.message().await.unwrap();
        assert_eq!(
            heard,
            json!({
                "jsonrpc": "2.0", "method": "notifications/resources/updated", "params": {"uri": "a:b", "future": 1},
            })
        );
        let unsubscribe = ask(3, "resources/unsubscribe", json!({"uri": "a:b"}));
        assert_eq!(post(&gateway, &mine, &unsubscribe).await["result"], json!({}));
        // Taken up again at once, by somebody else.
        let accepted = post(&gateway, &other, &subscribe).await;
        assert_eq!(accepted["result"], json!({}), "{era:?}: {accepted}");
        server.touch();
        assert_eq!(silent.message().await.unwrap()["params"]["uri"], "a:b");
        assert_eq!(
            hears.message_within(Duration::from_millis(200)).await,
            None,
            "it has unsubscribed"
        );
    }
}

#[tokio::test]
async fn a_subscription_hears_of_the_resources_that_were_accepted() {
    for era in [Era::Legacy, Era::Modern] {
        let server = Server::start(era).await;
        let gateway = TestGateway::ready(&[("s", server.upstream.address)]).await;
        let filter = json!({"resourceSubscriptions": ["a:b", "no:where"]});
        let mut stream = gateway
            .modern_events(json!("mine"), "subscriptions/listen", json!({"notifications": filter}))
            .await;
        let acknowledged = stream.message().await.unwrap();
        assert_eq!(
            acknowledged["params"]["notifications"],
            json!({"resourceSubscriptions": ["a:b"]}),
            "{era:?}"
        );
        server.touch();
        let heard = stream.message().await.unwrap();
        assert_eq!(heard["method"], "notifications/resources/updated");
        assert_eq!(
            heard["params"],
            json!({
                "uri": "a:b", "future": 1, "_meta": {"io.modelcontextprotocol/subscriptionId": "mine"},
            })
        );
    }
}

/// A plan by which Alice may use what is called so.
fn for_alice(server: &Server, names: &str) -> PlanInput {
    let mut plan = by_key(plan(&[("s", server.upstream.address)]), alice_and_bob());
    let rules = json!([{"principals": ["alice"], "names": [names]}]);
    plan.federations[0].spec.access.as_mut().unwrap().rules = serde_json::from_value(rules).unwrap();
    plan
}

/// Whether an update comes on `stream`; not for long if it is not `expected`. That lists have changed comes as well.
async fn is_told(stream: &mut EventStream, expected: bool) -> bool {
    let patience = Duration::from_millis(if expected { 5_000 } else { 300 });
    while let Some(told) = stream.message_within(patience).await {
        if told["method"] == "notifications/resources/updated" {
            assert_eq!(told["params"]["uri"], "a:b");
            return true;
        }
    }
    false
}

#[tokio::test]
async fn nothing_is_heard_of_a_resource_by_whoever_may_not_see_it_any_more() {
    for era in [Era::Legacy, Era::Modern] {
        let server = Server::start(era).await;
        let mut gateway = TestGateway::start(for_alice(&server, "*")).await;
        gateway
            .until(|o| !o.servers.is_empty() && o.servers.values().all(|server| server.catalog.is_some()))
            .await;
        let session = http::open_session(&gateway.client, &gateway.url(), LEGACY, &[ALICE]).await;
        let session = session.unwrap();
        let headers = [
            ("mcp-session-id", session.as_str()),
            ("mcp-protocol-version", LEGACY.as_str()),
            ALICE,
        ];
        let request = Request::get(gateway.url()).header("accept", "text/event-stream");
        let request = headers
            .iter()
            .fold(request, |request, (name, value)| request.header(*name, *value));
        let mut hears = EventStream::open(&gateway.client, request.body(Default::default()).unwrap()).await;
        let subscribe = ask(1, "resources/subscribe", json!({"uri": "a:b"}));
        let accepted = http::exchange(&gateway.client, http::legacy(&gateway.url(), &subscribe, headers)).await;
        assert_eq!(accepted.json()["result"], json!({}), "{era:?}");
        let filter = json!({"notifications": {"resourceSubscriptions": ["a:b"]}});
        let mut request = gateway.modern_request(json!("mine"), "subscriptions/listen", filter.clone(), json!({}));
        request.headers_mut().insert(ALICE.0, ALICE.1.parse().unwrap());
        let mut listens = EventStream::open(&gateway.client, request).await;
        let acknowledged = listens.next().await;
        assert_eq!(
            acknowledged["params"]["notifications"], filter["notifications"],
            "{era:?}"
        );

        for (names, heard) in [("*", true), ("other", false), ("a:*", true)] {
            gateway.input.send_replace(for_alice(&server, names).into());
            let listed = async || {
                let mut request = gateway.modern_request(json!(1), "resources/list", json!({}), json!({}));
                request.headers_mut().insert(ALICE.0, ALICE.1.parse().unwrap());
                gateway.send(request).await.json()["result"]["resources"] == json!([])
            };
            let deadline = tokio::time::Instant::now() + Duration::from_secs(10);
            while listed().await == heard {
                assert!(tokio::time::Instant::now() < deadline, "the rules never hold");
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
            server.touch();
            for stream in [&mut hears, &mut listens] {
                assert_eq!(is_told(stream, heard).await, heard, "{era:?} with {names}");
            }
        }
    }
}

/// Whether the next update that comes on `stream` is one that the server told.
async fn hears_the_server(stream: &mut EventStream) -> bool {
    loop {
        let told = stream.message_within(Duration::from_secs(10)).await.expect("an update");
        if told["method"] == "notifications/resources/updated" {
            assert_eq!(told["params"]["uri"], "a:b");
            return told["params"]["future"] == 1;
        }
    }
}

#[tokio::test]
async fn subscriptions_go_on_with_the_connection_that_takes_the_place_of_theirs() {
    for era in [Era::Legacy, Era::Modern] {
        let server = Server::start(era).await;
        let gateway = TestGateway::ready(&[("s", server.upstream.address)]).await;
        let session = gateway.open_session(LEGACY).await;
        let mut hears = gateway.get_events(&session, LEGACY, None).await;
        let subscribe = ask(1, "resources/subscribe", json!({"uri": "a:b"}));
        assert_eq!(
            post(&gateway, &session, &subscribe).await["result"],
            json!({}),
            "{era:?}"
        );
        let filter = json!({"notifications": {"resourceSubscriptions": ["a:b"]}});
        let mut listens = gateway.modern_events(json!(1), "subscriptions/listen", filter).await;
        listens.message().await.unwrap();
        server.touch();
        assert!(hears_the_server(&mut hears).await && hears_the_server(&mut listens).await);

        let mut edited = plan(&[("s", server.upstream.address)]);
        edited.servers[0].terms.timeouts.resource += Duration::from_secs(1);
        gateway.input.send_replace(edited.into());
        for stream in [&mut hears, &mut listens] {
            // What may have changed between the two connections.
            assert!(!hears_the_server(stream).await, "{era:?}: nothing was touched");
        }
        server.touch();
        assert!(hears_the_server(&mut hears).await, "{era:?}");
        assert!(hears_the_server(&mut listens).await, "{era:?}");
    }
}

#[tokio::test]
async fn a_session_hears_logs_from_the_level_on_that_it_chose() {
    for era in [Era::Legacy, Era::Modern] {
        let server = Server::start(era).await;
        let gateway = TestGateway::ready(&[("s", server.upstream.address)]).await;
        let [mine, other] = [gateway.open_session(LEGACY).await, gateway.open_session(LEGACY).await];
        let odd = post(&gateway, &mine, &ask(1, "logging/setLevel", json!({"level": "loud"}))).await;
        assert_eq!(odd["error"]["code"], -32602, "{odd}");
        let set = post(
            &gateway,
            &mine,
            &ask(2, "logging/setLevel", json!({"level": "warning"})),
        )
        .await;
        assert_eq!(set["result"], json!({}), "{set}");
        let call = ask(3, "tools/call", json!({"name": "s__log"}));
        let mut heard = gateway.post_events(&mine, LEGACY, &call).await;
        let levels: Vec<Value> = heard
            .rest()
            .await
            .iter()
            .map(|m| m["params"]["level"].clone())
            .collect();
        assert_eq!(levels, [json!("warning"), json!("alert"), Value::Null], "{era:?}");
        let silent = post(&gateway, &other, &call).await;
        assert!(silent["result"].is_object(), "it asked for none: {silent}");
        match era {
            Era::Legacy => {
                let told = server.upstream.seen_of("logging/setLevel");
                assert_eq!(told.len(), 1);
                assert_eq!(told[0].body["params"]["level"], "warning");
            }
            Era::Modern => {
                let levels = server.upstream.seen_of("tools/call");
                let level = |seen: &Seen| seen.body["params"]["_meta"]["io.modelcontextprotocol/logLevel"].clone();
                assert_eq!(
                    levels.iter().map(level).collect::<Vec<_>>(),
                    [json!("warning"), Value::Null]
                );
            }
        }
    }
}

#[tokio::test]
async fn capabilities_are_those_of_the_members() {
    let server = Server::start(Era::Legacy).await;
    let gateway = TestGateway::ready(&[("s", server.upstream.address)]).await;
    let lists = json!({"listChanged": true});
    let discovered = gateway.modern("server/discover", json!({})).await;
    assert_eq!(
        discovered["result"]["capabilities"],
        json!({
            "tools": lists, "prompts": lists, "resources": {"subscribe": true, "listChanged": true}, "logging": {},
        })
    );
    let empty = TestGateway::start(plan(&[])).await;
    let discovered = empty.modern("server/discover", json!({})).await;
    assert_eq!(
        discovered["result"]["capabilities"],
        json!({
            "tools": lists, "prompts": lists, "resources": {"subscribe": false, "listChanged": true},
        })
    );
}
