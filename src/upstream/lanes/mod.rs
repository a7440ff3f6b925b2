//! Connections that carry calls, to Legacy servers that keep something for each connection.
//!
//! What such a server remembers, and whom it asks, goes by connection. So the calls of each owner go over lanes that
//! declare what the owner's client can do, and that carry nobody else's. Who cannot be asked and has no name, or calls a
//! process, shares a lane with all others like it. It is opened by the first such call: hosts that can be asked never
//! need it, and the connection that reads the catalog cannot serve for it, since everything is declared there.
//!
//! So a process server has a second process from then on. It is kept, since it holds whatever its callers did with it. If it
//! lists the same as the first one, as most do, it takes over the catalog, and the first one is stopped: one process is
//! enough, and what calls add to its lists is seen.

mod listened;
mod offer;
mod pool;

use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use self::listened::{is_listened_to, tells_of_resources};
use self::offer::Offer;
use self::pool::{Lane, Lease, Pool, Taken};
use super::caller::Owner;
use super::connection::Connection;
use super::endpoint::{Endpoint, Timeouts};
use super::error::Error;
use super::listening::{self, Beginning};
use super::news::Origin;
use super::request::{Call, Reply};
use super::sharing::Sharing;
use super::subscriptions::Version;
use crate::defaults;
use crate::metrics::ServerMetrics;

/// The lanes to one server.
#[derive(Debug)]
pub(super) struct Lanes {
    server: String,
    endpoint: Endpoint,
    timeouts: Timeouts,
    stop: CancellationToken,
    pool: Pool<Connection>,
    bounds: Bounds,
    metrics: ServerMetrics,
    offer: watch::Sender<Option<Offer>>,
    /// Lanes that are being opened or closed.
    tasks: TaskTracker,
}

impl Lanes {
    /// None yet, to the server at `endpoint`; none any more once `stop` is cancelled.
    pub(super) fn new(
        server: String,
        endpoint: Endpoint,
        timeouts: Timeouts,
        metrics: ServerMetrics,
        stop: CancellationToken,
    ) -> Arc<Self> {
        let bounds = match endpoint {
            Endpoint::Http(_) => Bounds {
                most: defaults::SESSION_LANES_MAX,
                idle: defaults::SESSION_LANE_IDLE,
            },
            Endpoint::Stdio(_) => Bounds {
                most: defaults::PROCESS_LANES_MAX,
                idle: defaults::PROCESS_LANE_IDLE,
            },
        };
        Self::within(bounds, server, endpoint, timeouts, metrics, stop)
    }

    /// Carries `call` over a lane of its owner, which is opened if there is none. `catalog` is the connection that reads
    /// the catalog; `limit` is for the call alone.
    pub(super) async fn call(
        self: &Arc<Self>,
        catalog: &Arc<Connection>,
        sharing: Sharing,
        call: &Call<'_>,
        limit: Option<Duration>,
    ) -> Result<Reply, Error> {
        match self.call_once(catalog, sharing, call, limit).await {
            // Sent again is only what the server did not take, so that nothing is done twice.
            Err(Error::SessionLost) => {
                // It may have been replaced by another one, which offers other things.
                catalog.known().doubt.notify_one();
                self.call_once(catalog, sharing, call, limit).await
            }
            answer => answer,
        }
    }

    /// Most lanes that there may be.
    pub(super) fn most(&self) -> usize {
        self.bounds.most
    }

    /// Waits, not for long, until the lanes that are open for `owner` carry what it subscribed to as of `version`, so that
    /// nothing is missed of what its next call changes.
    pub(super) async fn subscribed(&self, owner: &Owner, version: Version) {
        let mut lanes = self.pool.of(owner);
        if *owner != Owner::Nobody {
            lanes.extend(self.pool.of(&Owner::Nobody));
        }
        let meant = lanes.iter().filter(|lane| match lane.questions.origin() {
            Origin::Catalog | Origin::Shared => true,
            Origin::Lane(own) => *own != Owner::Nobody,
        });
        let open = meant.filter(|lane| matches!(lane.opened.get(), Some(Ok(_))));
        let reached = join_all(open.map(|lane| lane.carried.reached(version)));
        drop(timeout(defaults::LISTEN_PATIENCE * 2, reached).await);
    }

    /// Closes lanes that nobody uses, until all are closed since the server is let go of.
    pub(super) async fn tend(self: &Arc<Self>) {
        loop {
            tokio::select! {
                () = self.stop.cancelled() => break,
                () = sleep(defaults::LANE_SWEEP) => {}
            }
            self.close_idle();
        }
        for lane in self.pool.remove_all() {
            self.close(lane);
        }
        self.tasks.close();
        self.tasks.wait().await;
    }

