//! Upstreams that some members have of a server for themselves, since they deal with it in another way.

use std::fmt;
use std::time::Duration;

use http::HeaderValue;

use super::plan::{ObjectKey, ServerInput, ServerPlan};
use super::waits;
use crate::api::federation::Member;
use crate::mcp::headers;
use crate::upstream::{Endpoint, Freshness, Timeouts};

/// Which upstream: that of a server, or one of its variations.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct UpstreamKey {
    /// The server.
    pub server: ObjectKey,
    /// How it is dealt with otherwise than its owner says.
    pub variation: Variation,
}

/// How members deal with a server otherwise than its owner says. Whoever does it alike shares the upstream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Variation {
    /// It is asked for everything, past what it lists otherwise.
    pub shows_all: bool,
    /// It is waited for so long.
    pub timeouts: Option<Timeouts>,
    /// Its lists are kept so fresh.
    pub freshness: Option<Freshness>,
}

impl Variation {
    /// What `member` says otherwise than the owner of `server`. What has no headers cannot be asked for more.
    pub fn of(member: &Member, server: Option<&ServerInput>) -> Self {
        let Some(server) = server else { return Self::default() };
        let terms = &server.terms;
        let timeouts = waits::timeouts(member.timeouts.as_ref(), terms.timeouts);
        let cache = member.cache.as_ref();
        let (ttl, stale_for) = cache.map_or((None, None), |cache| (cache.ttl, cache.stale_for));
        let freshness = waits::freshness(ttl, stale_for, terms.freshness);
        Self {
            shows_all: member.show_all && matches!(server.endpoint, Ok(Endpoint::Http(_))),
            timeouts: (timeouts != terms.timeouts).then_some(timeouts),
            freshness: (freshness != terms.freshness).then_some(freshness),
        }
    }

    /// `plan` in this way.
    pub(super) fn apply(self, plan: &ServerPlan) -> ServerPlan {
        let mut plan = plan.clone();
        if self.shows_all
            && let Endpoint::Http(endpoint) = &mut plan.endpoint
        {
            endpoint
                .headers
                .insert(headers::SHOW_ALL.clone(), HeaderValue::from_static("true"));
        }
        plan.terms.timeouts = self.timeouts.unwrap_or(plan.terms.timeouts);
        plan.terms.freshness = self.freshness.unwrap_or(plan.terms.freshness);
        plan
    }

    /// What is otherwise, in words that no other variation has.
    fn words(self) -> Vec<String> {
        let mut words: Vec<String> = self.shows_all.then(|| "show-all".to_owned()).into_iter().collect();
        if let Some(timeouts) = self.timeouts {
            let Timeouts {
                connect,
                list,
                call,
                resource,
            } = timeouts;
            let (list, call) = (shown(list), shown(call));
            words.push(format!(
                "waits connect {connect:?} list {list} call {call} resource {resource:?}"
            ));
        }
        if let Some(Freshness { ttl, stale_for }) = self.freshness {
            words.push(format!("lists kept {ttl:?} stale {stale_for:?}"));
        }
        words
    }
}

fn shown(wait: Option<Duration>) -> String {
    wait.map_or_else(|| "for ever".to_owned(), |wait| format!("{wait:?}"))
}

impl From<ObjectKey> for UpstreamKey {
    /// That of the server, as its owner says.
    fn from(server: ObjectKey) -> Self {
        Self {
            server,
            variation: Variation::default(),
        }
    }
}

