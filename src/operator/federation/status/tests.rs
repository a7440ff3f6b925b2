use std::sync::Arc;

use serde_json::json;

use super::*;
use crate::api::federation::Encoding;
use crate::api::server::ServerInfo;
use crate::fleet::{
    Content, IdentityPlan, OriginPlan, ProtocolPlan, Reference, ReferenceKind, References, SessionPlan, SkillsPlan,
    StreamPlan,
};
use crate::index::IndexPlan;
use crate::mcp::apps;
use crate::upstream::{Endpoint, HttpEndpoint};

fn federation(generation: i64, status: Option<MCPFederationStatus>) -> MCPFederation {
    let mut federation: MCPFederation = serde_json::from_value(json!({
        "apiVersion": "mcpfleet.dev/v1alpha1", "kind": "MCPFederation",
        "metadata": {"name": "all", "namespace": "team", "generation": generation},
        "spec": {"access": {"anonymous": {}}},
    }))
    .unwrap();
    federation.status = status;
    federation
}

fn planned(name: &str, problem: Option<MemberProblem>) -> MemberPlan {
    MemberPlan {
        name: name.into(),
        server: ObjectKey::new("team", name),
        variation: Default::default(),
        limits: Default::default(),
        says_owners_times: false,
        prefix: name.into(),
        priority: 0,
        skills: Ok(None),
        selection: Arc::default(),
        problem,
    }
}

fn seen(plan: &FederationPlan, tools: i64) -> FederationObservation {
    let members = plan.members.iter().map(|member| MemberObservation {
        name: member.name.clone(),
        server: member.server.clone(),
        prefix: member.prefix.clone(),
        problem: member.problem.as_ref().map(|p| (p.reason(), p.to_string())),
        tools: 3,
        note: None,
    });
    FederationObservation {
        unmatched: Vec::new(),
        members: members.collect(),
        index: IndexStatus {
            tools,
            ..IndexStatus::default()
        },
        skill_problems: Vec::new(),
    }
}

fn server(name: &str, state: UpstreamState) -> (ObjectKey, ServerObservation) {
    let url = format!("http://{name}/mcp").parse().unwrap();
    let info = ServerInfo {
        name: name.into(),
        version: String::new(),
        protocol_version: "2025-11-25".into(),
        era: "Legacy".into(),
    };
    let observation = ServerObservation {
        endpoint: Endpoint::Http(HttpEndpoint {
            url,
            headers: http::HeaderMap::new(),
        }),
        transport: None,
        server_info: (state == UpstreamState::Ready).then_some(info),
        state,
        catalog: None,
    };
    (ObjectKey::new("team", name), observation)
}

fn failed() -> UpstreamState {
    UpstreamState::Failed {
        reason: "Timeout",
        message: "no answer".into(),
    }
}

struct World {
    plan: FederationPlan,
    observation: Option<FederationObservation>,
    servers: BTreeMap<ObjectKey, ServerObservation>,
}

impl World {
    fn new(plan: Vec<MemberPlan>, servers: Vec<(ObjectKey, ServerObservation)>) -> Self {
        let plan = FederationPlan {
            uid: None,
            members: plan,
            access: Access::Anonymous,
            origins: OriginPlan::default(),
            protocol: ProtocolPlan::default(),
            sessions: SessionPlan::default(),
            streams: StreamPlan::default(),
            index: IndexPlan::default(),
            apps: apps::Terms::default(),
            encoding: Encoding::default(),
            discovery: Default::default(),
            extensions: BTreeMap::new(),
            fanout_hops: 0,
            skill_problems: Vec::new(),
            identity: IdentityPlan::default(),
            page_size: 0,
            own_catalogs: 1,
        };
        Self {
            observation: Some(seen(&plan, 3)),
            plan,
            servers: servers.into_iter().collect(),
        }
    }

    fn tell(&self, federation: &MCPFederation) -> MCPFederationStatus {
        let facts = Facts {
            plan: &self.plan,
            observation: self.observation.as_ref(),
            servers: &self.servers,
            url: Some("http://gw/team/all/mcp"),
            now: Timestamp::from_second(1_800_000_000).unwrap(),
        };
        status(federation, &facts)
    }
}

fn words(status: &MCPFederationStatus, type_: &str) -> String {
    let condition = crate::api::condition::find(&status.conditions, type_);
    condition.map_or_else(|| "-".into(), |c| format!("{:?} {}", c.status, c.reason))
}

