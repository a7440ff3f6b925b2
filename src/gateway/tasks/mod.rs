//! Tasks of the extension: what clients ask of those that calls of theirs became, and how they hear of them.
//!
//! A task stays with the server that made it. Its name says which one that is, so that every replica can carry what is
//! asked of it. Those of 2025-11-25 servers are told in the extension's words by [`core`]; where such a server keeps
//! them by session, they can be asked for only where that session is: in the replica that made them. So it is with those
//! whose client can be asked something, which are [`kept`] here.

mod changes;
mod core;
mod kept;
mod name;

use std::borrow::Cow;
use std::sync::Arc;

use http::StatusCode;
use serde_json::json;

use self::name::Found;
use super::access::Principal;
use super::answer::Answer;
use super::bridge::Bridge;
use super::dispatch::Request;
use super::modern::{Refusal, refusal};
use crate::api::federation::Encoding;
use crate::fleet::{Federation, Member};
use crate::index::Audience;
use crate::index::skills::rewrite;
use crate::mcp::task::{self, Detail, Kind, Task};
use crate::mcp::{Era, Features, Members, Method, RpcError, message, meta, shape, toon};
use crate::metrics::Outcome;
use crate::upstream::{Answers, Body, Call, Error, Fanout, Owner, Reply, TaskCall, Upstream};

pub(super) use self::changes::Changes;
pub(super) use self::name::{Keeper, Route};

/// Carries out `tasks/get`, `tasks/update` or `tasks/cancel`.
pub(super) async fn carry(federation: &Federation, request: Request<'_>) -> Answer {
    if !federation.offers.tasks {
        let error = RpcError::method_not_found(request.method.as_str());
        return refused(request, &refusal(StatusCode::NOT_FOUND, error));
    }
    if let Err(lacking) = declared(request.meta) {
        return refused(request, &lacking);
    }
    let name = request.params.string("taskId").unwrap_or_default();
    let found = Route::find(&name, federation, request.principal, request.bridge);
    let member = found
        .as_ref()
        .and_then(|found| found.member(federation, request.audience));
    let (Some(found), Some(member)) = (&found, member) else {
        return unknown(request);
    };
    let Some(upstream) = &member.upstream else {
        return Answer::failed(request, &format!("member {:?} is not connected", member.name));
    };
    let errand = Errand {
        federation,
        member,
        upstream,
        request,
        name: &name,
        found,
    };
    match (found.keeper, upstream.revision().map(|revision| revision.era())) {
        (Keeper::Gateway, _) => kept::carry(errand),
        (Keeper::Server, Some(Era::Legacy)) => core::carry(errand).await,
        (Keeper::Server, Some(Era::Modern) | None) => relay(errand).await,
    }
}

/// Whether a client declares the extension in the `_meta` of its request.
///
/// # Errors
/// It does not: the refusal says what is needed (2026-07-28, errors).
pub(super) fn declared(own: Option<&Members<'_>>) -> Result<Features, Refusal> {
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

impl Route<'_> {
    /// The name of the task for `principal`. `None` where the keys are not here.
    pub(super) fn sealed(self, federation: &Federation, principal: &Principal, bridge: &Bridge) -> Option<String> {
        let keys = bridge.keys(&federation.name)?;
        Some(name::seal(self, principal.name(), &keys))
    }

    /// Where the task is that `principal` calls by this name; `None` if there is none for it.
    fn find(name: &str, federation: &Federation, principal: &Principal, bridge: &Bridge) -> Option<Found> {
        let keys = bridge.keys(&federation.name)?;
        name::open(name, principal.name(), &keys)
    }
}

impl Found {
    /// The member through which `audience` may use the tool; what it may see can have changed since it called.
    fn member<'f>(&self, federation: &'f Federation, audience: Audience) -> Option<&'f Member> {
        let mut members = federation.members.iter().enumerate();
        let is_it = |(place, member): &(usize, &Member)| {
            member.server == self.server && federation.index.offers_tool(*place, &self.tool, audience)
        };
        members.find(is_it).map(|(_, member)| member)
    }
}

