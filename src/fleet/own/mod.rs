//! What a federation is to callers in whose name its servers are asked: the same, but that members which forward
//! something of a request are reached over connections of the caller's own, and that some list what is the caller's own.
//!
//! Such a federation is made from the snapshot when a caller needs it, and kept for the next request. Callers whose own
//! lists say the same share the merged ones, which hold nothing but those lists.

mod pool;
mod recent;
mod room;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures::future::join_all;
use http::{HeaderMap, HeaderName};

pub(super) use self::pool::Pool;
pub use self::pool::Watching;
use self::pool::{OwnUpstream, Watched};
use self::recent::Recent;
use self::room::NoRoom;
use super::caller::{Caller, CallerId};
use super::plan::{MemberPlan, ServerPlan};
use super::snapshot::{Alone, Federation, Member, Offers};
use super::variation::UpstreamKey;
use crate::defaults;
use crate::index::{Catalog, Index, instructions};
use crate::mcp::Era;
use crate::upstream::{Endpoint, Health, HttpEndpoint, Introduction, Limits, State, Terms};

/// The members of a federation that callers have for themselves.
#[derive(Debug)]
pub struct Own {
    pool: Arc<Pool>,
    members: Vec<OwnMember>,
    /// All headers that go on to any of them, sorted.
    headers: Vec<HeaderName>,
    /// What all others offer.
    offers: Offers,
    made: Mutex<Made>,
}

/// A member that callers have for themselves.
#[derive(Clone, Debug)]
pub struct OwnMember {
    /// Its place in the federation.
    pub place: usize,
    /// Whether its lists are each caller's own, too.
    pub has_own_lists: bool,
    /// Whether its skills are offered.
    has_skills: bool,
    /// How long its single requests may take.
    limits: Limits,
    upstream: UpstreamKey,
    plan: Arc<ServerPlan>,
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

/// What was made for callers, as long as there is room.
#[derive(Debug, Default)]
struct Made {
    federations: Recent<CallerId, Seen>,
    indexes: Recent<Vec<Option<(Era, String)>>, Arc<Index>>,
}

/// A federation as a caller sees it, and what it was made from.
#[derive(Clone, Debug)]
struct Seen {
    from: Vec<Part>,
    federation: Arc<Federation>,
}

/// What a caller has of a member.
#[derive(Clone, Debug)]
enum Got {
    /// Nothing, or nothing any more.
    Nothing,
    /// A connection.
    Connection(Arc<OwnUpstream>),
    /// Nothing, since there is no room.
    Refused(NoRoom),
}

/// What a caller has of a member, as it is at a time.
#[derive(Clone, Debug)]
enum Part {
    Nothing,
    /// The connection of this number, and what is known by it.
    Known(u64, Arc<State>),
    Refused(NoRoom),
}

impl OwnMember {
    /// The `member` in this `place` whose upstream is planned so, if callers have it for themselves.
    pub(super) fn of(place: usize, member: &MemberPlan, plan: &ServerPlan) -> Option<Self> {
        let own = Self::reached(place, member.upstream(), plan)?;
        Some(Self {
            has_skills: member.has_skills(),
            limits: member.limits,
            ..own
        })
    }

    /// The same of one that is reached so, of which nothing else is said.
    fn reached(place: usize, upstream: UpstreamKey, plan: &ServerPlan) -> Option<Self> {
        let forwards = plan.terms.forwards.as_ref()?;
        matches!(plan.endpoint, Endpoint::Http(_)).then(|| Self {
            place,
            has_own_lists: forwards.own_lists,
            has_skills: true,
            limits: Limits::default(),
            upstream,
            plan: Arc::new(plan.clone()),
        })
    }

    fn headers(&self) -> &[HeaderName] {
        let forwards = self.plan.terms.forwards.as_ref();
        forwards.map_or(&[], |forwards| &forwards.headers)
    }

    /// Where and how it is reached for `caller`. What the manifest says of headers that go on is for others: who
    /// presents none of his own is not to be taken for whoever wrote the manifest.
    fn for_caller(&self, caller: &Caller) -> (Endpoint, Terms) {
        let mut endpoint = self.plan.endpoint.clone();
        if let Endpoint::Http(HttpEndpoint { headers, .. }) = &mut endpoint {
            for name in self.headers() {
                headers.remove(name);
            }
            headers.extend(caller.headers_of(self.headers()));
        }
        let terms = Terms {
            lists: self.has_own_lists,
            forwards: None,
            ..self.plan.terms.clone()
        };
        (endpoint, terms)
    }
}

impl Own {
    /// Those `members`, of which there are some, held in `pool`, as far as `most` can be, which callers with names share
    /// if there are any; the others offer `offers`.
    pub(super) fn new(pool: Arc<Pool>, members: Vec<OwnMember>, most: usize, has_names: bool, offers: Offers) -> Self {
        pool.settle(&members, most, has_names);
        Self::of(pool, members, offers)
    }

