//! Calls that become tasks of which whoever called hears nothing: what they come to is waited for where the answer was,
//! on the same connection and for the same owner.
//!
//! So are called the tools of 2025-11-25 that want to be called for a task, and, for clients that know of no tasks, those
//! of Modern servers that answer nothing else.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use tokio::time::{Instant, sleep};

use super::connection::Connection;
use super::ear::{Asked, Ear};
use super::error::Error;
use super::questions::Begun;
use super::request::{Answers, Body, Call, Fanout, Reply, TaskCall};
use crate::defaults;
use crate::mcp::asking::{Asking, Said};
use crate::mcp::input_required::InputRequired;
use crate::mcp::object::{Members, ObjectWriter};
use crate::mcp::task::{self, Kind, Status, Task};
use crate::mcp::{Era, Features, Method, client_answer, printable};

/// Carries `call` over `connection`; where it becomes a task that is to be finished, waits for what that comes to.
pub(super) async fn carry(
    connection: &Arc<Connection>,
    call: &Call<'_>,
    begun: Option<&Begun>,
    limit: Option<Duration>,
) -> Result<Reply, Error> {
    let peer = connection.peer();
    // Few calls become tasks; the others are not to pay for it.
    match (call.task, peer.era()) {
        (TaskCall::Finish, Era::Legacy) if peer.capabilities.tasks => {
            Box::pin(finish(connection, call, begun, Deadline::after(limit))).await
        }
        (TaskCall::IfNeeded, Era::Modern) if peer.capabilities.tasks => {
            Box::pin(insist(connection, call, begun, Deadline::after(limit))).await
        }
        _ => connection.carry(call, begun, limit).await,
    }
}

/// Takes a task for an answer where there is no other.
async fn insist(
    connection: &Arc<Connection>,
    call: &Call<'_>,
    begun: Option<&Begun>,
    deadline: Deadline,
) -> Result<Reply, Error> {
    let reply = connection.carry(call, begun, deadline.left()?).await?;
    if !reply.wants_tasks() {
        return Ok(reply);
    }
    let features = Features {
        tasks: true,
        ..call.features.clone()
    };
    let call = Call {
        features: &features,
        ..call.clone()
    };
    finish(connection, &call, begun, deadline).await
}

