//! How a federation deals with sessions.

use std::time::Duration;

use super::protocol::ProtocolPlan;
use crate::api::federation::MCPFederationSpec;
use crate::defaults;

/// Sessions of a federation's Legacy clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SessionPlan {
    /// Whether there are any.
    pub enabled: bool,
    /// How long one is valid.
    pub ttl: Duration,
}

impl SessionPlan {
    /// What `spec` says, over the defaults. Who serves no Legacy clients has none.
    pub(super) fn of(spec: &MCPFederationSpec) -> Self {
        let default = Self {
            enabled: ProtocolPlan::of(spec).legacy,
            ..Self::default()
        };
        match &spec.sessions {
            None => default,
            Some(sessions) => Self {
                enabled: sessions.enabled && default.enabled,
                ttl: sessions.ttl.map_or(default.ttl, Duration::from),
            },
        }
    }
}

impl Default for SessionPlan {
    fn default() -> Self {
        Self {
            enabled: true,
            ttl: defaults::SESSION_TTL,
        }
    }
}
