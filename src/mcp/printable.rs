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
    fn the_length_is_counted_in_characters_of_the_text() {
        assert_eq!(printable("ééé\u{1b}x", 4), r"ééé\u{1b}");
        assert_eq!(printable(&"x".repeat(500), 128).len(), 128);
    }
}
