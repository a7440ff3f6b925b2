use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::api::federation;
use crate::mcp::Era;

mod skills;

fn tool(value: &Value) -> Item {
    Item::read(List::Tools, serde_json::from_str(&value.to_string()).unwrap()).unwrap()
}

fn member(prefix: &str, tools: &[Value]) -> MemberCatalog {
    offering(prefix, json!({}), tools)
}

/// A member of which its manifest says this.
fn offering(prefix: &str, mut said: Value, tools: &[Value]) -> MemberCatalog {
    let mut catalog = Catalog::new(Era::Legacy);
    catalog.tools = tools.iter().map(tool).collect();
    said["name"] = json!(prefix);
    MemberCatalog {
        name: format!("member-{prefix}"),
        server: format!("server-{prefix}"),
        prefix: prefix.into(),
        skills: SkillPrefix::new(prefix).ok().into(),
        selection: Arc::new(Selection::of(&serde_json::from_value(said).unwrap())),
        catalog: Some(Arc::new(catalog.sealed())),
    }
}

fn named(names: &[&str]) -> Vec<Value> {
    names.iter().map(|name| json!({"name": name})).collect()
}

fn build(members: Vec<MemberCatalog>) -> Index {
    Index::build(IndexPlan::default(), members)
}

fn with_naming(naming: Value, members: Vec<MemberCatalog>) -> Index {
    let naming: federation::Naming = serde_json::from_value(naming).unwrap();
    let plan = IndexPlan {
        naming: Naming::of(Some(&naming)),
        ..IndexPlan::default()
    };
    Index::build(plan, members)
}

fn seen(index: &Index, audience: Audience, list: List, revision: Revision) -> Value {
    let view = index.view(audience);
    let page = index.page(&view, list, revision, None, 0);
    assert_eq!(page.last, None);
    serde_json::from_str(&format!("[{}]", page.items)).unwrap()
}

fn tools(index: &Index, revision: Revision) -> Value {
    seen(index, Audience::EVERYBODY, List::Tools, revision)
}

fn names(index: &Index, audience: Audience) -> Vec<String> {
    let tools = seen(index, audience, List::Tools, Revision::LATEST);
    let names = tools.as_array().unwrap().iter();
    names.map(|tool| tool["name"].as_str().unwrap().to_owned()).collect()
}

fn owner(index: &Index, name: &str) -> Option<(usize, String)> {
    let target = index.target(List::Tools, name, Audience::EVERYBODY)?;
    Some((target.member, target.original.clone()))
}

#[test]
fn names_are_prefixed_sorted_and_lead_back_to_their_owner() {
    let index = build(vec![member("b", &named(&["x"])), member("a", &named(&["x", "a__y"]))]);
    assert_eq!(names(&index, Audience::EVERYBODY), ["a__a__y", "a__x", "b__x"]);
    assert_eq!(owner(&index, "a__x"), Some((1, "x".into())));
    assert_eq!(owner(&index, "a__a__y"), Some((1, "a__y".into())));
    assert_eq!(owner(&index, "x"), None);
    assert_eq!((index.tools_of(0), index.tools_of(1)), (1, 2));
}

#[test]
fn lists_are_in_the_order_of_their_bytes_whatever_the_order_of_members_and_of_their_tools() {
    let (z, a) = (["B", "a", "_", "aa", "a-", "é"], ["x10", "x2", "X"]);
    let expected = [
        "a__X", "a__x10", "a__x2", "z__B", "z___", "z__a", "z__a-", "z__aa", "z__é",
    ];
    for turn in 0..z.len() {
        let (mut z, mut a) = (z, a);
        z.rotate_left(turn);
        a.rotate_left(turn % 3);
        for members in [
            vec![member("z", &named(&z)), member("a", &named(&a))],
            vec![member("a", &named(&a)), member("z", &named(&z))],
        ] {
            let index = build(members);
            assert_eq!(names(&index, Audience::EVERYBODY), expected);
            let text = |index: &Index| tools(index, Revision::LATEST).to_string();
            assert_eq!(text(&index), text(&index));
        }
    }
}

#[test]
fn everything_but_the_name_stays_value_for_value() {
    let odd = json!({"name": "x", "inputSchema": {"name": "x"}, "future": {"a": [1, null]}, "_meta": {"k": 1.0}});
    let index = build(vec![member("p", std::slice::from_ref(&odd))]);
    let mut expected = odd;
    expected["name"] = json!("p__x");
    assert_eq!(tools(&index, Revision::LATEST), json!([expected]));
}

#[test]
fn of_two_equal_names_the_first_member_wins_and_the_status_says_so() {
    let first = offering("", json!({}), &[json!({"name": "x", "from": 1})]);
    let second = MemberCatalog {
        name: "second".into(),
        ..offering("", json!({}), &[json!({"name": "x", "from": 2})])
    };
    let index = build(vec![first, second]);
    assert_eq!(
        tools(&index, Revision::LATEST_LEGACY),
        json!([{"name": "x", "from": 1}])
    );
    assert_eq!((index.tools_of(0), index.tools_of(1)), (1, 0));
    let clash = federation::Clash {
        list: "tools".into(),
        name: "x".into(),
        members: vec!["member-".into(), "second".into()],
    };
    assert_eq!(index.status().conflicts, [clash]);
}

