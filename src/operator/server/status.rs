//! The status of one server: told from its spec, its plan and what was found, without IO.

use jiff::Timestamp;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Pod;

use super::address::spec_is_at_fault;
use super::apply::Refusal;
use super::cause::{Cause, cause};
use super::plan::{Plan, paused};
use super::rollout::Rollout;
use crate::api::condition::{
    ACCEPTED, AVAILABLE, ConditionStatus, READY, RECONCILING, RESOLVED_REFS, STALLED, VERIFIED,
};
use crate::api::server::{Address, CatalogStatus, ServerInfo};
use crate::api::source::{ContainerTransportType, RemoteTransportType};
use crate::api::{MCPServer, MCPServerStatus};
use crate::fleet::{ServerObservation, UpstreamState};
use crate::operator::conditions::Conditions;
use crate::operator::names::SERVER_LABEL;
use crate::upstream::Endpoint;

/// What was found out about one server.
#[derive(Clone, Copy, Debug)]
pub struct Facts<'a> {
    /// What is to be done for it.
    pub plan: &'a Plan,
    /// Why that was refused, if it was.
    pub refusal: Option<&'a Refusal>,
    /// The Deployment that it owns, after that was done.
    pub deployment: Option<&'a Deployment>,
    /// Whether the Deployment's spec is the planned one.
    pub in_step: bool,
    /// Its pods.
    pub pods: &'a [&'a Pod],
    /// What the gateway sees of it.
    pub observation: Option<&'a ServerObservation>,
    /// The time of telling.
    pub now: Timestamp,
}

/// Tells the status of `server`.
pub fn status(server: &MCPServer, facts: &Facts<'_>) -> MCPServerStatus {
    let old = server.status.clone().unwrap_or_default();
    let rollout = facts
        .deployment
        .map(|deployment| Rollout::of(deployment, facts.in_step));
    let seen = Seen::of(server, facts);
    let mut conditions = Conditions::new(&old.conditions, server.metadata.generation, facts.now);

    let accepted = accepted(&mut conditions, facts);
    resolved(&mut conditions, facts);
    let cause = facts
        .deployment
        .and_then(|deployment| cause(deployment, facts.pods.iter().copied()));
    // A change that is refused leaves the pods of before at work, and they are told of as they are.
    let serving = facts.plan.endpoint.is_ok() && rollout.is_some_and(|rollout| rollout.available > 0);
    if server.spec.container.is_some() && (accepted || serving) {
        available(&mut conditions, facts, rollout, cause.as_ref());
    }
    if accepted || serving {
        verified(&mut conditions, seen);
    }
    ready(&mut conditions, server, facts, serving);
    progress(&mut conditions, server, rollout, cause.as_ref());

    let (server_info, catalog) = seen.offers(&old);
    let container = server.spec.container.is_some();
    MCPServerStatus {
        observed_generation: server.metadata.generation,
        conditions: conditions.finish(),
        address: facts.plan.endpoint.as_ref().ok().and_then(address),
        transport: facts.plan.endpoint.is_ok().then(|| seen.transport(server).to_owned()),
        server_info,
        replicas: container.then(|| rollout.map_or(0, |rollout| rollout.total)),
        ready_replicas: container.then(|| rollout.map_or(0, |rollout| rollout.ready)),
        selector: container.then(|| format!("{SERVER_LABEL}={}", server.metadata.name.as_deref().unwrap_or_default())),
        catalog,
    }
}

