//! Which upstreams to hold and which members each federation has: planned from objects, without IO.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::access::Access;
use super::discovery::DiscoveryPlan;
use super::extensions;
use super::identity::IdentityPlan;
use super::origins::OriginPlan;
use super::protocol::ProtocolPlan;
use super::skills::{SkillProblem, SkillsPlan};
use super::streams::StreamPlan;
pub use super::unresolved::Unresolved;
use super::variation::{UpstreamKey, Variation};
use super::waits;
use crate::api::federation::{Encoding, HideAppOnly, MCPFederationSpec, Member, ServerRef};
use crate::api::server::{AllowedNamespaces, NamespacesFrom};
use crate::defaults;
use crate::index::skills::uri::InvalidPrefix;
use crate::index::{AccessRules, IndexPlan, Naming, Selection, SkillPrefix};
use crate::mcp::apps;
use crate::upstream::{Endpoint, Limits, Terms};

/// Namespace and name of an object.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectKey {
    /// Its Kubernetes namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
}

/// One server as the planner needs it.
#[derive(Clone, Debug, PartialEq)]
pub struct ServerInput {
    /// Its namespace and name.
    pub key: ObjectKey,
    /// Its labels, for members that select.
    pub labels: BTreeMap<String, String>,
    /// Which namespaces' federations may use it.
    pub allowed_namespaces: AllowedNamespaces,
    /// True: in no federation.
    pub disabled: bool,
    /// How it is dealt with.
    pub terms: Terms,
    /// What has its lists read again when it appears here.
    pub refresh: BTreeSet<String>,
    /// Where it is reached, or why that is not known.
    pub endpoint: Result<Endpoint, Unresolved>,
}

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

/// One upstream to hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerPlan {
    /// Where it is reached.
    pub endpoint: Endpoint,
    /// How it is dealt with.
    pub terms: Terms,
    /// What has its lists read again when it appears here.
    pub refresh: BTreeSet<String>,
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

/// Sessions of a federation's Legacy clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SessionPlan {
    /// Whether there are any.
    pub enabled: bool,
    /// How long one is valid.
    pub ttl: Duration,
}

/// One member of a federation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemberPlan {
    /// Name of the member; for selected servers the server's name or, where a member is called so, `namespace.name`.
    pub name: String,
    /// The server behind it.
    pub server: ObjectKey,
    /// How it deals with that.
    pub variation: Variation,
    /// How long its single requests may take, as far as it says so.
    pub limits: Limits,
    /// Whether it says times that are the server's own to say.
    pub says_owners_times: bool,
    /// Put before its names; empty for none.
    pub prefix: String,
    /// Higher goes first.
    pub priority: i32,
    /// Put before the paths of its skills; `None` where those are not offered, and an error where its prefix cannot
    /// stand there.
    pub skills: Result<Option<SkillPrefix>, InvalidPrefix>,
    /// What of it is offered.
    pub selection: Arc<Selection>,
    /// Why it contributes nothing, if so.
    pub problem: Option<MemberProblem>,
}

/// Why a member contributes nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MemberProblem {
    /// The server does not exist.
    NotFound,
    /// The server's owner does not allow this namespace; nothing else of the server is told.
    NotPermitted,
    /// The server is disabled.
    Disabled,
    /// The server has no address.
    Unresolved(Unresolved),
    /// Another member has the prefix already.
    PrefixConflict {
        /// The member that keeps it.
        winner: String,
    },
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

impl MemberPlan {
    /// The upstream behind it.
    pub fn upstream(&self) -> UpstreamKey {
        UpstreamKey {
            server: self.server.clone(),
            variation: self.variation,
        }
    }

    /// Whether its skills are offered.
    pub fn has_skills(&self) -> bool {
        matches!(self.skills, Ok(Some(_)))
    }

