//! Where a server is reached in a cluster.

use http::{HeaderMap, Uri};

use crate::api::MCPServer;
use crate::api::server::NamespacesFrom;
use crate::api::source::ContainerSource;
use crate::fleet::input::{header_references, remote_endpoint};
use crate::fleet::{Reference, References, Unresolved};
use crate::upstream::{Endpoint, HttpEndpoint};

/// Why a server cannot be reached: its source does not work here. Nothing but a change of the spec helps.
const PACKAGE_UNSUPPORTED: &str = "PackageUnsupported";
/// Why a server cannot be reached: its address cannot be used.
const INVALID_URL: &str = "InvalidURL";

/// Why a server cannot be used: it asks for namespaces by label, and this install cannot read their labels.
const SELECTOR_UNSUPPORTED: &str = "SelectorUnsupported";

/// Where `server` is reached in a cluster: a container by its Service, a remote one by its address. `cluster_wide` says
/// that this install watches all namespaces.
///
/// # Errors
/// Says why there is no address, and what to do.
pub fn endpoint(server: &MCPServer, references: &References, cluster_wide: bool) -> Result<Endpoint, Unresolved> {
    let policy = server.spec.federation.as_ref();
    if !cluster_wide && policy.is_some_and(|policy| policy.allowed_namespaces.from == NamespacesFrom::Selector) {
        return Err(Unresolved {
            reason: SELECTOR_UNSUPPORTED,
            message:
                "spec.federation.allowedNamespaces.from is Selector, but this install watches single namespaces and \
                      cannot read their labels; use Same or All"
                    .into(),
        });
    }
    let namespace = server.metadata.namespace.as_deref().unwrap_or_default();
    let name = server.metadata.name.as_deref().unwrap_or_default();
    if let Some(container) = &server.spec.container {
        return service_endpoint(container, namespace, name);
    }
    if let Some(remote) = &server.spec.remote {
        return remote_endpoint(remote, namespace, references);
    }
    Err(Unresolved {
        reason: PACKAGE_UNSUPPORTED,
        message:
            "package servers do not run in a cluster yet; build an image and use spec.container, use spec.remote, \
                  or run the manifest on one machine with mcpfleet up"
                .into(),
    })
}

/// Whether only a change of the spec can help, and not a change of a referenced object.
pub fn spec_is_at_fault(unresolved: &Unresolved) -> bool {
    matches!(
        unresolved.reason,
        PACKAGE_UNSUPPORTED | INVALID_URL | SELECTOR_UNSUPPORTED
    )
}

/// The Secrets and ConfigMaps whose values the gateway sends to `server`.
pub fn endpoint_references(server: &MCPServer) -> Vec<Reference> {
    let namespace = server.metadata.namespace.as_deref().unwrap_or_default();
    let remote = server.spec.remote.iter();
    remote.flat_map(|remote| header_references(remote, namespace)).collect()
}

fn service_endpoint(container: &ContainerSource, namespace: &str, name: &str) -> Result<Endpoint, Unresolved> {
    let transport = &container.transport;
    let url: Uri = format!("http://{name}.{namespace}.svc:{}{}", transport.port, transport.path)
        .parse()
        .map_err(|_| Unresolved {
            reason: INVALID_URL,
            message: "spec.container.transport.path has characters that an address cannot carry; percent-encode them"
                .into(),
        })?;
    Ok(Endpoint::Http(HttpEndpoint {
        url,
        headers: HeaderMap::new(),
    }))
}
