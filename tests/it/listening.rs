//! How changes of servers are heard: on streams of their own, by listens, and for resources that are subscribed to.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use ::http::Method;
use mcpfleet::fleet::UpstreamState;
use mcpfleet::mcp::{Era, Revision};
use mcpfleet::metrics::Metrics;
use mcpfleet::upstream::{Endpoint, Health, HttpEndpoint, Pin, State, StdioCommand, Terms, Timeouts, Upstream as Held};
use serde_json::{Value, json};
use tokio::sync::mpsc::UnboundedSender;
use tokio::time::{Instant, sleep, timeout};

use crate::support::gateway::{TestGateway, plan};
use crate::support::peers::Peers;
use crate::support::remote::Remote;
use crate::support::upstream::{self, Answer, Seen, Upstream};

const PATIENCE: Duration = Duration::from_secs(10);

/// The streams that a server has open, latest last.
#[derive(Clone, Default)]
struct Streams(Arc<Mutex<Vec<UnboundedSender<Value>>>>);

impl Streams {
    fn open(&self) -> Answer {
        let (sender, answer) = Answer::live();
        self.0.lock().unwrap().push(sender);
        answer
    }

    /// A stream that begins with the acknowledgement of a listen, of all that it asks for or of what is `agreed`.
    fn open_for(&self, seen: &Seen, agreed: Option<Value>) -> Answer {
        let answer = self.open();
        let agreed = agreed.unwrap_or_else(|| seen.body["params"]["notifications"].clone());
        self.say(tagged(
            "notifications/subscriptions/acknowledged",
            &seen.body["id"],
            json!({ "notifications": agreed }),
        ));
        answer
    }

    /// Sends on the latest stream.
    fn say(&self, message: Value) {
        self.0.lock().unwrap().last().unwrap().send(message).unwrap();
    }

    fn close(&self) {
        self.0.lock().unwrap().pop();
    }

    /// Whether the client still reads the stream of this number.
    fn is_read(&self, number: usize) -> bool {
        !self.0.lock().unwrap()[number].is_closed()
    }

    fn count(&self) -> usize {
        self.0.lock().unwrap().len()
    }
}