/// Something that a client asks of a task, on its way to the server that has it.
#[derive(Clone, Copy, Debug)]
struct Errand<'a> {
    federation: &'a Federation,
    member: &'a Member,
    upstream: &'a Arc<Upstream>,
    request: Request<'a>,
    /// What the client calls the task.
    name: &'a str,
    found: &'a Found,
}

impl Errand<'_> {
    /// Asks `method` of the task.
    async fn ask(&self, method: Method, features: &Features, params: &Members<'_>) -> Result<Reply, Error> {
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
    fn told(&self, task: &Task<'_>, detail: Detail<'_>) -> Answer {
        let (id, info) = (self.request.id, &self.federation.server_info);
        let body = encoded(self.federation.encoding, task, detail, |detail| {
            task::detailed_response(id, task, detail, self.name, info)
        });
        Answer::new(body, Outcome::Ok)
    }

    /// A task with the URIs of skills that clients know them by.
    fn for_client<'r>(&self, task: &'r str) -> Cow<'r, str> {
        match &self.member.skills {
            Some(prefix) => rewrite::task(task, prefix),
            None => Cow::Borrowed(task),
        }
    }

    fn acknowledged(&self) -> Answer {
        let (id, info) = (self.request.id, &self.federation.server_info);
        Answer::new(task::acknowledged(id, info), Outcome::Ok)
    }

    /// The answer where the server refuses.
    fn refused(&self, error: &str) -> Answer {
        let error = shape::error(error, self.request.method, self.request.params, Era::Modern);
        let body = message::error_response(Some(self.request.id.as_json()), &error);
        Answer::new(body, Outcome::UpstreamError)
    }

    /// The answer where the server failed.
    fn failed(&self, why: &dyn std::fmt::Display) -> Answer {
        Answer::failed(self.request, &format!("member {:?}: {why}", self.member.name))
    }
}

/// What `tell` makes of `task`, whose result is written in `encoding`.
fn encoded(
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

/// Asks a Modern server, which has tasks of the same kind.
async fn relay(errand: Errand<'_>) -> Answer {
    let request = errand.request;
    let features = match declared(request.meta) {
        Ok(features) => features,
        Err(lacking) => return refused(request, &lacking),
    };
    if request.method == Method::TasksUpdate && !has_responses(request) {
        return without_responses(request);
    }
    let reply = errand.ask(request.method, &features, request.params).await;
    let reply = match &reply {
        Ok(reply) => reply,
        Err(error) => return errand.failed(error),
    };
    match reply.body() {
        Body::Error(error) => errand.refused(error),
        Body::Result(_) if request.method != Method::TasksGet => errand.acknowledged(),
        Body::Result(result) => match Task::read(&errand.for_client(result), Kind::Extension) {
            Some(task) if *task.id == errand.found.task => errand.told(&task, Detail::Own),
            Some(_) => errand.failed(&"it told of another task"),
            None => errand.failed(&"its answer names no task, or a status that is not known"),
        },
    }
}

fn has_responses(request: Request<'_>) -> bool {
    let responses = request.params.get("inputResponses");
    responses.is_some_and(|raw| Members::parse(raw.get()).is_some())
}

fn without_responses(request: Request<'_>) -> Answer {
    let error = RpcError::new(RpcError::INVALID_PARAMS, "params.inputResponses must be an object");
    Answer::refused(request, &error)
}

/// The answer about a task that is none, or not this client's, or over for so long that it was forgotten.
fn unknown(request: Request<'_>) -> Answer {
    let text = "params.taskId names no task (any more) that this client may ask for";
    Answer::refused(request, &RpcError::new(RpcError::INVALID_PARAMS, text))
}

fn refused(request: Request<'_>, refusal: &Refusal) -> Answer {
    Answer {
        status: refusal.status,
        ..Answer::refused(request, &refusal.error)
    }
}
