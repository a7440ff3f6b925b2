//! What servers do to the gateway: down, hanging, paging, losing sessions, breaking the protocol.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use mcpfleet::api::server::CatalogStatus;
use mcpfleet::fleet::{ObjectKey, Observations, UpstreamState};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep, timeout};

use crate::support::gateway::{TestGateway, plan};
use crate::support::shelf::Shelf;
use crate::support::upstream::{self, Answer, Upstream, refusing_address};

fn key(name: &str) -> ObjectKey {
    ObjectKey::new("default", name)
}

fn tools(names: &[&str]) -> Value {
    names
        .iter()
        .map(|name| json!({"name": name, "inputSchema": {"type": "object"}}))
        .collect()
}

fn names(answer: &Value) -> Vec<String> {
    let tools = answer["result"]["tools"]
        .as_array()
        .unwrap_or_else(|| panic!("no tools in {answer}"));
    tools
        .iter()
        .map(|tool| tool["name"].as_str().unwrap().to_owned())
        .collect()
}

#[tokio::test]
async fn sick_servers_delay_nobody_and_are_named() {
    let healthy = Upstream::start(|seen| upstream::legacy(seen, &tools(&["echo"]))).await;
    let hanging = Upstream::start(|_| Answer::Hang).await;
    let down = refusing_address().await;
    let members = [("good", healthy.address), ("hang", hanging.address), ("down", down)];
    let mut gateway = TestGateway::start(plan(&members)).await;
    gateway
        .until(|o| {
            o.servers
                .get(&key("good"))
                .is_some_and(|s| s.state == UpstreamState::Ready)
        })
        .await;

    let started = Instant::now();
    let initialize =
        json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "c", "version": "1"}});
    assert!(gateway.legacy("initialize", initialize).await["result"]["protocolVersion"].is_string());
    assert_eq!(names(&gateway.legacy("tools/list", json!({})).await), ["good__echo"]);
    assert_eq!(names(&gateway.modern("tools/list", json!({})).await), ["good__echo"]);
    assert!(
        started.elapsed() < Duration::from_millis(800),
        "sooner than any time limit toward a server"
    );

    let failed = |observed: &Observations, name: &str, expected: &str| {
        observed
            .servers
            .get(&key(name))
            .is_some_and(|s| matches!(s.state, UpstreamState::Failed { reason, .. } if reason == expected))
    };
    gateway
        .until(|o| failed(o, "down", "ConnectFailed") && failed(o, "hang", "Timeout"))
        .await;
    let page = gateway.metrics_page();
    for line in [
        r#"mcpfleet_upstream_up{server="default/good"} 1"#,
        r#"mcpfleet_upstream_up{server="default/down"} 0"#,
        r#"mcpfleet_upstream_up{server="default/hang"} 0"#,
        r#"mcpfleet_upstream_failures_total{reason="Timeout",server="default/hang"}"#,
    ] {
        assert!(page.contains(line), "{line} in {page}");
    }
    assert_eq!(names(&gateway.legacy("tools/list", json!({})).await), ["good__echo"]);
}

