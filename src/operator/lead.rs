//! One term of leadership: which news leads to which reconcile.

use std::collections::HashMap;
use std::convert::Infallible;
use std::fmt::Debug;
use std::hash::Hash;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::stream::{self, BoxStream, select_all};
use futures::{FutureExt, Stream, StreamExt, future};
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{Pod, Service};
use kube::core::DeserializeGuard;
use kube::runtime::controller::{self, Action, ReconcileRequest, applier};
use kube::runtime::reflector::{ObjectRef, Store, store};
use kube::runtime::watcher;
use kube::{Api, Client, Resource, ResourceExt};
use serde::de::DeserializeOwned;
use tokio::time::Instant;
use tracing::{debug, info, warn};

use super::context::{Children, Context, Install, Plans, Scope, State, Term};
use super::error::Error;
use super::events::Events;
use super::mandate::Mandate;
use super::names::{MANAGED_SELECTOR, SERVER_LABEL};
use super::root_key::{ROOT_KEY, read_or_create};
use super::server::apply::Applier;
use super::server::digest::DigestKey;
use super::watch::{Touched, changes, heard, keep, key_of, trim_managed_fields, well_formed};
use super::{federation, server};
use crate::api::{MCPFederation, MCPServer};
use crate::fleet::{ObjectKey, Observations, References};
use crate::metrics::Metrics;

/// Most reconciles of one kind that run at a time in one scope.
const CONCURRENCY: u16 = 8;
/// News of one object within this time lead to one reconcile.
const DEBOUNCE: Duration = Duration::from_millis(20);
/// A reconcile that takes longer is given up and tried again: the API server may accept and never answer.
const RECONCILE_TIMEOUT: Duration = Duration::from_secs(60);
/// A failed reconcile is tried again after this long, doubling up to [`RETRY_MAX`].
const RETRY_MIN: Duration = Duration::from_millis(500);
const RETRY_MAX: Duration = Duration::from_secs(60);

/// Reconciles everything in `scopes` until it is dropped. It writes only while `mandate` holds, and spawns nothing, so
/// that no work goes on after it was dropped.
pub async fn lead(
    client: Client,
    install: Install,
    scopes: Vec<Scope>,
    state: State,
    metrics: Arc<Metrics>,
    mandate: Mandate,
) {
    let key = digest_key(&client, &install, &mandate).await;
    info!("this replica leads: it writes workloads and status");
    let term = Arc::new(Term {
        applier: Applier::new(client.clone(), mandate.clone()),
        events: Events::new(client.clone(), install.instance.clone()),
        plans: Plans::default(),
        client,
        install,
        mandate,
        key,
        state,
        metrics,
    });
    future::join_all(scopes.into_iter().map(|scope| run_scope(term.clone(), scope))).await;
}

