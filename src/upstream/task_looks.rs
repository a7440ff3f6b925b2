//! Changes of tasks of servers that do not tell of them: 2025-11-25 servers need not, and over a pipe what is told is told
//! to all. Each task is asked for now and then until it is over, as whoever made it would ask.

use std::sync::Arc;
use std::time::Duration;

use futures::stream::{FuturesUnordered, StreamExt, iter};
use tokio::sync::mpsc;
use tokio::time::{sleep, timeout};

use super::caller::Owner;
use super::error::Error;
use super::inner::Inner;
use super::request::{Body, Call, Fanout, Reply, TaskCall};
use super::task_changes::TaskNews;
use crate::defaults;
use crate::mcp::object::Members;
use crate::mcp::task::{Kind, Status, Task};
use crate::mcp::{Era, Features, Method, RpcError};

/// Some tasks of one server, as they were when they were first asked for.
pub(super) struct Looks {
    inner: Arc<Inner>,
    owner: Owner,
    tasks: Vec<(String, Look)>,
}

/// What there is to see of a task.
struct Look {
    news: TaskNews,
    status: Status,
    /// How long to wait before the next look.
    pause: Duration,
}

impl Looks {
    /// Asks for `tasks` as `owner` for the first time. Those that the server does not know are left out.
    pub(super) async fn first(inner: Arc<Inner>, owner: Owner, tasks: Vec<String>) -> Self {
        let looks = iter(tasks).map(async |task| {
            let look = look(&inner, &owner, &task).await;
            Some((task, look.ok()??))
        });
        let looks: Vec<Option<_>> = looks.buffered(AT_A_TIME).collect().await;
        let tasks = looks.into_iter().flatten().collect();
        Self { inner, owner, tasks }
    }

    /// Which tasks they are.
    pub(super) fn tasks(&self) -> Vec<String> {
        self.tasks.iter().map(|(task, _)| task.clone()).collect()
    }

    /// Tells what is not working any more already, and every change from now on, until all are over.
    pub(super) async fn keep(self, changes: mpsc::Sender<TaskNews>) {
        let (inner, owner) = (&self.inner, &self.owner);
        // Many tasks are each asked for less often, so that one subscription is no flood.
        let least = defaults::TASK_LOOK_PAUSE * u32::try_from(self.tasks.len()).unwrap_or(u32::MAX);
        let following = self
            .tasks
            .into_iter()
            .map(|(task, first)| follow(inner, owner, task, first, least, &changes));
        let mut following: FuturesUnordered<_> = following.collect();
        while following.next().await.is_some() {}
        // Nothing more becomes of them, and nothing more is told.
        changes.closed().await;
    }
}

/// Looks at one task, no more often than `least`, until it is over or forgotten, or nobody wants to know.
async fn follow(
    inner: &Arc<Inner>,
    owner: &Owner,
    task: String,
    first: Look,
    least: Duration,
    changes: &mpsc::Sender<TaskNews>,
) {
    let (mut known, mut pause) = (first.mark(), first.pause);
    let mut next = (first.status != Status::Working).then_some(first);
    loop {
        if let Some(look) = next.take() {
            let is_over = look.status.is_final();
            if changes.send(look.news).await.is_err() || is_over {
                return;
            }
        }
        sleep(pause.max(least)).await;
        match look(inner, owner, &task).await {
            Ok(Some(look)) => {
                pause = look.pause;
                let mark = look.mark();
                if mark != known {
                    known = mark;
                    next = Some(look);
                }
            }
            Ok(None) => return,
            // A server that is away for a while may come back with it.
            Err(_) => pause = (pause * 2).min(defaults::TASK_POLL_MAX),
        }
    }
}

/// What the server says of `task` now. `None` if it does not know it.
async fn look(inner: &Arc<Inner>, owner: &Owner, task: &str) -> Result<Option<Look>, Error> {
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
    /// What of it clients want to hear of when it changes.
    fn mark(&self) -> (Status, Option<String>, Option<String>) {
        let task = Task::read(&self.news.task, self.news.kind);
        let message = task.as_ref().and_then(|task| Some(task.status_message()?.into_owned()));
        let questions = task.as_ref().and_then(|task| Some(task.input_requests()?.to_owned()));
        (self.status, message, questions)
    }
}

fn is_unknown(error: &str) -> bool {
    let code = Members::parse(error).and_then(|error| error.get("code")?.get().parse().ok());
    code == Some(RpcError::INVALID_PARAMS)
}

fn malformed() -> Error {
    Error::Protocol("it does not tell of the task that it was asked for".to_owned())
}

/// So many tasks of one subscription are asked for at a time when it begins.
const AT_A_TIME: usize = 8;