#[test]
fn a_federation_without_members_lists_nothing() {
    let index = build(Vec::new());
    for list in List::ALL {
        assert_eq!(seen(&index, Audience::EVERYBODY, list, Revision::LATEST), json!([]));
    }
}

#[test]
fn each_revision_gets_the_tools_it_can_read() {
    let tool = json!({
        "name": "x", "outputSchema": {"type": "object"}, "execution": {"taskSupport": "forbidden"},
    });
    let array = json!({"name": "y", "outputSchema": {"type": "array"}});
    let index = build(vec![member("", &[tool.clone(), array.clone()])]);
    let early = json!([{"name": "x", "execution": {"taskSupport": "forbidden"}}, {"name": "y"}]);
    assert_eq!(tools(&index, Revision::V2024_11_05), early);
    assert_eq!(tools(&index, Revision::V2025_03_26), early);
    let legacy = json!([tool, {"name": "y"}]);
    assert_eq!(tools(&index, Revision::V2025_06_18), legacy);
    assert_eq!(tools(&index, Revision::V2025_11_25), legacy);
    let modern = json!([{"name": "x", "outputSchema": {"type": "object"}}, array]);
    assert_eq!(tools(&index, Revision::V2026_07_28), modern);
}

#[test]
fn only_names_that_clash_get_prefixes_where_naming_says_so_whatever_the_order() {
    let one = || member("one", &named(&["search", "only_one", "two__search"]));
    let two = || member("two", &named(&["search"]));
    for members in [vec![one(), two()], vec![two(), one()]] {
        let first = members.first().unwrap().name.clone();
        let index = with_naming(json!({"prefix": "OnConflict"}), members);
        let all = names(&index, Audience::EVERYBODY);
        assert_eq!(all, ["one__search", "one__two__search", "only_one", "two__search"]);
        let (member, original) = owner(&index, "one__search").unwrap();
        assert_eq!(
            (original.as_str(), member),
            ("search", usize::from(first != "member-one"))
        );
        let clash = &index.status().conflicts;
        assert!(
            clash
                .iter()
                .any(|clash| clash.name == "search" && clash.members.len() == 2),
            "{clash:?}"
        );
    }
}

#[test]
fn names_and_their_owners_are_the_same_after_every_start() {
    let long = "x".repeat(100);
    let one = || member("one", &named(&["search", "only_one", &long, "tool_search"]));
    let two = || member("two", &named(&["search", &long, "one__search"]));
    for strategy in ["Always", "OnConflict"] {
        let told = |members: Vec<MemberCatalog>| {
            let index = with_naming(json!({"prefix": strategy}), members);
            let all = names(&index, Audience::EVERYBODY);
            let owned = all.into_iter().map(|name| {
                let (member, original) = owner(&index, &name).unwrap();
                (name, index.members[member].name.clone(), original)
            });
            owned.collect::<Vec<_>>()
        };
        let first = told(vec![one(), two()]);
        assert_eq!(first.len(), 7, "{strategy}: {first:?}");
        for _ in 0..50 {
            assert_eq!(told(vec![one(), two()]), first);
            assert_eq!(told(vec![two(), one()]), first, "{strategy}");
        }
    }
}

#[test]
fn without_prefixes_the_first_member_has_a_name() {
    let members = vec![member("b", &named(&["x"])), member("a", &named(&["x", "y"]))];
    let index = with_naming(json!({"prefix": "Never"}), members);
    assert_eq!(names(&index, Audience::EVERYBODY), ["x", "y"]);
    assert_eq!(owner(&index, "x"), Some((0, "x".into())));
}

#[test]
fn a_name_of_our_own_is_no_members() {
    let index = build(vec![
        member("", &named(&["tool_search", "x"])),
        member("p", &named(&["tool_search"])),
    ]);
    assert_eq!(names(&index, Audience::EVERYBODY), ["p__tool_search", "x"]);
    assert_eq!(index.status().conflicts.len(), 1);
    let index = with_naming(
        json!({"prefix": "OnConflict"}),
        vec![member("p", &named(&["tool_search"]))],
    );
    assert_eq!(names(&index, Audience::EVERYBODY), ["p__tool_search"]);
}

#[test]
fn long_names_are_cut_and_named_in_the_status() {
    let long = "x".repeat(128);
    let index = build(vec![member("p", &[json!({"name": long}), json!({"name": "short"})])]);
    let all = names(&index, Audience::EVERYBODY);
    let cut = all.iter().find(|name| name.len() == defaults::NAME_MAX).unwrap();
    assert_eq!(owner(&index, cut), Some((0, long.clone())));
    let renamed = index.status().renamed;
    assert_eq!(renamed.len(), 1);
    assert_eq!((&renamed[0].name, &renamed[0].shown), (&long, cut));
}

