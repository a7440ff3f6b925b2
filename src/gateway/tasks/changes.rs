//! How a subscription hears of tasks: from each Modern server that has some of them, for this client alone.

use std::collections::BTreeMap;

use futures::StreamExt;
use futures::future::join_all;
use futures::stream::{BoxStream, SelectAll, unfold};

use super::Route;
use crate::defaults;
use crate::fleet::Federation;
use crate::gateway::visit::Visit;
use crate::mcp::task::{self, Kind, Task};
use crate::upstream::TaskChanges;

/// Changes of the tasks of one subscription.
pub(in crate::gateway) struct Changes(SelectAll<BoxStream<'static, Change>>);

/// A task has changed.
pub(in crate::gateway) struct Change {
    /// What the client calls it.
    name: String,
    /// The params of the notification, as the server wrote them.
    params: String,
}

impl Changes {
    /// Asks the servers to tell of the tasks that the client calls by these `names`, and gives those of which they do.
    pub(in crate::gateway) async fn of(visit: &Visit, names: &[String]) -> (Self, Vec<String>) {
        let federation = &visit.federation;
        let wanted = by_server(visit, names);
        let asked = wanted.into_iter().map(async |(server, tasks)| {
            let changes = listen(federation, &server, tasks.keys().cloned().collect()).await?;
            Some((changes, tasks))
        });
        let (mut all, mut accepted) = (SelectAll::new(), Vec::new());
        for (changes, tasks) in join_all(asked).await.into_iter().flatten() {
            let names = changes.accepted.iter().filter_map(|task| tasks.get(task));
            accepted.extend(names.cloned());
            all.push(told(changes, tasks));
        }
        // In the order in which the client named them.
        let accepted = names.iter().filter(|name| accepted.contains(name)).cloned().collect();
        (Self(all), accepted)
    }

    /// The next change. Never where nothing is told.
    pub(in crate::gateway) async fn next(&mut self) -> Change {
        match self.0.next().await {
            Some(change) => change,
            None => std::future::pending().await,
        }
    }
}

impl Change {
    /// The whole notification, as a message of the subscription `id`. `None` if it tells nothing that is known.
    pub(in crate::gateway) fn message(&self, id: &str) -> Option<Vec<u8>> {
        let task = Task::read(&self.params, Kind::Extension)?;
        Some(task::changed(&task, &self.name, id))
    }
}

/// By server, what it calls its tasks and what the client does.
fn by_server(visit: &Visit, names: &[String]) -> BTreeMap<String, BTreeMap<String, String>> {
    let mut wanted: BTreeMap<_, BTreeMap<_, _>> = BTreeMap::new();
    for name in names.iter().take(defaults::TASK_SUBSCRIPTIONS_MAX) {
        let found = Route::find(name, &visit.federation, &visit.principal, &visit.shared.bridge);
        if let Some(found) = found {
            wanted.entry(found.server).or_default().insert(found.task, name.clone());
        }
    }
    wanted
}

async fn listen(federation: &Federation, server: &str, tasks: Vec<String>) -> Option<TaskChanges> {
    let member = federation.members.iter().find(|member| member.server == server)?;
    member.upstream.as_ref()?.task_changes(tasks).await
}

fn told(changes: TaskChanges, names: BTreeMap<String, String>) -> BoxStream<'static, Change> {
    let next = async |(mut changes, names): (TaskChanges, BTreeMap<String, String>)| {
        loop {
            let params = changes.next().await?;
            let name = Task::read(&params, Kind::Extension).and_then(|task| names.get(&*task.id).cloned());
            if let Some(name) = name {
                return Some((Change { name, params }, (changes, names)));
            }
        }
    };
    unfold((changes, names), next).boxed()
}
