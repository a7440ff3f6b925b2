//! Whose a resource is.

use super::*;

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
