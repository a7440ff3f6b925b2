//! Resources of a server that clients want to hear of: who holds on to which, and how the server took it.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::hash::Hash;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{broadcast, watch};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::at_work::AtWork;
use super::caller::Owner;
use super::news::{Notice, Origin};
use super::shares::{Party, Shares, Taken, share_of};
use crate::defaults;

/// Which resources are to be subscribed to; one entry a resource, however many hold on to it. The connection's listener
/// carries out what stands here, again with every new connection.
#[derive(Debug, Default)]
pub(crate) struct Subscriptions {
    table: Mutex<Table>,
    /// Counts the changes of what is wanted.
    changes: watch::Sender<Version>,
}

#[derive(Debug, Default)]
struct Table {
    entries: BTreeMap<Arc<str>, Entry>,
    /// The resources that each party holds on to.
    shares: Shares,
}

/// Who subscribes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subscriber {
    /// Whose connections tell of it.
    pub owner: Owner,
    /// Whose share of the server's subscriptions it takes.
    pub party: Party,
}

/// A moment in the life of the table; later ones are greater.
pub(crate) type Version = u64;

/// A subscription to one resource, until it is dropped.
#[derive(Debug)]
pub struct Subscription {
    hold: Hold,
    notices: broadcast::Receiver<Notice>,
    told: Told,
    /// The server is let go of.
    gone: CancellationToken,
    _at_work: Option<AtWork>,
}

/// What was told lately. The same change may be heard on several connections, and is told once.
#[derive(Debug, Default)]
struct Told(VecDeque<(Arc<str>, Origin, Instant)>);

/// Why a resource cannot be subscribed to.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SubscribeError {
    /// Changes of the server are not listened for.
    #[error("changes of the server are not listened for (spec.notifications.enabled is false)")]
    NotHeeded,
    /// The server is not connected now.
    #[error("the server is not connected")]
    NotConnected,
    /// The server does not declare that it tells of changes of resources.
    #[error("the server does not offer subscriptions to resources")]
    NotOffered,
    /// The URI is too long.
    #[error(
        "resources with URIs of more than {} bytes are not subscribed to",
        defaults::SUBSCRIPTION_URI_MAX
    )]
    TooLong,
    /// There are too many subscriptions to the server.
    #[error(
        "{} resources of the server are subscribed to, and no more can be; try again later",
        defaults::SUBSCRIPTIONS_MAX
    )]
    TooMany,
    /// The caller has its share of the server's subscriptions.
    #[error("{} resources of the server are subscribed to by {who}, and no more may be; unsubscribe from one first",
        share_of(*.is_named, defaults::SUBSCRIPTIONS_MAX), who = if *.is_named { "this key" } else { "clients without a key" })]
    Share {
        /// Whether it has a name.
        is_named: bool,
    },
    /// The server said no.
    #[error("the server refused it: {0}")]
    Refused(Arc<str>),
    /// The server said nothing in time.
    #[error("the server did not answer in time")]
    Timeout,
}

/// How the server took a subscription.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    /// It was not asked yet, or did not answer.
    Waiting,
    /// It tells of changes.
    Accepted,
    /// It does not, and says why.
    Refused(Arc<str>),
}

#[derive(Debug)]
struct Entry {
    holders: HashMap<Owner, usize>,
    parties: HashMap<Party, usize>,
    standing: watch::Sender<Standing>,
}

/// One who wants to hear of a resource.
#[derive(Debug)]
pub(crate) struct Hold {
    subscriptions: Arc<Subscriptions>,
    by: Subscriber,
    uri: Arc<str>,
    standing: watch::Receiver<Standing>,
    version: Version,
}

impl Subscription {
    /// A subscription that the server accepted, which is of use until it is `gone`.
    pub(super) fn new(
        hold: Hold,
        notices: broadcast::Receiver<Notice>,
        gone: CancellationToken,
        at_work: Option<AtWork>,
    ) -> Self {
        Self {
            hold,
            notices,
            told: Told::default(),
            gone,
            _at_work: at_work,
        }
    }

    /// The resource.
    pub fn uri(&self) -> &str {
        &self.hold.uri
    }

