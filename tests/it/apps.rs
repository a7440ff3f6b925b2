//! MCP Apps: who declares them, whose pages they are, and that nothing of them is changed.

use http::{StatusCode, Uri};
use mcpfleet::mcp::Revision;
use serde_json::{Value, json};

use crate::support::gateway::TestGateway;
use crate::support::http as client;
use crate::support::legacy_client::LegacyClient;
use crate::support::peers::Peers;
use crate::support::remote::{Remote, RunningRemote};
use crate::support::shelf::{PAGE, Shelf, UI};
use crate::support::upstream::Upstream;

const LEGACY: Revision = Revision::LATEST_LEGACY;
const BOTH: [Revision; 2] = [Revision::LATEST_LEGACY, Revision::LATEST];

/// The capabilities of a client that shows apps.
fn showing() -> Value {
    json!({"extensions": {UI: {"mimeTypes": [PAGE]}}})
}

/// What is declared to a client of this revision.
async fn declared(gateway: &TestGateway, revision: Revision) -> Value {
    if revision == Revision::LATEST {
        let answer = gateway.modern("server/discover", json!({})).await;
        return answer["result"]["capabilities"]["extensions"].clone();
    }
    let params = json!({
        "protocolVersion": revision.as_str(), "capabilities": {}, "clientInfo": {"name": "test", "version": "1"},
    });
    let handshake = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params});
    let reply = client::exchange(&gateway.client, client::legacy(&gateway.url(), &handshake, [])).await;
    reply.json()["result"]["capabilities"]["extensions"].clone()
}

fn member(name: &str, more: Value) -> Value {
    let mut member = json!({"name": name, "server": {"name": name}});
    for (field, value) in more.as_object().unwrap() {
        member[field] = value.clone();
    }
    member
}

fn names(answer: &Value) -> Vec<&str> {
    let tools = answer["result"]["tools"].as_array().unwrap();
    tools.iter().map(|tool| tool["name"].as_str().unwrap()).collect()
}

/// A request from a client with these capabilities, of either era.
async fn ask_declaring(gateway: &TestGateway, revision: Revision, capabilities: Value, tool: &str) -> Value {
    let messages = if revision == Revision::LATEST {
        gateway
            .modern_declaring(capabilities, "tools/call", json!({"name": tool}))
            .await
    } else {
        let client = LegacyClient::open(gateway, revision, capabilities).await;
        client.call_to_end(tool).await
    };
    messages.into_iter().next_back().unwrap()
}

#[tokio::test]
async fn apps_are_declared_where_a_member_has_some_and_may_have_them() {
    let plain = Shelf::empty().with_tool("plain", json!({})).legacy().await;
    let boards = Shelf::empty().with_app("show", "ui://b/v").modern().await;
    let servers = [("boards", boards.address), ("plain", plain.address)];
    let gateway = TestGateway::ready(&servers).await;
    for revision in BOTH {
        let expected = json!({UI: {"mimeTypes": [PAGE]}});
        assert_eq!(declared(&gateway, revision).await, expected, "{revision:?}");
    }
    let spec = json!({"apps": {"mimeTypes": ["text/html", "x/y"]}});
    let gateway = TestGateway::ready_with(&servers, spec).await;
    for revision in BOTH {
        let expected = json!({UI: {"mimeTypes": ["text/html", "x/y"]}});
        assert_eq!(declared(&gateway, revision).await, expected);
    }
    let members = json!([
        member("boards", json!({"excludeApps": true})),
        member("plain", json!({}))
    ]);
    for (servers, spec) in [(&servers[..], json!({"members": members})), (&servers[1..], json!({}))] {
        let gateway = TestGateway::ready_with(servers, spec).await;
        for revision in BOTH {
            assert_eq!(declared(&gateway, revision).await, Value::Null, "{revision:?}");
        }
    }
}

#[tokio::test]
async fn what_the_object_names_is_declared_as_it_is() {
    let plain = Shelf::empty().with_app("show", "ui://b/v").legacy().await;
    let spec = json!({"extensions": [
        {"id": "com.acme/thing"},
        {"id": "com.acme/other", "settings": {"levels": [1, 2], "deep": {"x": true}}},
        {"id": "io.modelcontextprotocol/tasks"},
    ]});
    let gateway = TestGateway::ready_with(&[("plain", plain.address)], spec).await;
    for revision in BOTH {
        let mut expected = json!({
            "com.acme/thing": {}, "com.acme/other": {"levels": [1, 2], "deep": {"x": true}},
            UI: {"mimeTypes": [PAGE]},
        });
        if revision == Revision::LATEST {
            expected["io.modelcontextprotocol/tasks"] = json!({});
        }
        assert_eq!(declared(&gateway, revision).await, expected);
    }
}