/// Tools that a test changes.
#[derive(Clone, Default)]
struct Tools(Arc<Mutex<Vec<&'static str>>>);

impl Tools {
    fn add(&self, name: &'static str) {
        self.0.lock().unwrap().push(name);
    }

    fn list(&self) -> Value {
        self.0
            .lock()
            .unwrap()
            .iter()
            .map(|name| json!({"name": name}))
            .collect()
    }
}

fn changed() -> Value {
    json!({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"})
}

fn tagged(method: &str, id: &Value, mut params: Value) -> Value {
    params["_meta"]["io.modelcontextprotocol/subscriptionId"] = id.clone();
    json!({"jsonrpc": "2.0", "method": method, "params": params})
}

/// A Legacy server with these capabilities.
fn legacy(seen: &Seen, capabilities: Value, tools: &Tools) -> Answer {
    match seen.method() {
        "initialize" => seen
            .result(json!({
                "protocolVersion": "2025-11-25", "capabilities": capabilities,
                "serverInfo": {"name": "legacy", "version": "1"},
            }))
            .with_header("mcp-session-id", "s-1"),
        "ping" | "resources/subscribe" | "resources/unsubscribe" => seen.result(json!({})),
        "resources/list" => seen.result(json!({"resources": []})),
        "resources/templates/list" => seen.result(json!({"resourceTemplates": []})),
        _ => upstream::legacy(seen, &tools.list()),
    }
}

/// A Modern server with these capabilities.
fn modern(seen: &Seen, capabilities: Value, tools: &Tools) -> Answer {
    let page = |list: &str| json!({"resultType": "complete", list: [], "ttlMs": 0, "cacheScope": "private"});
    match seen.method() {
        "server/discover" => seen.result(json!({
            "resultType": "complete", "supportedVersions": ["2026-07-28"], "capabilities": capabilities,
            "ttlMs": 0, "cacheScope": "private",
        })),
        "resources/list" => seen.result(page("resources")),
        "resources/templates/list" => seen.result(page("resourceTemplates")),
        _ => upstream::modern(seen, &tools.list()),
    }
}

fn terms() -> Terms {
    Terms {
        timeouts: Timeouts {
            connect: Duration::from_secs(1),
            list: Duration::from_secs(1),
            resource: Duration::from_secs(2),
            ..Timeouts::default()
        },
        ..Terms::default()
    }
}

async fn hold(server: &Upstream) -> Held {
    hold_at(
        Endpoint::Http(HttpEndpoint {
            url: format!("http://{}/mcp", server.address).parse().unwrap(),
            headers: Default::default(),
        }),
        terms(),
    )
    .await
}

async fn hold_at(endpoint: Endpoint, terms: Terms) -> Held {
    let metrics = Metrics::new().unwrap().server("default/s");
    let held = Held::start("default/s".into(), endpoint, terms, metrics);
    until(&held, "ready", |state| state.health == Health::Ready).await;
    held
}

async fn until(held: &Held, what: &str, holds: impl Fn(&State) -> bool) {
    let mut state = held.state();
    let waited = timeout(PATIENCE, state.wait_for(|state| holds(state))).await;
    waited.unwrap_or_else(|_| panic!("never {what}")).unwrap();
}

async fn until_it_has(held: &Held, tool: &str) {
    until(held, tool, |state| {
        let tools = state.catalog.iter().flat_map(|catalog| &catalog.tools);
        tools.into_iter().any(|item| item.key == tool)
    })
    .await;
}

async fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !holds() {
        assert!(Instant::now() < deadline, "never {what}");
        sleep(Duration::from_millis(10)).await;
    }
}

fn streams_asked_for(server: &Upstream) -> Vec<Seen> {
    server
        .seen()
        .into_iter()
        .filter(|seen| seen.http == Method::GET)
        .collect()
}

#[tokio::test]
async fn a_change_told_on_the_servers_own_stream_is_heard() {
    let (streams, tools) = (Streams::default(), Tools::default());
    let (own, listed) = (streams.clone(), tools.clone());
    let server = Upstream::start(move |seen| match seen.http {
        Method::GET => own.open(),
        _ => legacy(seen, json!({"tools": {"listChanged": true}}), &listed),
    })
    .await;
    let held = hold(&server).await;
    for (name, spelling) in [("one", "list_changed"), ("two", "listChanged")] {
        tools.add(name);
        streams.say(json!({"jsonrpc": "2.0", "method": format!("notifications/tools/{spelling}")}));
        until_it_has(&held, name).await;
    }
    streams.say(json!({"jsonrpc": "2.0", "id": "p", "method": "ping"}));
    eventually("an answer to ping", || {
        server
            .seen()
            .iter()
            .any(|seen| seen.body == json!({"jsonrpc": "2.0", "id": "p", "result": {}}))
    })
    .await;
    let [asked] = &streams_asked_for(&server)[..] else {
        panic!("one stream is enough")
    };
    assert_eq!(asked.header("accept"), Some("text/event-stream"));
    assert_eq!(asked.header("mcp-session-id"), Some("s-1"));
    assert_eq!(asked.header("mcp-protocol-version"), Some("2025-11-25"));
    assert_eq!(asked.header("content-type"), None);
}

#[tokio::test]
async fn a_server_without_the_stream_is_asked_once_and_one_that_closes_it_is_asked_less_and_less() {
    let tools = Tools::default();
    tools.add("echo");
    let start = async |answer: fn() -> Answer| {
        let tools = tools.clone();
        let server = Upstream::start(move |seen| match seen.http {
            Method::GET => answer(),
            _ => legacy(seen, json!({"tools": {}}), &tools),
        })
        .await;
        let held = hold(&server).await;
        (server, held)
    };
    let none = [
        start(|| Answer::status(405)).await,
        start(|| Answer::status(404)).await,
        start(|| Answer::text(200, "text/html", "<html>")).await,
    ];
    let closing = start(|| Answer::text(200, "text/event-stream", ": hello\n\n")).await;
    sleep(Duration::from_millis(4500)).await;
    for (server, held) in &none {
        assert_eq!(streams_asked_for(server).len(), 1);
        assert_eq!(held.state().borrow().health, Health::Ready);
        assert_eq!(server.seen_of("initialize").len(), 1);
    }
    let asked = streams_asked_for(&closing.0).len();
    assert!(
        (2..=3).contains(&asked),
        "asked at once, after 1 s and after 2 s more: {asked}"
    );
    until_it_has(&closing.1, "echo").await;
}

#[tokio::test]
async fn a_session_that_the_stream_finds_lost_is_made_again() {
    let lost = Arc::new(AtomicUsize::new(0));
    let (streams, tools, current) = (Streams::default(), Tools::default(), Arc::clone(&lost));
    let own = streams.clone();
    let server = Upstream::start(move |seen| {
        let session = format!("s-{}", current.load(Ordering::SeqCst));
        match seen.header("mcp-session-id") {
            Some(sent) if sent != session => Answer::status(404),
            _ if seen.http == Method::GET => own.open(),
            _ => match legacy(seen, json!({"tools": {}}), &tools) {
                Answer::Respond { status, body, .. } => {
                    Answer::text(status, "application/json", body).with_header("mcp-session-id", &session)
                }
                other => other,
            },
        }
    })
    .await;
    let _held = hold(&server).await;
    lost.store(1, Ordering::SeqCst);
    streams.close();
    eventually("a new session", || server.seen_of("initialize").len() == 2).await;
    eventually("a new stream", || streams.count() == 1).await;
    assert_eq!(server.seen_of("server/discover").len(), 1, "its era is known");
}

#[tokio::test]
async fn a_stream_goes_on_where_it_ended_when_the_server_wants() {
    let (asked, tools) = (AtomicUsize::new(0), Tools::default());
    let streams = Streams::default();
    let own = streams.clone();
    let server = Upstream::start(move |seen| match seen.http {
        Method::GET if asked.fetch_add(1, Ordering::SeqCst) == 0 => {
            Answer::text(200, "text/event-stream", "retry: 1\nid: e-7\ndata:\n\n")
        }
        Method::GET => own.open(),
        _ => legacy(seen, json!({"tools": {}}), &tools),
    })
    .await;
    let begun = Instant::now();
    let _held = hold(&server).await;
    eventually("asked again", || streams.count() == 1).await;
    assert!(
        begun.elapsed() >= Duration::from_millis(100),
        "not sooner than is reasonable"
    );
    assert!(
        begun.elapsed() < Duration::from_millis(900),
        "not later than the server wants"
    );
    assert_eq!(streams_asked_for(&server)[1].header("last-event-id"), Some("e-7"));
}

#[tokio::test]
async fn lists_are_read_again_after_a_stream_was_away() {
    let (streams, tools) = (Streams::default(), Tools::default());
    let (own, listed) = (streams.clone(), tools.clone());
    let server = Upstream::start(move |seen| match seen.http {
        Method::GET => own.open(),
        _ => legacy(seen, json!({"tools": {"listChanged": true}}), &listed),
    })
    .await;
    let held = hold(&server).await;
    tools.add("unheard");
    streams.close();
    until_it_has(&held, "unheard").await;
}

#[tokio::test]
async fn a_modern_server_is_listened_to_for_what_it_tells_of() {
    let (streams, tools) = (Streams::default(), Tools::default());
    let (own, listed) = (streams.clone(), tools.clone());
    let server = Upstream::start(move |seen| match seen.method() {
        "subscriptions/listen" => own.open_for(seen, None),
        _ => modern(
            seen,
            json!({"tools": {"listChanged": true}, "resources": {"listChanged": false}}),
            &listed,
        ),
    })
    .await;
    let held = hold(&server).await;
    let listen = server.seen_of("subscriptions/listen").remove(0);
    assert_eq!(
        listen.body["params"]["notifications"],
        json!({"toolsListChanged": true})
    );
    assert_eq!(listen.header("mcp-method"), Some("subscriptions/listen"));
    assert_eq!(listen.header("mcp-protocol-version"), Some("2026-07-28"));
    tools.add("one");
    streams.say(tagged(
        "notifications/tools/list_changed",
        &listen.body["id"],
        json!({}),
    ));
    until_it_has(&held, "one").await;

    // It may end a listen by a result, by a notification, or by both.
    let id = &listen.body["id"];
    streams.say(json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id}}));
    streams.say(json!({"jsonrpc": "2.0", "id": id, "result": {"resultType": "complete"}}));
    tools.add("two");
    until_it_has(&held, "two").await;
    eventually("another listen", || streams.count() == 2).await;
    let again = server.seen_of("subscriptions/listen").remove(1);
    assert_ne!(&again.body["id"], id);
    streams.say(json!({"jsonrpc": "2.0", "id": again.body["id"], "result": {"resultType": "complete"}}));
    eventually("a third listen", || streams.count() == 3).await;
    assert!(
        streams_asked_for(&server).is_empty(),
        "there is no such stream in this era"
    );
}

