//! A member of a federation as it is served, and what it offers.

use std::sync::Arc;

use super::member_plan::MemberPlan;
use super::plan::FederationPlan;
use crate::index::{Catalog, SkillPrefix};
use crate::mcp::Era;
use crate::upstream::{Introduction, Peer, Skills, Upstream};

/// One member as it is called.
#[derive(Clone, Debug)]
pub struct Member {
    /// Its name.
    pub name: String,
    /// The name of its server, `namespace/name`.
    pub server: String,
    /// What clients see before the URIs of its skills; `None` where those are not offered.
    pub skills: Option<SkillPrefix>,
    /// The server behind it, if it has one that can be held.
    pub upstream: Option<Arc<Upstream>>,
    /// What the server does, beside its lists.
    pub offers: Offers,
    /// How to use the server, as it says.
    pub instructions: Option<Arc<str>>,
    /// What it says of itself where it is served alone.
    pub introduction: Introduction,
}

/// What members do beside what they list: one that does it is enough.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Offers {
    /// They complete arguments.
    pub completions: bool,
    /// They log for clients.
    pub logging: bool,
    /// They tell of changes of single resources.
    pub subscribe: bool,
    /// They serve skills; directories of them only where all that do list those.
    pub skills: Skills,
    /// They make tasks of calls.
    pub tasks: bool,
}

/// A member whose lists, or whose answers, a caller does without, since its server does not give them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Absent {
    /// Its place.
    pub place: usize,
    /// Its name.
    pub member: String,
    /// Why, for a person.
    pub why: String,
}

impl Offers {
    /// Those of the server that is `peer`, with this catalog.
    pub fn of(peer: &Peer, catalog: Option<&Catalog>) -> Self {
        let capabilities = peer.capabilities;
        // Of 2025-11-25 servers only tools are called for a task that want it.
        let tools = || catalog.map_or(&[][..], |catalog| &catalog.tools);
        let makes_tasks = peer.era() == Era::Modern || tools().iter().any(|tool| tool.needs_task);
        Self {
            completions: capabilities.completions,
            logging: capabilities.logging,
            subscribe: capabilities.subscribe,
            skills: capabilities.skills,
            tasks: capabilities.tasks && makes_tasks,
        }
    }

    /// Those of what a federation has itself.
    pub fn of_own(planned: &FederationPlan) -> Self {
        let skills = planned.index.own.as_ref().map(|_| Skills::WithDirectories);
        Self {
            skills: skills.unwrap_or_default(),
            ..Self::default()
        }
    }

    /// Those of them that a member contributes which is planned so.
    #[must_use]
    pub fn for_member(self, planned: &MemberPlan) -> Self {
        self.with_skills(planned.has_skills())
    }

    /// The same, without skills unless they are offered.
    #[must_use]
    pub(super) fn with_skills(self, has_skills: bool) -> Self {
        Self {
            skills: if has_skills { self.skills } else { Skills::None },
            ..self
        }
    }

    /// What either does.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        Self {
            completions: self.completions || other.completions,
            logging: self.logging || other.logging,
            subscribe: self.subscribe || other.subscribe,
            skills: match (self.skills, other.skills) {
                (Skills::None, one) | (one, Skills::None) => one,
                (Skills::WithDirectories, Skills::WithDirectories) => Skills::WithDirectories,
                (Skills::Listed, _) | (_, Skills::Listed) => Skills::Listed,
            },
            tasks: self.tasks || other.tasks,
        }
    }
}
