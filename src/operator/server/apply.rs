//! Carries out what was planned for one server: the only place that writes workloads.

use std::collections::HashMap;
use std::fmt::{self, Debug};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, Mutex, PoisonError};

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Service;
use k8s_openapi::{NamespaceResourceScope, Resource as _};
use kube::api::{DeleteParams, Patch, PatchParams, Preconditions};
use kube::{Api, Client, Resource, ResourceExt};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::drift::contains;
use super::plan::Intent;
use super::workload::Workload;
use crate::api::MCPServer;
use crate::fleet::ObjectKey;
use crate::operator::error::Error;
use crate::operator::mandate::Mandate;
use crate::operator::names::{FIELD_MANAGER, RECONCILE_AT_ANNOTATION, REPLICAS_ANNOTATION, SCALE_MANAGER};

/// Why the workload of a server cannot be written as things are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// One CamelCase word.
    pub reason: &'static str,
    /// For a person: what is wrong and what to do.
    pub message: String,
    /// True: the spec is at fault, or its name. False: the cluster is.
    pub of_the_spec: bool,
    /// True: it may go well later without any event that we would see.
    pub retry: bool,
}

/// What a server owns.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Owned {
    /// Its pods.
    pub deployment: Option<Arc<Deployment>>,
    /// Their name.
    pub service: Option<Arc<Service>>,
}

/// What came of an intent.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Outcome {
    /// The Deployment that the server owns now.
    pub deployment: Option<Arc<Deployment>>,
    /// Whether the Deployment's spec is the planned one.
    pub in_step: bool,
    /// Why something was not written, if so.
    pub refusal: Option<Refusal>,
    /// What was written, for events.
    pub written: Vec<Written>,
}

/// One thing that was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Written {
    /// `Created`, `Updated`, `Scaled` or `Deleted`.
    pub verb: &'static str,
    /// What, as in `Deployment web`.
    pub what: String,
}

/// Writes workloads.
pub struct Applier {
    client: Client,
    mandate: Mandate,
    /// What was applied last, by server and kind: the same is not sent twice.
    applied: Mutex<HashMap<(ObjectKey, &'static str), u64>>,
}

impl Debug for Applier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Applier")
            .field("mandate", &self.mandate)
            .finish_non_exhaustive()
    }
}

impl Applier {
    /// An applier that writes while `mandate` holds.
    pub fn new(client: Client, mandate: Mandate) -> Self {
        Self {
            client,
            mandate,
            applied: Mutex::default(),
        }
    }

    /// Carries out `intent` for `server`, which owns `owned`.
    ///
    /// # Errors
    /// The API server failed, or an object changed meanwhile: try again. What it refuses for good is in the outcome.
    pub async fn apply(&self, server: &MCPServer, intent: &Intent, owned: Owned) -> Result<Outcome, Error> {
        match intent {
            Intent::Run { workload, scale } => self.run(server, workload, *scale, owned).await,
            Intent::Prune => self.prune(owned).await,
            Intent::Pause(workload) => Ok(Outcome {
                in_step: match (&owned.deployment, workload) {
                    (Some(live), Some(workload)) => is_in_step(live, &workload.deployment)?,
                    _ => false,
                },
                deployment: owned.deployment,
                ..Outcome::default()
            }),
            Intent::Wait => Ok(Outcome::default()),
        }
    }

    /// Forgets what was applied for a server that is gone.
    pub fn forget(&self, server: &ObjectKey) {
        let mut applied = self.applied.lock().unwrap_or_else(PoisonError::into_inner);
        applied.retain(|(of, _), _| of != server);
    }

    async fn run(
        &self,
        server: &MCPServer,
        workload: &Workload,
        scale: Option<i32>,
        owned: Owned,
    ) -> Result<Outcome, Error> {
        let mut outcome = Outcome::default();
        let before = owned.deployment.clone();
        let written = self.try_run(server, workload, scale, owned, &mut outcome.written).await;
        match written {
            Ok(deployment) => {
                outcome.deployment = Some(deployment);
                outcome.in_step = true;
            }
            Err(Failure::Refused(refusal)) => {
                outcome.in_step = match &before {
                    Some(live) => is_in_step(live, &workload.deployment)?,
                    None => false,
                };
                outcome.deployment = before;
                outcome.refusal = Some(refusal);
            }
            Err(Failure::Failed(error)) => return Err(error),
        }
        Ok(outcome)
    }

