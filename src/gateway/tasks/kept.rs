//! Tasks that are kept in this process: what clients ask of them is answered here.

use super::errand::{Errand, has_responses, unknown, without_responses};
use crate::gateway::answer::Answer;
use crate::gateway::conversations::kept;
use crate::index::skills::rewrite;
use crate::mcp::task::{Detail, Kind, Task};
use crate::mcp::{Members, Method, RpcError};

/// Carries out what a client asks of such a task.
pub(super) fn carry(errand: Errand<'_>) -> Answer {
    let (request, name) = (errand.request, &*errand.found.task);
    let tasks = &request.conversations.kept;
    match request.method {
        Method::TasksUpdate if !has_responses(request) => without_responses(request),
        Method::TasksUpdate => {
            let responses = request.params.get("inputResponses");
            let responses = responses.and_then(|raw| Members::parse(raw.get())).unwrap_or_default();
            match tasks.update(name, &responses) {
                Some(Err(wrong)) => Answer::refused(request, &RpcError::new(RpcError::INVALID_PARAMS, wrong)),
                answered => acknowledged(errand, answered.map(|_| ())),
            }
        }
        Method::TasksCancel => acknowledged(errand, tasks.cancel(name)),
        _ => {
            let told = tasks.told(name);
            let told = told
                .as_ref()
                .and_then(|told| Some((Task::read(&told.task, Kind::Core)?, &told.detail)));
            match told {
                Some((task, kept::Detail::Result(result))) => match &errand.member.skills {
                    Some(prefix) => errand.told(&task, Detail::Result(&rewrite::links(result, prefix))),
                    None => errand.told(&task, Detail::Result(result)),
                },
                Some((task, detail)) => errand.told(&task, detail_of(detail)),
                None => unknown(request),
            }
        }
    }
}

fn acknowledged(errand: Errand<'_>, done: Option<()>) -> Answer {
    match done {
        Some(()) => errand.acknowledged(),
        None => unknown(errand.request),
    }
}

/// What such a task waits for, or came to.
pub(super) fn detail_of(detail: &kept::Detail) -> Detail<'_> {
    match detail {
        kept::Detail::None => Detail::Own,
        kept::Detail::Questions(questions) => Detail::Questions(questions),
        kept::Detail::Result(result) => Detail::Result(result),
        kept::Detail::Error(error) => Detail::Error(error),
    }
}
