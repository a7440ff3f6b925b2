//! What is told of tasks that nobody knows any more.

use jiff::Timestamp;
use serde_json::json;

use crate::mcp::RpcError;
use crate::mcp::task::{Detail, Kind, Status};

/// A task that nobody knows any more. In the extension's words it has failed with the error by which `tasks/get` is
/// answered then: clients wait for something final, and there is no other notification (tasks extension, task status
/// notifications, error handling).
pub(super) struct Lost {
    /// The task, in the words of 2025-11-25, as JSON.
    pub(super) task: String,
    /// The error, as JSON.
    error: String,
}

impl Lost {
    /// The task that was made at `created` and is lost `now`, since its server does not know it or `is_gone`.
    pub(super) fn new(task: &str, created: &str, is_gone: bool, now: Timestamp) -> Self {
        let what = match is_gone {
            true => "is not served here any more",
            false => "does not know it any more",
        };
        let text = format!("the server that had the task {what}; what came of it is not known, call the tool again");
        let task = json!({
            "taskId": task, "status": Status::Failed.as_str(), "statusMessage": text, "createdAt": created,
            "lastUpdatedAt": now.to_string(), "ttl": null,
        });
        let error = RpcError::new(RpcError::INVALID_PARAMS, text).to_json();
        Self {
            task: task.to_string(),
            error: String::from_utf8_lossy(&error).into_owned(),
        }
    }

    /// Which kind of task it is told as, and what it came to.
    pub(super) fn outcome(&self) -> (Kind, Detail<'_>) {
        (Kind::Core, Detail::Error(&self.error))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;
    use crate::mcp::task::{self, Task};

    #[test]
    fn a_task_that_is_lost_has_failed_with_the_error_that_asking_for_it_gives() {
        for (is_gone, why) in [
            (false, "does not know it any more"),
            (true, "is not served here any more"),
        ] {
            let lost = Lost::new("t-1", "2026-11-30T10:00:00Z", is_gone, Timestamp::UNIX_EPOCH);
            let task = Task::read(&lost.task, lost.outcome().0).unwrap();
            let told = task::changed(&task, lost.outcome().1, "name", "7");
            let told: Value = serde_json::from_slice(&told).unwrap();
            let params = &told["params"];
            assert_eq!(
                (&params["taskId"], &params["status"]),
                (&json!("name"), &json!("failed"))
            );
            assert_eq!(params["createdAt"], "2026-11-30T10:00:00Z");
            assert_eq!(params["lastUpdatedAt"], "1970-01-01T00:00:00Z");
            assert_eq!(params["ttlMs"], Value::Null);
            assert_eq!(params["error"]["code"], -32602);
            let text = params["error"]["message"].as_str().unwrap();
            assert!(text.contains(why) && params["statusMessage"] == text, "{params}");
        }
    }
}
