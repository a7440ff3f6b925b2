//! After how long something is old, or that it never is for its age alone.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;
use std::time;

use kube::core::Rule;
use schemars::generate::SchemaGenerator;
use schemars::{JsonSchema, Schema, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use super::duration::{Duration, NoDuration};

/// A duration, or a negative one, which stands for never.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ttl {
    /// Old after this long.
    After(Duration),
    /// Never old.
    Never,
}

impl Ttl {
    /// After how long, if ever.
    pub fn after(self) -> Option<time::Duration> {
        match self {
            Self::After(duration) => Some(duration.into()),
            Self::Never => None,
        }
    }
}

impl FromStr for Ttl {
    type Err = NoDuration;

    fn from_str(text: &str) -> Result<Self, NoDuration> {
        match text.strip_prefix('-') {
            Some(negative) => negative.parse::<Duration>().map(|_| Self::Never),
            None => text.parse().map(Self::After),
        }
    }
}

impl fmt::Display for Ttl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::After(duration) => duration.fmt(f),
            Self::Never => f.write_str("-1s"),
        }
    }
}

impl Serialize for Ttl {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Ttl {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Cow::<'de, str>::deserialize(deserializer)?;
        text.parse().map_err(de::Error::custom)
    }
}

impl JsonSchema for Ttl {
    fn schema_name() -> Cow<'static, str> {
        "Ttl".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": "string"})
    }
}

/// What this lets through is what [`Ttl`] reads, zero excepted.
pub(super) fn ttl() -> Rule {
    Rule::new("self.matches('^-?([0-9]{1,9}([.][0-9]{1,3})?(ms|s|m|h))+$') && self.matches('[1-9]')")
        .message("must be a duration above zero, such as 60s or 5m, or a negative one, such as -1s, for never")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_negative_duration_is_never() {
        for (text, seconds) in [("60s", Some(60)), ("-1s", None), ("-1h30m", None)] {
            let ttl: Ttl = text.parse().unwrap();
            assert_eq!(ttl.after(), seconds.map(time::Duration::from_secs), "{text}");
            assert_eq!(ttl.to_string().parse(), Ok(ttl));
        }
        for text in ["", "-", "--1s", "1", "-x"] {
            assert_eq!(text.parse::<Ttl>(), Err(NoDuration), "{text}");
        }
    }
}