    /// What of it does not hold, and why, for a person.
    pub fn note(&self) -> Option<String> {
        if self.problem.is_some() {
            return None;
        }
        let skills = self.skills.as_ref().err();
        let skills = skills.map(|why| format!("its skills are not offered: {why}"));
        let times = self.says_owners_times.then(|| {
            "its server is one process for all members, so that timeouts.connect, timeouts.list and cache hold as the \
             server says them"
                .to_owned()
        });
        let notes: Vec<String> = skills.into_iter().chain(times).collect();
        (!notes.is_empty()).then(|| notes.join("; "))
    }
}

impl SessionPlan {
    /// What `spec` says, over the defaults. Who serves no Legacy clients has none.
    fn of(spec: &MCPFederationSpec) -> Self {
        let default = Self {
            enabled: ProtocolPlan::of(spec).legacy,
            ..Self::default()
        };
        match &spec.sessions {
            None => default,
            Some(sessions) => Self {
                enabled: sessions.enabled && default.enabled,
                ttl: sessions.ttl.map_or(default.ttl, Duration::from),
            },
        }
    }
}

impl Default for SessionPlan {
    fn default() -> Self {
        Self {
            enabled: true,
            ttl: defaults::SESSION_TTL,
        }
    }
}

impl ObjectKey {
    /// The key of `namespace`/`name`.
    pub fn new(namespace: impl Into<String>, name: impl Into<String>) -> Self {
        Self {
            namespace: namespace.into(),
            name: name.into(),
        }
    }
}

impl fmt::Display for ObjectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

impl MemberProblem {
    /// One CamelCase word for conditions and metrics.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::NotFound => "NotFound",
            Self::NotPermitted => "NotPermitted",
            Self::Disabled => "Disabled",
            Self::Unresolved(unresolved) => unresolved.reason,
            Self::PrefixConflict { .. } => "Conflict",
        }
    }
}

impl fmt::Display for MemberProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotFound => f.write_str("no such MCPServer; create it or correct the member"),
            Self::NotPermitted => f.write_str(
                "the server does not allow this namespace; its owner can add it to spec.federation.allowedNamespaces",
            ),
            Self::Disabled => f.write_str("the server is disabled"),
            Self::Unresolved(unresolved) => f.write_str(&unresolved.message),
            Self::PrefixConflict { winner } => {
                write!(f, "member {winner:?} has the same prefix; give one of them another")
            }
        }
    }
}

