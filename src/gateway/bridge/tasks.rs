//! Calls of Modern clients that become tasks of the extension, whatever kind of task the server makes of them.

use super::lacks::Lacks;
use super::modern_client::Asker;
use crate::defaults;
use crate::gateway::answer::Answer;
use crate::gateway::tasks::{Keeper, Route};
use crate::mcp::Features;
use crate::mcp::task::{self, Kind, Task};
use crate::metrics::Outcome;
use crate::upstream::{Body, Call, TaskCall};

/// Calls a tool of a Legacy server for a task, and gives that to the client.
///
/// For a client that can be asked something the call goes on here. Otherwise nothing is kept: nothing is declared to the
/// server either, so that the task is found again by whoever calls by the same name, on a connection that goes by
/// nothing else.
pub(super) async fn begin(asker: Asker<'_>) -> Answer {
    if asker.features.is_interactive()
        && let Some(answer) = kept(asker)
    {
        return answer;
    }
    let silent = Features::default();
    let call = asker.hop.call(&silent, asker.owner(), None);
    let call = Call {
        task: TaskCall::Begin,
        ..call
    };
    let reply = asker.hop.upstream.call(call).await;
    let made = match &reply {
        Ok(reply) => match reply.body() {
            Body::Result(result) => task::created(result),
            Body::Error(_) => None,
        },
        Err(_) => None,
    };
    match made {
        Some(task) => created(asker, &task),
        None => asker.arrived(&reply, &Lacks::default()),
    }
}

/// The task that a Modern server made of the call, for its client.
pub(super) fn relayed(asker: Asker<'_>, result: &str) -> Answer {
    match Task::read(result, Kind::Extension) {
        Some(task) => created(asker, &task),
        None => asker.hop.failed(&"its task has no name, or a status that is not known"),
    }
}

/// The call as a task that is kept here; `None` where there is no room for one.
fn kept(asker: Asker<'_>) -> Option<Answer> {
    let kept = &asker.hop.request.bridge.kept;
    let name = kept.begin(asker)?;
    let told = kept.told(&name)?;
    let task = Task::read(&told.task, Kind::Core)?;
    Some(named(asker, &task, Keeper::Gateway))
}

fn created(asker: Asker<'_>, task: &Task<'_>) -> Answer {
    if task.id.len() > defaults::TASK_ID_MAX {
        let why = format!("the name of its task is longer than {} bytes", defaults::TASK_ID_MAX);
        return asker.hop.failed(&why);
    }
    named(asker, task, Keeper::Server)
}

fn named(asker: Asker<'_>, task: &Task<'_>, keeper: Keeper) -> Answer {
    let hop = asker.hop;
    let route = Route {
        keeper,
        server: &hop.member.server,
        tool: &hop.target.original,
        task: &task.id,
    };
    let Some(name) = route.sealed(hop.federation, hop.request.principal, hop.request.bridge) else {
        return hop.failed(&"the keys of this install are not here yet; try again");
    };
    let body = task::created_response(hop.request.id, task, &name, &hop.federation.server_info);
    Answer::new(body, Outcome::Ok)
}
