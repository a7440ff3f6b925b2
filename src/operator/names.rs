//! Names, labels and annotations that the control plane puts on what it writes.

use std::collections::BTreeMap;

/// Field manager of everything but replica counts.
pub const FIELD_MANAGER: &str = "mcpfleet";
/// Field manager of replica counts alone: it writes them only when they change, so a person's scaling survives.
pub const SCALE_MANAGER: &str = "mcpfleet-scale";

/// Label with the name of the server that a workload belongs to; also the selector of its pods, never to be changed.
pub const SERVER_LABEL: &str = "mcpfleet.dev/server";
/// Label that marks what this program manages.
pub const MANAGED_BY_LABEL: &str = "app.kubernetes.io/managed-by";
/// Label selector of everything that this program manages.
pub const MANAGED_SELECTOR: &str = "app.kubernetes.io/managed-by=mcpfleet";

/// Annotation of a server: while it is `"true"`, its workload is observed but not written.
pub const PAUSED_ANNOTATION: &str = "mcpfleet.dev/paused";
/// Annotation of a server: a new value has its workload applied again.
pub const RECONCILE_AT_ANNOTATION: &str = "mcpfleet.dev/reconcile-at";
/// Annotation of a Deployment: the `spec.replicas` of the server that was last written to it.
pub const REPLICAS_ANNOTATION: &str = "mcpfleet.dev/applied-replicas";
/// Annotation of a pod: keyed digest of the referenced Secrets and ConfigMaps, so that new values roll the pods.
pub const REFERENCES_ANNOTATION: &str = "mcpfleet.dev/references";

/// The labels by which a Deployment and a Service find the pods of `server`.
pub fn selector(server: &str) -> BTreeMap<String, String> {
    BTreeMap::from([(SERVER_LABEL.to_owned(), server.to_owned())])
}

/// The labels of everything that belongs to `server`.
pub fn labels(server: &str) -> BTreeMap<String, String> {
    let mut labels = selector(server);
    labels.insert("app.kubernetes.io/name".to_owned(), server.to_owned());
    labels.insert(MANAGED_BY_LABEL.to_owned(), FIELD_MANAGER.to_owned());
    labels
}
