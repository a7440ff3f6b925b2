//! Updates of single resources: from whoever owns one to the clients that subscribed to it.

use std::borrow::Cow;
use std::sync::Arc;

use bytes::Bytes;
use futures::future::join_all;
use tokio::sync::mpsc;
use tokio::time::{Duration, Instant, sleep};
use tokio_util::task::AbortOnDropHandle;

use super::viewer::Standing;
use crate::defaults;
use crate::fleet::Federation;
use crate::index::skills::{SkillPrefix, rewrite};
use crate::mcp::{Members, subscription};
use crate::upstream::{SubscribeError, Subscriber, Subscription};

/// The updates of several resources, for one client.
#[derive(Debug)]
pub(super) struct Updates {
    arriving: mpsc::Receiver<Arc<str>>,
    _watching: Vec<AbortOnDropHandle<()>>,
}

impl Updates {
    /// Subscribes to `uris` for whom `by` says, and gives those that were accepted: by then updates of theirs are heard.
    pub(super) async fn of(
        federation: &Federation,
        by: &Subscriber,
        uris: &[String],
        standing: &Standing,
    ) -> (Self, Vec<String>) {
        let (sender, arriving) = mpsc::channel(defaults::INTERMEDIATE_MAX);
        let asked = uris.iter().take(defaults::SESSION_SUBSCRIPTIONS_MAX);
        let answers =
            join_all(asked.map(async |uri| (uri, subscribe(federation, by, uri, standing.clone()).await))).await;
        let (mut accepted, mut watching) = (Vec::new(), Vec::new());
        for (uri, answer) in answers {
            match answer {
                Ok(subscription) => {
                    accepted.push(uri.clone());
                    watching.push(AbortOnDropHandle::new(tokio::spawn(watch(
                        subscription,
                        sender.clone(),
                    ))));
                }
                Err(error) => tracing::debug!(reason = error.reason(), uri, "not subscribed to: {error}"),
            }
        }
        let updates = Self {
            arriving,
            _watching: watching,
        };
        (updates, accepted)
    }

    /// The params of the next update. Never where nothing is subscribed to.
    pub(super) async fn next(&mut self) -> Arc<str> {
        match self.arriving.recv().await {
            Some(params) => params,
            None => std::future::pending().await,
        }
    }
}

/// A subscription to one resource as clients know it, until it is dropped: whoever takes the place of the server that
/// it was made with is subscribed to in turn.
#[derive(Debug)]
pub(super) struct Subscribed {
    subscription: Subscription,
    /// When it was made.
    since: Instant,
    /// How long is waited before it is made anew, once its server is let go of.
    pause: Duration,
    by: Subscriber,
    /// Who subscribed, and to what.
    standing: Standing,
    uri: String,
    /// What clients see before the URIs of the owner's skills.
    prefix: Option<SkillPrefix>,
}

impl Subscribed {
    /// The params of the next update; `None` when there will be none any more.
    async fn updated(&mut self) -> Option<Arc<str>> {
        loop {
            let notice = match self.subscription.updated().await {
                Some(notice) => notice,
                None => {
                    self.renew().await?;
                    self.subscription.unheard()
                }
            };
            let params = notice.params;
            let renamed = self.prefix.as_ref().map(|prefix| rewrite::descriptor(&params, prefix));
            let params = match renamed {
                Some(Cow::Owned(renamed)) => renamed.into(),
                Some(Cow::Borrowed(_)) | None => params,
            };
            // What the client may see can have changed since it subscribed.
            let updated = Members::parse(&params).and_then(|params| params.string("uri").map(Cow::into_owned));
            if updated.is_some_and(|updated| self.standing.may_hear(&self.uri, &updated)) {
                return Some(params);
            }
        }
    }

