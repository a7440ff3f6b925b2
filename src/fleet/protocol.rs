//! Which revisions a federation speaks with its clients.

use crate::api::federation::{MCPFederationSpec, UnsupportedVersion};
use crate::mcp::Revision;

/// What a federation speaks with its clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProtocolPlan {
    /// Whether Legacy clients are served; Modern ones always are.
    pub legacy: bool,
    /// Whether a handshake for an unknown revision is refused, instead of answered with a known one.
    pub rejects_unknown: bool,
}

impl ProtocolPlan {
    /// What `spec` says, over the defaults.
    pub fn of(spec: &MCPFederationSpec) -> Self {
        spec.protocol.as_ref().map_or_else(Self::default, |protocol| Self {
            legacy: protocol.legacy,
            rejects_unknown: protocol.legacy_unsupported_version == Some(UnsupportedVersion::Reject),
        })
    }

    /// The revisions that clients are told of, the newest first and the Legacy ones after it in their order.
    pub fn revisions(self) -> &'static [Revision] {
        const MODERN: [Revision; 1] = [Revision::LATEST];
        if self.legacy { &Revision::ALL } else { &MODERN }
    }
}

impl Default for ProtocolPlan {
    fn default() -> Self {
        Self {
            legacy: true,
            rejects_unknown: false,
        }
    }
}