    fn of(pool: Arc<Pool>, members: Vec<OwnMember>, offers: Offers) -> Self {
        let mut headers: Vec<HeaderName> = members.iter().flat_map(OwnMember::headers).cloned().collect();
        headers.sort_by(|a, b| a.as_str().cmp(b.as_str()));
        headers.dedup();
        Self {
            pool,
            members,
            headers,
            offers,
            made: Mutex::default(),
        }
    }

    /// The same of the member in this place alone, if callers have that for themselves.
    pub(super) fn only(&self, place: usize) -> Option<Self> {
        let member = self.members.iter().find(|member| member.place == place)?;
        let alone = OwnMember {
            place: 0,
            has_skills: true,
            ..member.clone()
        };
        Some(Self::of(Arc::clone(&self.pool), vec![alone], Offers::default()))
    }

    /// What holds the upstreams.
    pub(super) fn pool(&self) -> &Arc<Pool> {
        &self.pool
    }

    /// Whether any lists are callers' own.
    pub(super) fn has_lists(&self) -> bool {
        self.members.iter().any(|member| member.has_own_lists)
    }

    /// What `caller` has of each member now.
    fn held(&self, caller: &Caller) -> Vec<Got> {
        self.members.iter().map(|member| self.got(member, caller)).collect()
    }

    fn got(&self, member: &OwnMember, caller: &Caller) -> Got {
        self.pool.peek(member, caller).map_or(Got::Nothing, Got::Connection)
    }

    fn made(&self) -> MutexGuard<'_, Made> {
        self.made.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Federation {
    /// Whoever access calls `principal` and whose request has these headers, where servers are asked in callers' names.
    pub fn caller(&self, principal: Option<&str>, headers: &HeaderMap) -> Option<Arc<Caller>> {
        let own = self.own.as_ref()?;
        Some(Arc::new(Caller::new(principal, headers, &own.headers)))
    }

    /// The federation as `caller` sees it, as far as that is known: no server is asked for it.
    pub fn seen_by(self: &Arc<Self>, caller: &Caller) -> Arc<Self> {
        match &self.own {
            Some(own) => self.made_of(own, caller, &own.held(caller)),
            None => Arc::clone(self),
        }
    }

    /// The same once the members that are `needed` have told `caller` what there is, or failed, or taken too long.
    pub async fn ready_for(self: &Arc<Self>, caller: &Caller, needed: impl Fn(&OwnMember) -> bool) -> Arc<Self> {
        let Some(own) = &self.own else { return Arc::clone(self) };
        let needed = |member: &OwnMember| needed(member).then(|| own.pool.open(member, caller));
        let opened: Vec<Option<Result<Watched, NoRoom>>> = own.members.iter().map(needed).collect();
        let upstreams = opened.iter().flatten().flatten().map(Watched::upstream);
        join_all(upstreams.map(|upstream| upstream.settled(&own.pool))).await;
        let held = own.members.iter().zip(&opened).map(|(member, opened)| match opened {
            None => own.got(member, caller),
            Some(Err(why)) => Got::Refused(*why),
            Some(Ok(_)) => match own.got(member, caller) {
                // It had to go while it was waited for.
                Got::Nothing => Got::Refused(NoRoom::Evicted),
                got => got,
            },
        });
        self.made_of(own, caller, &held.collect::<Vec<_>>())
    }

    /// The same if nothing that `caller`, who is `watching`, lists is still to come, or was never asked for.
    pub fn settled_for(self: &Arc<Self>, caller: &Caller, watching: Option<&Watching>) -> Option<Arc<Self>> {
        let Some(own) = &self.own else {
            return Some(Arc::clone(self));
        };
        let held = own.members.iter().map(|member| match own.got(member, caller) {
            Got::Nothing => {
                let why = watching.and_then(|watching| watching.refusal_of(&member.upstream));
                why.map_or(Got::Nothing, Got::Refused)
            }
            got => got,
        });
        let held: Vec<Got> = held.collect();
        let members = own.members.iter().zip(&held).filter(|(member, _)| member.has_own_lists);
        let mut settled = members.map(|(_, got)| match got {
            Got::Nothing => false,
            Got::Connection(held) => held.is_settled(),
            Got::Refused(_) => true,
        });
        settled
            .all(|is_settled| is_settled)
            .then(|| self.made_of(own, caller, &held))
    }

    /// Has what `caller` lists held, and kept fresh, until what is given is dropped. What `before` did already, it goes
    /// on to do: what had to make room for others is not opened again unasked, and what there was no room for is.
    pub fn watched_by(&self, caller: &Caller, before: Option<Watching>) -> Option<Watching> {
        let own = self.own.as_ref()?;
        let members = own.members.iter().filter(|member| member.has_own_lists);
        Some(Watching::of(&own.pool, members, caller, before.unwrap_or_default()))
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
            Some(why) => format!("member {member:?}: {why}"),
            None => format!("member {member:?} is not connected"),
        }
    }

