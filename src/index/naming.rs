//! Names that clients see.

use std::borrow::Cow;

use aws_lc_rs::digest::{SHA256, digest};

use crate::api::federation::{self, PrefixStrategy};
use crate::defaults;

/// How names of tools and prompts are kept apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Naming {
    /// Which names get their member's prefix.
    pub strategy: PrefixStrategy,
    /// Between prefix and name.
    pub separator: String,
    /// Longest name, in characters.
    pub max_length: usize,
}

impl Naming {
    /// Every name is as its server gives it.
    pub const NONE: Self = Self {
        strategy: PrefixStrategy::Never,
        separator: String::new(),
        max_length: usize::MAX,
    };

    /// What a federation says, over the defaults.
    pub fn of(naming: Option<&federation::Naming>) -> Self {
        let default = Self::default();
        let Some(naming) = naming else { return default };
        let max_length = naming.max_length.and_then(|length| usize::try_from(length).ok());
        Self {
            strategy: naming.prefix.unwrap_or(default.strategy),
            separator: naming.separator.clone().unwrap_or(default.separator),
            max_length: max_length.unwrap_or(default.max_length),
        }
    }

    /// `name` with `prefix` before it, unless that is empty.
    pub fn prefixed<'n>(&self, prefix: &str, name: &'n str) -> Cow<'n, str> {
        match prefix {
            "" => Cow::Borrowed(name),
            _ => Cow::Owned([prefix, &self.separator, name].concat()),
        }
    }

    /// What is behind `prefix` in `name`.
    pub fn without_prefix<'n>(&self, prefix: &str, name: &'n str) -> Option<&'n str> {
        match prefix {
            "" => None,
            _ => name.strip_prefix(prefix)?.strip_prefix(self.separator.as_str()),
        }
    }

    /// `full`, or what stands for it where it is too long: it is cut and closed by `_` and eight hexadecimal digits of
    /// SHA-256 over the names of `server` and of what the server calls `original`, so that it is the same after every
    /// restart.
    pub fn fitting(&self, full: Cow<'_, str>, server: &str, original: &str) -> String {
        if full.len() <= self.max_length || full.chars().count() <= self.max_length {
            return full.into_owned();
        }
        let hash = digest(&SHA256, format!("{server}\0{original}").as_bytes());
        let suffix: String = hash.as_ref().iter().take(4).map(|byte| format!("{byte:02x}")).collect();
        let kept = self.max_length.saturating_sub(suffix.len() + 1);
        let cut: String = full.chars().take(kept).collect();
        format!("{cut}_{suffix}")
    }
}

impl Default for Naming {
    fn default() -> Self {
        Self {
            strategy: PrefixStrategy::Always,
            separator: defaults::SEPARATOR.to_owned(),
            max_length: defaults::NAME_MAX,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn advertised(prefix: &str, server: &str, original: &str) -> String {
        let naming = Naming::default();
        naming.fitting(naming.prefixed(prefix, original), server, original)
    }

    #[test]
    fn a_prefix_goes_before_the_name_and_an_empty_one_does_not() {
        assert_eq!(advertised("gh", "github", "list_repos"), "gh__list_repos");
        assert_eq!(advertised("", "github", "list_repos"), "list_repos");
        let naming = Naming::default();
        assert_eq!(naming.without_prefix("log", "log__a__tail"), Some("a__tail"));
        assert_eq!(naming.without_prefix("lo", "log__a__tail"), None);
        assert_eq!(naming.without_prefix("", "a__tail"), None);
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
        assert_eq!(advertised("", "s", &"é".repeat(60)), "é".repeat(60));
    }

    #[test]
    fn the_limit_and_the_separator_are_the_federations() {
        let said = serde_json::from_value(serde_json::json!({"separator": "-", "maxLength": 32, "prefix": "Never"}));
        let naming = Naming::of(Some(&said.unwrap()));
        assert_eq!(naming.prefixed("a", "b"), "a-b");
        assert_eq!(naming.fitting(Cow::Owned("x".repeat(33)), "s", "o").len(), 32);
        assert_eq!(naming.strategy, PrefixStrategy::Never);
    }
}