#[tokio::test]
async fn what_answers_without_messages_is_told_with_what_came_and_what_to_check() {
    const GZIP: &str = "the server answered with Content-Encoding gzip, which was not asked for; have the server, or the \
                        proxy before it, send its answers as they are";
    const HTML: &str =
        "the server answered with an HTML page; check the address: the path of an MCP endpoint is often /mcp";
    let page = |status| Answer::text(status, "text/html; charset=utf-8", "<html>\u{1b}[2J welcome</html>");
    let zipped =
        |status| Answer::text(status, "application/json", "\u{1f}zipped").with_header("content-encoding", "gzip");
    let cases = [
        (page(200), "UnexpectedContent", HTML),
        (
            Answer::text(200, "Application/XHTML+xml", "<html/>"),
            "UnexpectedContent",
            HTML,
        ),
        (zipped(200), "UnexpectedContent", GZIP),
        (
            Answer::text(200, "text/plain", "hello"),
            "UnexpectedContent",
            "the server answered with text/plain, not with a message",
        ),
        (page(404), "BadStatus", "HTTP status 404; check the address"),
        (page(307), "BadStatus", "HTTP status 307, which leads elsewhere"),
        (zipped(503), "BadStatus", "HTTP status 503"),
        (
            Answer::json(200, json!({"hello": 1})).with_header("content-encoding", "identity"),
            "ProtocolError",
            "broke the protocol",
        ),
    ];
    for (answer, reason, told) in cases {
        let server = Upstream::start({
            let answer = answer.clone();
            move |seen| {
                assert_eq!(seen.header("accept-encoding"), Some("identity"));
                answer.clone()
            }
        })
        .await;
        let mut gateway = TestGateway::start(plan(&[("s", server.address)])).await;
        let failed = |o: &Observations| {
            let state = o.servers.get(&key("s")).map(|server| server.state.clone());
            matches!(state, Some(UpstreamState::Failed { .. }))
        };
        let observed = gateway.until(failed).await;
        let UpstreamState::Failed { reason: given, message } = &observed.servers[&key("s")].state else {
            panic!("it failed")
        };
        assert!(
            *given == reason && message.contains(told),
            "{answer:?}: {given}: {message}"
        );
    }
}

#[tokio::test]
async fn a_server_that_answers_what_it_does_not_know_with_a_page_is_shaken_hands_with() {
    let server = Upstream::start(|seen| match seen.method() {
        "server/discover" => Answer::text(200, "text/html", "<html>what?</html>"),
        _ => upstream::legacy(seen, &tools(&["echo"])),
    })
    .await;
    let gateway = TestGateway::ready(&[("s", server.address)]).await;
    assert_eq!(names(&gateway.legacy("tools/list", json!({})).await), ["s__echo"]);
}

#[tokio::test]
async fn all_pages_of_a_list_are_followed_even_by_an_empty_cursor() {
    let server = Upstream::start(|seen| {
        let page = |range: std::ops::Range<usize>| -> Value {
            let tool = |i| json!({"name": format!("t{i:02}"), "inputSchema": {"type": "object"}});
            range.map(tool).collect()
        };
        match (seen.method(), seen.body["params"]["cursor"].as_str()) {
            ("tools/list", None) => seen.result(json!({"tools": page(0..10), "nextCursor": ""})),
            ("tools/list", Some("")) => seen.result(json!({"tools": page(10..20), "nextCursor": "c2"})),
            ("tools/list", Some("c2")) => seen.result(json!({"tools": page(20..25)})),
            ("tools/list", Some(_)) => seen.error(200, -32602, "bad cursor"),
            _ => upstream::legacy(seen, &json!([])),
        }
    })
    .await;
    let mut gateway = TestGateway::ready(&[("s", server.address)]).await;
    let listed = names(&gateway.legacy("tools/list", json!({})).await);
    assert_eq!(listed.len(), 25);
    let observed = gateway.until(|_| true).await;
    let catalog = observed.servers[&key("s")].catalog.clone().unwrap();
    assert_eq!((catalog.tools, catalog.complete), (25, true));
    let last = gateway.legacy("tools/call", json!({"name": "s__t24"})).await;
    assert_eq!(last["result"]["content"][0]["text"], "t24");
}

#[tokio::test]
async fn of_lists_that_are_too_long_in_bytes_the_rest_is_left_out() {
    let server = Upstream::start(|seen| {
        let page = seen.body["params"]["cursor"]
            .as_str()
            .map_or(0, |cursor| cursor.parse().unwrap());
        match seen.method() {
            "tools/list" => {
                let (name, description) = (format!("t{page}"), "d".repeat(14 << 20));
                let tool = json!({"name": name, "description": description, "inputSchema": {"type": "object"}});
                seen.result(json!({"tools": [tool], "nextCursor": (page + 1).to_string()}))
            }
            _ => upstream::legacy(seen, &json!([])),
        }
    })
    .await;
    let mut input = plan(&[("s", server.address)]);
    input.servers[0].terms.timeouts.list = Some(Duration::from_secs(10));
    let mut gateway = TestGateway::start(input).await;
    let observed = gateway.until(|o| catalog(o).is_some()).await;
    let catalog = catalog(&observed).unwrap();
    assert_eq!((catalog.tools, catalog.complete), (4, false));
    assert_eq!(server.seen_of("tools/list").len(), 5);
}

