//! Being asked to stop.

use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

/// A token that is cancelled by the first SIGINT or SIGTERM. A SIGINT after that ends the process as it would by default:
/// somebody sits there. Who sends another SIGTERM gets no more than was asked for already.
///
/// # Errors
/// When signals cannot be received.
pub(crate) fn stop_token() -> std::io::Result<CancellationToken> {
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    let token = CancellationToken::new();
    let asked = token.clone();
    tokio::spawn(async move {
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
        }
        asked.cancel();
        interrupt.recv().await;
        tracing::warn!("asked to stop a second time; ending at once");
        std::process::exit(130);
    });
    Ok(token)
}
