//! How a subscription hears of tasks: from each server that has some of them, for this client alone, and from those who
//! keep some here.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use futures::StreamExt;
use futures::future::join_all;
use futures::stream::{BoxStream, SelectAll, unfold};
use tokio::sync::watch;
use tokio::time::sleep;

use super::errand::{encoded, find};
use super::kept::detail_of;
use crate::defaults;
use crate::fleet::Member;
use crate::gateway::conversations::kept::{Kept, Told as KeptTold};
use crate::gateway::task_name::{Found, Keeper};
use crate::gateway::viewer::Standing;
use crate::gateway::visit::Visit;
use crate::index::skills::rewrite;
use crate::index::{Audience, SkillPrefix};
use crate::mcp::task::{self, Detail, Kind, Task};
use crate::upstream::{Body, Owner, Reply, TaskChanges, TaskNews, Upstream};

/// Changes of the tasks of one subscription.
pub(in crate::gateway) struct Changes(SelectAll<BoxStream<'static, Change>>);

/// A task has changed.
pub(in crate::gateway) struct Change {
    /// What the client calls it.
    name: String,
    /// Where it is, and of which tool.
    found: Arc<Found>,
    /// What clients see before the URIs of the member's skills.
    skills: Option<SkillPrefix>,
    what: What,
}

/// What there is to tell of a task.
enum What {
    /// What its server does.
    Told(TaskNews),
    /// What there is to tell of one that is kept here.
    Kept(KeptTold),
}

impl Changes {
    /// Asks the servers to tell of the tasks that the client of this `standing` calls by these `names`, and gives those of
    /// which they do, and those that are kept here.
    pub(in crate::gateway) async fn of(visit: &Visit, standing: &Standing, names: &[String]) -> (Self, Vec<String>) {
        let (wanted, kept) = by_keeper(visit, standing.audience(&visit.federation), names);
        let owner = visit.principal.name();
        let owner = owner.map_or(Owner::Nobody, |name| Owner::Principal(name.into()));
        let answers = wanted.into_values().map(async |(member, upstream, tasks)| {
            let names = tasks.keys().cloned().collect();
            let changes = upstream.task_changes(names, owner.clone()).await?;
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
                owner: owner.clone(),
                standing: standing.clone(),
            };
            all.push(telling.told());
        }
        let tasks = &visit.shared.conversations.kept;
        for known in kept {
            let (name, found) = &known.0;
            if let Some(changes) = tasks.changes(&found.task) {
                accepted.push(name.clone());
                all.push(kept_here(Arc::clone(tasks), changes, known));
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

impl Change {
    /// The whole notification, as a message of the subscription `id`. `None` if it tells nothing that is known, or
    /// nothing that is for whoever has this `standing` any more.
    pub(in crate::gateway) fn message(&self, id: &str, standing: &Standing) -> Option<Vec<u8>> {
        let (federation, audience) = standing.now()?;
        self.found.member(&federation, audience)?;
        let (told, kind, detail) = match &self.what {
            What::Told(news) => (&news.task, news.kind, outcome_of(news)),
            What::Kept(told) => (&told.task, Kind::Core, detail_of(&told.detail)),
        };
        let (told, result) = match (&self.skills, detail) {
            (None, _) => (Cow::Borrowed(told.as_str()), None),
            (Some(prefix), Detail::Result(result)) => {
                (Cow::Borrowed(told.as_str()), Some(rewrite::links(result, prefix)))
            }
            (Some(prefix), _) => (rewrite::task(told, prefix), None),
        };
        let detail = result.as_deref().map_or(detail, Detail::Result);
        let task = Task::read(&told, kind)?;
        let changed = |detail: Detail<'_>| task::changed(&task, detail, &self.name, id);
        Some(encoded(federation.encoding, &task, detail, changed))
    }
}

/// What a task of 2025-11-25 came to.
fn outcome_of(news: &TaskNews) -> Detail<'_> {
    match news.outcome.as_ref().map(Reply::body) {
        None => Detail::Own,
        Some(Body::Result(result)) => Detail::Result(result),
        Some(Body::Error(error)) => Detail::Error(error),
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

/// What a client calls a task, and where it is.
type Named = (String, Arc<Found>);
/// The same with what clients see before the URIs of the member's skills.
type Known = (Named, Option<SkillPrefix>);
/// What a client calls the tasks of one server, by what that does.
type Names = BTreeMap<String, Named>;
/// A member, its server, and the tasks of it.
type Wanted<'v> = (&'v Member, &'v Upstream, Names);

/// What one server tells of the tasks of a subscription: whoever takes the place of the upstream that told of them first
/// is asked in turn.
struct Telling {
    changes: TaskChanges,
    skills: Option<SkillPrefix>,
    names: Names,
    owner: Owner,
    standing: Standing,
}

impl Telling {
    fn told(self) -> BoxStream<'static, Change> {
        let next = async |mut telling: Self| telling.next().await.map(|change| (change, telling));
        unfold(self, next).boxed()
    }

    async fn next(&mut self) -> Option<Change> {
        loop {
            let Some(news) = self.changes.next().await else {
                self.renew().await?;
                continue;
            };
            let name = Task::read(&news.task, news.kind).and_then(|task| self.names.get(&*task.id).cloned());
            if let Some((name, found)) = name {
                return Some(Change {
                    name,
                    found,
                    skills: self.skills.clone(),
                    what: What::Told(news),
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
            let names = self.names.keys().cloned().collect();
            if let Some(changes) = upstream.task_changes(names, self.owner.clone()).await {
                self.changes = changes;
                return Some(());
            }
        }
    }
}

/// What becomes of a task that is kept here, and what it is already if it does not just go on.
fn kept_here(tasks: Arc<Kept>, mut changes: watch::Receiver<()>, known: Known) -> BoxStream<'static, Change> {
    changes.mark_changed();
    let next = async |(tasks, mut changes, known, mut is_begun): (Arc<Kept>, watch::Receiver<()>, Known, bool)| {
        loop {
            changes.changed().await.ok()?;
            let ((name, found), skills) = &known;
            let told = tasks.told(&found.task)?;
            if !is_begun && told.is_at_work() {
                is_begun = true;
                continue;
            }
            let change = Change {
                name: name.clone(),
                found: Arc::clone(found),
                skills: skills.clone(),
                what: What::Kept(told),
            };
            return Some((change, (tasks, changes, known, true)));
        }
    };
    unfold((tasks, changes, known, false), next).boxed()
}