#[tokio::test]
async fn a_list_that_never_ends_is_an_error_of_that_server_alone() {
    let endless = Upstream::start(|seen| match seen.method() {
        "tools/list" => seen.result(json!({"tools": [], "nextCursor": "again"})),
        _ => upstream::legacy(seen, &json!([])),
    })
    .await;
    let good = Upstream::start(|seen| upstream::modern(seen, &tools(&["echo"]))).await;
    let mut gateway = TestGateway::start(plan(&[("endless", endless.address), ("good", good.address)])).await;
    let observed = gateway
        .until(|o| o.servers.values().all(|s| s.state != UpstreamState::Connecting))
        .await;
    let state = &observed.servers[&key("endless")].state;
    assert!(
        matches!(state, UpstreamState::Failed { reason: "ProtocolError", message } if message.contains("same cursor")),
        "{state:?}"
    );
    assert_eq!(names(&gateway.legacy("tools/list", json!({})).await), ["good__echo"]);
}

fn ready(seen: &Observations) -> bool {
    seen.servers.values().any(|server| server.state == UpstreamState::Ready)
}

fn catalog(seen: &Observations) -> Option<CatalogStatus> {
    seen.servers.values().next()?.catalog.clone()
}

#[tokio::test]
async fn a_server_that_fails_at_one_of_its_lists_has_the_others() {
    for modern in [false, true] {
        let (broken, more) = (Arc::new(AtomicBool::new(true)), Arc::new(AtomicBool::new(false)));
        let (is_broken, has_more) = (Arc::clone(&broken), Arc::clone(&more));
        let server = Upstream::start(move |seen| {
            let mut shelf = Shelf::empty().with_tool("echo", json!({}));
            if has_more.load(Ordering::SeqCst) {
                shelf = shelf.with_tool("more", json!({}));
            }
            shelf.templates = vec![json!({"uriTemplate": "x://{id}", "name": "x"})];
            match seen.method() {
                "resources/templates/list" if is_broken.load(Ordering::SeqCst) => {
                    seen.error(200, -32603, "no database")
                }
                _ if modern => shelf.answer_modern(seen),
                _ => shelf.answer_legacy(seen),
            }
        })
        .await;
        let mut plan = plan(&[("s", server.address)]);
        let mut gateway = TestGateway::start(plan.clone()).await;
        let seen = gateway.until(ready).await;
        let first = catalog(&seen).unwrap();
        assert_eq!((first.tools, first.complete), (1, false));
        let [left_out] = &first.withheld[..] else {
            panic!("{first:?}")
        };
        assert_eq!(left_out.name, "resources/templates/list");
        assert!(left_out.reason.contains("no database"), "{}", left_out.reason);
        let called = gateway.modern("tools/call", json!({"name": "s__echo"})).await;
        assert_eq!(called["result"]["content"][0]["text"], "echo", "{called}");

        broken.store(false, Ordering::SeqCst);
        plan.servers[0].refresh.insert("now".into());
        gateway.input.send_replace(plan.clone().into());
        gateway
            .until(|seen| catalog(seen).is_some_and(|catalog| catalog.complete && catalog.templates == 1))
            .await;

        // What was there once is not given up for an error, and the rest is kept fresh.
        broken.store(true, Ordering::SeqCst);
        more.store(true, Ordering::SeqCst);
        plan.servers[0].refresh.insert("again".into());
        gateway.input.send_replace(plan.into());
        gateway
            .until(|seen| catalog(seen).is_some_and(|catalog| catalog.tools == 2))
            .await;
        let seen = gateway.until(ready).await;
        let now = catalog(&seen).unwrap();
        assert_eq!((now.templates, now.complete, now.withheld.len()), (1, false, 1));
        let templates = gateway.modern("resources/templates/list", json!({})).await;
        assert_eq!(templates["result"]["resourceTemplates"][0]["name"], "x", "{templates}");
        let called = gateway.modern("tools/call", json!({"name": "s__more"})).await;
        assert_eq!(called["result"]["content"][0]["text"], "more", "{called}");
    }
}