#[test]
fn names_of_any_length_fit_stay_apart_and_lead_back_whatever_the_order() {
    let prefix = "p".repeat(40);
    let same = "s".repeat(50);
    let originals = [
        "a".repeat(30),
        "b".repeat(60),
        "c".repeat(128),
        format!("{same}one{}", "x".repeat(20)),
        format!("{same}two{}", "x".repeat(20)),
        "short".to_owned(),
    ];
    let offered = originals.each_ref().map(|name| json!({"name": name}));
    let turned: Vec<Value> = offered.iter().rev().cloned().collect();
    let index = build(vec![member(&prefix, &offered), member("q", &offered)]);
    let all = names(&index, Audience::EVERYBODY);
    assert_eq!(all.len(), 12);
    assert!(all.iter().all(|name| name.len() <= defaults::NAME_MAX), "{all:?}");
    let reached: std::collections::BTreeSet<_> = all.iter().map(|name| owner(&index, name).unwrap()).collect();
    assert_eq!(reached.len(), 12, "each name leads to a tool of its own");
    let again = build(vec![member("q", &turned), member(&prefix, &turned)]);
    assert_eq!(names(&again, Audience::EVERYBODY), all);

    let renamed = index.status().renamed;
    let told: Vec<_> = renamed.iter().map(|renamed| (&renamed.name, &renamed.shown)).collect();
    let shortened: Vec<_> = all
        .iter()
        .filter_map(|shown| {
            let (place, original) = owner(&index, shown).unwrap();
            let full = format!("{}__{original}", index.members[place].prefix);
            (full != *shown).then_some((original, shown))
        })
        .collect();
    assert_eq!(shortened.len(), 8, "those that are too long: {shortened:?}");
    for (original, shown) in &shortened {
        assert!(told.contains(&(original, shown)), "{shown} in {told:?}");
    }
    assert_eq!(told.len(), shortened.len());
}

#[test]
fn filters_and_overrides_decide_what_is_offered_and_how_it_looks() {
    let said = json!({"tools": {
        "allow": ["logs", "exec*"], "deny": ["exec_root"],
        "overrides": [
            {"name": "logs", "as": "tail", "description": "ours", "annotations": {"readOnlyHint": true}},
            {"name": "exec", "visibility": "Discoverable"},
        ],
    }});
    let offered = [
        json!({"name": "logs", "description": "theirs", "k": 1}),
        json!({"name": "exec"}),
        json!({"name": "exec_root"}),
        json!({"name": "other"}),
    ];
    let index = build(vec![offering("pods", said, &offered)]);
    let listed = tools(&index, Revision::LATEST);
    let tail = json!({"name": "pods__tail", "description": "ours", "k": 1, "annotations": {"readOnlyHint": true}});
    assert!(listed.as_array().unwrap().contains(&tail), "{listed}");
    assert_eq!(
        names(&index, Audience::EVERYBODY),
        ["execute_tool", "pods__tail", "tool_search"]
    );
    assert_eq!(owner(&index, "pods__tail"), Some((0, "logs".into())));
    assert_eq!(
        owner(&index, "pods__exec"),
        Some((0, "exec".into())),
        "callable, though not listed"
    );
    for refused in ["pods__logs", "pods__exec_root", "pods__other"] {
        assert_eq!(owner(&index, refused), None, "{refused}");
    }
    let all = Audience {
        show_all: true,
        ..Audience::EVERYBODY
    };
    assert_eq!(names(&index, all), ["pods__exec", "pods__tail"]);
}

#[test]
fn rules_decide_alike_what_is_listed_and_what_can_be_called() {
    let rules: Vec<federation::AccessRule> = serde_json::from_value(json!([
        {"principals": ["one"]},
        {"principals": ["two"], "names": ["a"]},
    ]))
    .unwrap();
    let plan = IndexPlan {
        rules: AccessRules::read(&rules),
        ..IndexPlan::default()
    };
    let index = Index::build(plan, vec![member("p", &named(&["a", "b"]))]);
    for (who, expected) in [
        (Some("one"), &["p__a", "p__b"][..]),
        (Some("two"), &["p__a"]),
        (None, &[]),
    ] {
        let audience = Audience {
            rules: index.rules().holding_for(who),
            ..Audience::EVERYBODY
        };
        assert_eq!(names(&index, audience), expected, "{who:?}");
        for name in ["p__a", "p__b"] {
            let called = index.target(List::Tools, name, audience).is_some();
            assert_eq!(called, expected.contains(&name), "{who:?} {name}");
        }
    }
}

#[test]
fn a_list_is_written_once_for_all_who_see_the_same() {
    let index = build(vec![member("a", &named(&["x", "y"])), member("b", &named(&["x"]))]);
    let written = |audience: Audience, revision: Revision| {
        let view = index.view(audience);
        let page = index.page(&view, List::Tools, revision, None, 0);
        (page.items.as_ptr(), page.items.len())
    };
    let hidden = Audience {
        apps: false,
        ..Audience::EVERYBODY
    };
    for audience in [Audience::EVERYBODY, hidden] {
        for alike in [
            &[Revision::V2024_11_05, Revision::V2025_03_26][..],
            &[Revision::V2025_06_18, Revision::V2025_11_25],
            &[Revision::V2026_07_28],
        ] {
            let first = written(audience, alike[0]);
            assert!(first.1 > 0 && alike.iter().all(|revision| written(audience, *revision) == first));
        }
    }
    let (old, new) = (Revision::V2025_11_25, Revision::V2026_07_28);
    assert_ne!(written(Audience::EVERYBODY, old), written(Audience::EVERYBODY, new));
    let bytes: usize = named(&["x", "y", "x"]).iter().map(|tool| tool.to_string().len()).sum();
    assert_eq!(index.tools_bytes(), bytes);
}

