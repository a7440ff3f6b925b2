//! Connections as servers see them: opened, used again, and closed at any time.

use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;
use tokio::time::timeout;

use super::*;

/// What a server does once it has answered.
#[derive(Clone, Copy)]
enum Then {
    Listen,
    /// Without having said so.
    Close,
    /// Without having sent all of the answer.
    Owe,
    /// Once it took the next request.
    Break,
    /// Before it answered at all.
    Refuse,
}

/// A server that answers each request with the value of its `Host`, and counts.
#[derive(Default)]
struct Server {
    connections: AtomicUsize,
    /// Requests.
    taken: AtomicUsize,
    closed: Notify,
}

impl Server {
    async fn start(then: Then) -> (Arc<Self>, Target) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/mcp?x=1", listener.local_addr().unwrap());
        let server = Arc::new(Self::default());
        let serving = Arc::clone(&server);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                serving.connections.fetch_add(1, Ordering::Relaxed);
                tokio::spawn(Arc::clone(&serving).serve(stream, then));
            }
        });
        (server, Target::of(&url.parse().unwrap()))
    }

    async fn serve(self: Arc<Self>, mut stream: TcpStream, then: Then) {
        let (mut read, mut answered) = (Vec::new(), 0);
        loop {
            let mut piece = [0; 1024];
            match stream.read(&mut piece).await {
                Ok(length @ 1..) => read.extend_from_slice(&piece[..length]),
                _ => break,
            }
            let head = String::from_utf8_lossy(&read);
            if !head.ends_with("\r\n\r\n") {
                continue;
            }
            assert!(head.starts_with("GET /mcp?x=1 HTTP/1.1\r\n"), "{head}");
            self.taken.fetch_add(1, Ordering::Relaxed);
            if matches!((then, answered), (Then::Refuse, _) | (Then::Break, 1)) {
                break;
            }
            answered += 1;
            let host = head.lines().find_map(|line| line.strip_prefix("host: ")).unwrap();
            let length = host.len() + usize::from(matches!(then, Then::Owe));
            let answer = format!("HTTP/1.1 200 OK\r\ncontent-length: {length}\r\n\r\n{host}");
            stream.write_all(answer.as_bytes()).await.unwrap();
            read.clear();
            if matches!(then, Then::Close) {
                break;
            }
        }
        drop(stream);
        self.closed.notify_one();
    }

    fn connections(&self) -> usize {
        self.connections.load(Ordering::Relaxed)
    }

    fn taken(&self) -> usize {
        self.taken.load(Ordering::Relaxed)
    }
}

fn pool() -> HttpPool {
    patient_pool(Duration::from_secs(60))
}

fn patient_pool(patience: Duration) -> HttpPool {
    let tls = rustls::ClientConfig::builder()
        .with_root_certificates(rustls::RootCertStore::empty())
        .with_no_client_auth();
    HttpPool::new(connector(tls, Duration::from_secs(5)), patience)
}

async fn asked(pool: &HttpPool, target: &Target, request: Request<Body>) -> String {
    let mut response = pool.send(target, request, Sending::Once).await.unwrap();
    let body = crate::body::read(response.body_mut(), 1024).await.unwrap();
    String::from_utf8(body.to_vec()).unwrap()
}

/// Waits until `count` connections wait for requests.
async fn kept(pool: &HttpPool, count: usize) {
    let kept = async {
        while idle(pool) < count {
            tokio::task::yield_now().await;
        }
    };
    timeout(Duration::from_secs(5), kept).await.unwrap();
}

fn idle(pool: &HttpPool) -> usize {
    locked(&pool.idle).connections.len()
}

#[tokio::test]
async fn one_request_after_the_other_takes_one_connection() {
    let ((server, target), pool) = (Server::start(Then::Listen).await, pool());
    for _ in 0..5 {
        asked(&pool, &target, Request::default()).await;
        tokio::task::yield_now().await;
    }
    assert_eq!(server.connections(), 1);
}

#[tokio::test]
async fn requests_at_once_take_a_connection_each_and_all_are_used_again() {
    let ((server, target), pool) = (Server::start(Then::Listen).await, pool());
    for _ in 0..3 {
        let all = (0..4).map(|_| asked(&pool, &target, Request::default()));
        futures::future::join_all(all).await;
        kept(&pool, 4).await;
    }
    assert_eq!(server.connections(), 4);
}

#[tokio::test]
async fn a_connection_that_the_server_closed_is_given_up_for_another() {
    let ((server, target), pool) = (Server::start(Then::Close).await, pool());
    for round in 1..=3 {
        assert!(!asked(&pool, &target, Request::default()).await.is_empty());
        server.closed.notified().await;
        assert_eq!(server.connections(), round);
    }
}

