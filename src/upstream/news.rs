//! What a server says beside its answers, whatever connection and stream it says it on.

use std::sync::Arc;

use serde_json::value::RawValue;
use tokio::sync::{Notify, broadcast};

use super::caller::Owner;
use crate::defaults;
use crate::mcp::notice;

/// Takes what a server says of changes, from whoever reads from it. Nothing here waits.
#[derive(Debug)]
pub(crate) struct News {
    heeded: bool,
    lists_changed: Notify,
    notices: broadcast::Sender<Notice>,
}

/// On which of the connections to a server something is said, and so who may hear of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// The one that reads the catalog: everybody.
    Catalog,
    /// The lane that all share who cannot be asked anything: everybody.
    Shared,
    /// A lane of this owner: nobody else. Of those without a name nobody knows whom it could be for.
    Lane(Owner),
}

/// A change of one resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notice {
    /// The resource that changed: one that was subscribed to, or a part of one.
    pub uri: Arc<str>,
    /// The params of the notification as the server wrote them, a JSON object, without what names our subscription.
    pub params: Arc<str>,
    pub(super) origin: Origin,
}

impl News {
    /// With `heeded` false changes are not acted on: the owner of the server wants it so.
    pub(crate) fn new(heeded: bool) -> Self {
        Self {
            heeded,
            lists_changed: Notify::new(),
            notices: broadcast::Sender::new(defaults::NOTICES_KEPT),
        }
    }

    /// Whether changes are acted on.
    pub(crate) fn are_heeded(&self) -> bool {
        self.heeded
    }

    /// Takes a notification that came on the connection `origin`. False if it tells of no change.
    pub(crate) fn take(&self, origin: &Origin, method: &str, params: Option<&RawValue>) -> bool {
        if notice::is_list_changed(method) {
            self.lists_may_have_changed();
            return true;
        }
        if method != notice::RESOURCE_UPDATED {
            return false;
        }
        if let Some((uri, params)) = params.and_then(|params| notice::updated(params.get())) {
            self.resource_changed(Notice {
                uri: uri.into(),
                params: params.into(),
                origin: origin.clone(),
            });
        }
        true
    }

    /// A list changed, or may have, unheard.
    pub(crate) fn lists_may_have_changed(&self) {
        if self.heeded {
            self.lists_changed.notify_one();
        }
    }

    /// A resource changed, or may have, unheard.
    pub(crate) fn resource_changed(&self, notice: Notice) {
        if self.heeded {
            // Nobody may be listening.
            drop(self.notices.send(notice));
        }
    }

    /// Resolves when a list changed since this resolved last. For one reader.
    pub(crate) async fn list_changed(&self) {
        self.lists_changed.notified().await;
    }

    /// The changes of resources from now on; who does not keep up loses the oldest.
    pub(crate) fn notices(&self) -> broadcast::Receiver<Notice> {
        self.notices.subscribe()
    }
}

impl Notice {
    /// What is told of a resource that may have changed unheard.
    pub(crate) fn of(uri: &Arc<str>) -> Self {
        Self {
            uri: Arc::clone(uri),
            params: serde_json::json!({"uri": &**uri}).to_string().into(),
            origin: Origin::Catalog,
        }
    }

    /// Whether `owner` may hear of it: what is said on somebody's own lane is for nobody else.
    pub(crate) fn is_for(&self, owner: &Owner) -> bool {
        match &self.origin {
            Origin::Catalog | Origin::Shared => true,
            Origin::Lane(Owner::Nobody) => false,
            Origin::Lane(own) => own == owner,
        }
    }

    /// Whether it concerns whoever subscribed to `uri`: it is of this resource, or of a part of it.
    pub fn concerns(&self, uri: &str) -> bool {
        match self.uri.strip_prefix(uri) {
            None => false,
            Some("") => true,
            Some(part) => uri.ends_with('/') || part.starts_with(['/', '?', '#']),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn say(news: &News, method: &str, params: &str) {
        let params: Box<RawValue> = serde_json::from_str(params).unwrap();
        news.take(&Origin::Catalog, method, Some(&params));
    }

    #[tokio::test]
    async fn changes_are_told_as_they_were_written_and_other_things_are_not() {
        let news = News::new(true);
        let mut notices = news.notices();
        say(&news, "notifications/message", r#"{"level":"info","data":1}"#);
        say(&news, "notifications/resources/updated", r#"{"no":"uri"}"#);
        say(
            &news,
            "notifications/resources/updated",
            r#"{ "uri":"a:\/\/b", "x": 1.0, "_meta":{"io.modelcontextprotocol/subscriptionId":4,"k":[ ]}}"#,
        );
        let notice = notices.try_recv().unwrap();
        assert_eq!(&*notice.uri, "a://b");
        assert_eq!(&*notice.params, r#"{"uri":"a:\/\/b","x":1.0,"_meta":{"k":[ ]}}"#);
        assert!(notices.try_recv().is_err());
    }

    #[tokio::test]
    async fn many_changes_of_lists_are_one_and_none_is_heeded_where_the_owner_says_so() {
        let limit = std::time::Duration::from_millis(1);
        for (heeded, expected) in [(true, 1), (false, 0)] {
            let news = News::new(heeded);
            for kind in ["tools", "prompts", "resources"] {
                say(&news, &format!("notifications/{kind}/list_changed"), "{}");
            }
            let mut told = 0;
            while tokio::time::timeout(limit, news.list_changed()).await.is_ok() {
                told += 1;
            }
            assert_eq!(told, expected);
        }
    }

    #[test]
    fn a_change_concerns_those_who_subscribed_to_the_resource_or_to_what_holds_it() {
        let notice = |uri: &str| Notice::of(&uri.into());
        assert!(notice("file:///a").concerns("file:///a"));
        assert!(notice("file:///a/b").concerns("file:///a"));
        assert!(notice("file:///a/b").concerns("file:///a/"));
        assert!(notice("file:///a#part").concerns("file:///a"));
        assert!(!notice("file:///ab").concerns("file:///a"));
        assert!(!notice("file:///a").concerns("file:///a/b"));
    }
}
