//! Patterns of names.

use std::fmt::{self, Write};

/// A pattern of names or URIs: `*` stands for any characters, also none, `?` for one, everything else for itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Glob(Box<[char]>);

impl Glob {
    /// Every text is a pattern.
    pub fn new(pattern: &str) -> Self {
        Self(pattern.chars().collect())
    }

    /// Whether the whole of `text` fits, case for case. Takes at most as many steps as both lengths multiplied.
    pub fn matches(&self, text: &str) -> bool {
        let pattern = &self.0;
        let (mut at, mut rest) = (0, text.chars());
        // Where the last star stood, and what was left of the text there: only this one need ever take more.
        let mut last_star: Option<(usize, std::str::Chars<'_>)> = None;
        loop {
            let here = pattern.get(at);
            let before = rest.clone();
            match (here, rest.next()) {
                (Some('*'), _) => {
                    at += 1;
                    rest = before;
                    last_star = Some((at, rest.clone()));
                }
                (Some('?'), Some(_)) => at += 1,
                (Some(expected), Some(found)) if *expected == found => at += 1,
                (None, None) => return true,
                _ => {
                    let Some((after, left)) = &mut last_star else {
                        return false;
                    };
                    if left.next().is_none() {
                        return false;
                    }
                    at = *after;
                    rest = left.clone();
                }
            }
        }
    }
}

impl fmt::Display for Glob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|c| f.write_char(*c))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn stars_stand_for_any_characters_and_question_marks_for_one() {
        for (pattern, text) in [
            ("logs", "logs"),
            ("*", ""),
            ("*", "a/b"),
            ("list_*", "list_"),
            ("list_*", "list_pods"),
            ("*_secrets", "list_secrets"),
            ("a*b*c", "a1b2b3c"),
            ("get_?", "get_é"),
            ("**a", "ba"),
            ("[x]", "[x]"),
            ("", ""),
            ("*a?", "aab"),
        ] {
            assert!(Glob::new(pattern).matches(text), "{pattern} {text}");
        }
        for (pattern, text) in [
            ("logs", "Logs"),
            ("logs", "logs2"),
            ("list_*", "xlist_"),
            ("get_?", "get_"),
            ("a*b", "a1b2"),
            ("?", ""),
            ("", "a"),
            ("*a?", "aba"),
        ] {
            assert!(!Glob::new(pattern).matches(text), "{pattern} {text}");
        }
    }

    #[test]
    fn a_hostile_pattern_takes_no_longer_than_its_length_allows() {
        assert!(!Glob::new(&("a*".repeat(64) + "b")).matches(&"a".repeat(512)));
        assert!(Glob::new(&("*a".repeat(64) + "b")).matches(&("a".repeat(512) + "b")));
    }

    /// The meaning, word for word, in exponential time.
    fn fits(pattern: &[char], text: &[char]) -> bool {
        match (pattern.split_first(), text.split_first()) {
            (None, rest) => rest.is_none(),
            (Some(('*', after)), rest) => fits(after, text) || rest.is_some_and(|(_, shorter)| fits(pattern, shorter)),
            (Some((c, after)), Some((found, rest))) => (*c == '?' || c == found) && fits(after, rest),
            (Some(_), None) => false,
        }
    }

    proptest! {
        #[test]
        fn it_means_what_is_written(pattern in "[ab*?]{0,8}", text in "[abé*]{0,10}") {
            let chars = |text: &str| text.chars().collect::<Vec<_>>();
            prop_assert_eq!(Glob::new(&pattern).matches(&text), fits(&chars(&pattern), &chars(&text)));
        }
    }
}
