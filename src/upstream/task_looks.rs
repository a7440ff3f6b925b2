//! Changes of tasks of servers that do not tell of them: 2025-11-25 servers need not, and over a pipe what is told is told
//! to all. Each task is asked for now and then until it is over, as whoever made it would ask.

use std::sync::Arc;
use std::time::Duration;

use futures::stream::{FuturesUnordered, StreamExt, iter};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep, timeout, timeout_at};

use super::caller::Owner;
use super::error::Error;
use super::inner::Inner;
use super::request::{Body, Call, Fanout, Reply, TaskCall};
use super::task_changes::{Accepted, TaskChange, TaskNews};
use crate::defaults;
use crate::mcp::object::Members;
use crate::mcp::task::{Kind, Status, Task};
use crate::mcp::{Era, Features, Method, RpcError};

/// Some tasks of one server, as they were when they were first asked for.
pub(super) struct Looks {
    inner: Arc<Inner>,
    owner: Owner,
    tasks: Vec<(String, Seen)>,
}

/// What came of a look.
enum Seen {
    Told(Look),
    /// The server knows of no such task.
    Unknown,
    /// It said nothing of use, which may pass.
    Nothing,
}

/// What there is to see of a task.
struct Look {
    news: TaskNews,
    status: Status,
    /// How long to wait before the next look.
    pause: Duration,
}

impl Looks {
    /// Asks for `tasks` as `owner` for the first time, for as long as `limit`. Those that the server does not know are left
    /// out, unless they are `known` to have been there: it is then asked again, as it is where it says nothing of use.
    pub(super) async fn first(
        inner: Arc<Inner>,
        owner: Owner,
        tasks: Vec<String>,
        known: bool,
        limit: Duration,
    ) -> Self {
        let deadline = Instant::now() + limit;
        let looks = iter(tasks).map(async |task| {
            let looked = timeout_at(deadline, look(&inner, &owner, &task)).await;
            (task, looked.unwrap_or(Seen::Nothing))
        });
        let looks: Vec<_> = looks.buffered(AT_A_TIME).collect().await;
        let is_taken = |seen: &Seen| known || !matches!(seen, Seen::Unknown);
        let tasks = looks.into_iter().filter(|(_, seen)| is_taken(seen)).collect();
        Self { inner, owner, tasks }
    }

    /// Which tasks they are.
    pub(super) fn tasks(&self) -> impl Iterator<Item = Accepted> {
        self.tasks.iter().map(|(task, seen)| Accepted {
            task: task.clone(),
            created: match seen {
                Seen::Told(look) => look.created(),
                Seen::Unknown | Seen::Nothing => None,
            },
        })
    }

    /// Tells what is not working any more already, and nothing else.
    pub(super) async fn tell(self, changes: &mpsc::Sender<TaskChange>) {
        for (_, seen) in self.tasks {
            if let Seen::Told(look) = seen
                && look.status != Status::Working
                && changes.send(TaskChange::Told(look.news)).await.is_err()
            {
                return;
            }
        }
    }

    /// Tells what is not working any more already, and every change from now on, until all are over or lost.
    pub(super) async fn keep(self, changes: &mpsc::Sender<TaskChange>) {
        let (inner, owner) = (&self.inner, &self.owner);
        // Many tasks are each asked for less often, so that one subscription is no flood.
        let least = defaults::TASK_LOOK_PAUSE * u32::try_from(self.tasks.len()).unwrap_or(u32::MAX);
        let following = self
            .tasks
            .into_iter()
            .map(|(task, first)| follow(inner, owner, task, first, least, changes));
        let mut following: FuturesUnordered<_> = following.collect();
        while following.next().await.is_some() {}
    }
}

/// Looks at one task, no more often than `least`, until it is over or lost, or nobody wants to know.
async fn follow(
    inner: &Arc<Inner>,
    owner: &Owner,
    task: String,
    first: Seen,
    least: Duration,
    changes: &mpsc::Sender<TaskChange>,
) {
    let (mut known, mut pause, mut unknown) = (None, defaults::TASK_POLL_MIN, 0);
    let mut seen = first;
    loop {
        match seen {
            Seen::Told(look) => {
                (pause, unknown) = (look.pause, 0);
                let mark = look.mark();
                let is_news = match &known {
                    None => look.status != Status::Working,
                    Some(known) => *known != mark,
                };
                known = Some(mark);
                let is_over = look.status.is_final();
                if is_news && changes.send(TaskChange::Told(look.news)).await.is_err() || is_over {
                    return;
                }
            }
            Seen::Unknown => {
                unknown += 1;
                if unknown >= defaults::TASK_LOOKS_UNKNOWN {
                    // Where nobody wants to know, there is nobody to tell.
                    drop(changes.send(TaskChange::Lost(task)).await);
                    return;
                }
                pause = defaults::TASK_POLL;
            }
            // A server that is away for a while may come back with it.
            Seen::Nothing => pause = (pause * 2).min(defaults::TASK_POLL_MAX),
        }
        sleep(pause.max(least)).await;
        seen = look(inner, owner, &task).await;
    }
}

