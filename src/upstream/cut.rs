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
        let id = members.id.or_else(|| id_at_end(&self.tail))?;
        id.parse().ok()
    }

    /// The id of the request that it is, as it was written, if it is one and that can be told.
    pub(crate) fn asks(&self) -> Option<String> {
        let members = Beginning::read(&self.head)?;
        if members.is_answer {
            return None;
        }
        members.id.or_else(|| id_at_end(&self.tail))
    }
}

/// The members up to the one that tells what the message is, and an id right behind that.
struct Beginning {
    /// As it was written.
    id: Option<String>,
    is_answer: bool,
}

impl Beginning {
    fn read(head: &[u8]) -> Option<Self> {
        let mut members = Self {
            id: None,
            is_answer: false,
        };
        let mut is_told = false;
        let mut rest = head.trim_ascii_start().strip_prefix(b"{")?;
        loop {
            let Some((name, behind)) = string(rest.trim_ascii_start()) else {
                return is_told.then_some(members);
            };
            let value = behind.trim_ascii_start().strip_prefix(b":")?.trim_ascii_start();
            match name {
                b"result" | b"error" => {
                    members.is_answer = true;
                    return Some(members);
                }
                b"params" => return Some(members),
                _ => {}
            }
            let Some((scalar, behind)) = scalar(value) else {
                return is_told.then_some(members);
            };
            match name {
                b"id" => members.id = std::str::from_utf8(scalar).ok().map(str::to_owned),
                b"method" => is_told = true,
                _ => {}
            }
            match behind.trim_ascii_start().strip_prefix(b",") {
                Some(behind) => rest = behind,
                None => return is_told.then_some(members),
            }
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

/// A string without escapes, with its quotes, or a whole number, and what stands behind it.
fn scalar(text: &[u8]) -> Option<(&[u8], &[u8])> {
    if let Some((inner, _)) = string(text) {
        return text.split_at_checked(inner.len() + 2);
    }
    let end = text.iter().position(|b| !matches!(b, b'-' | b'0'..=b'9'))?;
    (end > 0).then(|| text.split_at(end))
}

/// The id that is the last member. What stands right before the last brace is a member of the message itself, and a
/// number there, or a string whose quotes are not escaped, is no part of another string.
fn id_at_end(tail: &[u8]) -> Option<String> {
    let text = tail.trim_ascii_end().strip_suffix(b"}")?.trim_ascii_end();
    let length = match text.strip_suffix(b"\"") {
        Some(open) => {
            let inner = open.iter().rev().position(|b| matches!(b, b'"' | b'\\'))?;
            inner + 2
        }
        None => text
            .iter()
            .rev()
            .take_while(|b| matches!(b, b'-' | b'0'..=b'9'))
            .count(),
    };
    let (before, id) = text.split_at_checked(text.len().checked_sub(length)?)?;
    let name = before.trim_ascii_end().strip_suffix(b":")?.trim_ascii_end();
    let before = name.strip_suffix(b"\"id\"")?.trim_ascii_end();
    before.strip_suffix(b",")?;
    let id = std::str::from_utf8(id).ok().filter(|id| !id.is_empty())?;
    Some(id.to_owned())
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
    fn a_request_is_known_by_an_id_at_its_beginning_or_end() {
        let asks = |head: &str, tail: &str| {
            let mut cut = Cut::new(head.as_bytes());
            cut.push(&[b'x'; 1000]);
            cut.push(tail.as_bytes());
            cut.asks()
        };
        for (head, tail, expected) in [
            (
                r#"{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"#,
                "}}",
                Some("7"),
            ),
            (
                r#"{"jsonrpc":"2.0","method":"tools/call","id":"a-1","params":{"#,
                "}}",
                Some("\"a-1\""),
            ),
            (
                r#"{"method":"tools/call","params":{"#,
                r#"},"jsonrpc":"2.0","id":12}"#,
                Some("12"),
            ),
            (
                r#"{"method":"tools/call","params":{"#,
                r#"},"jsonrpc":"2.0","id":"u"} "#,
                Some("\"u\""),
            ),
            (r#"{"jsonrpc":"2.0","method":"notifications/x","params":{"#, "}}", None),
            (r#"{"jsonrpc":"2.0","id":7,"result":{"#, "}}", None),
            (
                r#"{"jsonrpc":"2.0","method":"m","params":"x"#,
                r#",\"id\":\"u\"}"#,
                None,
            ),
            (r#"{"jsonrpc":"2.0","method":"m","params":"x"#, r#"\",\"id\":7}""#, None),
            ("[1", "]", None),
        ] {
            assert_eq!(asks(head, tail).as_deref(), expected, "{head} {tail}");
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