#[tokio::test]
async fn a_connection_whose_answer_is_still_to_come_is_not_used_and_ends_with_the_answer() {
    let ((server, target), pool) = (Server::start(Then::Owe).await, pool());
    let first = pool.send(&target, Request::default(), Sending::Once).await.unwrap();
    let second = pool.send(&target, Request::default(), Sending::Once).await.unwrap();
    assert_eq!(server.connections(), 2);
    for answer in [first, second] {
        drop(answer);
        timeout(Duration::from_secs(5), server.closed.notified()).await.unwrap();
    }
    assert_eq!(idle(&pool), 0);
}

#[tokio::test]
async fn a_request_on_a_kept_connection_that_breaks_is_sent_again_only_where_it_may_be() {
    for (sending, taken) in [(Sending::Twice, 3), (Sending::Once, 2)] {
        let ((server, target), pool) = (Server::start(Then::Break).await, pool());
        asked(&pool, &target, Request::default()).await;
        kept(&pool, 1).await;
        let answer = pool.send(&target, Request::default(), sending).await;
        match sending {
            Sending::Twice => assert_eq!(answer.unwrap().status(), 200),
            Sending::Once => assert!(matches!(answer, Err(SendError::Broken(_))), "{answer:?}"),
        }
        assert_eq!(server.taken(), taken);
        assert_eq!(server.connections(), taken - 1);
    }
}

#[tokio::test]
async fn a_request_is_sent_no_more_than_twice_and_on_a_new_connection_once() {
    let ((server, target), pool) = (Server::start(Then::Refuse).await, pool());
    let answer = pool.send(&target, Request::default(), Sending::Twice).await;
    assert!(matches!(answer, Err(SendError::Broken(_))), "{answer:?}");
    assert_eq!((server.connections(), server.taken()), (1, 1));
}

#[tokio::test]
async fn where_a_kept_connection_breaks_no_other_is_used_that_is_as_old() {
    let ((server, target), pool) = (Server::start(Then::Break).await, pool());
    let both = (0..2).map(|_| asked(&pool, &target, Request::default()));
    futures::future::join_all(both).await;
    kept(&pool, 2).await;
    let answer = pool.send(&target, Request::default(), Sending::Once).await;
    assert!(answer.is_err());
    assert_eq!(idle(&pool), 0);
    asked(&pool, &target, Request::default()).await;
    assert_eq!(server.connections(), 3);
}

#[tokio::test]
async fn a_connection_that_nobody_used_for_long_is_not_used_any_more() {
    let ((server, target), pool) = (Server::start(Then::Listen).await, pool());
    asked(&pool, &target, Request::default()).await;
    kept(&pool, 1).await;
    let long_ago = Instant::now().checked_sub(pool.patience).unwrap();
    locked(&pool.idle)
        .connections
        .iter_mut()
        .for_each(|(_, since)| *since = long_ago);
    asked(&pool, &target, Request::default()).await;
    assert_eq!(server.connections(), 2);
}

#[tokio::test]
async fn a_connection_that_nobody_uses_is_closed_without_a_request() {
    let ((server, target), pool) = (
        Server::start(Then::Listen).await,
        patient_pool(Duration::from_millis(20)),
    );
    for _ in 0..2 {
        asked(&pool, &target, Request::default()).await;
        timeout(Duration::from_secs(5), server.closed.notified()).await.unwrap();
        assert_eq!(idle(&pool), 0);
    }
}

#[tokio::test]
async fn who_is_not_there_is_an_error() {
    let target = Target::of(&"http://127.0.0.1:1/mcp".parse().unwrap());
    assert!(pool().send(&target, Request::default(), Sending::Twice).await.is_err());
}

#[tokio::test]
async fn the_host_is_that_of_the_address_unless_another_is_configured() {
    let ((_server, target), pool) = (Server::start(Then::Listen).await, pool());
    let authority = target.url().authority().unwrap().as_str().to_owned();
    assert_eq!(asked(&pool, &target, Request::default()).await, authority);
    let mut configured = Request::<Body>::default();
    configured
        .headers_mut()
        .insert(HOST, HeaderValue::from_static("mcp.example"));
    assert_eq!(asked(&pool, &target, configured).await, "mcp.example");
}

#[test]
fn a_port_that_is_understood_is_not_said() {
    for (url, host) in [
        ("http://a.example/mcp", "a.example"),
        ("http://a.example:80/mcp", "a.example"),
        ("http://a.example:443/mcp", "a.example:443"),
        ("https://a.example:443", "a.example"),
        ("https://a.example:8443/mcp", "a.example:8443"),
        ("http://user:word@a.example:81/mcp", "a.example:81"),
        ("http://[::1]:8080/mcp", "[::1]:8080"),
    ] {
        assert_eq!(Target::of(&url.parse().unwrap()).host.unwrap(), host, "{url}");
    }
    assert_eq!(Target::of(&"http://a.example".parse().unwrap()).path, "/");
}