    async fn try_run(
        &self,
        server: &MCPServer,
        workload: &Workload,
        scale: Option<i32>,
        owned: Owned,
        written: &mut Vec<Written>,
    ) -> Result<Arc<Deployment>, Failure> {
        let Workload { service, deployment } = workload;
        // Both names are checked before either is taken.
        let live_service = self.own(server, service, owned.service).await?;
        let live_deployment = self.own(server, deployment, owned.deployment).await?;
        self.settle(server, serde_json::to_value(service)?, live_service, written)
            .await?;
        let rendered = serde_json::to_value(deployment)?;
        match (live_deployment, scale) {
            (None, replicas) => {
                let replicas = replicas.unwrap_or(server.spec.replicas);
                let mut first = rendered.clone();
                set(&mut first, &["spec", "replicas"], json!(replicas));
                let created = self.settle::<Deployment>(server, first, None, written).await?;
                let scaled = self.scale(&created, replicas).await?;
                // From here on the count has its own manager alone.
                self.settle(server, rendered, Some(scaled), &mut Vec::new()).await
            }
            (Some(live), scale) => {
                // The count first: leaving it out of the apply below must not take it away.
                let live = match scale {
                    Some(replicas) => {
                        let scaled = self.scale(&live, replicas).await?;
                        written.push(Written::new(
                            "Scaled",
                            format!("Deployment {} to {replicas}", live.name_any()),
                        ));
                        scaled
                    }
                    None => live,
                };
                self.settle(server, rendered, Some(live), written).await
            }
        }
    }

    /// The live object under the name of `desired`, if it is there and ours.
    async fn own<K: Child>(
        &self,
        server: &MCPServer,
        desired: &K,
        cached: Option<Arc<K>>,
    ) -> Result<Option<Arc<K>>, Failure> {
        if cached.is_some() {
            return Ok(cached);
        }
        let api: Api<K> = self.api(desired);
        match api.get_opt(&desired.name_any()).await? {
            None => Ok(None),
            Some(live) if is_controlled_by(&live, server) => Ok(Some(Arc::new(live))),
            Some(_) => Err(name_conflict::<K>(&desired.name_any())),
        }
    }

    /// Makes the object as rendered. Force is used only on an object that is known to be ours, named by its uid.
    async fn settle<K: Child>(
        &self,
        server: &MCPServer,
        mut rendered: Value,
        live: Option<Arc<K>>,
        written: &mut Vec<Written>,
    ) -> Result<Arc<K>, Failure> {
        let key = (
            ObjectKey::new(server.namespace().unwrap_or_default(), server.name_any()),
            K::KIND,
        );
        let hash = hash(server, &rendered);
        if let Some(live) = &live
            && self.remembers(&key, hash)
            && contains(&serde_json::to_value(&**live)?, &rendered)
        {
            return Ok(live.clone());
        }
        let parameters = PatchParams {
            force: live.is_some(),
            ..PatchParams::apply(FIELD_MANAGER)
        };
        if let Some(uid) = live.as_ref().and_then(|live| live.uid()) {
            set(&mut rendered, &["metadata", "uid"], json!(uid));
        }
        let name = rendered_name(&rendered);
        let api: Api<K> = Api::namespaced(self.client.clone(), &server.namespace().unwrap_or_default());
        self.check_mandate()?;
        let result: K = match api.patch(&name, &parameters, &Patch::Apply(&rendered)).await {
            Ok(result) => result,
            Err(kube::Error::Api(status)) if status.is_conflict() && live.is_none() => {
                return Err(name_conflict::<K>(&name));
            }
            Err(error) => return Err(failure(error, &name)),
        };
        self.remember(key, hash);
        let kind = K::KIND;
        match live {
            None => written.push(Written::new("Created", format!("{kind} {name}"))),
            Some(live) if live.resource_version() != result.resource_version() => {
                written.push(Written::new("Updated", format!("{kind} {name}")));
            }
            Some(_) => {}
        }
        Ok(Arc::new(result))
    }

    /// Writes the replica count, and which one it was, under its own field manager.
    async fn scale(&self, deployment: &Deployment, replicas: i32) -> Result<Arc<Deployment>, Failure> {
        let name = deployment.name_any();
        let patch = json!({
            "apiVersion": Deployment::API_VERSION, "kind": Deployment::KIND,
            "metadata": {
                "name": name, "uid": deployment.uid(),
                "annotations": {REPLICAS_ANNOTATION: replicas.to_string()},
            },
            "spec": {"replicas": replicas},
        });
        self.check_mandate()?;
        let parameters = PatchParams::apply(SCALE_MANAGER).force();
        let scaled = self
            .api(deployment)
            .patch(&name, &parameters, &Patch::Apply(&patch))
            .await;
        scaled.map(Arc::new).map_err(|error| failure(error, &name))
    }

    async fn prune(&self, owned: Owned) -> Result<Outcome, Error> {
        let Owned { deployment, service } = owned;
        let mut outcome = Outcome::default();
        if let Some(deployment) = deployment {
            self.delete(&*deployment, &mut outcome.written).await?;
        }
        if let Some(service) = service {
            self.delete(&*service, &mut outcome.written).await?;
        }
        Ok(outcome)
    }

