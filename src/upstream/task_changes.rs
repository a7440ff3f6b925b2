//! Changes of tasks, for whoever asked for them (2026-07-28, subscriptions; tasks extension). Where a Modern server tells
//! of them, each who asks has a listen of its own, since nobody else may hear of its tasks; where it does not, they are
//! [looked at](super::task_looks) now and then.

use std::sync::Arc;

use bytes::Bytes;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

use super::at_work::AtWork;
use super::caller::Owner;
use super::connection::{Connection, Link};
use super::error::Error;
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

/// Changes of some tasks, until it is dropped. Where the server's stream ends, another one is opened.
#[derive(Debug)]
pub struct TaskChanges {
    /// The tasks of which it tells.
    pub accepted: Vec<String>,
    arriving: mpsc::Receiver<TaskNews>,
    _reading: AbortOnDropHandle<()>,
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
    /// Asks the server behind what `connect` gives to tell of `tasks`, until `stop` is cancelled. `None` where it tells of
    /// none.
    pub(super) async fn listen<F>(
        connect: impl Fn() -> F + Send + Sync + 'static,
        tasks: Vec<String>,
        stop: CancellationToken,
        at_work: Option<AtWork>,
    ) -> Option<Self>
    where
        F: Future<Output = Result<Arc<Connection>, Error>> + Send + 'static,
    {
        let (events, accepted) = open(&*connect().await.ok()?, &tasks).await?;
        if accepted.is_empty() {
            return None;
        }
        let again = accepted.clone();
        Some(Self::reading(accepted, stop, at_work, |sender| {
            keep(events, connect, again, sender)
        }))
    }

    /// Looks at `tasks` of `owner` until they are over. `None` where the server behind `inner` knows none of them.
    pub(super) async fn look(inner: Arc<Inner>, owner: Owner, tasks: Vec<String>) -> Option<Self> {
        let (stop, at_work) = (inner.stop.clone(), inner.begin_work());
        let looks = Looks::first(inner, owner, tasks).await;
        let accepted = looks.tasks();
        (!accepted.is_empty()).then(|| Self::reading(accepted, stop, at_work, |sender| looks.keep(sender)))
    }

    /// What has become of one of the tasks. `None` once the server is let go of.
    pub async fn next(&mut self) -> Option<TaskNews> {
        self.arriving.recv().await
    }

    fn reading<F>(
        accepted: Vec<String>,
        stop: CancellationToken,
        at_work: Option<AtWork>,
        read: impl FnOnce(mpsc::Sender<TaskNews>) -> F,
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

/// Reads one stream after the other.
async fn keep<F>(
    mut events: EventStream,
    connect: impl Fn() -> F + Send + Sync,
    tasks: Vec<String>,
    changes: mpsc::Sender<TaskNews>,
) where
    F: Future<Output = Result<Arc<Connection>, Error>> + Send,
{
    let mut pause = defaults::RETRY_MIN;
    loop {
        let began = Instant::now();
        read(&mut events, &changes).await;
        if began.elapsed() >= defaults::STREAM_OF_USE {
            pause = defaults::RETRY_MIN;
        }
        events = loop {
            sleep(jittered(pause)).await;
            pause = (pause * 2).min(defaults::RETRY_MAX);
            let opened = match connect().await {
                Ok(connection) => open(&connection, &tasks).await,
                Err(_) => None,
            };
            if let Some((events, _)) = opened {
                break events;
            }
        };
    }
}

/// Passes on what the server tells of tasks until it tells nothing more. A client that does not read holds up this
/// stream, which is its own.
async fn read(events: &mut EventStream, changes: &mpsc::Sender<TaskNews>) {
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
                if changes.send(news).await.is_err() {
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
