//! How long something may take, as manifests and flags write it.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;
use std::time;

use schemars::generate::SchemaGenerator;
use schemars::{JsonSchema, Schema, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// A duration of hours, minutes, seconds and milliseconds, as Go writes it: `500ms`, `1.5s`, `1h30m`.
///
/// No text makes it overflow: longer ones than [`Duration::MAX`] are cut to that.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Duration(time::Duration);

/// What is said of a text that is no duration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("must be a duration, such as 500ms, 10s or 1h30m")]
pub struct NoDuration;

impl Duration {
    /// The longest one, some 114,000 years.
    pub const MAX: Self = Self(time::Duration::from_secs(999_999_999 * 3_600));
}

impl From<Duration> for time::Duration {
    fn from(duration: Duration) -> Self {
        duration.0
    }
}

impl FromStr for Duration {
    type Err = NoDuration;

    /// One or more numbers, each with its unit. As in the rules of the custom resources, a number has at most nine
    /// digits, and three behind the point.
    fn from_str(text: &str) -> Result<Self, NoDuration> {
        let mut total = time::Duration::ZERO;
        let mut rest = text;
        while let Some(part) = Part::next(rest)? {
            total = total.saturating_add(part.duration);
            rest = part.rest;
        }
        if text.is_empty() {
            return Err(NoDuration);
        }
        Ok(Self(total).min(Self::MAX))
    }
}

/// The first number of a text, with its unit.
struct Part<'a> {
    duration: time::Duration,
    rest: &'a str,
}

impl<'a> Part<'a> {
    fn next(text: &'a str) -> Result<Option<Self>, NoDuration> {
        if text.is_empty() {
            return Ok(None);
        }
        let (number, rest) = split_behind(text, |c| c.is_ascii_digit() || c == '.');
        let (unit, rest) = split_behind(rest, |c| c.is_ascii_alphabetic());
        let micros: u64 = match unit {
            "ms" => 1_000,
            "s" => 1_000_000,
            "m" => 60_000_000,
            "h" => 3_600_000_000,
            _ => return Err(NoDuration),
        };
        let (whole, thousandths) = match number.split_once('.') {
            Some((whole, fraction)) => (digits(whole, 9)?, digits(&format!("{fraction:0<3}"), 3)?),
            None => (digits(number, 9)?, 0),
        };
        if number.ends_with('.') {
            return Err(NoDuration);
        }
        let thousands = (whole * 1_000 + thousandths).saturating_mul(micros / 1_000);
        let duration = time::Duration::from_micros(thousands);
        Ok(Some(Self { duration, rest }))
    }
}

/// The number that `text` writes in one to `most` digits.
fn digits(text: &str, most: usize) -> Result<u64, NoDuration> {
    let bounded = (1..=most).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_digit());
    text.parse().ok().filter(|_| bounded).ok_or(NoDuration)
}

fn split_behind(text: &str, belongs: impl Fn(char) -> bool) -> (&str, &str) {
    let end = text.find(|c| !belongs(c)).unwrap_or(text.len());
    text.split_at(end)
}

impl fmt::Display for Duration {
    /// As it is read: `1h30m`, `500ms`, `0s`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (seconds, micros) = (self.0.as_secs(), self.0.subsec_micros());
        let whole = [(seconds / 3_600, "h"), (seconds / 60 % 60, "m"), (seconds % 60, "s")];
        for (number, unit) in whole {
            if number > 0 {
                write!(f, "{number}{unit}")?;
            }
        }
        match (micros / 1_000, micros % 1_000) {
            (0, 0) if seconds > 0 => Ok(()),
            (0, 0) => f.write_str("0s"),
            (millis, 0) => write!(f, "{millis}ms"),
            (millis, micros) => write!(f, "{millis}.{micros:03}ms"),
        }
    }
}

impl Serialize for Duration {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Duration {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Cow::<'de, str>::deserialize(deserializer)?;
        text.parse().map_err(de::Error::custom)
    }
}

impl JsonSchema for Duration {
    fn schema_name() -> Cow<'static, str> {
        "Duration".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": "string"})
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn durations_are_read_as_go_writes_them() {
        for (text, millis) in [
            ("500ms", 500),
            ("1.5s", 1_500),
            ("1h30m", 5_400_000),
            ("0s", 0),
            ("2.001s", 2_001),
            ("1m2s3ms", 62_003),
            ("007s", 7_000),
        ] {
            let duration: Duration = text.parse().unwrap();
            assert_eq!(time::Duration::from(duration).as_millis(), millis, "{text}");
        }
        let tiny: Duration = "1.25ms".parse().unwrap();
        assert_eq!(time::Duration::from(tiny).as_micros(), 1_250);
    }

    #[test]
    fn nothing_else_is_a_duration() {
        for text in [
            "",
            "5",
            "s",
            "-1s",
            "1s-3s",
            "+1s",
            "1 s",
            "1S",
            "1d",
            "1ns",
            "1.s",
            ".5s",
            "1.2.3s",
            "1.0001s",
            "1234567890s",
            "99999999999999999999h",
            "inf",
            "NaNs",
            "1s ",
            "1µs",
        ] {
            assert_eq!(text.parse::<Duration>(), Err(NoDuration), "{text:?}");
        }
    }

    #[test]
    fn the_longest_texts_that_the_rules_let_through_are_cut_and_not_summed_into_an_overflow() {
        let long: Duration = "999999999h999999999h999999999.9h".parse().unwrap();
        assert_eq!((long, long.to_string().as_str()), (Duration::MAX, "999999999h"));
    }

    #[test]
    fn they_are_written_as_they_are_read() {
        for text in ["1h30m", "500ms", "0s", "1.250ms", "2s1ms", "24h", "1m1s"] {
            assert_eq!(text.parse::<Duration>().unwrap().to_string(), text);
        }
    }

    proptest! {
        #[test]
        fn no_text_panics(text in "[-+0-9.a-zµ]{0,40}") {
            let _read = text.parse::<Duration>();
        }

        #[test]
        fn whatever_the_rules_let_through_is_read_and_written_so_that_it_is_read_again(
            text in "([0-9]{1,9}([.][0-9]{1,3})?(ms|s|m|h)){1,3}"
        ) {
            let duration: Duration = text.parse().unwrap();
            prop_assert_eq!(duration.to_string().parse(), Ok(duration));
        }
    }
}
