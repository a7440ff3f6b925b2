//! One task per upstream: connect, read the catalog, keep both fresh, and try again with patience.

use std::sync::Arc;

use tokio::sync::watch;
use tokio::time::{Instant, sleep, sleep_until, timeout_at};

use super::connection::Connection;
use super::error::Error;
use super::inner::Inner;
use super::listening::{self, Beginning};
use super::missing_lists::MissingLists;
use super::pause::jittered;
use super::questions::Questions;
use crate::defaults;
use crate::index::Catalog;

impl Inner {
    /// Connects, to read the catalog.
    async fn connect(&self) -> Result<Arc<Connection>, Error> {
        let questions = Questions::of_catalog();
        let opened = Connection::open(&self.name, &self.endpoint, self.timeouts, &questions, &self.known).await;
        opened.map(Arc::new)
    }

    /// Serves from `connection` and listens on it until it is of no more use. `None`: the server is let go of.
    async fn use_up(&self, connection: &Arc<Connection>) -> Option<Ended> {
        let (beginning, was_ready) = (Beginning::now(), watch::Sender::new(false));
        let error = tokio::select! {
            () = self.stop.cancelled() => return None,
            error = self.hold(connection, &beginning, &was_ready) => error,
            error = listening::listen(connection, self.timeouts, &beginning) => error,
            other = self.replaced(connection, &was_ready) => return Some(Ended::Replaced(other)),
        };
        let was_ready = *was_ready.borrow();
        Some(Ended::Failed { error, was_ready })
    }

    /// Reads the catalog and keeps it fresh until the connection fails.
    async fn hold(
        &self,
        connection: &Arc<Connection>,
        beginning: &Beginning,
        was_ready: &watch::Sender<bool>,
    ) -> Error {
        beginning.settled().await;
        let mut missing = MissingLists::new(Instant::now());
        if let Err(error) = self.refresh(connection, &mut missing).await {
            return error;
        }
        was_ready.send_replace(true);
        let peer = connection.peer();
        tracing::info!(server = self.name, revision = %peer.revision_name, name = peer.name, "connected");
        let mut read_at = Instant::now();
        loop {
            tokio::select! {
                error = connection.closed() => return error,
                () = self.known.news.list_changed() => {
                    // A server that says so all the time is believed once a second.
                    sleep_until(read_at + defaults::REREAD_PAUSE).await;
                    self.until_quiet().await;
                }
                () = self.known.doubt.notified() => sleep_until(read_at + defaults::REREAD_PAUSE).await,
                () = self.is_old(read_at) => {}
                () = missing.due() => {}
                () = self.wake.notified() => {
                    if self.live.load().is_none() {
                        return Error::SessionLost;
                    }
                    if !self.rereads.are_wanted() {
                        continue;
                    }
                    missing.ask_again(Instant::now());
                    sleep_until(read_at + defaults::REREAD_PAUSE).await;
                }
            }
            if let Err(error) = self.refresh_patiently(connection, &mut missing).await {
                return error;
            }
            read_at = Instant::now();
        }
    }

    /// Waits until the server has told of no further change for a moment, since one change often comes with others; not for
    /// long, however many come.
    async fn until_quiet(&self) {
        let latest = Instant::now() + defaults::COALESCE;
        loop {
            let quiet = latest.min(Instant::now() + defaults::NOTICES_QUIET);
            let told = timeout_at(quiet, self.known.news.list_changed()).await;
            if told.is_err() || Instant::now() >= latest {
                return;
            }
        }
    }

    /// Waits for another connection that does for the catalog what `connection` does, and carries calls too.
    async fn replaced(&self, connection: &Arc<Connection>, is_ready: &watch::Sender<bool>) -> Arc<Connection> {
        // What was offered before that still is.
        drop(is_ready.subscribe().wait_for(|is_ready| *is_ready).await);
        let mut offers = self.lanes.offers();
        loop {
            let offer = offers.borrow_and_update().clone();
            if let Some(offer) = offer
                && let Some(other) = offer.connection.upgrade()
                && !Arc::ptr_eq(&other, connection)
                && !other.has_ended()
                && self.lists_the_same(&offer.catalog)
            {
                return other;
            }
            // It ends with the server.
            drop(offers.changed().await);
        }
    }

    fn lists_the_same(&self, other: &Catalog) -> bool {
        let state = self.state.borrow();
        let known = state.catalog.as_deref();
        known.is_some_and(|known| known.era == other.era && known.digest() == other.digest())
    }

    /// Waits until lists that were read at `read_at` are old.
    async fn is_old(&self, read_at: Instant) {
        sleep_until(read_at + self.freshness.ttl.max(defaults::REREAD_PAUSE)).await;
    }

    /// Waits until somebody wants the lists to be read.
    async fn refresh_is_wanted(&self) {
        loop {
            self.wake.notified().await;
            if self.rereads.are_wanted() {
                return;
            }
        }
    }
}

/// How a connection came to its end.
enum Ended {
    /// It is of no more use.
    Failed { error: Error, was_ready: bool },
    /// This one takes its place.
    Replaced(Arc<Connection>),
}

/// Whether there is most likely a server to connect to at once, in another session or another era.
fn is_no_failure(error: &Error) -> bool {
    matches!(error, Error::SessionLost | Error::Outdated) || error.may_come_of_the_era()
}

/// Holds the server until it is let go of.
pub(super) async fn supervise(inner: Arc<Inner>) {
    let keeping = async {
        tokio::select! {
            () = keep(&inner) => {}
            () = inner.grow_stale() => {}
        }
    };
    tokio::join!(keeping, inner.lanes.tend());
    inner.metrics.ended();
}

/// Keeps the connection that reads the catalog until the server is let go of.
async fn keep(inner: &Inner) {
    let mut pause = defaults::RETRY_MIN;
    let mut next: Option<Arc<Connection>> = None;
    loop {
        let attempt = match next.take() {
            Some(connection) => Ok(connection),
            None => tokio::select! {
                () = inner.stop.cancelled() => return,
                attempt = inner.connect() => attempt,
            },
        };
        let (error, was_ready) = match attempt {
            Ok(connection) => match Box::pin(inner.use_up(&connection)).await {
                None => {
                    connection.close().await;
                    return;
                }
                Some(Ended::Replaced(other)) => {
                    inner.live.store(Some(Arc::clone(&other)));
                    connection.close().await;
                    next = Some(other);
                    continue;
                }
                Some(Ended::Failed { error, was_ready }) => {
                    inner.live.compare_and_swap(&connection, None);
                    if error != Error::SessionLost {
                        connection.close().await;
                    }
                    (error, was_ready)
                }
            },
            Err(error) => (error, false),
        };
        if was_ready {
            pause = defaults::RETRY_MIN;
        }
        if !(was_ready && error == Error::SessionLost) {
            inner.known.verdict.forget();
        }
        if was_ready && is_no_failure(&error) {
            continue;
        }
        inner.failed(error);
        tokio::select! {
            () = inner.stop.cancelled() => return,
            () = inner.refresh_is_wanted() => {}
            () = sleep(jittered(pause)) => {}
        }
        pause = (pause * 2).min(defaults::RETRY_MAX);
    }
}
