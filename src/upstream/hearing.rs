//! What is heard on a connection beside answers: changes, and the words by which a listen begins and ends.

use tokio::sync::watch;

use super::listen_filter::Filter;
use super::news::{News, Origin};
use crate::defaults;
use crate::mcp::message::{Envelope, Kind};
use crate::mcp::notice;
use crate::mcp::object::Members;

/// Takes messages that answer nothing. Nothing here waits.
#[derive(Debug)]
pub(super) struct Hearing<'a> {
    news: &'a News,
    words: &'a Words,
    origin: &'a Origin,
}

/// The last words of a connection on its listens. There are at most two of those, one of them being opened.
#[derive(Debug, Default)]
pub(super) struct Words {
    acknowledged: watch::Sender<Option<(u64, Option<Filter>)>>,
    cancelled: watch::Sender<Option<u64>>,
}

impl<'a> Hearing<'a> {
    pub(super) fn new(news: &'a News, words: &'a Words, origin: &'a Origin) -> Self {
        Self { news, words, origin }
    }

    /// Takes `message`, if it is a notification that says something to us.
    pub(super) fn take(&self, message: &[u8]) {
        let Ok(envelope) = Envelope::parse(message, defaults::JSON_DEPTH_MAX) else {
            return;
        };
        let Ok(Kind::Notification { method }) = envelope.kind() else {
            return;
        };
        match method {
            notice::ACKNOWLEDGED => {
                if let Some(agreed) = Filter::acknowledged(envelope.params) {
                    self.words.acknowledged.send_replace(Some(agreed));
                }
            }
            notice::CANCELLED => {
                let params = envelope.params.and_then(|raw| Members::parse(raw.get()));
                if let Some(id) = params.and_then(|own| own.get("requestId")?.get().parse().ok()) {
                    self.words.cancelled.send_replace(Some(id));
                }
            }
            _ => drop(self.news.take(self.origin, method, envelope.params)),
        }
    }
}

impl Words {
    /// Waits until the server begins to tell what listen `id` asks for; `None` where it does not say what of it.
    pub(super) async fn acknowledged(&self, id: u64) -> Option<Filter> {
        let mut words = self.acknowledged.subscribe();
        let agreed = words
            .wait_for(|word| word.as_ref().is_some_and(|(of, _)| *of == id))
            .await;
        agreed.ok().and_then(|word| word.clone()).and_then(|(_, agreed)| agreed)
    }

    /// Waits until the server gives up listen `id`.
    pub(super) async fn cancelled(&self, id: u64) {
        let mut words = self.cancelled.subscribe();
        // The sender lives as long as the connection.
        drop(words.wait_for(|word| *word == Some(id)).await);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::timeout;

    use super::*;

    const LIMIT: Duration = Duration::from_millis(1);

    #[tokio::test]
    async fn the_words_of_a_listen_are_told_apart_from_those_of_others() {
        let (news, words) = (News::new(true), Words::default());
        let hearing = Hearing::new(&news, &words, &Origin::Catalog);
        let ack = |id: &str| {
            format!(
                r#"{{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{{"_meta":{{"io.modelcontextprotocol/subscriptionId":{id}}},"notifications":{{}}}}}}"#
            )
        };
        hearing.take(ack("8").as_bytes());
        assert!(timeout(LIMIT, words.acknowledged(7)).await.is_err());
        hearing.take(ack("7").as_bytes());
        assert_eq!(timeout(LIMIT, words.acknowledged(7)).await, Ok(Some(Filter::default())));
        hearing.take(br#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"7"}}"#);
        assert!(timeout(LIMIT, words.cancelled(7)).await.is_err());
        hearing.take(br#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":7}}"#);
        timeout(LIMIT, words.cancelled(7)).await.unwrap();
        assert!(timeout(LIMIT, news.list_changed()).await.is_err());
        hearing.take(br#"{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}"#);
        timeout(LIMIT, news.list_changed()).await.unwrap();
    }
}
