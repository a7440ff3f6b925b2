use std::sync::Arc;

use serde_json::{Value, json};

use super::*;
use crate::index::{AccessRules, Catalog, IndexPlan, Item};
use crate::mcp::Era;

/// A member of which its manifest says this, and which lists these tools.
fn member(prefix: &str, mut said: Value, tools: &[Value]) -> MemberCatalog {
    let mut catalog = Catalog::new(Era::Legacy);
    let item = |tool: &Value| Item::read(List::Tools, serde_json::from_str(&tool.to_string()).unwrap()).unwrap();
    catalog.tools = tools.iter().map(item).collect();
    said["name"] = json!(prefix);
    MemberCatalog {
        name: format!("member-{prefix}"),
        server: format!("server-{prefix}"),
        prefix: prefix.into(),
        skills: None.into(),
        selection: Arc::new(Selection::of(&serde_json::from_value(said).unwrap())),
        catalog: Some(Arc::new(catalog.sealed())),
    }
}

fn searching(prefix: &str, mut said: Value, tools: &[Value]) -> MemberCatalog {
    said["remoteSearch"] = json!(true);
    member(prefix, said, tools)
}

fn build(members: Vec<MemberCatalog>) -> Index {
    Index::build(IndexPlan::default(), members)
}

fn rows(findings: &[Finding]) -> Value {
    serde_json::from_str(&told(findings)).unwrap()
}

fn find(index: &Index, query: &str) -> Value {
    let found = index.find(&Query::parse(query), 100, Audience::EVERYBODY, Revision::LATEST);
    if found.is_empty() {
        assert!(serde_json::from_str::<Value>(&told(&found)).is_err());
        return json!([]);
    }
    rows(&found)
}

fn names(rows: &Value) -> Vec<&str> {
    rows.as_array()
        .unwrap()
        .iter()
        .map(|row| row["name"].as_str().unwrap())
        .collect()
}

/// The result of a search that answers with this in a text.
fn answered(text: impl ToString) -> String {
    json!({"content": [{"type": "text", "text": text.to_string()}]}).to_string()
}

fn remote(index: &Index, answer: &Value) -> Result<Vec<Finding>, Unreadable> {
    index.found_by(0, &answered(answer), 100, Audience::EVERYBODY, Revision::LATEST)
}

fn remote_names(index: &Index, answer: Value) -> Vec<String> {
    let found = remote(index, &answer).unwrap();
    found.into_iter().map(|finding| finding.name).collect()
}

fn row(name: &str) -> Value {
    json!({"name": name, "score": 0.7})
}

#[test]
fn a_row_tells_what_a_model_needs_and_nothing_else() {
    let tool = json!({
        "name": "t", "title": "T", "description": " two\n lines ", "inputSchema": {"type": "object", "x": 1.50},
        "outputSchema": {"type": "object"}, "annotations": {}, "_meta": {"a/b": 1}, "icons": [{"src": "data:x"}],
    });
    let said =
        json!({"keywords": ["ops"], "tools": {"overrides": [{"name": "t", "as": "shown", "keywords": ["own"]}]}});
    let index = build(vec![member("p", said, &[tool, json!({"name": "bare"})])]);
    assert_eq!(
        find(&index, "p__shown"),
        json!([{
            "name": "p__shown", "description": "two lines", "score": 1.0, "inputSchema": {"type": "object", "x": 1.50},
            "keywords": ["p", "remote", "ops", "own"], "_meta": {"a/b": 1}, "icons": [{"src": "data:x"}],
        }])
    );
    assert_eq!(
        find(&index, "bare"),
        json!([{"name": "p__bare", "description": "", "score": 0.92, "keywords": ["p", "remote", "ops"]}])
    );
}

#[test]
fn what_is_said_of_a_tool_in_place_of_its_server_is_what_is_searched_and_told() {
    let said = json!({"tools": {"overrides": [{"name": "t", "description": "Weighs parcels."}]}});
    let index = build(vec![member(
        "",
        said,
        &[json!({"name": "t", "description": "Internal."})],
    )]);
    assert_eq!(find(&index, "parcels")[0]["description"], "Weighs parcels.");
    assert_eq!(find(&index, "internal"), json!([]));
    assert_eq!(find(&index, "remote")[0]["keywords"], json!(["remote"]));
}

