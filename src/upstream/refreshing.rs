//! What is known of a server is published: its lists when they were read, and its failures.

use std::sync::Arc;

use tokio::time::{Instant, sleep, sleep_until};

use super::advice::advised;
use super::connection::Connection;
use super::error::Error;
use super::inner::Inner;
use super::lists;
use super::missing_lists::MissingLists;
use super::pause::jittered;
use super::state::{Health, State};
use crate::defaults;
use crate::index::{Catalog, Defect, List};

impl Inner {
    /// Reads the catalog over `connection`, once more after a while, and again, if the server fails without being gone.
    /// Meanwhile its failure is told, and calls go on.
    pub(super) async fn refresh_patiently(
        &self,
        connection: &Arc<Connection>,
        missing: &mut MissingLists,
    ) -> Result<(), Error> {
        let mut pause = defaults::RETRY_MIN;
        for _ in 0..defaults::REREADS_IN_PLACE {
            match self.refresh(connection, missing).await {
                Err(error) if error.is_passing() => self.failed(error),
                done => return done,
            }
            tokio::select! {
                error = connection.closed() => return Err(error),
                () = sleep(jittered(pause)) => {}
                () = self.wake.notified() => if self.live.load().is_none() {
                    return Err(Error::SessionLost);
                },
            }
            pause *= 2;
        }
        self.refresh(connection, missing).await
    }

    /// Reads the catalog over `connection`, without those lists that are `missing` and not due, and publishes both.
    pub(super) async fn refresh(&self, connection: &Arc<Connection>, missing: &mut MissingLists) -> Result<(), Error> {
        let asked = self.rereads.begin();
        let mut catalog = if self.reads_lists {
            let begun = Instant::now();
            let read = lists::read_catalog(connection, self.timeouts, missing.not_due(begun)).await?;
            missing.note(read.failed, begun, Instant::now());
            read.catalog
        } else {
            connection.is_there(self.timeouts.resource).await?;
            Catalog::new(connection.peer().era()).sealed()
        };
        if let Some(before) = self.state.borrow().catalog.as_deref() {
            catalog = catalog.taking_over(before, self.freshness.stale_for);
        }
        if self.withholds_whole && !catalog.withheld.is_empty() {
            catalog = catalog.withheld_whole();
        }
        self.tell_left_out(&catalog);
        for list in List::ALL {
            self.metrics.items(list, catalog.list(list).len());
        }
        self.metrics.complete(catalog.complete);
        self.metrics.up(true);
        self.live.store(Some(Arc::clone(connection)));
        // Told even where nothing changed: calls may be waiting for the new connection.
        self.state.send_modify(|state| {
            let same_catalog = state
                .catalog
                .as_ref()
                .is_some_and(|known| known.era == catalog.era && known.digest() == catalog.digest());
            let same_peer = state.peer.as_ref() == Some(connection.peer());
            if state.health == Health::Ready && same_catalog && same_peer {
                return;
            }
            let catalog = if same_catalog {
                state.catalog.clone()
            } else {
                Some(Arc::new(catalog))
            };
            *state = Arc::new(State {
                health: Health::Ready,
                peer: Some(Arc::clone(connection.peer())),
                catalog,
            });
        });
        self.failing.send_replace(None);
        self.rereads.done(asked);
        Ok(())
    }

    /// Tells what `catalog` leaves out and the one before did not: it would be missed without a trace.
    fn tell_left_out(&self, catalog: &Catalog) {
        self.metrics.withheld(catalog.withheld.len() + catalog.withheld_more);
        let before = self.state.borrow().catalog.clone();
        let (known, known_more) = before.as_deref().map_or((&[][..], 0), |catalog| {
            (catalog.withheld.as_slice(), catalog.withheld_more)
        });
        for entry in catalog.withheld.iter().filter(|entry| !known.contains(entry)) {
            let (name, cause, kind) = (&entry.name, &entry.cause, entry.list.entry());
            let (server, reason) = (&self.name, cause.reason());
            match cause {
                Defect::Cut(_) => tracing::warn!(server, list = name, reason, "a list is cut: {cause}"),
                Defect::List(_) | Defect::Unread(_) => {
                    tracing::warn!(server, list = name, reason, "a list is left out: {cause}")
                }
                _ => tracing::warn!(server, kind, name, reason, "a {kind} is withheld: {cause}"),
            }
        }
        if catalog.withheld_more != known_more {
            tracing::warn!(server = self.name, more = catalog.withheld_more, "more is withheld");
        }
        let known = before.as_deref().map_or(&[][..], |catalog| &catalog.nameless);
        for (list, count) in catalog.nameless.iter().filter(|entry| !known.contains(entry)) {
            tracing::warn!(
                server = self.name,
                list = list.member(),
                count,
                "entries without {} are left out; the server must give them one",
                list.key()
            );
        }
    }

    /// Publishes a failure. The last good catalog stays, for a while.
    pub(super) fn failed(&self, error: Error) {
        if !self.reads_lists && error.wants_credentials() {
            // It is there, and wants to know who asks: callers will tell it.
            self.metrics.up(true);
        } else {
            self.metrics.up(false);
            self.metrics.failure(error.reason());
        }
        self.failing
            .send_if_modified(|since| since.is_none().then(|| *since = Some(Instant::now())).is_some());
        let health = Health::Failed(advised(error, &self.known.pin, self.known.transport));
        self.state.send_if_modified(|state| {
            if state.health == health {
                return false;
            }
            tracing::warn!(server = self.name, reason = health.reason(), "{health}");
            *state = Arc::new(State {
                health,
                ..State::clone(state)
            });
            true
        });
    }

    /// Lets go of the catalog, unless the server has come back at this very moment.
    fn let_go_of_catalog(&self) {
        self.state.send_if_modified(|state| {
            if state.health == Health::Ready {
                return false;
            }
            tracing::warn!(
                server = self.name,
                "it was away for too long; nothing of it is listed any more"
            );
            *state = Arc::new(State {
                catalog: None,
                ..State::clone(state)
            });
            true
        });
    }

    /// Lets go of the catalog of a server that failed for too long.
    pub(super) async fn grow_stale(&self) {
        let mut failing = self.failing.subscribe();
        loop {
            let since = *failing.borrow_and_update();
            if let Some(since) = since {
                tokio::select! {
                    changed = failing.changed() => match changed {
                        Ok(()) => continue,
                        Err(_) => return,
                    },
                    () = sleep_until(since + self.freshness.stale_for) => {}
                }
                self.let_go_of_catalog();
            }
            if failing.changed().await.is_err() {
                return;
            }
        }
    }
}