    /// The absent member of which `name` is, as far as that can be told.
    pub fn absent_owner(&self, name: &str) -> Option<&Absent> {
        let mut absent = self.absent.iter();
        absent.find(|absent| self.index.is_under_prefix(absent.place, name))
    }

    fn made_of(self: &Arc<Self>, own: &Own, caller: &Caller, held: &[Got]) -> Arc<Self> {
        let from: Vec<Part> = held.iter().map(Part::of).collect();
        if let Some(seen) = own.made().federations.get(&caller.id())
            && seen.is_of(&from)
        {
            return Arc::clone(&seen.federation);
        }
        let index = self.index_of(own, &from);
        let federation = Arc::new(self.with(own, held, &from, index));
        let seen = Seen {
            from,
            federation: Arc::clone(&federation),
        };
        let mut made = own.made();
        made.federations.insert(caller.id(), seen, 0);
        while made.federations.len() > defaults::OWN_CATALOGS_MAX {
            drop(made.federations.remove_oldest(|_| Some(0)));
        }
        federation
    }

    /// The lists of all members as one, those of callers' own as in these states.
    fn index_of(&self, own: &Own, from: &[Part]) -> Arc<Index> {
        if !own.has_lists() {
            return Arc::clone(&self.index);
        }
        let catalogs: Vec<(usize, Option<Arc<Catalog>>)> = own
            .members
            .iter()
            .zip(from)
            .filter(|(member, _)| member.has_own_lists)
            .map(|(member, from)| {
                let catalog = from.state().and_then(|state| state.catalog.as_ref());
                (
                    member.place,
                    catalog.map(|catalog| Catalog::without(catalog, self.mark)),
                )
            })
            .collect();
        let key: Vec<_> = catalogs
            .iter()
            .map(|(_, catalog)| {
                catalog
                    .as_deref()
                    .map(|catalog| (catalog.era, catalog.digest().to_owned()))
            })
            .collect();
        if let Some(index) = own.made().indexes.get(&key) {
            return Arc::clone(index);
        }
        let index = Arc::new(self.index.with(catalogs));
        let mut made = own.made();
        made.indexes.insert(key, Arc::clone(&index), index.bytes());
        while made.indexes.weight() > defaults::OWN_INDEXES_BYTES_MAX && made.indexes.len() > 1 {
            let Some(gone) = made.indexes.remove_oldest(|_| Some(0)) else {
                break;
            };
            // Nothing may keep it that would not be counted.
            drop(
                made.federations
                    .remove_unless(|_, seen| !Arc::ptr_eq(&seen.federation.index, &gone)),
            );
        }
        index
    }

    fn with(&self, own: &Own, held: &[Got], from: &[Part], index: Arc<Index>) -> Self {
        let mut members = self.members.clone();
        let (mut offers, mut absent) = (own.offers, Vec::new());
        for ((own, held), from) in own.members.iter().zip(held).zip(from) {
            let Some(member) = members.get_mut(own.place) else {
                continue;
            };
            let why = match (held, from) {
                (Got::Refused(why), _) => Some(why.to_string()),
                (Got::Connection(held), Part::Known(_, state)) => {
                    member.upstream = Some(Arc::new(held.upstream.within(own.limits)));
                    own.introduce(member, state);
                    let lacks_lists = own.has_own_lists && state.catalog.is_none();
                    lacks_lists.then(|| match &state.health {
                        Health::Failed(error) => error.to_string(),
                        Health::Connecting | Health::Ready => "it has not told its lists yet".to_owned(),
                    })
                }
                _ => None,
            };
            absent.extend(why.map(|why| Absent {
                place: own.place,
                member: member.name.clone(),
                why,
            }));
            offers = offers.or(member.offers);
        }
        let alone = members.first().filter(|_| self.is_alone);
        let (server_info, instructions) = match alone {
            Some(member) => self.said_by(&member.introduction),
            None => (self.server_info.clone(), self.composed(&members)),
        };
        Self {
            name: self.name.clone(),
            mark: self.mark,
            server_info,
            instructions,
            own_instructions: self.own_instructions.clone(),
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
            is_alone: self.is_alone,
            own: None,
            is_private: self.is_private,
            absent,
        }
    }

