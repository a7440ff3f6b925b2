//! A message that is longer than is taken: of it only the beginning and the end are known. No IO.
//!
//! Ids stand before the result, or at the very end: which depends on the library that the server is made with.

/// As many bytes of the beginning, and of the end, are kept.
pub(crate) const KEPT: usize = 256;

/// The beginning and the end of a message.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Cut {
    head: Vec<u8>,
    tail: Vec<u8>,
}

impl Cut {
    /// A message of which `known` has come so far.
    pub(crate) fn new(known: &[u8]) -> Self {
        let mut cut = Self {
            head: known.get(..KEPT).unwrap_or(known).to_vec(),
            tail: Vec::with_capacity(2 * KEPT),
        };
        cut.push(known);
        cut
    }

    /// More of it has come.
    pub(crate) fn push(&mut self, more: &[u8]) {
        let more = more.get(more.len().saturating_sub(KEPT)..).unwrap_or_default();
        let surplus = (self.tail.len() + more.len()).saturating_sub(KEPT);
        self.tail.drain(..surplus.min(self.tail.len()));
        self.tail.extend_from_slice(more);
    }

    /// The request of ours that it answers, if that can be told.
    pub(crate) fn answers(&self) -> Option<u64> {
        let members = Beginning::read(&self.head)?;
        if !members.is_answer {
            return None;
        }
        members.id.or_else(|| id_at_end(&self.tail))
    }
}

/// The members before the first one that is neither a string nor a number.
struct Beginning {
    id: Option<u64>,
    is_answer: bool,
}

impl Beginning {
    fn read(head: &[u8]) -> Option<Self> {
        let mut id = None;
        let mut rest = head.trim_ascii_start().strip_prefix(b"{")?;
        loop {
            let (name, behind) = string(rest.trim_ascii_start())?;
            let value = behind.trim_ascii_start().strip_prefix(b":")?.trim_ascii_start();
            if matches!(name, b"result" | b"error") {
                return Some(Self { id, is_answer: true });
            }
            let behind = match value {
                [b'"', ..] => string(value)?.1,
                [b'0'..=b'9', ..] => {
                    let end = value.iter().position(|b| !b.is_ascii_digit())?;
                    let (number, behind) = value.split_at(end);
                    if name == b"id" {
                        id = std::str::from_utf8(number).ok()?.parse().ok();
                    }
                    behind
                }
                _ => return None,
            };
            if name == b"method" {
                return Some(Self { id, is_answer: false });
            }
            rest = behind.trim_ascii_start().strip_prefix(b",")?;
        }
    }
}

/// A string without escapes, and what stands behind it.
fn string(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let text = text.strip_prefix(b"\"")?;
    let end = text.iter().position(|b| matches!(b, b'"' | b'\\'))?;
    let (string, rest) = text.split_at(end);
    Some((string, rest.strip_prefix(b"\"")?))
}

/// The id that is the last member. What stands right before the last brace is a member of the message itself, and a
/// number there is no part of a string.
fn id_at_end(tail: &[u8]) -> Option<u64> {
    let text = tail.trim_ascii_end().strip_suffix(b"}")?.trim_ascii_end();
    let digits = text.iter().rev().take_while(|b| b.is_ascii_digit()).count();
    let (before, number) = text.split_at(text.len() - digits);
    let name = before.trim_ascii_end().strip_suffix(b":")?.trim_ascii_end();
    let before = name.strip_suffix(b"\"id\"")?.trim_ascii_end();
    before.strip_suffix(b",")?;
    std::str::from_utf8(number).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answers(head: &str, tail: &str) -> Option<u64> {
        let mut cut = Cut::new(head.as_bytes());
        for _ in 0..100 {
            cut.push(b"xxxxxxxxxxxxxxxxxxxx");
        }
        cut.push(tail.as_bytes());
        cut.answers()
    }

    #[test]
    fn an_id_is_found_before_the_result_or_at_the_end() {
        assert_eq!(answers(r#"{"jsonrpc":"2.0","id":7,"result":{"#, "}}"), Some(7));
        assert_eq!(
            answers(r#" { "id" : 7 , "jsonrpc" : "2.0", "error" : {"#, "}}"),
            Some(7)
        );
        assert_eq!(
            answers(r#"{"result":{"id":3,"#, r#"},"jsonrpc":"2.0","id":7}"#),
            Some(7)
        );
        assert_eq!(
            answers(r#"{"jsonrpc":"2.0","result":["#, "], \"id\" : 70 } \r"),
            Some(70)
        );
    }

    #[test]
    fn what_cannot_be_told_is_not_guessed() {
        for (head, tail) in [
            ("xxxx", "xxxx"),
            (r#"{"jsonrpc":"2.0","id":7,"method":"roots/list","params":{"#, "}}"),
            (
                r#"{"jsonrpc":"2.0","method":"notifications/message","params":{"#,
                r#"},"id":7}"#,
            ),
            (r#"{"jsonrpc":"2.0","params":{"#, r#"},"id":7}"#),
            (r#"{"jsonrpc":"2.0","result":"#, r#""a,\"id\":7}"#),
            (r#"{"jsonrpc":"2.0","result":"#, r#"{"id":7}}"#),
            (r#"{"jsonrpc":"2.0","result":"#, r#","x\"id":7}"#),
            (r#"{"jsonrpc":"2.0","id":"7","result":"#, "}"),
            (r#"[{"jsonrpc":"2.0","id":7,"result":{"#, "}}]"),
            ("{", "}"),
        ] {
            assert_eq!(answers(head, tail), None, "{head} {tail}");
        }
    }

    #[test]
    fn little_of_it_is_kept() {
        let mut cut = Cut::new(&[b'x'; 100_000]);
        cut.push(&[b'y'; 100_000]);
        cut.push(b"z");
        assert_eq!((cut.head.len(), cut.tail.len()), (KEPT, KEPT));
        assert!(cut.tail.ends_with(b"yz"));
    }
}
