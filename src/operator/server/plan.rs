//! What is to be done for one server: decided from its spec and what was found, without IO.

use k8s_openapi::api::apps::v1::Deployment;

use super::address::{endpoint, spec_is_at_fault};
use super::digest::{DigestKey, digest};
use super::workload::{Workload, render};
use crate::api::MCPServer;
use crate::fleet::{References, Unresolved};
use crate::operator::names::{PAUSED_ANNOTATION, REFERENCES_ANNOTATION, REPLICAS_ANNOTATION};
use crate::upstream::Endpoint;

/// What is to be done for one server, and what its spec amounts to.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// Where the gateway reaches it, or why it cannot.
    pub endpoint: Result<Endpoint, Unresolved>,
    /// The reference that its pods or its address lack, if one does.
    pub unresolved: Option<Unresolved>,
    /// What is to be written.
    pub intent: Intent,
}

/// What is to be written for one server.
#[derive(Clone, Debug, PartialEq)]
pub enum Intent {
    /// Nothing runs for it: what it owned before goes away.
    Prune,
    /// Its owner asked that nothing is written. What would be, to compare with.
    Pause(Option<Box<Workload>>),
    /// Its pods cannot start yet and none exist, or its spec cannot be carried out: nothing is written.
    Wait,
    /// Its workload is applied.
    Run {
        /// What is applied.
        workload: Box<Workload>,
        /// The replica count, where it is to be written now.
        scale: Option<i32>,
    },
}

/// What planning needs besides the server.
#[derive(Clone, Copy, Debug)]
pub struct Basis<'a> {
    /// What was read of Secrets and ConfigMaps.
    pub references: &'a References,
    /// The Deployment that the server owns, if it has one.
    pub deployment: Option<&'a Deployment>,
    /// The key of the digest of references.
    pub key: &'a DigestKey,
    /// Whether this install watches all namespaces.
    pub cluster_wide: bool,
}

/// Plans for `server`.
pub fn plan(server: &MCPServer, basis: Basis<'_>) -> Plan {
    let Basis {
        references,
        deployment,
        key,
        cluster_wide,
    } = basis;
    let endpoint = endpoint(server, references, cluster_wide);
    let at_fault = endpoint.as_ref().is_err_and(spec_is_at_fault);
    let namespace = server.metadata.namespace.as_deref().unwrap_or_default();
    let Some(container) = &server.spec.container else {
        return Plan {
            unresolved: endpoint.as_ref().err().filter(|_| !at_fault).cloned(),
            endpoint,
            intent: if paused(server) {
                Intent::Pause(None)
            } else {
                Intent::Prune
            },
        };
    };
    let (digest, unresolved) = match digest(container, namespace, references, key) {
        Ok(digest) => (digest, None),
        // Pods that run go on with what they have: a reference that went away must not take them down.
        Err(unresolved) => (deployment.and_then(applied_digest), Some(unresolved)),
    };
    let workload = Box::new(render(server, container, digest.as_deref()));
    let intent = if paused(server) {
        Intent::Pause(Some(workload))
    } else if at_fault || (unresolved.is_some() && deployment.is_none()) {
        Intent::Wait
    } else {
        Intent::Run {
            workload,
            scale: scale(server, deployment),
        }
    };
    Plan {
        endpoint,
        unresolved,
        intent,
    }
}

/// Whether the owner asked that nothing of the workload is written.
pub fn paused(server: &MCPServer) -> bool {
    let annotations = server.metadata.annotations.as_ref();
    annotations
        .and_then(|a| a.get(PAUSED_ANNOTATION))
        .is_some_and(|value| value == "true")
}

/// The replica count to write: at creation, and when `spec.replicas` is no longer what was written last. In between
/// the count belongs to whoever scales the Deployment.
fn scale(server: &MCPServer, deployment: Option<&Deployment>) -> Option<i32> {
    let annotations = deployment.and_then(|d| d.metadata.annotations.as_ref());
    let written = annotations.and_then(|a| a.get(REPLICAS_ANNOTATION));
    let wanted = server.spec.replicas;
    (written != Some(&wanted.to_string())).then_some(wanted)
}