#[tokio::test]
async fn a_modern_server_that_cannot_be_listened_to_is_served_all_the_same() {
    let tools = Tools::default();
    tools.add("echo");
    let start = async |capabilities: Value| {
        let tools = tools.clone();
        let server = Upstream::start(move |seen| modern(seen, capabilities.clone(), &tools)).await;
        let held = hold(&server).await;
        (server, held)
    };
    let (without, held) = start(json!({"tools": {"listChanged": true}})).await;
    let (silent, _) = start(json!({"tools": {}})).await;
    sleep(Duration::from_millis(1500)).await;
    assert_eq!(without.seen_of("subscriptions/listen").len(), 1);
    assert_eq!(without.seen_of("server/discover").len(), 1);
    assert_eq!(silent.seen_of("subscriptions/listen").len(), 0);
    let state = held.state().borrow().clone();
    assert_eq!(state.health, Health::Ready);
    assert_eq!(state.peer.as_ref().unwrap().era(), Era::Modern);
}

#[tokio::test]
async fn nothing_is_listened_to_where_the_owner_says_so() {
    let tools = Tools::default();
    let listed = tools.clone();
    let server = Upstream::start(move |seen| match seen.method() {
        "tools/list" => Answer::Stream(vec![
            (Duration::ZERO, changed()),
            (
                Duration::ZERO,
                json!({"jsonrpc": "2.0", "id": seen.body["id"], "result": {"tools": listed.list()}}),
            ),
        ]),
        _ => legacy(
            seen,
            json!({"tools": {"listChanged": true}, "resources": {"subscribe": true}}),
            &listed,
        ),
    })
    .await;
    let endpoint = Endpoint::Http(HttpEndpoint {
        url: format!("http://{}/mcp", server.address).parse().unwrap(),
        headers: Default::default(),
    });
    let quiet = Terms {
        notifications: false,
        ..terms()
    };
    let held = hold_at(endpoint, quiet).await;
    sleep(Duration::from_millis(1500)).await;
    assert!(streams_asked_for(&server).is_empty());
    assert_eq!(server.seen_of("tools/list").len(), 1);
    assert_eq!(held.subscribe("a://b").await.unwrap_err().reason(), "NotHeeded");
}

