//! Composition roots: a fleet in a cluster, and a fleet on one machine.

mod admin;
pub mod cluster;
mod endpoints;
mod launch;
pub mod lease;
pub mod local;
mod pipes;
mod progress;
mod readiness;
pub mod replica;
mod signals;
mod source;
mod telemetry;
mod watch;

use std::sync::Arc;

use anyhow::Context;

use crate::args::LogFormat;
use crate::cores::Cores;

/// Runs `program` to its end in a runtime of its own, with log lines written as `format` says.
///
/// # Errors
/// What `program` fails with, or that the process could not be prepared for it.
pub fn in_runtime(format: LogFormat, program: impl Future<Output = anyhow::Result<()>>) -> anyhow::Result<()> {
    telemetry::start(format)?;
    let provider = rustls::crypto::aws_lc_rs::default_provider();
    provider
        .install_default()
        .map_err(|_| anyhow::anyhow!("TLS is set up already"))?;
    // One thread for all that is not clients' requests, which have theirs.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.context("the runtime cannot be started")?;
    let outcome = runtime.block_on(program);
    // Somebody may keep standard input open, and whoever reads it waiting, for ever.
    runtime.shutdown_background();
    outcome
}

/// The threads that serve clients.
fn cores() -> anyhow::Result<Arc<Cores>> {
    Cores::start()
        .map(Arc::new)
        .context("the threads that serve clients cannot be started")
}