async fn finish(
    connection: &Arc<Connection>,
    call: &Call<'_>,
    begun: Option<&Begun>,
    deadline: Deadline,
) -> Result<Reply, Error> {
    let created = connection.carry(call, begun, deadline.left()?).await?;
    let Body::Result(result) = created.body() else {
        return Ok(created);
    };
    let task = match created.era {
        Era::Legacy => task::created(result),
        Era::Modern if task::is_task(result) => Task::read(result, Kind::Extension),
        Era::Modern => None,
    };
    let Some(task) = task else { return Ok(created) };
    let mut watch = Watch {
        call,
        begun,
        deadline,
        task: Unfinished::new(connection, &task.id),
        known: Known::of(&task, None),
        answered: HashSet::new(),
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
    /// The questions that were answered, by their names.
    answered: HashSet<String>,
    /// How often in a row the server failed to tell of it.
    in_vain: usize,
}

/// What the server last said of it.
struct Known {
    status: Status,
    message: String,
    /// How long to wait before it is asked for again.
    pause: Duration,
    /// All of it, if the server was asked.
    told: Option<Reply>,
}

impl Watch<'_> {
    async fn until_over(&mut self) -> Result<Reply, Error> {
        let era = self.task.connection.peer().era();
        loop {
            match (era, self.known.status) {
                (_, Status::Cancelled) => {
                    self.task.is_over();
                    return Err(Error::TaskCancelled(std::mem::take(&mut self.known.message)));
                }
                (_, Status::Working) => {
                    self.deadline.sleep(self.known.pause).await?;
                    self.look().await?;
                }
                // What the server asks comes on the way to the result (2025-11-25, tasks).
                (Era::Legacy, _) => {
                    if let Some(reply) = self.result().await? {
                        return Ok(reply);
                    }
                    self.known.status = Status::Working;
                }
                (Era::Modern, status) => match self.known.told.take() {
                    None => self.look().await?,
                    Some(told) if status == Status::InputRequired => {
                        self.answer(&told).await?;
                        self.known.status = Status::Working;
                    }
                    Some(told) => {
                        self.task.is_over();
                        return outcome(&told).ok_or_else(|| malformed(Method::TasksGet));
                    }
                },
            }
        }
    }

    /// Asks how far it is.
    async fn look(&mut self) -> Result<(), Error> {
        let limit = self.deadline.within(defaults::TASK_POLL_TIMEOUT)?;
        let reply = match self.ask(Method::TasksGet, None, Some(limit)).await {
            Ok(reply) => reply,
            Err(error) => return self.failed(error),
        };
        let kind = match reply.era {
            Era::Legacy => Kind::Core,
            Era::Modern => Kind::Extension,
        };
        match reply.body() {
            Body::Result(result) => {
                let task = Task::read(result, kind).ok_or_else(|| malformed(Method::TasksGet))?;
                self.known = Known::of(&task, Some(reply.clone()));
                self.in_vain = 0;
                Ok(())
            }
            Body::Error(error) => Err(given_up(error)),
        }
    }

    /// What it comes to, however long that takes. `None` where nothing came, so that it has to be asked for again.
    async fn result(&mut self) -> Result<Option<Reply>, Error> {
        let limit = self.deadline.left()?;
        let reply = match self.ask(Method::TasksResult, None, limit).await {
            Ok(reply) => reply,
            Err(error) => return self.failed(error).map(|()| None),
        };
        self.task.is_over();
        Ok(Some(match reply.body() {
            Body::Result(result) => reply.with(Body::Result(&task::unrelated(result))),
            Body::Error(_) => reply,
        }))
    }

    /// Puts the questions that it waits with to the client of the call, and gives the server the answers. Meanwhile no
    /// time passes for the call: people take as long as they do.
    async fn answer(&mut self, told: &Reply) -> Result<(), Error> {
        let Body::Result(result) = told.body() else {
            return Ok(());
        };
        let asked = InputRequired::read(result).ok_or_else(|| malformed(Method::TasksGet))?;
        let new = asked
            .questions
            .iter()
            .filter(|question| !self.answered.contains(&question.key));
        let new: Vec<_> = new.take(defaults::QUESTIONS_MAX).collect();
        if new.is_empty() {
            return Ok(());
        }
        if self.answered.len() + new.len() > defaults::TASK_QUESTIONS_MAX {
            return Err(Error::TaskGivenUp(
                "the server asks for input again and again".to_owned(),
            ));
        }
        let since = Instant::now();
        let said = join_all(new.iter().map(|question| self.put(question.kind, question.params))).await;
        self.deadline.stood_still_since(since);
        let mut responses = Vec::new();
        let mut object = ObjectWriter::open(&mut responses);
        for (question, said) in new.iter().zip(said) {
            match said {
                Said::Result(result) => match client_answer::wrong(question.kind, &result) {
                    None => object.member(&question.key, &result),
                    Some(why) => {
                        let what = question.kind.method();
                        let why = format!("the answer to {what} that the client gave {why}");
                        return Err(Error::TaskGivenUp(why));
                    }
                },
                // There is no way to tell the server.
                Said::Error(_) => {
                    let what = question.kind.method();
                    return Err(Error::TaskGivenUp(format!("the client gave no answer to {what}")));
                }
            }
        }
        object.close();
        self.answered
            .extend(new.into_iter().map(|question| question.key.clone()));
        let responses = String::from_utf8_lossy(&responses);
        let limit = self.deadline.within(defaults::TASK_POLL_TIMEOUT)?;
        match self
            .ask(Method::TasksUpdate, Some(&responses), Some(limit))
            .await?
            .body()
        {
            Body::Result(_) => Ok(()),
            Body::Error(error) => Err(given_up(error)),
        }
    }

    async fn put(&self, kind: Asking, params: &str) -> Said {
        let (asked, mut asker) = Asked::new(kind, params.to_owned());
        match &self.call.ear {
            Some(ear) => ear.asked(asked),
            None => drop(asked),
        }
        asker.answer(kind).await
    }

    async fn ask(&self, method: Method, responses: Option<&str>, limit: Option<Duration>) -> Result<Reply, Error> {
        let nothing = Members::default();
        let call = Call {
            method,
            target: &self.task.id,
            params: &nothing,
            meta: None,
            param_headers: None,
            answers: responses.map(|text| Answers {
                responses: Some(text),
                state: None,
            }),
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
            Error::Connect(_) | Error::Timeout { .. } | Error::Status(429 | 500..=599)
        ) || error.leaves_in_doubt();
        match may_pass && self.in_vain < defaults::TASK_POLLS_IN_VAIN {
            true => Ok(()),
            false => Err(error),
        }
    }
}