#[tokio::test]
async fn each_modern_call_carries_what_its_own_client_declared() {
    let server = Shelf::empty().with_app("show", "ui://b/v").modern().await;
    let gateway = TestGateway::ready(&[("b", server.address)]).await;
    let odd = json!({"extensions": {UI: {"mimeTypes": ["x/y", PAGE], "future": [1]}}});
    let turns = [showing(), json!({}), odd, json!({}), showing()];
    for capabilities in turns.clone() {
        ask_declaring(&gateway, Revision::LATEST, capabilities, "b__show").await;
    }
    let heard: Vec<Value> = server
        .seen_of("tools/call")
        .into_iter()
        .map(|seen| seen.body["params"]["_meta"]["io.modelcontextprotocol/clientCapabilities"].clone())
        .collect();
    assert_eq!(heard, turns);
}

#[tokio::test]
async fn tools_for_pages_alone_are_listed_to_each_client_by_what_it_declares_with_that_very_request() {
    let server = Shelf::empty()
        .with_app("show", "ui://b/v")
        .with_tool("move", json!({"_meta": {"ui": {"visibility": ["app"]}}}))
        .legacy()
        .await;
    let spec = json!({"apps": {"hideAppOnly": "WithoutApps"}});
    let gateway = TestGateway::ready_with(&[("b", server.address)], spec).await;
    let (all, some) = (["b__move", "b__show"], ["b__show"]);
    let with = LegacyClient::open(&gateway, LEGACY, showing()).await;
    let without = LegacyClient::open(&gateway, LEGACY, json!({})).await;
    for _ in 0..2 {
        for (capabilities, session, expected) in [(showing(), &with, &all[..]), (json!({}), &without, &some)] {
            let listed = gateway.modern_declaring(capabilities, "tools/list", json!({})).await;
            assert_eq!(names(&listed[0]), expected);
            // Whoever keeps it for others would give it to clients of the other kind.
            assert_eq!(listed[0]["result"]["cacheScope"], "private");
            let listed = session.request_to_end("tools/list", json!({})).await;
            assert_eq!(names(&listed[0]), expected);
        }
    }
    let others = gateway.modern("resources/list", json!({})).await;
    assert_eq!(others["result"]["cacheScope"], "public");
    let called = ask_declaring(&gateway, Revision::LATEST, json!({}), "b__move").await;
    assert!(called["result"].is_object(), "hidden, and callable: {called}");
}

#[tokio::test]
async fn each_legacy_session_has_a_connection_that_declares_what_it_did() {
    let shelf = Shelf::empty().with_app("show", "ui://b/v");
    let numbers = std::sync::atomic::AtomicUsize::new(0);
    let server = Upstream::start(move |seen| match seen.method() {
        "initialize" => {
            let number = numbers.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            shelf
                .answer_legacy(seen)
                .with_header("mcp-session-id", &format!("s-{number}"))
        }
        _ => shelf.answer_legacy(seen),
    })
    .await;
    let gateway = TestGateway::ready(&[("b", server.address)]).await;
    for capabilities in [showing(), json!({})] {
        ask_declaring(&gateway, LEGACY, capabilities, "b__show").await;
    }
    let opened = |call: usize| {
        let session = server.seen_of("tools/call")[call]
            .header("mcp-session-id")
            .unwrap()
            .to_owned();
        let number: usize = session.strip_prefix("s-").unwrap().parse().unwrap();
        server.seen_of("initialize")[number].body["params"]["capabilities"]["extensions"][UI].clone()
    };
    assert_eq!(opened(0), json!({"mimeTypes": [PAGE]}));
    assert_eq!(opened(1), Value::Null);
}

