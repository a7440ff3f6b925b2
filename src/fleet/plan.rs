//! Which upstreams to hold and which members each federation has: planned from objects, without IO.

use std::collections::BTreeMap;

use super::access::Access;
use super::discovery::DiscoveryPlan;
use super::extensions;
use super::identity::IdentityPlan;
use super::member_plan::{MemberPlan, plan_members};
use super::object_key::ObjectKey;
use super::origins::OriginPlan;
use super::protocol::ProtocolPlan;
use super::server_plan::{ServerInput, ServerPlan};
use super::sessions::SessionPlan;
use super::skills::{SkillProblem, SkillsPlan};
use super::streams::StreamPlan;
use super::variation::UpstreamKey;
use crate::api::federation::{Encoding, HideAppOnly, MCPFederationSpec};
use crate::defaults;
use crate::index::{AccessRules, IndexPlan, Naming};
use crate::mcp::apps;

/// One federation as the planner needs it.
#[derive(Clone, Debug, PartialEq)]
pub struct FederationInput {
    /// Its namespace and name.
    pub key: ObjectKey,
    /// What tells its object from all others anywhere, if it is one of a cluster.
    pub uid: Option<String>,
    /// What its object says.
    pub spec: MCPFederationSpec,
    /// Who may connect.
    pub access: Access,
    /// What has the lists of all its members read again whenever it is another one.
    pub refresh: Option<String>,
    /// The skills that it serves itself.
    pub skills: SkillsPlan,
}

/// Everything the planner sees.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PlanInput {
    /// All servers.
    pub servers: Vec<ServerInput>,
    /// All federations.
    pub federations: Vec<FederationInput>,
    /// Labels of each namespace.
    pub namespaces: BTreeMap<String, BTreeMap<String, String>>,
}

/// What is to be served.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FleetPlan {
    /// The upstreams to hold: every server that is enabled and resolved, in a federation or not, and the variations of
    /// it that members have.
    pub servers: BTreeMap<UpstreamKey, ServerPlan>,
    /// The federations to serve.
    pub federations: BTreeMap<ObjectKey, FederationPlan>,
}

/// One federation to serve.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FederationPlan {
    /// What tells it from all others anywhere, if anything does.
    pub uid: Option<String>,
    /// Its members: higher priority first, then by name.
    pub members: Vec<MemberPlan>,
    /// Who may connect.
    pub access: Access,
    /// Which web pages may call.
    pub origins: OriginPlan,
    /// What it speaks with them.
    pub protocol: ProtocolPlan,
    /// Sessions of its Legacy clients.
    pub sessions: SessionPlan,
    /// Streams of its clients.
    pub streams: StreamPlan,
    /// How what its members offer becomes one.
    pub index: IndexPlan,
    /// Which clients show user interfaces.
    pub apps: apps::Terms,
    /// How texts of JSON in results are written.
    pub encoding: Encoding,
    /// How clients find what is not listed.
    pub discovery: DiscoveryPlan,
    /// Extensions that are declared in any case, by id, with their settings as JSON.
    pub extensions: BTreeMap<String, String>,
    /// A read that nobody owns is forwarded if it was forwarded less often before.
    pub fanout_hops: u64,
    /// What of the skills that it should serve itself is left out.
    pub skill_problems: Vec<SkillProblem>,
    /// What it says of itself.
    pub identity: IdentityPlan,
    /// Most entries of one page of a list; 0 for all.
    pub page_size: usize,
    /// Most catalogs of callers' own that are kept at a time.
    pub own_catalogs: usize,
}