/// The digest's key; there is no going on without it.
async fn digest_key(client: &Client, install: &Install, mandate: &Mandate) -> DigestKey {
    let name = install.named(ROOT_KEY);
    let mut pause = RETRY_MIN;
    loop {
        let read = tokio::time::timeout(
            RECONCILE_TIMEOUT,
            read_or_create(client.clone(), &install.namespace, &name, mandate),
        );
        match read.await {
            Ok(Ok(root)) => match DigestKey::derive(&root.key) {
                Ok(key) => return key,
                Err(error) => warn!(%error, "no key can be derived from the root key; trying again"),
            },
            Ok(Err(error)) => warn!(%error, secret = name, namespace = install.namespace, "no root key; trying again"),
            Err(_) => warn!(secret = name, "the API server does not answer; trying again"),
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(RETRY_MAX);
    }
}

async fn run_scope(term: Arc<Term>, scope: Scope) {
    let (deployments, deployment_news) = children::<Deployment>(&term.client, &scope, trim_managed_fields);
    let (services, service_news) = children::<Service>(&term.client, &scope, trim_managed_fields);
    let (pods, pod_news) = children::<Pod>(&term.client, &scope, |pod| {
        trim_managed_fields(pod);
        pod.spec = None;
    });
    let context = Arc::new(Context {
        children: Children {
            deployments,
            services,
            pods,
        },
        term: term.clone(),
    });
    let server_news = select_all([
        stream::once(future::ready(Touched::All)).boxed(),
        heard(scope.servers.touched.subscribe()).boxed(),
        deployment_news,
        service_news,
        pod_news,
        observed_servers(&term.state).boxed(),
        referring_servers(&term.state, scope.servers.store.clone()).boxed(),
    ]);
    let federation_news = select_all([
        stream::once(future::ready(Touched::All)).boxed(),
        heard(scope.federations.touched.subscribe()).boxed(),
        changes(term.state.input.clone()).map(|()| Touched::All).boxed(),
        changes(term.state.observations.clone()).map(|()| Touched::All).boxed(),
    ]);
    let servers = drive(
        scope.servers.store,
        server_news,
        context.clone(),
        |server: Arc<DeserializeGuard<MCPServer>>, context: Arc<Context>| {
            async move {
                match well_formed(&server) {
                    Some(server) => timed("MCPServer", &context, server::reconcile::reconcile(server, &context)).await,
                    None => Ok(Action::await_change()),
                }
            }
            .boxed()
        },
    );
    let federations = drive(
        scope.federations.store,
        federation_news,
        context,
        |federation: Arc<DeserializeGuard<MCPFederation>>, context: Arc<Context>| {
            async move {
                match well_formed(&federation) {
                    Some(federation) => {
                        timed(
                            "MCPFederation",
                            &context,
                            federation::reconcile::reconcile(federation, &context),
                        )
                        .await
                    }
                    None => Ok(Action::await_change()),
                }
            }
            .boxed()
        },
    );
    future::join(servers, federations).await;
}

/// Runs `reconcile` for whatever `news` touch, one object at a time each, again after a pause where it failed.
async fn drive<K>(
    store: Store<DeserializeGuard<K>>,
    news: impl Stream<Item = Touched> + Send,
    context: Arc<Context>,
    reconcile: impl FnMut(Arc<DeserializeGuard<K>>, Arc<Context>) -> future::BoxFuture<'static, Result<Action, Error>>,
) where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + Debug + Send + Sync + 'static,
{
    let all = store.clone();
    let queue = news.flat_map(move |touched| {
        let objects = match touched {
            Touched::One(key) => vec![ObjectRef::new(&key.name).within(&key.namespace)],
            Touched::All => all
                .state()
                .iter()
                .map(|object| ObjectRef::from_obj(&**object))
                .collect(),
        };
        stream::iter(
            objects
                .into_iter()
                .map(|object| Ok::<_, Infallible>(ReconcileRequest::from(object))),
        )
    });
    let retries = Retries::default();
    let failed = retries.clone();
    let config = controller::Config::default()
        .concurrency(CONCURRENCY)
        .debounce(DEBOUNCE);
    let on_error = move |object: Arc<DeserializeGuard<K>>, error: &Error, _: Arc<Context>| {
        let key = key_of(object.meta());
        let pause = failed.next(&key);
        match error {
            Error::Changed(_) | Error::NotLeading => {
                debug!(kind = %K::kind(&()), object = %key, %error, "trying again")
            }
            _ => warn!(kind = %K::kind(&()), object = %key, %error, ?pause, "a reconcile failed; trying again"),
        }
        Action::requeue(pause)
    };
    let term = context.term.clone();
    let results = applier(reconcile, on_error, context, store, queue, config);
    futures::pin_mut!(results);
    while let Some(result) = results.next().await {
        match result {
            Ok((object, _)) => retries.clear(&reference_key(&object)),
            Err(controller::Error::ObjectNotFound(object)) => {
                let key = ObjectKey::new(object.namespace.unwrap_or_default(), object.name);
                retries.clear(&key);
                term.applier.forget(&key);
            }
            // Failures went through `on_error`.
            Err(_) => {}
        }
    }
}

/// Bounds `reconcile` in time and counts how it went.
async fn timed(
    kind: &'static str,
    context: &Context,
    reconcile: impl Future<Output = Result<Action, Error>>,
) -> Result<Action, Error> {
    let started = Instant::now();
    let result = tokio::time::timeout(RECONCILE_TIMEOUT, reconcile)
        .await
        .unwrap_or(Err(Error::Timeout(RECONCILE_TIMEOUT)));
    let word = result.as_ref().map_or_else(Error::reason, |_| "ok");
    context
        .term
        .metrics
        .reconciled(kind, word, started.elapsed().as_secs_f64());
    result
}

/// What servers in `scope` own of one kind, and the news of it by server.
fn children<K>(
    client: &Client,
    scope: &Scope,
    trim: impl Fn(&mut K) + Send + 'static,
) -> (Store<K>, BoxStream<'static, Touched>)
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
        + Clone
        + Debug
        + DeserializeOwned
        + Send
        + Sync
        + 'static,
{
    let api = match &scope.namespace {
        Some(namespace) => Api::namespaced(client.clone(), namespace),
        None => Api::all(client.clone()),
    };
    let (reader, writer) = store();
    let config = watcher::Config::default().labels(MANAGED_SELECTOR);
    let of_server = |child: &K| {
        let server = child.labels().get(SERVER_LABEL)?;
        Some(ObjectKey::new(child.namespace().unwrap_or_default(), server))
    };
    (reader, keep(api, config, writer, trim, of_server).boxed())
}

/// Servers of which the gateway sees something new.
fn observed_servers(state: &State) -> impl Stream<Item = Touched> + Send + use<> {
    let observations = state.observations.clone();
    let first = observations.borrow().clone();
    changes(observations.clone())
        .scan(first, move |last, ()| {
            let next = observations.borrow().clone();
            let touched = differing(last, &next);
            *last = next;
            future::ready(Some(stream::iter(touched.into_iter().map(Touched::One))))
        })
        .flatten()
}

fn differing(old: &Observations, new: &Observations) -> Vec<ObjectKey> {
    let mut keys: Vec<&ObjectKey> = old.servers.keys().chain(new.servers.keys()).collect();
    keys.sort();
    keys.dedup();
    keys.into_iter()
        .filter(|key| old.servers.get(*key) != new.servers.get(*key))
        .cloned()
        .collect()
}

/// Servers that take values from a Secret or ConfigMap that changed.
fn referring_servers(
    state: &State,
    servers: Store<DeserializeGuard<MCPServer>>,
) -> impl Stream<Item = Touched> + Send + use<> {
    let references = state.references.clone();
    let first = references.borrow().clone();
    changes(references.clone())
        .scan(first, move |last: &mut Arc<References>, ()| {
            let next = references.borrow().clone();
            let changed = last.changed(&next);
            let servers = servers.state();
            let touched: Vec<Touched> = servers
                .iter()
                .filter_map(|guard| well_formed(guard))
                .filter(|server| {
                    server::references(server)
                        .iter()
                        .any(|reference| changed.contains(reference))
                })
                .map(|server| Touched::One(key_of(&server.metadata)))
                .collect();
            drop(changed);
            *last = next;
            future::ready(Some(stream::iter(touched)))
        })
        .flatten()
}

fn reference_key<K>(object: &ObjectRef<K>) -> ObjectKey
where
    K: Resource,
    K::DynamicType: Hash + Eq,
{
    ObjectKey::new(object.namespace.clone().unwrap_or_default(), &object.name)
}

/// How often each object failed in a row.
#[derive(Clone, Debug, Default)]
struct Retries(Arc<Mutex<HashMap<ObjectKey, u32>>>);

impl Retries {
    /// Counts one more failure and says how long to pause.
    fn next(&self, key: &ObjectKey) -> Duration {
        let mut failures = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let count = failures.entry(key.clone()).or_insert(0);
        let pause = RETRY_MIN.saturating_mul(2_u32.saturating_pow(*count)).min(RETRY_MAX);
        *count = count.saturating_add(1);
        pause
    }

    fn clear(&self, key: &ObjectKey) {
        let mut failures = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        failures.remove(key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_a_bound_and_start_over_after_success() {
        let (retries, key) = (Retries::default(), ObjectKey::new("team", "web"));
        let pauses: Vec<_> = (0..10).map(|_| retries.next(&key)).collect();
        assert_eq!(pauses[0], RETRY_MIN);
        assert_eq!(pauses[1], RETRY_MIN * 2);
        assert_eq!(pauses[9], RETRY_MAX);
        retries.clear(&key);
        assert_eq!(retries.next(&key), RETRY_MIN);
    }
}