#[tokio::test]
async fn a_resource_is_subscribed_to_once_for_all_and_told_of_to_each() {
    let (streams, tools, own) = (Streams::default(), Tools::default(), Streams::default());
    let gets = own.clone();
    let server = Upstream::start(move |seen| match (seen.http.clone(), seen.method()) {
        (Method::GET, _) => gets.open(),
        (_, "resources/subscribe") if seen.body["params"]["uri"] == "a://refused" => {
            seen.error(200, -32602, "no such resource")
        }
        _ => legacy(seen, json!({"resources": {"subscribe": true}}), &tools),
    })
    .await;
    drop(streams);
    let held = hold(&server).await;
    let (mut first, second) = (
        held.subscribe("a://b").await.unwrap(),
        held.subscribe("a://b").await.unwrap(),
    );
    assert_eq!(server.seen_of("resources/subscribe").len(), 1);
    let update =
        r#"data: {"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"a:\/\/b/c", "x":1.0}}"#;
    own.say(json!(format!("{}\n\n", update.replace("a:\\/\\/b/c", "a://other"))));
    own.say(json!(format!("{update}\n\n")));
    let notice = timeout(PATIENCE, first.updated()).await.unwrap().unwrap();
    assert_eq!(&*notice.params, r#"{"uri":"a:\/\/b/c", "x":1.0}"#, "as it was written");
    assert_eq!(&*notice.uri, "a://b/c");

    let refused = held.subscribe("a://refused").await.unwrap_err();
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
async fn a_subscription_outlives_the_session_and_what_was_missed_is_told_as_one_change() {
    let generation = Arc::new(AtomicUsize::new(0));
    let (streams, tools, current) = (Streams::default(), Tools::default(), Arc::clone(&generation));
    let own = streams.clone();
    let server = Upstream::start(move |seen| {
        let session = format!("s-{}", current.load(Ordering::SeqCst));
        match seen.header("mcp-session-id") {
            Some(sent) if sent != session => Answer::status(404),
            _ if seen.http == Method::GET => own.open(),
            _ => match legacy(seen, json!({"resources": {"subscribe": true}}), &tools) {
                Answer::Respond { status, body, .. } => {
                    Answer::text(status, "application/json", body).with_header("mcp-session-id", &session)
                }
                other => other,
            },
        }
    })
    .await;
    let held = hold(&server).await;
    let mut subscription = held.subscribe("a://b").await.unwrap();
    generation.store(1, Ordering::SeqCst);
    streams.close();
    let notice = timeout(PATIENCE, subscription.updated()).await.unwrap().unwrap();
    assert_eq!(&*notice.params, r#"{"uri":"a://b"}"#);
    let asked = server.seen_of("resources/subscribe");
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
    let mut first = held.subscribe("a://b").await.unwrap();
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

    let unknown = held.subscribe("a://unknown").await.unwrap_err();
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
    let (streams, tools) = (Streams::default(), Tools::default());
    let own = streams.clone();
    let new = Upstream::start(move |seen| match seen.method() {
        "subscriptions/listen" => own.open_for(seen, None),
        _ => modern(seen, json!({"resources": {"subscribe": true}}), &tools),
    })
    .await;
    let (gets, tools) = (Streams::default(), Tools::default());
    let old = Upstream::start(move |seen| match seen.http {
        Method::GET => gets.open(),
        _ => legacy(seen, json!({"resources": {"subscribe": true}}), &tools),
    })
    .await;
    for server in [&new, &old] {
        let held = hold(server).await;
        for _ in 0..3 {
            let left = held.subscribe("a://b").await.unwrap();
            drop(left);
            let next = timeout(PATIENCE / 4, held.subscribe("a://b")).await;
            next.expect("it is told that it is subscribed").unwrap();
        }
    }
}

#[tokio::test]
async fn resources_are_subscribed_to_only_where_the_server_offers_it() {
    let tools = Tools::default();
    let server = Upstream::start(move |seen| legacy(seen, json!({"resources": {}}), &tools)).await;
    let held = hold(&server).await;
    assert_eq!(held.subscribe("a://b").await.unwrap_err().reason(), "NotOffered");
    assert_eq!(server.seen_of("resources/subscribe").len(), 0);
}

/// A Modern server on standard input and output that adds a tool as soon as it is listened to.
const MODERN_PROCESS: &str = r#"
import json, sys
def say(m): print(json.dumps({"jsonrpc": "2.0", **m}), flush=True)
tools = []
for line in sys.stdin:
    m = json.loads(line)
    method, id = m.get("method"), m.get("id")
    done = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private"}
    if method == "server/discover":
        say({"id": id, "result": {**done, "supportedVersions": ["2026-07-28"],
             "capabilities": {"tools": {"listChanged": True}, "resources": {"subscribe": True}}}})
    elif method == "tools/list": say({"id": id, "result": {**done, "tools": tools}})
    elif method == "resources/list": say({"id": id, "result": {**done, "resources": []}})
    elif method == "resources/templates/list": say({"id": id, "result": {**done, "resourceTemplates": []}})
    elif method == "subscriptions/listen":
        wanted = m["params"]["notifications"]
        tag = {"_meta": {"io.modelcontextprotocol/subscriptionId": id}}
        say({"method": "notifications/subscriptions/acknowledged", "params": {**tag, "notifications": wanted}})
        tools.append({"name": "tool-%d" % len(tools), "inputSchema": {"type": "object"}})
        say({"method": "notifications/tools/list_changed", "params": tag})
        for uri in wanted.get("resourceSubscriptions", []):
            say({"method": "notifications/resources/updated", "params": {**tag, "uri": uri}})
    elif method == "notifications/cancelled":
        tools.append({"name": "ended", "inputSchema": {"type": "object"}})
    elif id is not None: say({"id": id, "error": {"code": -32601, "message": "unknown"}})
"#;

#[tokio::test]
async fn a_modern_process_is_listened_to_as_well() {
    let endpoint = Endpoint::Stdio(StdioCommand {
        program: "python3".into(),
        args: vec!["-c".into(), MODERN_PROCESS.into()],
        env: Default::default(),
        cwd: None,
    });
    let held = hold_at(endpoint, terms()).await;
    until_it_has(&held, "tool-0").await;
    let mut notices = held.notices();
    let subscription = held.subscribe("a://b").await.unwrap();
    until_it_has(&held, "tool-1").await;
    let notice = timeout(PATIENCE, notices.recv()).await.unwrap().unwrap();
    assert_eq!(&*notice.params, r#"{"uri": "a://b"}"#.replace(": ", ":").as_str());
    drop(subscription);
    until_it_has(&held, "ended").await;
    held.stop().await;
}

#[tokio::test]
async fn servers_of_other_people_are_heard_in_both_eras() {
    let Some(peers) = Peers::installed() else { return };
    for (remote, pin) in [
        (Remote::TypescriptV2, Pin::None),
        (Remote::TypescriptV2, Pin::Legacy(Revision::LATEST_LEGACY)),
        // It tells Legacy clients nothing of this.
        (Remote::PythonV2, Pin::None),
    ] {
        let running = remote.start(&peers).await;
        let mut input = plan(&[("s", "127.0.0.1:1".parse().unwrap())]);
        if let Ok(Endpoint::Http(http)) = &mut input.servers[0].endpoint {
            http.url = running.url.parse().unwrap();
        }
        input.servers[0].terms.pin = pin.clone();
        let mut gateway = TestGateway::start(input).await;
        gateway
            .until(|o| o.servers.values().all(|s| s.state == UpstreamState::Ready))
            .await;
        let tools = async || {
            gateway.modern("tools/list", json!({})).await["result"]["tools"]
                .as_array()
                .unwrap()
                .len()
        };
        let before = tools().await;
        let answer = gateway
            .modern("tools/call", json!({"name": "s__add_tool", "arguments": {}}))
            .await;
        assert!(answer.get("result").is_some(), "{remote:?}: {answer}");
        let deadline = Instant::now() + PATIENCE;
        while tools().await == before {
            assert!(Instant::now() < deadline, "{remote:?} pinned to {pin:?} was not heard");
            sleep(Duration::from_millis(50)).await;
        }
        gateway.stop().await;
    }
}