/// What the gateway has seen, as far as it speaks of the server as it is now.
#[derive(Clone, Copy)]
enum Seen<'a> {
    Disabled,
    /// Nothing for this endpoint yet.
    Nothing,
    Ready(&'a ServerObservation),
    Failed(&'a ServerObservation, &'static str, &'a str),
}

impl<'a> Seen<'a> {
    fn of(server: &MCPServer, facts: &Facts<'a>) -> Self {
        if server.spec.disabled {
            return Self::Disabled;
        }
        let current = facts
            .observation
            .filter(|o| facts.plan.endpoint.as_ref() == Ok(&o.endpoint));
        match current.map(|observation| (observation, &observation.state)) {
            None | Some((_, UpstreamState::Connecting)) => Self::Nothing,
            Some((observation, UpstreamState::Ready)) => Self::Ready(observation),
            Some((observation, UpstreamState::Failed { reason, message })) => {
                Self::Failed(observation, reason, message)
            }
        }
    }

    /// The transport in use, or the one that is tried first.
    fn transport(self, server: &MCPServer) -> &'static str {
        let used = match self {
            Self::Disabled | Self::Nothing => None,
            Self::Ready(seen) | Self::Failed(seen, ..) => seen.transport,
        };
        let spec = &server.spec;
        let is_old = spec
            .container
            .as_ref()
            .is_some_and(|it| it.transport.type_ == ContainerTransportType::SSE)
            || spec
                .remote
                .as_ref()
                .and_then(|it| it.transport)
                .is_some_and(|it| it.type_ == RemoteTransportType::SSE);
        used.unwrap_or(if is_old { "SSE" } else { "StreamableHTTP" })
    }

    /// What the server says of itself and offers; the last known until there is news.
    fn offers(self, old: &MCPServerStatus) -> (Option<ServerInfo>, Option<CatalogStatus>) {
        match self {
            Self::Disabled | Self::Nothing => (old.server_info.clone(), old.catalog.clone()),
            Self::Ready(seen) | Self::Failed(seen, ..) => (seen.server_info.clone(), seen.catalog.clone()),
        }
    }
}

/// The address, without its query, which may hold a key.
fn address(endpoint: &Endpoint) -> Option<Address> {
    let Endpoint::Http(http) = endpoint else {
        return None;
    };
    let url = http.url.to_string();
    let url = url.split_once('?').map_or(url.as_str(), |(url, _)| url);
    Some(Address { url: url.to_owned() })
}

fn accepted(conditions: &mut Conditions<'_>, facts: &Facts<'_>) -> bool {
    let at_fault = facts.plan.endpoint.as_ref().err().filter(|u| spec_is_at_fault(u));
    let refusal = facts.refusal.filter(|refusal| refusal.of_the_spec);
    match (at_fault, refusal) {
        (Some(unresolved), _) => conditions.put(ACCEPTED, false, unresolved.reason, &unresolved.message),
        (None, Some(refusal)) => conditions.put(ACCEPTED, false, refusal.reason, &refusal.message),
        (None, None) => {
            conditions.put(ACCEPTED, true, "Accepted", "");
            return true;
        }
    }
    false
}

fn resolved(conditions: &mut Conditions<'_>, facts: &Facts<'_>) {
    match &facts.plan.unresolved {
        None => conditions.put(RESOLVED_REFS, true, "Resolved", ""),
        Some(pending) if pending.reason == "RefPending" => {
            conditions.put(
                RESOLVED_REFS,
                ConditionStatus::Unknown,
                pending.reason,
                &pending.message,
            );
        }
        Some(unresolved) => conditions.put(RESOLVED_REFS, false, unresolved.reason, &unresolved.message),
    }
}

fn available(conditions: &mut Conditions<'_>, facts: &Facts<'_>, rollout: Option<Rollout>, cause: Option<&Cause>) {
    let Some(rollout) = rollout else {
        let (reason, message) = match (facts.refusal, &facts.plan.unresolved) {
            (Some(refusal), _) => (refusal.reason, refusal.message.as_str()),
            (None, Some(unresolved)) => (unresolved.reason, unresolved.message.as_str()),
            (None, None) => ("Progressing", "no pod is made yet"),
        };
        return conditions.put(AVAILABLE, false, reason, message);
    };
    if rollout.current {
        conditions.put(AVAILABLE, true, "PodsAvailable", "");
    } else if rollout.available > 0 {
        // Pods of the version before serve: what was told of them stays true, for the generation it was told for.
        let serving = conditions
            .old(AVAILABLE)
            .is_some_and(|old| old.status == ConditionStatus::True);
        if !(serving && conditions.keep(AVAILABLE)) {
            conditions.put(
                AVAILABLE,
                ConditionStatus::Unknown,
                "RollingOut",
                "pods of an earlier version serve",
            );
        }
    } else if rollout.desired == 0 {
        conditions.put(AVAILABLE, false, "ScaledToZero", "the server is scaled to 0 replicas");
    } else if let Some(cause) = cause {
        conditions.put(AVAILABLE, false, cause.reason, &cause.message);
    } else if let Some(refusal) = facts.refusal {
        conditions.put(AVAILABLE, false, refusal.reason, &refusal.message);
    } else {
        conditions.put(AVAILABLE, false, "Progressing", "no pod is ready yet");
    }
}

