//! The search of a member's own, asked for a client.

use serde_json::json;
use serde_json::value::RawValue;
use tokio::time::timeout;

use crate::defaults;
use crate::fleet::{Federation, Member};
use crate::gateway::dispatch::Request;
use crate::index::findings::Finding;
use crate::index::{Delegated, MetaTool};
use crate::mcp::{Features, Members, Method, meta, object};
use crate::upstream::{Body, Call, Fanout, Owner, Reply, TaskCall, Upstream};

/// What members are asked. Nothing in it tells who asks.
#[derive(Clone, Debug)]
pub(in crate::gateway) struct Question {
    params: String,
    limit: usize,
}

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
    #[error("its answer is no text")]
    Malformed,
}

/// The number of the next hop of a search that came with this `_meta`; `None` where it came far enough, as in a circle
/// of gateways that ask each other.
pub(in crate::gateway) fn next_hop(own: Option<&Members<'_>>) -> Option<u32> {
    let before = own.and_then(|own| own.get(meta::SEARCH_HOPS)?.get().parse().ok());
    let next = before.unwrap_or(0_u32).saturating_add(1);
    (next <= defaults::SEARCH_HOPS_MAX).then_some(next)
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
    let question = Question::new(&delegated.original, defaults::SEARCH_RESULTS_MAX, hops);
    let text = question.answered_by(federation, member).await?;
    Ok(federation.index.is_found(delegated, &text))
}

impl Question {
    /// Asks for `limit` tools that fit `query`, as hop number `hops`.
    pub(in crate::gateway) fn new(query: &str, limit: usize, hops: u32) -> Self {
        let params = json!({
            "name": MetaTool::Search.name(),
            "arguments": {"query": query, "max_results": limit},
            "_meta": {meta::SEARCH_HOPS: hops},
        });
        Self {
            params: params.to_string(),
            limit,
        }
    }

    /// What the member in this place finds; nothing where it fails, which is counted.
    pub(in crate::gateway) async fn ask(
        self,
        federation: &Federation,
        request: Request<'_>,
        place: usize,
    ) -> Vec<Finding> {
        let Some(member) = federation.members.get(place) else {
            return Vec::new();
        };
        if member.upstream.is_none() {
            return Vec::new();
        }
        match self.answered_by(federation, member).await {
            Ok(text) => {
                let found = federation
                    .index
                    .found_by(place, &text, self.limit, request.audience, request.revision);
                found.unwrap_or_default()
            }
            Err(_) => Vec::new(),
        }
    }

    /// The text that `member` answers with; that it fails is counted.
    async fn answered_by(&self, federation: &Federation, member: &Member) -> Result<String, SearchError> {
        let answered = match &member.upstream {
            Some(upstream) => self.put_to(upstream).await.and_then(|reply| text_of(&reply)),
            None => Err(SearchError::Unheld),
        };
        if let Err(error) = &answered {
            federation.metrics.remote_search_failed(&member.name, error.reason());
            tracing::debug!(
                federation = federation.name,
                member = member.name,
                reason = error.reason(),
                "a member's own search failed: {error}"
            );
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
        let answered = timeout(upstream.search_timeout(), upstream.call(call)).await;
        Ok(answered.map_err(|_| SearchError::Timeout)??)
    }
}

/// The first text of a result.
fn text_of(reply: &Reply) -> Result<String, SearchError> {
    let Body::Result(result) = reply.body() else {
        return Err(SearchError::Refused);
    };
    let result = Members::parse(result).ok_or(SearchError::Malformed)?;
    if result.get("isError").is_some_and(|is_error| is_error.get() == "true") {
        return Err(SearchError::Refused);
    }
    let content = result.get("content").ok_or(SearchError::Malformed)?;
    let blocks: Vec<&RawValue> = serde_json::from_str(content.get()).map_err(|_| SearchError::Malformed)?;
    let text = blocks.into_iter().find_map(|block| {
        let block = Members::parse(block.get())?;
        block.get("text").and_then(object::string).map(|text| text.into_owned())
    });
    text.ok_or(SearchError::Malformed)
}

impl SearchError {
    /// What happened, without words of others.
    pub(in crate::gateway) fn outline(&self) -> String {
        match self {
            Self::Upstream(error) => error.outline(),
            Self::Timeout | Self::Unheld | Self::Refused | Self::Malformed => format!("its own search: {self}"),
        }
    }

    /// One CamelCase word for metrics.
    fn reason(&self) -> &'static str {
        match self {
            Self::Timeout => "Timeout",
            Self::Unheld => "NotConnected",
            Self::Upstream(error) => error.reason(),
            Self::Refused => "Refused",
            Self::Malformed => "ProtocolError",
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

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
