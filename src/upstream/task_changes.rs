//! Changes of tasks, for whoever asked for them (2026-07-28, subscriptions; tasks extension). Where a Modern server tells
//! of them, each who asks has a listen of its own, since nobody else may hear of its tasks; where it does not, they are
//! [looked at](super::task_looks) now and then.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::mpsc;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

use super::at_work::AtWork;
use super::caller::Owner;
use super::connection::{Connection, Link};
use super::event_stream::EventStream;
use super::http::{Opened, routing_headers};
use super::inner::Inner;
use super::pause::jittered;
use super::request::Reply;
use super::task_looks::Looks;
use crate::defaults;
use crate::mcp::message::Envelope;
use crate::mcp::meta::{self, Hop};
use crate::mcp::object::{Members, ObjectWriter};
use crate::mcp::task::{self, Kind};
use crate::mcp::{Era, Features, Method, message, notice};

/// Changes of some tasks, until it is dropped.
#[derive(Debug)]
pub struct TaskChanges {
    /// The tasks of which it tells.
    pub accepted: Vec<Accepted>,
    arriving: mpsc::Receiver<TaskChange>,
    _reading: AbortOnDropHandle<()>,
}

/// A task that is told of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Accepted {
    /// What its server calls it.
    pub task: String,
    /// When it was made, if its server said so already.
    pub created: Option<String>,
}

/// What there is to tell of a task.
#[derive(Debug)]
pub enum TaskChange {
    /// What its server says of it.
    Told(TaskNews),
    /// Its server knows nothing of the task that it called by this name. It is told of no more.
    Lost(String),
}

/// What has become of a task.
#[derive(Debug)]
pub struct TaskNews {
    /// The task as its server wrote it: the params of its notification, or the result of `tasks/get`.
    pub task: String,
    /// Which kind of task it is.
    pub kind: Kind,
    /// What one of 2025-11-25 came to, if it is over: the server's answer to `tasks/result`.
    pub outcome: Option<Reply>,
}

impl TaskChanges {
    /// Asks the server behind `inner` to tell of `tasks`, for as long as `limit`, and looks at those of which it does not,
    /// for as long again. Where they were told of before, and so are `known` to have been there, what happened meanwhile is
    /// looked at too. `None` where none of them is there or, if they are `known`, while the server cannot be asked.
    pub(super) async fn of(
        inner: Arc<Inner>,
        owner: Owner,
        tasks: Vec<String>,
        known: bool,
        limit: Duration,
    ) -> Option<Self> {
        let (stop, at_work) = (inner.stop.clone(), inner.begin_work());
        let listening = async {
            match inner.standing().await {
                Ok(connection) => Some(open(&connection, &tasks).await),
                Err(_) => None,
            }
        };
        let listening = timeout(limit, listening).await.ok().flatten();
        if known && listening.is_none() {
            return None;
        }
        let (events, agreed) = listening.flatten().unzip();
        let agreed = agreed.unwrap_or_default();
        let others = tasks.into_iter().filter(|task| !agreed.contains(task)).collect();
        let looks = Looks::first(Arc::clone(&inner), owner.clone(), others, known, limit).await;
        let told = agreed.iter().map(|task| Accepted {
            task: task.clone(),
            created: None,
        });
        let accepted: Vec<_> = told.chain(looks.tasks()).collect();
        let missed = if known { agreed } else { Vec::new() };
        let reading = move |changes: mpsc::Sender<TaskChange>| async move {
            let missed = Looks::first(inner, owner, missed, known, limit).await;
            missed.tell(&changes).await;
            let Some(mut events) = events else {
                looks.keep(&changes).await;
                // Nothing more becomes of them, and nothing more is told.
                return changes.closed().await;
            };
            tokio::select! {
                () = read(&mut events, &changes) => {}
                () = async {
                    looks.keep(&changes).await;
                    std::future::pending().await
                } => {}
            }
        };
        (!accepted.is_empty()).then(|| Self::reading(accepted, stop, at_work, reading))
    }

    /// What there is to tell of one of the tasks next. `None` once the server is let go of, or tells nothing more: it has to
    /// be asked anew.
    pub async fn next(&mut self) -> Option<TaskChange> {
        self.arriving.recv().await
    }

    fn reading<F>(
        accepted: Vec<Accepted>,
        stop: CancellationToken,
        at_work: Option<AtWork>,
        read: impl FnOnce(mpsc::Sender<TaskChange>) -> F,
    ) -> Self
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let (sender, arriving) = mpsc::channel(defaults::TASK_CHANGES_QUEUE);
        let reading = read(sender);
        let reading = async move {
            let _at_work = at_work;
            tokio::select! {
                () = stop.cancelled() => {}
                () = reading => {}
            }
        };
        Self {
            accepted,
            arriving,
            _reading: AbortOnDropHandle::new(tokio::spawn(reading)),
        }
    }
}

