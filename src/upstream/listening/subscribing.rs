//! Subscriptions to single resources of a Legacy server (2025-06-18, resources: subscriptions).
//!
//! A server tells of a resource in the sessions that subscribed to it. What somebody's call changes it may tell in the
//! session of that call alone, so each lane subscribes to what its owner wants to hear of, beside the connection that
//! reads the catalog.

use std::collections::{BTreeMap, BTreeSet};
use std::future::pending;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use futures::StreamExt;
use futures::stream;
use tokio::sync::watch;

use super::refusal::refusal_text;
use crate::mcp::object::ObjectWriter;
use crate::upstream::connection::Connection;
use crate::upstream::endpoint::Timeouts;
use crate::upstream::error::Error;
use crate::upstream::news::Notice;
use crate::upstream::request::Body;
use crate::upstream::subscriptions::{Standing, Version};

/// How far a lane carries what its owner subscribed to.
#[derive(Debug, Default)]
pub(in crate::upstream) struct Carried {
    version: watch::Sender<Version>,
    any: AtomicBool,
}

impl Carried {
    /// Whether there is anything.
    pub(in crate::upstream) fn any(&self) -> bool {
        self.any.load(Ordering::Acquire)
    }

    /// Waits until everything is carried that was wanted as of `version`.
    pub(in crate::upstream) async fn reached(&self, version: Version) {
        let mut reached = self.version.subscribe();
        // The sender lives as long as this.
        drop(reached.wait_for(|reached| *reached >= version).await);
    }

    /// Nothing can be carried: nobody waits for it.
    pub(in crate::upstream) fn is_of_no_use(&self) {
        self.reach(Version::MAX, false);
    }

    fn reach(&self, version: Version, any: bool) {
        self.any.store(any, Ordering::Release);
        self.version.send_replace(version);
    }
}

/// Subscribes, on the connection that reads the catalog, to whatever anybody wants, and ends what nobody wants any more.
/// It tells them how the server took it.
pub(super) async fn keep_subscribed(connection: &Connection, timeouts: Timeouts) -> Error {
    let known = connection.known();
    let mut changes = known.subscriptions.changes();
    let mut held = BTreeSet::new();
    loop {
        changes.borrow_and_update();
        let wanted = known.subscriptions.wanted();
        unsubscribe(connection, &mut held, &wanted, timeouts).await;
        known.subscriptions.settle_again(|uri| held.contains(uri));
        let new = wanted.into_iter().filter(|(uri, _)| !held.contains(uri)).collect();
        let mut answers = std::pin::pin!(subscribe(connection, new, timeouts));
        while let Some((uri, was_accepted, answer)) = answers.next().await {
            match answer {
                Ok(()) => {
                    known.subscriptions.settle(&uri, Standing::Accepted);
                    if was_accepted {
                        known.news.resource_changed(Notice::of(&uri));
                    }
                    held.insert(uri);
                }
                Err(Error::SessionLost) => return Error::SessionLost,
                Err(error) => {
                    tracing::debug!(%uri, %error, "a resource cannot be subscribed to");
                    let why = match error {
                        Error::Refused(why) => why,
                        other => other.to_string(),
                    };
                    known.subscriptions.settle(&uri, Standing::Refused(why.into()));
                }
            }
        }
        if changes.changed().await.is_err() {
            return pending().await;
        }
    }
}

/// Subscribes, on a lane, to what its owner wants, as far as the server takes it there, and tells `carried` how far that
/// is.
pub(in crate::upstream) async fn keep_subscribed_on_lane(
    connection: &Connection,
    timeouts: Timeouts,
    carried: &Carried,
) -> Error {
    let (known, origin) = (connection.known(), connection.questions().origin());
    let mut changes = known.subscriptions.changes();
    let mut held = BTreeSet::new();
    loop {
        let version = *changes.borrow_and_update();
        let wanted = known.subscriptions.wanted_on(origin);
        unsubscribe(connection, &mut held, &wanted, timeouts).await;
        let new = wanted.into_iter().filter(|(uri, _)| !held.contains(uri)).collect();
        let mut answers = std::pin::pin!(subscribe(connection, new, timeouts));
        while let Some((uri, _, answer)) = answers.next().await {
            match answer {
                Ok(()) => drop(held.insert(uri)),
                Err(Error::SessionLost) => return Error::SessionLost,
                Err(error) => tracing::debug!(%uri, %error, "a resource cannot be subscribed to on a lane"),
            }
        }
        carried.reach(version, !held.is_empty());
        if changes.changed().await.is_err() {
            return pending().await;
        }
    }
}

/// Ends what of `held` is not `wanted` any more.
async fn unsubscribe(
    connection: &Connection,
    held: &mut BTreeSet<Arc<str>>,
    wanted: &BTreeMap<Arc<str>, bool>,
    timeouts: Timeouts,
) {
    for uri in held.extract_if(.., |uri| !wanted.contains_key(uri)).collect::<Vec<_>>() {
        // To a server that does not take it, the client is told nothing of what it still says.
        drop(ask(connection, "resources/unsubscribe", &uri, timeouts).await);
    }
}

/// Subscribes to the resources in `new`, several at a time, and gives how each was taken, with whether it was before.
fn subscribe(
    connection: &Connection,
    new: Vec<(Arc<str>, bool)>,
    timeouts: Timeouts,
) -> impl futures::Stream<Item = (Arc<str>, bool, Result<(), Error>)> {
    stream::iter(new)
        .map(move |(uri, was_accepted)| async move {
            let answer = ask(connection, "resources/subscribe", &uri, timeouts).await;
            (uri, was_accepted, answer)
        })
        .buffer_unordered(AT_ONCE)
}

async fn ask(connection: &Connection, method: &'static str, uri: &str, timeouts: Timeouts) -> Result<(), Error> {
    let mut out = Vec::new();
    let mut params = ObjectWriter::open(&mut out);
    params.string("uri", uri);
    params.close();
    let reply = connection.ask(method, &out, timeouts.resource).await?;
    match reply.body() {
        Body::Result(_) => Ok(()),
        Body::Error(error) => Err(Error::Refused(refusal_text(error))),
    }
}

/// Subscriptions that are asked for at a time.
const AT_ONCE: usize = 8;
