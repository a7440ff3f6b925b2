//! `resources/read`: by whoever owns the resource, and else by whoever turns out to have it.

use serde_json::json;

use super::answer::Answer;
use super::bridge::fanout::{self, Failure};
use super::bridge::forwarded;
use super::request::Request;
use super::skills;
use crate::fleet::Federation;
use crate::index::skills::uri::is_skill;
use crate::mcp::{Era, RpcError};
use crate::metrics::Outcome;

/// Reads for a client of `federation`.
pub(super) async fn read(federation: &Federation, request: Request<'_>) -> Answer {
    let Some(uri) = request.params.string("uri").filter(|uri| !uri.is_empty()) else {
        let error = RpcError::new(RpcError::INVALID_PARAMS, "params.uri must be a non-empty string");
        return Answer::refused(request, &error);
    };
    let index = &federation.index;
    if let Some(target) = index.resource(&uri, request.audience) {
        return skills::read(federation, request, &target).await;
    }
    // Skills are read from their owner alone: the member that their address names.
    let is_forwarded_on = forwarded::hops(request.headers) < federation.fanout_hops && !is_skill(&uri);
    let mut failed = if is_forwarded_on {
        let members = index.readers(&uri, request.audience);
        match Box::pin(fanout::ask_all(federation, request, &uri, members)).await {
            Ok(answer) => return answer,
            Err(failed) => failed,
        }
    } else {
        Vec::new()
    };
    // What they have, nobody knows.
    let absent = federation.absent.iter().map(|absent| Failure {
        member: absent.member.clone(),
        cause: absent.why.clone(),
    });
    let absent: Vec<Failure> = absent
        .filter(|absent| failed.iter().all(|failed| failed.member != absent.member))
        .collect();
    failed.extend(absent);
    not_found(request, &uri, &failed)
}

/// Nobody has it, as far as those tell who did not fail.
fn not_found(request: Request<'_>, uri: &str, failed: &[Failure]) -> Answer {
    let code = match request.revision.era() {
        Era::Legacy => RpcError::RESOURCE_NOT_FOUND,
        Era::Modern => RpcError::INVALID_PARAMS,
    };
    let data = match details(failed) {
        None => json!({"uri": uri}),
        Some(details) => json!({"uri": uri, "details": details}),
    };
    let error = RpcError::new(code, format!("Resource {uri:?} not found")).with_data(data);
    Answer {
        outcome: if failed.is_empty() {
            Outcome::Refused
        } else {
            Outcome::Failed
        },
        ..Answer::refused(request, &error)
    }
}

/// Who failed, and how, in words.
fn details(failed: &[Failure]) -> Option<String> {
    let causes: Vec<String> = failed
        .iter()
        .map(|Failure { member, cause }| format!("{member}: {cause}"))
        .collect();
    match causes.len() {
        0 => None,
        1 => Some(format!("1 member could not say: {}", causes.join("; "))),
        many => Some(format!("{many} members could not say: {}", causes.join("; "))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_that_failed_are_counted_and_named() {
        let failed = |members: &[&str]| {
            let failures: Vec<Failure> = members
                .iter()
                .map(|member| Failure {
                    member: (*member).to_owned(),
                    cause: "no answer".to_owned(),
                })
                .collect();
            details(&failures)
        };
        assert_eq!(failed(&[]), None);
        assert_eq!(failed(&["a"]).unwrap(), "1 member could not say: a: no answer");
        assert_eq!(
            failed(&["a", "b"]).unwrap(),
            "2 members could not say: a: no answer; b: no answer"
        );
    }
}
