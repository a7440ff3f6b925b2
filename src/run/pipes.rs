//! One federation on this process's own standard input and output.

use std::sync::Arc;

use tokio::sync::watch;

use crate::api::DEFAULT_NAMESPACE;
use crate::fleet::{DefaultFederation, ObjectKey, Observations};
use crate::gateway::stdio::Pipes;
use crate::manifest::Manifests;

/// The federation that is served.
///
/// # Errors
/// It is not known which, or there is none.
pub(crate) fn federation(default: &DefaultFederation, manifests: &Manifests) -> anyhow::Result<ObjectKey> {
    if let DefaultFederation::Named(key) = default {
        return Ok(key.clone());
    }
    let keys: Vec<ObjectKey> = manifests
        .federations
        .iter()
        .filter_map(|federation| {
            let namespace = federation.metadata.namespace.as_deref().unwrap_or(DEFAULT_NAMESPACE);
            Some(ObjectKey::new(namespace, federation.metadata.name.as_deref()?))
        })
        .collect();
    match keys.as_slice() {
        [only] => Ok(only.clone()),
        [] => anyhow::bail!("--stdio serves one federation, and there is none in the files; add an MCPFederation"),
        several => {
            let names: Vec<String> = several.iter().map(ObjectKey::to_string).collect();
            anyhow::bail!(
                "--stdio serves one federation, and the files have {}; choose one with --default-federation NAME",
                names.join(", ")
            )
        }
    }
}

/// Serves `federation` until its client leaves, and stops the process then. Many hosts ask for lists but once: the first
/// message is read when the servers have answered, failed, or taken their time.
pub(crate) async fn serve(
    pipes: Pipes,
    federation: ObjectKey,
    mut observations: watch::Receiver<Arc<Observations>>,
    mut readiness: watch::Receiver<bool>,
) {
    let stop = pipes.stop.clone();
    let served = async {
        // Both go on for as long as the process runs; at its end the client is served what is left.
        drop(readiness.wait_for(|ready| *ready).await);
        drop(
            observations
                .wait_for(|observed| observed.federations.contains_key(&federation))
                .await,
        );
    };
    if let Err(error) = pipes.serve(tokio::io::stdin(), tokio::io::stdout(), served).await {
        tracing::error!(%error, "standard input and output cannot be served");
    }
    stop.cancel();
}
