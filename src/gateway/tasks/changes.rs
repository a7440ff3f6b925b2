//! How a subscription hears of tasks: from each server that has some of them, for this client alone, and from those who
//! keep some here.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use futures::future::join_all;
use futures::stream::{BoxStream, SelectAll, unfold};
use jiff::Timestamp;
use serde_json::json;
use tokio::sync::watch;
use tokio::time::{Instant, sleep};

use super::errand::{encoded, find};
use super::kept::detail_of;
use crate::defaults;
use crate::fleet::{Federation, Member};
use crate::gateway::conversations::kept::{Detail as KeptDetail, Kept, Told as KeptTold};
use crate::gateway::task_name::{Found, Keeper};
use crate::gateway::viewer::Standing;
use crate::gateway::visit::Visit;
use crate::index::skills::rewrite;
use crate::index::{Audience, SkillPrefix};
use crate::mcp::RpcError;
use crate::mcp::task::{self, Detail, Kind, Status, Task};
use crate::upstream::{Body, Owner, Reply, TaskChange, TaskChanges, TaskNews, Upstream};

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
    /// It is lost.
    Lost(Lost),
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
            let changes = upstream.task_changes(names, owner.clone(), false).await?;
            Some((changes, member, tasks))
        });
        let (mut all, mut accepted) = (SelectAll::new(), Vec::new());
        for (changes, member, mut tasks) in join_all(answers).await.into_iter().flatten() {
            tasks.retain(|task, _| changes.accepted.iter().any(|accepted| accepted.task == *task));
            accepted.extend(tasks.values().map(|(name, _)| name.clone()));
            let telling = Telling {
                created: created(&changes).collect(),
                changes,
                server: member.server.clone(),
                is_gone: false,
                skills: member.skills.clone(),
                names: tasks,
                owner: owner.clone(),
                standing: standing.clone(),
                since: Timestamp::now(),
                begun: Instant::now(),
                pause: defaults::RETRY_MIN,
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
        if !self.is_the_end(&federation) {
            self.found.member(&federation, audience)?;
        }
        let (told, kind, detail) = match &self.what {
            What::Lost(lost) => (&lost.task, Kind::Core, Detail::Error(&lost.error)),
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

    /// Whether it says no more than that the task is there no longer, which whoever asks for the task hears too.
    fn is_the_end(&self, federation: &Federation) -> bool {
        match &self.what {
            What::Lost(_) => true,
            What::Kept(told) => {
                let is_served = federation
                    .members
                    .iter()
                    .any(|member| member.server == self.found.server);
                matches!(told.detail, KeptDetail::Error(_)) && !is_served
            }
            What::Told(_) => false,
        }
    }
}

/// A task that nobody knows any more. In the extension's words it has failed with the error by which `tasks/get` is
/// answered then: clients wait for something final, and there is no other notification (tasks extension, task status
/// notifications, error handling).
struct Lost {
    /// The task, in the words of 2025-11-25, as JSON.
    task: String,
    /// The error, as JSON.
    error: String,
}

impl Lost {
    /// The task that was made at `created` and is lost `now`, since its server does not know it or `is_gone`.
    fn new(task: &str, created: &str, is_gone: bool, now: Timestamp) -> Self {
        let what = match is_gone {
            true => "is not served here any more",
            false => "does not know it any more",
        };
        let text = format!("the server that had the task {what}; what came of it is not known, call the tool again");
        let task = json!({
            "taskId": task, "status": Status::Failed.as_str(), "statusMessage": text, "createdAt": created,
            "lastUpdatedAt": now.to_string(), "ttl": null,
        });
        let error = RpcError::new(RpcError::INVALID_PARAMS, text).to_json();
        Self {
            task: task.to_string(),
            error: String::from_utf8_lossy(&error).into_owned(),
        }
    }
}

/// When tasks were made, as far as their server said so.
fn created(changes: &TaskChanges) -> impl Iterator<Item = (String, String)> {
    let accepted = changes.accepted.iter();
    accepted.filter_map(|accepted| Some((accepted.task.clone(), accepted.created.clone()?)))
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
    server: String,
    /// Whether the server is no member any more: what is left of its tasks is lost.
    is_gone: bool,
    skills: Option<SkillPrefix>,
    /// The tasks that are neither over nor lost.
    names: Names,
    /// When they were made, as far as that is known.
    created: BTreeMap<String, String>,
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
    fn told(self) -> BoxStream<'static, Change> {
        let next = async |mut telling: Self| telling.next().await.map(|change| (change, telling));
        unfold(self, next).boxed()
    }

    async fn next(&mut self) -> Option<Change> {
        loop {
            if self.is_gone {
                let (task, named) = self.names.pop_first()?;
                return Some(self.lost(&task, named));
            }
            match self.changes.next().await {
                None if self.names.is_empty() => return None,
                None => self.renew().await?,
                Some(TaskChange::Lost(task)) => {
                    if let Some(named) = self.names.remove(&task) {
                        return Some(self.lost(&task, named));
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
    }

    /// What the client calls the task that `news` tell of. One that is over is not asked for again: its server may forget
    /// it.
    fn named(&mut self, news: &TaskNews) -> Option<Named> {
        let task = Task::read(&news.task, news.kind)?;
        if let Some(created) = task.created_at() {
            self.created.insert((*task.id).to_owned(), created.into_owned());
        }
        match task.status.is_final() {
            true => self.names.remove(&*task.id),
            false => self.names.get(&*task.id).cloned(),
        }
    }

    fn lost(&self, task: &str, (name, found): Named) -> Change {
        let since = self.since.to_string();
        let created = self.created.get(task).unwrap_or(&since);
        Change {
            name,
            found,
            skills: None,
            what: What::Lost(Lost::new(task, created, self.is_gone, Timestamp::now())),
        }
    }

    /// Asks the upstream that the server has now, or takes note that it is no member any more. `None` once the federation
    /// is served no longer.
    async fn renew(&mut self) -> Option<()> {
        if self.begun.elapsed() >= defaults::STREAM_OF_USE {
            self.pause = defaults::RETRY_MIN;
        }
        let mut absent = 0;
        loop {
            sleep(self.pause).await;
            let federation = self.standing.settled().await?;
            let Some(member) = federation.members.iter().find(|member| member.server == self.server) else {
                // What is written anew may be away for a moment.
                absent += 1;
                if absent >= defaults::TASK_LOOKS_UNKNOWN {
                    self.is_gone = true;
                    return Some(());
                }
                self.pause = defaults::RETRY_MIN;
                continue;
            };
            absent = 0;
            self.pause = (self.pause * 2).min(defaults::RETRY_MAX);
            let Some(upstream) = &member.upstream else { continue };
            let names = self.names.keys().cloned().collect();
            if let Some(changes) = upstream.task_changes(names, self.owner.clone(), true).await {
                self.created.extend(created(&changes));
                (self.changes, self.begun) = (changes, Instant::now());
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

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    #[test]
    fn a_task_that_is_lost_has_failed_with_the_error_that_asking_for_it_gives() {
        for (is_gone, why) in [
            (false, "does not know it any more"),
            (true, "is not served here any more"),
        ] {
            let lost = Lost::new("t-1", "2026-11-30T10:00:00Z", is_gone, Timestamp::UNIX_EPOCH);
            let task = Task::read(&lost.task, Kind::Core).unwrap();
            let told = task::changed(&task, Detail::Error(&lost.error), "name", "7");
            let told: Value = serde_json::from_slice(&told).unwrap();
            let params = &told["params"];
            assert_eq!(
                (&params["taskId"], &params["status"]),
                (&json!("name"), &json!("failed"))
            );
            assert_eq!(params["createdAt"], "2026-11-30T10:00:00Z");
            assert_eq!(params["lastUpdatedAt"], "1970-01-01T00:00:00Z");
            assert_eq!(params["ttlMs"], Value::Null);
            assert_eq!(params["error"]["code"], -32602);
            let text = params["error"]["message"].as_str().unwrap();
            assert!(text.contains(why) && params["statusMessage"] == text, "{params}");
        }
    }
}
