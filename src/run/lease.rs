//! Leader election by a `coordination.k8s.io/v1` Lease: of all replicas at most one works.
//!
//! What losing the lease means is decided here. The work is stopped, and has stopped, before the lease can pass to
//! another replica. Whether somebody else's lease has run out is judged by how long it has not changed on our own
//! monotonic clock, never by comparing clocks of two machines. On shutdown the lease is given back after the work has
//! stopped. Every write names the version of the Lease that it was decided on, so two replicas cannot both take it.
//!
//! This is our own because no crate does it all: kube-lease-manager 0.13.1 compares wall clocks, takes an expired lease
//! without naming its version, and goes on leading for as long as the API server does not answer.
//!
//! A Lease is not a fence: a request that is under way when the lease is lost may still arrive. Writers ask
//! [`Term::holds`] before each write, and status writes name the version that they are based on.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use kube::api::{ObjectMeta, PostParams};
use kube::{Api, Client};
use tokio::time::{Instant, sleep, timeout, timeout_at};
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;
use tracing::{debug, info, warn};

/// How long things take.
#[derive(Clone, Copy, Debug)]
pub struct Times {
    /// Others may take a lease that has not changed for this long. Whole seconds.
    pub lease: Duration,
    /// The holder stops working when it could not renew for this long; shorter than `lease`.
    pub renew: Duration,
    /// Pause between two tries to take or to renew.
    pub retry: Duration,
}

impl Default for Times {
    /// The times of Kubernetes' own controllers.
    fn default() -> Self {
        Self {
            lease: Duration::from_secs(15),
            renew: Duration::from_secs(10),
            retry: Duration::from_secs(2),
        }
    }
}

/// Why electing ended; the process must end as well.
#[derive(Debug, thiserror::Error)]
pub enum ElectionError {
    /// The work ended by itself, or panicked.
    #[error("the work of the leader ended by itself{0}")]
    WorkEnded(String),
    /// The work did not stop in time, and another replica may take over.
    #[error("the work of the leader did not stop before its lease ran out")]
    WorkGoesOn,
}

/// One candidate.
#[derive(Clone)]
pub struct Election {
    leases: Api<Lease>,
    name: String,
    identity: String,
    times: Times,
}

impl fmt::Debug for Election {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            leases: _,
            name,
            identity,
            times,
        } = self;
        f.debug_struct("Election")
            .field("name", name)
            .field("identity", identity)
            .field("times", times)
            .finish()
    }
}

/// One term of leadership, as the work sees it.
#[derive(Clone, Debug)]
pub struct Term(Arc<Mutex<Option<Instant>>>);

impl Term {
    /// Whether the lease is ours at this moment, for certain.
    pub fn holds(&self) -> bool {
        self.until().is_some_and(|until| Instant::now() < until)
    }

    fn new(until: Instant) -> Self {
        Self(Arc::new(Mutex::new(Some(until))))
    }

    fn until(&self) -> Option<Instant> {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn set(&self, until: Option<Instant>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = until;
    }
}

/// Why a term ended.
enum End {
    Stopped,
    Lost(&'static str),
    WorkEnded(String),
}

impl Election {
    /// A candidate named `identity`, which must be unique among all replicas and restarts.
    pub fn new(client: Client, namespace: &str, name: String, identity: String, times: Times) -> Self {
        Self {
            leases: Api::namespaced(client, namespace),
            name,
            identity,
            times,
        }
    }

    /// Runs `work` whenever the lease is ours, until `stop`; the work is dropped when the lease is lost.
    ///
    /// # Errors
    /// The work ended by itself or could not be stopped: the caller must end the process.
    pub async fn run<F>(self, stop: CancellationToken, mut work: impl FnMut(Term) -> F) -> Result<(), ElectionError>
    where
        F: Future<Output = ()> + Send + 'static,
    {
        loop {
            let Some((lease, until)) = self.acquire(&stop).await else {
                return Ok(());
            };
            info!(lease = self.name, identity = self.identity, "the lease is ours");
            let term = Term::new(until);
            let mut task = AbortOnDropHandle::new(tokio::spawn(work(term.clone())));
            let end = tokio::select! {
                biased;
                () = stop.cancelled() => End::Stopped,
                ended = &mut task => End::WorkEnded(ended.err().map(|error| format!(": {error}")).unwrap_or_default()),
                why = self.hold(lease, &term) => End::Lost(why),
            };
            // Others may take the lease at this moment. (It may have passed, if this process stood still: the work has
            // no mandate by now, and a moment to stop.)
            let margin = self.times.lease.saturating_sub(self.times.renew);
            let now = Instant::now();
            let last_moment = (term.until().unwrap_or(now) + margin).max(now + self.times.retry);
            term.set(None);
            task.abort();
            // A task that was awaited to its end must not be awaited again.
            if !matches!(end, End::WorkEnded(_)) && timeout_at(last_moment, &mut task).await.is_err() {
                return Err(ElectionError::WorkGoesOn);
            }
            match end {
                End::Lost(why) => warn!(
                    lease = self.name,
                    why, "the lease is lost; this replica stopped writing"
                ),
                End::Stopped => {
                    self.release().await;
                    return Ok(());
                }
                End::WorkEnded(how) => {
                    self.release().await;
                    return Err(ElectionError::WorkEnded(how));
                }
            }
        }
    }