#[test]
fn tools_of_several_members_are_found_by_all_that_is_said_of_them() {
    let keyed = |name: &str, keywords: &[&str]| json!({"name": name, "keywords": keywords});
    let overrides = [
        keyed("rotate_cert", &["tls", "renew key"]),
        keyed("list_certs", &["tls"]),
        keyed("drain_node", &["maintenance window"]),
    ];
    let ops = [
        json!({"name": "rotate_cert", "description": "Rotate the TLS certificate of a gateway."}),
        json!({"name": "list_certs", "description": "Show every certificate."}),
        json!({"name": "drain_node", "description": "Evict pods, then cordon the node."}),
        json!({"name": "node-taint", "description": "Add a taint."}),
    ];
    let restart = json!({"name": "restart", "description": "Restart one pod."});
    let index = build(vec![
        member("", json!({"tools": {"overrides": overrides}}), &ops),
        member("pods", json!({"visibility": "Discoverable"}), &[restart]),
    ]);
    for (query, expected) in [
        ("ROTATE_CERT", json!([["rotate_cert", 1.0]])),
        ("rotate", json!([["rotate_cert", 0.95]])),
        ("cert", json!([["rotate_cert", 0.92], ["list_certs", 0.90]])),
        ("certificate", json!([["list_certs", 0.60], ["rotate_cert", 0.60]])),
        ("tls", json!([["list_certs", 0.85], ["rotate_cert", 0.85]])),
        ("window", json!([["drain_node", 0.85]])),
        ("mainten", json!([["drain_node", 0.70]])),
        ("node", json!([["node-taint", 0.95], ["drain_node", 0.92]])),
        ("pods", json!([["pods__restart", 0.95], ["drain_node", 0.60]])),
        ("evi", json!([["drain_node", 0.50]])),
        ("drian_node", json!([["drain_node", 0.56]])),
        ("rotate zebra", json!([["rotate_cert", 0.475]])),
        ("rotate cert", json!([["rotate_cert", 0.935], ["list_certs", 0.45]])),
        ("zzz", json!([])),
    ] {
        let found = find(&index, query);
        let found = found.as_array().unwrap().iter();
        let rounded = |score: f64| (score * 1e9).round() / 1e9;
        let found: Value = found
            .map(|row| json!([row["name"], rounded(row["score"].as_f64().unwrap())]))
            .collect();
        assert_eq!(found, expected, "{query}");
    }
}

#[test]
fn everything_that_may_be_used_by_models_is_found_listed_or_not() {
    let rules: Vec<crate::api::federation::AccessRule> =
        serde_json::from_value(json!([{"principals": ["one"]}, {"principals": ["two"], "names": ["plain"]}])).unwrap();
    let plan = IndexPlan {
        rules: AccessRules::read(&rules),
        ..IndexPlan::default()
    };
    let tools = [
        json!({"name": "plain"}),
        json!({"name": "hidden"}),
        json!({"name": "page", "_meta": {"ui": {"visibility": ["app"]}}}),
        json!({"name": "spoilt", "_meta": {"ui": {"visibility": "?"}}}),
    ];
    let said = json!({"tools": {"overrides": [{"name": "hidden", "visibility": "Discoverable"}]}});
    let index = Index::build(plan, vec![member("p", said, &tools)]);
    for (who, expected) in [
        ("one", &["p__hidden", "p__plain"][..]),
        ("two", &["p__plain"]),
        ("nobody", &[]),
    ] {
        let audience = Audience {
            rules: index.rules().holding_for(Some(who)),
            ..Audience::EVERYBODY
        };
        let found = index.find(&Query::parse(" "), 100, audience, Revision::LATEST);
        let names: Vec<&str> = found.iter().map(|finding| finding.name.as_str()).collect();
        assert_eq!(names, expected, "{who}");
        for name in ["p__hidden", "p__plain", "p__page", "p__spoilt"] {
            let may_run = index.target_for_models(name, audience).is_some();
            assert_eq!(may_run, expected.contains(&name), "{who} {name}");
        }
    }
}

#[test]
fn what_a_member_found_gets_its_prefix_and_keeps_the_rest() {
    let index = build(vec![searching("git", json!({}), &[])]);
    let found = remote(
        &index,
        &json!([{
            "name": "open_pr", "score": 0.7, "input_schema": {"type": "object"}, "keywords": ["pr"], "future": 1,
            "_meta": {"ui": {"resourceUri": "ui://pr/v"}},
        }]),
    );
    assert_eq!(
        rows(&found.unwrap()),
        json!([{
            "name": "git__open_pr", "description": "", "score": 0.7, "inputSchema": {"type": "object"},
            "keywords": ["pr"], "_meta": {"ui": {"resourceUri": "ui://pr/v"}},
        }])
    );
    let delegated = index.delegated("git__open_pr", Audience::EVERYBODY).unwrap();
    assert_eq!((delegated.member, &*delegated.original), (0, "open_pr"));
    let read = |text: &str| index.found_by(0, &answered(text), 9, Audience::EVERYBODY, Revision::LATEST);
    assert_eq!(read("Nothing."), Ok(Vec::new()));
    assert_eq!(read("open_pr"), Err(Unreadable::NoList));
}

