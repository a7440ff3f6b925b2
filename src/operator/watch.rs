//! Objects kept in memory by a watch, and the news of which ones changed.

use std::fmt::Debug;

use futures::{Stream, StreamExt, stream};
use kube::api::ObjectMeta;
use kube::core::{DeserializeGuard, PartialObjectMeta};
use kube::runtime::reflector::store::Writer;
use kube::runtime::reflector::{Lookup, Store};
use kube::runtime::{WatchStreamExt, reflector, watcher};
use kube::{Api, Resource};
use serde::de::DeserializeOwned;
use tokio::sync::{broadcast, watch};
use tracing::{debug, warn};

use crate::fleet::ObjectKey;

/// What changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Touched {
    /// This object.
    One(ObjectKey),
    /// Perhaps any: after a break in a watch nobody tells which objects went away.
    All,
}

/// Our own objects in one part of the cluster. Malformed ones are in the store too, as such.
#[derive(Clone, Debug)]
pub struct Watched<K>
where
    K: Resource<DynamicType = ()> + Clone + Debug + 'static,
{
    /// The objects as last seen.
    pub store: Store<DeserializeGuard<K>>,
    /// Tells which ones changed, after the store has them.
    pub touched: broadcast::Sender<Touched>,
}

/// Keeps `writer`'s store as the API server has it, and yields what changed and what `key` makes of it. Breaks are
/// logged and mended with back-off; it never ends.
pub fn keep<K>(
    api: Api<K>,
    config: watcher::Config,
    writer: Writer<K>,
    trim: impl Fn(&mut K) + Send + 'static,
    key: impl Fn(&K) -> Option<ObjectKey> + Send + 'static,
) -> impl Stream<Item = Touched> + Send
where
    K: Resource<DynamicType = ()> + Lookup<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + Sync + 'static,
{
    let events = watcher(api, config)
        .default_backoff()
        .modify(move |object| trim(object));
    news(reflector(writer, events), key)
}

/// Leaves name and version: labels and annotations of other people's objects may be large, and secret too.
pub fn trim_to_version<K>(object: &mut PartialObjectMeta<K>) {
    let full = std::mem::take(&mut object.metadata);
    object.metadata = ObjectMeta {
        name: full.name,
        namespace: full.namespace,
        resource_version: full.resource_version,
        ..ObjectMeta::default()
    };
}

/// The key of an object whose news are about itself.
pub fn itself<K: Resource>(object: &K) -> Option<ObjectKey> {
    Some(key_of(object.meta()))
}

/// Namespace and name.
pub fn key_of(metadata: &ObjectMeta) -> ObjectKey {
    ObjectKey::new(
        metadata.namespace.as_deref().unwrap_or_default(),
        metadata.name.as_deref().unwrap_or_default(),
    )
}

/// Yields once for every new value.
pub fn changes<T: Send + Sync + 'static>(receiver: watch::Receiver<T>) -> impl Stream<Item = ()> + Send {
    stream::unfold(receiver, |mut receiver| async move {
        receiver.changed().await.ok()?;
        Some(((), receiver))
    })
}

/// Yields what is told on `receiver`; who falls behind hears that anything may have changed.
pub fn heard(receiver: broadcast::Receiver<Touched>) -> impl Stream<Item = Touched> + Send {
    stream::unfold(receiver, |mut receiver| async move {
        match receiver.recv().await {
            Ok(touched) => Some((touched, receiver)),
            Err(broadcast::error::RecvError::Lagged(_)) => Some((Touched::All, receiver)),
            Err(broadcast::error::RecvError::Closed) => None,
        }
    })
}

fn news<K, S>(events: S, key: impl Fn(&K) -> Option<ObjectKey> + Send + 'static) -> impl Stream<Item = Touched> + Send
where
    K: Resource<DynamicType = ()> + Send + 'static,
    S: Stream<Item = Result<watcher::Event<K>, watcher::Error>> + Send,
{
    events.filter_map(move |event| {
        let touched = match event {
            Ok(watcher::Event::Apply(object) | watcher::Event::Delete(object)) => key(&object).map(Touched::One),
            Ok(watcher::Event::InitDone) => Some(Touched::All),
            Ok(watcher::Event::Init | watcher::Event::InitApply(_)) => None,
            Err(error) => {
                tell::<K>(&error);
                None
            }
        };
        async move { touched }
    })
}

/// Logs why a watch broke, with what to do where that is known.
fn tell<K: Resource<DynamicType = ()>>(error: &watcher::Error) {
    let kind = K::kind(&());
    let status = match error {
        watcher::Error::InitialListFailed(kube::Error::Api(status))
        | watcher::Error::WatchStartFailed(kube::Error::Api(status))
        | watcher::Error::WatchFailed(kube::Error::Api(status))
        | watcher::Error::WatchError(status) => Some(status.code),
        _ => None,
    };
    match status {
        Some(404) if K::group(&()) == crate::api::GROUP => {
            warn!(%kind, "the custom resources of mcpfleet.dev/v1alpha1 are not installed: install the chart, or apply crds/; trying again");
        }
        Some(403) => {
            warn!(%kind, %error, "not allowed to watch: the role of this service account lacks list or watch; trying again")
        }
        Some(410) => debug!(%kind, "the watch is too old and starts anew"),
        _ => warn!(%kind, %error, "a watch broke; trying again"),
    }
}

/// Logs a malformed object, which is skipped everywhere else.
pub fn warn_if_malformed<K: Resource<DynamicType = ()>>(object: &DeserializeGuard<K>) {
    if let Err(malformed) = &object.0 {
        let metadata = &malformed.metadata;
        warn!(
            kind = %K::kind(&()),
            object = %key_of(metadata),
            error = %malformed.error,
            "an object is malformed and is skipped: correct it"
        );
    }
}

/// The well-formed object in `guard`.
pub fn well_formed<K: Resource>(guard: &DeserializeGuard<K>) -> Option<&K> {
    guard.0.as_ref().ok()
}

/// Drops what no reader needs and what may be large.
pub fn trim_managed_fields<K: Resource>(object: &mut K) {
    object.meta_mut().managed_fields = None;
}