#[tokio::test]
async fn nothing_that_is_said_of_apps_is_changed() {
    let tool_meta = json!({"ui": {"resourceUri": "ui://b/v", "visibility": ["app"], "odd": 1.0}, "vendor/k": [1]});
    let entry_meta = json!({"ui": {}});
    let content_meta = json!({"ui": {
        "csp": {"connectDomains": ["https://a.example"], "frameDomains": []}, "permissions": {"camera": {}},
        "domain": "x.example", "prefersBorder": false,
    }});
    let mut shelf = Shelf::empty()
        .with_tool("show", json!({"_meta": tool_meta}))
        .with_tool("flat", json!({"_meta": {"ui/resourceUri": "ui://b/v"}}));
    shelf.resources = vec![json!({"uri": "ui://b/v", "name": "v", "mimeType": PAGE, "_meta": entry_meta})];
    let html = "<!doctype html>\r\n<p>é</p>\n";
    shelf.contents.insert(
        "ui://b/v".into(),
        json!({"mimeType": PAGE, "text": html, "_meta": content_meta}),
    );
    shelf
        .contents
        .insert("ui://b/bare".into(), json!({"mimeType": PAGE, "blob": "AAEC/w=="}));
    let server = shelf.legacy().await;
    let gateway = TestGateway::ready(&[("b", server.address)]).await;
    for revision in BOTH {
        let tools = gateway.ask(revision, "tools/list", json!({})).await;
        assert_eq!(names(&tools), ["b__flat", "b__show"]);
        assert_eq!(
            tools["result"]["tools"][0]["_meta"],
            json!({"ui/resourceUri": "ui://b/v"})
        );
        assert_eq!(tools["result"]["tools"][1]["_meta"], tool_meta);
        let resources = gateway.ask(revision, "resources/list", json!({})).await;
        let entry = &resources["result"]["resources"][0];
        assert_eq!((&entry["uri"], &entry["mimeType"]), (&json!("ui://b/v"), &json!(PAGE)));
        assert_eq!(entry["_meta"], entry_meta);
        let read = |uri| gateway.ask(revision, "resources/read", json!({"uri": uri}));
        let page = read("ui://b/v").await;
        let expected = json!([{"uri": "ui://b/v", "mimeType": PAGE, "text": html, "_meta": content_meta}]);
        assert_eq!(page["result"]["contents"], expected);
        let bare = read("ui://b/bare").await;
        let expected = json!([{"uri": "ui://b/bare", "mimeType": PAGE, "blob": "AAEC/w=="}]);
        assert_eq!(bare["result"]["contents"], expected);
    }
}

/// The URIs that a server was asked for.
fn asked(server: &Upstream) -> Vec<Value> {
    let reads = server.seen_of("resources/read").into_iter();
    reads.map(|seen| seen.body["params"]["uri"].clone()).collect()
}

#[tokio::test]
async fn a_page_is_read_from_the_server_whose_tool_it_shows_and_from_no_other() {
    let a = Shelf::empty()
        .with("ui://b/v", "of a")
        .with("ui://b/lost", "of a")
        .legacy()
        .await;
    let b = Shelf::empty()
        .with_app("show", "ui://b/v")
        .with_app("lose", "ui://b/lost")
        .with("ui://b/v", "of b")
        .legacy()
        .await;
    let gateway = TestGateway::ready(&[("a", a.address), ("b", b.address)]).await;
    for revision in BOTH {
        let read = |uri| gateway.ask(revision, "resources/read", json!({"uri": uri}));
        assert_eq!(read("ui://b/v").await["result"]["contents"][0]["text"], "of b");
        let lost = read("ui://b/lost").await;
        assert_eq!(lost["error"]["code"], -32602, "{lost}");
    }
    assert_eq!(asked(&a), [Value::Null; 0]);
}

#[tokio::test]
async fn a_page_that_no_tool_names_is_read_from_whoever_has_it() {
    let a = Shelf::empty().legacy().await;
    let b = Shelf::empty().with("ui://b/v", "of b").modern().await;
    let gateway = TestGateway::ready(&[("a", a.address), ("b", b.address)]).await;
    for revision in BOTH {
        let answer = gateway
            .ask(revision, "resources/read", json!({"uri": "ui://b/v"}))
            .await;
        assert_eq!(answer["result"]["contents"][0]["text"], "of b");
    }
}