#[test]
fn pages_follow_each_other_by_key_whatever_has_changed_in_between() {
    let all: Vec<String> = (0..25).map(|i| format!("t{i:02}")).collect();
    let of = |names: &[String]| {
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        build(vec![member("", &named(&names))])
    };
    let page = |index: &Index, after: Option<&str>| {
        let view = index.view(Audience::EVERYBODY);
        let page = index.page(&view, List::Tools, Revision::LATEST, after, 10);
        let items: Vec<Value> = serde_json::from_str(&format!("[{}]", page.items)).unwrap();
        let names: Vec<String> = items
            .iter()
            .map(|item| item["name"].as_str().unwrap().to_owned())
            .collect();
        (names, page.last.map(str::to_owned))
    };
    let before = of(&all);
    let (first, last) = page(&before, None);
    assert_eq!((first.as_slice(), last.as_deref()), (&all[..10], Some("t09")));
    let (second, last) = page(&before, last.as_deref());
    let (third, end) = page(&before, last.as_deref());
    assert_eq!(
        (second.as_slice(), third.as_slice(), end),
        (&all[10..20], &all[20..], None)
    );

    let mut changed = all.clone();
    changed.retain(|name| name != "t09" && name != "t03");
    changed.push("t095".into());
    let (second, _) = page(&of(&changed), Some("t09"));
    assert_eq!(second.first().map(String::as_str), Some("t095"));
    assert_eq!(&second[1..], &all[10..19]);
    assert_eq!(page(&before, Some("zzz")), (Vec::new(), None));
}

#[test]
fn who_sees_nothing_of_a_change_sees_what_it_saw() {
    let said = json!({"tools": {"overrides": [{"name": "hidden", "visibility": "Discoverable"}]}});
    let of = |description: &str| {
        let tools = [
            json!({"name": "a"}),
            json!({"name": "hidden", "description": description}),
        ];
        build(vec![offering("p", said.clone(), &tools)])
    };
    let all = Audience {
        show_all: true,
        ..Audience::EVERYBODY
    };
    let (one, same, other) = (of("1"), of("1"), of("2"));
    assert!(!one.differs_from(&same) && one.differs_from(&other));
    assert_eq!(
        one.view(Audience::EVERYBODY).shown(),
        other.view(Audience::EVERYBODY).shown()
    );
    assert_ne!(one.view(all).shown(), other.view(all).shown());
    assert_eq!(one.view(all).shown(), same.view(all).shown());
}

#[test]
fn resources_lead_to_who_lists_them_and_else_to_whose_template_they_fit() {
    let with = |name: &str, uris: &[&str], templates: &[&str]| {
        let item = |list: List, key: &str| {
            let raw = json!({list.key(): key, "from": name}).to_string();
            Item::read(list, serde_json::from_str(&raw).unwrap()).unwrap()
        };
        let mut catalog = Catalog::new(Era::Legacy);
        catalog.resources = uris.iter().map(|uri| item(List::Resources, uri)).collect();
        catalog.templates = templates.iter().map(|uri| item(List::Templates, uri)).collect();
        MemberCatalog {
            name: name.into(),
            catalog: Some(Arc::new(catalog)),
            ..member(name, &[])
        }
    };
    let index = build(vec![
        with("a", &["b://1"], &["inv://{sku}"]),
        with("b", &["b://1", "a://1", "inv://X"], &[]),
    ]);
    let owner = |uri: &str| index.resource(uri, Audience::EVERYBODY).map(|target| target.member);
    assert_eq!(owner("b://1"), Some(0));
    assert_eq!(owner("a://1"), Some(1));
    assert_eq!(owner("inv://X"), Some(1), "what is listed goes before what fits");
    assert_eq!(owner("inv://Y"), Some(0));
    assert_eq!(owner("c://1"), None);
    let listed = seen(&index, Audience::EVERYBODY, List::Resources, Revision::LATEST);
    let uris: Vec<_> = listed
        .as_array()
        .unwrap()
        .iter()
        .map(|resource| &resource["uri"])
        .collect();
    assert_eq!(uris, ["a://1", "b://1", "inv://X"]);
    assert_eq!(index.status().conflicts[0].list, "resources");
}

