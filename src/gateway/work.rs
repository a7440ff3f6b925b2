//! A request at work, which may outlive its connection: that a Legacy client goes away is no cancellation (2025-03-26,
//! transports).

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use tokio::runtime::Handle;
use tokio::time::{Duration, timeout};

use super::finished::Finished;
use super::hub::SessionHub;
use super::line::Line;

/// A request at work. If it is dropped unfinished, that of a Legacy client goes on for a while; any other ends.
pub(super) struct Work {
    future: Option<Pin<Box<dyn Future<Output = Finished> + Send>>>,
    line: Line,
    hub: Arc<SessionHub>,
    patience: Duration,
}

impl Work {
    /// The work of `future`, which speaks on `line`, and may go on for as long as `patience` without its client.
    pub(super) fn new(
        future: impl Future<Output = Finished> + Send + 'static,
        line: Line,
        hub: Arc<SessionHub>,
        patience: Duration,
    ) -> Self {
        Self {
            future: Some(Box::pin(future)),
            line,
            hub,
            patience,
        }
    }

    /// What it speaks on.
    pub(super) fn line(&self) -> &Line {
        &self.line
    }

    /// Where it is known of.
    pub(super) fn hub(&self) -> &Arc<SessionHub> {
        &self.hub
    }

    /// How long it may go on without its client.
    pub(super) fn patience(&self) -> Duration {
        self.patience
    }

    /// Ends it where it is.
    pub(super) fn cancel(mut self) {
        self.future = None;
    }
}

impl Future for Work {
    type Output = Finished;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Finished> {
        let Some(future) = &mut self.future else {
            return Poll::Pending;
        };
        let polled = future.as_mut().poll(cx);
        if polled.is_ready() {
            self.future = None;
        }
        polled
    }
}

impl Drop for Work {
    fn drop(&mut self) {
        let Some(future) = self.future.take().filter(|_| self.line.caller().is_some()) else {
            return;
        };
        let (Some(place), Ok(runtime)) = (self.hub.place(), Handle::try_current()) else {
            return;
        };
        // Whoever waits for the client to say something waits in vain.
        self.line.cut();
        let patience = self.patience;
        runtime.spawn(async move {
            if timeout(patience, future).await.is_err() {
                tracing::debug!("a call was given up: its client went away");
            }
            drop(place);
        });
    }
}
