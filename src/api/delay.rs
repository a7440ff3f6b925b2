//! How long to wait before something is done, or that it never is.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;
use std::time;

use kube::core::Rule;
use schemars::generate::SchemaGenerator;
use schemars::{JsonSchema, Schema, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use super::duration::Duration;

/// A delay as manifests write it: a [`Duration`], of which a negative one means never.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Delay {
    length: Duration,
    is_negative: bool,
}

/// What is said of a text that is no delay.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{RULE}")]
pub struct NoDelay;

impl Delay {
    /// How long; `None` for ever.
    pub fn length(self) -> Option<time::Duration> {
        (!self.is_negative).then(|| self.length.into())
    }
}

impl FromStr for Delay {
    type Err = NoDelay;

    fn from_str(text: &str) -> Result<Self, NoDelay> {
        let (length, is_negative) = match text.strip_prefix('-') {
            Some(length) => (length, true),
            None => (text, false),
        };
        let length: Duration = length.parse().map_err(|_| NoDelay)?;
        Ok(Self {
            length,
            is_negative: is_negative && length != Duration::default(),
        })
    }
}

impl fmt::Display for Delay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_negative {
            f.write_str("-")?;
        }
        self.length.fmt(f)
    }
}

impl Serialize for Delay {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Delay {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Cow::<'de, str>::deserialize(deserializer)?;
        text.parse().map_err(de::Error::custom)
    }
}

impl JsonSchema for Delay {
    fn schema_name() -> Cow<'static, str> {
        "Delay".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": "string"})
    }
}

/// What this lets through is what [`Delay`] reads.
pub(super) fn delay() -> Rule {
    Rule::new("self.matches('^-?([0-9]{1,9}([.][0-9]{1,3})?(ms|s|m|h))+$')").message(RULE)
}

const RULE: &str = "must be a duration, such as 0s, 500ms or 10s, or -1s";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_negative_one_is_never() {
        let length = |text: &str| text.parse::<Delay>().map(Delay::length);
        assert_eq!(length("1.5s"), Ok(Some(time::Duration::from_millis(1_500))));
        assert_eq!(length("0s"), Ok(Some(time::Duration::ZERO)));
        assert_eq!(length("-0s"), Ok(Some(time::Duration::ZERO)));
        assert_eq!(length("-1s"), Ok(None));
        for text in ["", "-", "--1s", "1s-1s", "- 1s", "+1s", "never"] {
            assert_eq!(length(text), Err(NoDelay), "{text:?}");
        }
    }

    #[test]
    fn delays_are_written_as_they_are_read() {
        for text in ["2s", "0s", "-1s", "-1m1s"] {
            assert_eq!(text.parse::<Delay>().unwrap().to_string(), text);
        }
    }
}
