//! One task per upstream: connect, read the catalog, keep both fresh, and try again with patience.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use arc_swap::ArcSwapOption;
use tokio::sync::{Notify, broadcast, watch};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, sleep_until, timeout, timeout_at};
use tokio_util::sync::CancellationToken;

use super::caller::Owner;
use super::capabilities::Capabilities;
use super::connection::Connection;
use super::endpoint::{Endpoint, Timeouts};
use super::error::Error;
use super::known::Known;
use super::lanes::{Lanes, lane_for};
use super::listening::{self, Beginning};
use super::lists;
use super::news::Notice;
use super::questions::Questions;
use super::request::{Call, Reply};
use super::reread::Rereads;
use super::state::{Health, State};
use super::subscriptions::{SubscribeError, Subscription, Subscriptions};
use super::task_changes::TaskChanges;
use super::terms::Terms;
use crate::defaults;
use crate::index::{Annotations, Catalog, List};
use crate::mcp::{Era, Method, Revision};
use crate::metrics::ServerMetrics;

/// One server as the gateway holds it.
#[derive(Debug)]
pub struct Upstream {
    inner: Arc<Inner>,
    task: Mutex<Option<JoinHandle<()>>>,
}

#[derive(Debug)]
struct Inner {
    name: String,
    endpoint: Endpoint,
    timeouts: Timeouts,
    known: Arc<Known>,
    /// The connection that everybody shares: it reads the catalog.
    live: ArcSwapOption<Connection>,
    lanes: Arc<Lanes>,
    state: watch::Sender<Arc<State>>,
    wake: Notify,
    /// A call found nobody there: whether the server can be called must be looked at again.
    doubt: Notify,
    rereads: Rereads,
    stop: CancellationToken,
    metrics: ServerMetrics,
}

