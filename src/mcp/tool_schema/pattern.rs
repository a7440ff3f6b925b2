//! Patterns that no JavaScript engine compiles with the flag `u`, as validators do (ECMA-262, section 22.2.1).
//!
//! Only what the grammar surely forbids is found, so that no pattern is refused that an engine takes: which properties
//! of Unicode and which groups there are is not looked at.

/// Whether no engine compiles `pattern`.
pub(super) fn is_broken(pattern: &str) -> bool {
    let mut reader = Reader {
        rest: pattern,
        depth: 0,
    };
    reader.read().is_none()
}

/// A pattern that is read; whatever reads gives `None` where the grammar forbids what is there.
struct Reader<'p> {
    rest: &'p str,
    /// How many groups are open.
    depth: usize,
}

/// One part of a class of characters.
enum Atom {
    Character(char),
    /// It is of many characters, as `\w`.
    Set,
    /// It is one that is not worked out.
    Unknown,
}

impl Reader<'_> {
    fn read(&mut self) -> Option<()> {
        // Whether what was read last may be repeated.
        let mut repeats = false;
        while let Some(next) = self.next() {
            repeats = match next {
                '\\' => self.escape()?,
                '[' => {
                    self.class()?;
                    true
                }
                '(' => {
                    self.group()?;
                    self.depth += 1;
                    false
                }
                ')' => {
                    self.depth = self.depth.checked_sub(1)?;
                    true
                }
                '*' | '+' | '?' | '{' => {
                    if !repeats || next == '{' && !self.is_count()? {
                        return None;
                    }
                    self.takes('?');
                    false
                }
                ']' | '}' => return None,
                '^' | '$' | '|' => false,
                _ => true,
            };
        }
        (self.depth == 0).then_some(())
    }

    fn next(&mut self) -> Option<char> {
        let mut rest = self.rest.chars();
        let next = rest.next();
        self.rest = rest.as_str();
        next
    }

    /// Whether `expected` comes next, which is read then.
    fn takes(&mut self, expected: char) -> bool {
        let rest = self.rest.strip_prefix(expected);
        self.rest = rest.unwrap_or(self.rest);
        rest.is_some()
    }

    /// Reads what comes before `end`, and that.
    fn until(&mut self, end: char) -> Option<&str> {
        let (before, rest) = self.rest.split_once(end)?;
        self.rest = rest;
        Some(before)
    }

    /// Reads what an opened group is. Flags in it are newer than some engines.
    fn group(&mut self) -> Option<()> {
        if !self.takes('?') {
            return Some(());
        }
        match self.next()? {
            ':' | '=' | '!' | '<' => Some(()),
            'i' | 'm' | 's' | '-' => {
                let flags = self.until(':')?;
                flags.chars().all(|flag| "ims-".contains(flag)).then_some(())
            }
            _ => None,
        }
    }

    /// Whether `{` begins how often something is repeated, which is read then.
    fn is_count(&mut self) -> Option<bool> {
        let text = self.until('}')?;
        let (least, most) = text.split_once(',').unwrap_or((text, text));
        let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        let is_right = is_number(least) && (most.is_empty() && text.ends_with(',') || is_number(most));
        let number = |text: &str| text.parse::<u64>();
        let is_ordered = match (number(least), number(most)) {
            (Ok(least), Ok(most)) => least <= most,
            _ => true,
        };
        Some(is_right && is_ordered)
    }

    /// Reads what follows a backslash outside a class. False if it is no character that could be repeated.
    fn escape(&mut self) -> Option<bool> {
        match self.rest.chars().next()? {
            'b' | 'B' => {
                self.next();
                Some(false)
            }
            'k' => {
                self.next();
                self.takes('<').then_some(())?;
                self.until('>').map(|_| true)
            }
            '1'..='9' => {
                self.rest = self.rest.trim_start_matches(|digit: char| digit.is_ascii_digit());
                Some(true)
            }
            _ => self.character().map(|_| true),
        }
    }

    /// Reads what follows a backslash anywhere.
    fn character(&mut self) -> Option<Atom> {
        Some(match self.next()? {
            'd' | 'D' | 's' | 'S' | 'w' | 'W' => Atom::Set,
            'p' | 'P' => {
                self.takes('{').then_some(())?;
                self.until('}')?;
                Atom::Set
            }
            'f' | 'n' | 'r' | 't' | 'v' => Atom::Unknown,
            '0' => {
                let digit = self.rest.bytes().next();
                (!digit.is_some_and(|digit| digit.is_ascii_digit())).then_some(Atom::Unknown)?
            }
            'c' => self.next()?.is_ascii_alphabetic().then_some(Atom::Unknown)?,
            'x' => self.hexadecimal(2)?,
            'u' if self.takes('{') => {
                let digits = self.until('}')?;
                let is_hexadecimal = !digits.is_empty() && digits.bytes().all(|digit| digit.is_ascii_hexdigit());
                let digits = digits.trim_start_matches('0');
                let value = u32::from_str_radix(digits, 16).unwrap_or(if digits.is_empty() { 0 } else { u32::MAX });
                (is_hexadecimal && value <= 0x10_FFFF).then_some(Atom::Unknown)?
            }
            'u' => self.hexadecimal(4)?,
            syntax if SYNTAX.contains(syntax) => Atom::Character(syntax),
            _ => return None,
        })
    }

    fn hexadecimal(&mut self, count: usize) -> Option<Atom> {
        let digits = self.rest.get(..count)?;
        self.rest = self.rest.get(count..)?;
        digits
            .bytes()
            .all(|digit| digit.is_ascii_hexdigit())
            .then_some(Atom::Unknown)
    }

    /// Reads a class to its end.
    fn class(&mut self) -> Option<()> {
        self.takes('^');
        while !self.takes(']') {
            let first = self.atom()?;
            if !self.rest.starts_with('-') || self.rest.starts_with("-]") {
                continue;
            }
            self.takes('-');
            match (first, self.atom()?) {
                (Atom::Set, _) | (_, Atom::Set) => return None,
                (Atom::Character(first), Atom::Character(last)) if first > last => return None,
                _ => {}
            }
        }
        Some(())
    }

    fn atom(&mut self) -> Option<Atom> {
        match self.next()? {
            '\\' if self.takes('-') => Some(Atom::Character('-')),
            '\\' if self.takes('b') => Some(Atom::Unknown),
            '\\' => self.character(),
            character => Some(Atom::Character(character)),
        }
    }
}