#[test]
fn one_ready_member_is_enough_and_the_others_are_named() {
    let world = World::new(
        vec![
            planned("a", None),
            planned("b", None),
            planned("c", Some(MemberProblem::NotFound)),
        ],
        vec![server("a", UpstreamState::Ready), server("b", failed())],
    );
    let status = world.tell(&federation(1, None));
    assert_eq!(words(&status, READY), "True Serving");
    assert_eq!(words(&status, DEGRADED), "True MembersNotReady");
    assert_eq!(words(&status, RESOLVED_REFS), "False NotFound");
    assert_eq!(words(&status, RECONCILING), "-");
    let degraded = crate::api::condition::find(&status.conditions, DEGRADED).unwrap();
    assert_eq!(degraded.message, "not ready: b, c; status.members says why");
    let told: Vec<_> = status
        .members
        .iter()
        .map(|m| (m.state.as_str(), m.last_error.as_deref()))
        .collect();
    assert_eq!(told[0], ("Ready", None));
    assert_eq!(told[1], ("Failed", Some("Timeout: no answer")));
    assert_eq!(told[2].0, "NotFound");
    assert_eq!(status.index.unwrap().tools, 3);
    assert_eq!(status.url.as_deref(), Some("http://gw/team/all/mcp"));
}

#[test]
fn no_members_is_ready_and_says_so() {
    let status = World::new(vec![], vec![]).tell(&federation(1, None));
    assert_eq!(words(&status, READY), "True NoMembers");
    assert_eq!(words(&status, DEGRADED), "False AllMembersReady");
}

#[test]
fn disabled_members_do_not_degrade_but_do_not_serve() {
    let world = World::new(vec![planned("a", Some(MemberProblem::Disabled))], vec![]);
    let status = world.tell(&federation(1, None));
    assert_eq!(words(&status, READY), "False NoReadyMembers");
    assert_eq!(words(&status, DEGRADED), "False AllMembersReady");
    assert_eq!(status.members[0].state, "Disabled");
}

#[test]
fn nothing_of_a_server_that_is_not_permitted_is_told() {
    let world = World::new(
        vec![planned("a", Some(MemberProblem::NotPermitted))],
        vec![server("a", UpstreamState::Ready)],
    );
    let status = world.tell(&federation(1, None));
    assert_eq!(words(&status, RESOLVED_REFS), "False NotPermitted");
    assert_eq!(status.members[0].era, None);
}

/// The skills that a federation has of these files of a ConfigMap, if it is there.
fn skills(files: Option<&[(&str, &str)]>) -> SkillsPlan {
    let items = [("a", "backup/SKILL.md"), ("b", "alpha/SKILL.md")];
    let items = items.map(|(key, path)| json!({"key": key, "path": path}));
    let spec = json!({"skills": [{"configMapRef": {"name": "runbooks"}, "items": items}]});
    let config_map = Reference::new(ReferenceKind::ConfigMap, "team", "runbooks");
    let content = files.map_or(Content::Missing, |files| {
        let values = files.iter().map(|(key, name)| {
            let manifest = format!("---\nname: {name}\ndescription: D\n---\n");
            ((*key).to_owned(), manifest.into_bytes())
        });
        Content::Found(values.collect())
    });
    let references: References = [(config_map, content)].into_iter().collect();
    SkillsPlan::resolve(&serde_json::from_value(spec).unwrap(), "team", &references)
}

#[test]
fn skills_that_are_left_out_are_named_and_the_others_are_served() {
    let mut world = World::new(vec![], vec![]);
    let found = skills(Some(&[("a", "backup"), ("b", "beta")]));
    (world.plan.index.own, world.plan.skill_problems) = (found.own, found.problems);
    let status = world.tell(&federation(1, None));
    assert_eq!(words(&status, READY), "True Serving");
    assert_eq!(words(&status, RESOLVED_REFS), "False InvalidSkill");
    assert_eq!(words(&status, DEGRADED), "True SkillsLeftOut");
    for condition in [RESOLVED_REFS, DEGRADED] {
        let told = crate::api::condition::find(&status.conditions, condition).unwrap();
        for part in ["\"runbooks\"", "alpha", "`name: beta`"] {
            assert!(told.message.contains(part), "{}", told.message);
        }
    }
    let missing = skills(None);
    (world.plan.index.own, world.plan.skill_problems) = (missing.own, missing.problems);
    let status = world.tell(&federation(1, None));
    assert_eq!(words(&status, RESOLVED_REFS), "False RefNotFound");
    assert_eq!(words(&status, READY), "True NoMembers");
}