#[test]
fn tools_with_a_page_go_where_apps_are_excluded_and_tools_for_apps_alone_where_nobody_shows_them() {
    let offered = [
        json!({"name": "show", "_meta": {"ui": {"resourceUri": "ui://b/v"}}}),
        json!({"name": "flat", "_meta": {"ui/resourceUri": "ui://b/w"}}),
        json!({"name": "move", "_meta": {"ui": {"visibility": ["app"]}}}),
        json!({"name": "said", "_meta": {"ui": {"visibility": ["model"]}}}),
        json!({"name": "plain"}),
    ];
    let excluding = build(vec![offering("b", json!({"excludeApps": true}), &offered)]);
    assert_eq!(
        names(&excluding, Audience::EVERYBODY),
        ["b__move", "b__plain", "b__said"]
    );
    assert_eq!(owner(&excluding, "b__show"), None);
    assert_eq!(excluding.page_owner("ui://b/v", Audience::EVERYBODY), None);

    let plan = IndexPlan {
        hides_app_only: true,
        ..IndexPlan::default()
    };
    let index = Index::build(plan, vec![offering("b", json!({}), &offered)]);
    let without = Audience {
        apps: false,
        ..Audience::EVERYBODY
    };
    assert_eq!(names(&index, without), ["b__flat", "b__plain", "b__said", "b__show"]);
    assert_eq!(names(&index, Audience::EVERYBODY).len(), 5);
    assert!(
        index.target(List::Tools, "b__move", without).is_some(),
        "hidden, and callable"
    );
    assert_eq!(index.page_owner("ui://b/w", without), Some(0));
    let never = build(vec![offering("b", json!({}), &offered)]);
    assert_eq!(names(&never, without).len(), 5);
}

#[test]
fn a_block_for_apps_that_cannot_be_read_takes_no_tool_from_the_list() {
    let offered = [
        json!({"name": "number", "_meta": {"ui": {"resourceUri": 12, "visibility": ["app"]}}}),
        json!({"name": "text", "_meta": {"ui": "ui://b/v"}}),
        json!({"name": "word", "_meta": {"ui": {"visibility": "model"}}}),
    ];
    let index = build(vec![offering("b", json!({"excludeApps": true}), &offered)]);
    let listed = tools(&index, Revision::LATEST);
    let listed = listed.as_array().unwrap().iter();
    let metas: Vec<_> = listed.map(|tool| tool["_meta"].clone()).collect();
    assert_eq!(metas, offered.each_ref().map(|tool| tool["_meta"].clone()));
    let for_models = |name| index.target_for_models(name, Audience::EVERYBODY).is_some();
    assert!(for_models("b__text") && !for_models("b__number") && !for_models("b__word"));
}

#[test]
fn a_member_alone_has_its_servers_names_and_what_else_is_said_of_it() {
    let offered = |more: &str| {
        [
            json!({"name": "same"}),
            json!({"name": more}),
            json!({"name": "x".repeat(90)}),
        ]
    };
    let said =
        json!({"tools": {"deny": ["secret"], "overrides": [{"name": "same", "as": "other", "description": "ours"}]}});
    let plan = IndexPlan {
        rules: AccessRules::read(&serde_json::from_value::<Vec<_>>(json!([{"members": ["member-a"]}])).unwrap()),
        ..IndexPlan::default()
    };
    let build = |a: &str, b: &str| {
        let members = vec![
            offering("a", said.clone(), &offered(a)),
            offering("b", json!({}), &offered(b)),
        ];
        Index::build(plan.clone(), members)
    };
    let index = build("secret", "more");
    assert!(names(&index, Audience::EVERYBODY).iter().any(|name| name == "a__other"));
    let a = index.alone(0).unwrap();
    assert_eq!(names(&a, Audience::EVERYBODY), ["same".to_owned(), "x".repeat(90)]);
    assert_eq!(owner(&a, "other"), None);
    let b = index.alone(1).unwrap();
    let nobody = Audience {
        rules: index.rules().holding_for(None),
        ..Audience::EVERYBODY
    };
    assert_eq!(names(&b, nobody), [""; 0], "rules know it by its name");
    assert!(index.alone(2).is_none());
    assert!(index.differs_from(&build("secret2", "more")));
    assert!(!index.differs_from(&build("secret", "more")));
}

#[test]
fn a_change_that_only_a_member_alone_shows_is_a_change() {
    let build = |description: &str| {
        let members = vec![
            offering("a", json!({"prefix": ""}), &[json!({"name": "same"})]),
            offering(
                "b",
                json!({"prefix": ""}),
                &[json!({"name": "same", "description": description})],
            ),
        ];
        Index::build(IndexPlan::default(), members)
    };
    assert!(build("one").differs_from(&build("two")));
    assert!(!build("one").differs_from(&build("one")));
}

#[test]
fn a_bare_name_stands_for_the_one_tool_of_it_that_may_be_used() {
    let index = build(vec![
        offering("a", json!({}), &[json!({"name": "same"}), json!({"name": "mine"})]),
        offering("b", json!({}), &[json!({"name": "same"}), json!({"name": "mine"})]),
        offering(
            "c",
            json!({"tools": {"deny": ["mine"]}}),
            &[json!({"name": "mine"}), json!({"name": "own"})],
        ),
    ]);
    let bare = |name: &str| index.bare_tool(name, Audience::EVERYBODY);
    assert_eq!(bare("nothing"), Bare::Nothing);
    assert_eq!(bare("same"), Bare::Several(vec!["a__same", "b__same"]));
    assert_eq!(bare("mine"), Bare::Several(vec!["a__mine", "b__mine"]));
    assert!(matches!(bare("own"), Bare::Only(target) if target.member == 2));
}

