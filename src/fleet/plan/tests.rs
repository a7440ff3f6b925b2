use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::{Value, json};

use super::*;
use crate::api::federation::Member;
use crate::api::server::AllowedNamespaces;
use crate::fleet::{Unresolved, member_plan};
use crate::upstream::{Endpoint, Limits, Terms};

fn server(name: &str) -> ServerInput {
    let unresolved = Unresolved {
        reason: "Test",
        message: "none".into(),
    };
    ServerInput {
        key: ObjectKey::new("team", name),
        labels: BTreeMap::from([("tier".into(), "one".into())]),
        allowed_namespaces: AllowedNamespaces::default(),
        disabled: false,
        terms: Terms::default(),
        refresh: BTreeSet::new(),
        endpoint: Err(unresolved),
    }
}

fn members(servers: &[&str], namespace: &str, members: Value) -> Vec<(String, String, String)> {
    let spec = serde_json::from_value(json!({"members": members})).unwrap();
    let federations = vec![FederationInput {
        key: ObjectKey::new(namespace, "fed"),
        uid: None,
        spec,
        access: Access::Anonymous,
        refresh: None,
        skills: SkillsPlan::default(),
    }];
    let servers = servers.iter().map(|name| server(name)).collect();
    let planned = plan(&PlanInput {
        servers,
        federations,
        namespaces: BTreeMap::new(),
    });
    let federation = planned.federations.into_values().next().unwrap();
    let told = |m: MemberPlan| (m.name, m.prefix, m.problem.map_or("", |p| p.reason()).to_owned());
    federation.members.into_iter().map(told).collect()
}

fn told(rows: &[(&str, &str, &str)]) -> Vec<(String, String, String)> {
    rows.iter()
        .map(|(a, b, c)| ((*a).into(), (*b).into(), (*c).into()))
        .collect()
}

#[test]
fn skills_are_offered_by_default_where_a_prefix_can_stand_in_their_uris() {
    let skills = |said: Value| {
        let member: Member = serde_json::from_value(said).unwrap();
        let prefix = member.prefix.clone().unwrap_or_else(|| "server".to_owned());
        member_plan::skill_prefix(&member, &prefix).map(|own| own.map(|own| own.as_str().to_owned()))
    };
    assert_eq!(skills(json!({"name": "m"})), Ok(Some("server".into())));
    assert_eq!(skills(json!({"name": "m", "prefix": "a-1"})), Ok(Some("a-1".into())));
    assert_eq!(skills(json!({"name": "m", "prefix": ""})), Ok(None));
    assert_eq!(skills(json!({"name": "m", "skills": false})), Ok(None));
    for (prefix, said) in [("A", None), ("a_b", None), ("", Some(true))] {
        let problem = skills(json!({"name": "m", "prefix": prefix, "skills": said})).unwrap_err();
        assert!(
            problem.to_string().contains("cannot stand in URIs of skills"),
            "{prefix}"
        );
    }
}

#[test]
fn what_is_said_of_a_server_by_name_stands_before_what_selects_it() {
    for (named, select) in [("a", "z"), ("z", "a")] {
        let entries = json!([
            {"name": named, "server": {"name": "one"}, "prefix": "mine"},
            {"name": select, "selector": {}, "priority": 9},
            {"name": "again", "selector": {"matchLabels": {"tier": "one"}}},
        ]);
        let planned = members(&["one", "two"], "team", entries);
        assert_eq!(planned, told(&[("two", "two", "Test"), (named, "mine", "Test")]));
    }
}

#[test]
fn a_selected_server_gives_way_to_a_member_of_its_name() {
    let entries = json!([
        {"name": "two", "server": {"name": "one"}, "prefix": "x"},
        {"name": "rest", "selector": {}},
    ]);
    assert_eq!(
        members(&["one", "two"], "team", entries),
        told(&[("team.two", "two", "Test"), ("two", "x", "Test")])
    );
}

#[test]
fn members_stand_by_priority_and_then_by_name_in_whatever_order_they_are_said() {
    let mut entries = vec![
        json!({"name": "z", "server": {"name": "one"}, "prefix": "z", "priority": 1}),
        json!({"name": "b", "server": {"name": "two"}, "prefix": "same"}),
        json!({"name": "a", "server": {"name": "three"}, "prefix": "same"}),
        json!({"name": "c", "server": {"name": "four"}, "prefix": "c", "priority": -1}),
    ];
    let mut names = ["one", "two", "three", "four"];
    for _ in 0..entries.len() {
        entries.rotate_left(1);
        names.reverse();
        let planned = members(&names, "team", json!(entries));
        let expected = told(&[
            ("z", "z", "Test"),
            ("a", "same", "Test"),
            ("b", "same", "Test"),
            ("c", "c", "Test"),
        ]);
        assert_eq!(planned, expected);
    }
}

