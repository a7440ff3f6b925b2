//! Tasks: calls whose results are fetched later.
//!
//! There are two kinds, with little in common but the name. Those of the extension (Modern) are made by the server
//! when it wants to, of calls whose client can take one; `tasks/get` tells everything of them. Those of 2025-11-25 are
//! asked for by the client, and `tasks/result` gives what they come to. Clients are shown only the extension's.

mod core;
mod extension;

use std::borrow::Cow;
use std::time::Duration;

use super::object::Members;

pub use self::core::{created, unrelated};
pub use self::extension::{Detail, acknowledged, changed, created_response, detailed_response};

/// The id of the extension, in the capabilities of both sides.
pub const EXTENSION: &str = "io.modelcontextprotocol/tasks";
/// The `resultType` of a result that is a task.
pub const TYPE: &str = "task";
/// The notification that a task of the extension has changed.
pub const CHANGED: &str = "notifications/tasks";

/// What has become of a task; the same words in both kinds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// It is worked on.
    Working,
    /// It waits for what the client has to answer.
    InputRequired,
    /// There is a result.
    Completed,
    /// There is an error or, in 2025-11-25, the result of a tool that failed.
    Failed,
    /// It was given up.
    Cancelled,
}

/// Which kind of task it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Of the extension.
    Extension,
    /// Of 2025-11-25.
    Core,
}

/// A task as its server describes it.
#[derive(Debug)]
pub struct Task<'a> {
    /// Its server's name for it.
    pub id: Cow<'a, str>,
    /// What has become of it.
    pub status: Status,
    kind: Kind,
    members: Members<'a>,
}

impl Status {
    /// The status of this exact name.
    pub fn parse(name: &str) -> Option<Self> {
        Some(match name {
            "working" => Self::Working,
            "input_required" => Self::InputRequired,
            "completed" => Self::Completed,
            "failed" => Self::Failed,
            "cancelled" => Self::Cancelled,
            _ => return None,
        })
    }

    /// Its name on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Working => "working",
            Self::InputRequired => "input_required",
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
        }
    }

    /// Whether nothing more becomes of it.
    pub const fn is_final(self) -> bool {
        matches!(self, Self::Completed | Self::Failed | Self::Cancelled)
    }
}

impl<'a> Task<'a> {
    /// Reads the members of a task from `object`, a result or the params of a notification. `None` if it has no name,
    /// or a status that is not known.
    pub fn read(object: &'a str, kind: Kind) -> Option<Self> {
        let members = Members::parse(object)?;
        let id = members.string("taskId").filter(|id| !id.is_empty())?;
        let status = Status::parse(&members.string("status")?)?;
        Some(Self {
            id,
            status,
            kind,
            members,
        })
    }

    /// How long to wait before it is asked for again, if the server says so.
    pub fn poll_interval(&self) -> Option<Duration> {
        let name = match self.kind {
            Kind::Extension => "pollIntervalMs",
            Kind::Core => "pollInterval",
        };
        self.millis(name).map(Duration::from_millis)
    }

    /// What the server says of it for people, as JSON.
    pub fn status_message(&self) -> Option<Cow<'a, str>> {
        self.members.string("statusMessage")
    }

    /// When it was made, as its server wrote it.
    pub fn created_at(&self) -> Option<Cow<'a, str>> {
        self.members.string("createdAt")
    }

    /// The object of questions that it waits with.
    pub fn input_requests(&self) -> Option<&'a str> {
        self.members.get("inputRequests").map(|raw| raw.get())
    }

    /// The result that it came to, of one of the extension.
    pub fn result(&self) -> Option<&'a str> {
        self.members.get("result").map(|raw| raw.get())
    }

    /// The error that it came to, of one of the extension.
    pub fn error(&self) -> Option<&'a str> {
        self.members.get("error").map(|raw| raw.get())
    }

    fn millis(&self, name: &str) -> Option<u64> {
        self.members.get(name)?.get().parse().ok()
    }
}

/// Whether `result`, of a Modern server, is a task.
pub fn is_task(result: &str) -> bool {
    let kind = || Members::parse(result)?.string("resultType").map(|kind| kind == TYPE);
    result.contains("\"task\"") && kind() == Some(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_task_has_a_name_and_a_status_that_is_known() {
        let text = r#"{"taskId":"a\u0062","status":"input_required","pollInterval":1500,"pollIntervalMs":20}"#;
        let task = Task::read(text, Kind::Core).unwrap();
        assert_eq!((&*task.id, task.status), ("ab", Status::InputRequired));
        assert_eq!(task.poll_interval(), Some(Duration::from_millis(1_500)));
        let task = Task::read(text, Kind::Extension).unwrap();
        assert_eq!(task.poll_interval(), Some(Duration::from_millis(20)));
        for odd in [
            "[]",
            "{}",
            r#"{"taskId":"","status":"working"}"#,
            r#"{"taskId":1,"status":"working"}"#,
            r#"{"taskId":"a"}"#,
            r#"{"taskId":"a","status":"paused"}"#,
            r#"{"taskId":"a","taskId":"b","status":"working"}"#,
        ] {
            assert!(Task::read(odd, Kind::Extension).is_none(), "{odd}");
        }
    }

    #[test]
    fn a_pause_that_is_no_whole_number_of_milliseconds_is_none() {
        for odd in ["-1", "1.5", "null", "\"5\"", "1e3"] {
            let text = format!(r#"{{"taskId":"a","status":"working","pollInterval":{odd}}}"#);
            assert_eq!(Task::read(&text, Kind::Core).unwrap().poll_interval(), None, "{odd}");
        }
    }

    #[test]
    fn every_status_has_one_name() {
        for status in [
            Status::Working,
            Status::InputRequired,
            Status::Completed,
            Status::Failed,
            Status::Cancelled,
        ] {
            assert_eq!(Status::parse(status.as_str()), Some(status));
        }
        assert!(Status::Cancelled.is_final() && !Status::InputRequired.is_final());
    }
}
