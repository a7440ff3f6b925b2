//! One server as the gateway holds it: what others see of it, and what its task and its calls share.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use arc_swap::ArcSwapOption;
use tokio::sync::{Notify, broadcast, watch};
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;

use super::caller::Owner;
use super::capabilities::Capabilities;
use super::endpoint::{Endpoint, Limits, Timeouts};
use super::error::Error;
use super::inner::Inner;
use super::known::Known;
use super::lanes::Lanes;
use super::news::Notice;
use super::request::{Call, Reply};
use super::reread::Rereads;
use super::state::State;
use super::subscriptions::{SubscribeError, Subscriber, Subscription};
use super::supervise::supervise;
use super::task_changes::TaskChanges;
use super::terms::Terms;
use super::turns::Turns;
use crate::mcp::Revision;
use crate::metrics::ServerMetrics;
use crate::seldom::Failing;

/// One server as the gateway holds it.
#[derive(Debug)]
pub struct Upstream {
    inner: Arc<Inner>,
    task: Arc<Task>,
    /// How long requests that go by this are waited for.
    timeouts: Timeouts,
}

/// What holds a server, as long as anybody has it.
#[derive(Debug)]
struct Task {
    handle: Mutex<Option<JoinHandle<()>>>,
    stop: CancellationToken,
}

impl Upstream {
    /// Starts to hold the server `name` (`namespace/name`). Must be called within a runtime.
    pub fn start(name: String, endpoint: Endpoint, terms: Terms, metrics: ServerMetrics) -> Self {
        Self::begin(name, endpoint, terms, metrics, None)
    }

    /// The same for one caller alone; tells then whether it [is at work](Self::is_at_work).
    pub fn start_for_caller(name: String, endpoint: Endpoint, terms: Terms, metrics: ServerMetrics) -> Self {
        Self::begin(name, endpoint, terms, metrics, Some(Arc::default()))
    }

    /// Whether a call is under way, or a resource subscribed to, as far as it is held for one caller.
    pub fn is_at_work(&self) -> bool {
        let at_work = self.inner.at_work.as_ref();
        at_work.is_some_and(|calls| calls.load(Ordering::Acquire) > 0)
    }

    fn begin(
        name: String,
        endpoint: Endpoint,
        terms: Terms,
        metrics: ServerMetrics,
        at_work: Option<Arc<AtomicUsize>>,
    ) -> Self {
        let Terms {
            timeouts,
            pin,
            transport,
            notifications,
            freshness,
            withholds_whole,
            lists,
            forwards: _,
        } = terms;
        let stop = CancellationToken::new();
        let inner = Arc::new(Inner {
            lanes: Lanes::new(name.clone(), endpoint.clone(), timeouts, metrics.clone(), stop.clone()),
            name,
            endpoint,
            timeouts,
            freshness,
            withholds_whole,
            reads_lists: lists,
            at_work,
            known: Arc::new(Known::new(pin, transport, notifications, metrics.clone())),
            live: ArcSwapOption::empty(),
            state: watch::Sender::new(Arc::default()),
            failing: watch::Sender::new(None),
            wake: Notify::new(),
            rereads: Rereads::default(),
            task_looks: Turns::default(),
            search_failures: Failing::default(),
            stop,
            metrics,
        });
        let task = tokio::spawn(supervise(Arc::clone(&inner)));
        let task = Task {
            handle: Mutex::new(Some(task)),
            stop: inner.stop.clone(),
        };
        Self {
            inner,
            task: Arc::new(task),
            timeouts,
        }
    }

    /// The same server by the same connections, with other limits of single requests.
    #[must_use]
    pub fn within(&self, limits: Limits) -> Self {
        Self {
            inner: Arc::clone(&self.inner),
            task: Arc::clone(&self.task),
            timeouts: limits.over(self.inner.timeouts),
        }
    }

    /// What is known of it, now and as it changes.
    pub fn state(&self) -> watch::Receiver<Arc<State>> {
        self.inner.state.subscribe()
    }

    /// The revision that is spoken with it, if that is known.
    pub fn revision(&self) -> Option<Revision> {
        self.inner.state.borrow().peer.as_ref().map(|peer| peer.revision)
    }