#[tokio::test]
async fn where_apps_are_excluded_they_are_on_no_way() {
    let mut shelf = Shelf::empty()
        .with_app("show", "ui://b/v")
        .with_tool("flat", json!({"_meta": {"ui/resourceUri": "ui://b/v"}}))
        .with_tool("said", json!({"_meta": {"ui": {"visibility": ["model"]}}}))
        .with_tool("plain", json!({}))
        .with("note://n", "a note")
        .with("ui://b/v", "a page")
        .with("ui:/odd", "a page");
    shelf.resources = vec![json!({"uri": "ui://b/v", "name": "v"})];
    shelf.templates = vec![
        json!({"uriTemplate": "ui://{all}", "name": "a"}),
        json!({"uriTemplate": "{x}", "name": "b"}),
    ];
    let server = shelf.legacy().await;
    let spec = json!({"members": [member("boards", json!({"excludeApps": true}))]});
    let gateway = TestGateway::ready_with(&[("boards", server.address)], spec).await;
    for revision in BOTH {
        let tools = gateway.ask(revision, "tools/list", json!({})).await;
        assert_eq!(names(&tools), ["boards__plain", "boards__said"]);
        let resources = gateway.ask(revision, "resources/list", json!({})).await;
        assert_eq!(resources["result"]["resources"], json!([]));
        for tool in ["boards__show", "boards__flat", "show"] {
            let answer = ask_declaring(&gateway, revision, showing(), tool).await;
            assert_eq!(answer["error"]["code"], -32602, "{answer}");
        }
        for uri in ["ui://b/v", "ui:/odd", "UI://b/v", "ui:x"] {
            let answer = gateway.ask(revision, "resources/read", json!({"uri": uri})).await;
            assert_eq!(answer["error"]["data"], json!({"uri": uri}), "{answer}");
        }
        let note = gateway
            .ask(revision, "resources/read", json!({"uri": "note://n"}))
            .await;
        assert_eq!(note["result"]["contents"][0]["text"], "a note");
    }
    assert!(server.seen_of("tools/call").is_empty());
    assert_eq!(asked(&server), ["note://n", "note://n"]);
}

#[tokio::test]
async fn a_client_without_apps_gets_the_whole_result_of_a_tool_that_has_one() {
    let shelf = Shelf::empty().with_app("show", "ui://b/v");
    let result = json!({
        "content": [{"type": "text", "text": "3 boards"}], "structuredContent": {"boards": 3},
        "_meta": {"vendor/only-for-the-page": true},
    });
    let answered = result.clone();
    let server = Upstream::start(move |seen| match seen.method() {
        "tools/call" => seen.result(answered.clone()),
        _ => shelf.answer_legacy(seen),
    })
    .await;
    let gateway = TestGateway::ready(&[("b", server.address)]).await;
    for revision in BOTH {
        let answer = ask_declaring(&gateway, revision, json!({}), "b__show").await;
        assert_eq!(answer["result"]["content"], result["content"]);
        assert_eq!(answer["result"]["structuredContent"], result["structuredContent"]);
        assert_eq!(answer["result"]["_meta"]["vendor/only-for-the-page"], true);
    }
}

#[tokio::test]
async fn what_pages_say_to_their_host_is_no_method_here() {
    let server = Shelf::empty().with_app("show", "ui://b/v").legacy().await;
    let gateway = TestGateway::ready(&[("b", server.address)]).await;
    for method in ["ui/initialize", "ui/open-link", "ui/message"] {
        let answer = gateway.legacy(method, json!({})).await;
        assert_eq!(answer["error"]["code"], -32601, "{answer}");
        let request = gateway.modern_request(json!(1), method, json!({}), showing());
        let reply = gateway.send(request).await;
        assert_eq!(reply.status, StatusCode::NOT_FOUND.as_u16());
        assert_eq!(reply.json()["error"]["code"], -32601);
    }
}