#[test]
fn who_may_be_asked_for_a_resource_is_said_by_rules_and_by_what_is_excluded() {
    let rules =
        json!([{"members": ["*-a"]}, {"members": ["*-b"], "names": ["x://*", "ui:*"]}, {"principals": ["alice"]}]);
    let plan = IndexPlan {
        rules: AccessRules::read(&serde_json::from_value::<Vec<_>>(rules).unwrap()),
        ..IndexPlan::default()
    };
    let members = vec![
        offering("a", json!({"excludeApps": true}), &[]),
        offering("b", json!({}), &[]),
        offering("c", json!({}), &[]),
    ];
    let index = Index::build(plan, members);
    let readers = |who: Option<&str>, uri: &str| {
        let audience = Audience {
            rules: index.rules().holding_for(who),
            ..Audience::EVERYBODY
        };
        index.readers(uri, audience).collect::<Vec<_>>()
    };
    assert_eq!(readers(None, "x://1"), [0, 1]);
    assert_eq!(readers(None, "y://1"), [0]);
    assert_eq!(readers(None, "ui://p"), [1]);
    assert_eq!(readers(Some("alice"), "y://1"), [0, 1, 2]);
    assert_eq!(readers(Some("alice"), "UI:p"), [1, 2]);
}

#[test]
fn a_name_behind_a_prefix_is_that_of_the_member_with_the_prefix() {
    let thief = || member("s2", &named(&["echo", "s3__echo", "s3__add"]));
    let owner_of = || member("s3", &named(&["echo", "add"]));
    for members in [vec![thief(), owner_of()], vec![owner_of(), thief()]] {
        let index = with_naming(json!({"prefix": "OnConflict"}), members);
        let (place, original) = owner(&index, "s3__echo").unwrap();
        assert_eq!(
            (index.members[place].prefix.as_str(), original.as_str()),
            ("s3", "echo")
        );
        let (place, original) = owner(&index, "s2__s3__echo").unwrap();
        assert_eq!(
            (index.members[place].prefix.as_str(), original.as_str()),
            ("s2", "s3__echo")
        );
        assert!(owner(&index, "s3__add").is_some() && owner(&index, "add").is_some());
    }
    let bare = MemberCatalog {
        name: "bare".into(),
        ..offering("", json!({}), &named(&["s3__echo"]))
    };
    let index = build(vec![bare, owner_of()]);
    assert_eq!(owner(&index, "s3__echo"), Some((1, "echo".into())));
    assert_eq!(index.status().conflicts.len(), 1);
}

#[test]
fn what_status_tells_of_names_stays_short_whatever_servers_list() {
    let long = format!("\u{1b}[2J{}", "n".repeat(100_000));
    let index = build(vec![
        offering("", json!({}), &named(&vec!["tool_search"; 500])),
        member("p", &named(&[&long])),
    ]);
    let status = index.status();
    assert_eq!(status.conflicts[0].members.len(), 100);
    let renamed = &status.renamed[0].name;
    assert!(
        renamed.starts_with(r"\u{1b}[2Jnn") && renamed.len() < 1_024,
        "{renamed}"
    );
}

#[test]
fn of_two_tools_that_one_member_calls_alike_that_stands_which_was_named_so() {
    let said = json!({"tools": {"overrides": [{"name": "run", "as": "start"}]}});
    for tools in [["run", "start"], ["start", "run"]] {
        let index = build(vec![offering("p", said.clone(), &named(&tools))]);
        assert_eq!(names(&index, Audience::EVERYBODY), ["p__start"]);
        assert_eq!(owner(&index, "p__start"), Some((0, "run".into())));
        let clashes = index.status().conflicts;
        assert_eq!(clashes[0].members, ["member-p", "member-p"]);
        let evading = with_naming(
            json!({"prefix": "OnConflict"}),
            vec![offering("p", said.clone(), &named(&tools))],
        );
        assert_eq!(owner(&evading, "start"), Some((0, "run".into())));
        assert_eq!(owner(&evading, "p__start"), Some((0, "start".into())));
    }
    for tools in [["x", "p__x"], ["p__x", "x"]] {
        let members = vec![member("p", &named(&tools)), member("q", &named(&["x"]))];
        let index = with_naming(json!({"prefix": "OnConflict"}), members);
        assert_eq!(names(&index, Audience::EVERYBODY), ["p__p__x", "p__x", "q__x"]);
        assert_eq!(owner(&index, "p__x"), Some((0, "x".into())));
    }
}