    /// What it declared that it can do, in its last handshake.
    pub fn capabilities(&self) -> Capabilities {
        let state = self.inner.state.borrow();
        state.peer.as_ref().map(|peer| peer.capabilities).unwrap_or_default()
    }

    /// How long it is waited for where it finds something.
    pub fn search_timeout(&self) -> Duration {
        self.inner.timeouts.word()
    }

    /// What was said last of how its own search fails.
    pub(crate) fn search_failures(&self) -> &Failing {
        &self.inner.search_failures
    }

    /// Most connections to it that calls may have of their own.
    pub fn lanes_max(&self) -> usize {
        self.inner.lanes.most()
    }

    /// Changes of resources from now on, of those that somebody subscribed to. Who does not keep up loses the oldest.
    pub fn notices(&self) -> broadcast::Receiver<Notice> {
        self.inner.known.news.notices()
    }

    /// Subscribes `owner` to the resource `uri`, as the server knows it, until the subscription is dropped; however many
    /// do, the server is asked once on each connection on which it may tell them. It is kept when connections are made
    /// anew. Waits until the server accepted, at most `timeouts.resource`.
    ///
    /// # Errors
    /// Says why the resource is not subscribed to.
    pub async fn subscribe(&self, by: &Subscriber, uri: &str) -> Result<Subscription, SubscribeError> {
        let known = &self.inner.known;
        if !known.news.are_heeded() {
            return Err(SubscribeError::NotHeeded);
        }
        let connection = self.inner.live.load_full().ok_or(SubscribeError::NotConnected)?;
        if !connection.peer().capabilities.subscribe {
            return Err(SubscribeError::NotOffered);
        }
        let notices = known.news.notices();
        let mut hold = known.subscriptions.hold(by, uri)?;
        timeout(self.timeouts.resource, hold.accepted())
            .await
            .map_err(|_| SubscribeError::Timeout)??;
        self.inner.lanes.subscribed(&by.owner, hold.version()).await;
        let gone = self.inner.stop.clone();
        Ok(Subscription::new(hold, notices, gone, self.inner.begin_work()))
    }

    /// Hears of changes of these tasks, as the server knows them, until what is given is dropped. Where the server does not
    /// tell, they are asked for as `owner` now and then. Waits until the server agreed or answered, at most
    /// `timeouts.resource` for each. `None` where it knows none of them; where they are `known` to have been there, it is
    /// `None` only while the server cannot be asked.
    pub async fn task_changes(&self, tasks: Vec<String>, owner: Owner, known: bool) -> Option<TaskChanges> {
        TaskChanges::of(Arc::clone(&self.inner), owner, tasks, known, self.timeouts.resource).await
    }

    /// Has its lists read as soon as may be, whatever is known of them.
    pub fn refresh(&self) {
        self.inner.rereads.want(&self.inner.wake);
    }

    /// Carries a client's request to the server. Dropping the future cancels it there.
    pub async fn call(&self, call: Call<'_>) -> Result<Reply, Error> {
        let started = Instant::now();
        let _at_work = self.inner.begin_work();
        let reply = self.inner.call(&call, self.timeouts.of_request(call.method)).await;
        // Arguments that cannot be sent are the client's affair: the server was not asked.
        if !matches!(reply, Err(Error::Arguments(_))) {
            self.inner.metrics.request(reply.is_ok(), started.elapsed());
        }
        reply
    }

    /// Tells the server that the client in the session `owner` has other roots now.
    pub async fn roots_changed(&self, owner: &Owner) {
        self.inner.lanes.roots_changed(owner).await;
    }

    /// Closes what the server has for the session `owner`, which is over, calls in flight included.
    pub fn session_ended(&self, owner: &Owner) {
        self.inner.lanes.close_of(owner);
    }

    /// Resolves once the server is let go of. Calls that wait for nothing but the server may still end by themselves then.
    pub fn let_go_of(&self) -> impl Future<Output = ()> + Send + use<> {
        self.inner.stop.clone().cancelled_owned()
    }

    /// Lets go of the server: its sessions are ended, or its processes stopped.
    pub async fn stop(&self) {
        self.inner.stop.cancel();
        let task = self.task.handle.lock().map_or(None, |mut task| task.take());
        if let Some(task) = task
            && let Err(error) = task.await
        {
            tracing::error!(server = self.inner.name, %error, "the upstream's task ended badly");
        }
    }
}

impl Drop for Task {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}
