//! A federation as it is served, and what it is built from.

use std::sync::Arc;

use tokio::time::Instant;

use super::access::Access;
use super::changes::Changes;
use super::member::{Member, Offers};
use super::member_plan::MemberPlan;
use super::object_key::ObjectKey;
use super::own::{Own, OwnMember, Pool};
use super::plan::FederationPlan;
use super::server_plan::ServerPlan;
use super::snapshot::{Alone, Federation};
use crate::index::{self, Catalog, Index, MemberCatalog};
use crate::mcp::Mark;
use crate::metrics::FederationMetrics;
use crate::upstream::{Introduction, State, Upstream};

/// A federation with what it was built from.
pub(super) struct Served {
    pub(super) plan: FederationPlan,
    pub(super) inputs: Vec<MemberInput>,
    pub(super) federation: Arc<Federation>,
}

/// What of a federation outlives a snapshot.
pub(super) struct Lasting {
    pub(super) mark: Mark,
    pub(super) changes: Arc<Changes>,
    pub(super) metrics: Arc<FederationMetrics>,
    /// What callers have for themselves, if they have anything.
    pub(super) own: Option<Arc<Pool>>,
}

/// What a member is served from. What is replaced whole is compared by identity.
#[derive(Clone, Default)]
pub(super) struct MemberInput {
    pub(super) upstream: Option<Arc<Upstream>>,
    pub(super) catalog: Option<Arc<Catalog>>,
    pub(super) offers: Offers,
    /// How to use it, as its server says.
    pub(super) instructions: Option<Arc<str>>,
    pub(super) introduction: Introduction,
    /// How it is held, where callers have it for themselves.
    pub(super) own: Option<ServerPlan>,
}

impl Lasting {
    /// The federation `key` as it is planned, of members that are served from `inputs`.
    pub(super) fn built(self, key: &ObjectKey, planned: &FederationPlan, inputs: &[MemberInput]) -> Federation {
        let catalogs: Vec<MemberCatalog> = planned
            .members
            .iter()
            .zip(inputs)
            .map(|(member, input)| MemberCatalog {
                name: member.name.clone(),
                // Who contributes nothing has nothing to be searched for either.
                selection: match member.problem {
                    None => Arc::clone(&member.selection),
                    Some(_) => Arc::default(),
                },
                server: member.server.name.clone(),
                prefix: member.prefix.clone(),
                skills: member.skills.clone().unwrap_or_default().into(),
                catalog: input
                    .catalog
                    .as_ref()
                    .map(|catalog| Catalog::without(catalog, self.mark)),
            })
            .collect();
        let own = own(planned, inputs, self.own);
        let started = Instant::now();
        let index = Arc::new(Index::build(planned.index.clone(), catalogs));
        let micros = started.elapsed().as_micros();
        tracing::debug!(federation = %key, micros, "built the index");
        self.metrics.list_bytes(index.tools_bytes());
        let members = planned.members.iter().zip(inputs);
        Federation {
            name: key.to_string(),
            mark: self.mark,
            access: planned.access.clone(),
            origins: planned.origins.clone(),
            protocol: planned.protocol,
            sessions: planned.sessions,
            streams: planned.streams,
            members: members
                .map(|(m, input)| Member {
                    name: m.name.clone(),
                    server: m.server.to_string(),
                    skills: m.skills.clone().unwrap_or_default(),
                    upstream: input
                        .upstream
                        .as_ref()
                        .map(|upstream| Arc::new(upstream.within(m.limits))),
                    offers: input.offers,
                    instructions: input.instructions.clone(),
                    introduction: input.introduction.clone(),
                })
                .collect(),
            alone: Alone::of(inputs.len()),
            is_alone: false,
            is_private: own.as_ref().is_some_and(Own::has_lists),
            own,
            absent: Vec::new(),
            index,
            discovery: planned.discovery,
            offers: inputs
                .iter()
                .fold(Offers::of_own(planned), |all, input| all.or(input.offers)),
            instructions: instructions(planned, inputs),
            own_instructions: planned.identity.instructions.clone(),
            server_info: planned.identity.server_info.clone(),
            apps: planned.apps.clone(),
            encoding: planned.encoding,
            extensions: planned.extensions.clone(),
            fanout_hops: planned.fanout_hops,
            page_size: planned.page_size,
            changes: self.changes,
            metrics: self.metrics,
        }
    }
}

