//! `completion/complete`: whoever owns the prompt or the template completes its arguments.

use http::StatusCode;
use serde_json::json;

use super::answer::Answer;
use super::bridge;
use super::request::Request;
use crate::fleet::Federation;
use crate::index::{List, Target};
use crate::mcp::{Era, Members, RpcError};

/// Carries out a completion for a client of `federation`.
pub(super) async fn complete(federation: &Federation, request: Request<'_>) -> Answer {
    if !federation.offers.completions {
        let error = RpcError::method_not_found(request.method.as_str());
        let status = match request.revision.era() {
            Era::Legacy => StatusCode::OK,
            Era::Modern => StatusCode::NOT_FOUND,
        };
        return Answer {
            status,
            ..Answer::refused(request, &error)
        };
    }
    let target = match owner(federation, request) {
        Ok(target) => target,
        Err(error) => return Answer::refused(request, &error),
    };
    match federation.members.get(target.member) {
        Some(member) if !completes(member) => Answer::result(request, bridge::NO_COMPLETIONS, &federation.server_info),
        _ => bridge::carry(federation, request, &target).await,
    }
}

/// Whether a member completes arguments, as far as it says. In the first revision there was no way to say it.
fn completes(member: &crate::fleet::Member) -> bool {
    member
        .upstream
        .as_ref()
        .is_some_and(|upstream| upstream.capabilities().completions)
}

/// Who owns what `params.ref` names.
fn owner(federation: &Federation, request: Request<'_>) -> Result<Target, RpcError> {
    let invalid = |text: &str| RpcError::new(RpcError::INVALID_PARAMS, text);
    let reference = request.params.get("ref").and_then(|raw| Members::parse(raw.get()));
    let reference = reference.ok_or_else(|| invalid("params.ref must be an object"))?;
    let (member, list) = match reference.string("type").as_deref() {
        Some("ref/prompt") => ("name", List::Prompts),
        Some("ref/resource") => ("uri", List::Templates),
        _ => return Err(invalid("params.ref.type must be \"ref/prompt\" or \"ref/resource\"")),
    };
    let name = reference.string(member);
    let name = name.ok_or_else(|| invalid(&format!("params.ref.{member} must be a string")))?;
    let index = &federation.index;
    let found = index.target(list, &name, request.audience).cloned();
    let by_uri = || index.resource(&name, request.audience);
    let found = found.or_else(|| (list == List::Templates).then(by_uri).flatten());
    found.ok_or_else(|| {
        invalid(&format!("params.ref names nothing that is offered: {name:?}")).with_data(json!({member: name}))
    })
}
