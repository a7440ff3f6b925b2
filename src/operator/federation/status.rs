//! The status of one federation: told from its plan and from what the gateway serves, without IO.

use std::collections::BTreeMap;

use jiff::Timestamp;

use crate::api::condition::{ACCEPTED, ConditionStatus, DEGRADED, READY, RECONCILING, RESOLVED_REFS};
use crate::api::federation::{IndexStatus, MemberStatus};
use crate::api::{MCPFederation, MCPFederationStatus, STATUS_LIST_MAX};
use crate::fleet::{
    Access, FederationObservation, FederationPlan, MemberObservation, MemberPlan, MemberProblem, ObjectKey,
    ServerObservation, Unresolved, UpstreamState,
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
mod tests;
