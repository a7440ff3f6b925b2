//! Tools that are not listed: found by search, run by name, and listed to those who want to see everything.

use std::net::SocketAddr;
use std::time::Duration;

use mcpfleet::fleet::UpstreamState;
use mcpfleet::mcp::Revision;
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::support::gateway::{TestGateway, plan_with};
use crate::support::http;
use crate::support::upstream::{self, Answer, Seen, Upstream};

const LATEST: Revision = Revision::LATEST_LEGACY;
const ERAS: [Revision; 2] = [Revision::LATEST_LEGACY, Revision::LATEST];
const SHOW_ALL: &str = "x-mcp-show-all";

fn tool(name: &str) -> Value {
    json!({"name": name, "description": format!("The tool {name}."), "inputSchema": {"type": "object"}})
}

async fn server(names: &'static [&'static str]) -> Upstream {
    let tools = move || Value::from_iter(names.iter().map(|name| tool(name)));
    Upstream::start(move |seen| upstream::modern(seen, &tools())).await
}

/// A federation of these servers, of each of which its member says this.
fn members(servers: &[(&str, SocketAddr, Value)], mut spec: Value) -> mcpfleet::fleet::PlanInput {
    let addresses: Vec<(&str, SocketAddr)> = servers.iter().map(|(name, address, _)| (*name, *address)).collect();
    let members = servers.iter().map(|(name, _, said)| {
        let mut member = json!({"name": name, "server": {"name": name}});
        for (key, value) in said.as_object().unwrap() {
            member[key] = value.clone();
        }
        member
    });
    spec["members"] = members.collect();
    plan_with(&addresses, spec)
}

async fn ready(servers: &[(&str, SocketAddr, Value)], spec: Value) -> TestGateway {
    let count = servers.len();
    let mut gateway = TestGateway::start(members(servers, spec)).await;
    gateway
        .until(|o| o.servers.len() == count && o.servers.values().all(|s| s.state == UpstreamState::Ready))
        .await;
    gateway
}

async fn call(gateway: &TestGateway, revision: Revision, name: &str, arguments: Value) -> Value {
    let params = json!({"name": name, "arguments": arguments});
    gateway.ask(revision, "tools/call", params).await
}

/// The rows that a search gives.
async fn search(gateway: &TestGateway, arguments: Value) -> Vec<Value> {
    let answer = call(gateway, LATEST, "tool_search", arguments).await;
    let text = text(&answer);
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error} in {text}"))
}

fn text(answer: &Value) -> &str {
    answer["result"]["content"][0]["text"]
        .as_str()
        .unwrap_or_else(|| panic!("{answer}"))
}

fn names(rows: &[Value]) -> Vec<&str> {
    rows.iter().map(|row| row["name"].as_str().unwrap()).collect()
}

/// The tools that are listed to who sends this header and query, in the session if there is one.
async fn listed(gateway: &TestGateway, era: &[(&str, &str)], header: Option<&str>, query: &str) -> Vec<String> {
    let mut params = json!({});
    if era.iter().any(|(name, _)| *name == "mcp-method") {
        params = json!({"_meta": {
            "io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {},
        }});
    }
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": params});
    let header = header.map(|value| (SHOW_ALL, value));
    let request = http::legacy(
        &format!("{}{query}", gateway.url()),
        &body,
        era.iter().copied().chain(header),
    );
    let answer = gateway.send(request).await.json();
    let tools = answer["result"]["tools"]
        .as_array()
        .unwrap_or_else(|| panic!("{answer}"));
    tools
        .iter()
        .map(|tool| tool["name"].as_str().unwrap().to_owned())
        .collect()
}

const MODERN: [(&str, &str); 2] = [("mcp-protocol-version", "2026-07-28"), ("mcp-method", "tools/list")];
const LEGACY: [(&str, &str); 1] = [("mcp-protocol-version", "2025-11-25")];
const SEEN: [&str; 2] = ["execute_tool", "tool_search"];
const ALL: [&str; 2] = ["pods__logs", "pods__stop"];

