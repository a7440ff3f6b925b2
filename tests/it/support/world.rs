//! One namespace of the API server, with a replica at work in it, and what a person does there.

use std::collections::BTreeMap;
use std::fmt::Debug;

use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{Pod, Secret, Service};
use k8s_openapi::api::events::v1::Event;
use k8s_openapi::api::rbac::v1::{Role, RoleBinding};
use kube::api::{ListParams, Patch, PatchParams, PostParams};
use kube::{Api, Client, Resource, ResourceExt};
use mcpfleet::api::condition::{Condition, find};
use mcpfleet::api::{MCPFederation, MCPServer};
use mcpfleet::fleet::UpstreamState;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::controllers::with_controllers;
use super::replica::{Replica, options, until};

/// One namespace of the API server, with one replica at work in it.
pub(crate) struct World {
    pub(crate) namespace: String,
    pub(crate) client: Client,
    pub(crate) replica: Replica,
}

impl World {
    /// A replica that may do everything.
    pub(crate) async fn start(name: &str) -> Option<Self> {
        let server = with_controllers().await?;
        let namespace = server.namespace(name).await;
        let client = server.client().await;
        let replica = Replica::start(client.clone(), options(&namespace));
        Some(Self {
            namespace,
            client,
            replica,
        })
    }

    /// A replica that may do what `rules` allow in its namespace, and nothing else.
    pub(crate) async fn start_with_rights(name: &str, rules: Value) -> Option<Self> {
        let server = with_controllers().await?;
        let namespace = server.namespace(name).await;
        let client = server.client().await;
        let metadata = json!({"name": "mcpfleet"});
        let role = json!({"metadata": metadata, "rules": rules});
        let binding = json!({
            "metadata": metadata,
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "mcpfleet"},
            "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "replica"}],
        });
        let roles: Api<Role> = Api::namespaced(client.clone(), &namespace);
        let bindings: Api<RoleBinding> = Api::namespaced(client.clone(), &namespace);
        let parameters = PostParams::default();
        let role = serde_json::from_value(role).unwrap();
        roles.create(&parameters, &role).await.unwrap();
        let binding = serde_json::from_value(binding).unwrap();
        bindings.create(&parameters, &binding).await.unwrap();
        let mut config = server.config().await;
        config.auth_info.impersonate = Some("replica".into());
        let replica = Replica::start(Client::try_from(config).unwrap(), options(&namespace));
        Some(Self {
            namespace,
            client,
            replica,
        })
    }

    pub(crate) fn api<K>(&self) -> Api<K>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
    {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    /// Applies an object as a person would, by kubectl.
    pub(crate) async fn apply<K: Object>(&self, name: &str, mut body: Value) -> K {
        body["apiVersion"] = K::api_version(&()).into();
        body["kind"] = K::kind(&()).into();
        body["metadata"]["name"] = name.into();
        let parameters = PatchParams::apply("kubectl").force();
        self.api::<K>()
            .patch(name, &parameters, &Patch::Apply(&body))
            .await
            .unwrap()
    }

    pub(crate) async fn container(&self, name: &str) -> MCPServer {
        self.apply(name, json!({"spec": {"container": container()}})).await
    }

    pub(crate) async fn remote(&self, name: &str) -> MCPServer {
        let url = format!("http://{name}.example/mcp");
        self.apply(name, json!({"spec": {"remote": {"url": url}}})).await
    }

    pub(crate) async fn annotate(&self, name: &str, key: &str, value: Value) {
        let patch = json!({"metadata": {"annotations": {key: value}}});
        let patch = Patch::Merge(&patch);
        self.api::<MCPServer>()
            .patch(name, &PatchParams::default(), &patch)
            .await
            .unwrap();
    }

    /// Waits until the server has this condition with this status and reason.
    pub(crate) async fn server_with(&self, name: &str, type_: &str, words: &str) -> MCPServer {
        let what = format!("MCPServer {name} with {type_}={words}");
        let mut last = String::new();
        let found = until(&what, async || {
            let server = self.api::<MCPServer>().get(name).await.unwrap();
            let status = server.status.clone().unwrap_or_default();
            let said = say(&status.conditions, type_);
            if said != last {
                eprintln!("{name}: {type_}={said}");
                last.clone_from(&said);
            }
            (said == words && status.observed_generation == server.metadata.generation).then_some(server)
        });
        found.await
    }

    pub(crate) async fn federation_with(&self, name: &str, type_: &str, words: &str) -> MCPFederation {
        let what = format!("MCPFederation {name} with {type_}={words}");
        let found = until(&what, async || {
            let federation = self.api::<MCPFederation>().get(name).await.unwrap();
            let conditions = federation.status.clone().unwrap_or_default().conditions;
            (say(&conditions, type_) == words).then_some(federation)
        });
        found.await
    }

    pub(crate) async fn deployment(&self, name: &str, what: &str, holds: impl Fn(&Deployment) -> bool) -> Deployment {
        let found = until(what, async || {
            self.api::<Deployment>()
                .get_opt(name)
                .await
                .unwrap()
                .filter(|deployment| holds(deployment))
        });
        found.await
    }

    /// Waits until the server has this many pods, and says of each what its kubelet would.
    pub(crate) async fn play_pods(&self, server: &str, count: usize, status: Value) {
        let pods = self.api::<Pod>();
        let list = ListParams::default().labels(&format!("mcpfleet.dev/server={server}"));
        let found = until("pods", async || {
            let found = pods.list(&list).await.unwrap().items;
            let alive: Vec<_> = found
                .into_iter()
                .filter(|pod| pod.metadata.deletion_timestamp.is_none())
                .collect();
            (alive.len() == count).then_some(alive)
        });
        for pod in found.await {
            let patch = json!({ "status": status });
            let patch = Patch::Merge(&patch);
            pods.patch_status(&pod.name_any(), &PatchParams::default(), &patch)
                .await
                .unwrap();
        }
    }

    /// Brings a container server to Ready.
    pub(crate) async fn ready_container(&self, name: &str) -> MCPServer {
        self.container(name).await;
        self.play_pods(name, 1, running()).await;
        self.replica.tell(&self.namespace, name, UpstreamState::Ready);
        self.server_with(name, "Ready", "True Callable").await
    }
}