fn plan_federation(
    federation: &FederationInput,
    servers: &BTreeMap<&ObjectKey, &ServerInput>,
    namespaces: &BTreeMap<String, BTreeMap<String, String>>,
) -> FederationPlan {
    let namespace = &federation.key.namespace;
    let (named, selecting): (Vec<&Member>, Vec<&Member>) = federation
        .spec
        .members
        .iter()
        .partition(|member| member.server.is_some());
    let expanded = |entries: Vec<&Member>| -> Vec<MemberPlan> {
        let members = entries
            .into_iter()
            .flat_map(|m| expand(m, namespace, servers, namespaces));
        let mut members: Vec<MemberPlan> = members.collect();
        members.sort_by(in_order);
        members
    };
    let mut members = expanded(named);
    // What is said of a server by name stands; of those that select it, the first in order does.
    let mut taken: BTreeSet<ObjectKey> = members.iter().map(|m| m.server.clone()).collect();
    let names: BTreeSet<String> = members.iter().map(|m| m.name.clone()).collect();
    let selected = expanded(selecting)
        .into_iter()
        .filter(|m| taken.insert(m.server.clone()));
    // A member is found by its name, which no other has then: such names hold no dots.
    members.extend(selected.map(|m| match names.contains(&m.name) {
        true => MemberPlan {
            name: format!("{}.{}", m.server.namespace, m.server.name),
            ..m
        },
        false => m,
    }));
    members.sort_by(in_order);
    mark_prefix_conflicts(&mut members);
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

/// Higher priority first, then by name.
fn in_order(a: &MemberPlan, b: &MemberPlan) -> Ordering {
    (b.priority, &a.name, &a.server).cmp(&(a.priority, &b.name, &b.server))
}

/// The members that one entry of the manifest stands for.
fn expand(
    member: &Member,
    namespace: &str,
    servers: &BTreeMap<&ObjectKey, &ServerInput>,
    namespaces: &BTreeMap<String, BTreeMap<String, String>>,
) -> Vec<MemberPlan> {
    let priority = member.priority.unwrap_or(0);
    let selection = Arc::new(Selection::of(member));
    if let Some(reference) = &member.server {
        let key = server_key(reference, namespace);
        let problem = match servers.get(&key) {
            None => Some(MemberProblem::NotFound),
            Some(server) if !allows(server, namespace, namespaces) => Some(MemberProblem::NotPermitted),
            Some(server) => server_problem(server),
        };
        let prefix = member.prefix.clone().unwrap_or_else(|| reference.name.clone());
        return vec![MemberPlan {
            name: member.name.clone(),
            variation: Variation::of(member, servers.get(&key).copied()),
            limits: waits::limits(member.timeouts.as_ref()),
            says_owners_times: servers
                .get(&key)
                .is_some_and(|server| Variation::is_owners(member, server)),
            server: key,
            skills: skill_prefix(member, &prefix),
            prefix,
            priority,
            selection,
            problem,
        }];
    }
    let Some(selector) = &member.selector else {
        return Vec::new();
    };
    servers
        .values()
        .filter(|s| s.key.namespace == namespace && selector.matches(&s.labels))
        .map(|s| MemberPlan {
            name: s.key.name.clone(),
            server: s.key.clone(),
            variation: Variation::of(member, Some(s)),
            limits: waits::limits(member.timeouts.as_ref()),
            says_owners_times: Variation::is_owners(member, s),
            skills: skill_prefix(member, &s.key.name),
            prefix: s.key.name.clone(),
            priority,
            selection: Arc::clone(&selection),
            problem: server_problem(s),
        })
        .collect()
}

/// What stands before the skills of a member that goes by `prefix`: by default its prefix, if it has one.
fn skill_prefix(member: &Member, prefix: &str) -> Result<Option<SkillPrefix>, InvalidPrefix> {
    if member.skills.unwrap_or(!prefix.is_empty()) {
        SkillPrefix::new(prefix).map(Some)
    } else {
        Ok(None)
    }
}

fn server_key(reference: &ServerRef, namespace: &str) -> ObjectKey {
    ObjectKey::new(reference.namespace.as_deref().unwrap_or(namespace), &reference.name)
}

fn server_problem(server: &ServerInput) -> Option<MemberProblem> {
    if server.disabled {
        return Some(MemberProblem::Disabled);
    }
    server.endpoint.as_ref().err().cloned().map(MemberProblem::Unresolved)
}

fn allows(server: &ServerInput, namespace: &str, namespaces: &BTreeMap<String, BTreeMap<String, String>>) -> bool {
    if server.key.namespace == namespace {
        return true;
    }
    match server.allowed_namespaces.from {
        NamespacesFrom::Same => false,
        NamespacesFrom::All => true,
        NamespacesFrom::Selector => {
            let selector = server.allowed_namespaces.selector.as_ref();
            namespaces
                .get(namespace)
                .is_some_and(|labels| selector.is_some_and(|s| s.matches(labels)))
        }
    }
}

/// Of members with the same prefix the first in order keeps it, the others say so.
fn mark_prefix_conflicts(members: &mut [MemberPlan]) {
    let mut owners: BTreeMap<String, String> = BTreeMap::new();
    for member in members
        .iter_mut()
        .filter(|m| m.problem.is_none() && !m.prefix.is_empty())
    {
        match owners.get(&member.prefix) {
            Some(winner) => member.problem = Some(MemberProblem::PrefixConflict { winner: winner.clone() }),
            None => {
                owners.insert(member.prefix.clone(), member.name.clone());
            }
        }
    }
}

#[cfg(test)]
mod tests;