#[tokio::test]
async fn who_wants_to_see_everything_says_so_with_each_request_where_there_are_no_sessions() {
    let pods = server(&["logs", "stop"]).await;
    let hidden = [("pods", pods.address, json!({"visibility": "Discoverable"}))];
    let gateway = ready(&hidden, json!({"sessions": {"enabled": false}})).await;
    for era in [&MODERN[..], &LEGACY] {
        for (header, query, expected) in [
            (None, "", SEEN),
            (Some("true"), "", ALL),
            (Some("TRUE"), "", ALL),
            (None, "?show_all=true", ALL),
            (Some("false"), "?show_all=true", SEEN),
        ] {
            let seen = listed(&gateway, era, header, query).await;
            assert_eq!(seen, expected, "{era:?} {header:?} {query}");
        }
    }
    let kept = ready(&hidden, json!({"discovery": {"showAllAllowed": false}})).await;
    assert_eq!(listed(&kept, &MODERN, Some("true"), "").await, SEEN);
}

#[tokio::test]
async fn a_session_sees_what_it_wanted_to_see_when_it_was_opened() {
    let pods = server(&["logs", "stop"]).await;
    let gateway = ready(
        &[("pods", pods.address, json!({"visibility": "Discoverable"}))],
        json!({}),
    )
    .await;
    for (opened, expected) in [(&[][..], SEEN), (&[(SHOW_ALL, "true")], ALL)] {
        let session = http::open_session(&gateway.client, &gateway.url(), LATEST, opened)
            .await
            .unwrap();
        let era = [LEGACY[0], ("mcp-session-id", session.as_str())];
        for header in [None, Some("true"), Some("false")] {
            assert_eq!(
                listed(&gateway, &era, header, "").await,
                expected,
                "{opened:?} {header:?}"
            );
        }
    }
    // What it hears of goes by the same.
    let session = http::open_session(&gateway.client, &gateway.url(), LATEST, &[(SHOW_ALL, "true")]).await;
    let mut all = gateway.get_events(&session.unwrap(), LATEST, None).await;
    let mut some = gateway
        .get_events(&gateway.open_session(LATEST).await, LATEST, None)
        .await;
    let more = server(&["logs", "start", "stop"]).await;
    let hidden = json!({"visibility": "Discoverable"});
    gateway
        .input
        .send_replace(members(&[("pods", more.address, hidden)], json!({})).into());
    assert_eq!(all.next().await["method"], "notifications/tools/list_changed");
    assert_eq!(some.message_within(Duration::from_millis(400)).await, None);
}

#[tokio::test]
async fn the_two_tools_are_listed_and_told_of_while_there_is_something_to_find() {
    let pods = server(&["logs"]).await;
    let spec = json!({"identity": {"instructions": "Pick a dock."}});
    let gateway = ready(&[("pods", pods.address, json!({}))], spec.clone()).await;
    let discover = async || gateway.modern("server/discover", json!({})).await["result"]["instructions"].clone();
    assert_eq!(listed(&gateway, &MODERN, None, "").await, ["pods__logs"]);
    assert_eq!(discover().await, "Pick a dock.");
    let ghost = call(&gateway, Revision::LATEST, "ghost", json!({})).await;
    assert_eq!(ghost["error"]["code"], -32602);
    assert!(
        !ghost["error"]["message"].as_str().unwrap().contains("tool_search"),
        "{ghost}"
    );

    let mut hears = gateway
        .get_events(&gateway.open_session(LATEST).await, LATEST, None)
        .await;
    let hidden = json!({"visibility": "Discoverable"});
    gateway
        .input
        .send_replace(members(&[("pods", pods.address, hidden)], spec).into());
    assert_eq!(hears.next().await["method"], "notifications/tools/list_changed");
    assert_eq!(listed(&gateway, &MODERN, None, "").await, SEEN);
    let told = discover().await;
    let hint = told.as_str().unwrap().strip_prefix("Pick a dock.\n\n").unwrap();
    assert!(hint.contains("tool_search") && hint.contains("execute_tool"), "{hint}");
    for revision in ERAS {
        let ghost = call(&gateway, revision, "ghost", json!({})).await;
        let message = ghost["error"]["message"].as_str().unwrap();
        for word in ["ghost", "tool_search", "execute_tool"] {
            assert!(message.contains(word), "{message}");
        }
        assert_eq!(ghost["error"]["data"]["name"], "ghost");
        let called = call(&gateway, revision, "pods__logs", json!({})).await;
        assert_eq!(text(&called), "logs", "what is not listed can be called");
    }
}