impl Known {
    fn of(task: &Task<'_>, told: Option<Reply>) -> Self {
        let pause = task.poll_interval().unwrap_or(defaults::TASK_POLL);
        let message = task.status_message();
        Self {
            status: task.status,
            message: message.map(|text| printable(&text, MESSAGE_MAX)).unwrap_or_default(),
            pause: pause.clamp(defaults::TASK_POLL_MIN, defaults::TASK_POLL_MAX),
            told,
        }
    }
}

/// What a task of the extension came to. `None` if it does not say so.
fn outcome(told: &Reply) -> Option<Reply> {
    let Body::Result(result) = told.body() else { return None };
    let task = Task::read(result, Kind::Extension)?;
    let outcome = match task.status {
        Status::Failed => Body::Error(task.error()?),
        _ => Body::Result(task.result()?),
    };
    Some(told.with(outcome))
}

/// When a call has to be over.
#[derive(Clone, Copy)]
struct Deadline {
    at: Option<Instant>,
    limit: Duration,
}

impl Deadline {
    fn after(limit: Option<Duration>) -> Self {
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

    fn stood_still_since(&mut self, since: Instant) {
        self.at = self.at.map(|at| at + since.elapsed());
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
        let (connection, id) = (Arc::clone(&self.connection), std::mem::take(&mut self.id));
        // Best effort: the server may be the very reason why nobody waits.
        self.connection.part(async move {
            let (nothing, features) = (Members::default(), taking_tasks());
            let call = Call {
                method: Method::TasksCancel,
                target: &id,
                params: &nothing,
                meta: None,
                param_headers: None,
                owner: super::Owner::Nobody,
                features: &features,
                answers: None,
                task: TaskCall::No,
                log_level: None,
                ear: None::<Arc<dyn Ear>>,
                fanout: Fanout::No,
            };
            drop(connection.carry(&call, None, Some(defaults::PARTING_TIMEOUT)).await);
        });
    }
}

fn taking_tasks() -> Features {
    Features {
        tasks: true,
        ..Features::default()
    }
}

/// The task was made: nothing must be taken for a reason to make another.
fn after_the_beginning(error: Error) -> Error {
    match error {
        Error::SessionLost | Error::Broken(_) | Error::CutOff => Error::TaskGivenUp(error.to_string()),
        error => error,
    }
}

/// The server does not tell of the task.
fn given_up(error: &str) -> Error {
    let message = Members::parse(error).and_then(|error| Some(printable(&error.string("message")?, MESSAGE_MAX)));
    Error::TaskGivenUp(message.unwrap_or_else(|| "the server tells nothing of it".to_owned()))
}

fn malformed(method: Method) -> Error {
    Error::Protocol(format!("the answer to {} is malformed", method.as_str()))
}

/// Longest message of a server's that is repeated.
const MESSAGE_MAX: usize = 256;
