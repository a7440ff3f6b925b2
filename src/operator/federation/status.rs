//! The status of one federation: told from its plan and from what the gateway serves, without IO.

use std::collections::BTreeMap;

use jiff::Timestamp;

use crate::api::condition::{ACCEPTED, ConditionStatus, DEGRADED, READY, RECONCILING, RESOLVED_REFS};
use crate::api::federation::{IndexStatus, MemberStatus};
use crate::api::{MCPFederation, MCPFederationStatus, STATUS_LIST_MAX};
use crate::fleet::plan::{MemberProblem, Unresolved};
use crate::fleet::{
    Access, FederationObservation, FederationPlan, MemberObservation, MemberPlan, ObjectKey, ServerObservation,
    UpstreamState,
};
use crate::operator::conditions::Conditions;

/// Most members that one message names.
const NAMED_MAX: usize = 10;

/// What was found out about one federation.
#[derive(Clone, Copy, Debug)]
pub struct Facts<'a> {
    /// The members that it shall have.
    pub plan: &'a FederationPlan,
    /// What the gateway serves, if it serves it.
    pub observation: Option<&'a FederationObservation>,
    /// What the gateway sees of the servers.
    pub servers: &'a BTreeMap<ObjectKey, ServerObservation>,
    /// Where clients connect, if that is known.
    pub url: Option<&'a str>,
    /// The time of telling.
    pub now: Timestamp,
}

/// Tells the status of `federation`.
pub fn status(federation: &MCPFederation, facts: &Facts<'_>) -> MCPFederationStatus {
    let old = federation.status.clone().unwrap_or_default();
    // An observation of other members than the planned ones is from before the last change.
    let served = facts.observation.filter(|observation| is_of(observation, facts.plan));
    let members: Vec<MemberStatus> = (0..facts.plan.members.len())
        .filter_map(|index| member(index, facts, served))
        .collect();
    // While a member has not answered since we look, what was told of this spec before is not taken back.
    let settled = served.is_some() && members.iter().all(|member| member.state != CONNECTING);

    let mut conditions = Conditions::new(&old.conditions, federation.metadata.generation, facts.now);
    conditions.put(ACCEPTED, true, "Accepted", "");
    resolved(&mut conditions, facts.plan);
    degraded(&mut conditions, facts.plan, &members, settled);
    ready(&mut conditions, facts.plan, &members, served.is_some());
    if conditions
        .next(READY)
        .is_some_and(|ready| ready.status == ConditionStatus::Unknown)
    {
        conditions.put(
            RECONCILING,
            true,
            "Connecting",
            "the gateway is taking the federation up",
        );
    }

    let index = served.map(|observation| observation.index.clone());
    let keep_index = !settled && conditions.told_for_this_generation(READY);
    MCPFederationStatus {
        observed_generation: federation.metadata.generation,
        conditions: conditions.finish(),
        url: facts.url.map(str::to_owned),
        truncated: members
            .len()
            .checked_sub(STATUS_LIST_MAX)
            .filter(|cut| *cut > 0)
            .map(count),
        members: members
            .into_iter()
            .take(STATUS_LIST_MAX)
            .map(|member| or_before(member, &old.members))
            .collect(),
        index: if keep_index { larger(old.index, index) } else { index },
    }
}

const READY_STATE: &str = "Ready";
const CONNECTING: &str = "Connecting";
const FAILED: &str = "Failed";
const DISABLED: &str = "Disabled";
const NOT_FOUND: &str = "NotFound";

/// Whether `observation` was made of the planned members.
fn is_of(observation: &FederationObservation, plan: &FederationPlan) -> bool {
    let same = |(seen, planned): (&MemberObservation, &MemberPlan)| {
        seen.name == planned.name
            && seen.server == planned.server
            && seen.prefix == planned.prefix
            && seen.problem.as_ref().map(|(reason, _)| *reason) == planned.problem.as_ref().map(MemberProblem::reason)
    };
    observation.members.len() == plan.members.len() && observation.members.iter().zip(&plan.members).all(same)
}

