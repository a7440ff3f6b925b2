//! How a server is dealt with, as its owner says.

use super::endpoint::Timeouts;
use super::pin::Pin;

/// How a server is dealt with, as its owner says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Terms {
    /// How long it is waited for.
    pub timeouts: Timeouts,
    /// Which protocol is spoken with it.
    pub pin: Pin,
    /// Whether changes are listened for. Without, its lists are read again when they are old, and no resource is
    /// subscribed to.
    pub notifications: bool,
}

impl Default for Terms {
    fn default() -> Self {
        Self {
            timeouts: Timeouts::default(),
            pin: Pin::None,
            notifications: true,
        }
    }
}
