//! Lines of a byte stream, bounded before they are kept.

use std::io;

use bytes::Bytes;
use tokio::io::{AsyncBufRead, AsyncBufReadExt, AsyncReadExt};

use crate::mcp::printable::acts_on_the_line;

/// Reads lines of at most `limit` bytes.
#[derive(Debug)]
pub(crate) struct Lines<R> {
    reader: R,
    limit: usize,
}

/// One line without its end (`\n` or `\r\n`).
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Line {
    /// All of it.
    Whole(Vec<u8>),
    /// Its first bytes, as many as the limit allows; [`Lines::skip_rest`] goes on behind it.
    Cut(Vec<u8>),
}

impl<R: AsyncBufRead + Unpin> Lines<R> {
    /// The lines of `reader`.
    pub(crate) fn new(reader: R, limit: usize) -> Self {
        Self { reader, limit }
    }

    /// The next line, or `None` at the end. A last line without an end is a line too.
    pub(crate) async fn next(&mut self) -> io::Result<Option<Line>> {
        let mut line = Vec::new();
        // One byte more for the end of a line of exactly the limit.
        let most = u64::try_from(self.limit).unwrap_or(u64::MAX).saturating_add(1);
        let read = (&mut self.reader).take(most).read_until(b'\n', &mut line).await?;
        if read == 0 {
            return Ok(None);
        }
        if line.last() == Some(&b'\n') {
            line.pop();
            if line.last() == Some(&b'\r') {
                line.pop();
            }
        } else if line.len() > self.limit {
            line.truncate(self.limit);
            return Ok(Some(Line::Cut(line)));
        }
        Ok(Some(Line::Whole(line)))
    }

    /// Reads on to the end of the line without keeping anything.
    pub(crate) async fn skip_rest(&mut self) -> io::Result<()> {
        self.pass_rest(|_| ()).await
    }

    /// Reads on to the end of the line without keeping anything; what there is passes by `see`, in parts.
    pub(crate) async fn pass_rest(&mut self, mut see: impl FnMut(&[u8])) -> io::Result<()> {
        loop {
            // What is buffered is read without waiting: a line without end must not keep the thread.
            tokio::task::consume_budget().await;
            let available = self.reader.fill_buf().await?;
            let end = available.iter().position(|b| *b == b'\n');
            let used = end.map_or(available.len(), |end| end + 1);
            see(available.get(..end.unwrap_or(used)).unwrap_or_default());
            self.reader.consume(used);
            if end.is_some() || used == 0 {
                return Ok(());
            }
        }
    }
}

/// A message of one line. JSON is passed on as it was written, line ends between its tokens included; within strings
/// JSON has none, so that they can become spaces.
pub(crate) fn one_line(message: Bytes) -> Bytes {
    let is_line_end = |b: &u8| matches!(b, b'\n' | b'\r');
    if !message.iter().any(is_line_end) {
        return message;
    }
    message.iter().map(|b| if is_line_end(b) { b' ' } else { *b }).collect()
}

/// A line of a log as text: control characters and terminal sequences are taken out, bad UTF-8 is replaced.
pub(crate) fn printable(line: &[u8]) -> String {
    let text = String::from_utf8_lossy(line);
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        match c {
            '\u{1b}' => skip_sequence(&mut chars),
            '\t' => out.push(' '),
            c if acts_on_the_line(c) => {}
            c => out.push(c),
        }
    }
    out
}

/// Skips the rest of a terminal sequence (ECMA-48, 5.4): `[`, parameters, one final character.
fn skip_sequence(chars: &mut std::str::Chars<'_>) {
    if chars.next() == Some('[') {
        chars.find(|c| ('@'..='~').contains(c));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn lines(text: &[u8], limit: usize) -> Vec<Line> {
        let mut lines = Lines::new(text, limit);
        let mut all = Vec::new();
        while let Some(line) = lines.next().await.unwrap() {
            all.push(line);
        }
        all
    }

    fn whole(text: &str) -> Line {
        Line::Whole(text.into())
    }

    #[tokio::test]
    async fn line_ends_are_taken_off_and_a_last_line_without_one_counts() {
        let expected = vec![whole("a"), whole("b"), whole(""), whole("c")];
        assert_eq!(lines(b"a\nb\r\n\nc", 9).await, expected);
        assert_eq!(lines(b"", 9).await, vec![]);
    }

    #[tokio::test]
    async fn a_line_of_the_limit_is_whole_and_a_longer_one_is_cut() {
        assert_eq!(lines(b"abc\nd\n", 3).await, vec![whole("abc"), whole("d")]);
        assert_eq!(lines(b"abcd\n", 3).await, vec![Line::Cut("abc".into()), whole("")]);
    }

    #[tokio::test]
    async fn the_rest_of_a_cut_line_can_be_skipped() {
        let mut lines = Lines::new(&b"abcdefgh\nij"[..], 3);
        assert_eq!(lines.next().await.unwrap(), Some(Line::Cut("abc".into())));
        let mut passed = Vec::new();
        lines.pass_rest(|part| passed.extend_from_slice(part)).await.unwrap();
        assert_eq!(passed, b"efgh");
        assert_eq!(lines.next().await.unwrap(), Some(whole("ij")));
        lines.skip_rest().await.unwrap();
        assert_eq!(lines.next().await.unwrap(), None);
    }

    #[test]
    fn colours_and_control_characters_do_not_reach_a_terminal() {
        assert_eq!(
            printable(b"\x1b[1;31mError\x1b[0m:\tno \x07bell\xff"),
            "Error: no bell\u{fffd}"
        );
        assert_eq!(printable(b"end\x1b["), "end");
    }
}
