//! What every replica keeps in memory of the cluster: our own objects whole, the names and versions of Secrets and
//! ConfigMaps, the labels of namespaces.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Secret};
use kube::core::{DeserializeGuard, PartialObjectMeta};
use kube::runtime::reflector::{ObjectRef, Store, store};
use kube::runtime::watcher;
use kube::{Api, Client, Resource};
use serde::de::DeserializeOwned;
use tokio::sync::{Notify, broadcast};
use tokio::task::JoinSet;
use tokio::time::timeout;
use tracing::warn;

use super::convert::Objects;
use crate::api::{MCPFederation, MCPServer};
use crate::fleet::{Reference, ReferenceKind};
use crate::operator::watch::{
    Touched, Watched, itself, keep, trim_managed_fields, trim_to_version, warn_if_malformed, well_formed,
};
use crate::operator::{Install, Scope};

/// News that a slow reader may have before it; beyond that it hears that anything may have changed.
const NEWS: usize = 1024;
/// Secrets and ConfigMaps that cannot be watched hold up the start for this long.
const VERSIONS_PATIENCE: Duration = Duration::from_secs(10);

/// Everything that is watched.
pub(super) struct Watches {
    pub(super) scopes: Vec<Scope>,
    pub(super) versions: Versions,
    namespaces: Option<Store<PartialObjectMeta<Namespace>>>,
}

/// Names and versions of all Secrets and ConfigMaps, by scope.
#[derive(Default)]
pub(super) struct Versions {
    secrets: Vec<(Option<String>, Store<PartialObjectMeta<Secret>>)>,
    config_maps: Vec<(Option<String>, Store<PartialObjectMeta<ConfigMap>>)>,
}

impl Watches {
    /// Starts to watch `namespaces`, or all of them where none is named, on `tasks`. `news` is notified of every change.
    pub(super) fn start(client: &Client, namespaces: &[String], news: &Arc<Notify>, tasks: &mut JoinSet<()>) -> Self {
        let mut starter = Starter { client, news, tasks };
        let scopes: Vec<Option<&String>> = match namespaces {
            [] => vec![None],
            some => some.iter().map(Some).collect(),
        };
        let mut watches = Self {
            scopes: Vec::new(),
            versions: Versions::default(),
            namespaces: namespaces.is_empty().then(|| starter.namespaces()),
        };
        for namespace in scopes {
            watches.scopes.push(Scope {
                namespace: namespace.cloned(),
                servers: starter.ours::<MCPServer>(namespace),
                federations: starter.ours::<MCPFederation>(namespace),
            });
            // A release's Secrets are many and large, and nobody refers to them.
            let secrets = watcher::Config::default().fields("type!=helm.sh/release.v1");
            let secrets = starter.versions::<Secret>(namespace, secrets);
            let config_maps = starter.versions::<ConfigMap>(namespace, watcher::Config::default());
            watches.versions.secrets.push((namespace.cloned(), secrets));
            watches.versions.config_maps.push((namespace.cloned(), config_maps));
        }
        watches
    }

    /// Waits until everything was seen once.
    pub(super) async fn seen(&self) {
        for scope in &self.scopes {
            // An error means that the watch ended, and with it the process.
            let (_servers, _federations) = futures::join!(
                scope.servers.store.wait_until_ready(),
                scope.federations.store.wait_until_ready()
            );
        }
        if let Some(namespaces) = &self.namespaces {
            let _ended = namespaces.wait_until_ready().await;
        }
        if timeout(VERSIONS_PATIENCE, self.versions.seen()).await.is_err() {
            warn!("Secrets or ConfigMaps cannot be watched: servers that refer to them wait, the others go on");
        }
    }

    /// The objects of `install` as they are now.
    pub(super) fn objects(&self, install: &Install) -> Objects {
        let servers = self.scopes.iter().flat_map(|scope| scope.servers.store.state());
        let servers = servers.filter_map(|guard| well_formed(&guard).cloned());
        let federations = self.scopes.iter().flat_map(|scope| scope.federations.store.state());
        let federations = federations.filter_map(|guard| well_formed(&guard).cloned());
        Objects {
            servers: servers
                .filter(|server| install.owns(server.spec.class.as_deref()))
                .collect(),
            federations: federations.filter(|f| install.owns(f.spec.class.as_deref())).collect(),
            namespaces: self.namespaces.as_ref().map(labels_by_name),
        }
    }
}

