//! Conditions: the types, the reasons, and how a list of them is kept.

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The spec is valid here and belongs to this install.
pub const ACCEPTED: &str = "Accepted";
/// Every object the spec names exists, is readable, and may be used.
pub const RESOLVED_REFS: &str = "ResolvedRefs";
/// The workload's pods answer (servers with a workload only).
pub const AVAILABLE: &str = "Available";
/// The MCP handshake with the server succeeded and its catalog was read.
pub const VERIFIED: &str = "Verified";
/// The object does its job: a server is callable through the gateway, a federation answers.
pub const READY: &str = "Ready";
/// A federation answers, but at least one member does not.
pub const DEGRADED: &str = "Degraded";
/// kstatus: the observed spec is still being carried out.
pub const RECONCILING: &str = "Reconciling";
/// kstatus: nothing will happen until somebody changes something.
pub const STALLED: &str = "Stalled";

/// `True`, `False` or `Unknown`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum ConditionStatus {
    /// It holds.
    True,
    /// It does not hold.
    False,
    /// Nothing is known of it yet.
    Unknown,
}

impl From<bool> for ConditionStatus {
    fn from(holds: bool) -> Self {
        if holds { Self::True } else { Self::False }
    }
}

/// One condition, as `metav1.Condition`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Condition {
    /// What is being told, in CamelCase.
    #[serde(rename = "type")]
    pub type_: String,
    /// Whether it holds.
    pub status: ConditionStatus,
    /// Why, as one CamelCase word.
    pub reason: String,
    /// Why, for a person; stable while nothing changes.
    #[serde(default)]
    pub message: String,
    /// When `status` last changed.
    pub last_transition_time: Timestamp,
    /// The generation of the spec this was observed for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
}

/// Sets `next` in `conditions`, keeping the old transition time where the status stays the same.
pub fn set(conditions: &mut Vec<Condition>, mut next: Condition) {
    match conditions.iter_mut().find(|c| c.type_ == next.type_) {
        Some(old) => {
            if old.status == next.status {
                next.last_transition_time = old.last_transition_time;
            }
            *old = next;
        }
        None => conditions.push(next),
    }
}

/// The condition of type `type_`, if it was ever set.
pub fn find<'a>(conditions: &'a [Condition], type_: &str) -> Option<&'a Condition> {
    conditions.iter().find(|c| c.type_ == type_)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn condition(status: bool, reason: &str, second: i64) -> Condition {
        Condition {
            type_: READY.into(),
            status: status.into(),
            reason: reason.into(),
            message: String::new(),
            last_transition_time: Timestamp::from_second(second).unwrap(),
            observed_generation: Some(1),
        }
    }

    #[test]
    fn transition_time_moves_only_with_the_status() {
        let mut conditions = vec![condition(false, "A", 1)];
        set(&mut conditions, condition(false, "B", 2));
        assert_eq!(conditions, vec![condition(false, "B", 1)]);
        set(&mut conditions, condition(true, "C", 3));
        assert_eq!(conditions, vec![condition(true, "C", 3)]);
    }
}