    /// Waits until the lease is ours, and says until when; `None` when stopped before.
    async fn acquire(&self, stop: &CancellationToken) -> Option<(Lease, Instant)> {
        let mut seen = None;
        // Whether a request may have taken the lease whose answer did not come.
        let mut may_be_ours = false;
        while !stop.is_cancelled() {
            let started = Instant::now();
            let mut attempt = Box::pin(timeout(self.times.renew, self.try_acquire(&mut seen)));
            let result = tokio::select! {
                result = &mut attempt => result,
                // The lease may be taken at this moment: what becomes of that must be known to give it back.
                () = stop.cancelled() => match timeout(self.times.retry, attempt).await {
                    Ok(Ok(Ok(None))) => break,
                    _ => {
                        may_be_ours = true;
                        break;
                    }
                },
            };
            may_be_ours |= !matches!(result, Ok(Ok(None)));
            match result {
                Ok(Ok(Some(lease))) => return Some((lease, started + self.times.renew)),
                Ok(Ok(None)) => {}
                Ok(Err(error)) => warn!(lease = self.name, %error, "cannot read or take the lease; trying again"),
                Err(_) => warn!(lease = self.name, "the API server does not answer; trying again"),
            }
            tokio::select! {
                () = sleep(self.times.retry) => {}
                () = stop.cancelled() => break,
            }
        }
        if may_be_ours {
            self.release().await;
        }
        None
    }

    async fn try_acquire(&self, seen: &mut Option<(LeaseSpec, Instant)>) -> Result<Option<Lease>, kube::Error> {
        let Some(lease) = self.leases.get_opt(&self.name).await? else {
            let lease = Lease {
                metadata: ObjectMeta {
                    name: Some(self.name.clone()),
                    ..ObjectMeta::default()
                },
                spec: Some(self.taken(None)),
            };
            return unless_conflict(self.leases.create(&PostParams::default(), &lease).await);
        };
        let spec = lease.spec.clone().unwrap_or_default();
        if !self.is_free(&spec, seen) {
            return Ok(None);
        }
        let taken = Lease {
            spec: Some(self.taken(Some(&spec))),
            ..lease
        };
        unless_conflict(self.leases.replace(&self.name, &PostParams::default(), &taken).await)
    }

    /// Whether the lease has no holder, is ours, or has not changed for as long as it lasts.
    fn is_free(&self, spec: &LeaseSpec, seen: &mut Option<(LeaseSpec, Instant)>) -> bool {
        let holder = spec.holder_identity.as_deref().unwrap_or_default();
        if holder.is_empty() || holder == self.identity {
            return true;
        }
        let since = match seen {
            Some((before, since)) if before == spec => *since,
            _ => {
                *seen = Some((spec.clone(), Instant::now()));
                return false;
            }
        };
        let lasts = spec
            .lease_duration_seconds
            .and_then(|seconds| u64::try_from(seconds).ok());
        since.elapsed() > lasts.map_or(self.times.lease, Duration::from_secs)
    }

    /// Renews until that fails for too long, or somebody else has the lease; says why.
    async fn hold(&self, mut lease: Lease, term: &Term) -> &'static str {
        loop {
            let Some(until) = term.until() else {
                return "it was given up";
            };
            if timeout_at(until, sleep(self.times.retry)).await.is_err() {
                return "it could not be renewed in time";
            }
            let started = Instant::now();
            // A request that hangs must leave time for another one, on a new connection.
            let patience = until.min(started + self.times.renew / 2);
            match timeout_at(patience, self.renew(&lease)).await {
                Ok(Ok(Some(renewed))) => {
                    lease = renewed;
                    term.set(Some(started + self.times.renew));
                }
                Ok(Ok(None)) => match timeout_at(until, self.leases.get_opt(&self.name)).await {
                    // Somebody else wrote to it, but did not take it.
                    Ok(Ok(Some(current))) if self.is_ours(&current) => lease = current,
                    Ok(Ok(Some(_))) => return "another replica took it",
                    Ok(Ok(None)) => return "it was deleted",
                    Ok(Err(error)) => debug!(%error, "cannot read the lease"),
                    Err(_) => return "it could not be renewed in time",
                },
                Ok(Err(error)) => warn!(lease = self.name, %error, "cannot renew the lease; trying again"),
                Err(_) => warn!(lease = self.name, "the API server does not answer; trying again"),
            }
        }
    }