impl Versions {
    /// The version of the object; `Some(None)` where it does not exist, `None` where that is not known.
    pub(super) fn of(&self, reference: &Reference) -> Option<Option<String>> {
        match reference.kind {
            ReferenceKind::Secret => version(&self.secrets, reference),
            ReferenceKind::ConfigMap => version(&self.config_maps, reference),
            ReferenceKind::Directory => Some(None),
        }
    }

    async fn seen(&self) {
        for (_, secrets) in &self.secrets {
            let _ended = secrets.wait_until_ready().await;
        }
        for (_, config_maps) in &self.config_maps {
            let _ended = config_maps.wait_until_ready().await;
        }
    }
}

fn version<K>(stores: &[(Option<String>, Store<PartialObjectMeta<K>>)], reference: &Reference) -> Option<Option<String>>
where
    K: Resource<DynamicType = ()> + Clone + 'static,
{
    let covers = |scope: &Option<String>| scope.as_ref().is_none_or(|namespace| *namespace == reference.namespace);
    let (_, store) = stores.iter().find(|(scope, _)| covers(scope))?;
    // A store that was filled once answers at once.
    futures::FutureExt::now_or_never(store.wait_until_ready())?.ok()?;
    let found = store.get(&ObjectRef::new(&reference.name).within(&reference.namespace));
    Some(found.and_then(|object| object.metadata.resource_version.clone()))
}

fn labels_by_name(namespaces: &Store<PartialObjectMeta<Namespace>>) -> BTreeMap<String, BTreeMap<String, String>> {
    let all = namespaces.state().into_iter();
    all.filter_map(|namespace| {
        let metadata = &namespace.metadata;
        Some((metadata.name.clone()?, metadata.labels.clone().unwrap_or_default()))
    })
    .collect()
}

struct Starter<'a> {
    client: &'a Client,
    news: &'a Arc<Notify>,
    tasks: &'a mut JoinSet<()>,
}

impl Starter<'_> {
    fn ours<K>(&mut self, namespace: Option<&String>) -> Watched<K>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
        K: Clone + Debug + DeserializeOwned + Send + Sync + 'static,
    {
        let (reader, writer) = store();
        let (touched, _) = broadcast::channel(NEWS);
        let watched = Watched {
            store: reader,
            touched: touched.clone(),
        };
        let trim = |object: &mut DeserializeGuard<K>| {
            warn_if_malformed(object);
            trim_managed_fields(object);
        };
        let changed = keep(
            api(self.client, namespace),
            watcher::Config::default(),
            writer,
            trim,
            itself,
        );
        self.spawn(changed, move |news| {
            // Without a reader nobody needs to know.
            let _readers = touched.send(news);
        });
        watched
    }

    fn versions<K>(&mut self, namespace: Option<&String>, config: watcher::Config) -> Store<PartialObjectMeta<K>>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
        K: Clone + Debug + DeserializeOwned + Send + Sync + 'static,
    {
        let (reader, writer) = store();
        let changed = keep(
            api(self.client, namespace),
            config,
            writer,
            trim_to_version::<K>,
            itself,
        );
        self.spawn(changed, |_| {});
        reader
    }

    fn namespaces(&mut self) -> Store<PartialObjectMeta<Namespace>> {
        let (reader, writer) = store();
        let trim = |object: &mut PartialObjectMeta<Namespace>| {
            let labels = object.metadata.labels.take();
            trim_to_version(object);
            object.metadata.labels = labels;
        };
        let changed = keep(
            Api::all(self.client.clone()),
            watcher::Config::default(),
            writer,
            trim,
            itself,
        );
        self.spawn(changed, |_| {});
        reader
    }

    fn spawn(
        &mut self,
        changed: impl futures::Stream<Item = Touched> + Send + 'static,
        tell: impl Fn(Touched) + Send + 'static,
    ) {
        let news = self.news.clone();
        self.tasks.spawn(async move {
            futures::pin_mut!(changed);
            while let Some(touched) = changed.next().await {
                tell(touched);
                news.notify_one();
            }
        });
    }
}

fn api<K>(client: &Client, namespace: Option<&String>) -> Api<K>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
{
    match namespace {
        Some(namespace) => Api::namespaced(client.clone(), namespace),
        None => Api::all(client.clone()),
    }
}