impl Served {
    /// Tells those who listen what is other than `before`.
    pub(super) fn tell_changes(&self, before: &Self) {
        let (now, before) = (&self.federation, &before.federation);
        let lists = now.index.differs_from(&before.index)
            || now.discovery.show_all_allowed != before.discovery.show_all_allowed;
        let access = now.access != before.access
            || now.origins != before.origins
            || now.protocol != before.protocol
            || now.sessions.enabled != before.sessions.enabled;
        now.changes.tell(lists, access, now.streams.coalesce);
    }
}

impl MemberInput {
    /// What is seen of a member that is reached over one `upstream` for all, in this state.
    pub(super) fn of_all(upstream: &Arc<Upstream>, state: &State, member: &MemberPlan) -> Self {
        let peer = state.peer.as_deref();
        Self {
            own: None,
            instructions: peer.and_then(|peer| peer.instructions.clone()),
            introduction: peer.map(|peer| peer.introduction.clone()).unwrap_or_default(),
            upstream: Some(Arc::clone(upstream)),
            catalog: state.catalog.clone(),
            offers: peer
                .map_or_else(Offers::default, |peer| Offers::of(peer, state.catalog.as_deref()))
                .for_member(member),
        }
    }

    /// What all callers see of a member that they have for themselves: what it offers at all, and its lists where those
    /// are everybody's. None of their requests goes over the connection that reads those.
    pub(super) fn of_callers(plan: &ServerPlan, state: &State, member: &MemberPlan) -> Self {
        let peer = state.peer.as_deref();
        let catalog = state.catalog.clone().filter(|_| plan.terms.lists);
        let offers = peer.map_or_else(Offers::default, |peer| Offers::of(peer, catalog.as_deref()));
        Self {
            upstream: None,
            catalog,
            offers: offers.for_member(member),
            instructions: peer.and_then(|peer| peer.instructions.clone()),
            introduction: peer.map(|peer| peer.introduction.clone()).unwrap_or_default(),
            own: Some(plan.clone()),
        }
    }
}

impl PartialEq for MemberInput {
    fn eq(&self, other: &Self) -> bool {
        fn same<T>(a: Option<&Arc<T>>, b: Option<&Arc<T>>) -> bool {
            match (a, b) {
                (None, None) => true,
                (Some(a), Some(b)) => Arc::ptr_eq(a, b),
                _ => false,
            }
        }
        same(self.upstream.as_ref(), other.upstream.as_ref())
            && same(self.catalog.as_ref(), other.catalog.as_ref())
            && self.offers == other.offers
            && self.instructions == other.instructions
            && self.introduction == other.introduction
            && self.own == other.own
    }
}

/// What callers of the federation have for themselves, held in `pool`.
fn own(planned: &FederationPlan, inputs: &[MemberInput], pool: Option<Arc<Pool>>) -> Option<Own<Federation>> {
    let members = planned.members.iter().zip(inputs).enumerate();
    let own = members.filter_map(|(place, (member, input))| OwnMember::of(place, member, input.own.as_ref()?));
    let own: Vec<OwnMember> = own.collect();
    let others = inputs.iter().filter(|input| input.own.is_none());
    let offers = others.fold(Offers::of_own(planned), |all, input| all.or(input.offers));
    let has_names = !matches!(planned.access, Access::Anonymous);
    (!own.is_empty()).then_some(Own::new(pool?, own, planned.own_catalogs, has_names, offers))
}

/// What the federation says of how to use it, with what the servers of its members say.
fn instructions(planned: &FederationPlan, inputs: &[MemberInput]) -> String {
    let members = planned.members.iter().zip(inputs);
    let said = members.filter_map(|(member, input)| Some((member.name.as_str(), input.instructions.as_deref()?)));
    index::instructions::compose(planned.identity.instructions.as_deref(), said)
}