/// What stands for itself after a backslash.
const SYNTAX: &str = r"^$\.*+?()[]{}|/";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_other_languages_know_and_javascript_does_not_is_broken() {
        for pattern in [
            r"^[\w-.]+@x$",
            r"(?P<year>\d{4})",
            r"(?i)abc",
            r"\Aabc\Z",
            r"a\-b",
            r"\_",
            r"\#",
            r"a\ b",
            r"(?>a)",
            r"(?#note)a",
            "a*+",
            "a++",
            "a{2}{3}",
            "*a",
            "(*a)",
            "a|+",
            "^*",
            r"\b+",
            "(a",
            "a)",
            "[a",
            "]",
            "[]a]",
            "a}",
            "{a}",
            "a{,3}",
            "a{3,2}",
            "a{x}",
            "[z-a]",
            r"[a-\d]",
            r"[\p{L}-z]",
            r"[\B]",
            r"[\1]",
            r"\x4",
            r"\u12",
            r"\u{110000}",
            r"\u{}",
            r"\c1",
            r"\00",
            r"\p",
            r"\pL",
            r"\k",
            "[[:alpha:]]",
            "\\",
        ] {
            assert!(is_broken(pattern), "{pattern}");
        }
    }

    #[test]
    fn what_an_engine_takes_is_not_broken() {
        for pattern in [
            "",
            "^[a-z0-9]+(?:-[a-z0-9]+)*$",
            r"^[\w.-]+@[\w-]+\.[A-Za-z]{2,}$",
            r"^\d{4}-\d{2}-\d{2}$",
            r"(?<year>\d{4})-\k<year>\1",
            "(?=a)b(?!c)(?<=d)(?<!e)f",
            "(?i:a)(?-i:b)(?im-s:c)",
            r"[^\]\-\b\\]*?",
            "[]",
            "[^]",
            "[a-]",
            "[-a]",
            "[--/]",
            "[a-b-c]",
            "[[]",
            "[(?*+{}|^$.]",
            "[😀-😎]",
            r"\u{1F600}\u0041\x41\cA\0\/",
            r"\u{000000041}",
            r"[\u0041-\u005A\t\n\0]",
            r"\p{L}+\P{Script=Greek}*",
            "a{0}b{1,}c{2,3}?d??",
            "(a|)*|",
            "(?:)+",
            "a{99999999999999999999}",
            "é+ü?",
            "$^",
            "[[:alpha:]",
            r"\$\{[^}]+\}",
            "-",
            "a,b",
            "<>=!&%#@~'\"` ",
        ] {
            assert!(!is_broken(pattern), "{pattern}");
        }
    }
}
