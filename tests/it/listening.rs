//! How changes of servers are heard: on streams of their own, by listens, and from processes.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use ::http::Method;
use mcpfleet::fleet::UpstreamState;
use mcpfleet::mcp::{Era, Revision};
use mcpfleet::upstream::{Endpoint, Health, HttpEndpoint, Owner, Pin, StdioCommand, Terms};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep, timeout};

use crate::support::gateway::{TestGateway, plan};
use crate::support::held::{
    Forgetful, PATIENCE, Streams, Tools, changed, eventually, hold, hold_at, legacy, listened_to, modern, streaming,
    streams_asked_for, tagged, terms, until_it_has,
};
use crate::support::peers::Peers;
use crate::support::remote::Remote;
use crate::support::upstream::{Answer, Upstream};

#[tokio::test]
async fn a_change_told_on_the_servers_own_stream_is_heard() {
    let tools = Tools::default();
    let (server, streams) = streaming(json!({"tools": {"listChanged": true}}), &tools).await;
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
    let forgetful = Forgetful::start(json!({"tools": {}})).await;
    let (server, streams) = (&forgetful.server, &forgetful.streams);
    let _held = hold(server).await;
    forgetful.forget();
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
    let tools = Tools::default();
    let (server, streams) = streaming(json!({"tools": {"listChanged": true}}), &tools).await;
    let held = hold(&server).await;
    tools.add("unheard");
    streams.close();
    until_it_has(&held, "unheard").await;
}

#[tokio::test]
async fn a_modern_server_is_listened_to_for_what_it_tells_of() {
    let tools = Tools::default();
    let capabilities = json!({"tools": {"listChanged": true}, "resources": {"listChanged": false}});
    let (server, streams) = listened_to(capabilities, &tools).await;
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
    assert_eq!(
        held.subscribe(&Owner::Nobody.into(), "a://b")
            .await
            .unwrap_err()
            .reason(),
        "NotHeeded"
    );
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
    let subscription = held.subscribe(&Owner::Nobody.into(), "a://b").await.unwrap();
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