proptest! {
    #[test]
    fn every_name_leads_to_its_own_tool_and_none_is_lost_without_a_word(
        strategy in prop::sample::select(vec!["Always", "OnConflict", "Never"]),
        max_length in prop::sample::select(vec![32, 64]),
        said in prop::collection::vec(
            (
                prop::collection::btree_set(prop::sample::select(vec![
                    "x", "y", "p__x", "q__x", "p__p__x", "tool_search", "p__tool_search", LONG, "p__cut_short",
                ]), 0..6),
                prop::collection::btree_map(
                    prop::sample::select(vec!["x", "y", LONG]),
                    prop::sample::select(vec!["x", "y", "p__x", "q__y"]),
                    0..3,
                ),
            ),
            1..4,
        ),
    ) {
        let build = |turned: bool| {
            let prefixed = said.iter().zip(["p", "q", ""]);
            let members = prefixed.map(|((tools, renamed), prefix)| {
                let overrides: Vec<_> = renamed.iter().map(|(name, shown)| json!({"name": name, "as": shown})).collect();
                let mut tools: Vec<&str> = tools.iter().copied().collect();
                if turned {
                    tools.reverse();
                }
                offering(prefix, json!({"tools": {"overrides": overrides}}), &named(&tools))
            });
            with_naming(json!({"prefix": strategy, "maxLength": max_length}), members.collect())
        };
        let index = build(false);
        let told = |index: &Index| {
            let all = names(index, Audience::EVERYBODY).into_iter();
            all.map(|name| (owner(index, &name).unwrap(), name)).collect::<Vec<_>>()
        };
        let listed = told(&index);
        prop_assert_eq!(&told(&build(true)), &listed, "in whatever order servers list them");
        let keys: Vec<&String> = listed.iter().map(|(_, name)| name).collect();
        prop_assert!(keys.windows(2).all(|two| two[0] < two[1]));
        prop_assert!(keys.iter().all(|name| name.chars().count() <= max_length));
        let conflicts = index.status().conflicts;
        for (place, (tools, _)) in said.iter().enumerate() {
            let shown = listed.iter().filter(|((member, _), _)| *member == place).count();
            let name = &index.members[place].name;
            let told = conflicts.iter().flat_map(|clash| &clash.members).filter(|member| *member == name).count();
            prop_assert!(shown + told >= tools.len(), "{} {:?} {:?}", name, listed, conflicts);
            prop_assert!(listed.iter().all(|((member, tool), _)| *member != place || tools.contains(&**tool)));
        }
    }
}

/// Longer than names may be.
const LONG: &str = "x_______________________________________________________________________________";

#[test]
fn a_rule_that_names_a_template_means_what_it_stands_for() {
    let item = |uri: &str| {
        let raw = json!({"uriTemplate": uri}).to_string();
        Item::read(List::Templates, serde_json::from_str(&raw).unwrap()).unwrap()
    };
    let mut catalog = Catalog::new(Era::Legacy);
    catalog.templates = vec![item("tpl://s/{id}")];
    for (name, expected) in [
        ("tpl://s/{id}", true),
        ("tpl://s/7", true),
        ("tpl://s/8", false),
        ("*", true),
    ] {
        let rules: Vec<federation::AccessRule> = serde_json::from_value(json!([{"names": [name]}])).unwrap();
        let plan = IndexPlan {
            rules: AccessRules::read(&rules),
            ..IndexPlan::default()
        };
        let of = MemberCatalog {
            catalog: Some(Arc::new(catalog.clone())),
            ..member("s", &[])
        };
        let index = Index::build(plan, vec![of]);
        let audience = Audience {
            rules: index.rules().holding_for(None),
            ..Audience::EVERYBODY
        };
        assert_eq!(index.resource("tpl://s/7", audience).is_some(), expected, "{name}");
    }
}

/// What `who` sees of an index whose federation has these rules.
fn ruled(rules: Value, naming: Value, members: Vec<MemberCatalog>) -> (Index, impl Fn(&Index, &str) -> Audience) {
    let naming: federation::Naming = serde_json::from_value(naming).unwrap();
    let plan = IndexPlan {
        naming: Naming::of(Some(&naming)),
        rules: AccessRules::read(&serde_json::from_value::<Vec<_>>(rules).unwrap()),
        ..IndexPlan::default()
    };
    let audience = |index: &Index, who: &str| Audience {
        rules: index.rules().holding_for(Some(who)),
        ..Audience::EVERYBODY
    };
    (Index::build(plan, members), audience)
}

#[test]
fn what_somebody_may_not_see_takes_no_name_from_what_they_may() {
    let rules = json!([
        {"principals": ["first"], "members": ["member-a"]},
        {"principals": ["second"], "members": ["member-b"]},
        {"principals": ["both"], "members": ["member-a", "member-b"]},
    ]);
    let of = |prefix: &str| {
        let mut catalog = Catalog::new(Era::Legacy);
        for list in List::ALL.into_iter().filter(|list| *list != List::Skills) {
            let raw = json!({list.key(): "x:y", "of": prefix, "inputSchema": {"type": "object"}}).to_string();
            *catalog.list_mut(list) = vec![Item::read(list, serde_json::from_str(&raw).unwrap()).unwrap()];
        }
        MemberCatalog {
            catalog: Some(Arc::new(catalog.sealed())),
            ..member(prefix, &[])
        }
    };
    let (index, audience) = ruled(rules, json!({"prefix": "Never"}), vec![of("a"), of("b")]);
    for (who, member) in [("first", "a"), ("second", "b"), ("both", "a")] {
        let audience = audience(&index, who);
        let place = usize::from(member == "b");
        for list in List::ALL.into_iter().filter(|list| *list != List::Skills) {
            let listed = seen(&index, audience, list, Revision::LATEST);
            assert_eq!(listed.as_array().unwrap().len(), 1, "{who} {list:?}");
            assert_eq!(listed[0]["of"], member, "{who} {list:?}");
            assert_eq!(
                index.target(list, "x:y", audience).map(|target| target.member),
                Some(place)
            );
        }
        assert_eq!(index.resource("x:y", audience).map(|target| target.member), Some(place));
        assert!(matches!(index.bare_tool("x:y", audience), Bare::Only(tool) if tool.member == place));
        assert!(index.offers_tool(place, "x:y", audience) && !index.offers_tool(1 - place, "x:y", audience));
        let found = index.find(&search::Query::parse("x:y"), 9, audience, Revision::LATEST);
        assert_eq!(found.len(), 1, "{who}");
    }
    let status = index.status();
    assert_eq!((status.tools, status.resources, status.conflicts.len()), (1, 1, 4));
    assert_eq!(status.conflicts[0].members, ["member-a", "member-b"]);
}

