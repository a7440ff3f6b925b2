//! Tasks of servers of 2025-11-25, in the extension's words.

use super::errand::{Errand, has_responses, unknown, without_responses};
use crate::gateway::answer::Answer;
use crate::index::skills::rewrite;
use crate::mcp::task::{Detail, Kind, Status, Task};
use crate::mcp::{Features, Members, Method, RpcError};
use crate::upstream::{Body, Error, Reply};

/// Carries out what a client asks of such a task.
pub(super) async fn carry(errand: Errand<'_>) -> Answer {
    match errand.request.method {
        Method::TasksUpdate => update(errand).await,
        Method::TasksCancel => cancel(errand).await,
        _ => get(errand).await,
    }
}

/// What the server says of it and, once it is over, what it came to.
async fn get(errand: Errand<'_>) -> Answer {
    let reply = ask(errand, Method::TasksGet).await;
    with_task(errand, &reply, async |task| {
        if !matches!(task.status, Status::Completed | Status::Failed) {
            return errand.told(task, Detail::Own);
        }
        let outcome = ask(errand, Method::TasksResult).await;
        match outcome.as_ref().map(Reply::body) {
            Ok(Body::Result(result)) => match &errand.member.skills {
                Some(prefix) => errand.told(task, Detail::Result(&rewrite::links(result, prefix))),
                None => errand.told(task, Detail::Result(result)),
            },
            Ok(Body::Error(error)) => errand.told(task, Detail::Error(error)),
            Err(error) => errand.failed(error),
        }
    })
    .await
}

/// Nothing was asked of the client, so that there is nothing that it could answer.
async fn update(errand: Errand<'_>) -> Answer {
    if !has_responses(errand.request) {
        return without_responses(errand.request);
    }
    let reply = ask(errand, Method::TasksGet).await;
    with_task(errand, &reply, async |_| errand.acknowledged()).await
}

/// Cancels it; that one is over already is no error in the extension.
async fn cancel(errand: Errand<'_>) -> Answer {
    let reply = ask(errand, Method::TasksCancel).await;
    match reply.as_ref().map(Reply::body) {
        Ok(Body::Result(_)) => errand.acknowledged(),
        Ok(Body::Error(_)) => {
            let reply = ask(errand, Method::TasksGet).await;
            with_task(errand, &reply, async |task| match task.status.is_final() {
                true => errand.acknowledged(),
                false => errand.failed(&"it does not cancel the task"),
            })
            .await
        }
        Err(error) => errand.failed(error),
    }
}

/// As it was called for: with nothing declared, so that it goes over the same connection.
async fn ask(errand: Errand<'_>, method: Method) -> Result<Reply, Error> {
    errand.ask(method, &Features::default(), &Members::default()).await
}

/// What `then` makes of the task that `reply` tells of.
async fn with_task(
    errand: Errand<'_>,
    reply: &Result<Reply, Error>,
    then: impl AsyncFnOnce(&Task<'_>) -> Answer,
) -> Answer {
    match reply.as_ref().map(Reply::body) {
        Ok(Body::Result(result)) => match Task::read(result, Kind::Core) {
            Some(task) if *task.id == errand.found.task => then(&task).await,
            Some(_) => errand.failed(&"it told of another task"),
            None => errand.failed(&"its answer names no task, or a status that is not known"),
        },
        Ok(Body::Error(error)) if is_unknown(error) => unknown(errand.request),
        Ok(Body::Error(error)) => errand.refused(error),
        Err(error) => errand.failed(error),
    }
}

fn is_unknown(error: &str) -> bool {
    let code = Members::parse(error).and_then(|error| error.get("code")?.get().parse().ok());
    code == Some(RpcError::INVALID_PARAMS)
}
