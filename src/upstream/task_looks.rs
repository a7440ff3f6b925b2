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
use super::task_news::{Accepted, TaskChange, TaskNews};
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

    /// Tells what is not working any more already, and every change from now on, `until` that; in any case until all are
    /// lost, or nobody wants to know.
    pub(super) async fn keep(self, until: Until, changes: &mpsc::Sender<TaskChange>) {
        let (inner, owner) = (&self.inner, &self.owner);
        let following = self.tasks.into_iter().map(async |(task, mut seen)| {
            let mut followed = Followed::new(until);
            loop {
                let (news, next) = followed.see(&task, seen);
                if let Some(news) = news
                    && changes.send(news).await.is_err()
                {
                    return;
                }
                let Some(pause) = next else { return };
                sleep(pause).await;
                // Many tasks, and many who want to hear of them, are no flood: each is asked for less often.
                inner.task_looks.turn(defaults::TASK_LOOK_PAUSE).await;
                seen = look(inner, owner, &task).await;
            }
        });
        let mut following: FuturesUnordered<_> = following.collect();
        while following.next().await.is_some() {}
    }
}

/// How long a task is looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Until {
    /// Until it is over.
    Over,
    /// Until its server has said how far it is; from then on that tells by itself.
    Seen,
}

/// What is known of a task that is looked at again and again.
struct Followed {
    until: Until,
    known: Option<Mark>,
    pause: Duration,
    /// So many times in a row its server knew of no such task.
    unknown: usize,
}

/// What of a task clients want to hear of when it changes: its status, message and questions.
type Mark = (Status, Option<String>, Option<String>);

impl Followed {
    fn new(until: Until) -> Self {
        Self {
            until,
            known: None,
            pause: defaults::TASK_POLL_MIN,
            unknown: 0,
        }
    }

    /// What there is to tell of `task` now that this was `seen`, and after how long to look again, if at all.
    fn see(&mut self, task: &str, seen: Seen) -> (Option<TaskChange>, Option<Duration>) {
        match seen {
            Seen::Told(look) => {
                (self.pause, self.unknown) = (look.pause, 0);
                let mark = look.mark();
                let is_news = match &self.known {
                    None => look.status != Status::Working,
                    Some(known) => *known != mark,
                };
                self.known = Some(mark);
                let goes_on = self.until == Until::Over && !look.status.is_final();
                let news = is_news.then_some(TaskChange::Told(look.news));
                (news, goes_on.then_some(self.pause))
            }
            Seen::Unknown => {
                self.unknown += 1;
                self.pause = defaults::TASK_POLL;
                match self.unknown < defaults::TASK_LOOKS_UNKNOWN {
                    true => (None, Some(self.pause)),
                    false => (Some(TaskChange::Lost(task.to_owned())), None),
                }
            }
            // A server that is away for a while may come back with it.
            Seen::Nothing => {
                self.pause = (self.pause * 2).min(defaults::TASK_POLL_MAX);
                (None, Some(self.pause))
            }
        }
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

    fn mark(&self) -> Mark {
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

#[cfg(test)]
mod tests {
    use super::*;

    fn told(status: Status) -> Seen {
        let task = format!(r#"{{"taskId":"t","status":"{}","createdAt":"then"}}"#, status.as_str());
        Seen::Told(Look {
            status,
            pause: Duration::from_secs(2),
            news: TaskNews {
                task,
                kind: Kind::Core,
                outcome: None,
            },
        })
    }

    /// What is told at each look: the status, "lost" or nothing; up to where nobody looks again.
    fn heard(until: Until, looks: impl IntoIterator<Item = Seen>) -> Vec<Option<String>> {
        let (mut followed, mut heard) = (Followed::new(until), Vec::new());
        for seen in looks {
            let (news, next) = followed.see("t", seen);
            heard.push(news.map(|news| match news {
                TaskChange::Lost(task) => format!("{task} is lost"),
                TaskChange::Told(news) => Task::read(&news.task, news.kind).unwrap().status.as_str().to_owned(),
            }));
            if next.is_none() {
                heard.push(Some("end".to_owned()));
                break;
            }
        }
        heard
    }

    #[test]
    fn a_task_is_lost_once_its_server_did_not_know_it_several_times_in_a_row() {
        let unknown = || std::iter::repeat_with(|| Seen::Unknown).take(defaults::TASK_LOOKS_UNKNOWN);
        for until in [Until::Over, Until::Seen] {
            let heard = heard(until, unknown());
            assert_eq!(heard[..], [None, None, Some("t is lost".into()), Some("end".into())]);
        }
        let between = unknown()
            .skip(1)
            .chain([told(Status::Working)])
            .chain(unknown().skip(1));
        assert_eq!(heard(Until::Over, between), vec![None; 5], "some replica has it");
    }

    #[test]
    fn a_look_that_failed_is_repeated_after_ever_longer_pauses_and_says_nothing_of_the_task() {
        let mut followed = Followed::new(Until::Seen);
        let mut before = Duration::ZERO;
        for _ in 0..7 {
            let (news, next) = followed.see("t", Seen::Nothing);
            assert!(news.is_none() && next.unwrap() > before);
            before = next.unwrap();
        }
        let pauses = (0..20).map(|_| followed.see("t", Seen::Nothing).1);
        assert_eq!(pauses.last().unwrap(), Some(defaults::TASK_POLL_MAX));
        let (news, next) = followed.see("t", told(Status::Completed));
        assert!(matches!(news, Some(TaskChange::Told(_))) && next.is_none());
    }

    #[test]
    fn what_changes_is_told_once_and_nothing_after_the_end() {
        let looks = || {
            [
                told(Status::Working),
                told(Status::Working),
                told(Status::InputRequired),
                told(Status::Failed),
                told(Status::Failed),
            ]
        };
        let expected = [None, None, Some("input_required"), Some("failed"), Some("end")];
        assert_eq!(heard(Until::Over, looks()), expected.map(|it| it.map(str::to_owned)));
        assert_eq!(heard(Until::Seen, looks()), [None, Some("end".to_owned())]);
    }

    #[test]
    fn only_what_says_that_there_is_no_such_task_is_taken_for_that() {
        for (error, expected) in [
            (r#"{"code":-32602,"message":"m"}"#, true),
            (r#"{"code":-32601,"message":"m"}"#, true),
            (r#"{"code":-32603,"message":"busy"}"#, false),
            (r#"{"message":"m"}"#, false),
            ("[]", false),
        ] {
            assert_eq!(is_unknown(error), expected, "{error}");
        }
    }
}
