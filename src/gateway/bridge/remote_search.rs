//! The search of a member's own, asked for a client.

use std::time::Duration;

use serde_json::json;
use tokio::time::{Instant, timeout};

use crate::defaults;
use crate::fleet::{Federation, Member};
use crate::gateway::request::Request;
use crate::index::findings::{Finding, Unreadable};
use crate::index::{Delegated, MetaTool};
use crate::mcp::{Features, Mark, Members, Method, meta};
use crate::upstream::{Body, Call, Fanout, Owner, Reply, TaskCall, Upstream};

/// What members are asked. Nothing in it tells which client asks.
#[derive(Clone, Debug)]
pub(in crate::gateway) struct Question {
    params: String,
    limit: usize,
    patience: Duration,
}

/// A member whose search is of no use now, by its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::gateway) struct Absent(pub(in crate::gateway) String);

/// Why a member's search is of no use.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(in crate::gateway) enum SearchError {
    #[error("it did not answer in time")]
    Timeout,
    #[error("it has no server")]
    Unheld,
    #[error(transparent)]
    Upstream(#[from] crate::upstream::Error),
    #[error("it answered with an error")]
    Refused,
    #[error(transparent)]
    Unreadable(#[from] Unreadable),
}

/// The number of the next hop of a search that came with this `_meta`; `None` where it came far enough, as in a circle
/// of gateways that ask each other.
pub(in crate::gateway) fn next_hop(own: Option<&Members<'_>>) -> Option<u32> {
    let before = own.and_then(|own| own.get(meta::SEARCH_HOPS)?.get().parse().ok());
    let next = before.unwrap_or(0_u32).saturating_add(1);
    (next <= defaults::SEARCH_HOPS_MAX).then_some(next)
}

/// How long members are waited for as hop number `hops`.
fn patience(hops: u32) -> Duration {
    defaults::SEARCH_TIMEOUT.saturating_sub(defaults::SEARCH_HOP_TIMEOUT * hops.saturating_sub(1))
}

/// Whether the member has the tool `delegated` and lets models run it by its name, as its own search tells: a name that
/// nobody was ever told is not passed on.
///
/// # Errors
/// Its search does not tell.
pub(in crate::gateway) async fn has(
    federation: &Federation,
    delegated: &Delegated,
    hops: u32,
) -> Result<bool, SearchError> {
    let member = federation.members.get(delegated.member).ok_or(SearchError::Unheld)?;
    let question = Question::new(
        &delegated.original,
        defaults::SEARCH_RESULTS_MAX,
        hops,
        &[federation.mark],
    );
    let read = |result: &str| federation.index.is_found(delegated, result);
    question.answered_by(federation, member, read).await
}

impl Question {
    /// Asks for `limit` tools that fit `query`, as hop number `hops` after these federations.
    pub(in crate::gateway) fn new(query: &str, limit: usize, hops: u32, passed: &[Mark]) -> Self {
        let passed: Vec<String> = passed.iter().map(Mark::to_string).collect();
        let params = json!({
            "name": MetaTool::Search.name(),
            "arguments": {"query": query, "max_results": limit},
            "_meta": {meta::SEARCH_HOPS: hops, meta::SEARCH_PASSED: passed},
        });
        Self {
            params: params.to_string(),
            limit,
            patience: patience(hops),
        }
    }

    /// What the member in this place finds.
    ///
    /// # Errors
    /// It fails or takes too long, which is counted and, now and then, logged.
    pub(in crate::gateway) async fn ask(
        self,
        federation: &Federation,
        request: Request<'_>,
        place: usize,
    ) -> Result<Vec<Finding>, Absent> {
        let Some(member) = federation.members.get(place) else {
            return Ok(Vec::new());
        };
        if member.upstream.is_none() {
            return Err(Absent(member.name.clone()));
        }
        let index = &federation.index;
        let read = |result: &str| index.found_by(place, result, self.limit, request.audience, request.revision);
        let found = self.answered_by(federation, member, read).await;
        found.map_err(|_| Absent(member.name.clone()))
    }

    /// What `read` makes of the result that `member` answers with; that it fails is counted and, as it changes, logged.
    async fn answered_by<T>(
        &self,
        federation: &Federation,
        member: &Member,
        read: impl FnOnce(&str) -> Result<T, Unreadable>,
    ) -> Result<T, SearchError> {
        let Some(upstream) = &member.upstream else {
            return Err(SearchError::Unheld);
        };
        let reply = self.put_to(upstream).await;
        let answered = reply.and_then(|reply| Ok(read(result_of(&reply)?)?));
        let (federation_name, member_name) = (federation.name.as_str(), member.name.as_str());
        match &answered {
            Ok(_) if upstream.search_failures().is_over() => {
                tracing::info!(
                    federation = federation_name,
                    member = member_name,
                    "its own search is of use again"
                );
            }
            Ok(_) => {}
            Err(error) => {
                let reason = error.reason();
                federation.metrics.remote_search_failed(member_name, reason);
                let failures = upstream.search_failures();
                if failures.is_due(reason, Instant::now(), defaults::SEARCH_FAILURE_PAUSE) {
                    tracing::warn!(
                        federation = federation_name,
                        member = member_name,
                        reason,
                        "a member's own search is of no use: {error}"
                    );
                }
            }
        }
        answered
    }

    async fn put_to(&self, upstream: &Upstream) -> Result<Reply, SearchError> {
        let params = Members::parse(&self.params).unwrap_or_default();
        let own = params.get("_meta").and_then(|own| Members::parse(own.get()));
        let call = Call {
            method: Method::ToolsCall,
            target: MetaTool::Search.name(),
            params: &params,
            meta: own.as_ref(),
            param_headers: None,
            owner: Owner::Nobody,
            features: &Features::default(),
            answers: None,
            task: TaskCall::No,
            log_level: None,
            ear: None,
            fanout: Fanout::No,
        };
        let patience = self.patience.min(upstream.search_timeout());
        let answered = timeout(patience, upstream.call(call)).await;
        Ok(answered.map_err(|_| SearchError::Timeout)??)
    }
}

/// The result of a search that succeeded.
fn result_of(reply: &Reply) -> Result<&str, SearchError> {
    let Body::Result(json) = reply.body() else {
        return Err(SearchError::Refused);
    };
    let result = Members::parse(json).ok_or(Unreadable::Empty)?;
    let is_error = result.get("isError").is_some_and(|is_error| is_error.get() == "true");
    if is_error { Err(SearchError::Refused) } else { Ok(json) }
}

impl SearchError {
    /// What happened, without words of others.
    pub(in crate::gateway) fn outline(&self) -> String {
        match self {
            Self::Upstream(error) => error.outline(),
            Self::Timeout | Self::Unheld | Self::Refused | Self::Unreadable(_) => format!("its own search: {self}"),
        }
    }

    /// One CamelCase word for metrics.
    fn reason(&self) -> &'static str {
        match self {
            Self::Timeout => "Timeout",
            Self::Unheld => "NotConnected",
            Self::Upstream(error) => error.reason(),
            Self::Refused => "Refused",
            Self::Unreadable(unreadable) => unreadable.reason(),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    #[test]
    fn whoever_is_asked_by_a_gateway_waits_less_long_than_that_one() {
        let all: Vec<Duration> = (1..=defaults::SEARCH_HOPS_MAX).map(patience).collect();
        assert!(all.is_sorted_by(|one, further| one > further), "{all:?}");
        assert!(all.iter().all(|patience| !patience.is_zero()));
    }

    #[test]
    fn a_search_goes_so_far_and_no_further() {
        let next = |own: Value| next_hop(Members::parse(&own.to_string()).as_ref());
        assert_eq!(next_hop(None), Some(1));
        for (said, expected) in [
            (json!(1), Some(2)),
            (json!(2), Some(3)),
            (json!(3), None),
            (json!(4_294_967_295_u32), None),
            (json!(-1), Some(1)),
            (json!("2"), Some(1)),
        ] {
            assert_eq!(next(json!({meta::SEARCH_HOPS: said})), expected, "{said}");
        }
    }
}