#[test]
fn rows_without_a_score_come_after_those_with_one_in_their_order() {
    let index = build(vec![searching("git", json!({}), &[])]);
    let scored = |answer: Value| {
        let found = merged(remote(&index, &answer).unwrap(), 100);
        found
            .iter()
            .map(|finding| (finding.name.clone(), finding.score))
            .collect::<Vec<_>>()
    };
    let unscored = json!([{"name": "z"}, {"name": "y", "score": "0.9"}, {"name": "x", "score": null}]);
    let found = scored(unscored);
    assert_eq!(
        found.iter().map(|row| &*row.0).collect::<Vec<_>>(),
        ["git__z", "git__y", "git__x"]
    );
    assert!(found.iter().all(|row| row.1 > 0.49 && row.1 < 0.5), "{found:?}");
    let mixed = json!([{"name": "z"}, {"name": "low", "score": 0.2}, {"name": "a"}, {"name": "high", "score": 7}]);
    let found = scored(mixed);
    let names: Vec<&str> = found.iter().map(|row| &*row.0).collect();
    assert_eq!(names, ["git__high", "git__low", "git__z", "git__a"]);
    assert_eq!((found[0].1, found[1].1), (1.0, 0.2));
    assert!(found[3].1 > 0.19, "{found:?}");
}

#[test]
fn rows_that_cannot_be_called_are_left_out() {
    let index = build(vec![
        searching(
            "git",
            json!({"tools": {"deny": ["delete_*"]}, "excludeApps": true}),
            &[
                json!({"name": "known", "description": "ours"}),
                json!({"name": "page", "_meta": {"ui": {"resourceUri": "ui://a"}}}),
            ],
        ),
        member("", json!({}), &[json!({"name": "git__taken"})]),
    ]);
    let found = remote_names(
        &index,
        json!([
            row("fine"), row("known"), row("delete_all"), row("page"), row("taken"), row("a\nb"), row(""),
            {"name": "app", "score": 1, "_meta": {"ui": {"visibility": ["app"]}}},
            {"name": "shown", "score": 1, "_meta": {"ui": {"resourceUri": "ui://b"}}},
            row("tool_search"), {"name": 7, "score": 1}, {"name": "unscored"}, {"name": "nan", "score": "1"}, 5,
        ]),
    );
    assert_eq!(found, ["git__fine", "git__known", "git__unscored", "git__nan"]);
    let known = rows(&remote(&index, &json!([{"name": "known", "score": 7}])).unwrap());
    assert_eq!(
        known[0],
        json!({"name": "git__known", "description": "ours", "score": 1.0, "keywords": ["git", "remote"]})
    );
}

#[test]
fn of_a_member_that_floods_with_rows_only_the_first_are_read() {
    let index = build(vec![searching("git", json!({}), &[json!({"name": "known"})])]);
    let unusable = vec![row(""); defaults::SEARCH_ROWS_MAX - 1];
    let flood: Vec<Value> = unusable.into_iter().chain([row("known"), row("late")]).collect();
    assert_eq!(remote_names(&index, flood.into()), ["git__known"]);
}

#[test]
fn names_that_no_list_has_lead_to_the_member_whose_prefix_they_have_if_it_searches() {
    let said = json!({"tools": {"deny": ["delete_*"], "overrides": [{"name": "old", "as": "new"}]}});
    let index = build(vec![
        searching("git", said, &[json!({"name": "known"})]),
        member("pods", json!({}), &[]),
        searching("git-hub", json!({}), &[]),
    ]);
    let owner = |index: &Index, name: &str| {
        let found = index.delegated(name, Audience::EVERYBODY);
        found.map(|delegated| (delegated.member, delegated.original))
    };
    assert_eq!(owner(&index, "git__anything"), Some((0, "anything".into())));
    assert_eq!(owner(&index, "git-hub__x__y"), Some((2, "x__y".into())));
    assert_eq!(owner(&index, "git__new"), Some((0, "old".into())));
    let longest = format!("git__{}", "n".repeat(defaults::TOOL_NAME_MAX));
    assert!(owner(&index, &longest).is_some());
    for nobodys in [
        &format!("{longest}n"),
        "git__a\u{1b}[2J",
        "git__a\nb",
        "git__a\u{202e}b",
        "git__old",
        "git__known",
        "git__delete_it",
        "git__execute_tool",
        "git__",
        "git",
        "pods__x",
        "ghost",
        "",
    ] {
        assert_eq!(owner(&index, nobodys), None, "{nobodys}");
    }
    let bare = build(vec![searching("", json!({}), &[]), member("pods", json!({}), &[])]);
    assert_eq!(owner(&bare, "anything"), Some((0, "anything".into())));
    assert_eq!(owner(&bare, "pods__x"), None, "it would be another member's");
}

