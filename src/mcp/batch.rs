//! A batch of messages, unread (2025-03-26, base protocol).

use std::fmt;

use serde::de::{Deserialize, Deserializer, IgnoredAny, SeqAccess, Visitor};
use serde_json::value::RawValue;

use super::message::{Envelope, Kind};
use crate::defaults;

/// The messages of a batch as far as there may be any, and how many there are.
#[derive(Debug)]
pub struct Batch<'b> {
    /// At most [`defaults::BATCH_MAX`] of them.
    pub first: Vec<&'b RawValue>,
    /// How many there are.
    pub count: usize,
}

impl<'b> Batch<'b> {
    /// Reads `text`.
    ///
    /// # Errors
    /// If it is no array.
    pub fn parse(text: &'b [u8]) -> Result<Self, serde_json::Error> {
        serde_json::from_slice(text)
    }

    /// Whether one of its messages is an answer or a notification.
    pub fn tells(&self) -> bool {
        self.first.iter().any(|part| tells(part.get().as_bytes()))
    }
}

/// Whether `message` is an answer or a notification, for which requests at work may be waiting.
pub fn tells(message: &[u8]) -> bool {
    let read = Envelope::parse(message, defaults::JSON_DEPTH_MAX);
    let kind = read.as_ref().ok().and_then(|envelope| envelope.kind().ok());
    matches!(kind, Some(Kind::Notification { .. } | Kind::Response { .. }))
}

impl<'de> Deserialize<'de> for Batch<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Counting;

        impl<'de> Visitor<'de> for Counting {
            type Value = Batch<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a batch")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut all: A) -> Result<Self::Value, A::Error> {
                let mut first = Vec::new();
                while first.len() < defaults::BATCH_MAX {
                    let Some(part) = all.next_element()? else { break };
                    first.push(part);
                }
                let mut count = first.len();
                while all.next_element::<IgnoredAny>()?.is_some() {
                    count += 1;
                }
                Ok(Batch { first, count })
            }
        }

        deserializer.deserialize_seq(Counting)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_tells_something_if_one_of_its_messages_does() {
        const PING: &str = r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;
        const ANSWER: &str = r#"{"jsonrpc":"2.0","id":1,"result":{}}"#;
        const NOTICE: &str = r#"{"jsonrpc":"2.0","method":"notifications/cancelled"}"#;
        for (messages, expected) in [
            (vec![PING], false),
            (vec![PING, ANSWER], true),
            (vec![NOTICE, PING], true),
            (vec![], false),
            (vec!["1", "{}", "[]"], false),
        ] {
            let text = format!("[{}]", messages.join(","));
            assert_eq!(Batch::parse(text.as_bytes()).unwrap().tells(), expected, "{text}");
        }
        assert!(tells(ANSWER.as_bytes()) && tells(NOTICE.as_bytes()) && !tells(PING.as_bytes()));
    }
}
