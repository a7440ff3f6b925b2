//! Where goes what a server says before its answer.

use std::fmt;

/// Hears the notifications that belong to one request, in their order. Called by whoever reads from the server, so it
/// must not block; what it cannot take it drops.
pub trait Sink: fmt::Debug + Send + Sync {
    /// A whole notification as the server wrote it: progress with the token of the request, or a log message on the
    /// request's own stream.
    fn heard(&self, notification: &[u8]);
}
