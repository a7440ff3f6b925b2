//! What a line of a child's standard output is.

use std::fmt;

use bytes::Bytes;
use serde::de::{self, Deserialize, Deserializer, SeqAccess, Visitor};
use serde_json::value::RawValue;

use crate::mcp::{Envelope, Id, MessageError, notice};

/// One message of a child.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::upstream) enum Incoming {
    /// The answer to our request of this id: the whole message, as it was written.
    Answer(u64, Bytes),
    /// Progress of our request of this id: the whole message, as it was written.
    Progress(u64, Bytes),
    /// Another notification: the whole message, as it was written.
    Notification(Bytes),
    /// A notification for the client of a call, a log message most often: the whole message, as it was written.
    ForClient(Bytes),
    /// It takes a request of its own back: the whole message, as it was written.
    Withdrawal(Bytes),
    /// A request: the whole message, as it was written.
    Request(Bytes),
    /// Nothing that can be used.
    Junk(Junk),
}

/// Why a line is not used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::upstream) enum Junk {
    /// A banner or a log line, most often.
    NotJson,
    /// JSON, but no JSON-RPC message.
    NotAMessage,
    /// Not even text.
    NotUtf8,
    /// An answer to nothing we asked, or to a call that was given up.
    UnknownId,
}

/// Most messages in one batch: a line of 16 MiB could otherwise hold millions.
const BATCH_MAX: usize = 1_024;

/// Reads one line: a message, or a batch of them, which a 2025-03-26 peer may send.
pub(in crate::upstream) fn read(line: &Bytes) -> Vec<Incoming> {
    if line.iter().all(u8::is_ascii_whitespace) {
        return Vec::new();
    }
    let Ok(text) = std::str::from_utf8(line) else {
        return vec![Incoming::Junk(Junk::NotUtf8)];
    };
    // Depth is for whoever reads params or result; here an answer must reach its call, however deep it is.
    match Envelope::parse(text.as_bytes(), usize::MAX) {
        Ok(envelope) => vec![classify(&envelope, line.clone())],
        Err(MessageError::Parse(_)) => vec![Incoming::Junk(Junk::NotJson)],
        Err(MessageError::Invalid(_)) => vec![Incoming::Junk(Junk::NotAMessage)],
        Err(MessageError::Batch) => read_batch(text),
    }
}

fn read_batch(text: &str) -> Vec<Incoming> {
    let Ok(Batch(messages)) = serde_json::from_str(text) else {
        return vec![Incoming::Junk(Junk::NotAMessage)];
    };
    let read_one = |raw: &RawValue| match Envelope::parse(raw.get().as_bytes(), usize::MAX) {
        // A copy, lest a small notification keep a large line in memory.
        Ok(envelope) => classify(&envelope, Bytes::copy_from_slice(raw.get().as_bytes())),
        Err(_) => Incoming::Junk(Junk::NotAMessage),
    };
    messages.into_iter().map(read_one).collect()
}

/// Answers are taken by their id alone: one that is wrong otherwise is for its caller to refuse, not to wait for.
fn classify(envelope: &Envelope<'_>, message: Bytes) -> Incoming {
    let id = envelope.id.and_then(Id::from_raw);
    match (&envelope.method, envelope.id.is_some(), id) {
        (Some(method), false, _) => match (method.as_str(), notice::progress_token(envelope)) {
            (notice::PROGRESS, Some(token)) => Incoming::Progress(token, message),
            (method, _) if notice::is_for_client(method) => Incoming::ForClient(message),
            (notice::CANCELLED, _) => Incoming::Withdrawal(message),
            _ => Incoming::Notification(message),
        },
        (Some(_), true, Some(_)) => Incoming::Request(message),
        (None, _, Some(id)) => match id.as_json().parse() {
            Ok(number) => Incoming::Answer(number, message),
            Err(_) => Incoming::Junk(Junk::UnknownId),
        },
        _ => Incoming::Junk(Junk::NotAMessage),
    }
}

struct Batch<'a>(Vec<&'a RawValue>);

