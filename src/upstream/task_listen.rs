//! Where a Modern server tells of tasks by itself: a listen of its own for each who asks, since nobody else may hear of
//! its tasks (2026-07-28, subscriptions; tasks extension).

use bytes::Bytes;
use tokio::sync::mpsc;
use tokio::time::timeout;

use super::connection::{Connection, Link};
use super::event_stream::EventStream;
use super::http::{Opened, routing_headers};
use super::task_news::{TaskChange, TaskNews};
use crate::defaults;
use crate::mcp::message::Envelope;
use crate::mcp::meta::{self, Hop};
use crate::mcp::object::{Members, ObjectWriter};
use crate::mcp::task::{self, Kind};
use crate::mcp::{Era, Features, Method, message, notice};

/// Passes on what the server tells of tasks until it tells nothing more. A client that does not read holds up this
/// stream, which is its own.
pub(super) async fn read(events: &mut EventStream, changes: &mpsc::Sender<TaskChange>) {
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
pub(super) async fn open(connection: &Connection, tasks: &[String]) -> Option<(EventStream, Vec<String>)> {
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