pub(crate) trait Object:
    Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + Debug + DeserializeOwned + Serialize
{
}

impl<K> Object for K where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + Debug + DeserializeOwned + Serialize
{
}

pub(crate) fn container() -> Value {
    json!({"image": "registry.test/echo:1", "transport": {"type": "StreamableHTTP"}})
}

/// What a kubelet says of a pod that runs.
pub(crate) fn running() -> Value {
    json!({"phase": "Running", "conditions": [
        {"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"},
        {"type": "ContainersReady", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"},
    ]})
}

pub(crate) fn say(conditions: &[Condition], type_: &str) -> String {
    find(conditions, type_).map_or_else(|| "-".to_owned(), |c| format!("{:?} {}", c.status, c.reason))
}

pub(crate) fn message(server: &MCPServer, type_: &str) -> String {
    let status = server.status.clone().unwrap_or_default();
    find(&status.conditions, type_)
        .map(|c| c.message.clone())
        .unwrap_or_default()
}

impl World {
    /// The resource version of everything that the control plane writes.
    pub(crate) async fn versions(&self) -> BTreeMap<String, String> {
        let mut versions = BTreeMap::new();
        self.add_versions::<MCPServer>(&mut versions).await;
        self.add_versions::<MCPFederation>(&mut versions).await;
        self.add_versions::<Deployment>(&mut versions).await;
        self.add_versions::<Service>(&mut versions).await;
        self.add_versions::<Secret>(&mut versions).await;
        self.add_versions::<Event>(&mut versions).await;
        versions
    }

    async fn add_versions<K: Object>(&self, versions: &mut BTreeMap<String, String>) {
        for object in self.api::<K>().list(&ListParams::default()).await.unwrap() {
            let key = format!("{}/{}", K::kind(&()), object.name_any());
            versions.insert(key, object.resource_version().unwrap());
        }
    }
}