fn verified(conditions: &mut Conditions<'_>, seen: Seen<'_>) {
    match seen {
        Seen::Ready(_) => conditions.put(VERIFIED, true, "HandshakeDone", ""),
        Seen::Failed(_, reason, message) => conditions.put(VERIFIED, false, reason, message),
        Seen::Disabled => conditions.put(VERIFIED, ConditionStatus::Unknown, "Disabled", ""),
        Seen::Nothing => {
            // A new leader has seen nothing yet: what the one before it saw of this spec holds until then.
            let told = conditions.told_for_this_generation(VERIFIED);
            let disabled = conditions.old(VERIFIED).is_some_and(|old| old.reason == "Disabled");
            if !(told && !disabled && conditions.keep(VERIFIED)) {
                conditions.put(
                    VERIFIED,
                    ConditionStatus::Unknown,
                    "Connecting",
                    "no handshake has succeeded or failed yet",
                );
            }
        }
    }
}

fn ready(conditions: &mut Conditions<'_>, server: &MCPServer, facts: &Facts<'_>, serving: bool) {
    if server.spec.disabled
        && conditions
            .next(ACCEPTED)
            .is_some_and(|c| c.status == ConditionStatus::True)
    {
        return conditions.put(READY, false, "Disabled", "spec.disabled is true");
    }
    let needs_references = facts.plan.endpoint.is_err();
    let needs = [ACCEPTED, RESOLVED_REFS, AVAILABLE, VERIFIED];
    let told = needs
        .into_iter()
        .filter(|type_| *type_ != RESOLVED_REFS || needs_references)
        .filter(|type_| *type_ != ACCEPTED || !serving)
        .filter_map(|type_| conditions.next(type_));
    // The first one that fails is the cause of those after it; among the others, the first that is not known.
    let lacking = told
        .filter(|c| c.status != ConditionStatus::True)
        .min_by_key(|c| c.status != ConditionStatus::False)
        .cloned();
    if let Some(lacking) = lacking {
        return conditions.put(READY, lacking.status, &lacking.reason, lacking.message);
    }
    let current = [AVAILABLE, VERIFIED]
        .into_iter()
        .filter_map(|type_| conditions.next(type_))
        .all(|c| c.observed_generation == server.metadata.generation);
    let was_ready = conditions
        .old(READY)
        .is_some_and(|old| old.status == ConditionStatus::True);
    if current {
        conditions.put(READY, true, "Callable", "");
    } else if !(was_ready && conditions.keep(READY)) {
        conditions.put(
            READY,
            ConditionStatus::Unknown,
            "RollingOut",
            "pods of an earlier version serve",
        );
    }
}

/// `Stalled` while only a person can help, `Reconciling` while the spec is being carried out, neither otherwise.
fn progress(conditions: &mut Conditions<'_>, server: &MCPServer, rollout: Option<Rollout>, cause: Option<&Cause>) {
    let of = |type_| conditions.next(type_).cloned();
    let unless_true = |type_| of(type_).filter(|c| c.status != ConditionStatus::True);
    if let Some(accepted) = unless_true(ACCEPTED) {
        return conditions.put(STALLED, true, &accepted.reason, accepted.message);
    }
    if paused(server) {
        return conditions.put(
            STALLED,
            true,
            "Paused",
            "the annotation mcpfleet.dev/paused is set; remove it to go on",
        );
    }
    let available = unless_true(AVAILABLE);
    if let Some(terminating) = available.as_ref().filter(|c| c.reason == "NamespaceTerminating") {
        return conditions.put(STALLED, true, "NamespaceTerminating", &terminating.message);
    }
    if let Some(rollout) = rollout.filter(|rollout| !rollout.complete) {
        let (reason, message) = cause.map_or(("RollingOut", "pods are being replaced or started"), |cause| {
            (cause.reason, cause.message.as_str())
        });
        let type_ = if rollout.stuck { STALLED } else { RECONCILING };
        return conditions.put(type_, true, reason, message);
    }
    if available.as_ref().is_some_and(|c| c.reason == "ScaledToZero") {
        return;
    }
    let pending = available
        .or_else(|| unless_true(RESOLVED_REFS))
        .or_else(|| of(VERIFIED).filter(|c| c.status == ConditionStatus::Unknown && c.reason != "Disabled"));
    if let Some(pending) = pending {
        conditions.put(RECONCILING, true, &pending.reason, pending.message);
    }
}

#[cfg(test)]
#[path = "status_tests.rs"]
mod tests;
