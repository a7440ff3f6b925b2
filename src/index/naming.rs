//! Names that clients see.

use std::borrow::Cow;

use aws_lc_rs::digest::{SHA256, digest};

use crate::defaults;

/// The name under which `original` of `server` is advertised: prefixed unless the prefix is empty, and never longer
/// than [`defaults::NAME_MAX`]. A name that would be is cut and closed by `_` and eight hexadecimal digits of SHA-256
/// over server and original name, so that it is the same after every restart.
pub fn advertised(prefix: &str, server: &str, original: &str) -> String {
    let full: Cow<'_, str> = match prefix {
        "" => Cow::Borrowed(original),
        _ => Cow::Owned([prefix, defaults::SEPARATOR, original].concat()),
    };
    if full.chars().count() <= defaults::NAME_MAX {
        return full.into_owned();
    }
    let hash = digest(&SHA256, format!("{server}\0{original}").as_bytes());
    let suffix: String = hash.as_ref().iter().take(4).map(|byte| format!("{byte:02x}")).collect();
    let cut: String = full.chars().take(defaults::NAME_MAX - suffix.len() - 1).collect();
    format!("{cut}_{suffix}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_goes_before_the_name_and_an_empty_one_does_not() {
        assert_eq!(advertised("gh", "github", "list_repos"), "gh__list_repos");
        assert_eq!(advertised("", "github", "list_repos"), "list_repos");
    }

    #[test]
    fn long_names_are_cut_to_the_limit_and_stay_apart() {
        let original = "x".repeat(50);
        let first = advertised("p".repeat(32).as_str(), "s", &format!("{original}_one"));
        let second = advertised("p".repeat(32).as_str(), "s", &format!("{original}_two"));
        assert_eq!(first.len(), defaults::NAME_MAX);
        assert_ne!(first, second);
        assert_eq!(
            first,
            advertised("p".repeat(32).as_str(), "s", &format!("{original}_one"))
        );
        assert_eq!(advertised("", "s", &"é".repeat(70)).chars().count(), defaults::NAME_MAX);
    }
}