#[test]
fn a_server_may_be_a_member_under_two_names() {
    let entries = json!([
        {"name": "a", "server": {"name": "one"}, "prefix": "x"},
        {"name": "b", "server": {"name": "one"}, "prefix": "y"},
    ]);
    assert_eq!(
        members(&["one"], "team", entries),
        told(&[("a", "x", "Test"), ("b", "y", "Test")])
    );
}

#[test]
fn a_server_of_another_namespace_or_of_none_is_told_apart() {
    let far = json!([
        {"name": "far", "server": {"name": "one", "namespace": "team"}},
        {"name": "gone", "server": {"name": "three", "namespace": "team"}},
    ]);
    let planned = members(&["one"], "other", far);
    assert_eq!(
        planned,
        told(&[("far", "one", "NotPermitted"), ("gone", "three", "NotFound")])
    );
}

#[test]
fn who_has_a_federation_refreshed_has_its_members_refreshed_and_no_others() {
    let resolved = |name: &str| ServerInput {
        endpoint: Ok(Endpoint::Http(crate::upstream::HttpEndpoint {
            url: "http://example.com/mcp".parse().unwrap(),
            headers: http::HeaderMap::new(),
        })),
        refresh: BTreeSet::from(["own".to_owned()]),
        ..server(name)
    };
    let spec = json!({"members": [{"name": "one", "server": {"name": "one"}}]});
    let planned = |mark: Option<&str>| {
        let input = PlanInput {
            servers: vec![resolved("one"), resolved("two")],
            federations: vec![FederationInput {
                key: ObjectKey::new("team", "fed"),
                uid: None,
                spec: serde_json::from_value(spec.clone()).unwrap(),
                access: Access::Anonymous,
                skills: SkillsPlan::default(),
                refresh: mark.map(str::to_owned),
            }],
            namespaces: BTreeMap::new(),
        };
        let servers = plan(&input).servers.into_values();
        servers.map(|server| server.refresh.len()).collect::<Vec<_>>()
    };
    assert_eq!(planned(None), [1, 1]);
    assert_eq!(planned(Some("now")), [2, 1]);
}

#[test]
fn a_process_is_held_once_whatever_its_members_say_of_times() {
    let endpoints = [
        Endpoint::Stdio(crate::upstream::StdioCommand {
            program: "serve".into(),
            args: Vec::new(),
            env: BTreeMap::new(),
            cwd: None,
        }),
        Endpoint::Http(crate::upstream::HttpEndpoint {
            url: "http://a.example/mcp".parse().unwrap(),
            headers: Default::default(),
        }),
    ];
    let [process, remote] = endpoints.map(|endpoint| {
        let members = json!([
            {"name": "plain", "server": {"name": "s"}},
            {"name": "hasty", "server": {"name": "s"}, "prefix": "h", "timeouts": {"call": "1s", "resource": "2s"}},
            {"name": "own", "server": {"name": "s"}, "prefix": "o", "timeouts": {"list": "1s"}, "cache": {"ttl": "5s"}},
        ]);
        plan(&PlanInput {
            servers: vec![ServerInput {
                endpoint: Ok(endpoint),
                ..server("s")
            }],
            federations: vec![FederationInput {
                key: ObjectKey::new("team", "fed"),
                uid: None,
                spec: serde_json::from_value(json!({"members": members})).unwrap(),
                access: Access::Anonymous,
                refresh: None,
                skills: SkillsPlan::default(),
            }],
            namespaces: BTreeMap::new(),
        })
    });
    let of = |plan: &FleetPlan, name: &str| {
        let mut members = plan.federations.values().flat_map(|federation| &federation.members);
        members.find(|member| member.name == name).cloned().unwrap()
    };
    for plan in [&process, &remote] {
        let (plain, hasty) = (of(plan, "plain"), of(plan, "hasty"));
        assert_eq!(
            hasty.upstream(),
            plain.upstream(),
            "its calls are limited, and nothing else"
        );
        assert_eq!(plain.limits, Limits::default());
        assert_eq!(hasty.limits.call, Some(Duration::from_secs(1)));
        assert_eq!(hasty.limits.resource, Some(Duration::from_secs(2)));
        assert_eq!((plain.note(), hasty.note()), (None, None));
    }
    assert_eq!((process.servers.len(), remote.servers.len()), (1, 2));
    let note = of(&process, "own").note().unwrap();
    assert!(note.contains("one process for all members"), "{note}");
    assert_eq!(of(&remote, "own").note(), None);
    assert_eq!(of(&remote, "own").upstream().to_string(), "team/s (own times)");
}
