//! Which web pages may call a federation.

use crate::api::federation::{MCPFederationSpec, OriginPolicy};

/// Which web pages may call, by the origin that their browser sends.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OriginPlan {
    /// Which may, whatever is named.
    pub policy: OriginPolicy,
    /// Those that may by name, as browsers write them.
    pub allowed: Vec<String>,
}

impl OriginPlan {
    /// What `spec` says, over the default: pages of the same machine.
    pub fn of(spec: &MCPFederationSpec) -> Self {
        let said = spec.access.as_ref().and_then(|access| access.origins.as_ref());
        said.map_or_else(Self::default, |origins| Self {
            policy: origins.policy.unwrap_or_default(),
            allowed: origins.allow.clone(),
        })
    }
}