fn member(index: usize, facts: &Facts<'_>, served: Option<&FederationObservation>) -> Option<MemberStatus> {
    let planned = facts.plan.members.get(index)?;
    let seen = served.and_then(|observation| observation.members.get(index));
    // Of a server whose owner does not permit it nothing may be told.
    let server = facts.servers.get(&planned.server).filter(|_| planned.problem.is_none());
    let (state, last_error) = state(planned, server);
    Some(MemberStatus {
        name: planned.name.clone(),
        server: planned.server.to_string(),
        prefix: planned.prefix.clone(),
        state: state.into(),
        era: server
            .and_then(|server| server.server_info.as_ref())
            .map(|info| info.era.clone()),
        tools: seen.map_or(0, |seen| count(seen.tools)),
        note: planned.note(),
        last_error,
    })
}

/// A member that was ready before stays so while it has not answered: a new leader has seen nothing yet.
fn or_before(member: MemberStatus, before: &[MemberStatus]) -> MemberStatus {
    let is_same = |old: &&MemberStatus| {
        old.name == member.name
            && old.server == member.server
            && old.prefix == member.prefix
            && old.state == READY_STATE
    };
    match before.iter().find(is_same) {
        Some(before) if member.state == CONNECTING => before.clone(),
        _ => member,
    }
}

fn state(planned: &MemberPlan, server: Option<&ServerObservation>) -> (&'static str, Option<String>) {
    match (&planned.problem, server.map(|server| &server.state)) {
        (Some(MemberProblem::NotFound), _) => (NOT_FOUND, Some(MemberProblem::NotFound.to_string())),
        (Some(MemberProblem::Disabled), _) => (DISABLED, None),
        (Some(problem), _) => (FAILED, Some(format!("{}: {problem}", problem.reason()))),
        (None, Some(UpstreamState::Ready)) => (READY_STATE, None),
        (None, Some(UpstreamState::Failed { reason, message })) => (FAILED, Some(format!("{reason}: {message}"))),
        (None, Some(UpstreamState::Connecting) | None) => (CONNECTING, None),
    }
}

/// What the federation names and cannot have: API keys, members that are not there or not permitted, and files of
/// skills.
fn resolved(conditions: &mut Conditions<'_>, plan: &FederationPlan) {
    match (
        plan.access.problem(),
        lacking_members(plan).or_else(|| lacking_files(plan)),
    ) {
        (None, None) => conditions.put(RESOLVED_REFS, true, "Resolved", ""),
        (None, Some((reason, message))) => conditions.put(RESOLVED_REFS, false, reason, message),
        (Some(access), None) => conditions.put(RESOLVED_REFS, truth(access), access.reason, &access.message),
        (Some(access), Some((_, members))) => {
            let message = format!("{}; {members}", access.message);
            conditions.put(RESOLVED_REFS, false, access.reason, message);
        }
    }
}

/// What was not read yet is neither there nor missing.
fn truth(unresolved: &Unresolved) -> ConditionStatus {
    match unresolved.reason {
        "RefPending" => ConditionStatus::Unknown,
        _ => ConditionStatus::False,
    }
}

fn lacking_members(plan: &FederationPlan) -> Option<(&'static str, String)> {
    let mut lacking = plan.members.iter().filter_map(|member| match &member.problem {
        Some(problem @ (MemberProblem::NotFound | MemberProblem::NotPermitted)) => Some((member, problem)),
        _ => None,
    });
    let (first, problem) = lacking.next()?;
    let others: Vec<&str> = lacking.map(|(member, _)| member.name.as_str()).collect();
    let others = if others.is_empty() {
        String::new()
    } else {
        format!("; also members {}", names(&others))
    };
    let message = format!("member {:?} ({}): {problem}{others}", first.name, first.server);
    Some((problem.reason(), message))
}

/// The sources of skills that cannot be had, or else what in them is no skill.
fn lacking_files(plan: &FederationPlan) -> Option<(&'static str, String)> {
    let mut problems = plan.skill_problems.iter();
    let is_lacking = |reason| matches!(reason, "RefNotFound" | "RefUnreadable" | "DirectoryUnsupported");
    match problems.find(|problem| is_lacking(problem.why.reason)) {
        Some(lacking) => Some((lacking.why.reason, lacking.to_string())),
        None => left_out(plan).map(|left_out| ("InvalidSkill", left_out)),
    }
}

