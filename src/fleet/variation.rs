//! Upstreams that some members have of a server for themselves, since they deal with it in another way.

use std::fmt;

use http::HeaderValue;

use super::plan::{ObjectKey, ServerPlan};
use crate::api::federation::Member;
use crate::mcp::headers;
use crate::upstream::Endpoint;

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
}

impl Variation {
    /// What `member` says of a server at `endpoint`. What has no headers cannot be asked for more.
    pub fn of(member: &Member, endpoint: Option<&Endpoint>) -> Self {
        Self {
            shows_all: member.show_all && matches!(endpoint, Some(Endpoint::Http(_))),
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
        plan
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
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.server.fmt(f)?;
        if self.variation.shows_all {
            f.write_str(" (show-all)")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderMap;

    use super::*;
    use crate::upstream::{HttpEndpoint, Program, StdioCommand, Terms};

    #[test]
    fn only_what_has_headers_is_asked_for_everything() {
        let http = Endpoint::Http(HttpEndpoint {
            url: "http://a.example/mcp".parse().unwrap(),
            headers: HeaderMap::new(),
        });
        let process = Endpoint::Stdio(StdioCommand {
            program: Program::from("serve"),
            args: Vec::new(),
            env: Default::default(),
            cwd: None,
        });
        let asking = Member {
            show_all: true,
            ..Member::default()
        };
        let plain = Variation::default();
        assert_eq!(Variation::of(&asking, Some(&process)), plain);
        assert_eq!(Variation::of(&asking, None), plain);
        assert_eq!(Variation::of(&Member::default(), Some(&http)), plain);
        let varied = Variation::of(&asking, Some(&http));
        assert!(varied.shows_all);
        let plan = ServerPlan {
            endpoint: http,
            terms: Terms::default(),
            refresh: Default::default(),
        };
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
}
