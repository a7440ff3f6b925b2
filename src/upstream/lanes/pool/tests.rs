//! Lanes without connections.

use super::*;

fn session(name: &str) -> Owner {
    Owner::Session(name.into())
}

fn opened(taken: Taken<()>) -> Lease<()> {
    let Taken::New(lease) = taken else {
        panic!("not a new lane: {taken:?}");
    };
    lease.lane.opened.set(Ok(Arc::new(()))).unwrap();
    lease
}

fn known(taken: Taken<()>) -> Lease<()> {
    let Taken::Known(lease) = taken else {
        panic!("not a known lane: {taken:?}");
    };
    lease
}

/// Long enough to tell before from after.
async fn pause() {
    tokio::time::sleep(Duration::from_millis(3)).await;
}

fn asked() -> Features {
    Features {
        roots: true,
        ..Features::default()
    }
}

#[tokio::test]
async fn calls_of_one_owner_with_the_same_features_share_a_lane_and_nobody_else_gets_it() {
    let pool = Pool::new(9);
    let silent = Features::default();
    let take = |name: &str, features: &Features| pool.take(&session(name), features, Sharing::Together);
    let first = opened(take("a", &silent));
    assert!(Arc::ptr_eq(&first.lane, &known(take("a", &silent)).lane));
    opened(take("b", &silent));
    opened(take("a", &asked()));
    assert!(Arc::ptr_eq(&first.lane, &known(take("a", &silent)).lane));
}

#[tokio::test]
async fn who_cannot_be_asked_shares_a_lane_with_everybody_who_declares_the_same() {
    let pool = Pool::new(9);
    let silent = Features::default();
    let shows_apps = Features {
        extensions: Features::everything().extensions,
        ..Features::default()
    };
    let take = |name: &str, features: &Features| pool.take(&session(name), features, Sharing::Everybody);
    let first = Arc::clone(&opened(take("a", &silent)).lane);
    assert_eq!(first.owner, Owner::Nobody);
    let second = Arc::clone(&opened(take("a", &shows_apps)).lane);
    assert!(Arc::ptr_eq(&first, &known(take("b", &silent)).lane));
    assert!(Arc::ptr_eq(&second, &known(take("b", &shows_apps)).lane));
    assert!(pool.remove(&second));
    assert!(Arc::ptr_eq(&first, &known(take("c", &silent)).lane));
    assert_eq!(pool.remove_all().len(), 1);
    opened(take("c", &silent));
}

#[tokio::test]
async fn a_lane_that_somebody_opens_is_waited_for_by_those_who_share_it_only() {
    let pool: Pool<()> = Pool::new(9);
    let _opening = pool.take(&session("a"), &asked(), Sharing::Together);
    known(pool.take(&session("a"), &asked(), Sharing::Together));
    let _opening = pool.take(&Owner::Nobody, &asked(), Sharing::Alone);
    let second = pool.take(&Owner::Nobody, &asked(), Sharing::Alone);
    assert!(matches!(second, Taken::New(_)));
}

#[tokio::test]
async fn a_lane_for_one_call_is_free_again_when_that_is_over_and_the_last_used_goes_first() {
    let pool = Pool::new(9);
    let take = || pool.take(&Owner::Nobody, &asked(), Sharing::Alone);
    let (first, second) = (opened(take()), opened(take()));
    let (oldest, newest) = (Arc::clone(&first.lane), Arc::clone(&second.lane));
    drop(first);
    pause().await;
    drop(second);
    let again = known(take());
    assert!(Arc::ptr_eq(&again.lane, &newest));
    assert!(Arc::ptr_eq(&known(take()).lane, &oldest));
}

#[tokio::test]
async fn at_the_bound_the_idle_lane_goes_that_was_not_used_for_the_longest_time() {
    let pool = Pool::new(2);
    let take = |name: &str| pool.take(&session(name), &asked(), Sharing::Together);
    let (a, b) = (opened(take("a")), opened(take("b")));
    assert!(matches!(take("c"), Taken::Full));
    assert!(pool.remove_oldest_idle().is_none(), "both are in use");
    drop(b);
    pause().await;
    drop(a);
    assert_eq!(pool.remove_oldest_idle().unwrap().owner, session("b"));
    opened(take("c"));
    known(take("a"));
    assert!(matches!(take("b"), Taken::Full));
}

#[tokio::test]
async fn idle_lanes_go_after_a_while_and_busy_ones_stay() {
    let pool = Pool::new(9);
    let take = |name: &str| pool.take(&session(name), &asked(), Sharing::Together);
    let _busy = opened(take("busy"));
    drop(opened(take("idle")));
    assert!(pool.remove_idle(Duration::from_secs(60), |_| false).is_empty());
    pause().await;
    let removed = pool.remove_idle(Duration::from_millis(1), |_| false);
    assert_eq!(
        removed.iter().map(|lane| lane.owner.clone()).collect::<Vec<_>>(),
        [session("idle")]
    );
    assert!(!pool.remove(&removed[0]), "it is out already");
    assert_eq!(pool.len(), 1);
    assert_eq!(pool.remove_all().len(), 1);
    assert_eq!(pool.len(), 0);
}
