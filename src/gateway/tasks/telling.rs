//! What one server tells of the tasks of a subscription, whatever becomes of that server meanwhile.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use futures::StreamExt;
use futures::future::BoxFuture;
use futures::stream::{BoxStream, unfold};
use jiff::Timestamp;
use tokio::time::{Duration, Instant, sleep};

use super::change::{Change, What};
use super::lost::Lost;
use crate::defaults;
use crate::fleet::Member;
use crate::gateway::task_name::Found;
use crate::gateway::viewer::Standing;
use crate::index::SkillPrefix;
use crate::mcp::task::Task;
use crate::upstream::{Owner, TaskChange, TaskChanges, TaskNews};

/// What a client calls a task, and where it is.
pub(super) type Named = (String, Arc<Found>);
/// What a client calls the tasks of one server, by what that does.
pub(super) type Names = BTreeMap<String, Named>;

/// What one server tells of the tasks of a subscription: whoever takes the place of the upstream that told of them first
/// is asked in turn.
pub(super) struct Telling {
    changes: TaskChanges,
    server: String,
    skills: Option<SkillPrefix>,
    /// The tasks that are neither over nor lost.
    names: Names,
    /// Those of them that are over, which the client may not hear of for the moment.
    withheld: BTreeSet<String>,
    /// When they were made, as far as that is known.
    created: BTreeMap<String, Timestamp>,
    owner: Owner,
    standing: Standing,
    /// When the subscription began.
    since: Timestamp,
    /// When the server was asked last.
    begun: Instant,
    /// How long to wait before it is asked again.
    pause: Duration,
}

impl Telling {
    /// What `member` tells by `changes` of those of its tasks that it agreed to tell `owner` of, who has this `standing`.
    pub(super) fn of(
        changes: TaskChanges,
        member: &Member,
        mut names: Names,
        owner: Owner,
        standing: Standing,
    ) -> Self {
        names.retain(|task, _| changes.accepted.iter().any(|accepted| accepted.task == *task));
        let mut telling = Self {
            changes,
            server: member.server.clone(),
            skills: member.skills.clone(),
            names,
            withheld: BTreeSet::new(),
            created: BTreeMap::new(),
            owner,
            standing,
            since: Timestamp::now(),
            begun: Instant::now(),
            pause: defaults::RETRY_MIN,
        };
        telling.learn_created();
        telling
    }

    /// What the client calls the tasks.
    pub(super) fn names(&self) -> impl Iterator<Item = &String> {
        self.names.values().map(|(name, _)| name)
    }

    /// All that is told of them, up to the end of each.
    pub(super) fn told(self) -> BoxStream<'static, Change> {
        let absence = absence(&self.standing, &self.server);
        let next = async |(mut telling, absence): (Self, Option<BoxFuture<'static, ()>>)| {
            if let Some(mut absence) = absence {
                tokio::select! {
                    biased;
                    () = &mut absence => {}
                    change = telling.next() => return Some((change?, (telling, Some(absence)))),
                }
            }
            let (task, named) = telling.names.pop_first()?;
            Some((telling.lost(&task, named, true), (telling, None)))
        };
        unfold((self, Some(absence)), next).boxed()
    }

    async fn next(&mut self) -> Option<Change> {
        while !self.names.is_empty() {
            let heard = tokio::select! {
                heard = self.changes.next() => heard,
                () = sleep(defaults::TASK_POLL_MAX), if !self.withheld.is_empty() => match self.may_hear_again() {
                    true => None,
                    false => continue,
                },
            };
            match heard {
                None => self.renew().await?,
                Some(TaskChange::Lost(task)) => {
                    if let Some(named) = self.names.remove(&task) {
                        return Some(self.lost(&task, named, false));
                    }
                }
                Some(TaskChange::Told(news)) => {
                    if let Some((name, found)) = self.named(&news) {
                        return Some(Change {
                            name,
                            found,
                            skills: self.skills.clone(),
                            what: What::Told(news),
                        });
                    }
                }
            }
        }
        None
    }

    /// What the client calls the task that `news` tell of, if it may hear of it. One that is over is not asked for again:
    /// its server may forget it.
    fn named(&mut self, news: &TaskNews) -> Option<Named> {
        let task = Task::read(&news.task, news.kind)?;
        let (name, found) = self.names.get(&*task.id)?;
        if !found.is_offered(&self.standing) {
            if task.status.is_final() {
                self.withheld.insert((*task.id).to_owned());
            }
            return None;
        }
        let named = (name.clone(), Arc::clone(found));
        match task.status.is_final() {
            true => {
                self.names.remove(&*task.id);
            }
            false => self.learn(&task.id, task.created_at().as_deref()),
        }
        Some(named)
    }

    /// Whether the client may hear of a task that is withheld. What came of it is then asked for anew, and not kept.
    fn may_hear_again(&self) -> bool {
        let mut withheld = self.withheld.iter().filter_map(|task| self.names.get(task));
        withheld.any(|(_, found)| found.is_offered(&self.standing))
    }

    fn learn(&mut self, task: &str, created: Option<&str>) {
        // Servers may write anything; only a time is said again.
        if let Some(created) = created.and_then(|text| text.parse().ok()) {
            self.created.insert(task.to_owned(), created);
        }
    }

    fn learn_created(&mut self) {
        for accepted in std::mem::take(&mut self.changes.accepted) {
            if self.names.contains_key(&accepted.task) {
                self.learn(&accepted.task, accepted.created.as_deref());
            }
        }
    }

    fn lost(&self, task: &str, (name, found): Named, is_gone: bool) -> Change {
        let created = self.created.get(task).unwrap_or(&self.since);
        let lost = Lost::new(task, &created.to_string(), is_gone, Timestamp::now());
        Change {
            name,
            found,
            skills: None,
            what: What::Lost(lost),
        }
    }

    /// Asks the upstream that the server has now. `None` once the federation is served no longer.
    async fn renew(&mut self) -> Option<()> {
        if self.begun.elapsed() >= defaults::STREAM_OF_USE {
            self.pause = defaults::RETRY_MIN;
        }
        loop {
            sleep(self.pause).await;
            self.pause = (self.pause * 2).min(defaults::RETRY_MAX);
            let federation = self.standing.settled().await?;
            let member = federation.members.iter().find(|member| member.server == self.server);
            let Some(upstream) = member.and_then(|member| member.upstream.as_ref()) else {
                continue;
            };
            let names = self.names.keys().cloned().collect();
            if let Some(changes) = upstream.task_changes(names, self.owner.clone(), true).await {
                (self.changes, self.begun) = (changes, Instant::now());
                self.withheld.clear();
                self.learn_created();
                return Some(());
            }
        }
    }
}

/// Resolves once `server` is taken out of the federation of whoever has this `standing`.
pub(super) fn absence(standing: &Standing, server: &str) -> BoxFuture<'static, ()> {
    let (standing, server) = (standing.clone(), server.to_owned());
    Box::pin(standing.without(move |federation, _| federation.members.iter().any(|member| member.server == server)))
}
