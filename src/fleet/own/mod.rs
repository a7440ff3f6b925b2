//! What callers have for themselves of a federation whose servers are asked in callers' names: members that forward
//! something of a request are reached over connections of the caller's own, and some list what is the caller's own.
//!
//! What the federation is to such a caller is made of this (`snapshot::seen`), and kept here.

mod got;
mod made;
mod member;
mod pool;
mod recent;
mod room;

use std::sync::Arc;

use http::HeaderName;

pub(super) use self::got::{Got, Part};
pub(super) use self::made::Lists;
use self::made::Made;
pub use self::member::OwnMember;
pub use self::pool::Watching;
pub(super) use self::pool::{Pool, Watched};
pub(super) use self::room::NoRoom;
use super::caller::Caller;
use super::member::Offers;

/// The members of a federation that callers have for themselves.
#[derive(Debug)]
pub struct Own<F> {
    pub(in crate::fleet) pool: Arc<Pool>,
    pub(in crate::fleet) members: Vec<OwnMember>,
    /// All headers that go on to any of them, sorted.
    pub(in crate::fleet) headers: Vec<HeaderName>,
    /// What all others offer.
    pub(in crate::fleet) offers: Offers,
    made: Made<F>,
}

impl<F> Own<F> {
    /// Those `members`, of which there are some, held in `pool`, as far as `most` can be, which callers with names share
    /// if there are any; the others offer `offers`.
    pub(in crate::fleet) fn new(
        pool: Arc<Pool>,
        members: Vec<OwnMember>,
        most: usize,
        has_names: bool,
        offers: Offers,
    ) -> Self {
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
            made: Made::default(),
        }
    }

    /// The same of the member in this place alone, if callers have that for themselves.
    pub(in crate::fleet) fn only(&self, place: usize) -> Option<Self> {
        let member = self.members.iter().find(|member| member.place == place)?;
        let alone = OwnMember {
            place: 0,
            has_skills: true,
            ..member.clone()
        };
        Some(Self::of(Arc::clone(&self.pool), vec![alone], Offers::default()))
    }

    /// What holds the upstreams.
    pub(in crate::fleet) fn pool(&self) -> &Arc<Pool> {
        &self.pool
    }

    /// Whether any lists are callers' own.
    pub(in crate::fleet) fn has_lists(&self) -> bool {
        self.members.iter().any(|member| member.has_own_lists)
    }

    /// What `caller` has of each member now.
    pub(in crate::fleet) fn held(&self, caller: &Caller) -> Vec<Got> {
        self.members.iter().map(|member| self.got(member, caller)).collect()
    }

    /// What it has of this one.
    pub(in crate::fleet) fn got(&self, member: &OwnMember, caller: &Caller) -> Got {
        self.pool.peek(member, caller).map_or(Got::Nothing, Got::Connection)
    }

    /// What was made for callers.
    pub(in crate::fleet) fn made(&self) -> &Made<F> {
        &self.made
    }
}
