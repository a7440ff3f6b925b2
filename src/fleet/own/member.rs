//! A member that callers have for themselves.

use std::sync::Arc;

use http::HeaderName;

use crate::fleet::caller::Caller;
use crate::fleet::member::{Member, Offers};
use crate::fleet::member_plan::MemberPlan;
use crate::fleet::server_plan::ServerPlan;
use crate::fleet::variation::UpstreamKey;
use crate::upstream::{Endpoint, HttpEndpoint, Limits, State, Terms};

/// A member that callers have for themselves.
#[derive(Clone, Debug)]
pub struct OwnMember {
    /// Its place in the federation.
    pub place: usize,
    /// Whether its lists are each caller's own, too.
    pub has_own_lists: bool,
    /// Whether its skills are offered.
    pub(super) has_skills: bool,
    /// How long its single requests may take.
    pub(in crate::fleet) limits: Limits,
    pub(in crate::fleet) upstream: UpstreamKey,
    pub(super) plan: Arc<ServerPlan>,
}

impl OwnMember {
    /// The `member` in this `place` whose upstream is planned so, if callers have it for themselves.
    pub(in crate::fleet) fn of(place: usize, member: &MemberPlan, plan: &ServerPlan) -> Option<Self> {
        let own = Self::reached(place, member.upstream(), plan)?;
        Some(Self {
            has_skills: member.has_skills(),
            limits: member.limits,
            ..own
        })
    }

    /// The same of one that is reached so, of which nothing else is said.
    pub(super) fn reached(place: usize, upstream: UpstreamKey, plan: &ServerPlan) -> Option<Self> {
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

    pub(super) fn headers(&self) -> &[HeaderName] {
        let forwards = self.plan.terms.forwards.as_ref();
        forwards.map_or(&[], |forwards| &forwards.headers)
    }

    /// Where and how it is reached for `caller`. What the manifest says of headers that go on is for others: who
    /// presents none of his own is not to be taken for whoever wrote the manifest.
    pub(super) fn for_caller(&self, caller: &Caller) -> (Endpoint, Terms) {
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

    /// Tells what the server says of itself and offers to the caller, as far as it did.
    pub(in crate::fleet) fn introduce(&self, member: &mut Member, state: &State) {
        let Some(peer) = state.peer.as_deref() else { return };
        member.introduction = peer.introduction.clone();
        member.instructions.clone_from(&peer.instructions);
        member.offers = Offers::of(peer, state.catalog.as_deref()).with_skills(self.has_skills);
    }
}

#[cfg(test)]
mod tests {
    use http::{HeaderMap, HeaderValue};

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