    fn said_by(&self, introduction: &Introduction) -> (String, String) {
        let info = introduction.info.as_deref().unwrap_or(&self.server_info);
        let instructions = introduction.instructions.as_deref().unwrap_or_default();
        (info.to_owned(), instructions.to_owned())
    }

    fn composed(&self, members: &[Member]) -> String {
        let said = members
            .iter()
            .filter_map(|member| Some((member.name.as_str(), member.instructions.as_deref()?)));
        instructions::compose(self.own_instructions.as_deref(), said)
    }
}

impl OwnMember {
    /// Tells what the server says of itself and offers to the caller, as far as it did.
    fn introduce(&self, member: &mut Member, state: &State) {
        let Some(peer) = state.peer.as_deref() else { return };
        member.introduction = peer.introduction.clone();
        member.instructions.clone_from(&peer.instructions);
        member.offers = Offers::of(peer, state.catalog.as_deref()).with_skills(self.has_skills);
    }
}

impl Part {
    fn of(got: &Got) -> Self {
        match got {
            Got::Nothing => Self::Nothing,
            Got::Connection(held) => Self::Known(held.number, held.state()),
            Got::Refused(why) => Self::Refused(*why),
        }
    }

    fn state(&self) -> Option<&Arc<State>> {
        match self {
            Self::Known(_, state) => Some(state),
            Self::Nothing | Self::Refused(_) => None,
        }
    }

    fn is_same(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Nothing, Self::Nothing) => true,
            (Self::Known(a, then), Self::Known(b, now)) => a == b && Arc::ptr_eq(then, now),
            (Self::Refused(a), Self::Refused(b)) => a == b,
            _ => false,
        }
    }
}

impl Seen {
    fn is_of(&self, from: &[Part]) -> bool {
        self.from.len() == from.len() && self.from.iter().zip(from).all(|(a, b)| a.is_same(b))
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;
    use crate::fleet::ObjectKey;
    use crate::upstream::Forwarding;

    fn member(static_headers: &[(&'static str, &'static str)], own_lists: bool) -> OwnMember {
        let headers = static_headers
            .iter()
            .map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value)));
        let plan = ServerPlan {
            endpoint: Endpoint::Http(HttpEndpoint {
                url: "http://a.example/mcp".parse().unwrap(),
                headers: headers.collect(),
            }),
            terms: Terms {
                lists: !own_lists,
                forwards: Some(Forwarding {
                    headers: vec![HeaderName::from_static("authorization")],
                    own_lists,
                }),
                ..Terms::default()
            },
            refresh: Default::default(),
        };
        OwnMember::reached(3, ObjectKey::new("team", "git").into(), &plan).unwrap()
    }

    fn reached(member: &OwnMember, sent: &[(&'static str, &'static str)]) -> (HeaderMap, Terms) {
        let sent = sent
            .iter()
            .map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value)));
        let caller = Caller::new(Some("alice"), &sent.collect(), member.headers());
        let (Endpoint::Http(endpoint), terms) = member.for_caller(&caller) else {
            panic!("it stays where it is")
        };
        (endpoint.headers, terms)
    }

    #[test]
    fn a_server_gets_the_callers_headers_in_place_of_the_manifests_and_no_others() {
        let member = member(&[("authorization", "of the manifest"), ("x-static", "1")], true);
        let (headers, terms) = reached(
            &member,
            &[("authorization", "mine"), ("cookie", "x"), ("x-static", "2")],
        );
        assert_eq!(headers.get_all("authorization").iter().collect::<Vec<_>>(), ["mine"]);
        assert_eq!(headers["x-static"], "1");
        assert_eq!(headers.len(), 2);
        assert!(terms.lists && terms.forwards.is_none());
        // Nobody becomes whoever wrote the manifest by saying nothing.
        let (headers, _) = reached(&member, &[]);
        assert!(!headers.contains_key("authorization"));
    }

    #[test]
    fn where_lists_are_shared_those_of_callers_are_not_read() {
        let member = member(&[], false);
        assert!(!reached(&member, &[]).1.lists);
    }

    #[test]
    fn who_forwards_nothing_is_everybodys() {
        let plan = ServerPlan {
            terms: Terms::default(),
            ..(*member(&[], true).plan).clone()
        };
        assert!(OwnMember::reached(0, ObjectKey::new("team", "git").into(), &plan).is_none());
    }
}