#[tokio::test]
async fn answers_as_event_streams_are_read_up_to_the_answer() {
    let server = Upstream::start(|seen| {
        let stream = |answer: &Answer| match answer {
            Answer::Respond { body, .. } => format!(
                ": comment\n\nid: p-0\ndata:\n\nevent: message\ndata: {{\"jsonrpc\":\"2.0\",\"method\":\"notifications/message\",\"params\":{{\"level\":\"info\",\"data\":1}}}}\n\ndata: {{\"jsonrpc\":\"2.0\",\"id\":99,\"method\":\"ping\"}}\n\nid: p-1\ndata: {body}\n\n"
            ),
            _ => String::new(),
        };
        match seen.method() {
            "initialize" | "tools/list" | "tools/call" => {
                let answer = upstream::legacy(seen, &tools(&["echo"]));
                let streamed = Answer::text(200, "text/event-stream", stream(&answer));
                if seen.method() == "initialize" { streamed.with_header("mcp-session-id", "s-1") } else { streamed }
            }
            "" => Answer::status(202),
            _ => upstream::legacy(seen, &json!([])),
        }
    })
    .await;
    let gateway = TestGateway::ready(&[("s", server.address)]).await;
    let answer = gateway.legacy("tools/call", json!({"name": "s__echo"})).await;
    assert_eq!(answer["result"]["content"][0]["text"], "echo");
    let pongs: Vec<_> = server.seen().into_iter().filter(|seen| seen.body["id"] == 99).collect();
    assert!(
        pongs.iter().all(|pong| pong.body["result"] == json!({})) && !pongs.is_empty(),
        "the server's ping was answered"
    );
}

#[tokio::test]
async fn a_lost_session_is_made_again_once_and_the_call_goes_through() {
    let generation = Arc::new(AtomicUsize::new(1));
    let current = Arc::clone(&generation);
    let server = Upstream::start(move |seen| {
        let session = format!("s-{}", current.load(Ordering::SeqCst));
        match (seen.method(), seen.header("mcp-session-id")) {
            ("server/discover", _) => seen.error(400, -32000, "no session"),
            ("initialize", _) => match upstream::legacy(seen, &json!([])) {
                Answer::Respond { status, body, .. } => {
                    Answer::text(status, "application/json", body).with_header("mcp-session-id", &session)
                }
                other => other,
            },
            (_, Some(sent)) if sent != session => Answer::text(404, "text/plain", "Session not found"),
            _ => upstream::legacy(seen, &tools(&["echo"])),
        }
    })
    .await;
    let gateway = TestGateway::ready(&[("s", server.address)]).await;
    let call = || gateway.legacy("tools/call", json!({"name": "s__echo"}));
    call().await;
    let before = server.seen_of("initialize").len();
    generation.store(2, Ordering::SeqCst);
    let (a, b, c) = tokio::join!(call(), call(), call());
    for answer in [a, b, c] {
        assert_eq!(answer["result"]["content"][0]["text"], "echo");
    }
    assert_eq!(
        server.seen_of("initialize").len(),
        before + 1,
        "one new handshake for all who waited"
    );
}

#[tokio::test]
async fn a_modern_client_that_goes_away_cancels_its_call_within_a_second() {
    let server = Upstream::start(|seen| match seen.method() {
        "tools/call" => Answer::Hang,
        _ => upstream::legacy(seen, &tools(&["echo"])),
    })
    .await;
    // Before an answer has begun, and while it comes as a stream.
    for delay in ["2s", "0s"] {
        let spec = json!({"streaming": {"delay": delay}});
        let gateway = TestGateway::ready_with(&[("s", server.address)], spec).await;
        let before = server.seen_of("notifications/cancelled").len();
        let call = json!({"name": "s__echo"});
        if delay == "0s" {
            let mut stream = gateway.modern_events(json!(1), "tools/call", call).await;
            assert_eq!(stream.content_type(), "text/event-stream");
            assert_eq!(stream.message_within(Duration::from_millis(200)).await, None);
        } else {
            let call = gateway.modern("tools/call", call);
            assert!(timeout(Duration::from_millis(200), call).await.is_err());
        }
        let gone = Instant::now();
        while server.seen_of("notifications/cancelled").len() == before {
            assert!(
                gone.elapsed() < Duration::from_secs(1),
                "the server was not told in time"
            );
            sleep(Duration::from_millis(10)).await;
        }
        let called = server.seen_of("tools/call").pop().unwrap().body["id"].clone();
        let cancelled = server.seen_of("notifications/cancelled").pop().unwrap();
        assert_eq!(cancelled.body["params"]["requestId"], called);
        let page = gateway.metrics_page();
        let counted = r#"{federation="default/fed",method="tools/call",outcome="cancelled"} 1"#;
        assert!(page.contains(counted), "{page}");
    }
}

