//! Tools of 2025-11-25 that are called for a task: the task is waited for where the answer was, on the same connection
//! and for the same owner, so that whoever called hears nothing of it.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::connection::{Connection, END_TIMEOUT};
use super::error::Error;
use super::questions::Begun;
use super::request::{Body, Call, Reply, TaskCall};
use crate::defaults;
use crate::mcp::Method;
use crate::mcp::object::{Members, ObjectWriter};
use crate::mcp::printable;
use crate::mcp::task::{self, Kind, Status, Task};

/// Carries `call` over `connection`; if it is made for a task that is to be finished, waits for what that comes to.
pub(super) async fn carry(
    connection: &Arc<Connection>,
    call: &Call<'_>,
    begun: Option<&Begun>,
    limit: Option<Duration>,
) -> Result<Reply, Error> {
    if call.task == TaskCall::Finish && connection.peer().takes_task_calls() {
        // Few calls are; the others are not to pay for it.
        return Box::pin(finish(connection, call, begun, limit)).await;
    }
    connection.carry(call, begun, limit).await
}

async fn finish(
    connection: &Arc<Connection>,
    call: &Call<'_>,
    begun: Option<&Begun>,
    limit: Option<Duration>,
) -> Result<Reply, Error> {
    let deadline = Deadline::in_time(limit);
    let created = connection.carry(call, begun, limit).await?;
    let Body::Result(result) = created.body() else {
        return Ok(created);
    };
    let Some(task) = task::created(result) else {
        return Ok(created);
    };
    let mut watch = Watch {
        call,
        begun,
        deadline,
        task: Unfinished::new(connection, &task.id),
        known: Known::of(&task),
        in_vain: 0,
    };
    watch.until_over().await.map_err(after_the_beginning)
}

/// A task that is waited for.
struct Watch<'a> {
    call: &'a Call<'a>,
    begun: Option<&'a Begun>,
    deadline: Deadline,
    task: Unfinished,
    known: Known,
    /// How often in a row the server failed to tell of it.
    in_vain: usize,
}

/// What the server last said of it.
struct Known {
    status: Status,
    message: String,
    /// How long to wait before it is asked for again.
    pause: Duration,
}

impl Watch<'_> {
    async fn until_over(&mut self) -> Result<Reply, Error> {
        loop {
            match self.known.status {
                Status::Working => {
                    self.deadline.sleep(self.known.pause).await?;
                    self.look().await?;
                }
                Status::Cancelled => {
                    self.task.is_over();
                    return Err(Error::TaskCancelled(std::mem::take(&mut self.known.message)));
                }
                // What the server asks comes on the way to the result (2025-11-25, tasks).
                Status::InputRequired | Status::Completed | Status::Failed => {
                    if let Some(reply) = self.result().await? {
                        return Ok(reply);
                    }
                    self.known.status = Status::Working;
                }
            }
        }
    }

    /// Asks how far it is.
    async fn look(&mut self) -> Result<(), Error> {
        let limit = self.deadline.within(defaults::TASK_POLL_TIMEOUT)?;
        let reply = match self.ask(Method::TasksGet, Some(limit)).await {
            Ok(reply) => reply,
            Err(error) => return self.failed(error),
        };
        match reply.body() {
            Body::Result(result) => {
                let task = Task::read(result, Kind::Core);
                let task = task.ok_or_else(|| Error::Protocol("the answer to tasks/get is malformed".to_owned()))?;
                self.known = Known::of(&task);
                self.in_vain = 0;
                Ok(())
            }
            Body::Error(error) => {
                let message =
                    Members::parse(error).and_then(|error| error.string("message").map(|m| printable(&m, MESSAGE_MAX)));
                Err(Error::TaskLost(message.unwrap_or_default()))
            }
        }
    }

    /// What it comes to, however long that takes. `None` where nothing came, so that it has to be asked for again.
    async fn result(&mut self) -> Result<Option<Reply>, Error> {
        let limit = self.deadline.left()?;
        let reply = match self.ask(Method::TasksResult, limit).await {
            Ok(reply) => reply,
            Err(error) => return self.failed(error).map(|()| None),
        };
        self.task.is_over();
        let result = match reply.body() {
            Body::Result(result) => task::unrelated(result).into_owned(),
            Body::Error(_) => return Ok(Some(reply)),
        };
        Ok(Some(reply.with_result(result)))
    }

    async fn ask(&self, method: Method, limit: Option<Duration>) -> Result<Reply, Error> {
        let nothing = Members::default();
        let call = Call {
            method,
            target: &self.task.id,
            params: &nothing,
            meta: None,
            param_headers: None,
            answers: None,
            task: TaskCall::No,
            ..self.call.clone()
        };
        self.task.connection.carry(&call, self.begun, limit).await
    }

    /// Takes note that the server did not tell; what may pass is borne for a while.
    fn failed(&mut self, error: Error) -> Result<(), Error> {
        self.in_vain += 1;
        if matches!(error, Error::Timeout { .. }) {
            self.deadline.left()?;
        }
        let may_pass = matches!(
            error,
            Error::Connect(_) | Error::CutOff | Error::Timeout { .. } | Error::Status(429 | 500..=599)
        );
        match may_pass && self.in_vain < defaults::TASK_POLLS_IN_VAIN {
            true => Ok(()),
            false => Err(error),
        }
    }
}