/// Plans the fleet. The same input gives the same plan, whatever the order of its lists.
pub fn plan(input: &PlanInput) -> FleetPlan {
    let by_key: BTreeMap<&ObjectKey, &ServerInput> = input.servers.iter().map(|s| (&s.key, s)).collect();
    let mut servers: BTreeMap<UpstreamKey, ServerPlan> = by_key
        .iter()
        .filter(|(_, server)| !server.disabled)
        .filter_map(|(key, server)| {
            let endpoint = server.endpoint.as_ref().ok()?.clone();
            Some((
                (*key).clone().into(),
                ServerPlan {
                    endpoint,
                    terms: server.terms.clone(),
                    refresh: server.refresh.clone(),
                },
            ))
        })
        .collect();
    let federations: BTreeMap<ObjectKey, FederationPlan> = input
        .federations
        .iter()
        .map(|f| (f.key.clone(), plan_federation(f, &by_key, &input.namespaces)))
        .collect();
    let members = federations.values().flat_map(|plan| &plan.members);
    for member in members.filter(|member| member.problem.is_none()) {
        let varied = servers
            .get(&member.server.clone().into())
            .map(|plan| member.variation.apply(plan));
        if let Some(varied) = varied {
            servers.entry(member.upstream()).or_insert(varied);
        }
    }
    for federation in &input.federations {
        let Some(mark) = &federation.refresh else { continue };
        let members = federations
            .get(&federation.key)
            .into_iter()
            .flat_map(|plan| &plan.members);
        for member in members.filter(|member| member.problem.is_none()) {
            if let Some(server) = servers.get_mut(&member.upstream()) {
                server.refresh.insert(format!("{} {mark}", federation.key));
            }
        }
    }
    FleetPlan { servers, federations }
}

fn plan_federation(
    federation: &FederationInput,
    servers: &BTreeMap<&ObjectKey, &ServerInput>,
    namespaces: &BTreeMap<String, BTreeMap<String, String>>,
) -> FederationPlan {
    let members = plan_members(&federation.spec.members, &federation.key.namespace, servers, namespaces);
    FederationPlan {
        uid: federation.uid.clone(),
        members,
        access: federation.access.clone(),
        origins: OriginPlan::of(&federation.spec),
        protocol: ProtocolPlan::of(&federation.spec),
        sessions: SessionPlan::of(&federation.spec),
        streams: StreamPlan::of(&federation.spec),
        index: index_plan(federation),
        apps: apps_terms(&federation.spec),
        encoding: federation
            .spec
            .results
            .as_ref()
            .and_then(|results| results.encoding)
            .unwrap_or_default(),
        discovery: DiscoveryPlan::of(&federation.spec),
        extensions: extensions::declared(&federation.spec),
        fanout_hops: fanout_hops(&federation.spec),
        skill_problems: federation.skills.problems.clone(),
        identity: IdentityPlan::of(&federation.key.name, &federation.spec),
        page_size: page_size(&federation.spec),
        own_catalogs: own_catalogs(&federation.spec),
    }
}

fn index_plan(federation: &FederationInput) -> IndexPlan {
    let spec = &federation.spec;
    let rules = spec.access.as_ref().map_or(&[][..], |access| &access.rules);
    let hides = spec.apps.as_ref().and_then(|apps| apps.hide_app_only);
    IndexPlan {
        naming: Naming::of(spec.naming.as_ref()),
        rules: AccessRules::read(rules),
        hides_app_only: hides == Some(HideAppOnly::WithoutApps),
        own: federation.skills.own.clone(),
    }
}

fn apps_terms(spec: &MCPFederationSpec) -> apps::Terms {
    let said = spec.apps.clone().unwrap_or_default();
    let default = apps::Terms::default();
    apps::Terms {
        mime_types: if said.mime_types.is_empty() {
            default.mime_types
        } else {
            said.mime_types
        },
        lenient: said.lenient_capability,
    }
}

fn fanout_hops(spec: &MCPFederationSpec) -> u64 {
    let said = spec.limits.as_ref().and_then(|limits| limits.fanout_hops);
    said.and_then(|hops| u64::try_from(hops).ok())
        .unwrap_or(defaults::FANOUT_HOPS)
}

fn page_size(spec: &MCPFederationSpec) -> usize {
    let said = spec.limits.as_ref().and_then(|limits| limits.page_size);
    said.and_then(|size| usize::try_from(size).ok()).unwrap_or(0)
}

fn own_catalogs(spec: &MCPFederationSpec) -> usize {
    let said = spec.limits.as_ref().and_then(|limits| limits.cache_entries);
    said.and_then(|most| usize::try_from(most).ok())
        .unwrap_or(defaults::OWN_CATALOGS_MAX)
}

#[cfg(test)]
mod tests;