/// Passes on what the server tells of tasks until it tells nothing more. A client that does not read holds up this
/// stream, which is its own.
async fn read(events: &mut EventStream, changes: &mpsc::Sender<TaskChange>) {
    while let Ok(Some(event)) = events.next().await {
        let Some(Ok(envelope)) = event
            .message()
            .map(|text| Envelope::parse(text, defaults::JSON_DEPTH_MAX))
        else {
            continue;
        };
        match envelope.kind() {
            Ok(message::Kind::Notification { method }) if method == task::CHANGED => {
                let Some(params) = envelope.params else { continue };
                let news = TaskNews {
                    task: params.get().to_owned(),
                    kind: Kind::Extension,
                    outcome: None,
                };
                if changes.send(TaskChange::Told(news)).await.is_err() {
                    return;
                }
            }
            Ok(message::Kind::Response { .. }) => return,
            _ => {}
        }
    }
}

/// Begins a listen, and waits until the server says which of `tasks` it tells of.
async fn open(connection: &Connection, tasks: &[String]) -> Option<(EventStream, Vec<String>)> {
    timeout(defaults::TASK_POLL_TIMEOUT, begin(connection, tasks))
        .await
        .ok()?
}

async fn begin(connection: &Connection, tasks: &[String]) -> Option<(EventStream, Vec<String>)> {
    let peer = connection.peer();
    // Over a pipe everything is of all.
    let Link::Http(link) = connection.link() else {
        return None;
    };
    if peer.era() != Era::Modern || !peer.capabilities.tasks {
        return None;
    }
    let id = connection.next_id();
    let method = Method::Listen.as_str();
    let body = Bytes::from(message::request(id, method, &params(tasks, &peer.revision_name)));
    let mut headers = link.headers.clone();
    routing_headers(&mut headers, method, None);
    let Ok(Opened::Stream(mut events)) = link.http.open_stream_by_post(headers, body).await else {
        return None;
    };
    while let Ok(Some(event)) = events.next().await {
        let Some(text) = event.message() else { continue };
        let envelope = Envelope::parse(text, defaults::JSON_DEPTH_MAX).ok()?;
        match envelope.kind().ok()? {
            message::Kind::Notification { method } if method == notice::ACKNOWLEDGED => {
                let agreed = agreed(envelope.params?.get(), tasks)?;
                return Some((*events, agreed));
            }
            message::Kind::Response { .. } => return None,
            _ => {}
        }
    }
    None
}

fn params(tasks: &[String], revision: &str) -> Vec<u8> {
    let declared = Features {
        tasks: true,
        ..Features::default()
    };
    let mut out = Vec::new();
    let mut params = ObjectWriter::open(&mut out);
    let mut filter = ObjectWriter::open(params.name("notifications"));
    filter.member("taskIds", &serde_json::json!(tasks).to_string());
    filter.close();
    let hop = Hop {
        capabilities: &declared.to_json(Era::Modern),
        ..Hop::our_own(Era::Modern, revision)
    };
    meta::write_for_upstream(&mut params, None, hop);
    params.close();
    out
}

/// Of `tasks`, those that an acknowledgement with these params names.
fn agreed(params: &str, tasks: &[String]) -> Option<Vec<String>> {
    let members = Members::parse(params)?;
    let filter = Members::parse(members.get("notifications")?.get())?;
    let named: Vec<String> = serde_json::from_str(filter.get("taskIds")?.get()).ok()?;
    Some(tasks.iter().filter(|task| named.contains(task)).cloned().collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_extension_is_declared_with_the_tasks() {
        let params = String::from_utf8(params(&["a".into(), "b".into()], "2026-07-28")).unwrap();
        assert!(
            params.starts_with(r#"{"notifications":{"taskIds":["a","b"]},"#),
            "{params}"
        );
        assert!(
            params.contains(r#""extensions":{"io.modelcontextprotocol/tasks":{}}"#),
            "{params}"
        );
    }

    #[test]
    fn only_what_was_asked_for_can_be_agreed_to() {
        let tasks = ["a".to_owned(), "b".to_owned()];
        let agreed = |filter: &str| agreed(&format!(r#"{{"notifications":{filter}}}"#), &tasks);
        assert_eq!(agreed(r#"{"taskIds":["c","b"]}"#), Some(vec!["b".to_owned()]));
        for none in ["{}", r#"{"taskIds":"a"}"#, "[]"] {
            assert_eq!(agreed(none), None, "{none}");
        }
    }
}
