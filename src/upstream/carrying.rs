//! Calls on their way to a server: over which connection, and what is done when that is of no more use.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, timeout_at};

use super::connection::Connection;
use super::error::Error;
use super::inner::Inner;

use super::request::{Call, Reply};
use super::sharing::lane_for;
use super::state::Health;
use crate::defaults;
use crate::index::Annotations;
use crate::mcp::{Era, Method};

impl Inner {
    /// Carries `call`, which may take as long as `limit` says each time that it is sent. Whether the server did what it did
    /// not answer, nobody knows. So only what may be done twice is sent again, once.
    pub(super) async fn call(&self, call: &Call<'_>, limit: Option<Duration>) -> Result<Reply, Error> {
        match self.call_once(call, limit).await {
            Err(error) if error.leaves_in_doubt() && self.may_be_repeated(call) => {
                if let Some(ear) = &call.ear {
                    ear.begins_again();
                }
                Box::pin(self.call_once(call, limit)).await
            }
            answer => answer,
        }
    }

    fn may_be_repeated(&self, call: &Call<'_>) -> bool {
        // What answers a question is good for one time.
        call.answers.is_none()
            && match call.method {
                Method::ToolsCall => {
                    let catalog = self.state.borrow().catalog.clone();
                    let tools = catalog.as_ref().map_or(&[][..], |catalog| &catalog.tools);
                    tools
                        .iter()
                        .any(|tool| tool.key == call.target && tool.may_be_repeated())
                }
                _ => true,
            }
    }

    async fn call_once(&self, call: &Call<'_>, limit: Option<Duration>) -> Result<Reply, Error> {
        let connection = self.standing().await?;
        if let Some(sharing) = lane_for(connection.holds(), &call.owner, call.features) {
            let answer = self.lanes.call(&connection, sharing, call, limit).await;
            let is_in_doubt = match &answer {
                Ok(reply) => reply.names_the_unknown() && call.expects_to_be_known(),
                Err(error) => shows_another_server(error),
            };
            if is_in_doubt {
                self.known.doubt.notify_one();
            }
            return answer;
        }
        // Sent again is only what the server did not take, so that nothing is done twice.
        match self.send(&connection, call, limit).await {
            Err(Error::SessionLost) => {
                let renewed = self.renewed(&connection).await?;
                Box::pin(self.send(&renewed, call, limit)).await
            }
            Ok(reply)
                if call.method == Method::ToolsCall
                    && connection.annotations() == Annotations::Binding
                    && reply.refuses_headers() =>
            {
                Box::pin(self.send_as_annotated_now(call, limit))
                    .await
                    .unwrap_or(Ok(reply))
            }
            Err(error) if shows_another_server(&error) => {
                self.known.doubt.notify_one();
                Err(error)
            }
            // What is offered may have changed without a word.
            Ok(reply) if reply.names_the_unknown() && call.expects_to_be_known() => {
                self.known.doubt.notify_one();
                Ok(reply)
            }
            Ok(reply) if connection.peer().era() == Era::Modern && reply.is_of_no_request() => {
                self.known.doubt.notify_one();
                Ok(reply)
            }
            answer => answer,
        }
    }

    /// Reads the catalog again and sends `call` with the headers that the tool wants now. `None` if there is no such
    /// tool any more, or no way to know.
    async fn send_as_annotated_now(&self, call: &Call<'_>, limit: Option<Duration>) -> Option<Result<Reply, Error>> {
        let patience = self.timeouts.word() + defaults::REREAD_PAUSE;
        if !self.rereads.ask(&self.wake, patience).await {
            return None;
        }
        let catalog = self.state.borrow().catalog.clone()?;
        let tool = catalog.tools.iter().find(|tool| tool.key == call.target)?;
        let connection = self.live.load_full()?;
        let call = Call {
            param_headers: tool.param_headers.as_deref(),
            ..call.clone()
        };
        Some(self.send(&connection, &call, limit).await)
    }

    async fn send(
        &self,
        connection: &Arc<Connection>,
        call: &Call<'_>,
        limit: Option<Duration>,
    ) -> Result<Reply, Error> {
        connection.call(call, true, limit).await
    }

    /// The connection that reads the catalog; waited for while it is made again.
    pub(super) async fn standing(&self) -> Result<Arc<Connection>, Error> {
        match self.live.load_full() {
            Some(connection) => Ok(connection),
            None if self.state.borrow().health == Health::Ready => self.reconnected().await,
            None => Err(self.not_connected()),
        }
    }

    /// The connection that takes the place of `lost`; made once for all who wait for it.
    async fn renewed(&self, lost: &Arc<Connection>) -> Result<Arc<Connection>, Error> {
        self.live.compare_and_swap(lost, None);
        self.wake.notify_one();
        self.reconnected().await
    }

    /// The next connection, as soon as there is one.
    async fn reconnected(&self) -> Result<Arc<Connection>, Error> {
        let mut state = self.state.subscribe();
        let deadline = Instant::now() + self.timeouts.connect;
        loop {
            if let Some(connection) = self.live.load_full() {
                return Ok(connection);
            }
            if !matches!(timeout_at(deadline, state.changed()).await, Ok(Ok(()))) {
                return Err(Error::SessionLost);
            }
            if matches!(state.borrow_and_update().health, Health::Failed(_)) {
                return Err(self.not_connected());
            }
        }
    }

    fn not_connected(&self) -> Error {
        match &self.state.borrow().health {
            Health::Failed(error) => Error::NotConnected(error.to_string()),
            Health::Connecting | Health::Ready => Error::NotConnected("it is still being connected".into()),
        }
    }
}

/// Whether nobody may be there, or a server of another era.
fn shows_another_server(error: &Error) -> bool {
    matches!(
        error,
        Error::Connect(_) | Error::Broken(_) | Error::Status(400 | 404 | 405)
    )
}