/// What of the federation's own skills is not served, if anything: what is not read yet is no fault.
fn left_out(plan: &FederationPlan) -> Option<String> {
    let problems = plan
        .skill_problems
        .iter()
        .filter(|problem| problem.why.reason != "RefPending");
    let told: Vec<String> = problems.map(ToString::to_string).collect();
    let shown = told
        .iter()
        .take(NAMED_MAX)
        .map(String::as_str)
        .collect::<Vec<_>>()
        .join("; ");
    match told.len().saturating_sub(NAMED_MAX) {
        _ if told.is_empty() => None,
        0 => Some(shown),
        more => Some(format!("{shown}; and {more} more")),
    }
}

fn degraded(conditions: &mut Conditions<'_>, plan: &FederationPlan, members: &[MemberStatus], settled: bool) {
    let failing: Vec<&str> = of_state(members, &[FAILED, NOT_FOUND]);
    if !failing.is_empty() {
        let message = format!("not ready: {}; status.members says why", names(&failing));
        return conditions.put(DEGRADED, true, "MembersNotReady", message);
    }
    if let Some(left_out) = left_out(plan) {
        return conditions.put(
            DEGRADED,
            true,
            "SkillsLeftOut",
            format!("skills are left out: {left_out}"),
        );
    }
    if settled {
        return conditions.put(DEGRADED, false, "AllMembersReady", "");
    }
    let kept = conditions.told_for_this_generation(DEGRADED) && conditions.keep(DEGRADED);
    if !kept {
        let connecting = names(&of_state(members, &[CONNECTING]));
        conditions.put(
            DEGRADED,
            ConditionStatus::Unknown,
            "Connecting",
            format!("not heard of yet: {connecting}"),
        );
    }
}

fn ready(conditions: &mut Conditions<'_>, plan: &FederationPlan, members: &[MemberStatus], served: bool) {
    if let Access::Closed(why) = &plan.access {
        let message = format!("nobody can connect: {}", why.message);
        return conditions.put(READY, truth(why), why.reason, message);
    }
    let any = |state| members.iter().any(|member| member.state == state);
    let waiting = !served || (any(CONNECTING) && !any(READY_STATE));
    if waiting {
        let kept = conditions.told_for_this_generation(READY) && conditions.keep(READY);
        if !kept {
            let message = "no member has answered yet";
            conditions.put(READY, ConditionStatus::Unknown, "Connecting", message);
        }
    } else if members.is_empty() && plan.index.own.is_none() {
        conditions.put(READY, true, "NoMembers", "the endpoint answers, with nothing behind it");
    } else if any(READY_STATE) || members.is_empty() {
        conditions.put(READY, true, "Serving", "");
    } else {
        conditions.put(
            READY,
            false,
            "NoReadyMembers",
            "no member is ready; status.members says why",
        );
    }
}

fn of_state<'a>(members: &'a [MemberStatus], states: &[&str]) -> Vec<&'a str> {
    let matching = members.iter().filter(|member| states.contains(&member.state.as_str()));
    matching.map(|member| member.name.as_str()).collect()
}

fn names(names: &[&str]) -> String {
    let shown = names.iter().take(NAMED_MAX).copied().collect::<Vec<_>>().join(", ");
    match names.len().saturating_sub(NAMED_MAX) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}

/// Counts only grow while members come up one by one.
fn larger(old: Option<IndexStatus>, new: Option<IndexStatus>) -> Option<IndexStatus> {
    match (old, new) {
        (Some(old), Some(new)) => Some(IndexStatus {
            tools: old.tools.max(new.tools),
            resources: old.resources.max(new.resources),
            templates: old.templates.max(new.templates),
            prompts: old.prompts.max(new.prompts),
            skills: old.skills.max(new.skills),
            bytes: old.bytes.max(new.bytes),
            estimated_tokens: old.estimated_tokens.max(new.estimated_tokens),
            ..new
        }),
        (old, new) => new.or(old),
    }
}

fn count(number: usize) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
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
}