impl Upstream {
    /// Starts to hold the server `name` (`namespace/name`). Must be called within a runtime.
    pub fn start(name: String, endpoint: Endpoint, terms: Terms, metrics: ServerMetrics) -> Self {
        let Terms {
            timeouts,
            pin,
            transport,
            notifications,
        } = terms;
        let stop = CancellationToken::new();
        let inner = Arc::new(Inner {
            lanes: Lanes::new(name.clone(), endpoint.clone(), timeouts, metrics.clone(), stop.clone()),
            name,
            endpoint,
            timeouts,
            known: Arc::new(Known::new(pin, transport, notifications)),
            live: ArcSwapOption::empty(),
            state: watch::Sender::new(Arc::default()),
            wake: Notify::new(),
            doubt: Notify::new(),
            rereads: Rereads::default(),
            stop,
            metrics,
        });
        inner.metrics.up(false);
        let task = tokio::spawn(supervise(Arc::clone(&inner)));
        Self {
            inner,
            task: Mutex::new(Some(task)),
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

    /// Most connections to it that calls may have of their own.
    pub fn lanes_max(&self) -> usize {
        self.inner.lanes.most()
    }

    /// Changes of resources from now on, of those that somebody subscribed to. Who does not keep up loses the oldest.
    pub fn notices(&self) -> broadcast::Receiver<Notice> {
        self.inner.known.news.notices()
    }

    /// Subscribes to the resource `uri`, as the server knows it, until the subscription is dropped; however many do, the
    /// server is asked once. It is kept when the connection is made anew. Waits until the server accepted, at most
    /// `timeouts.resource`.
    ///
    /// # Errors
    /// Says why the resource is not subscribed to.
    pub async fn subscribe(&self, uri: &str) -> Result<Subscription, SubscribeError> {
        let known = &self.inner.known;
        if !known.news.are_heeded() {
            return Err(SubscribeError::NotHeeded);
        }
        let connection = self.inner.live.load_full().ok_or(SubscribeError::NotConnected)?;
        if !connection.peer().capabilities.subscribe {
            return Err(SubscribeError::NotOffered);
        }
        let notices = known.news.notices();
        let mut hold = Subscriptions::hold(known, uri)?;
        timeout(self.inner.timeouts.resource, hold.accepted())
            .await
            .map_err(|_| SubscribeError::Timeout)??;
        Ok(Subscription::new(hold, notices))
    }

    /// Hears of changes of these tasks, as the server knows them, until what is given is dropped. Waits until the server
    /// agreed, at most `timeouts.resource`. `None` where it does not tell.
    pub async fn task_changes(&self, tasks: Vec<String>) -> Option<TaskChanges> {
        let inner = Arc::clone(&self.inner);
        let (stop, limit) = (inner.stop.clone(), inner.timeouts.resource);
        let connect = move || {
            let inner = Arc::clone(&inner);
            async move { inner.shared().await }
        };
        timeout(limit, TaskChanges::listen(connect, tasks, stop)).await.ok()?
    }

    /// Carries a client's request to the server. Dropping the future cancels it there.
    pub async fn call(&self, call: Call<'_>) -> Result<Reply, Error> {
        let started = Instant::now();
        let reply = self.inner.call(&call).await;
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

    /// Lets go of the server: its sessions are ended, or its processes stopped.
    pub async fn stop(&self) {
        self.inner.stop.cancel();
        let task = self.task.lock().map_or(None, |mut task| task.take());
        if let Some(task) = task
            && let Err(error) = task.await
        {
            tracing::error!(server = self.inner.name, %error, "the upstream's task ended badly");
        }
    }
}

impl Drop for Upstream {
    fn drop(&mut self) {
        self.inner.stop.cancel();
    }
}

impl Inner {
    /// Whether the server did what it did not answer, nobody knows. So only what may be done twice is sent again, once.
    async fn call(&self, call: &Call<'_>) -> Result<Reply, Error> {
        match self.call_once(call).await {
            Err(Error::CutOff) if self.may_be_repeated(call) => {
                if let Some(ear) = &call.ear {
                    ear.begins_again();
                }
                self.call_once(call).await
            }
            answer => answer,
        }
    }

    fn may_be_repeated(&self, call: &Call<'_>) -> bool {
        // What answers a question is good for one time.
        call.answers.is_none()
            && match call.method {
                Method::ToolsCall => {
                    let catalog = self.state.borrow().catalog.clone();
                    let tools = catalog.as_ref().map_or(&[][..], |catalog| &catalog.tools);
                    tools
                        .iter()
                        .any(|tool| tool.key == call.target && tool.may_be_repeated())
                }
                _ => true,
            }
    }

    async fn call_once(&self, call: &Call<'_>) -> Result<Reply, Error> {
        let connection = self.shared().await?;
        if let Some(sharing) = lane_for(connection.holds(), &call.owner, call.features) {
            let limit = self.limit(call.method);
            let answer = self.lanes.call(&connection, sharing, call, limit).await;
            let is_in_doubt = match &answer {
                Ok(reply) => reply.names_the_unknown() && !call.method.is_of_tasks(),
                Err(error) => matches!(error, Error::Connect(_) | Error::Status(400 | 404 | 405)),
            };
            if is_in_doubt {
                self.doubt.notify_one();
            }
            return answer;
        }
        // Sent again is only what the server did not take, so that nothing is done twice.
        match self.send(&connection, call).await {
            Err(Error::SessionLost) => {
                let renewed = self.renewed(&connection).await?;
                self.send(&renewed, call).await
            }
            Ok(reply)
                if call.method == Method::ToolsCall
                    && connection.annotations() == Annotations::Binding
                    && reply.refuses_headers() =>
            {
                self.send_as_annotated_now(call).await.unwrap_or(Ok(reply))
            }
            // Nobody is there, or a server of another era.
            Err(error @ (Error::Connect(_) | Error::Status(400 | 404 | 405))) => {
                self.doubt.notify_one();
                Err(error)
            }
            // What is offered may have changed without a word.
            Ok(reply) if reply.names_the_unknown() && !call.method.is_of_tasks() => {
                self.doubt.notify_one();
                Ok(reply)
            }
            Ok(reply) if connection.peer().era() == Era::Modern && reply.is_of_no_request() => {
                self.doubt.notify_one();
                Ok(reply)
            }
            answer => answer,
        }
    }

    /// Reads the catalog again and sends `call` with the headers that the tool wants now. `None` if there is no such
    /// tool any more, or no way to know.
    async fn send_as_annotated_now(&self, call: &Call<'_>) -> Option<Result<Reply, Error>> {
        let limit = self.timeouts.list + defaults::REREAD_PAUSE;
        if !self.rereads.ask(&self.wake, limit).await {
            return None;
        }
        let catalog = self.state.borrow().catalog.clone()?;
        let tool = catalog.tools.iter().find(|tool| tool.key == call.target)?;
        let connection = self.live.load_full()?;
        let call = Call {
            param_headers: tool.param_headers.as_deref(),
            ..call.clone()
        };
        Some(self.send(&connection, &call).await)
    }

    async fn send(&self, connection: &Arc<Connection>, call: &Call<'_>) -> Result<Reply, Error> {
        connection.call(call, self.limit(call.method)).await
    }

    fn limit(&self, method: Method) -> Option<Duration> {
        match method {
            Method::ResourcesRead => Some(self.timeouts.resource),
            _ if method.is_of_tasks() => Some(self.timeouts.resource),
            _ => self.timeouts.call,
        }
    }

    /// The connection that everybody shares; waited for while it is made again.
    async fn shared(&self) -> Result<Arc<Connection>, Error> {
        match self.live.load_full() {
            Some(connection) => Ok(connection),
            None if self.state.borrow().health == Health::Ready => self.reconnected().await,
            None => Err(self.not_connected()),
        }
    }

    /// The connection that takes the place of `lost`; made once for all who wait for it.
    async fn renewed(&self, lost: &Arc<Connection>) -> Result<Arc<Connection>, Error> {
        self.live.compare_and_swap(lost, None);
        self.wake.notify_one();
        self.reconnected().await
    }

    /// The next connection, as soon as there is one.
    async fn reconnected(&self) -> Result<Arc<Connection>, Error> {
        let mut state = self.state.subscribe();
        let deadline = Instant::now() + self.timeouts.connect;
        loop {
            if let Some(connection) = self.live.load_full() {
                return Ok(connection);
            }
            if !matches!(timeout_at(deadline, state.changed()).await, Ok(Ok(()))) {
                return Err(Error::SessionLost);
            }
            if matches!(state.borrow_and_update().health, Health::Failed(_)) {
                return Err(self.not_connected());
            }
        }
    }

    fn not_connected(&self) -> Error {
        match &self.state.borrow().health {
            Health::Failed(error) => Error::NotConnected(error.to_string()),
            Health::Connecting | Health::Ready => Error::NotConnected("it is still being connected".into()),
        }
    }

    /// Connects.
    async fn connect(&self) -> Result<Arc<Connection>, Error> {
        let questions = Questions::none();
        let opened = Connection::open(&self.name, &self.endpoint, self.timeouts, &questions, &self.known).await;
        opened.map(Arc::new)
    }

    /// Serves from `connection` and listens on it until it is of no more use. `None`: the server is let go of.
    async fn use_up(&self, connection: &Arc<Connection>) -> Option<Ended> {
        let (beginning, was_ready) = (Beginning::now(), AtomicBool::new(false));
        let error = tokio::select! {
            () = self.stop.cancelled() => return None,
            error = self.hold(connection, &beginning, &was_ready) => error,
            error = listening::listen(connection, self.timeouts, &beginning) => error,
        };
        let was_ready = was_ready.into_inner();
        Some(Ended { error, was_ready })
    }

    /// Reads the catalog over `connection` and publishes both.
    async fn refresh(&self, connection: &Arc<Connection>) -> Result<(), Error> {
        let asked = self.rereads.begin();
        let catalog = lists::read_catalog(connection, self.timeouts).await?;
        self.tell_left_out(&catalog);
        for list in List::ALL {
            self.metrics.items(list, catalog.list(list).len());
        }
        self.metrics.up(true);
        self.live.store(Some(Arc::clone(connection)));
        // Told even where nothing changed: calls may be waiting for the new connection.
        self.state.send_modify(|state| {
            let same_catalog = state
                .catalog
                .as_ref()
                .is_some_and(|known| known.era == catalog.era && known.digest() == catalog.digest());
            let same_peer = state.peer.as_ref() == Some(connection.peer());
            if state.health == Health::Ready && same_catalog && same_peer {
                return;
            }
            let catalog = if same_catalog {
                state.catalog.clone()
            } else {
                Some(Arc::new(catalog))
            };
            *state = Arc::new(State {
                health: Health::Ready,
                peer: Some(Arc::clone(connection.peer())),
                catalog,
            });
        });
        self.rereads.done(asked);
        Ok(())
    }

    /// Tells what `catalog` leaves out and the one before did not: it would be missed without a trace.
    fn tell_left_out(&self, catalog: &Catalog) {
        self.metrics.withheld(catalog.withheld.len() + catalog.withheld_more);
        let before = self.state.borrow().catalog.clone();
        let (known, known_more) = before.as_deref().map_or((&[][..], 0), |catalog| {
            (catalog.withheld.as_slice(), catalog.withheld_more)
        });
        for tool in catalog.withheld.iter().filter(|tool| !known.contains(tool)) {
            let (name, cause) = (&tool.name, &tool.cause);
            tracing::warn!(
                server = self.name,
                tool = name,
                reason = cause.reason(),
                "a tool is withheld: {cause}"
            );
        }
        if catalog.withheld_more != known_more {
            tracing::warn!(
                server = self.name,
                more = catalog.withheld_more,
                "more tools are withheld"
            );
        }
        let known = before.as_deref().map_or(&[][..], |catalog| &catalog.nameless);
        for (list, count) in catalog.nameless.iter().filter(|entry| !known.contains(entry)) {
            tracing::warn!(
                server = self.name,
                list = list.member(),
                count,
                "entries without {} are left out; the server must give them one",
                list.key()
            );
        }
    }

    /// Publishes a failure; the catalog stays until `keep_catalog` is false.
    fn failed(&self, error: Error, keep_catalog: bool) {
        self.metrics.up(false);
        self.metrics.failure(error.reason());
        self.state.send_if_modified(|state| {
            let catalog = state.catalog.clone().filter(|_| keep_catalog);
            let health = Health::Failed(error);
            if state.health == health && catalog.is_some() == state.catalog.is_some() {
                return false;
            }
            if state.health != health {
                tracing::warn!(server = self.name, reason = health.reason(), "{health}");
            }
            *state = Arc::new(State {
                health,
                peer: state.peer.clone(),
                catalog,
            });
            true
        });
    }

    /// Reads the catalog and keeps it fresh until the connection fails.
    async fn hold(&self, connection: &Arc<Connection>, beginning: &Beginning, was_ready: &AtomicBool) -> Error {
        beginning.settled().await;
        if let Err(error) = self.refresh(connection).await {
            return error;
        }
        was_ready.store(true, Ordering::Relaxed);
        let peer = connection.peer();
        tracing::info!(server = self.name, revision = %peer.revision_name, name = peer.name, "connected");
        let mut read_at = Instant::now();
        loop {
            tokio::select! {
                error = connection.closed() => return error,
                () = self.known.news.list_changed() => {
                    // A server that says so all the time is believed once a second.
                    sleep_until(read_at + defaults::REREAD_PAUSE).await;
                    sleep(defaults::COALESCE).await;
                }
                () = self.doubt.notified() => sleep_until(read_at + defaults::REREAD_PAUSE).await,
                () = sleep(defaults::CATALOG_TTL) => {}
                () = self.wake.notified() => {
                    if self.live.load().is_none() {
                        return Error::SessionLost;
                    }
                    if !self.rereads.are_wanted() {
                        continue;
                    }
                    sleep_until(read_at + defaults::REREAD_PAUSE).await;
                }
            }
            if let Err(error) = self.refresh(connection).await {
                return error;
            }
            read_at = Instant::now();
        }
    }
}

/// How a connection came to its end.
struct Ended {
    error: Error,
    was_ready: bool,
}

impl Ended {
    /// Whether there is most likely a server to connect to at once, in another session or another era.
    fn is_no_failure(&self) -> bool {
        matches!(self.error, Error::SessionLost | Error::Outdated) || self.error.may_come_of_the_era()
    }
}

async fn supervise(inner: Arc<Inner>) {
    tokio::join!(keep(&inner), inner.lanes.tend());
}

/// Keeps the shared connection until the server is let go of.
async fn keep(inner: &Inner) {
    let mut pause = defaults::RETRY_MIN;
    let mut failing_since: Option<Instant> = None;
    loop {
        let attempt = tokio::select! {
            () = inner.stop.cancelled() => return,
            attempt = inner.connect() => attempt,
        };
        let ended = match attempt {
            Ok(connection) => {
                let Some(ended) = Box::pin(inner.use_up(&connection)).await else {
                    connection.close().await;
                    return;
                };
                inner.live.compare_and_swap(&connection, None);
                if ended.error != Error::SessionLost {
                    connection.close().await;
                }
                ended
            }
            Err(error) => Ended {
                error,
                was_ready: false,
            },
        };
        if ended.was_ready {
            (pause, failing_since) = (defaults::RETRY_MIN, None);
        }
        if !(ended.was_ready && ended.error == Error::SessionLost) {
            inner.known.verdict.forget();
        }
        if ended.was_ready && ended.is_no_failure() {
            continue;
        }
        let error = ended.error;
        let since = *failing_since.get_or_insert_with(Instant::now);
        inner.failed(error, since.elapsed() < defaults::STALE_FOR);
        tokio::select! {
            () = inner.stop.cancelled() => return,
            () = sleep(jittered(pause)) => {}
        }
        pause = (pause * 2).min(defaults::RETRY_MAX);
    }
}

/// `pause`, up to a quarter longer, so that many upstreams of one failed host do not come back at once.
pub(super) fn jittered(pause: Duration) -> Duration {
    let mut byte = [0u8; 1];
    let filled = aws_lc_rs::rand::fill(&mut byte).is_ok();
    let [random] = byte;
    let random = if filled { random } else { 0 };
    pause + pause * u32::from(random) / 1024
}