fn applied_digest(deployment: &Deployment) -> Option<String> {
    let template = deployment.spec.as_ref()?.template.metadata.as_ref()?;
    template.annotations.as_ref()?.get(REFERENCES_ANNOTATION).cloned()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde_json::json;

    use super::*;
    use crate::fleet::{Content, Reference, ReferenceKind};

    fn server(spec: &serde_json::Value) -> MCPServer {
        serde_json::from_value(json!({
            "apiVersion": "mcpfleet.dev/v1alpha1", "kind": "MCPServer",
            "metadata": {"name": "web", "namespace": "team", "uid": "0b1c"},
            "spec": spec,
        }))
        .unwrap()
    }

    fn container(replicas: i32) -> MCPServer {
        server(&json!({"replicas": replicas, "container": {
            "image": "x", "transport": {"type": "StreamableHTTP"},
            "env": [{"name": "T", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}],
        }}))
    }

    fn secret(content: Content) -> References {
        [(Reference::new(ReferenceKind::Secret, "team", "s"), content)]
            .into_iter()
            .collect()
    }

    fn found(value: &str) -> References {
        secret(Content::Found(BTreeMap::from([("k".into(), value.into())])))
    }

    fn plan_for(server: &MCPServer, references: &References, deployment: Option<&Deployment>) -> Plan {
        let key = &DigestKey::derive(&[7; 32]).unwrap();
        plan(
            server,
            Basis {
                references,
                deployment,
                key,
                cluster_wide: false,
            },
        )
    }

    /// The Deployment as it stands after the plan of `server` was carried out.
    fn applied(server: &MCPServer, references: &References) -> Deployment {
        let Intent::Run { workload, scale } = plan_for(server, references, None).intent else {
            panic!("a container server with its references runs");
        };
        let mut deployment = workload.deployment;
        let written = scale.unwrap().to_string();
        deployment.metadata.annotations = Some(BTreeMap::from([(REPLICAS_ANNOTATION.into(), written)]));
        deployment
    }

    fn scale_of(plan: &Plan) -> Option<i32> {
        match &plan.intent {
            Intent::Run { scale, .. } => *scale,
            other => panic!("expected a workload, got {other:?}"),
        }
    }

    fn digest_of(plan: &Plan) -> Option<String> {
        match &plan.intent {
            Intent::Run { workload, .. } => applied_digest(&workload.deployment),
            other => panic!("expected a workload, got {other:?}"),
        }
    }

    #[test]
    fn replicas_are_written_at_creation_and_when_the_spec_changes_only() {
        let references = found("v");
        assert_eq!(scale_of(&plan_for(&container(3), &references, None)), Some(3));
        let mut deployment = applied(&container(3), &references);
        deployment.spec.as_mut().unwrap().replicas = Some(7); // a person scaled it
        assert_eq!(scale_of(&plan_for(&container(3), &references, Some(&deployment))), None);
        assert_eq!(
            scale_of(&plan_for(&container(4), &references, Some(&deployment))),
            Some(4)
        );
    }

    #[test]
    fn new_values_of_references_change_the_pods() {
        let deployment = applied(&container(1), &found("old"));
        let same = plan_for(&container(1), &found("old"), Some(&deployment));
        let new = plan_for(&container(1), &found("new"), Some(&deployment));
        assert_eq!(digest_of(&same), applied_digest(&deployment));
        assert_ne!(digest_of(&new), applied_digest(&deployment));
    }

    #[test]
    fn a_missing_reference_holds_the_first_start_and_never_rolls_running_pods() {
        let missing = secret(Content::Missing);
        let first = plan_for(&container(1), &missing, None);
        assert_eq!(first.intent, Intent::Wait);
        assert_eq!(first.unresolved.unwrap().reason, "RefNotFound");
        let deployment = applied(&container(1), &found("old"));
        let later = plan_for(&container(1), &missing, Some(&deployment));
        assert_eq!(digest_of(&later), applied_digest(&deployment));
        assert!(later.unresolved.is_some());
    }

    #[test]
    fn a_remote_server_runs_nothing_and_prunes_what_a_container_left() {
        let remote = server(&json!({"remote": {"url": "http://example.com/mcp"}}));
        let plan = plan_for(&remote, &References::default(), None);
        assert_eq!(plan.intent, Intent::Prune);
        assert!(plan.endpoint.is_ok() && plan.unresolved.is_none());
    }

    #[test]
    fn a_package_server_is_at_fault_itself_and_not_its_references() {
        let package = server(&json!({"package": {"runner": "npm", "name": "x", "version": "1.0.0"}}));
        let plan = plan_for(&package, &References::default(), None);
        let unresolved = plan.endpoint.unwrap_err();
        assert!(spec_is_at_fault(&unresolved) && plan.unresolved.is_none());
        assert!(unresolved.message.contains("mcpfleet up"), "{}", unresolved.message);
    }

    #[test]
    fn a_server_that_asks_for_namespaces_by_label_needs_a_cluster_wide_install() {
        let mut labelled = container(1);
        let policy = json!({"allowedNamespaces": {"from": "Selector", "selector": {}}});
        labelled.spec.federation = serde_json::from_value(policy).unwrap();
        let (references, key) = (&found("v"), &DigestKey::derive(&[7; 32]).unwrap());
        let plan_in = |cluster_wide| {
            plan(
                &labelled,
                Basis {
                    references,
                    deployment: None,
                    key,
                    cluster_wide,
                },
            )
        };
        assert_eq!(plan_in(false).endpoint.unwrap_err().reason, "SelectorUnsupported");
        assert_eq!(plan_in(false).intent, Intent::Wait);
        assert!(plan_in(true).endpoint.is_ok());
    }

    #[test]
    fn a_paused_server_is_not_written() {
        let mut paused = container(1);
        paused.metadata.annotations = Some(BTreeMap::from([(PAUSED_ANNOTATION.into(), "true".into())]));
        assert!(matches!(
            plan_for(&paused, &found("v"), None).intent,
            Intent::Pause(Some(_))
        ));
        let mut remote = server(&json!({"remote": {"url": "http://example.com/mcp"}}));
        remote.metadata.annotations = paused.metadata.annotations;
        assert_eq!(plan_for(&remote, &found("v"), None).intent, Intent::Pause(None));
    }
}