#[test]
fn a_name_is_run_if_the_member_finds_it_and_tells_it_to_models() {
    let found = json!([
        row("plain"), {"name": "unscored"},
        {"name": "page", "_meta": {"ui": {"resourceUri": "ui://a"}}},
        {"name": "old_page", "_meta": {"ui/resourceUri": "ui://a"}},
        {"name": "for_apps", "_meta": {"ui": {"visibility": ["app"]}}},
        {"name": "spoilt", "_meta": {"ui": {"visibility": "?"}}},
        row("twice"), {"name": "twice", "_meta": {"ui": {"visibility": ["app"]}}},
        7, {"name": 5},
    ])
    .to_string();
    let with = |said: Value, expected: &[&str]| {
        let index = build(vec![searching("git", said, &[])]);
        for name in [
            "plain", "unscored", "page", "old_page", "for_apps", "spoilt", "twice", "plai", "plain2",
        ] {
            let delegated = index.delegated(&format!("git__{name}"), Audience::EVERYBODY).unwrap();
            let is_found = |text: &str| index.is_found(&delegated, &answered(text));
            assert_eq!(is_found(&found), Ok(expected.contains(&name)), "{name}");
            for nothing in ["No tool was found.", "[]"] {
                assert_eq!(is_found(nothing), Ok(false), "{name}");
            }
            for unreadable in ["{}", "", "plain"] {
                assert_eq!(is_found(unreadable), Err(Unreadable::NoList), "{name}");
            }
        }
    };
    with(json!({}), &["plain", "unscored", "page", "old_page"]);
    with(json!({"excludeApps": true}), &["plain", "unscored"]);
}

#[test]
fn of_two_with_one_name_the_first_stands_and_the_best_come_first() {
    let finding = |name: &str, score: f64, from: &str| {
        Finding::new(
            name,
            score,
            &Told {
                description: from.to_owned(),
                schema: None,
                keywords: None,
                meta: None,
                icons: None,
            },
        )
    };
    let all = [
        finding("b", 0.5, "own"),
        finding("c", 0.9, "own"),
        finding("b", 1.0, "remote"),
        finding("a", 0.5, "remote"),
        finding("z", 0.1, "remote"),
    ];
    let best = rows(&merged(all, 3));
    assert_eq!(names(&best), ["c", "a", "b"]);
    assert_eq!(best[2]["description"], "own");
}

#[test]
fn the_two_tools_are_listed_as_soon_as_a_member_searches_and_its_own_two_are_not_offered() {
    let of_gateway = [
        json!({"name": "execute_tool"}),
        json!({"name": "tool_search"}),
        json!({"name": "a"}),
    ];
    let listed = |index: &Index, audience| {
        let view = index.view(audience);
        let page = index.page(&view, List::Tools, Revision::LATEST, None, 0);
        let tools: Value = serde_json::from_str(&format!("[{}]", String::from_utf8_lossy(page.items))).unwrap();
        assert_eq!(view.leads_to_unlisted, tools.to_string().contains("\"execute_tool\""));
        names(&tools).join(" ")
    };
    let index = build(vec![searching("git", json!({}), &of_gateway)]);
    assert_eq!(listed(&index, Audience::EVERYBODY), "execute_tool git__a tool_search");
    let all = Audience {
        show_all: true,
        ..Audience::EVERYBODY
    };
    assert_eq!(listed(&index, all), "git__a");
    let none = build(vec![searching("git", json!({}), &[])]);
    assert_eq!(listed(&none, Audience::EVERYBODY), "execute_tool tool_search");
    assert!(none.differs_from(&build(vec![member("git", json!({}), &[])])));
    let hidden = build(vec![member("git", json!({"visibility": "Discoverable"}), &[])]);
    assert_eq!(listed(&hidden, Audience::EVERYBODY), "execute_tool tool_search");
    let plain = build(vec![member("git", json!({}), &of_gateway)]);
    assert_eq!(
        listed(&plain, Audience::EVERYBODY),
        "git__a git__execute_tool git__tool_search"
    );
    assert!(index.offers_tool(0, "execute_tool", Audience::EVERYBODY));
}
