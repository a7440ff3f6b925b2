//! One `MCPServer`: from its spec to a workload and a status.

pub mod address;
pub mod apply;
pub mod cause;
pub mod digest;
pub mod drift;
pub mod plan;
pub mod reconcile;
pub mod rollout;
pub mod status;
pub mod workload;

use crate::api::MCPServer;
use crate::fleet::Reference;

/// The Secrets and ConfigMaps whose values `server` takes, for its pods or for what the gateway sends.
pub fn references(server: &MCPServer) -> Vec<Reference> {
    let namespace = server.metadata.namespace.as_deref().unwrap_or_default();
    let mut references = address::endpoint_references(server);
    if let Some(container) = &server.spec.container {
        references.extend(Reference::of_environment(
            namespace,
            &container.env,
            &container.env_from,
        ));
    }
    references
}
