//! How long a federation's streams wait, and how many there may be.

use std::time::Duration;

use crate::api::Delay;
use crate::api::federation::{LegacyNames, MCPFederationSpec};
use crate::defaults;

/// Streams of a federation's clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamPlan {
    /// The answer to a call or a read that takes longer becomes an event stream; none ever does where this is `None`.
    pub delay: Option<Duration>,
    /// A stream of a call on which nothing happens says so after this long.
    pub keep_alive: Duration,
    /// A Legacy call goes on for this long without its client, and what it said is kept as long after its answer.
    pub resume: Duration,
    /// A stream of notifications on which nothing happens says so after this long.
    pub heartbeat: Duration,
    /// Changes that follow a first one within this time are told together.
    pub coalesce: Duration,
    /// By which names Legacy clients are told of changed lists.
    pub legacy_names: LegacyNames,
    /// Most listens of Modern clients at a time.
    pub listens: usize,
}

impl StreamPlan {
    /// What `spec` says, over the defaults.
    pub fn of(spec: &MCPFederationSpec) -> Self {
        let default = Self::default();
        let (streaming, notifications) = (spec.streaming.as_ref(), spec.notifications.as_ref());
        let or = |said: Option<crate::api::Duration>, default| said.map_or(default, Duration::from);
        Self {
            delay: streaming.and_then(|s| s.delay).map_or(default.delay, Delay::length),
            keep_alive: or(streaming.and_then(|s| s.keep_alive), default.keep_alive),
            resume: or(streaming.and_then(|s| s.resume), default.resume),
            heartbeat: or(notifications.and_then(|n| n.heartbeat), default.heartbeat),
            coalesce: or(notifications.and_then(|n| n.coalesce), default.coalesce),
            legacy_names: notifications.and_then(|n| n.legacy_names).unwrap_or_default(),
            listens: spec
                .limits
                .as_ref()
                .and_then(|limits| usize::try_from(limits.listens?).ok())
                .unwrap_or(default.listens),
        }
    }
}

impl Default for StreamPlan {
    fn default() -> Self {
        Self {
            delay: Some(defaults::STREAM_DELAY),
            keep_alive: defaults::KEEP_ALIVE,
            resume: defaults::RESUME,
            heartbeat: defaults::HEARTBEAT,
            coalesce: defaults::COALESCE,
            legacy_names: LegacyNames::Official,
            listens: defaults::LISTENS_MAX,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_not_said_is_as_by_default() {
        let of = |spec| StreamPlan::of(&serde_json::from_value(spec).unwrap());
        assert_eq!(of(json!({})), StreamPlan::default());
        let said = of(json!({
            "streaming": {"delay": "0s", "resume": "1m"}, "notifications": {"heartbeat": "5s"}, "limits": {"listens": 2},
        }));
        let expected = StreamPlan {
            delay: Some(Duration::ZERO),
            resume: Duration::from_secs(60),
            heartbeat: Duration::from_secs(5),
            listens: 2,
            ..StreamPlan::default()
        };
        assert_eq!(said, expected);
        assert_eq!(of(json!({"streaming": {"delay": "-1s"}})).delay, None);
    }
}
