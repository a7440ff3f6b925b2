//! Resources of a server that clients want to hear of: who holds on to which, and how the server took it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{Notify, broadcast, watch};

use super::known::Known;
use super::news::Notice;
use crate::defaults;

/// Which resources are to be subscribed to; one entry a resource, however many hold on to it. The connection's listener
/// carries out what stands here, again with every new connection.
#[derive(Debug, Default)]
pub(crate) struct Subscriptions {
    table: Mutex<BTreeMap<Arc<str>, Entry>>,
    changed: Notify,
}

/// A subscription to one resource, until it is dropped.
#[derive(Debug)]
pub struct Subscription {
    hold: Hold,
    notices: broadcast::Receiver<Notice>,
}

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
    /// There are too many subscriptions to the server, or the URI is too long.
    #[error(
        "no more than {} resources of a server are subscribed to, with URIs of at most {} bytes",
        defaults::SUBSCRIPTIONS_MAX,
        defaults::SUBSCRIPTION_URI_MAX
    )]
    TooMany,
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
    holders: usize,
    standing: watch::Sender<Standing>,
}

/// One who wants to hear of a resource.
#[derive(Debug)]
pub(crate) struct Hold {
    known: Arc<Known>,
    uri: Arc<str>,
    standing: watch::Receiver<Standing>,
}

impl Subscription {
    /// A subscription that the server accepted.
    pub(crate) fn new(hold: Hold, notices: broadcast::Receiver<Notice>) -> Self {
        Self { hold, notices }
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
            match self.notices.recv().await {
                Ok(notice) if notice.concerns(&self.hold.uri) => return Some(notice),
                Ok(_) => {}
                Err(broadcast::error::RecvError::Lagged(_)) => return Some(Notice::of(&self.hold.uri)),
                Err(broadcast::error::RecvError::Closed) => return None,
            }
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
            Self::TooMany => "TooManySubscriptions",
            Self::Refused(_) => "Refused",
            Self::Timeout => "Timeout",
        }
    }
}

impl Subscriptions {
    /// Holds on to `uri` in the table of `known`.
    pub(crate) fn hold(known: &Arc<Known>, uri: &str) -> Result<Hold, SubscribeError> {
        let table = &known.subscriptions;
        let mut entries = table.lock();
        let (uri, standing) = match entries.get_key_value(uri) {
            Some((uri, entry)) => (Arc::clone(uri), entry.standing.subscribe()),
            None if uri.len() > defaults::SUBSCRIPTION_URI_MAX || entries.len() >= defaults::SUBSCRIPTIONS_MAX => {
                return Err(SubscribeError::TooMany);
            }
            None => {
                let (sender, standing) = watch::channel(Standing::Waiting);
                let uri: Arc<str> = uri.into();
                let entry = Entry {
                    holders: 0,
                    standing: sender,
                };
                entries.insert(Arc::clone(&uri), entry);
                (uri, standing)
            }
        };
        if let Some(entry) = entries.get_mut(&uri) {
            entry.holders += 1;
            // What was refused to one is asked for again for the next.
            entry.standing.send_if_modified(Standing::ask_again);
        }
        drop(entries);
        table.changed.notify_one();
        Ok(Hold {
            known: Arc::clone(known),
            uri,
            standing,
        })
    }

    /// Begins anew with another connection: what one refused, the next may accept.
    pub(crate) fn begin(&self) {
        for entry in self.lock().values() {
            entry.standing.send_if_modified(Standing::ask_again);
        }
    }

