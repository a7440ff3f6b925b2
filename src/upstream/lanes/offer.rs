//! The process that everybody shares, as one that could read the catalog too.

use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::time::timeout;

use crate::index::Catalog;
use crate::upstream::connection::Connection;
use crate::upstream::endpoint::Timeouts;
use crate::upstream::lists;

/// A process that could read the catalog.
#[derive(Clone, Debug)]
pub(in crate::upstream) struct Offer {
    /// The connection to it.
    pub(in crate::upstream) connection: Weak<Connection>,
    /// What it lists.
    pub(in crate::upstream) catalog: Arc<Catalog>,
}

impl Offer {
    /// The process behind `connection`, if it tells within a short time what it lists.
    pub(super) async fn of(connection: &Arc<Connection>, timeouts: Timeouts) -> Option<Self> {
        let read = timeout(PATIENCE, lists::read_catalog(connection, timeouts, &[])).await;
        let catalog = read.ok()?.ok()?.catalog;
        Some(Self {
            connection: Arc::downgrade(connection),
            catalog: Arc::new(catalog),
        })
    }
}

/// Its first call is held up no longer than this.
const PATIENCE: Duration = Duration::from_secs(1);
