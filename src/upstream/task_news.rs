//! What there is to tell of tasks, whoever finds it out.

use super::request::Reply;
use crate::mcp::task::Kind;

/// A task that is told of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Accepted {
    /// What its server calls it.
    pub task: String,
    /// When it was made, as its server wrote it, if that said so already.
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
