//! Numbers in plain decimals.

use super::error::ToonError;
use crate::defaults::TOON_DIGITS_MAX;

/// Writes a JSON number with all its digits and without an exponent, zeros that say nothing, or a negative zero.
///
/// # Errors
/// It would take more than [`TOON_DIGITS_MAX`] digits.
pub(super) fn write_plain(out: &mut String, number: &str) -> Result<(), ToonError> {
    let (mantissa, exponent) = number.split_once(['e', 'E']).unwrap_or((number, "0"));
    let (sign, mantissa) = match mantissa.strip_prefix('-') {
        Some(rest) => ("-", rest),
        None => ("", mantissa),
    };
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let all = [whole, fraction].concat();
    let digits = all.trim_start_matches('0');
    // Where the point stands in what is left, counted from its first digit.
    let leading = as_offset(all.len() - digits.len())?;
    let digits = digits.trim_end_matches('0');
    if digits.is_empty() {
        out.push('0');
        return Ok(());
    }
    let exponent: i64 = exponent.parse().map_err(|_| ToonError::TooLong)?;
    let length = as_offset(digits.len())?;
    let point = as_offset(whole.len())?.saturating_sub(leading).saturating_add(exponent);
    let longest = point.max(length).max(length.saturating_sub(point));
    if longest > as_offset(TOON_DIGITS_MAX)? {
        return Err(ToonError::TooLong);
    }
    let zeros = |count: i64| "0".repeat(usize::try_from(count).unwrap_or(0));
    out.push_str(sign);
    match usize::try_from(point).ok().filter(|point| *point > 0) {
        None => {
            out.push_str("0.");
            out.push_str(&zeros(-point));
            out.push_str(digits);
        }
        Some(at) => match digits.split_at_checked(at) {
            Some((before, "")) => out.push_str(before),
            Some((before, after)) => {
                out.push_str(before);
                out.push('.');
                out.push_str(after);
            }
            None => {
                out.push_str(digits);
                out.push_str(&zeros(point - length));
            }
        },
    }
    Ok(())
}

/// Whether a reader could take `text` for a number: digits with or without sign, fraction and exponent, leading zeros
/// too.
pub(super) fn is_like(text: &str) -> bool {
    let is_digits = |digits: &str| !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    let (mantissa, exponent) = match text.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, Some(exponent)),
        None => (text, None),
    };
    let mantissa = mantissa.strip_prefix('-').unwrap_or(mantissa);
    let (whole, fraction) = match mantissa.split_once('.') {
        Some((whole, fraction)) => (whole, Some(fraction)),
        None => (mantissa, None),
    };
    let exponent = exponent.map(|exponent| exponent.strip_prefix(['+', '-']).unwrap_or(exponent));
    is_digits(whole) && fraction.is_none_or(is_digits) && exponent.is_none_or(is_digits)
}

fn as_offset(count: usize) -> Result<i64, ToonError> {
    i64::try_from(count).map_err(|_| ToonError::TooLong)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn plain(number: &str) -> Result<String, ToonError> {
        let mut out = String::new();
        write_plain(&mut out, number).map(|()| out)
    }

    #[test]
    fn every_digit_is_kept_and_nothing_else() {
        for (number, expected) in [
            ("0", "0"),
            ("-0", "0"),
            ("-0.0", "0"),
            ("0e999999999999999999999999", "0"),
            ("3.50", "3.5"),
            ("1.0", "1"),
            ("100", "100"),
            ("-100.0010", "-100.001"),
            ("1.5e20", "150000000000000000000"),
            ("1E+2", "100"),
            ("1e-10", "0.0000000001"),
            ("1e-20", "0.00000000000000000001"),
            ("12.34e1", "123.4"),
            ("12.34e2", "1234"),
            ("12.34e3", "12340"),
            ("12.34e-1", "1.234"),
            ("12.34e-2", "0.1234"),
            ("0.00120e2", "0.12"),
            ("0.0012e5", "120"),
            ("123456789012345678901234567890", "123456789012345678901234567890"),
            (
                "0.1000000000000000055511151231257827",
                "0.1000000000000000055511151231257827",
            ),
        ] {
            assert_eq!(plain(number).as_deref(), Ok(expected), "{number}");
        }
    }

    #[test]
    fn what_would_take_too_many_digits_is_refused() {
        for number in [
            "1e1025",
            "-1e-1025",
            "1e999999999999999999999",
            "1e-9223372036854775808",
            "1e9223372036854775807",
        ] {
            assert_eq!(plain(number), Err(ToonError::TooLong), "{number}");
        }
        assert_eq!(plain("1e1023").map(|text| text.len()), Ok(1024));
    }

    #[test]
    fn texts_that_could_be_numbers_are_known() {
        for text in ["0", "42", "-3.14", "1e-6", "1E+9", "05", "0001", "-05", "1.50"] {
            assert!(is_like(text), "{text}");
        }
        for text in [
            "", "-", "1.", ".5", "1e", "1e+", "0x1", "1_000", "1.2.3", "1e5e5", "+1", "n1", "1 2",
        ] {
            assert!(!is_like(text), "{text}");
        }
    }

    proptest! {
        #[test]
        fn the_value_stays_the_same(number in "-?(0|[1-9][0-9]{0,20})(\\.[0-9]{1,20})?([eE][+-]?[0-9]{1,2})?") {
            let written = plain(&number).unwrap();
            prop_assert_eq!(written.parse::<f64>().unwrap(), number.parse::<f64>().unwrap());
            prop_assert!(is_like(&written));
            prop_assert!(!written.contains(['e', 'E']));
            prop_assert_eq!(plain(&written), Ok(written));
        }
    }
}