#[tokio::test]
async fn a_search_is_answered_in_one_text_also_where_it_is_not_listed() {
    let pods = server(&["logs", "stop"]).await;
    let gateway = ready(&[("pods", pods.address, json!({"keywords": ["ops"]}))], json!({})).await;
    for revision in ERAS {
        let answer = call(&gateway, revision, "tool_search", json!({"query": "LOGS"})).await;
        let rows: Value = serde_json::from_str(text(&answer)).unwrap();
        assert_eq!(
            rows,
            json!([{
                "name": "pods__logs", "description": "The tool logs.", "score": 0.92,
                "inputSchema": {"type": "object"}, "keywords": ["pods", "remote", "ops"],
            }])
        );
        assert_eq!(answer["result"]["isError"], Value::Null);
        let nothing = call(&gateway, revision, "tool_search", json!({"query": "zzz"})).await;
        assert!(serde_json::from_str::<Value>(text(&nothing)).is_err());
        assert_eq!(nothing["result"]["isError"], Value::Null);
        for wrong in [json!({"query": 7}), json!({"max_results": "many"})] {
            let answer = call(&gateway, revision, "tool_search", wrong.clone()).await;
            assert_eq!(answer["result"]["isError"], true, "{wrong} {answer}");
        }
    }
    let both = json!(["pods__logs", "pods__stop"]);
    for all in [
        json!({}),
        json!({"query": null}),
        json!({"query": "  ", "max_results": null}),
    ] {
        assert_eq!(json!(names(&search(&gateway, all).await)), both);
    }
    assert!(pods.seen_of("tools/call").is_empty());
}

#[tokio::test]
async fn as_many_are_found_as_are_asked_for_within_bounds() {
    let names: &[&str] = &["x1", "x2", "x3", "x4", "x5", "x6", "x7", "x8", "x9", "xa", "xb", "xc"];
    let many = server(names).await;
    let servers = [("m", many.address, json!({"prefix": ""}))];
    let gateway = ready(&servers, json!({})).await;
    for (asked, expected) in [
        (json!({"query": "x"}), 5),
        (json!({"query": "x", "max_results": 0}), 5),
        (json!({"query": "x", "max_results": -4}), 5),
        (json!({"query": "x", "max_results": 7.0}), 7),
        (json!({"query": "x", "max_results": 1000}), 12),
    ] {
        assert_eq!(search(&gateway, asked.clone()).await.len(), expected, "{asked}");
    }
    let bounded = ready(
        &servers,
        json!({"discovery": {"defaultMaxResults": 2, "maxResultsCap": 3}}),
    )
    .await;
    assert_eq!(search(&bounded, json!({})).await.len(), 2);
    assert_eq!(search(&bounded, json!({"max_results": 9})).await.len(), 3);
}

#[tokio::test]
async fn a_tool_is_run_by_name_as_if_it_had_been_called() {
    let region = json!({"type": "object", "properties": {"region": {"type": "string", "x-mcp-header": "Region"}}});
    let pods = Upstream::start(move |seen| {
        let tools = json!([{"name": "logs", "inputSchema": region}]);
        upstream::modern(seen, &tools)
    })
    .await;
    let gateway = ready(
        &[("pods", pods.address, json!({"visibility": "Discoverable"}))],
        json!({}),
    )
    .await;
    for revision in ERAS {
        for (arguments, expected) in [
            (
                json!({"parameters": {"tail": 5, "region": "eu"}}),
                json!({"tail": 5, "region": "eu"}),
            ),
            (
                json!({"parameters": {"tail": 1}, "arguments": {"tail": 2}}),
                json!({"tail": 1}),
            ),
            (
                json!({"parameters": null, "arguments": {"tail": 2}}),
                json!({"tail": 2}),
            ),
            (json!({}), json!({})),
        ] {
            let mut arguments = arguments;
            arguments["name"] = json!("pods__logs");
            let answer = call(&gateway, revision, "execute_tool", arguments.clone()).await;
            assert_eq!(text(&answer), "logs", "{answer}");
            let seen = pods.seen_of("tools/call").pop().unwrap();
            assert_eq!(seen.body["params"]["name"], "logs");
            assert_eq!(seen.body["params"]["arguments"], expected, "{arguments}");
            assert_eq!(seen.header("mcp-name"), Some("logs"));
            assert_eq!(seen.header("mcp-param-region"), expected["region"].as_str());
        }
    }
}