    /// Renews the lease as it was last seen; `None` when it is no longer as it was.
    async fn renew(&self, lease: &Lease) -> Result<Option<Lease>, kube::Error> {
        let mut renewed = lease.clone();
        let spec = renewed.spec.get_or_insert_default();
        spec.renew_time = Some(MicroTime(Timestamp::now()));
        match self.leases.replace(&self.name, &PostParams::default(), &renewed).await {
            Err(kube::Error::Api(status)) if status.is_not_found() => Ok(None),
            result => unless_conflict(result),
        }
    }

    /// Gives the lease back if it is ours, so that another replica need not wait for it to run out.
    async fn release(&self) {
        let release = async {
            let Some(mut lease) = self.leases.get_opt(&self.name).await? else {
                return Ok(false);
            };
            if !self.is_ours(&lease) {
                return Ok(false);
            }
            let spec = lease.spec.get_or_insert_default();
            spec.holder_identity = None;
            spec.renew_time = Some(MicroTime(Timestamp::now()));
            self.leases.replace(&self.name, &PostParams::default(), &lease).await?;
            Ok::<_, kube::Error>(true)
        };
        match timeout(self.times.retry, release).await {
            Ok(Ok(true)) => info!(lease = self.name, "the lease is given back"),
            Ok(Ok(false)) => {}
            Ok(Err(error)) => debug!(%error, "the lease was not given back; it runs out by itself"),
            Err(_) => debug!("the lease was not given back; it runs out by itself"),
        }
    }

    fn is_ours(&self, lease: &Lease) -> bool {
        let spec = lease.spec.as_ref();
        spec.and_then(|spec| spec.holder_identity.as_ref()) == Some(&self.identity)
    }

    /// The lease, taken by us now from what it was `before`.
    fn taken(&self, before: Option<&LeaseSpec>) -> LeaseSpec {
        let now = MicroTime(Timestamp::now());
        let transitions = before.map_or(0, |before| before.lease_transitions.unwrap_or(0).saturating_add(1));
        LeaseSpec {
            holder_identity: Some(self.identity.clone()),
            lease_duration_seconds: Some(i32::try_from(self.times.lease.as_secs()).unwrap_or(i32::MAX)),
            acquire_time: Some(now.clone()),
            renew_time: Some(now),
            lease_transitions: Some(transitions),
            ..before.cloned().unwrap_or_default()
        }
    }
}

/// `None` where somebody else was faster.
fn unless_conflict(result: Result<Lease, kube::Error>) -> Result<Option<Lease>, kube::Error> {
    match result {
        Ok(lease) => Ok(Some(lease)),
        Err(kube::Error::Api(status)) if status.is_conflict() || status.is_already_exists() => Ok(None),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use axum::http::StatusCode;
    use axum::response::{IntoResponse, Response};
    use axum::routing::get;
    use serde_json::{Value, json};
    use tokio::net::TcpListener;
    use tokio::sync::Notify;

    use super::*;

    /// An API server that holds one Lease, and keeps the answer to its creation to itself.
    async fn silent_on_creation(held: Arc<Mutex<Option<Value>>>, created: Arc<Notify>) -> Client {
        let (read, written) = (held.clone(), held.clone());
        let missing = || {
            let status = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "NotFound",
                "message": "no such lease", "code": 404});
            (StatusCode::NOT_FOUND, status.to_string()).into_response()
        };
        let router = axum::Router::new()
            .route(
                "/apis/coordination.k8s.io/v1/namespaces/default/leases",
                axum::routing::post(async move |lease: String| {
                    *held.lock().unwrap() = serde_json::from_str(&lease).ok();
                    created.notify_one();
                    std::future::pending::<Response>().await
                }),
            )
            .route(
                "/apis/coordination.k8s.io/v1/namespaces/default/leases/mcpfleet",
                get(async move || match read.lock().unwrap().clone() {
                    Some(lease) => lease.to_string().into_response(),
                    None => missing(),
                })
                .put(async move |lease: String| {
                    *written.lock().unwrap() = serde_json::from_str(&lease).ok();
                    lease
                }),
            );
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let uri = format!("http://{}", listener.local_addr().unwrap());
        tokio::spawn(axum::serve(listener, router).into_future());
        Client::try_from(kube::Config::new(uri.parse().unwrap())).unwrap()
    }

    #[tokio::test]
    async fn a_lease_that_is_taken_while_stopping_is_given_back() {
        let (held, created) = (Arc::default(), Arc::new(Notify::new()));
        let client = silent_on_creation(Arc::clone(&held), Arc::clone(&created)).await;
        let times = Times {
            retry: Duration::from_millis(200),
            ..Times::default()
        };
        let election = Election::new(client, "default", "mcpfleet".into(), "first".into(), times);
        let stop = CancellationToken::new();
        let run = tokio::spawn(election.run(stop.clone(), async |_| ()));
        created.notified().await;
        stop.cancel();
        run.await.unwrap().unwrap();
        let lease = held.lock().unwrap().clone().unwrap();
        assert_eq!(lease["spec"].get("holderIdentity"), None, "{lease}");
        assert_eq!(lease["spec"]["leaseDurationSeconds"], 15);
    }
}
