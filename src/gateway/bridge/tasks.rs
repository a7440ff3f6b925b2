//! Calls of Modern clients that are begun as tasks, of servers that have tasks of 2025-11-25.

use super::asker::Asker;
use super::{named_tasks, right};
use crate::gateway::answer::Answer;
use crate::gateway::conversations::lacks::Lacks;
use crate::gateway::task_name::Keeper;
use crate::mcp::Features;
use crate::mcp::task::{self, Kind, Task};
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
        Some(task) => named_tasks::created(asker.hop, &task),
        None => asker.arrived(&reply, &Lacks::default()),
    }
}

/// The call as a task that is kept here; `None` where there is no room for one.
fn kept(asker: Asker<'_>) -> Option<Answer> {
    let (hop, features) = (asker.hop, asker.features);
    let kept = &hop.request.conversations.kept;
    let name = kept.begin(hop.place(), &hop.member.name, features, right::ended(hop), |ear| {
        hop.own_call(features, ear)
    })?;
    let told = kept.told(&name)?;
    let task = Task::read(&told.task, Kind::Core)?;
    Some(named_tasks::named(asker.hop, &task, Keeper::Gateway))
}