impl fmt::Display for UpstreamKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.server.fmt(f)?;
        match self.variation.words().as_slice() {
            [] => Ok(()),
            words => write!(f, " ({})", words.join(", ")),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use http::HeaderMap;
    use serde_json::{Value, json};

    use super::*;
    use crate::fleet::plan::Unresolved;
    use crate::upstream::{HttpEndpoint, Program, StdioCommand, Terms};

    fn server(endpoint: Option<Endpoint>) -> ServerInput {
        let unresolved = Unresolved {
            reason: "Test",
            message: String::new(),
        };
        ServerInput {
            key: ObjectKey::new("team", "git"),
            labels: BTreeMap::new(),
            allowed_namespaces: Default::default(),
            disabled: false,
            terms: Terms::default(),
            refresh: Default::default(),
            endpoint: endpoint.ok_or(unresolved),
        }
    }

    fn http() -> Endpoint {
        Endpoint::Http(HttpEndpoint {
            url: "http://a.example/mcp".parse().unwrap(),
            headers: HeaderMap::new(),
        })
    }

    fn plan(server: &ServerInput) -> ServerPlan {
        ServerPlan {
            endpoint: server.endpoint.clone().unwrap(),
            terms: server.terms.clone(),
            refresh: Default::default(),
        }
    }

    fn member(said: Value) -> Member {
        let mut member = json!({"name": "m"});
        member
            .as_object_mut()
            .unwrap()
            .extend(said.as_object().unwrap().clone());
        serde_json::from_value(member).unwrap()
    }

    #[test]
    fn only_what_has_headers_is_asked_for_everything() {
        let process = Endpoint::Stdio(StdioCommand {
            program: Program::from("serve"),
            args: Vec::new(),
            env: Default::default(),
            cwd: None,
        });
        let asking = member(json!({"showAll": true}));
        let plain = Variation::default();
        assert_eq!(Variation::of(&asking, Some(&server(Some(process)))), plain);
        assert_eq!(Variation::of(&asking, Some(&server(None))), plain);
        assert_eq!(Variation::of(&asking, None), plain);
        let server = server(Some(http()));
        assert_eq!(Variation::of(&Member::default(), Some(&server)), plain);
        let varied = Variation::of(&asking, Some(&server));
        assert!(varied.shows_all);
        let plan = plan(&server);
        assert_eq!(plain.apply(&plan), plan);
        let Endpoint::Http(endpoint) = varied.apply(&plan).endpoint else {
            panic!("it stays where it is")
        };
        assert_eq!(endpoint.headers[&headers::SHOW_ALL], "true");
        let key = UpstreamKey {
            server: ObjectKey::new("team", "git"),
            variation: varied,
        };
        assert_eq!(key.to_string(), "team/git (show-all)");
        assert_ne!(key, ObjectKey::new("team", "git").into());
    }

    #[test]
    fn what_a_member_says_goes_before_what_the_servers_owner_says() {
        let mut server = server(Some(http()));
        server.terms.timeouts.call = Some(Duration::from_secs(9));
        let plan = plan(&server);
        let member = member(json!({"timeouts": {"list": "2s"}, "cache": {"ttl": "-1s"}}));
        let varied = Variation::of(&member, Some(&server));
        let terms = varied.apply(&plan).terms;
        assert_eq!(terms.timeouts.list, Some(Duration::from_secs(2)));
        assert_eq!(terms.timeouts.call, Some(Duration::from_secs(9)));
        assert_eq!(terms.freshness.ttl, Duration::ZERO);
        assert_eq!(terms.freshness.stale_for, plan.terms.freshness.stale_for);
        let key = |variation| UpstreamKey {
            server: server.key.clone(),
            variation,
        };
        let shown = key(varied).to_string();
        assert!(shown.contains("list 2s") && shown.contains("lists kept 0ns"), "{shown}");
        let mut other = varied;
        other.timeouts.as_mut().unwrap().resource += Duration::from_millis(1);
        assert_ne!(key(other).to_string(), shown);
    }

    #[test]
    fn who_says_what_holds_anyway_shares_the_upstream() {
        let server = server(Some(http()));
        let same = member(json!({"timeouts": {"list": "10s"}, "cache": {"ttl": "60s", "staleFor": "10m"}}));
        assert_eq!(Variation::of(&same, Some(&server)), Variation::default());
    }
}
