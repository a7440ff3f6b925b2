//! A client's request on one connection, and what it comes to: an answer, or a task that is waited for.

use std::sync::Arc;
use std::time::Duration;

use super::connection::{Connection, Link};
use super::error::Error;
use super::questions::Begun;
use super::request::{Call, Reply};
use super::tasks;

impl Connection {
    /// Carries a client's request; those of others may use the connection too if it `is_shared`. Dropping the future
    /// cancels the request at the server.
    pub(crate) async fn call(
        self: &Arc<Self>,
        call: &Call<'_>,
        is_shared: bool,
        limit: Option<Duration>,
    ) -> Result<Reply, Error> {
        self.make_log(call, is_shared).await;
        match self.link() {
            // Every stream belongs to one call, and nobody is asked anything: there is nothing to keep in mind.
            Link::Http(_) => tasks::carry(self, call, None, limit).await,
            Link::OldSse(_) | Link::Stdio(_) => {
                let begun = self.questions().begin(&call.owner, call.ear.clone());
                tasks::carry(self, call, Some(&begun), limit).await
            }
        }
    }

    /// The same for a call whose client may be asked things, which began before there was a connection. The time limit
    /// stands still while the server waits for an answer.
    pub(crate) async fn call_begun(
        self: &Arc<Self>,
        call: &Call<'_>,
        begun: &Begun,
        limit: Option<Duration>,
    ) -> Result<Reply, Error> {
        self.make_log(call, false).await;
        tasks::carry(self, call, Some(begun), limit).await
    }
}