    /// Subscribes with whoever has the resource now. `None` once the federation is served no longer.
    async fn renew(&mut self) -> Option<()> {
        self.pause = pause_after(self.since.elapsed(), self.pause);
        loop {
            sleep(self.pause).await;
            self.pause = (self.pause * 2).min(defaults::RETRY_MAX);
            let federation = self.standing.settled().await?;
            match subscribe(&federation, &self.by, &self.uri, self.standing.clone()).await {
                Ok(renewed) => {
                    let pause = self.pause;
                    *self = Self { pause, ..renewed };
                    return Some(());
                }
                Err(error) => {
                    tracing::debug!(
                        reason = error.reason(),
                        uri = self.uri,
                        "not subscribed to again: {error}"
                    );
                }
            }
        }
    }
}

/// How long to wait before a subscription that lasted so long is renewed, where it was `pause` the last time: servers that go as
/// soon as they have come are asked less and less.
fn pause_after(lasted: Duration, pause: Duration) -> Duration {
    if lasted > pause { defaults::RETRY_MIN } else { pause }
}

/// Passes each update on as `send` takes it.
pub(super) async fn pass_on(mut subscribed: Subscribed, mut send: impl AsyncFnMut(Bytes)) {
    while let Some(params) = subscribed.updated().await {
        send(Bytes::from(subscription::updated(&params, None))).await;
    }
}

/// Why a resource is not subscribed to.
#[derive(Debug, thiserror::Error)]
pub(super) enum NotSubscribed {
    /// Nobody has it.
    #[error("nobody offers it")]
    Unknown,
    /// It is a file of a skill that the federation has itself.
    #[error("it is a file of the federation's own skills, whose changes are told as changes of the list of resources")]
    Own,
    /// The member that has it is not connected.
    #[error("member {0:?} is not connected")]
    Gone(String),
    /// The member that has it does not do it.
    #[error("member {0:?}: {1}")]
    Member(String, SubscribeError),
}

impl NotSubscribed {
    fn reason(&self) -> &'static str {
        match self {
            Self::Unknown => "Unknown",
            Self::Own => "OwnSkill",
            Self::Gone(_) => "NotConnected",
            Self::Member(_, error) => error.reason(),
        }
    }
}

/// Subscribes whom `by` names to the resource `uri`, as far as whoever has this `standing` may see it.
///
/// # Errors
/// Nobody has it, or whoever has it does not take subscriptions now.
pub(super) async fn subscribe(
    federation: &Federation,
    by: &Subscriber,
    uri: &str,
    standing: Standing,
) -> Result<Subscribed, NotSubscribed> {
    let audience = standing.audience(federation);
    let target = federation.index.resource(uri, audience).ok_or(NotSubscribed::Unknown)?;
    if federation.index.is_own(&target) {
        let file = federation.index.own_skills().and_then(|own| own.read(&target.original));
        return Err(file.map_or(NotSubscribed::Unknown, |_| NotSubscribed::Own));
    }
    let member = federation.members.get(target.member).ok_or(NotSubscribed::Unknown)?;
    let name = || member.name.clone();
    let upstream = member.upstream.as_ref().ok_or_else(|| NotSubscribed::Gone(name()))?;
    let subscribed = upstream.subscribe(by, &target.original).await;
    let subscription = subscribed.map_err(|error| NotSubscribed::Member(name(), error))?;
    Ok(Subscribed {
        subscription,
        since: Instant::now(),
        pause: defaults::RETRY_MIN,
        by: by.clone(),
        standing,
        uri: uri.to_owned(),
        prefix: member.skills.clone(),
    })
}

async fn watch(mut subscribed: Subscribed, updates: mpsc::Sender<Arc<str>>) {
    while let Some(params) = subscribed.updated().await {
        // While the client does not read, further updates become one.
        if updates.send(params).await.is_err() {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_lasted_is_renewed_soon_and_what_did_not_less_and_less() {
        let seconds = Duration::from_secs;
        for (lasted, pause, next) in [(12, 2, 1), (3, 2, 1), (1, 2, 2), (0, 30, 30), (31, 30, 1)] {
            assert_eq!(pause_after(seconds(lasted), seconds(pause)), seconds(next), "{lasted}");
        }
    }
}
