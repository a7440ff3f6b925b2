use std::net::TcpListener;

use http::{HeaderMap, HeaderName, HeaderValue};
use serde_json::json;
use serde_json::value::RawValue;
use tokio::time::sleep;

use super::*;
use crate::fleet::ObjectKey;
use crate::index::{Item, List};
use crate::mcp::Era;
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

/// What `caller` has, which lists tools of these names; it is weighed.
fn listing(pool: &Arc<Pool>, caller: &Caller, names: &[&str]) -> Arc<OwnUpstream> {
    let mut catalog = Catalog::new(Era::Modern);
    for name in names {
        let raw = RawValue::from_string(json!({"name": name, "inputSchema": {"type": "object"}}).to_string());
        catalog.tools.push(Item::read(List::Tools, raw.unwrap()).unwrap());
    }
    let known = State {
        catalog: Some(Arc::new(catalog.sealed())),
        ..State::default()
    };
    let (member, (_, state)) = (member(), watch::channel(Arc::new(known)));
    let key = Key::of(&member, caller);
    let own = Arc::new(OwnUpstream {
        state,
        ..pool.begin(&member, caller, key.clone(), 1)
    });
    assert!(pool.table().room.held.insert(key, Arc::clone(&own), 0).is_none());
    pool.weigh(&own);
    own
}

#[tokio::test]
async fn what_callers_list_is_weighed_and_the_oldest_goes_where_it_is_too_much_together() {
    let pool = pool();
    pool.settle(&[member()], 8, true);
    let callers = ["one", "two", "three"].map(|token| caller(Some("alice"), token));
    let first = listing(&pool, &callers[0], &["a", "b"]);
    let weight = first.state().catalog.as_ref().unwrap().bytes();
    assert!(weight > 2 * "{\"inputSchema\":{\"type\":\"object\"}}".len(), "{weight}");
    assert_eq!(pool.table().room.held.weight(), weight);
    let second = listing(&pool, &callers[1], &["c", "d"]);
    assert_eq!(pool.table().room.held.weight(), 2 * weight);
    // No more than two of them from here on.
    let bounds = Bounds {
        most: 8,
        bytes: 2 * weight,
        needed: 1,
        has_names: true,
    };
    assert!(pool.table().room.bound(bounds).is_empty());
    let third = listing(&pool, &callers[2], &["e", "f"]);
    assert_eq!(
        [&first, &second, &third].map(|own| own.gone.is_cancelled()),
        [true, false, false]
    );
    assert_eq!(
        callers.each_ref().map(|caller| is_held(&pool, caller)),
        [false, true, true]
    );
    // Of what is gone already nothing more is counted.
    pool.weigh(&first);
    assert_eq!(pool.table().room.held.weight(), 2 * weight);
    // One that somebody watches stays, whatever is older.
    let watched = Watched::begin(Arc::clone(&second));
    drop(listing(&pool, &callers[0], &["a", "b"]));
    assert_eq!(
        callers.each_ref().map(|caller| is_held(&pool, caller)),
        [true, true, false]
    );
    drop(watched);
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
