//! How a subscription hears of tasks: from each Modern server that has some of them, for this client alone.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use futures::StreamExt;
use futures::future::join_all;
use futures::stream::{BoxStream, SelectAll, unfold};
use tokio::time::sleep;

use super::errand::find;
use crate::defaults;
use crate::fleet::Member;
use crate::gateway::task_name::{Found, Keeper};
use crate::gateway::viewer::Standing;
use crate::gateway::visit::Visit;
use crate::index::skills::rewrite;
use crate::index::{Audience, SkillPrefix};
use crate::mcp::task::{self, Kind, Task};
use crate::upstream::{TaskChanges, Upstream};

/// Changes of the tasks of one subscription.
pub(in crate::gateway) struct Changes(SelectAll<BoxStream<'static, Change>>);

/// A task has changed.
pub(in crate::gateway) struct Change {
    /// What the client calls it.
    name: String,
    /// The params of the notification, as the server wrote them.
    params: String,
    /// What clients see before the URIs of the member's skills.
    skills: Option<SkillPrefix>,
    /// Where it is, and of which tool.
    found: Arc<Found>,
}

impl Changes {
    /// Asks the servers to tell of the tasks that the client of this `standing` calls by these `names`, and gives those of
    /// which they do.
    pub(in crate::gateway) async fn of(visit: &Visit, standing: &Standing, names: &[String]) -> (Self, Vec<String>) {
        let wanted = by_server(visit, standing.audience(&visit.federation), names);
        let answers = wanted.into_values().map(async |(member, upstream, tasks)| {
            let changes = upstream.task_changes(tasks.keys().cloned().collect()).await?;
            Some((changes, member.skills.clone(), tasks))
        });
        let (mut all, mut accepted) = (SelectAll::new(), Vec::new());
        for (changes, skills, tasks) in join_all(answers).await.into_iter().flatten() {
            let names = changes.accepted.iter().filter_map(|task| tasks.get(task));
            accepted.extend(names.map(|(name, _)| name.clone()));
            let telling = Telling {
                changes,
                skills,
                names: tasks,
                standing: standing.clone(),
            };
            all.push(telling.told());
        }
        // In the order in which the client named them.
        let asked = names.iter().take(defaults::TASK_SUBSCRIPTIONS_MAX);
        let accepted = asked.filter(|name| accepted.contains(name)).cloned().collect();
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
    /// The whole notification, as a message of the subscription `id`. `None` if it tells nothing that is known, or
    /// nothing that is for whoever has this `standing` any more.
    pub(in crate::gateway) fn message(&self, id: &str, standing: &Standing) -> Option<Vec<u8>> {
        let (federation, audience) = standing.now()?;
        self.found.member(&federation, audience)?;
        let params = match &self.skills {
            Some(prefix) => rewrite::task(&self.params, prefix),
            None => Cow::Borrowed(self.params.as_str()),
        };
        let task = Task::read(&params, Kind::Extension)?;
        Some(task::changed(&task, &self.name, id))
    }
}

/// By server, what it calls its tasks and what the client does.
fn by_server<'v>(visit: &'v Visit, audience: Audience, names: &[String]) -> BTreeMap<&'v str, Wanted<'v>> {
    let federation = &visit.federation;
    let mut wanted = BTreeMap::new();
    for name in names.iter().take(defaults::TASK_SUBSCRIPTIONS_MAX) {
        let found = find(name, federation, &visit.principal, &visit.shared.conversations);
        // Of those that are kept here nothing is told unasked.
        let found = found.filter(|found| found.keeper == Keeper::Server);
        let member = found.as_ref().and_then(|found| found.member(federation, audience));
        if let Some((found, member)) = found.as_ref().zip(member)
            && let Some(upstream) = &member.upstream
        {
            let (_, _, tasks) = wanted
                .entry(member.server.as_str())
                .or_insert_with(|| (member, &**upstream, Names::new()));
            tasks.insert(found.task.clone(), (name.clone(), Arc::new(found.clone())));
        }
    }
    wanted
}

/// What a client calls the tasks of one server, by what that does.
type Names = BTreeMap<String, (String, Arc<Found>)>;
/// A member, its server, and the tasks of it.
type Wanted<'v> = (&'v Member, &'v Upstream, Names);

/// What one server tells of the tasks of a subscription: whoever takes the place of the upstream that told of them first
/// is asked in turn.
struct Telling {
    changes: TaskChanges,
    skills: Option<SkillPrefix>,
    names: Names,
    standing: Standing,
}

impl Telling {
    fn told(self) -> BoxStream<'static, Change> {
        let next = async |mut telling: Self| telling.next().await.map(|change| (change, telling));
        unfold(self, next).boxed()
    }

    async fn next(&mut self) -> Option<Change> {
        loop {
            let Some(params) = self.changes.next().await else {
                self.renew().await?;
                continue;
            };
            let name = Task::read(&params, Kind::Extension).and_then(|task| self.names.get(&*task.id).cloned());
            if let Some((name, found)) = name {
                return Some(Change {
                    name,
                    found,
                    params,
                    skills: self.skills.clone(),
                });
            }
        }
    }

    /// Asks the upstream that the server has now. `None` once the federation is served no longer.
    async fn renew(&mut self) -> Option<()> {
        let mut pause = defaults::RETRY_MIN;
        loop {
            sleep(pause).await;
            pause = (pause * 2).min(defaults::RETRY_MAX);
            let federation = self.standing.settled().await?;
            let audience = self.standing.audience(&federation);
            let member = self
                .names
                .values()
                .find_map(|(_, found)| found.member(&federation, audience));
            let Some(upstream) = member.and_then(|member| member.upstream.as_ref()) else {
                continue;
            };
            if let Some(changes) = upstream.task_changes(self.names.keys().cloned().collect()).await {
                self.changes = changes;
                return Some(());
            }
        }
    }
}