#[test]
fn what_nobody_may_see_makes_no_name_clash() {
    let rules = json!([{"names": ["search"], "members": ["member-one"]}, {"names": ["other"]}]);
    let members = || {
        vec![
            member("two", &named(&["search"])),
            member("one", &named(&["search", "other"])),
        ]
    };
    let (index, _) = ruled(rules.clone(), json!({"prefix": "OnConflict"}), members());
    assert_eq!(names(&index, Audience::EVERYBODY), ["other", "search"]);
    assert_eq!(owner(&index, "search"), Some((1, "search".into())));
    assert!(index.status().conflicts.is_empty());
    let (index, _) = ruled(rules, json!({"prefix": "Never"}), members());
    assert_eq!(owner(&index, "search"), Some((1, "search".into())));
    assert_eq!((index.tools_of(0), index.tools_of(1)), (0, 2));
}

#[test]
fn a_name_that_got_a_prefix_has_it_for_everybody() {
    let rules = json!([{"principals": ["one"], "members": ["member-one"]}, {"principals": ["all"]}]);
    let members = vec![member("one", &named(&["search"])), member("two", &named(&["search"]))];
    let (index, audience) = ruled(rules, json!({"prefix": "OnConflict"}), members);
    assert_eq!(names(&index, audience(&index, "one")), ["one__search"]);
    assert_eq!(names(&index, audience(&index, "all")), ["one__search", "two__search"]);
}

#[test]
fn a_resource_that_somebody_may_not_see_hides_no_template_that_they_may_use() {
    let rules = json!([{"principals": ["all"]}, {"principals": ["some"], "members": ["member-b"]}]);
    let with = |prefix: &str, list: List, uri: &str| {
        let mut catalog = Catalog::new(Era::Legacy);
        let raw = json!({list.key(): uri, "name": "n"}).to_string();
        *catalog.list_mut(list) = vec![Item::read(list, serde_json::from_str(&raw).unwrap()).unwrap()];
        MemberCatalog {
            catalog: Some(Arc::new(catalog.sealed())),
            ..member(prefix, &[])
        }
    };
    let members = vec![
        with("a", List::Resources, "t://7"),
        with("b", List::Templates, "t://{id}"),
    ];
    let (index, audience) = ruled(rules, json!({}), members);
    for (who, place) in [("all", 0), ("some", 1)] {
        let owner = index.resource("t://7", audience(&index, who));
        assert_eq!(owner.map(|target| target.member), Some(place), "{who}");
    }
}

#[test]
fn what_is_said_of_tools_and_members_that_are_not_there_is_found() {
    let said = json!({"tools": {
        "allow": ["l*", "nope"], "deny": ["gone_*"],
        "overrides": [{"name": "logs", "as": "tail"}, {"name": "misspelt", "as": "x"}],
    }});
    let rules = json!([
        {"members": ["member-a", "nobody*"], "names": ["logs", "typo", "x://unlisted"]},
        {"principals": ["alice", "carol"], "members": ["member-b"]},
    ]);
    let members = || {
        vec![
            offering("a", said.clone(), &named(&["logs", "list"])),
            member("b", &named(&["typo"])),
        ]
    };
    let (index, _) = ruled(rules.clone(), json!({}), members());
    assert_eq!(
        index.unmatched(),
        [
            "member member-a says tools.allow \"nope\", which matches no tool",
            "member member-a says tools.deny \"gone_*\", which matches no tool",
            "member member-a says tools.overrides of \"misspelt\", which its server does not list",
            "access.rules[0] says members \"nobody*\", which is no member",
            "access.rules[0] says names \"typo\", which matches nothing",
        ]
    );
    let nobody: Vec<_> = index.rules().for_nobody(&["alice"]).collect();
    assert_eq!(nobody, [(1, "carol".to_owned())]);
    // Of lists that are not known nothing is said.
    let mut unknown = members();
    unknown[0].catalog = None;
    let (index, _) = ruled(rules, json!({}), unknown);
    assert_eq!(
        index.unmatched(),
        ["access.rules[0] says members \"nobody*\", which is no member"]
    );
}
