//! Upstreams that some members have of a server for themselves, since they deal with it in another way.
//!
//! A process is one for all its members: how it is started, and how its lists are read, is its owner's to say.

use std::fmt;
use std::time::Duration;

use http::HeaderValue;

use super::object_key::ObjectKey;
use super::server_plan::{ServerInput, ServerPlan};
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
    /// So long it is waited for until there is a connection, and for its lists.
    pub opening: Option<Opening>,
    /// Its lists are kept so fresh.
    pub freshness: Option<Freshness>,
}

/// How long a server is waited for until it can be called.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Opening {
    /// Until there is a connection.
    pub connect: Duration,
    /// For one page of a list; `None` waits for as long as it takes.
    pub list: Option<Duration>,
}

impl Variation {
    /// What `member` says otherwise than the owner of `server`. What has no headers cannot be asked for more, and of a
    /// process there is one for all.
    pub fn of(member: &Member, server: Option<&ServerInput>) -> Self {
        let Some(server) = server.filter(|server| matches!(server.endpoint, Ok(Endpoint::Http(_)))) else {
            return Self::default();
        };
        Self {
            shows_all: member.show_all,
            ..Self::of_times(member, server)
        }
    }

    /// Whether `member` says something that is the owner's to say, since its `server` is a process.
    pub(super) fn is_owners(member: &Member, server: &ServerInput) -> bool {
        let is_process = matches!(server.endpoint, Ok(Endpoint::Stdio(_)));
        is_process && Self::of_times(member, server) != Self::default()
    }

    fn of_times(member: &Member, server: &ServerInput) -> Self {
        let terms = &server.terms;
        let timeouts = waits::timeouts(member.timeouts.as_ref(), terms.timeouts);
        let (said, otherwise) = (Opening::of(timeouts), Opening::of(terms.timeouts));
        let cache = member.cache.as_ref();
        let (ttl, stale_for) = cache.map_or((None, None), |cache| (cache.ttl, cache.stale_for));
        let freshness = waits::freshness(ttl, stale_for, terms.freshness);
        Self {
            shows_all: false,
            opening: (said != otherwise).then_some(said),
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
        if let Some(Opening { connect, list }) = self.opening {
            (plan.terms.timeouts.connect, plan.terms.timeouts.list) = (connect, list);
        }
        plan.terms.freshness = self.freshness.unwrap_or(plan.terms.freshness);
        plan
    }
}

impl Opening {
    fn of(timeouts: Timeouts) -> Self {
        Self {
            connect: timeouts.connect,
            list: timeouts.list,
        }
    }
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
    /// As messages call it. The values of what is otherwise are not told.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Variation {
            shows_all,
            opening,
            freshness,
        } = self.variation;
        let words = match (shows_all, opening.is_some() || freshness.is_some()) {
            (false, false) => "",
            (true, false) => " (show-all)",
            (false, true) => " (own times)",
            (true, true) => " (show-all, own times)",
        };
        write!(f, "{}{words}", self.server)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use http::HeaderMap;
    use serde_json::{Value, json};

    use super::*;
    use crate::fleet::Unresolved;
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

    fn process() -> Endpoint {
        Endpoint::Stdio(StdioCommand {
            program: Program::from("serve"),
            args: Vec::new(),
            env: Default::default(),
            cwd: None,
        })
    }

    #[test]
    fn only_what_has_headers_is_asked_for_everything() {
        let asking = member(json!({"showAll": true, "timeouts": {"call": "1s", "resource": "1s"}}));
        let plain = Variation::default();
        assert_eq!(Variation::of(&asking, Some(&server(Some(process())))), plain);
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
        let server = server(Some(http()));
        let plan = plan(&server);
        let member = member(json!({"timeouts": {"list": "2s"}, "cache": {"ttl": "-1s"}}));
        let varied = Variation::of(&member, Some(&server));
        let terms = varied.apply(&plan).terms;
        assert_eq!(terms.timeouts.list, Some(Duration::from_secs(2)));
        assert_eq!(terms.freshness.ttl, Duration::ZERO);
        assert_eq!(terms.freshness.stale_for, plan.terms.freshness.stale_for);
        let key = |variation| UpstreamKey {
            server: server.key.clone(),
            variation,
        };
        let mut other = varied;
        other.opening.as_mut().unwrap().connect += Duration::from_millis(1);
        assert_ne!(key(other), key(varied));
        other.shows_all = true;
        let shown = [varied, other].map(|variation| key(variation).to_string());
        assert_eq!(shown, ["team/git (own times)", "team/git (show-all, own times)"]);
    }

    #[test]
    fn a_process_is_one_for_all_and_limits_of_calls_need_no_connection() {
        let server = server(Some(process()));
        let plain = Variation::default();
        for (said, is_owners) in [
            (json!({"timeouts": {"call": "9s", "resource": "2s"}}), false),
            (json!({"timeouts": {"list": "10s"}, "cache": {"ttl": "60s"}}), false),
            (json!({"timeouts": {"list": "2s"}}), true),
            (json!({"timeouts": {"connect": "1m"}}), true),
            (json!({"cache": {"ttl": "5s"}}), true),
        ] {
            let member = member(said.clone());
            assert_eq!(Variation::of(&member, Some(&server)), plain, "{said}");
            assert_eq!(Variation::is_owners(&member, &server), is_owners, "{said}");
        }
        let calls = member(json!({"timeouts": {"call": "9s", "resource": "2s"}}));
        let remote = self::server(Some(http()));
        assert_eq!(Variation::of(&calls, Some(&remote)), plain);
        let lists = member(json!({"timeouts": {"list": "2s"}}));
        assert!(!Variation::is_owners(&lists, &remote));
    }

    #[test]
    fn who_says_what_holds_anyway_shares_the_upstream() {
        let server = server(Some(http()));
        let same = member(json!({"timeouts": {"list": "10s"}, "cache": {"ttl": "60s", "staleFor": "10m"}}));
        assert_eq!(Variation::of(&same, Some(&server)), Variation::default());
    }
}