    /// The next change of the resource or of a part of it, as the server told it. Of a burst that is not taken in time,
    /// and of what may have happened while the server was not connected, one change of the resource itself is told.
    /// `None` once the server is let go of.
    pub async fn updated(&mut self) -> Option<Notice> {
        loop {
            // What it keeps holds the sender of the notices too: they do not end by themselves.
            let heard = tokio::select! {
                biased;
                heard = self.notices.recv() => heard,
                () = self.gone.cancelled() => return None,
            };
            match heard {
                Ok(notice) => {
                    let is_meant = notice.concerns(&self.hold.uri) && notice.is_for(&self.hold.by.owner);
                    if is_meant && self.told.is_new(&notice, Instant::now()) {
                        return Some(notice);
                    }
                }
                Err(broadcast::error::RecvError::Lagged(_)) => return Some(self.unheard()),
                Err(broadcast::error::RecvError::Closed) => return None,
            }
        }
    }

    /// A change of the resource, to be told where there may have been some that nobody heard of.
    pub fn unheard(&self) -> Notice {
        Notice::of(&self.hold.uri)
    }
}

impl From<Owner> for Subscriber {
    /// One without a name.
    fn from(owner: Owner) -> Self {
        Self {
            owner,
            party: Party::default(),
        }
    }
}

impl SubscribeError {
    /// One CamelCase word for metrics and logs.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::NotHeeded => "NotHeeded",
            Self::NotConnected => "NotConnected",
            Self::NotOffered => "NotOffered",
            Self::TooLong => "UriTooLong",
            Self::TooMany => "TooManySubscriptions",
            Self::Share { .. } => "ShareTaken",
            Self::Refused(_) => "Refused",
            Self::Timeout => "Timeout",
        }
    }
}

impl Subscriptions {
    /// Holds on to `uri`, for whom `by` says.
    pub(crate) fn hold(self: &Arc<Self>, by: &Subscriber, uri: &str) -> Result<Hold, SubscribeError> {
        if uri.len() > defaults::SUBSCRIPTION_URI_MAX {
            return Err(SubscribeError::TooLong);
        }
        let mut table = self.lock();
        let Table { entries, shares } = &mut *table;
        if !entries.contains_key(uri) && entries.len() >= defaults::SUBSCRIPTIONS_MAX {
            return Err(SubscribeError::TooMany);
        }
        if !entries
            .get(uri)
            .is_some_and(|entry| entry.parties.contains_key(&by.party))
        {
            let is_named = by.party.is_named();
            let share = share_of(is_named, defaults::SUBSCRIPTIONS_MAX);
            // How many there are at all is counted by resource.
            match shares.take(&by.party, usize::MAX, share) {
                Ok(()) => {}
                Err(Taken::Share | Taken::All) => return Err(SubscribeError::Share { is_named }),
            }
        }
        let uri = match entries.get_key_value(uri) {
            Some((uri, _)) => Arc::clone(uri),
            None => uri.into(),
        };
        let entry = entries.entry(Arc::clone(&uri)).or_insert_with(Entry::new);
        let standing = entry.standing.subscribe();
        *entry.holders.entry(by.owner.clone()).or_default() += 1;
        *entry.parties.entry(by.party.clone()).or_default() += 1;
        // What was refused to one is asked for again for the next.
        entry.standing.send_if_modified(Standing::ask_again);
        drop(table);
        Ok(Hold {
            version: self.change(),
            subscriptions: Arc::clone(self),
            by: by.clone(),
            uri,
            standing,
        })
    }

    /// Begins anew with another connection: what one refused, the next may accept.
    pub(crate) fn begin(&self) {
        for entry in self.lock().entries.values() {
            entry.standing.send_if_modified(Standing::ask_again);
        }
    }

    /// What is to be subscribed to, with whether it was before. What was refused is left out.
    pub(crate) fn wanted(&self) -> BTreeMap<Arc<str>, bool> {
        let table = self.lock();
        let wanted = table.entries.iter().filter_map(|(uri, entry)| {
            let standing = entry.standing.borrow();
            let was_accepted = match *standing {
                Standing::Waiting => false,
                Standing::Accepted => true,
                Standing::Refused(_) => return None,
            };
            Some((Arc::clone(uri), was_accepted))
        });
        wanted.collect()
    }