impl Known {
    fn of(task: &Task<'_>) -> Self {
        let pause = task.poll_interval().unwrap_or(defaults::TASK_POLL);
        Self {
            status: task.status,
            message: task
                .status_message()
                .map(|text| printable(&text, MESSAGE_MAX))
                .unwrap_or_default(),
            pause: pause.clamp(defaults::TASK_POLL_MIN, defaults::TASK_POLL_MAX),
        }
    }
}

/// When a call has to be over.
#[derive(Clone, Copy)]
struct Deadline {
    at: Option<Instant>,
    limit: Duration,
}

impl Deadline {
    fn in_time(limit: Option<Duration>) -> Self {
        Self {
            at: limit.map(|limit| Instant::now() + limit),
            limit: limit.unwrap_or_default(),
        }
    }

    /// How much time there is; `None` where it is not limited.
    fn left(&self) -> Result<Option<Duration>, Error> {
        let Some(at) = self.at else { return Ok(None) };
        let left = at.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(Error::Timeout {
                operation: Method::ToolsCall.as_str(),
                after: self.limit,
            });
        }
        Ok(Some(left))
    }

    fn within(&self, most: Duration) -> Result<Duration, Error> {
        Ok(self.left()?.map_or(most, |left| left.min(most)))
    }

    async fn sleep(&self, pause: Duration) -> Result<(), Error> {
        sleep(self.within(pause)?).await;
        self.left().map(drop)
    }
}

/// A task that the server works on. If it is not over when this is dropped, nobody waits for it, and it is cancelled.
struct Unfinished {
    connection: Arc<Connection>,
    id: String,
    is_over: bool,
}

impl Unfinished {
    fn new(connection: &Arc<Connection>, id: &str) -> Self {
        Self {
            connection: Arc::clone(connection),
            id: id.to_owned(),
            is_over: false,
        }
    }

    fn is_over(&mut self) {
        self.is_over = true;
    }
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        if self.is_over {
            return;
        }
        let mut params = Vec::new();
        let mut object = ObjectWriter::open(&mut params);
        object.string("taskId", &self.id);
        object.close();
        let connection = Arc::clone(&self.connection);
        // Best effort: the server may be the very reason why nobody waits.
        self.connection.part(async move {
            let method = Method::TasksCancel.as_str();
            drop(connection.ask(method, &params, END_TIMEOUT).await);
        });
    }
}

/// The task was made: nothing must be taken for a reason to make another.
fn after_the_beginning(error: Error) -> Error {
    match error {
        Error::SessionLost | Error::CutOff => Error::TaskLost(error.to_string()),
        error => error,
    }
}

/// Longest message of a server's that is repeated.
const MESSAGE_MAX: usize = 256;