/// What the server says of `task` now.
async fn look(inner: &Arc<Inner>, owner: &Owner, task: &str) -> Seen {
    match told(inner, owner, task).await {
        Ok(Some(look)) => Seen::Told(look),
        Ok(None) => Seen::Unknown,
        Err(_) => Seen::Nothing,
    }
}

/// The same. `None` if the server does not know it.
async fn told(inner: &Arc<Inner>, owner: &Owner, task: &str) -> Result<Option<Look>, Error> {
    let reply = ask(inner, owner, task, Method::TasksGet).await?;
    let result = match reply.body() {
        Body::Result(result) => result,
        Body::Error(error) if is_unknown(error) => return Ok(None),
        Body::Error(_) => return Err(malformed()),
    };
    let kind = match reply.era {
        Era::Legacy => Kind::Core,
        Era::Modern => Kind::Extension,
    };
    let told = Task::read(result, kind).filter(|told| *told.id == *task);
    let told = told.ok_or_else(malformed)?;
    let outcome = match (kind, told.status) {
        (Kind::Core, Status::Completed | Status::Failed) => Some(ask(inner, owner, task, Method::TasksResult).await?),
        _ => None,
    };
    let pause = told.poll_interval().unwrap_or(defaults::TASK_POLL);
    let status = match (kind, told.status) {
        // Nothing is asked of the client of such a task.
        (Kind::Core, Status::InputRequired) => Status::Working,
        (_, status) => status,
    };
    Ok(Some(Look {
        status,
        pause: pause.clamp(defaults::TASK_POLL_MIN, defaults::TASK_POLL_MAX),
        news: TaskNews {
            task: result.to_owned(),
            kind,
            outcome,
        },
    }))
}

async fn ask(inner: &Arc<Inner>, owner: &Owner, task: &str, method: Method) -> Result<Reply, Error> {
    let is_modern = inner
        .state
        .borrow()
        .peer
        .as_ref()
        .is_some_and(|peer| peer.era() == Era::Modern);
    // To a Legacy server nothing is declared, as when the task was begun, so that it goes over the same connection.
    let features = Features {
        tasks: is_modern,
        ..Features::default()
    };
    let call = Call {
        method,
        target: task,
        params: &Members::default(),
        meta: None,
        param_headers: None,
        owner: owner.clone(),
        features: &features,
        answers: None,
        task: TaskCall::No,
        log_level: None,
        ear: None,
        fanout: Fanout::No,
    };
    let asked = timeout(
        defaults::TASK_POLL_TIMEOUT,
        inner.call(&call, inner.timeouts.of_request(call.method)),
    )
    .await;
    asked.map_err(|_| Error::Timeout {
        operation: method.as_str(),
        after: defaults::TASK_POLL_TIMEOUT,
    })?
}

impl Look {
    fn created(&self) -> Option<String> {
        let task = Task::read(&self.news.task, self.news.kind)?;
        Some(task.created_at()?.into_owned())
    }

    /// What of it clients want to hear of when it changes.
    fn mark(&self) -> (Status, Option<String>, Option<String>) {
        let task = Task::read(&self.news.task, self.news.kind);
        let message = task.as_ref().and_then(|task| Some(task.status_message()?.into_owned()));
        let questions = task.as_ref().and_then(|task| Some(task.input_requests()?.to_owned()));
        (self.status, message, questions)
    }
}

/// Whether a server says that it knows of no such task, or of none at all, as one may that took the place of another.
fn is_unknown(error: &str) -> bool {
    let code = Members::parse(error).and_then(|error| error.get("code")?.get().parse().ok());
    matches!(code, Some(RpcError::INVALID_PARAMS | RpcError::METHOD_NOT_FOUND))
}

fn malformed() -> Error {
    Error::Protocol("it does not tell of the task that it was asked for".to_owned())
}

/// So many tasks of one subscription are asked for at a time when it begins.
const AT_A_TIME: usize = 8;
