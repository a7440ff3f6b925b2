//! Leader election against a real API server: who may write, and when no longer.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;
use kube::api::{DeleteParams, Patch, PatchParams};
use kube::{Api, Client};
use mcpfleet::run::lease::{Election, ElectionError, Term, Times};
use serde_json::json;
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use crate::support::apiserver::ApiServer;
use crate::support::controllers::with_controllers;
use crate::support::replica::{Replica, options, until};

const TIMES: Times = Times {
    lease: Duration::from_secs(3),
    renew: Duration::from_secs(2),
    retry: Duration::from_millis(200),
};

/// What the work of all candidates did, as seen from outside of them.
#[derive(Clone, Default)]
struct Log {
    /// How many work at this moment.
    at_work: Arc<AtomicUsize>,
    /// Whether two ever worked at the same moment.
    overlapped: Arc<AtomicBool>,
    /// Who began, in order.
    began: Arc<Mutex<Vec<&'static str>>>,
}

impl Log {
    fn began(&self) -> Vec<&'static str> {
        self.began.lock().unwrap().clone()
    }

    async fn work(self, name: &'static str, term: Term) {
        let _at_work = AtWork::new(&self);
        self.began.lock().unwrap().push(name);
        let mut held = Instant::now();
        loop {
            // At its end the work has a moment to stop, in which it must not write.
            if term.holds() {
                held = Instant::now();
            }
            assert!(
                held.elapsed() < TIMES.lease - TIMES.renew,
                "{name} works on without the lease"
            );
            sleep(Duration::from_millis(5)).await;
        }
    }
}

/// Counts its owner as working while it lives.
struct AtWork(Arc<AtomicUsize>);

impl AtWork {
    fn new(log: &Log) -> Self {
        if log.at_work.fetch_add(1, Ordering::SeqCst) > 0 {
            log.overlapped.store(true, Ordering::SeqCst);
        }
        Self(log.at_work.clone())
    }
}

impl Drop for AtWork {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

/// A candidate at large.
struct Candidate {
    stop: CancellationToken,
    task: JoinHandle<Result<(), ElectionError>>,
}

impl Candidate {
    fn start(client: Client, namespace: &str, name: &'static str, log: &Log) -> Self {
        let stop = CancellationToken::new();
        let election = Election::new(client, namespace, "mcpfleet".into(), name.into(), TIMES);
        let log = log.clone();
        let task = tokio::spawn(election.run(stop.clone(), move |term| log.clone().work(name, term)));
        Self { stop, task }
    }