    async fn delete<K: Child>(&self, object: &K, written: &mut Vec<Written>) -> Result<(), Error> {
        if object.meta().deletion_timestamp.is_some() {
            return Ok(());
        }
        let name = object.name_any();
        let parameters = DeleteParams {
            preconditions: Some(Preconditions {
                uid: object.uid(),
                resource_version: None,
            }),
            ..DeleteParams::background()
        };
        self.check_mandate()?;
        match self.api(object).delete(&name, &parameters).await {
            Ok(_) => {
                written.push(Written::new("Deleted", format!("{} {name}", K::KIND)));
                Ok(())
            }
            Err(kube::Error::Api(status)) if status.is_not_found() => Ok(()),
            Err(kube::Error::Api(status)) if status.is_conflict() => Err(Error::Changed(name)),
            Err(error) => Err(error.into()),
        }
    }

    fn api<K: Child>(&self, object: &K) -> Api<K> {
        Api::namespaced(self.client.clone(), &object.namespace().unwrap_or_default())
    }

    fn check_mandate(&self) -> Result<(), Error> {
        if self.mandate.holds() {
            Ok(())
        } else {
            Err(Error::NotLeading)
        }
    }

    fn remembers(&self, key: &(ObjectKey, &'static str), hash: u64) -> bool {
        let applied = self.applied.lock().unwrap_or_else(PoisonError::into_inner);
        applied.get(key) == Some(&hash)
    }

    fn remember(&self, key: (ObjectKey, &'static str), hash: u64) {
        let mut applied = self.applied.lock().unwrap_or_else(PoisonError::into_inner);
        applied.insert(key, hash);
    }
}

/// Whether the controller owner reference of `object` carries the uid of `server`.
pub fn is_controlled_by<K: Resource>(object: &K, server: &MCPServer) -> bool {
    let owners = object.meta().owner_references.iter().flatten();
    let uid = server.metadata.uid.as_ref();
    uid.is_some()
        && owners
            .into_iter()
            .any(|owner| owner.controller == Some(true) && Some(&owner.uid) == uid)
}

impl Written {
    fn new(verb: &'static str, what: String) -> Self {
        Self { verb, what }
    }
}

/// A namespaced kind that a server owns.
trait Child:
    k8s_openapi::Resource
    + Resource<DynamicType = (), Scope = NamespaceResourceScope>
    + Clone
    + Debug
    + Serialize
    + DeserializeOwned
{
}

impl Child for Deployment {}
impl Child for Service {}

/// Why a step ended early.
enum Failure {
    Refused(Refusal),
    Failed(Error),
}

impl<E: Into<Error>> From<E> for Failure {
    fn from(error: E) -> Self {
        Self::Failed(error.into())
    }
}

fn name_conflict<K: Child>(name: &str) -> Failure {
    let kind = K::KIND;
    Failure::Refused(Refusal {
        reason: "NameConflict",
        message: format!(
            "a {kind} named {name:?} exists and belongs to somebody else; delete it or give the server another name"
        ),
        of_the_spec: true,
        retry: true,
    })
}

/// What an error of a write means: refused for good, refused for now, or failed.
fn failure(error: kube::Error, name: &str) -> Failure {
    let kube::Error::Api(status) = &error else {
        return Failure::Failed(error.into());
    };
    let causes = status.details.iter().flat_map(|details| &details.causes);
    let terminating = causes.clone().any(|cause| cause.reason == "NamespaceTerminating");
    let refuse = |reason, of_the_spec, retry| {
        Failure::Refused(Refusal {
            reason,
            message: status.message.chars().take(1024).collect(),
            of_the_spec,
            retry,
        })
    };
    match status.code {
        _ if terminating => refuse("NamespaceTerminating", false, false),
        400 | 422 => refuse("InvalidWorkload", true, false),
        403 => refuse("Forbidden", false, true),
        409 => Failure::Failed(Error::Changed(name.to_owned())),
        _ => Failure::Failed(error.into()),
    }
}

fn is_in_step(live: &Deployment, rendered: &Deployment) -> Result<bool, Error> {
    Ok(contains(&serde_json::to_value(live)?, &serde_json::to_value(rendered)?))
}

/// Of what is applied, and of the annotation by which a person asks to have it applied again.
fn hash(server: &MCPServer, rendered: &Value) -> u64 {
    let mut hasher = DefaultHasher::new();
    rendered.to_string().hash(&mut hasher);
    server.metadata.uid.hash(&mut hasher);
    server.annotations().get(RECONCILE_AT_ANNOTATION).hash(&mut hasher);
    hasher.finish()
}

fn rendered_name(rendered: &Value) -> String {
    rendered
        .pointer("/metadata/name")
        .and_then(Value::as_str)
        .unwrap_or_default()
        .to_owned()
}

/// Sets one member of an object, making the objects on the way.
fn set(object: &mut Value, path: &[&str], value: Value) {
    let mut place = object;
    for key in path {
        if !place.is_object() {
            *place = json!({});
        }
        let Some(members) = place.as_object_mut() else {
            return;
        };
        place = members.entry(*key).or_insert(Value::Null);
    }
    *place = value;
}
