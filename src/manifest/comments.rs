//! JSON as people write it: with comments.

/// The text with `//` and `/* */` comments turned into blanks, so that lines and columns stay.
///
/// Trailing commas need nothing: YAML, as which JSON is read, has them.
pub(super) fn blank(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text.chars().peekable();
    let mut in_string = false;
    // A comment starts only after a blank or punctuation, so that it is not taken out of an unquoted URL.
    let mut separated = true;
    while let Some(c) = rest.next() {
        if in_string {
            out.push(c);
            match c {
                '\\' => out.extend(rest.next()),
                '"' => in_string = false,
                _ => {}
            }
            continue;
        }
        match (c, rest.peek()) {
            ('/', Some('/')) if separated => {
                out.push(' ');
                while let Some(c) = rest.next_if(|c| *c != '\n') {
                    out.push(blanked(c));
                }
            }
            ('/', Some('*')) if separated => {
                out.push_str("  ");
                let mut star = false;
                for c in rest.by_ref().skip(1) {
                    out.push(blanked(c));
                    if star && c == '/' {
                        break;
                    }
                    star = c == '*';
                }
            }
            _ => {
                out.push(c);
                in_string = c == '"';
                separated = c.is_whitespace() || matches!(c, '{' | '}' | '[' | ']' | ',' | '"');
            }
        }
    }
    out
}

fn blanked(c: char) -> char {
    if c == '\n' { c } else { ' ' }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_become_blanks_and_lines_stay() {
        let text = "{ // one\n \"a\": /* two\n three **/ 1,\n\"b\": 2 }";
        assert_eq!(blank(text).split_whitespace().collect::<String>(), "{\"a\":1,\"b\":2}");
        assert_eq!(blank(text).lines().count(), text.lines().count());
    }

    #[test]
    fn what_only_looks_like_a_comment_stays() {
        for text in [
            r#"{"url": "http://x/*y*/"}"#,
            r#"{"a": "\"// b"}"#,
            "{url: http://x}",
            "/",
            "\"\\",
        ] {
            assert_eq!(blank(text), text);
        }
    }

    #[test]
    fn a_comment_without_an_end_is_blank_to_the_end() {
        assert_eq!(blank("{} /* x").trim(), "{}");
    }
}
