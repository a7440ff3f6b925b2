//! The immutable snapshot that requests are served from.

pub mod alone;

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

pub use self::alone::Alone;
use super::access::Access;
use super::changes::Changes;
use super::discovery::DiscoveryPlan;
use super::origins::OriginPlan;
use super::own::{Absent, Own};
use super::plan::{FederationPlan, MemberPlan, SessionPlan};
use super::protocol::ProtocolPlan;
use super::streams::StreamPlan;
use crate::api::federation::Encoding;
use crate::index::{Audience, Catalog, Index, SkillPrefix, instructions};
use crate::mcp::{Era, Mark, apps};
use crate::metrics::FederationMetrics;
use crate::upstream::{Introduction, Peer, Skills, Upstream};

/// Everything that is served now; swapped whole.
#[derive(Debug, Default)]
pub struct Fleet {
    federations: HashMap<String, Arc<Federation>>,
    default: Option<Arc<Federation>>,
}

/// One federation as it is served.
#[derive(Debug)]
pub struct Federation {
    /// `namespace/name`.
    pub name: String,
    /// What other gateways know it by.
    pub mark: Mark,
    /// What it says of itself to clients, as JSON.
    pub server_info: String,
    /// How to use it, for a client's model, with what its servers say; empty where nobody says.
    pub instructions: String,
    /// How to use it, as it says itself.
    pub own_instructions: Option<String>,
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
    /// Its members, in the order that the index counts them.
    pub members: Vec<Member>,
    /// What clients see.
    pub index: Arc<Index>,
    /// How they find what is not listed.
    pub discovery: DiscoveryPlan,
    /// Which clients show user interfaces.
    pub apps: apps::Terms,
    /// How texts of JSON in results are written.
    pub encoding: Encoding,
    /// Extensions that are declared in any case, by id, with their settings as JSON.
    pub extensions: BTreeMap<String, String>,
    /// A read that nobody owns is forwarded if it was forwarded less often before.
    pub fanout_hops: u64,
    /// Most entries of one page of a list; 0 for all.
    pub page_size: usize,
    /// What its members do together, beside their lists.
    pub offers: Offers,
    /// How those who listen hear of changes.
    pub changes: Arc<Changes>,
    /// Where its requests are counted.
    pub metrics: Arc<FederationMetrics>,
    /// Each member as a federation of its own.
    pub alone: Alone,
    /// Whether it is one: then its server speaks for itself.
    pub is_alone: bool,
    /// The members that callers have for themselves, if there are any. Then this is what all callers see alike, and
    /// nothing goes to those members from here.
    pub own: Option<Own>,
    /// Whether callers see lists of their own in it.
    pub is_private: bool,
    /// The members of which a caller, whose view this is, has no lists.
    pub absent: Vec<Absent>,
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

impl Federation {
    /// How to use it, with what the servers say of which `audience` may use anything.
    pub fn instructions_for(&self, audience: Audience) -> Cow<'_, str> {
        let rules = self.index.rules();
        if rules.is_empty() {
            return Cow::Borrowed(&self.instructions);
        }
        let mut seen = self
            .members
            .iter()
            .filter(|member| rules.touching(&member.name).meets(audience.rules));
        if self.is_alone {
            return Cow::Borrowed(seen.next().map_or("", |_| &self.instructions));
        }
        let said = seen.filter_map(|member| Some((member.name.as_str(), member.instructions.as_deref()?)));
        Cow::Owned(instructions::compose(self.own_instructions.as_deref(), said))
    }
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

impl Fleet {
    /// A fleet of `federations`; `default` is served at the bare path.
    pub fn new(federations: impl IntoIterator<Item = Arc<Federation>>, default: Option<&str>) -> Self {
        let federations: HashMap<_, _> = federations.into_iter().map(|f| (f.name.clone(), f)).collect();
        let default = default.and_then(|name| federations.get(name)).cloned();
        Self { federations, default }
    }

    /// The federation `namespace/name`, or `namespace/name/servers/member`, which is one member of it alone.
    pub fn federation(&self, name: &str) -> Option<&Arc<Federation>> {
        self.federations.get(name).or_else(|| {
            let (federation, member) = name.rsplit_once(alone::BEFORE_MEMBER)?;
            self.federations.get(federation)?.alone(member)
        })
    }

    /// The federation that is served at the bare path.
    pub fn default_federation(&self) -> Option<&Arc<Federation>> {
        self.default.as_ref()
    }
}
