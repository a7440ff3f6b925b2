use std::net::TcpListener;

use http::{HeaderMap, HeaderName, HeaderValue};
use tokio::time::sleep;

use super::*;
use crate::fleet::ObjectKey;
use crate::upstream::{Endpoint, Forwarding, HttpEndpoint, Terms};

const MOMENT: Duration = Duration::from_millis(1);

fn pool() -> Arc<Pool> {
    let metrics = Arc::new(Metrics::new().unwrap());
    let changes = Arc::new(Changes::start(defaults::COALESCE));
    let federation = Arc::new(metrics.federation("team/fed"));
    Pool::start("team/fed".into(), changes, federation, metrics)
}

fn token() -> HeaderName {
    HeaderName::from_static("x-token")
}

/// A member whose server is not there.
fn member() -> OwnMember {
    member_at("http://127.0.0.1:9/mcp")
}

/// A member whose server takes connections and says nothing.
fn silent() -> (TcpListener, OwnMember) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let member = member_at(&format!("http://{}/mcp", listener.local_addr().unwrap()));
    (listener, member)
}

fn member_at(url: &str) -> OwnMember {
    let plan = ServerPlan {
        endpoint: Endpoint::Http(HttpEndpoint {
            url: url.parse().unwrap(),
            headers: HeaderMap::new(),
        }),
        terms: Terms {
            lists: false,
            forwards: Some(Forwarding {
                headers: vec![token()],
                own_lists: true,
            }),
            ..Terms::default()
        },
        refresh: Default::default(),
    };
    OwnMember::reached(0, ObjectKey::new("team", "git").into(), &plan).unwrap()
}

fn caller(principal: Option<&str>, value: &'static str) -> Caller {
    let headers = [(token(), HeaderValue::from_static(value))].into_iter().collect();
    Caller::new(principal, &headers, &[token()])
}

fn is_held(pool: &Pool, caller: &Caller) -> bool {
    pool.peek(&member(), caller).is_some()
}

#[tokio::test]
async fn what_nobody_used_for_long_is_let_go_of_and_what_somebody_watches_is_not() {
    let (pool, alice, (_listener, member)) = (pool(), caller(Some("alice"), "one"), silent());
    let watched = pool.open(&member, &alice).unwrap();
    let own = Arc::clone(&watched.0);
    let begun = pool.epoch + Duration::from_millis(own.used.load(Ordering::Acquire));
    let end = begun + defaults::OWN_CATALOG_IDLE;
    assert_eq!(pool.idle_at(&own), end);
    assert!(!pool.remove_idle(&own, end), "it is watched");
    drop(watched);
    assert!(!pool.remove_idle(&own, end - MOMENT));
    sleep(MOMENT * 5).await;
    drop(pool.open(&member, &alice).unwrap());
    assert!(!pool.remove_idle(&own, end), "it was used again");
    assert!(pool.peek(&member, &alice).is_some());
    assert!(pool.remove_idle(&own, pool.idle_at(&own)));
    assert!(pool.peek(&member, &alice).is_none());
    own.gone.cancel();
    pool.close().await;
}

#[tokio::test]
async fn what_no_server_takes_is_let_go_of_sooner() {
    let (pool, alice) = (pool(), caller(Some("alice"), "one"));
    let watched = pool.open(&member(), &alice).unwrap();
    let own = Arc::clone(&watched.0);
    own.settled(&pool).await;
    drop(watched);
    assert!(!own.is_of_use());
    let used = pool.epoch + Duration::from_millis(own.used.load(Ordering::Acquire));
    let end = used + defaults::OWN_FAILURE_IDLE;
    assert!(!pool.remove_idle(&own, end - MOMENT));
    assert!(pool.remove_idle(&own, end));
    own.gone.cancel();
    pool.close().await;
}

#[tokio::test]
async fn nobody_waits_for_what_had_to_make_room() {
    let (pool, (_listener, silent)) = (pool(), silent());
    pool.settle(std::slice::from_ref(&silent), 1, true);
    let watched = pool.open(&silent, &caller(Some("alice"), "one")).unwrap();
    let driven_out = async {
        assert_eq!(
            pool.open(&silent, &caller(Some("bob"), "one")).unwrap_err(),
            NoRoom::All(1)
        );
        // Bob may not take it, since it is all that Alice has; an edit may.
        pool.settle(&[], 1, true);
    };
    let waiting = timeout_at(
        Instant::now() + Duration::from_secs(5),
        watched.upstream().settled(&pool),
    );
    let (waited, ()) = tokio::join!(waiting, driven_out);
    assert_eq!(waited, Ok(()));
    pool.close().await;
}

#[tokio::test]
async fn a_refused_caller_is_told_at_once_why_and_others_are_not_touched() {
    let pool = pool();
    pool.settle(&[member()], 4, true);
    let tokens = ["one", "two", "three", "four"].map(|token| caller(Some("alice"), token));
    let mut watched: Vec<Watched> = tokens
        .iter()
        .map(|alice| pool.open(&member(), alice).unwrap())
        .collect();
    let refused = pool.open(&member(), &caller(Some("alice"), "five")).unwrap_err();
    assert!(refused.to_string().contains("this key has its share of 1"), "{refused}");
    assert!(tokens.iter().all(|alice| is_held(&pool, alice)));
    // Another key has its share for sure, of what the first one has beyond its own.
    let bob = caller(Some("bob"), "one");
    watched.push(pool.open(&member(), &bob).unwrap());
    assert_eq!(tokens.iter().filter(|alice| is_held(&pool, alice)).count(), 3);
    assert!(is_held(&pool, &bob));
    assert!(pool.open(&member(), &caller(Some("bob"), "two")).is_err());
    drop(watched);
    assert!(pool.open(&member(), &caller(Some("bob"), "two")).is_ok());
    pool.close().await;
    assert_eq!(pool.open(&member(), &bob).unwrap_err(), NoRoom::Closed);
}