#[tokio::test]
async fn what_cannot_be_run_is_told_to_the_model() {
    let tools = || {
        json!([
            tool("logs"), {"name": "page", "inputSchema": {"type": "object"}, "_meta": {"ui": {"visibility": ["app"]}}},
        ])
    };
    let pods = Upstream::start(move |seen| upstream::modern(seen, &tools())).await;
    let gateway = ready(&[("pods", pods.address, json!({}))], json!({})).await;
    for revision in ERAS {
        for (arguments, words) in [
            (json!({"parameters": {}}), ["name", "required"]),
            (json!({"name": ""}), ["name", "required"]),
            (json!({"name": 7}), ["name", "required"]),
            (json!({"name": "ghost"}), ["\"ghost\"", "tool_search"]),
            (json!({"name": "pods__page"}), ["\"pods__page\"", "tool_search"]),
            (json!({"name": "tool_search"}), ["tool_search", "itself"]),
            (json!({"name": "execute_tool"}), ["execute_tool", "itself"]),
            (
                json!({"name": "pods__logs", "parameters": "tail"}),
                ["parameters", "object"],
            ),
        ] {
            let answer = call(&gateway, revision, "execute_tool", arguments.clone()).await;
            assert_eq!(answer["result"]["isError"], true, "{arguments} {answer}");
            for word in words {
                assert!(text(&answer).contains(word), "{arguments} {answer}");
            }
        }
    }
    assert!(pods.seen_of("tools/call").is_empty());
    assert_eq!(names(&search(&gateway, json!({})).await), ["pods__logs"]);
    let page = call(&gateway, Revision::LATEST, "pods__page", json!({})).await;
    assert_eq!(text(&page), "page", "an app calls it all the same");
}

#[tokio::test]
async fn progress_and_failure_of_what_is_run_are_those_of_the_tool() {
    let pods = Upstream::start(|seen| match seen.method() {
        "tools/call" => {
            let progress = &seen.body["params"]["_meta"]["progressToken"];
            let params = json!({"progressToken": progress, "progress": 1, "total": 2});
            let error = json!({"code": -32001, "message": "Quota", "data": {"retry_after": 60}});
            Answer::Stream(vec![
                (
                    Duration::ZERO,
                    json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": params}),
                ),
                (
                    Duration::from_millis(50),
                    json!({"jsonrpc": "2.0", "id": seen.body["id"], "error": error}),
                ),
            ])
        }
        _ => upstream::modern(seen, &json!([tool("logs")])),
    })
    .await;
    let gateway = ready(
        &[("pods", pods.address, json!({}))],
        json!({"streaming": {"delay": "0s"}}),
    )
    .await;
    let params = json!({
        "name": "execute_tool", "arguments": {"name": "pods__logs"}, "_meta": {"progressToken": "p-1"},
    });
    let mut events = gateway.modern_events(json!("q-1"), "tools/call", params).await;
    let progress = events.next().await;
    assert_eq!(progress["params"]["progressToken"], "p-1", "{progress}");
    let answer = events.next().await;
    assert_eq!(
        (&answer["id"], &answer["error"]["code"]),
        (&json!("q-1"), &json!(-32001))
    );
    assert_eq!(answer["error"]["data"]["retry_after"], 60);
}

/// A gateway of somebody else, as a server: it lists `list`, finds `open_pr`, and runs what it is told to.
fn gateway_of_others(seen: &Seen) -> Answer {
    let params = &seen.body["params"];
    let tell =
        |text: String| seen.result(json!({"resultType": "complete", "content": [{"type": "text", "text": text}]}));
    match (seen.method(), params["name"].as_str()) {
        ("tools/call", Some("tool_search")) => tell(
            json!([
                {"name": "open_pr", "score": 0.7, "input_schema": {"type": "object"}, "keywords": ["pr"],
                 "_meta": {"ui": {"resourceUri": "ui://pr/v"}}},
                {"name": "close_pr", "score": 0.6},
            ])
            .to_string(),
        ),
        ("tools/call", Some("execute_tool")) => tell(format!("ran {}", params["arguments"])),
        _ => upstream::modern(seen, &json!([tool("list"), tool("tool_search"), tool("execute_tool")])),
    }
}

