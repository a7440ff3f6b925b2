//! Tasks of Modern servers, which are of the same kind as those that clients know.

use super::errand::{Errand, declared, has_responses, refused, without_responses};
use crate::gateway::answer::Answer;
use crate::mcp::Method;
use crate::mcp::task::{Detail, Kind, Task};
use crate::upstream::Body;

/// Asks the server what a client asks.
pub(super) async fn carry(errand: Errand<'_>) -> Answer {
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
