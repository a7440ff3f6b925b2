//! Members alone.

use super::*;

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