    /// What is to be subscribed to, with whether it was before. What was refused is left out.
    pub(crate) fn wanted(&self) -> BTreeMap<Arc<str>, bool> {
        let entries = self.lock();
        let wanted = entries.iter().filter_map(|(uri, entry)| {
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

    /// Tells those who hold on to `uri` how the server took it.
    pub(crate) fn settle(&self, uri: &str, standing: Standing) {
        if let Some(entry) = self.lock().get(uri) {
            entry.standing.send_replace(standing);
        }
    }

    /// Tells those who hold on to a resource that was never given up, since it was let go of and held on to again before
    /// that was looked at. Which these are, `is_accepted` says.
    pub(crate) fn settle_again(&self, is_accepted: impl Fn(&Arc<str>) -> bool) {
        for (uri, entry) in self.lock().iter().filter(|(uri, _)| is_accepted(uri)) {
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

    /// Resolves when something is to be subscribed to, or no longer, since this resolved last. For one reader.
    pub(crate) async fn changed(&self) {
        self.changed.notified().await;
    }

    fn release(&self, uri: &str) {
        let mut entries = self.lock();
        if let Some(entry) = entries.get_mut(uri) {
            entry.holders -= 1;
            if entry.holders == 0 {
                entries.remove(uri);
                drop(entries);
                self.changed.notify_one();
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<Arc<str>, Entry>> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
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

impl Hold {
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
        self.known.subscriptions.release(&self.uri);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wanted(known: &Known) -> Vec<(String, bool)> {
        let wanted = known.subscriptions.wanted().into_iter();
        wanted.map(|(uri, restored)| (uri.to_string(), restored)).collect()
    }

    #[tokio::test]
    async fn a_resource_is_wanted_while_somebody_holds_on_to_it() {
        let known = Arc::new(Known::default());
        let mut first = Subscriptions::hold(&known, "a").unwrap();
        let second = Subscriptions::hold(&known, "a").unwrap();
        assert_eq!(wanted(&known), [("a".into(), false)]);
        known.subscriptions.settle("a", Standing::Accepted);
        first.accepted().await.unwrap();
        drop(first);
        assert_eq!(wanted(&known), [("a".into(), true)]);
        drop(second);
        assert_eq!(wanted(&known), []);
    }

    #[tokio::test]
    async fn what_was_refused_is_asked_for_again_for_the_next_holder_and_the_next_connection() {
        let known = Arc::new(Known::default());
        let mut first = Subscriptions::hold(&known, "a").unwrap();
        known.subscriptions.settle("a", Standing::Refused("no".into()));
        assert_eq!(first.accepted().await, Err(SubscribeError::Refused("no".into())));
        assert_eq!(wanted(&known), []);
        let _second = Subscriptions::hold(&known, "a").unwrap();
        assert_eq!(wanted(&known), [("a".into(), false)]);
        known.subscriptions.settle("a", Standing::Refused("no".into()));
        known.subscriptions.begin();
        assert_eq!(wanted(&known), [("a".into(), false)]);
    }

    #[tokio::test]
    async fn there_are_only_so_many_and_they_are_short() {
        let known = Arc::new(Known::default());
        let long = "x".repeat(defaults::SUBSCRIPTION_URI_MAX + 1);
        assert_eq!(Subscriptions::hold(&known, &long).unwrap_err(), SubscribeError::TooMany);
        let holds: Vec<_> = (0..defaults::SUBSCRIPTIONS_MAX)
            .map(|n| Subscriptions::hold(&known, &n.to_string()).unwrap())
            .collect();
        assert_eq!(
            Subscriptions::hold(&known, "more").unwrap_err(),
            SubscribeError::TooMany
        );
        assert!(Subscriptions::hold(&known, "7").is_ok());
        drop(holds);
        assert!(Subscriptions::hold(&known, "more").is_ok());
    }

    #[tokio::test]
    async fn a_burst_that_is_not_taken_in_time_is_one_change_of_the_resource() {
        let known = Arc::new(Known::default());
        let hold = Subscriptions::hold(&known, "a").unwrap();
        let mut subscription = Subscription::new(hold, known.news.notices());
        known.news.resource_changed(Notice::of(&"b".into()));
        known.news.resource_changed(Notice::of(&"a/1".into()));
        assert_eq!(&*subscription.updated().await.unwrap().uri, "a/1");
        for n in 0..=defaults::NOTICES_KEPT {
            known.news.resource_changed(Notice::of(&format!("a/{n}").into()));
        }
        assert_eq!(&*subscription.updated().await.unwrap().uri, "a");
    }
}