#[tokio::test]
async fn pages_call_tools_by_the_names_that_they_know() {
    let a = Shelf::empty()
        .with_app("show", "ui://a/v")
        .with_tool("refresh", json!({}))
        .with_tool("both", json!({}))
        .with_tool("hidden", json!({}))
        .legacy()
        .await;
    let b = Shelf::empty()
        .with_tool("both", json!({}))
        .with_tool("hidden", json!({}))
        .modern()
        .await;
    let members = json!([
        member(
            "a",
            json!({"tools": {"overrides": [{"name": "refresh", "as": "renewed"}]}})
        ),
        member("b", json!({"tools": {"deny": ["hidden"]}})),
    ]);
    let servers = [("a", a.address), ("b", b.address)];
    let gateway = TestGateway::ready_with(&servers, json!({"members": members})).await;
    for revision in BOTH {
        for name in ["show", "refresh", "hidden"] {
            let answer = ask_declaring(&gateway, revision, showing(), name).await;
            assert_eq!(answer["result"]["content"][0]["text"], name, "{answer}");
        }
        let ambiguous = ask_declaring(&gateway, revision, showing(), "both").await;
        assert_eq!(ambiguous["error"]["code"], -32602, "{ambiguous}");
        assert_eq!(
            ambiguous["error"]["data"],
            json!({"name": "both", "candidates": ["a__both", "b__both"]})
        );
        let text = ambiguous["error"]["message"].as_str().unwrap();
        assert!(
            text.contains("ambiguous") && text.contains("a__both or b__both"),
            "{text}"
        );
        let unknown = ask_declaring(&gateway, revision, showing(), "nothing").await;
        assert_eq!(unknown["error"]["data"], json!({"name": "nothing"}));
        // Without apps, nobody's page is speaking.
        for name in ["show", "refresh", "both"] {
            let answer = ask_declaring(&gateway, revision, json!({}), name).await;
            assert_eq!(answer["error"]["data"], json!({"name": name}), "{answer}");
        }
    }
    assert!(b.seen_of("tools/call").is_empty());
}

#[tokio::test]
async fn a_client_that_says_too_little_shows_apps_where_that_is_enough() {
    let a = Shelf::empty().with_app("show", "ui://a/v").legacy().await;
    let vague = json!({"extensions": {UI: {}}});
    for lenient in [true, false] {
        let spec = json!({"apps": {"lenientCapability": lenient}});
        let gateway = TestGateway::ready_with(&[("a", a.address)], spec).await;
        for revision in BOTH {
            let answer = ask_declaring(&gateway, revision, vague.clone(), "show").await;
            assert_eq!(answer.get("result").is_some(), lenient, "{answer}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_page_of_a_real_server_reaches_its_host_beside_others() {
    let Some(peers) = Peers::installed() else { return };
    let (real, other) = tokio::join!(Remote::Apps.start(&peers), Remote::Everything.start(&peers));
    let address = |running: &RunningRemote| {
        let url: Uri = running.url.parse().unwrap();
        url.authority().unwrap().as_str().parse().unwrap()
    };
    let servers = [("clock", address(&real)), ("everything", address(&other))];
    let mut gateway = TestGateway::ready(&servers).await;
    let page = peers
        .npm_package("server-basic-vanillajs")
        .with_file_name("mcp-app.html");
    let html = std::fs::read_to_string(page).unwrap();
    let uri = "ui://get-time/mcp-app.html";
    for revision in BOTH {
        assert_eq!(declared(&gateway, revision).await[UI], json!({"mimeTypes": [PAGE]}));
        let tools = gateway.ask(revision, "tools/list", json!({})).await;
        let tools = tools["result"]["tools"].as_array().unwrap();
        assert!(tools.len() > 5, "there are others");
        let tool = tools.iter().find(|tool| tool["name"] == "clock__get-time").unwrap();
        assert_eq!(tool["_meta"]["ui"]["resourceUri"], uri, "{tool}");
        let read = gateway.ask(revision, "resources/read", json!({"uri": uri})).await;
        let content = &read["result"]["contents"][0];
        assert_eq!((&content["uri"], &content["mimeType"]), (&json!(uri), &json!(PAGE)));
        assert!(content["text"] == html, "the page is another");
        for name in ["clock__get-time", "get-time"] {
            let answer = ask_declaring(&gateway, revision, showing(), name).await;
            let text = answer["result"]["content"][0]["text"].as_str();
            assert!(text.is_some_and(|text| text.contains("20")), "{answer}");
        }
    }
    gateway.turn_to("default/fed/servers/clock");
    for revision in BOTH {
        assert_eq!(
            names(&gateway.ask(revision, "tools/list", json!({})).await),
            ["get-time"]
        );
    }
    let members = json!([
        member("clock", json!({"excludeApps": true})),
        member("everything", json!({}))
    ]);
    let gateway = TestGateway::ready_with(&servers, json!({"members": members})).await;
    let tools = gateway.modern("tools/list", json!({})).await;
    let names = names(&tools);
    assert!(!names.is_empty(), "{tools}");
    assert!(names.iter().all(|name| name.starts_with("everything__")), "{names:?}");
    let answer = gateway.modern("resources/read", json!({"uri": uri})).await;
    assert_eq!(answer["error"]["data"]["uri"], uri, "{answer}");
}