    async fn stop(self) {
        self.stop.cancel();
        self.task.await.unwrap().unwrap();
    }
}

async fn began(log: &Log, expected: &[&str]) {
    let what = format!("{expected:?} to lead, in this order");
    until(&what, async || (log.began() == expected).then_some(())).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_next_one_leads_at_once_when_the_leader_stops() {
    let Some(server) = ApiServer::shared().await else {
        return;
    };
    let namespace = server.namespace("leader-released").await;
    let log = Log::default();
    let first = Candidate::start(server.client().await, &namespace, "first", &log);
    began(&log, &["first"]).await;
    let second = Candidate::start(server.client().await, &namespace, "second", &log);
    sleep(TIMES.lease + Duration::from_secs(1)).await;
    assert_eq!(log.began(), ["first"], "a lease that is renewed is not taken");
    let stopped = Instant::now();
    first.stop().await;
    began(&log, &["first", "second"]).await;
    assert!(
        stopped.elapsed() < TIMES.renew,
        "the lease was given back: {:?}",
        stopped.elapsed()
    );
    second.stop().await;
    assert!(!log.overlapped.load(Ordering::SeqCst));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_next_one_waits_for_the_lease_of_a_leader_that_died() {
    let Some(server) = ApiServer::shared().await else {
        return;
    };
    let namespace = server.namespace("leader-killed").await;
    let log = Log::default();
    let first = Candidate::start(server.client().await, &namespace, "first", &log);
    began(&log, &["first"]).await;
    let second = Candidate::start(server.client().await, &namespace, "second", &log);
    sleep(Duration::from_secs(1)).await;
    first.task.abort();
    let died = Instant::now();
    began(&log, &["first", "second"]).await;
    assert!(died.elapsed() > TIMES.lease - TIMES.renew, "{:?}", died.elapsed());
    second.stop().await;
    assert!(!log.overlapped.load(Ordering::SeqCst));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_leader_that_cannot_reach_the_api_server_stops_before_another_begins() {
    let Some(server) = ApiServer::shared().await else {
        return;
    };
    let namespace = server.namespace("leader-cut-off").await;
    let log = Log::default();
    let (client, line) = Line::to(server).await;
    let first = Candidate::start(client, &namespace, "first", &log);
    began(&log, &["first"]).await;
    let second = Candidate::start(server.client().await, &namespace, "second", &log);
    sleep(Duration::from_millis(500)).await;
    line.cut();
    began(&log, &["first", "second"]).await;
    // Once it reaches the API server again it waits like any other.
    line.mend();
    sleep(TIMES.lease).await;
    assert_eq!(log.began(), ["first", "second"]);
    second.stop().await;
    began(&log, &["first", "second", "first"]).await;
    first.stop().await;
    assert!(!log.overlapped.load(Ordering::SeqCst));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_clock_of_the_holder_does_not_matter() {
    let Some(server) = ApiServer::shared().await else {
        return;
    };
    let namespace = server.namespace("leader-clock").await;
    let leases: Api<Lease> = Api::namespaced(server.client().await, &namespace);
    let log = Log::default();
    // The holder renews in time, by a clock that is a day behind.
    let renew = |second: usize| {
        json!({
            "apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "mcpfleet"},
            "spec": {
                "holderIdentity": "other", "leaseDurationSeconds": 3,
                "renewTime": format!("2020-01-01T00:00:{second:02}.000000Z"),
            },
        })
    };
    let parameters = PatchParams::apply("other").force();
    let mut candidate = None;
    for second in 0..10 {
        leases
            .patch("mcpfleet", &parameters, &Patch::Apply(renew(second)))
            .await
            .unwrap();
        if candidate.is_none() {
            candidate = Some(Candidate::start(server.client().await, &namespace, "first", &log));
        }
        sleep(Duration::from_millis(500)).await;
    }
    assert_eq!(log.began(), [] as [&str; 0]);
    began(&log, &["first"]).await;
    candidate.unwrap().stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lease_that_is_taken_or_deleted_ends_the_term() {
    let Some(server) = ApiServer::shared().await else {
        return;
    };
    let namespace = server.namespace("leader-taken").await;
    let leases: Api<Lease> = Api::namespaced(server.client().await, &namespace);
    let log = Log::default();
    let candidate = Candidate::start(server.client().await, &namespace, "first", &log);
    began(&log, &["first"]).await;
    // A label of somebody else is no reason to stop.
    let label = json!({"metadata": {"labels": {"example.com/theirs": "x"}}});
    leases
        .patch("mcpfleet", &PatchParams::default(), &Patch::Merge(&label))
        .await
        .unwrap();
    sleep(Duration::from_secs(1)).await;
    assert_eq!(log.began(), ["first"]);
    leases.delete("mcpfleet", &DeleteParams::default()).await.unwrap();
    began(&log, &["first", "first"]).await;
    let taken = json!({"spec": {"holderIdentity": "other"}});
    leases
        .patch("mcpfleet", &PatchParams::default(), &Patch::Merge(&taken))
        .await
        .unwrap();
    until("no work", async || {
        (log.at_work.load(Ordering::SeqCst) == 0).then_some(())
    })
    .await;
    candidate.stop().await;
    let lease = leases.get("mcpfleet").await.unwrap();
    assert_eq!(
        lease.spec.unwrap().holder_identity.as_deref(),
        Some("other"),
        "it is not ours to give back"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn work_that_ends_by_itself_ends_the_process_and_gives_the_lease_back() {
    let Some(server) = ApiServer::shared().await else {
        return;
    };
    let namespace = server.namespace("leader-ends").await;
    let election = Election::new(
        server.client().await,
        &namespace,
        "mcpfleet".into(),
        "first".into(),
        TIMES,
    );
    let ended = election.run(CancellationToken::new(), |_| async {}).await;
    assert!(matches!(ended, Err(ElectionError::WorkEnded(_))), "{ended:?}");
    let leases: Api<Lease> = Api::namespaced(server.client().await, &namespace);
    assert_eq!(
        leases.get("mcpfleet").await.unwrap().spec.unwrap().holder_identity,
        None
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn of_two_replicas_one_writes_and_the_other_takes_over() {
    let Some(server) = with_controllers().await else {
        return;
    };
    let namespace = server.namespace("leader-replicas").await;
    let servers: Api<mcpfleet::api::MCPServer> = Api::namespaced(server.client().await, &namespace);
    let told = async |name: &str| {
        let object = json!({
            "apiVersion": "mcpfleet.dev/v1alpha1", "kind": "MCPServer", "metadata": {"name": name},
            "spec": {"remote": {"url": format!("http://{name}.example/mcp")}},
        });
        let parameters = PatchParams::apply("kubectl");
        servers.patch(name, &parameters, &Patch::Apply(&object)).await.unwrap();
        until("a status", async || servers.get(name).await.unwrap().status).await;
    };
    let first = Replica::start(server.client().await, options(&namespace));
    told("one").await;
    let second = Replica::start(server.client().await, options(&namespace));
    assert_eq!(second.input().await.servers.len(), 1, "every replica plans for itself");
    first.stop().await;
    told("two").await;
    let third = Replica::start(server.client().await, options(&namespace));
    third.input().await;
    second.kill().await;
    told("three").await;
    third.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_gateway_plans_and_writes_nothing() {
    let Some(server) = ApiServer::shared().await else {
        return;
    };
    let namespace = server.namespace("leader-gateway").await;
    let client = server.client().await;
    let mut gateway = options(&namespace);
    gateway.controller = false;
    let replica = Replica::start(client.clone(), gateway);
    let servers: Api<mcpfleet::api::MCPServer> = Api::namespaced(client.clone(), &namespace);
    let object = json!({
        "apiVersion": "mcpfleet.dev/v1alpha1", "kind": "MCPServer", "metadata": {"name": "far"},
        "spec": {"remote": {"url": "http://far.example/mcp"}},
    });
    servers
        .patch("far", &PatchParams::apply("kubectl"), &Patch::Apply(&object))
        .await
        .unwrap();
    until("the server in the plan", async || {
        (replica.input().await.servers.len() == 1).then_some(())
    })
    .await;
    sleep(Duration::from_secs(1)).await;
    assert_eq!(servers.get("far").await.unwrap().status, None);
    let leases: Api<Lease> = Api::namespaced(client, &namespace);
    assert_eq!(leases.get_opt("mcpfleet").await.unwrap(), None);
    replica.stop().await;
}

/// A connection to the API server that can be cut so that nothing is refused and nothing arrives.
struct Line(watch::Sender<bool>);

impl Line {
    async fn to(server: &ApiServer) -> (Client, Self) {
        let mut config = server.config().await;
        let target = format!("127.0.0.1:{}", config.cluster_url.port_u16().unwrap());
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let (whole, cut) = watch::channel(true);
        tokio::spawn(async move {
            loop {
                let (near, _) = listener.accept().await.unwrap();
                tokio::spawn(Self::carry(near, target.clone(), cut.clone()));
            }
        });
        config.cluster_url = format!("https://127.0.0.1:{port}").parse().unwrap();
        (Client::try_from(config).unwrap(), Self(whole))
    }

    fn cut(&self) {
        self.0.send_replace(false);
    }

    fn mend(&self) {
        self.0.send_replace(true);
    }

    /// Carries bytes while the line is whole. A connection that lived through a cut stays dumb for ever.
    async fn carry(mut near: TcpStream, target: String, mut whole: watch::Receiver<bool>) {
        if *whole.borrow() {
            let mut far = TcpStream::connect(target).await.unwrap();
            tokio::select! {
                _ = copy_bidirectional(&mut near, &mut far) => return,
                _ = whole.wait_for(|whole| !whole) => {}
            }
        }
        std::future::pending::<()>().await;
    }
}
