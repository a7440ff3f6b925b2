//! Tasks of the extension: what clients ask of those that calls of theirs became, and how they hear of them.
//!
//! A task stays with the server that made it. Its name says which one that is, so that every replica can carry what is
//! asked of it. Those of 2025-11-25 servers are told in the extension's words by [`core`], those of Modern ones are passed on by [`extension`]; where such a server keeps
//! them by session, they can be asked for only where that session is: in the replica that made them. So it is with those
//! whose client can be asked something, which are [`kept`] here.

mod change;
mod changes;
mod core;
mod errand;
mod extension;
mod kept;
mod lost;
mod telling;
mod telling_kept;

use http::StatusCode;

use self::errand::{Errand, find, refused, unknown};
use super::answer::Answer;
use super::modern::refusal;
use super::request::Request;
use super::task_name::Keeper;
use crate::fleet::Federation;
use crate::mcp::{Era, RpcError};

pub(super) use self::changes::Changes;
pub(super) use self::errand::declared;

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
    let found = find(&name, federation, request.principal, request.conversations);
    let member = found
        .as_ref()
        .and_then(|found| found.member(federation, request.audience));
    let (Some(found), Some(member)) = (&found, member) else {
        return unknown(request);
    };
    let Some(upstream) = &member.upstream else {
        return Answer::failed(request, &federation.not_connected(&member.name));
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
        (Keeper::Server, Some(Era::Modern) | None) => extension::carry(errand).await,
    }
}