#[tokio::test]
async fn a_server_that_breaks_the_protocol_fails_that_call_with_its_name() {
    let server = Upstream::start(|seen| match seen.body["params"]["name"].as_str() {
        Some("nonsense") => Answer::text(200, "application/json", "<html>"),
        Some("other_id") => Answer::json(200, json!({"jsonrpc": "2.0", "id": 123_456, "result": {}})),
        Some("empty") => Answer::status(200),
        Some("gone") => Answer::status(503),
        Some("array") => seen.result(json!([])),
        Some("cut") => Answer::text(
            200,
            "text/event-stream",
            "data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/x\"}\n\n",
        ),
        _ => upstream::modern(seen, &tools(&["nonsense", "other_id", "empty", "gone", "array", "cut"])),
    })
    .await;
    let gateway = TestGateway::ready(&[("s", server.address)]).await;
    for name in ["nonsense", "other_id", "empty", "gone", "array", "cut"] {
        let answer = gateway
            .modern("tools/call", json!({"name": format!("s__{name}")}))
            .await;
        assert_eq!(answer["error"]["code"], -32603, "{name}: {answer}");
        assert!(
            answer["error"]["message"].as_str().unwrap().contains("member \"s\""),
            "{answer}"
        );
    }
}

#[tokio::test]
async fn servers_join_and_leave_while_clients_are_served() {
    let first = Upstream::start(|seen| upstream::legacy(seen, &tools(&["echo"]))).await;
    let second = Upstream::start(|seen| upstream::modern(seen, &tools(&["echo"]))).await;
    let mut gateway = TestGateway::ready(&[("a", first.address)]).await;
    gateway
        .input
        .send(Arc::new(plan(&[("a", first.address), ("b", second.address)])))
        .unwrap();
    gateway
        .until(|o| {
            o.servers
                .get(&key("b"))
                .is_some_and(|s| s.state == UpstreamState::Ready)
        })
        .await;
    assert_eq!(
        names(&gateway.legacy("tools/list", json!({})).await),
        ["a__echo", "b__echo"]
    );
    gateway.input.send(Arc::new(plan(&[("b", second.address)]))).unwrap();
    gateway.until(|o| !o.servers.contains_key(&key("a"))).await;
    assert_eq!(names(&gateway.legacy("tools/list", json!({})).await), ["b__echo"]);
    assert!(
        !gateway.metrics_page().contains("default/a"),
        "series of what is gone are removed"
    );
    assert_eq!(
        first.seen_of("initialize").len(),
        1,
        "the server that stayed out of the change was not touched"
    );
}

#[tokio::test]
async fn a_server_that_comes_back_is_found_by_itself() {
    let address = refusing_address().await;
    let mut gateway = TestGateway::start(plan(&[("s", address)])).await;
    gateway
        .until(|o| matches!(o.servers[&key("s")].state, UpstreamState::Failed { .. }))
        .await;
    let refused = gateway.legacy("tools/call", json!({"name": "s__echo"})).await;
    assert_eq!(refused["error"]["code"], -32602, "not listed yet");
    let server = Upstream::start_at(address, |seen| upstream::legacy(seen, &tools(&["echo"]))).await;
    gateway
        .until(|o| o.servers[&key("s")].state == UpstreamState::Ready)
        .await;
    assert_eq!(names(&gateway.legacy("tools/list", json!({})).await), ["s__echo"]);
    drop(server);
}
