//! Tasks that calls became, named anew for their clients.

use super::hop::Hop;
use crate::defaults;
use crate::gateway::answer::Answer;
use crate::gateway::task_name::{self, Keeper, Route};
use crate::mcp::task::{self, Kind, Task};
use crate::metrics::Outcome;

/// The task that a Modern server made of the call, for its client.
pub(super) fn relayed(hop: Hop<'_>, result: &str) -> Answer {
    match Task::read(result, Kind::Extension) {
        Some(task) => created(hop, &task),
        None => hop.failed(&"its task has no name, or a status that is not known"),
    }
}

/// The answer that a call became `task` at its server.
pub(super) fn created(hop: Hop<'_>, task: &Task<'_>) -> Answer {
    if task.id.len() > defaults::TASK_ID_MAX {
        let why = format!("the name of its task is longer than {} bytes", defaults::TASK_ID_MAX);
        return hop.failed(&why);
    }
    named(hop, task, Keeper::Server)
}

/// The answer that a call became `task`, which `keeper` has: under a name that is this client's alone.
pub(super) fn named(hop: Hop<'_>, task: &Task<'_>, keeper: Keeper) -> Answer {
    let route = Route {
        keeper,
        server: &hop.member.server,
        tool: &hop.target.original,
        task: &task.id,
    };
    let Some(keys) = hop.request.conversations.keys(&hop.federation.name) else {
        return hop.failed(&"the keys of this install are not here yet; try again");
    };
    let name = task_name::seal(route, hop.request.principal.name(), &keys);
    let body = task::created_response(hop.request.id, task, &name, &hop.federation.server_info);
    Answer::new(body, Outcome::Ok)
}
