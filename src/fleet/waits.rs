//! Waits as manifests say them, over what holds otherwise.

use std::time::Duration;

use crate::api::server::Timeouts as TimeoutSpec;
use crate::api::{self, Delay};
use crate::upstream::{Freshness, Limits, Timeouts};

/// Longest wait that is taken from a manifest; anything above means "very long" and is cut.
const WAIT_MAX: Duration = Duration::from_secs(7 * 24 * 60 * 60);

/// The limits of single requests that `said` says.
pub(super) fn limits(said: Option<&TimeoutSpec>) -> Limits {
    Limits {
        call: said.and_then(|said| given(said.call)),
        resource: said.and_then(|said| given(said.resource)),
    }
}

/// The waits that `said` says; what it does not say, or says as zero, is as `otherwise`.
pub(super) fn timeouts(said: Option<&TimeoutSpec>, otherwise: Timeouts) -> Timeouts {
    let Some(said) = said else { return otherwise };
    Timeouts {
        connect: given(said.connect).unwrap_or(otherwise.connect),
        list: match said.list.map(Delay::length) {
            None | Some(Some(Duration::ZERO)) => otherwise.list,
            Some(limit) => limit.map(|limit| limit.min(WAIT_MAX)),
        },
        call: given(said.call).or(otherwise.call),
        resource: given(said.resource).unwrap_or(otherwise.resource),
    }
}

/// How fresh lists are wanted to be: what is not said, and an age of zero, is as `otherwise`.
pub(super) fn freshness(ttl: Option<Delay>, stale_for: Option<Delay>, otherwise: Freshness) -> Freshness {
    let bounded = |duration: Duration| duration.min(WAIT_MAX);
    Freshness {
        ttl: match ttl.map(Delay::length) {
            None | Some(Some(Duration::ZERO)) => otherwise.ttl,
            Some(Some(ttl)) => bounded(ttl),
            Some(None) => Duration::ZERO,
        },
        stale_for: match stale_for.map(Delay::length) {
            None => otherwise.stale_for,
            Some(stale_for) => bounded(stale_for.unwrap_or(WAIT_MAX)),
        },
    }
}

fn given(duration: Option<api::Duration>) -> Option<Duration> {
    let duration = Duration::from(duration?);
    (!duration.is_zero()).then(|| duration.min(WAIT_MAX))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::api::server::Cache;

    #[test]
    fn timeouts_are_taken_and_bounded() {
        let of = |said: Value| timeouts(Some(&serde_json::from_value(said).unwrap()), Timeouts::default());
        let timeouts = of(json!({"connect": "0s", "call": "1h30m", "list": "90000h"}));
        assert_eq!(timeouts.connect, Timeouts::default().connect);
        assert_eq!(timeouts.call, Some(Duration::from_secs(5400)));
        assert_eq!(timeouts.list, Some(WAIT_MAX));
        let default = Some(Duration::from_secs(10));
        for (list, expected) in [
            (json!({}), default),
            (json!({"list": "0s"}), default),
            (json!({"list": "1.5s"}), Some(Duration::from_millis(1_500))),
            (json!({"list": "-1s"}), None),
        ] {
            assert_eq!(of(list.clone()).list, expected, "{list}");
        }
    }

    #[test]
    fn limits_are_only_what_is_said() {
        let of = |said: Value| limits(Some(&serde_json::from_value(said).unwrap()));
        assert_eq!(limits(None), Limits::default());
        assert_eq!(
            of(json!({"connect": "1s", "list": "1s", "call": "0s"})),
            Limits::default()
        );
        let said = of(json!({"call": "3s", "resource": "90000h"}));
        assert_eq!(said.call, Some(Duration::from_secs(3)));
        assert_eq!(said.resource, Some(WAIT_MAX));
        let over = said.over(Timeouts::default());
        assert_eq!((over.call, over.resource), (said.call, WAIT_MAX));
        assert_eq!(Limits::default().over(over), over);
    }

    #[test]
    fn what_is_not_said_is_as_it_is_otherwise() {
        let otherwise = Timeouts {
            call: Some(Duration::from_secs(7)),
            list: Some(Duration::from_secs(1)),
            ..Timeouts::default()
        };
        assert_eq!(timeouts(None, otherwise), otherwise);
        for (list, expected) in [
            ("2s", Some(Duration::from_secs(2))),
            ("0s", otherwise.list),
            ("-1s", None),
        ] {
            let said = serde_json::from_value(json!({"list": list})).unwrap();
            let list = expected;
            assert_eq!(timeouts(Some(&said), otherwise), Timeouts { list, ..otherwise });
        }
    }

    #[test]
    fn how_fresh_lists_are_kept_is_taken_and_bounded() {
        let of = |cache: Value| {
            let cache: Cache = serde_json::from_value(cache).unwrap();
            freshness(cache.ttl, cache.stale_for, Freshness::default())
        };
        let seconds = Duration::from_secs;
        assert_eq!(of(json!({})), Freshness::default());
        for (ttl, expected) in [
            (json!({}), 60),
            (json!({"ttl": "0s"}), 60),
            (json!({"ttl": "-1s"}), 0),
            (json!({"ttl": "5s"}), 5),
            (json!({"ttl": "99999h"}), WAIT_MAX.as_secs()),
        ] {
            assert_eq!(of(ttl.clone()).ttl, seconds(expected), "{ttl}");
        }
        assert_eq!(of(json!({"staleFor": "0s"})).stale_for, Duration::ZERO);
        assert_eq!(of(json!({"staleFor": "99999h"})).stale_for, WAIT_MAX);
    }
}
