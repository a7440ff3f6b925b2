//! Something that a client asks of a task, and the answers to it that are the same wherever the task is.

use std::borrow::Cow;
use std::sync::Arc;

use http::StatusCode;
use serde_json::json;

use crate::api::federation::Encoding;
use crate::fleet::{Federation, Member};
use crate::gateway::access::Principal;
use crate::gateway::answer::Answer;
use crate::gateway::conversations::Conversations;
use crate::gateway::modern::{Refusal, refusal};
use crate::gateway::request::Request;
use crate::gateway::task_name::{self, Found};
use crate::gateway::viewer::Standing;
use crate::index::Audience;
use crate::index::skills::rewrite;
use crate::mcp::task::{self, Detail, Task};
use crate::mcp::{Era, Features, Members, Method, RpcError, message, meta, shape, toon};
use crate::metrics::Outcome;
use crate::upstream::{Answers, Call, Error, Fanout, Owner, Reply, TaskCall, Upstream};

/// Something that a client asks of a task, on its way to the server that has it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Errand<'a> {
    pub(super) federation: &'a Federation,
    pub(super) member: &'a Member,
    pub(super) upstream: &'a Arc<Upstream>,
    pub(super) request: Request<'a>,
    /// What the client calls the task.
    pub(super) name: &'a str,
    pub(super) found: &'a Found,
}

impl Errand<'_> {
    /// Asks `method` of the task.
    pub(super) async fn ask(&self, method: Method, features: &Features, params: &Members<'_>) -> Result<Reply, Error> {
        let request = self.request;
        let responses = request.params.get("inputResponses").map(|raw| raw.get());
        let answers = responses.filter(|_| method == Method::TasksUpdate).map(|text| Answers {
            responses: Some(text),
            state: None,
        });
        let owner = request.principal.name();
        let call = Call {
            method,
            target: &self.found.task,
            params,
            meta: request.meta,
            param_headers: None,
            owner: owner.map_or(Owner::Nobody, |name| Owner::Principal(name.into())),
            features,
            answers,
            task: TaskCall::No,
            log_level: None,
            ear: None,
            fanout: Fanout::No,
        };
        self.upstream.call(call).await
    }

    /// The answer that tells all of the task.
    pub(super) fn told(&self, task: &Task<'_>, detail: Detail<'_>) -> Answer {
        let (id, info) = (self.request.id, &self.federation.server_info);
        let body = encoded(self.federation.encoding, task, detail, |detail| {
            task::detailed_response(id, task, detail, self.name, info)
        });
        Answer::new(body, Outcome::Ok)
    }

    /// A task with the URIs of skills that clients know them by.
    pub(super) fn for_client<'r>(&self, task: &'r str) -> Cow<'r, str> {
        match &self.member.skills {
            Some(prefix) => rewrite::task(task, prefix),
            None => Cow::Borrowed(task),
        }
    }

    pub(super) fn acknowledged(&self) -> Answer {
        let (id, info) = (self.request.id, &self.federation.server_info);
        Answer::new(task::acknowledged(id, info), Outcome::Ok)
    }

    /// The answer where the server refuses.
    pub(super) fn refused(&self, error: &str) -> Answer {
        let error = shape::error(error, self.request.method, self.request.params, Era::Modern);
        let body = message::error_response(Some(self.request.id.as_json()), &error);
        Answer::new(body, Outcome::UpstreamError)
    }

    /// The answer where the server failed.
    pub(super) fn failed(&self, why: &dyn std::fmt::Display) -> Answer {
        Answer::failed(self.request, &self.federation.of_member(&self.member.name, why))
    }
}

/// What `tell` makes of `task`, whose result is written in `encoding`.
pub(super) fn encoded(
    encoding: Encoding,
    task: &Task<'_>,
    detail: Detail<'_>,
    tell: impl FnOnce(Detail<'_>) -> Vec<u8>,
) -> Vec<u8> {
    let result = match (detail, encoding) {
        (Detail::Result(result), Encoding::TOON) => Some(toon::in_tool_result(result)),
        (Detail::Own, Encoding::TOON) => task.result().map(toon::in_tool_result),
        _ => None,
    };
    tell(result.as_deref().map_or(detail, Detail::Result))
}

/// Where the task is that `principal` calls by this `name`; `None` if there is none for it.
pub(super) fn find(name: &str, federation: &Federation, principal: &Principal, keys: &Conversations) -> Option<Found> {
    let keys = keys.keys(&federation.name)?;
    task_name::open(name, principal.name(), &keys)
}

impl Found {
    /// The member through which `audience` may use the tool; what it may see can have changed since it called.
    pub(super) fn member<'f>(&self, federation: &'f Federation, audience: Audience) -> Option<&'f Member> {
        let mut members = federation.members.iter().enumerate();
        let is_it = |(place, member): &(usize, &Member)| {
            member.server == self.server && federation.index.offers_tool(*place, &self.tool, audience)
        };
        members.find(is_it).map(|(_, member)| member)
    }

    /// Whether whoever has this `standing` may use the tool now, and so hear of the task.
    pub(super) fn is_offered(&self, standing: &Standing) -> bool {
        let now = standing.now();
        now.is_some_and(|(federation, audience)| self.member(&federation, audience).is_some())
    }
}

/// Whether a client declares the extension in the `_meta` of its request.
///
/// # Errors
/// It does not: the refusal says what is needed (2026-07-28, errors).
pub(in crate::gateway) fn declared(own: Option<&Members<'_>>) -> Result<Features, Refusal> {
    let features = own
        .and_then(|own| own.get(meta::CLIENT_CAPABILITIES))
        .map_or_else(Features::default, |raw| {
            Features::declared(raw.get(), crate::mcp::Revision::LATEST)
        });
    if features.tasks {
        return Ok(features);
    }
    let text = format!("the client must declare the extension {}", task::EXTENSION);
    let error = RpcError::new(RpcError::MISSING_CLIENT_CAPABILITY, text);
    let error = error.with_data(json!({"requiredCapabilities": {"extensions": {task::EXTENSION: {}}}}));
    Err(refusal(StatusCode::BAD_REQUEST, error))
}

/// Whether a request has the answers that it has to have.
pub(super) fn has_responses(request: Request<'_>) -> bool {
    let responses = request.params.get("inputResponses");
    responses.is_some_and(|raw| Members::parse(raw.get()).is_some())
}

/// The answer to one that has none.
pub(super) fn without_responses(request: Request<'_>) -> Answer {
    let error = RpcError::new(RpcError::INVALID_PARAMS, "params.inputResponses must be an object");
    Answer::refused(request, &error)
}

/// The answer about a task that is none, or not this client's, or over for so long that it was forgotten.
pub(super) fn unknown(request: Request<'_>) -> Answer {
    let text = "params.taskId names no task (any more) that this client may ask for";
    Answer::refused(request, &RpcError::new(RpcError::INVALID_PARAMS, text))
}

/// The answer to a request that is refused.
pub(super) fn refused(request: Request<'_>, refusal: &Refusal) -> Answer {
    Answer {
        status: refusal.status,
        ..Answer::refused(request, &refusal.error)
    }
}
