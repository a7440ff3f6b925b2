//! Tokens on the wire: JSON Web Tokens signed with HMAC-SHA256 (RFC 7515, RFC 7518 section 3.2) and nothing else.

use aws_lc_rs::hmac;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

use super::claims::Claims;
use crate::defaults;

/// `{"alg":"HS256","typ":"JWT"}`. A token with any other header is not one of ours, whatever algorithm it names.
const HEADER: &str = "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9";

/// The token that says `claims`, signed with `key`. `None` never happens: claims can always be written.
pub(super) fn write(claims: &Claims, key: &hmac::Key) -> Option<String> {
    let claims = serde_json::to_vec(claims).ok()?;
    let mut token = String::with_capacity(HEADER.len() + claims.len() * 4 / 3 + 64);
    token.push_str(HEADER);
    token.push('.');
    URL_SAFE_NO_PAD.encode_string(claims, &mut token);
    let signature = hmac::sign(key, token.as_bytes());
    token.push('.');
    URL_SAFE_NO_PAD.encode_string(signature, &mut token);
    Some(token)
}

/// What `token` says, if it was signed with one of `keys` and has not expired at `now`.
pub(super) fn read<'k>(token: &[u8], keys: impl IntoIterator<Item = &'k hmac::Key>, now: u64) -> Option<Claims> {
    if token.len() > defaults::SESSION_TOKEN_MAX {
        return None;
    }
    let token = std::str::from_utf8(token).ok()?;
    let (signed, signature) = token.rsplit_once('.')?;
    let (header, claims) = signed.split_once('.')?;
    if header != HEADER {
        return None;
    }
    let signature = URL_SAFE_NO_PAD.decode(signature).ok()?;
    // In constant time; and nothing of the claims is looked at before it is known whose they are.
    let mut keys = keys.into_iter();
    if !keys.any(|key| hmac::verify(key, signed.as_bytes(), &signature).is_ok()) {
        return None;
    }
    let claims = URL_SAFE_NO_PAD.decode(claims).ok()?;
    let claims: Claims = serde_json::from_slice(&claims).ok()?;
    (now <= claims.exp).then_some(claims)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mcp::Revision;

    const KEY: &[u8] = b"0123456789abcdef0123456789abcdef";
    /// Made by another program, without audience and name.
    const KNOWN: &str = "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.eyJwcm90b2NvbCI6IjIwMjUtMTEtMjUiLCJpYXQiOjE4MDAwMDAwMDAsImV4cCI6MTgwMDAwMTgwMH0.a3CdrNccfau3sDlu0i4-xmqVwuZ8Q5BORahdpkJG25E";
    const CLOCK: u64 = 1_800_000_000;

    fn key(bytes: &[u8]) -> hmac::Key {
        hmac::Key::new(hmac::HMAC_SHA256, bytes)
    }

    fn known(token: &str, now: u64) -> Option<Claims> {
        read(token.as_bytes(), [&key(KEY)], now)
    }

    /// A token of these parts, signed as it should be.
    fn signed(header: &str, claims: &str) -> String {
        let signed = format!("{}.{}", URL_SAFE_NO_PAD.encode(header), URL_SAFE_NO_PAD.encode(claims));
        let signature = URL_SAFE_NO_PAD.encode(hmac::sign(&key(KEY), signed.as_bytes()));
        format!("{signed}.{signature}")
    }

    #[test]
    fn a_known_token_is_read() {
        let claims = known(KNOWN, CLOCK).unwrap();
        assert_eq!(claims.protocol, Revision::V2025_11_25);
        assert_eq!((claims.iat, claims.exp), (CLOCK, CLOCK + 1800));
        assert_eq!((claims.aud, claims.jti), (None, None));
    }

    #[test]
    fn a_token_is_valid_up_to_and_including_its_last_second() {
        assert!(known(KNOWN, CLOCK + 1800).is_some());
        assert!(known(KNOWN, CLOCK + 1801).is_none());
    }

    #[test]
    fn a_change_of_any_character_makes_it_invalid() {
        for place in 0..KNOWN.len() {
            let mut changed = KNOWN.as_bytes().to_vec();
            changed[place] = if changed[place] == b'A' { b'B' } else { b'A' };
            assert!(read(&changed, [&key(KEY)], CLOCK).is_none(), "character {place}");
        }
    }

    #[test]
    fn what_is_written_differently_is_another_token() {
        let (head, signature) = KNOWN.rsplit_once('.').unwrap();
        for token in [
            "",
            "abc",
            "abc.def",
            "..",
            head,
            &format!("{head}."),
            &format!("{head}.{signature}."),
            &format!("{head}.{signature}="),
            &format!(".{KNOWN}"),
            &format!(" {KNOWN}"),
            &format!("{KNOWN}\u{e9}"),
        ] {
            assert!(known(token, CLOCK).is_none(), "{token:?}");
        }
        assert!(read(b"\xff\xfe", [&key(KEY)], CLOCK).is_none());
    }

    #[test]
    fn no_other_algorithm_is_taken_even_with_a_good_signature() {
        let claims = r#"{"protocol":"2025-11-25","iat":1,"exp":9999999999}"#;
        assert!(known(&signed(r#"{"alg":"HS256","typ":"JWT"}"#, claims), CLOCK).is_some());
        for header in [
            r#"{"alg":"none","typ":"JWT"}"#,
            r#"{"alg":"HS384","typ":"JWT"}"#,
            r#"{"alg":"hs256","typ":"JWT"}"#,
            r#"{"alg":"HS256"}"#,
            "{}",
        ] {
            assert!(known(&signed(header, claims), CLOCK).is_none(), "{header}");
        }
    }

    #[test]
    fn signed_claims_that_make_no_sense_are_refused() {
        for claims in [
            "",
            "[]",
            r#"{"protocol":"2025-11-25","iat":1}"#,
            r#"{"protocol":"2026-07-28","iat":1,"exp":9999999999}"#,
            r#"{"protocol":"1999-01-01","iat":1,"exp":9999999999}"#,
            r#"{"protocol":"2025-11-25","iat":1,"exp":"later"}"#,
            r#"{"protocol":"2025-11-25","jti":"short","iat":1,"exp":9999999999}"#,
        ] {
            assert!(
                known(&signed(r#"{"alg":"HS256","typ":"JWT"}"#, claims), CLOCK).is_none(),
                "{claims}"
            );
        }
    }

    #[test]
    fn claims_of_later_versions_are_passed_over() {
        let claims = r#"{"protocol":"2025-06-18","show_all":true,"future":{},"iat":1,"exp":9999999999}"#;
        assert!(known(&signed(r#"{"alg":"HS256","typ":"JWT"}"#, claims), CLOCK).is_some());
    }

    #[test]
    fn a_token_too_long_to_be_ours_is_not_even_checked() {
        let claims = format!(
            r#"{{"protocol":"2025-06-18","pad":"{}","iat":1,"exp":9999999999}}"#,
            "x".repeat(defaults::SESSION_TOKEN_MAX)
        );
        assert!(known(&signed(r#"{"alg":"HS256","typ":"JWT"}"#, &claims), CLOCK).is_none());
    }
}
