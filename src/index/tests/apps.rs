//! Tools with user interfaces.

use super::*;

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
