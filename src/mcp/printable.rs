//! Words of others, made fit for a line of a log, for a terminal and for status.

/// The first `length` characters of `text`; those that [act](acts_on_the_line) are written as escapes: `\u{1b}`.
pub fn printable(text: &str, length: usize) -> String {
    let mut out = String::with_capacity(text.len().min(length));
    for c in text.chars().take(length) {
        if acts_on_the_line(c) {
            out.extend(c.escape_unicode());
        } else {
            out.push(c);
        }
    }
    out
}

/// `text` as one line of at most `length` characters, to stand among words of others: white space and ends of lines
/// become single spaces, all else that [acts](acts_on_the_line) goes, and what is cut ends in `…`.
pub fn one_line(text: &str, length: usize) -> String {
    let mut out = String::new();
    let mut written = 0;
    let mut is_space_due = false;
    for c in text.chars() {
        if c.is_whitespace() {
            is_space_due = written > 0;
            continue;
        }
        if acts_on_the_line(c) {
            continue;
        }
        if written + usize::from(is_space_due) >= length {
            // The last character makes room for the mark.
            if length > 0 {
                out.truncate(out.char_indices().nth(length - 1).map_or(out.len(), |(at, _)| at));
                out.push('…');
            }
            return out;
        }
        if std::mem::take(&mut is_space_due) {
            out.push(' ');
            written += 1;
        }
        out.push(c);
        written += 1;
    }
    out
}

/// Whether `c` does something to the line that it stands in: control characters move, colour and end it, and the
/// overrides and isolates of writing direction make it read as something else (UAX #9).
pub fn acts_on_the_line(c: char) -> bool {
    c.is_control() || matches!(c, '\u{2028}' | '\u{2029}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_acts_is_escaped_and_all_else_stays() {
        assert_eq!(printable("plain · 文件 \"q\" \\ ‏", 99), "plain · 文件 \"q\" \\ ‏");
        assert_eq!(
            printable("a\n\r\t\0\u{7}\u{1b}[2J\u{7f}\u{9b}b", 99),
            r"a\u{a}\u{d}\u{9}\u{0}\u{7}\u{1b}[2J\u{7f}\u{9b}b"
        );
        assert_eq!(
            printable("\u{202e}txt\u{2028}\u{2066}", 99),
            r"\u{202e}txt\u{2028}\u{2066}"
        );
    }

    #[test]
    fn one_line_has_single_spaces_and_nothing_that_acts() {
        assert_eq!(one_line(" a \r\n\t b\u{85}c\u{2028}d ", 99), "a b c d");
        assert_eq!(one_line("a\u{1b}[2J\0\u{202e}b", 99), "a[2Jb");
        assert_eq!(one_line("\u{1b}\n ", 99), "");
    }

    #[test]
    fn one_line_that_is_cut_says_so_within_its_length() {
        assert_eq!(one_line("ééééé", 5), "ééééé");
        assert_eq!(one_line("éééééé", 5), "éééé…");
        assert_eq!(one_line("abcd e", 5), "abcd…");
        assert_eq!(one_line("abcde  \n", 5), "abcde");
        assert_eq!((one_line("ab", 1), one_line("ab", 0)), ("…".into(), String::new()));
    }

    #[test]
    fn the_length_is_counted_in_characters_of_the_text() {
        assert_eq!(printable("ééé\u{1b}x", 4), r"ééé\u{1b}");
        assert_eq!(printable(&"x".repeat(500), 128).len(), 128);
    }
}
