//! How clients of a federation find what is not listed.

use crate::api::federation::MCPFederationSpec;
use crate::index::search::Limits;

/// How clients find what is not listed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DiscoveryPlan {
    /// Whether those who wish it are listed everything.
    pub show_all_allowed: bool,
    /// How many results a search gives.
    pub limits: Limits,
}

impl DiscoveryPlan {
    /// What `spec` says, over the defaults.
    pub fn of(spec: &MCPFederationSpec) -> Self {
        let default = Self::default();
        let Some(said) = &spec.discovery else { return default };
        let or = |said: Option<i32>, default| said.and_then(|count| usize::try_from(count).ok()).unwrap_or(default);
        Self {
            show_all_allowed: said.show_all_allowed,
            limits: Limits {
                default: or(said.default_max_results, default.limits.default),
                cap: or(said.max_results_cap, default.limits.cap),
            },
        }
    }
}

impl Default for DiscoveryPlan {
    fn default() -> Self {
        Self {
            show_all_allowed: true,
            limits: Limits::default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_not_said_is_as_by_default() {
        let of = |spec| DiscoveryPlan::of(&serde_json::from_value(spec).unwrap());
        for spec in [json!({}), json!({"discovery": {}})] {
            assert_eq!(of(spec), DiscoveryPlan::default());
        }
        let said = of(json!({"discovery": {"showAllAllowed": false, "maxResultsCap": 3}}));
        assert!(!said.show_all_allowed);
        assert_eq!((said.limits.of(None), said.limits.of(Some(9))), (3, 3));
        assert_eq!(of(json!({"discovery": {"defaultMaxResults": 7}})).limits.of(Some(0)), 7);
    }
}