impl<'de> Deserialize<'de> for Batch<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct BatchVisitor;
        impl<'de> Visitor<'de> for BatchVisitor {
            type Value = Batch<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "at most {BATCH_MAX} messages")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut elements: A) -> Result<Self::Value, A::Error> {
                let mut messages = Vec::new();
                while let Some(message) = elements.next_element()? {
                    if messages.len() == BATCH_MAX {
                        return Err(de::Error::invalid_length(BATCH_MAX + 1, &self));
                    }
                    messages.push(message);
                }
                Ok(Batch(messages))
            }
        }
        deserializer.deserialize_seq(BatchVisitor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(line: &str) -> Incoming {
        let mut all = read(&Bytes::copy_from_slice(line.as_bytes()));
        assert_eq!(all.len(), 1, "{line}");
        all.remove(0)
    }

    #[test]
    fn an_answer_is_taken_by_its_numeric_id_and_kept_as_written() {
        let line = r#" {"x": 1.0, "jsonrpc":"2.0","id":7,"result":{"n":9007199254740993}}"#;
        assert_eq!(one(line), Incoming::Answer(7, line.into()));
        for wrong in [r#"{"id":7,"result":{},"error":null}"#, r#"{"jsonrpc":"2.0","id":7}"#] {
            assert_eq!(one(wrong), Incoming::Answer(7, wrong.into()));
        }
        for id in ["\"7\"", "7.0", "-7", "\"a\"", "18446744073709551616"] {
            let line = format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{}}}}"#);
            assert_eq!(one(&line), Incoming::Junk(Junk::UnknownId), "{id}");
        }
    }

    #[test]
    fn an_answer_nested_without_end_still_reaches_its_call() {
        let line = format!(
            r#"{{"jsonrpc":"2.0","id":1,"result":{}{}}}"#,
            "[".repeat(100_000),
            "]".repeat(100_000)
        );
        assert!(matches!(one(&line), Incoming::Answer(1, _)));
    }

    #[test]
    fn requests_are_kept_whole_and_notifications_told_apart() {
        let request = r#"{"jsonrpc":"2.0","id":"p-1","method":"ping"}"#;
        assert_eq!(one(request), Incoming::Request(request.into()));
        let log = r#"{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":1}}"#;
        assert_eq!(one(log), Incoming::ForClient(log.into()));
        let withdrawal = r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"p-1"}}"#;
        assert_eq!(one(withdrawal), Incoming::Withdrawal(withdrawal.into()));
        let progress = r#"{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":3}}"#;
        assert_eq!(one(progress), Incoming::Progress(3, progress.into()));
    }

    #[test]
    fn what_is_no_message_is_told_apart() {
        assert_eq!(read(&Bytes::from_static(b" \t ")), vec![]);
        assert_eq!(one("Server running on stdio"), Incoming::Junk(Junk::NotJson));
        assert_eq!(one("[info] started"), Incoming::Junk(Junk::NotJson));
        assert_eq!(one("42"), Incoming::Junk(Junk::NotAMessage));
        assert_eq!(one(r#"{"level":"info"}"#), Incoming::Junk(Junk::NotAMessage));
        assert_eq!(
            one(r#"{"jsonrpc":"2.0","id":null,"method":"a"}"#),
            Incoming::Junk(Junk::NotAMessage)
        );
        let bytes = Bytes::from_static(b"{\"jsonrpc\":\"2.0\",\"method\":\"\xff\"}");
        assert_eq!(read(&bytes), vec![Incoming::Junk(Junk::NotUtf8)]);
    }

    #[test]
    fn a_batch_is_read_message_by_message() {
        let notification = r#"{"jsonrpc":"2.0","method":"notifications/progress"}"#;
        let answer = r#"{"jsonrpc":"2.0","id":3,"result":{}}"#;
        let batch = Bytes::from(format!("[{notification}, {answer}, 1, []]"));
        let expected = vec![
            Incoming::Notification(notification.into()),
            Incoming::Answer(3, answer.into()),
            Incoming::Junk(Junk::NotAMessage),
            Incoming::Junk(Junk::NotAMessage),
        ];
        assert_eq!(read(&batch), expected);
    }

    #[test]
    fn a_batch_of_too_many_is_not_read() {
        let batch = |n| Bytes::from(format!("[{}0]", "0,".repeat(n - 1)));
        assert_eq!(read(&batch(BATCH_MAX)).len(), BATCH_MAX);
        assert_eq!(read(&batch(BATCH_MAX + 1)), vec![Incoming::Junk(Junk::NotAMessage)]);
    }
}
