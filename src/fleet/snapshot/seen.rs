//! A federation as callers see it in whose name its servers are asked.
//!
//! It is made from the snapshot when a caller needs it, and kept for the next request. Callers whose own lists say the
//! same share the merged ones, which hold nothing but those lists.

use std::sync::Arc;

use futures::future::join_all;
use http::HeaderMap;

use super::federation::{Federation, View};
use crate::fleet::caller::Caller;
use crate::fleet::member::{Absent, Member};
use crate::fleet::own::{Got, Lists, NoRoom, Own, OwnMember, Part, Watched, Watching};
use crate::index::{Catalog, Index, instructions};
use crate::upstream::{Health, Introduction};

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

    /// The members whose changes who is `watching` does not hear of, since there is no room for that.
    pub fn unheard_by(&self, watching: &Watching) -> Vec<Absent> {
        let members = self.own.iter().flat_map(|own| &own.members);
        let unheard = members.filter_map(|own| {
            Some(Absent {
                place: own.place,
                member: self.members.get(own.place)?.name.clone(),
                why: watching.refusal_of(&own.upstream)?.to_string(),
            })
        });
        unheard.collect()
    }

    fn made_of(self: &Arc<Self>, own: &Own<Self>, caller: &Caller, held: &[Got]) -> Arc<Self> {
        let from: Vec<Part> = held.iter().map(Part::of).collect();
        if let Some(made) = own.made().view(caller.id(), &from) {
            return made;
        }
        let index = self.index_of(own, &from);
        let federation = Arc::new(self.with(own, held, &from, index));
        own.made().keep_view(caller.id(), from, Arc::clone(&federation));
        federation
    }

    /// The lists of all members as one, those of callers' own as in these states.
    fn index_of(&self, own: &Own<Self>, from: &[Part]) -> Arc<Index> {
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
        let lists: Lists = catalogs
            .iter()
            .map(|(_, catalog)| {
                catalog
                    .as_deref()
                    .map(|catalog| (catalog.era, catalog.digest().to_owned()))
            })
            .collect();
        if let Some(index) = own.made().index(&lists) {
            return index;
        }
        let index = Arc::new(self.index.with(catalogs));
        own.made()
            .keep_index(lists, &index, |seen, gone| Arc::ptr_eq(&seen.index, gone));
        index
    }

    fn with(&self, own: &Own<Self>, held: &[Got], from: &[Part], index: Arc<Index>) -> Self {
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
        self.in_view(View {
            name: self.name.clone(),
            server_info,
            instructions,
            own_instructions: self.own_instructions.clone(),
            members,
            index,
            offers,
            is_alone: self.is_alone,
            own: None,
            is_private: self.is_private,
            absent,
        })
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
