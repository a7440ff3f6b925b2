//! How names are kept apart, and whose they are.

use proptest::prelude::*;

use super::*;

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