/// The access of a federation whose keys are in a Secret with this content.
fn by_key(content: Option<Content>) -> Access {
    let spec = json!({"access": {"apiKeys": {"secretRef": {"name": "keys"}}}});
    let secret = Reference::new(ReferenceKind::Secret, "team", "keys");
    let references: References = content.into_iter().map(|content| (secret.clone(), content)).collect();
    Access::resolve(&serde_json::from_value(spec).unwrap(), "team", &references)
}

#[test]
fn without_its_keys_a_federation_is_not_ready_and_says_why() {
    let mut world = World::new(vec![planned("a", None)], vec![server("a", UpstreamState::Ready)]);
    for (content, told) in [
        (Some(Content::Missing), "False RefNotFound"),
        (Some(Content::Unreadable("forbidden".into())), "False RefUnreadable"),
        (None, "Unknown RefPending"),
    ] {
        world.plan.access = by_key(content);
        let status = world.tell(&federation(1, None));
        assert_eq!(words(&status, RESOLVED_REFS), told);
        assert_eq!(words(&status, READY), told);
        assert_eq!(words(&status, DEGRADED), "False AllMembersReady");
    }
}

#[test]
fn a_key_that_cannot_be_used_is_named_and_the_others_serve() {
    let values = [("alice", "good"), ("bob", "has spaces")];
    let values = values.map(|(name, key)| (name.to_owned(), key.as_bytes().to_vec()));
    let mut world = World::new(
        vec![planned("a", None), planned("b", Some(MemberProblem::NotFound))],
        vec![server("a", UpstreamState::Ready)],
    );
    world.plan.access = by_key(Some(Content::Found(values.into())));
    let status = world.tell(&federation(1, None));
    assert_eq!(words(&status, RESOLVED_REFS), "False InvalidKey");
    assert_eq!(words(&status, READY), "True Serving");
    let resolved = crate::api::condition::find(&status.conditions, RESOLVED_REFS).unwrap();
    for part in ["\"bob\"", "member \"b\""] {
        assert!(resolved.message.contains(part), "{}", resolved.message);
    }
    assert!(!resolved.message.contains("has spaces"));
}

#[test]
fn a_new_leader_takes_nothing_back_before_it_has_seen_for_itself() {
    let mut world = World::new(vec![planned("a", None)], vec![server("a", UpstreamState::Ready)]);
    let before = world.tell(&federation(1, None));
    world.servers = [server("a", UpstreamState::Connecting)].into_iter().collect();
    world.observation = Some(seen(&world.plan, 0));
    assert_eq!(world.tell(&federation(1, Some(before.clone()))), before);
    world.observation = None;
    assert_eq!(world.tell(&federation(1, Some(before.clone()))), before);
    world.observation = Some(seen(&world.plan, 0));
    world.servers = [server("a", failed())].into_iter().collect();
    let after = world.tell(&federation(1, Some(before)));
    assert_eq!(words(&after, READY), "False NoReadyMembers");
    assert_eq!(after.index.unwrap().tools, 0);
}

#[test]
fn an_observation_of_other_members_proves_nothing() {
    let mut world = World::new(vec![planned("a", None)], vec![server("a", UpstreamState::Ready)]);
    let before = world.tell(&federation(1, None));
    world.plan.members.push(planned("b", None));
    let status = world.tell(&federation(2, Some(before)));
    assert_eq!(words(&status, READY), "Unknown Connecting");
    assert_eq!(words(&status, RECONCILING), "True Connecting");
}

#[test]
fn the_list_of_members_is_cut_and_the_rest_counted() {
    let plan: Vec<_> = (0..130)
        .map(|n| planned(&format!("m{n:03}"), Some(MemberProblem::NotFound)))
        .collect();
    let status = World::new(plan, vec![]).tell(&federation(1, None));
    assert_eq!((status.members.len(), status.truncated), (100, Some(30)));
    let degraded = crate::api::condition::find(&status.conditions, DEGRADED).unwrap();
    assert!(degraded.message.contains("m009 and 120 more"), "{}", degraded.message);
}
