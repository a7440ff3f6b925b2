//! What an unquoted YAML word means.
//!
//! As kubectl reads it (YAML 1.1 with Go's numbers), so that a file means the same here and in a cluster:
//! `on` is true, `0777` is 511.

use serde_json::{Number, Value};

/// The value of an unquoted scalar, or `None` for a string.
pub(super) fn resolve(text: &str) -> Option<Value> {
    match text {
        "" | "~" | "null" | "Null" | "NULL" => return Some(Value::Null),
        "true" | "True" | "TRUE" | "yes" | "Yes" | "YES" | "on" | "On" | "ON" | "y" | "Y" => {
            return Some(Value::Bool(true));
        }
        "false" | "False" | "FALSE" | "no" | "No" | "NO" | "off" | "Off" | "OFF" | "n" | "N" => {
            return Some(Value::Bool(false));
        }
        _ => {}
    }
    if !text.starts_with(['+', '-', '.', '0', '1', '2', '3', '4', '5', '6', '7', '8', '9']) {
        return None;
    }
    let plain = text.replace('_', "");
    integer(&plain).or_else(|| float(&plain)).map(Value::Number)
}

/// Decimal, `0x`, `0b`, `0o` and, with a leading zero, octal.
fn integer(text: &str) -> Option<Number> {
    let (negative, digits) = match text.strip_prefix('-') {
        Some(digits) => (true, digits),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    let lower = digits.to_ascii_lowercase();
    let (radix, digits) = match lower.as_bytes() {
        [b'0', b'x', ..] => (16, lower.get(2..)?),
        [b'0', b'b', ..] => (2, lower.get(2..)?),
        [b'0', b'o', ..] => (8, lower.get(2..)?),
        [b'0', _, ..] => (8, lower.get(1..)?),
        _ => (10, lower.as_str()),
    };
    if !digits.starts_with(|c: char| c.is_ascii_alphanumeric()) {
        return None; // a second sign is no number
    }
    let magnitude = u64::from_str_radix(digits, radix).ok()?;
    if negative {
        0_i64.checked_sub_unsigned(magnitude).map(Number::from)
    } else {
        Some(Number::from(magnitude))
    }
}

fn float(text: &str) -> Option<Number> {
    let written = |c: char| c.is_ascii_digit() || matches!(c, '+' | '-' | '.' | 'e' | 'E');
    if !text.chars().all(written) {
        return None; // `inf` and `nan` have no place in JSON
    }
    let float: f64 = text.parse().ok()?;
    // A whole number is written without its point in JSON, and then is one: `1e3` is 1000.
    let whole = (float.fract() == 0.0 && float.abs() < 1e15).then(|| format!("{float:.0}").parse::<i64>().ok());
    whole.flatten().map(Number::from).or_else(|| Number::from_f64(float))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    // Both lists were held against kubectl 1.36.
    #[test]
    fn words_mean_what_they_mean_to_kubectl() {
        for (text, value) in [
            ("null", json!(null)),
            ("", json!(null)),
            ("on", json!(true)),
            ("n", json!(false)),
            ("TRUE", json!(true)),
            ("12", json!(12)),
            ("-12", json!(-12)),
            ("+12", json!(12)),
            ("1_000", json!(1000)),
            ("0777", json!(511)),
            ("0o17", json!(15)),
            ("0x1F", json!(31)),
            ("0b11", json!(3)),
            ("0", json!(0)),
            ("1.5", json!(1.5)),
            (".5", json!(0.5)),
            ("1e3", json!(1000)),
            ("0999", json!(999)),
            ("08.5", json!(8.5)),
            ("1.", json!(1)),
            ("0_1", json!(1)),
            ("+0X1f", json!(31)),
            ("18446744073709551616", json!(18_446_744_073_709_551_616.0)),
            ("18446744073709551615", json!(u64::MAX)),
            ("-9223372036854775808", json!(i64::MIN)),
        ] {
            assert_eq!(resolve(text), Some(value), "{text}");
        }
    }

    #[test]
    fn everything_else_is_text() {
        for text in [
            "1.2.3",
            "1h30m",
            "2026-07-28",
            "0999x",
            "nope",
            "+-1",
            "--1",
            "0x",
            "0o9",
            "12:30",
            ".",
            "-",
            "1.2_x",
            ".inf",
            ".nan",
            "infinity",
            "500m",
            "1e400",
            "1e",
            "e1",
            "_1",
            "=",
        ] {
            assert_eq!(resolve(text), None, "{text}");
        }
    }
}