    /// What is to be subscribed to on a connection like `origin`.
    pub(crate) fn wanted_on(&self, origin: &Origin) -> BTreeMap<Arc<str>, bool> {
        let mut wanted = self.wanted();
        if let Origin::Lane(owner) = origin {
            let table = self.lock();
            let is_theirs = |uri: &str| {
                *owner != Owner::Nobody
                    && table
                        .entries
                        .get(uri)
                        .is_some_and(|entry| entry.holders.contains_key(owner))
            };
            wanted.retain(|uri, _| is_theirs(uri));
        }
        wanted
    }

    /// Tells those who hold on to `uri` how the server took it.
    pub(crate) fn settle(&self, uri: &str, standing: Standing) {
        if let Some(entry) = self.lock().entries.get(uri) {
            entry.standing.send_replace(standing);
        }
    }

    /// Tells those who hold on to a resource that was never given up, since it was let go of and held on to again before
    /// that was looked at. Which these are, `is_accepted` says.
    pub(crate) fn settle_again(&self, is_accepted: impl Fn(&Arc<str>) -> bool) {
        for (uri, entry) in self.lock().entries.iter().filter(|(uri, _)| is_accepted(uri)) {
            let settled = entry.standing.send_if_modified(|standing| {
                let is_waiting = *standing == Standing::Waiting;
                if is_waiting {
                    *standing = Standing::Accepted;
                }
                is_waiting
            });
            if settled {
                tracing::debug!(%uri, "subscribed to again before it was given up");
            }
        }
    }

    /// Tells whenever something is to be subscribed to, or no longer.
    pub(crate) fn changes(&self) -> watch::Receiver<Version> {
        self.changes.subscribe()
    }

    fn change(&self) -> Version {
        let mut version = 0;
        self.changes.send_modify(|count| {
            *count += 1;
            version = *count;
        });
        version
    }

    fn release(&self, by: &Subscriber, uri: &str) {
        let mut table = self.lock();
        let Table { entries, shares } = &mut *table;
        let Some(entry) = entries.get_mut(uri) else { return };
        if is_last(&mut entry.parties, &by.party) {
            shares.give(&by.party);
        }
        if !is_last(&mut entry.holders, &by.owner) {
            return;
        }
        if entry.holders.is_empty() {
            entries.remove(uri);
        }
        drop(table);
        self.change();
    }

    fn lock(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Entry {
    fn new() -> Self {
        Self {
            holders: HashMap::new(),
            parties: HashMap::new(),
            standing: watch::channel(Standing::Waiting).0,
        }
    }
}

/// Counts one of `of` less in `counts`. True if there is none left.
fn is_last<K: Eq + Hash>(counts: &mut HashMap<K, usize>, of: &K) -> bool {
    match counts.get_mut(of) {
        Some(count) if *count > 1 => {
            *count -= 1;
            false
        }
        _ => {
            counts.remove(of);
            true
        }
    }
}

impl Standing {
    fn ask_again(&mut self) -> bool {
        let was_refused = matches!(self, Self::Refused(_));
        if was_refused {
            *self = Self::Waiting;
        }
        was_refused
    }
}

impl Told {
    /// Whether `notice` is no echo of what was told already. Notes it, if so.
    fn is_new(&mut self, notice: &Notice, now: Instant) -> bool {
        self.0
            .retain(|(_, _, at)| now.duration_since(*at) < defaults::NOTICE_ECHO);
        let is_echo = |told: &(Arc<str>, Origin, Instant)| told.0 == notice.uri && told.1 != notice.origin;
        if self.0.iter().any(is_echo) {
            return false;
        }
        self.0.push_back((Arc::clone(&notice.uri), notice.origin.clone(), now));
        self.0.truncate(defaults::NOTICES_KEPT);
        true
    }
}

impl Hold {
    /// From when on it is wanted.
    pub(crate) fn version(&self) -> Version {
        self.version
    }

    /// Waits for what the server says.
    pub(crate) async fn accepted(&mut self) -> Result<(), SubscribeError> {
        let settled = self.standing.wait_for(|standing| *standing != Standing::Waiting).await;
        match settled.as_deref() {
            Ok(Standing::Refused(why)) => Err(SubscribeError::Refused(Arc::clone(why))),
            Ok(_) => Ok(()),
            Err(_) => Err(SubscribeError::NotConnected),
        }
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        self.subscriptions.release(&self.by, &self.uri);
    }
}

#[cfg(test)]
mod tests;
