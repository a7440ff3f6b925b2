//! How a subscription hears of tasks: from each server that has some of them, for this client alone, and from those who
//! keep some here.

use std::collections::BTreeMap;
use std::sync::Arc;

use futures::StreamExt;
use futures::future::join_all;
use futures::stream::{BoxStream, SelectAll};

use super::change::Change;
use super::errand::find;
use super::telling::{Names, Telling};
use super::telling_kept::{Known, kept_here};
use crate::defaults;
use crate::fleet::Member;
use crate::gateway::task_name::Keeper;
use crate::gateway::viewer::Standing;
use crate::gateway::visit::Visit;
use crate::index::Audience;
use crate::upstream::{Owner, Upstream};

/// Changes of the tasks of one subscription.
pub(in crate::gateway) struct Changes(SelectAll<BoxStream<'static, Change>>);

impl Changes {
    /// Asks the servers to tell of the tasks that the client of this `standing` calls by these `names`, and gives those of
    /// which they do, and those that are kept here.
    pub(in crate::gateway) async fn of(visit: &Visit, standing: &Standing, names: &[String]) -> (Self, Vec<String>) {
        let (wanted, kept) = by_keeper(visit, standing.audience(&visit.federation), names);
        let owner = visit.principal.name();
        let owner = owner.map_or(Owner::Nobody, |name| Owner::Principal(name.into()));
        let answers = wanted.into_values().map(async |(member, upstream, tasks)| {
            let names = tasks.keys().cloned().collect();
            let changes = upstream.task_changes(names, owner.clone(), false).await?;
            Some((changes, member, tasks))
        });
        let (mut all, mut accepted) = (SelectAll::new(), Vec::new());
        for (changes, member, tasks) in join_all(answers).await.into_iter().flatten() {
            let telling = Telling::of(changes, member, tasks, owner.clone(), standing.clone());
            accepted.extend(telling.names().cloned());
            all.push(telling.told());
        }
        let tasks = &visit.shared.conversations.kept;
        for known in kept {
            let ((name, found), _) = &known;
            if let Some(changes) = tasks.changes(&found.task) {
                accepted.push(name.clone());
                all.push(kept_here(Arc::clone(tasks), changes, known, standing.clone()));
            }
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

/// By server, what it calls its tasks and what the client does; and the tasks that are kept here.
fn by_keeper<'v>(
    visit: &'v Visit,
    audience: Audience,
    names: &[String],
) -> (BTreeMap<&'v str, Wanted<'v>>, Vec<Known>) {
    let federation = &visit.federation;
    let (mut wanted, mut kept) = (BTreeMap::new(), Vec::new());
    for name in names.iter().take(defaults::TASK_SUBSCRIPTIONS_MAX) {
        let found = find(name, federation, &visit.principal, &visit.shared.conversations);
        let member = found.as_ref().and_then(|found| found.member(federation, audience));
        let Some((found, member)) = found.as_ref().zip(member) else {
            continue;
        };
        let (task, known) = (found.task.clone(), (name.clone(), Arc::new(found.clone())));
        match (found.keeper, &member.upstream) {
            (Keeper::Gateway, _) => kept.push((known, member.skills.clone())),
            (Keeper::Server, None) => {}
            (Keeper::Server, Some(upstream)) => {
                let (_, _, tasks) = wanted
                    .entry(member.server.as_str())
                    .or_insert_with(|| (member, &**upstream, Names::new()));
                tasks.insert(task, known);
            }
        }
    }
    (wanted, kept)
}

/// A member, its server, and the tasks of it.
type Wanted<'v> = (&'v Member, &'v Upstream, Names);
