//! Cursors of our lists: where the next page begins, by the key of the last entry and not by a number, so that nothing
//! is skipped or repeated when the list has changed in between. They are signed, hold for one list of one federation,
//! and are good in every replica.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

use super::session::FederationKeys;
use crate::index::List;

/// The cursor of the page of `list` behind the entry of key `last`.
pub(super) fn seal(list: List, last: &str, keys: &FederationKeys) -> String {
    let cursor = text(list, last);
    let signature = keys.sign_cursor(cursor.as_bytes());
    format!("{}.{}", URL_SAFE_NO_PAD.encode(last), URL_SAFE_NO_PAD.encode(signature))
}

/// The key of the entry behind which the page begins, if `cursor` is one of ours for this list.
pub(super) fn open(list: List, cursor: &str, keys: &FederationKeys) -> Option<String> {
    let (last, signature) = cursor.split_once('.')?;
    let last = String::from_utf8(URL_SAFE_NO_PAD.decode(last).ok()?).ok()?;
    let signature = URL_SAFE_NO_PAD.decode(signature).ok()?;
    keys.has_signed_cursor(text(list, &last).as_bytes(), &signature)
        .then_some(last)
}

fn text(list: List, last: &str) -> String {
    [list.member(), " ", last].concat()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gateway::session::Keyring;

    #[test]
    fn a_cursor_holds_for_one_list_of_one_federation() {
        let ring = Keyring::random().unwrap();
        let keys = ring.of("team/fed").unwrap();
        for last in ["pods__restart", "", "a.b", "é\n"] {
            let cursor = seal(List::Tools, last, &keys);
            assert_eq!(open(List::Tools, &cursor, &keys).as_deref(), Some(last));
            assert_eq!(open(List::Prompts, &cursor, &keys), None);
            assert_eq!(open(List::Tools, &cursor, &ring.of("team/other").unwrap()), None);
            let foreign = Keyring::random().unwrap().of("team/fed").unwrap();
            assert_eq!(open(List::Tools, &cursor, &foreign), None);
        }
        let cursor = seal(List::Tools, "x", &keys);
        for wrong in ["", ".", "no-such", &format!("x{cursor}"), &cursor.replace('.', "..")] {
            assert_eq!(open(List::Tools, wrong, &keys), None, "{wrong}");
        }
    }
}
