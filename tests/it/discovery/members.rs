//! Members that search themselves, and run what they found.

use std::time::Duration;

use mcpfleet::fleet::UpstreamState;
use mcpfleet::mcp::Revision;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::{ERAS, LATEST, MODERN, SHOW_ALL, call, listed, members, names, ready, search, server, text, tool};
use crate::support::gateway::TestGateway;
use crate::support::upstream::{self, Answer, Seen, Upstream};

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
