//! A federation as it is served.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, OnceLock};

use crate::api::federation::Encoding;
use crate::fleet::access::Access;
use crate::fleet::changes::Changes;
use crate::fleet::discovery::DiscoveryPlan;
use crate::fleet::member::{Absent, Member, Offers};
use crate::fleet::origins::OriginPlan;
use crate::fleet::own::Own;
use crate::fleet::protocol::ProtocolPlan;
use crate::fleet::sessions::SessionPlan;
use crate::fleet::streams::StreamPlan;
use crate::index::{Audience, Index, instructions};
use crate::mcp::{Mark, apps};
use crate::metrics::FederationMetrics;

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
    pub own: Option<Own<Self>>,
    /// Whether callers see lists of their own in it.
    pub is_private: bool,
    /// The members of which a caller, whose view this is, has no lists.
    pub absent: Vec<Absent>,
}

/// The members of a federation, each alone; made when it is first asked for.
#[derive(Debug, Default)]
pub struct Alone(pub(super) Box<[OnceLock<Arc<Federation>>]>);

/// What of a federation differs between its views; everything else is the same in all of them.
#[derive(Debug)]
pub(super) struct View {
    pub(super) name: String,
    pub(super) server_info: String,
    pub(super) instructions: String,
    pub(super) own_instructions: Option<String>,
    pub(super) members: Vec<Member>,
    pub(super) index: Arc<Index>,
    pub(super) offers: Offers,
    pub(super) is_alone: bool,
    pub(super) own: Option<Own<Federation>>,
    pub(super) is_private: bool,
    pub(super) absent: Vec<Absent>,
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

    /// Why a caller does without `member`, if it does.
    pub fn why_absent(&self, member: &str) -> Option<&str> {
        let mut absent = self.absent.iter();
        absent
            .find(|absent| absent.member == member)
            .map(|absent| absent.why.as_str())
    }

    /// Says that nothing goes to `member` now, and why, if that is for the caller alone.
    pub fn not_connected(&self, member: &str) -> String {
        match self.why_absent(member) {
            Some(why) => self.of_member(member, &why),
            None => format!("{} is not connected", self.called(member)),
        }
    }

    /// Says `why` of `member`, which is not named where there is no other.
    pub fn of_member(&self, member: &str, why: &dyn fmt::Display) -> String {
        if self.is_alone {
            why.to_string()
        } else {
            format!("member {member:?}: {why}")
        }
    }

    /// What `member` is called in a sentence.
    pub fn called(&self, member: &str) -> Cow<'static, str> {
        if self.is_alone {
            Cow::Borrowed("the server")
        } else {
            Cow::Owned(format!("member {member:?}"))
        }
    }

    /// The absent member of which `name` is, as far as that can be told.
    pub fn absent_owner(&self, name: &str) -> Option<&Absent> {
        let mut absent = self.absent.iter();
        absent.find(|absent| self.index.is_under_prefix(absent.place, name))
    }

    /// The same federation in another view, with what differs there.
    pub(super) fn in_view(&self, view: View) -> Self {
        let View {
            name,
            server_info,
            instructions,
            own_instructions,
            members,
            index,
            offers,
            is_alone,
            own,
            is_private,
            absent,
        } = view;
        Self {
            name,
            mark: self.mark,
            server_info,
            instructions,
            own_instructions,
            access: self.access.clone(),
            origins: self.origins.clone(),
            protocol: self.protocol,
            sessions: self.sessions,
            streams: self.streams,
            members,
            index,
            discovery: self.discovery,
            apps: self.apps.clone(),
            encoding: self.encoding,
            extensions: self.extensions.clone(),
            fanout_hops: self.fanout_hops,
            page_size: self.page_size,
            offers,
            changes: Arc::clone(&self.changes),
            metrics: Arc::clone(&self.metrics),
            alone: Alone::default(),
            is_alone,
            own,
            is_private,
            absent,
        }
    }
}

impl Alone {
    /// For so many members, none of them made.
    pub(in crate::fleet) fn of(members: usize) -> Self {
        Self((0..members).map(|_| OnceLock::new()).collect())
    }
}
