//! What lists say, to whom, and in which pages.

use super::*;

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
fn a_list_is_written_once_for_all_who_see_the_same() {
    let index = build(vec![member("a", &named(&["x", "y"])), member("b", &named(&["x"]))]);
    let written = |audience: Audience, revision: Revision| {
        let view = index.view(audience);
        let page = index.page(&view, List::Tools, revision, None, 0);
        assert_eq!(
            page.shared().as_ptr_range(),
            page.items.as_ptr_range(),
            "and is not copied"
        );
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
        let items: Vec<Value> = serde_json::from_str(&format!("[{}]", String::from_utf8_lossy(page.items))).unwrap();
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