    /// Tells the servers of `owner`'s lanes that its roots are others now.
    pub(super) async fn roots_changed(&self, owner: &Owner) {
        let lanes = self.pool.of(owner);
        let telling = lanes.iter().filter(|lane| lane.questions.declared().roots);
        let telling = telling.filter_map(|lane| lane.opened.get()?.as_ref().ok());
        join_all(telling.map(|connection| connection.tell(ROOTS_CHANGED))).await;
    }

    /// The process of everybody's lane, which could read the catalog as well.
    pub(super) fn offers(&self) -> watch::Receiver<Option<Offer>> {
        self.offer.subscribe()
    }

    fn within(
        bounds: Bounds,
        server: String,
        endpoint: Endpoint,
        timeouts: Timeouts,
        metrics: ServerMetrics,
        stop: CancellationToken,
    ) -> Arc<Self> {
        Arc::new(Self {
            server,
            endpoint,
            timeouts,
            stop,
            pool: Pool::new(bounds.most),
            bounds,
            metrics,
            offer: watch::Sender::default(),
            tasks: TaskTracker::new(),
        })
    }

    fn close_idle(&self) {
        let is_process = matches!(self.endpoint, Endpoint::Stdio(_));
        let is_kept = |lane: &Lane<Connection>| is_process && lane.is_plain;
        for lane in self.pool.remove_idle(self.bounds.idle, is_kept) {
            self.close(lane);
        }
    }

    /// Closes all lanes of `owner`.
    pub(super) fn close_of(&self, owner: &Owner) {
        for lane in self.pool.of(owner) {
            self.forget(&lane, Fate::Closes);
        }
    }

    async fn call_once(
        self: &Arc<Self>,
        catalog: &Arc<Connection>,
        sharing: Sharing,
        call: &Call<'_>,
        limit: Option<Duration>,
    ) -> Result<Reply, Error> {
        let lease = self.lease(catalog, sharing, call)?;
        let mut use_of = Use {
            lanes: self,
            lane: &lease.lane,
            fate: match sharing {
                Sharing::Together | Sharing::Everybody => Fate::Stays,
                // The server may still ask about this call when another one has the lane.
                Sharing::Alone => Fate::Closes,
            },
        };
        let questions = &lease.lane.questions;
        // Before it is open: servers ask as soon as the handshake is done.
        let begun = questions
            .declared()
            .is_interactive()
            .then(|| questions.begin(&call.owner, call.ear.clone()));
        let connection = lease.lane.opened.wait().await.clone()?;
        let answer = match &begun {
            Some(begun) => connection.call_begun(call, begun, limit).await,
            None => connection.call(call, sharing == Sharing::Everybody, limit).await,
        };
        match &answer {
            // What the server asks late must not be put to somebody else, and of these callers nobody knows who they are.
            Ok(_) if sharing == Sharing::Alone && call.owner == Owner::Nobody => {}
            Ok(_) => use_of.fate = Fate::Stays,
            Err(Error::SessionLost) => use_of.fate = Fate::IsLost,
            Err(Error::Process { .. } | Error::Unanswered) => use_of.fate = Fate::Closes,
            Err(_) => {}
        }
        answer
    }

    fn lease(
        self: &Arc<Self>,
        catalog: &Arc<Connection>,
        sharing: Sharing,
        call: &Call<'_>,
    ) -> Result<Lease<Connection>, Error> {
        loop {
            if self.stop.is_cancelled() {
                return Err(Error::NotConnected("it is let go of".into()));
            }
            match self.pool.take(&call.owner, call.features, sharing) {
                Taken::Known(lease) if has_ended(&lease.lane) => self.forget(&lease.lane, Fate::Closes),
                Taken::Known(lease) => return Ok(lease),
                Taken::New(lease) => {
                    self.open(Arc::clone(catalog), Arc::clone(&lease.lane));
                    return Ok(lease);
                }
                Taken::Full => match self.pool.remove_oldest_idle() {
                    Some(lane) => self.close(lane),
                    None => return Err(Error::NoLane(self.bounds.most)),
                },
            }
        }
    }

