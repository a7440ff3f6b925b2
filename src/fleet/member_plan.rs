//! The members of a federation as they are planned.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use super::object_key::ObjectKey;
use super::server_plan::ServerInput;
use super::unresolved::Unresolved;
use super::variation::{UpstreamKey, Variation};
use super::waits;
use crate::api::federation::{Member, ServerRef};
use crate::api::server::NamespacesFrom;
use crate::index::skills::uri::InvalidPrefix;
use crate::index::{Selection, SkillPrefix};
use crate::upstream::Limits;

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

/// The members that `entries` of a federation in `namespace` stand for: higher priority first, then by name.
pub(super) fn plan_members(
    entries: &[Member],
    namespace: &str,
    servers: &BTreeMap<&ObjectKey, &ServerInput>,
    namespaces: &BTreeMap<String, BTreeMap<String, String>>,
) -> Vec<MemberPlan> {
    let (named, selecting): (Vec<&Member>, Vec<&Member>) = entries.iter().partition(|member| member.server.is_some());
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
    members
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
pub(super) fn skill_prefix(member: &Member, prefix: &str) -> Result<Option<SkillPrefix>, InvalidPrefix> {
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