#[tokio::test]
async fn a_member_that_searches_itself_is_asked_and_runs_what_it_found() {
    let git = Upstream::start(gateway_of_others).await;
    let pods = server(&["prune"]).await;
    let servers = [
        (
            "git",
            git.address,
            json!({"remoteSearch": true, "tools": {"deny": ["close_*"]}}),
        ),
        ("pods", pods.address, json!({})),
    ];
    let gateway = ready(&servers, json!({})).await;
    assert_eq!(
        listed(&gateway, &MODERN, None, "").await,
        ["execute_tool", "git__list", "pods__prune", "tool_search"]
    );
    let rows = search(&gateway, json!({"query": "pr", "max_results": 7})).await;
    assert_eq!(names(&rows), ["pods__prune", "git__open_pr"]);
    assert_eq!(
        rows[1],
        json!({
            "name": "git__open_pr", "description": "", "score": 0.7, "inputSchema": {"type": "object"},
            "keywords": ["pr"], "_meta": {"ui": {"resourceUri": "ui://pr/v"}},
        })
    );
    let asked = git.seen_of("tools/call").pop().unwrap();
    assert_eq!(
        asked.body["params"]["arguments"],
        json!({"query": "pr", "max_results": 7})
    );
    assert_eq!(
        names(&search(&gateway, json!({"query": "pr", "max_results": 1})).await),
        ["pods__prune"]
    );

    for revision in ERAS {
        let direct = call(&gateway, revision, "git__open_pr", json!({"a": 1})).await;
        let by_name = json!({"name": "git__open_pr", "parameters": {"a": 1}});
        let by_name = call(&gateway, revision, "execute_tool", by_name).await;
        for answer in [direct, by_name] {
            assert_eq!(text(&answer), r#"ran {"name":"open_pr","parameters":{"a":1}}"#);
        }
        assert_eq!(
            git.seen_of("tools/call").pop().unwrap().header("mcp-name"),
            Some("execute_tool")
        );
        for nobodys in ["git__close_pr", "pods__other", "git__execute_tool"] {
            let refused = call(&gateway, revision, nobodys, json!({})).await;
            assert_eq!(refused["error"]["code"], -32602, "{refused}");
        }
    }
    let known = call(&gateway, LATEST, "git__list", json!({})).await;
    assert_eq!(text(&known), "list", "what is listed is called itself");
}

#[tokio::test]
async fn a_member_is_asked_to_run_only_what_its_search_tells_to_models() {
    let git = Upstream::start(|seen| {
        let rows = json!([
            {"name": "open_pr", "score": 1},
            {"name": "page", "score": 1, "_meta": {"ui": {"resourceUri": "ui://pr/v"}}},
            {"name": "refresh", "score": 1, "_meta": {"ui": {"resourceUri": "ui://pr/v", "visibility": ["app"]}}},
        ]);
        let tell =
            |text: String| seen.result(json!({"resultType": "complete", "content": [{"type": "text", "text": text}]}));
        match (seen.method(), seen.body["params"]["name"].as_str()) {
            ("tools/call", Some("tool_search")) => tell(rows.to_string()),
            ("tools/call", Some("execute_tool")) => tell("ran".into()),
            _ => upstream::modern(seen, &json!([])),
        }
    })
    .await;
    let ran = || {
        let calls = git.seen_of("tools/call");
        let ran = calls
            .iter()
            .filter(|seen| seen.body["params"]["name"] == "execute_tool");
        ran.count()
    };
    for (excludes, runs) in [(false, &["open_pr", "page"][..]), (true, &["open_pr"])] {
        let said = json!({"remoteSearch": true, "excludeApps": excludes});
        let gateway = ready(&[("git", git.address, said)], json!({})).await;
        let asked_for = [
            "open_pr",
            "page",
            "refresh",
            "never_told",
            "a\u{1b}[31m",
            "../open_pr",
            &"n".repeat(10_000),
        ];
        for (revision, name) in ERAS.into_iter().flat_map(|era| asked_for.map(|name| (era, name))) {
            let (before, is_run) = (ran(), runs.contains(&name));
            let name = format!("git__{name}");
            // No header can repeat such a name, so that Modern clients cannot say it at all.
            let direct = if name.contains('\u{1b}') { LATEST } else { revision };
            let direct = call(&gateway, direct, &name, json!({})).await;
            assert_eq!(direct["error"]["code"] == -32602, !is_run, "{direct}");
            let by_name = call(&gateway, revision, "execute_tool", json!({"name": name})).await;
            assert_eq!(by_name["result"]["isError"] == true, !is_run, "{by_name}");
            assert_eq!(ran() - before, if is_run { 2 } else { 0 }, "{name}");
        }
        gateway.stop().await;
    }
}

#[tokio::test]
async fn a_member_whose_search_does_not_tell_runs_nothing_that_it_does_not_list() {
    let git = Upstream::start(|seen| match (seen.method(), seen.body["params"]["name"].as_str()) {
        ("tools/call", Some("tool_search")) => Answer::status(500),
        _ => upstream::modern(seen, &json!([])),
    })
    .await;
    let gateway = ready(&[("git", git.address, json!({"remoteSearch": true}))], json!({})).await;
    for revision in ERAS {
        for (tool, arguments) in [
            ("git__open_pr", json!({})),
            ("execute_tool", json!({"name": "git__open_pr"})),
        ] {
            let failed = call(&gateway, revision, tool, arguments).await;
            assert!(
                failed.to_string().contains("does not say whether it has the tool"),
                "{failed}"
            );
        }
    }
    assert!(
        git.seen_of("tools/call")
            .iter()
            .all(|seen| seen.body["params"]["name"] == "tool_search")
    );
}

#[tokio::test]
async fn members_that_fail_to_search_are_left_out_and_counted() {
    let fine = Upstream::start(gateway_of_others).await;
    let searching = || json!({"remoteSearch": true});
    let failing = |answer: fn(&Seen) -> Answer| {
        Upstream::start(move |seen: &Seen| match seen.method() {
            "tools/call" => answer(seen),
            _ => upstream::modern(seen, &json!([])),
        })
    };
    let broken = failing(|_| Answer::status(500)).await;
    let hanging = failing(|_| Answer::Hang).await;
    let refusing = failing(|seen| seen.error(200, -32602, "no such tool")).await;
    let empty = failing(|seen| {
        seen.result(json!({"resultType": "complete", "content": [{"type": "text", "text": "Nothing."}]}))
    })
    .await;
    let servers = [
        ("broken", broken.address, searching()),
        ("empty", empty.address, searching()),
        ("fine", fine.address, searching()),
        ("hanging", hanging.address, searching()),
        ("refusing", refusing.address, searching()),
    ];
    let gateway = ready(&servers, json!({})).await;
    let begun = Instant::now();
    let found = call(&gateway, LATEST, "tool_search", json!({"query": "pr"})).await;
    assert!(begun.elapsed() < Duration::from_secs(6), "{:?}", begun.elapsed());
    let rows: Vec<Value> = serde_json::from_str(text(&found)).unwrap();
    assert_eq!(names(&rows), ["fine__open_pr", "fine__close_pr"]);
    let absent = &found["result"]["_meta"]["dev.mcpfleet/absent-members"];
    assert_eq!(*absent, json!(["broken", "hanging", "refusing"]), "{found}");
    let page = gateway.metrics_page();
    for (member, reason) in [("broken", "Http500"), ("hanging", "Timeout"), ("refusing", "Refused")] {
        let line = format!("mcpfleet_remote_search_failures_total{{federation=\"default/fed\",member=\"{member}\"");
        let line = page.lines().find(|known| known.starts_with(&line));
        assert!(
            line.is_some_and(|line| line.ends_with(" 1")),
            "{member} {reason}: {page}"
        );
    }
    assert!(!page.contains("member=\"empty\"") && !page.contains("member=\"fine\""));
}

#[tokio::test]
async fn what_a_member_found_is_read_in_every_form_and_a_member_whose_answer_cannot_be_read_is_named() {
    let tool = json!({"name": "open_pr", "description": "Opens one.", "inputSchema": {"type": "object"}});
    let in_text = |value: Value| json!([{"type": "text", "text": value.to_string()}]);
    let forms = [
        ("bare", json!({"content": in_text(json!([tool]))})),
        (
            "wrapped",
            json!({"content": in_text(json!({"tools": [tool], "total": 1}))}),
        ),
        (
            "structured",
            json!({"content": [], "structuredContent": {"results": [tool]}}),
        ),
        ("single", json!({"content": in_text(tool.clone())})),
        (
            "wordy",
            json!({"content": [{"type": "text", "text": "I found open_pr, which opens one."}]}),
        ),
        ("nameless", json!({"content": in_text(json!(["open_pr"]))})),
        (
            "blank",
            json!({"content": [{"type": "image", "data": "AAAA", "mimeType": "image/png"}]}),
        ),
    ];
    let mut peers = Vec::new();
    for (name, mut result) in forms {
        result["resultType"] = json!("complete");
        let peer = Upstream::start(
            move |seen: &Seen| match (seen.method(), seen.body["params"]["name"].as_str()) {
                ("tools/call", Some("tool_search")) => seen.result(result.clone()),
                ("tools/call", _) => seen.result(json!({
                    "resultType": "complete", "content": [{"type": "text", "text": "ran"}],
                })),
                _ => upstream::modern(seen, &json!([])),
            },
        )
        .await;
        peers.push((name, peer));
    }
    let servers: Vec<_> = peers
        .iter()
        .map(|(name, peer)| (*name, peer.address, json!({"remoteSearch": true})))
        .collect();
    let gateway = ready(&servers, json!({})).await;
    let found = call(
        &gateway,
        LATEST,
        "tool_search",
        json!({"query": "pr", "max_results": 9}),
    )
    .await;
    let rows: Vec<Value> = serde_json::from_str(text(&found)).unwrap();
    let read = [
        "bare__open_pr",
        "single__open_pr",
        "structured__open_pr",
        "wrapped__open_pr",
    ];
    assert_eq!(names(&rows), read);
    for row in &rows {
        assert_eq!(row["inputSchema"], json!({"type": "object"}), "{row}");
        assert!(row["score"].is_number(), "{row}");
    }
    let absent = &found["result"]["_meta"]["dev.mcpfleet/absent-members"];
    assert_eq!(*absent, json!(["blank", "nameless", "wordy"]), "{found}");
    let page = gateway.metrics_page();
    for (member, reason) in [("blank", "Empty"), ("nameless", "NoNames"), ("wordy", "NoList")] {
        let line = format!(
            "mcpfleet_remote_search_failures_total{{federation=\"default/fed\",member=\"{member}\",reason=\"{reason}\"}} 1"
        );
        assert!(page.lines().any(|known| known == line), "{line}: {page}");
    }
    for name in read {
        let ran = call(&gateway, LATEST, "execute_tool", json!({"name": name})).await;
        assert_eq!(text(&ran), "ran", "{name}");
    }
    let unknown = call(&gateway, LATEST, "wordy__open_pr", json!({})).await;
    assert!(
        unknown.to_string().contains("does not say whether it has the tool"),
        "{unknown}"
    );
}

#[tokio::test]
async fn gateways_that_ask_each_other_come_to_an_end() {
    let pods = server(&["logs"]).await;
    let mut gateway = TestGateway::start(members(&[], json!({}))).await;
    let servers = [
        ("pods", pods.address, json!({})),
        ("self", gateway.address, json!({"remoteSearch": true, "prefix": ""})),
    ];
    gateway.input.send_replace(members(&servers, json!({})).into());
    gateway
        .until(|o| o.servers.len() == 2 && o.servers.values().all(|s| s.state == UpstreamState::Ready))
        .await;
    let found = search(&gateway, json!({"query": "logs"})).await;
    assert_eq!(names(&found).first(), Some(&"pods__logs"), "{found:?}");
    let lost = call(&gateway, LATEST, "nowhere", json!({})).await;
    assert_eq!(lost["error"]["code"], -32602, "{lost}");
    let handed_round = json!({"name": "nowhere", "_meta": {"dev.mcpfleet/search-hops": 3}});
    let lost = gateway.ask(LATEST, "tools/call", handed_round).await;
    assert!(lost.to_string().contains("in circles"), "{lost}");
}

#[tokio::test]
async fn a_member_that_hangs_holds_a_search_for_no_longer_than_a_few_seconds_whatever_lists_may_take() {
    let fine = Upstream::start(gateway_of_others).await;
    let hanging = Upstream::start(|seen: &Seen| match seen.method() {
        "tools/call" => Answer::Hang,
        _ => upstream::modern(seen, &json!([])),
    })
    .await;
    let servers = [
        ("fine", fine.address, json!({"remoteSearch": true})),
        ("hanging", hanging.address, json!({"remoteSearch": true})),
    ];
    let mut plan = members(&servers, json!({"streaming": {"delay": "-1s"}}));
    for server in &mut plan.servers {
        server.terms.timeouts.list = Some(Duration::from_secs(60));
    }
    let mut gateway = TestGateway::start(plan).await;
    gateway
        .until(|o| o.servers.len() == 2 && o.servers.values().all(|s| s.state == UpstreamState::Ready))
        .await;
    let begun = Instant::now();
    let found = call(&gateway, LATEST, "tool_search", json!({"query": "pr"})).await;
    assert!(begun.elapsed() < Duration::from_secs(8), "{:?}", begun.elapsed());
    let rows: Vec<Value> = serde_json::from_str(text(&found)).unwrap();
    assert_eq!(names(&rows), ["fine__open_pr", "fine__close_pr"]);
    let absent = &found["result"]["_meta"]["dev.mcpfleet/absent-members"];
    assert_eq!(*absent, json!(["hanging"]), "{found}");
}

#[tokio::test]
async fn federations_that_are_members_of_each_other_find_nothing_of_their_own_again() {
    let (apples, pears) = (server(&["apple"]).await, server(&["apple_tree"]).await);
    let mut one = TestGateway::start(members(&[], json!({}))).await;
    let mut other = TestGateway::start(members(&[], json!({}))).await;
    let unlisted = || json!({"visibility": "Discoverable"});
    let searching = || json!({"remoteSearch": true});
    let [first, second] = [
        [("a", apples.address, unlisted()), ("other", other.address, searching())],
        [("b", pears.address, unlisted()), ("one", one.address, searching())],
    ];
    one.input.send_replace(members(&first, json!({})).into());
    other.input.send_replace(members(&second, json!({})).into());
    for gateway in [&mut one, &mut other] {
        gateway
            .until(|o| o.servers.len() == 2 && o.servers.values().all(|s| s.state == UpstreamState::Ready))
            .await;
    }
    let query = || json!({"query": "apple", "max_results": 50});
    for (gateway, expected) in [
        (&one, ["a__apple", "other__b__apple_tree"]),
        (&other, ["b__apple_tree", "one__a__apple"]),
    ] {
        let mut found = search(gateway, query()).await;
        found.sort_by_key(|row| row["name"].to_string());
        assert_eq!(names(&found), expected);
    }
    let ran = call(&one, LATEST, "other__b__apple_tree", json!({})).await;
    assert_eq!(text(&ran), "apple_tree", "{ran}");
}

#[tokio::test]
async fn a_member_asks_its_server_for_everything_on_a_connection_that_others_do_not_use() {
    let git = server(&["list"]).await;
    let asking = json!({"showAll": true, "prefix": "all"});
    let mut plan = members(&[("git", git.address, asking)], json!({}));
    plan.federations[0]
        .spec
        .members
        .push(serde_json::from_value(json!({"name": "plain", "server": {"name": "git"}, "prefix": "plain"})).unwrap());
    let gateway = TestGateway::start(plan).await;
    let mut listed_now = Vec::new();
    for _ in 0..100 {
        listed_now = listed(&gateway, &MODERN, None, "").await;
        if listed_now.len() == 2 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(listed_now, ["all__list", "plain__list"]);
    for (name, expected) in [("all__list", Some("true")), ("plain__list", None)] {
        call(&gateway, Revision::LATEST, name, json!({})).await;
        let seen = git.seen_of("tools/call").pop().unwrap();
        assert_eq!(seen.header(SHOW_ALL), expected, "{name}");
    }
    let lists = git.seen_of("tools/list");
    let asked: Vec<_> = lists.iter().map(|seen| seen.header(SHOW_ALL)).collect();
    assert!(asked.contains(&Some("true")) && asked.contains(&None), "{asked:?}");
}