    /// Opens `lane` for all who wait for it, whoever of them goes away meanwhile, and listens on it.
    fn open(self: &Arc<Self>, catalog: Arc<Connection>, lane: Arc<Lane<Connection>>) {
        self.metrics.lanes(self.pool.len());
        let lanes = Arc::clone(self);
        self.tasks.spawn(async move {
            let opening = catalog.open_another(&lanes.server, &lanes.endpoint, lanes.timeouts, &lane.questions);
            let opened = tokio::select! {
                () = lanes.stop.cancelled() => Err(Error::NotConnected("it is let go of".into())),
                opened = opening => opened.map(Arc::new),
            };
            if let Ok(connection) = &opened
                && connection.peer().era() != catalog.peer().era()
            {
                // Another server stands there by now.
                catalog.known().doubt.notify_one();
            }
            drop(catalog);
            if opened.is_err() {
                lanes.forget(&lane, Fate::IsLost);
            }
            // Nobody else sets it.
            let set = |opened| drop(lane.opened.set(opened));
            let Ok(connection) = opened else { return set(opened) };
            if lane.is_plain && matches!(lanes.endpoint, Endpoint::Stdio(_)) {
                // Before its first call, which may change what it lists.
                if let Some(offer) = Offer::of(&connection, lanes.timeouts).await {
                    lanes.offer.send_replace(Some(offer));
                }
            }
            let beginning = Beginning::of_lane();
            let opening = async {
                // Servers ask beside a call too, as soon as it begins, and tell of what it changes.
                if is_listened_to(&lane, &connection) {
                    beginning.settled().await;
                    let version = *connection.known().subscriptions.changes().borrow();
                    drop(timeout(defaults::LISTEN_PATIENCE, lane.carried.reached(version)).await);
                }
                set(Ok(Arc::clone(&connection)));
                pending().await
            };
            tokio::select! {
                () = lanes.stay_with(&lane, &connection, &beginning) => {}
                () = opening => {}
            }
            set(Ok(connection));
        });
    }

    /// Hears what the server says on `lane` beside the answers to its calls, until it is closed or of no more use.
    async fn stay_with(&self, lane: &Arc<Lane<Connection>>, connection: &Connection, beginning: &Beginning) {
        let subscriptions = &connection.known().subscriptions;
        let until_needed = async {
            let mut changes = subscriptions.changes();
            while !is_listened_to(lane, connection) && changes.changed().await.is_ok() {}
        };
        let listening = async {
            until_needed.await;
            let subscribing = async {
                if !tells_of_resources(connection) {
                    lane.carried.is_of_no_use();
                    return pending().await;
                }
                beginning.settled().await;
                listening::keep_subscribed_on_lane(connection, self.timeouts, &lane.carried).await
            };
            tokio::select! {
                error = listening::listen_on_lane(connection, self.timeouts, beginning) => error,
                error = subscribing => error,
            }
        };
        let fate = tokio::select! {
            () = lane.closed.cancelled() => return,
            () = self.stop.cancelled() => Fate::Closes,
            _ = connection.closed() => Fate::Closes,
            _ = listening => Fate::IsLost,
        };
        self.forget(lane, fate);
    }

    fn forget(&self, lane: &Arc<Lane<Connection>>, fate: Fate) {
        if fate == Fate::Stays || !self.pool.remove(lane) {
            return;
        }
        match fate {
            Fate::Closes => self.close(Arc::clone(lane)),
            Fate::IsLost | Fate::Stays => {
                lane.closed.cancel();
                self.metrics.lanes(self.pool.len());
            }
        }
    }

    /// Closes a lane that is out of the pool.
    fn close(&self, lane: Arc<Lane<Connection>>) {
        lane.closed.cancel();
        self.metrics.lanes(self.pool.len());
        let close = async move {
            if let Ok(connection) = lane.opened.wait().await {
                connection.close().await;
            }
        };
        // A call may be dropped where there is no runtime any more.
        if let Ok(runtime) = Handle::try_current() {
            self.tasks.spawn_on(close, &runtime);
        }
    }
}

/// How many lanes there are, and how long.
#[derive(Clone, Copy, Debug)]
struct Bounds {
    most: usize,
    /// One that is unused for this long is closed.
    idle: Duration,
}

/// What becomes of a lane after a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Stays,
    /// It is of no use to others any more.
    Closes,
    /// The server has closed it.
    IsLost,
}

/// One use of a lane, however it ends.
struct Use<'a> {
    lanes: &'a Arc<Lanes>,
    lane: &'a Arc<Lane<Connection>>,
    fate: Fate,
}

impl Drop for Use<'_> {
    fn drop(&mut self) {
        self.lanes.forget(self.lane, self.fate);
    }
}

fn has_ended(lane: &Lane<Connection>) -> bool {
    matches!(lane.opened.get(), Some(Ok(connection)) if connection.has_ended())
}

const ROOTS_CHANGED: &[u8] = br#"{"jsonrpc":"2.0","method":"notifications/roots/list_changed"}"#;

#[cfg(test)]
mod tests;
