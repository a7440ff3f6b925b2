//! What rules let whom see and use.

use super::*;

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
