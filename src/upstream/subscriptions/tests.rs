//! The table of subscriptions, and what their holders are told.

use std::time::Duration;

use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

use super::*;
use crate::upstream::known::Known;

fn hold(known: &Arc<Known>, uri: &str) -> Result<Hold, SubscribeError> {
    known.subscriptions.hold(&by(Owner::Nobody, None), uri)
}

fn by(owner: Owner, principal: Option<&str>) -> Subscriber {
    let party = Party::of("f", principal);
    Subscriber { owner, party }
}

fn wanted(known: &Known) -> Vec<(String, bool)> {
    let wanted = known.subscriptions.wanted().into_iter();
    wanted.map(|(uri, restored)| (uri.to_string(), restored)).collect()
}

#[tokio::test]
async fn a_resource_is_wanted_while_somebody_holds_on_to_it() {
    let known = Arc::new(Known::default());
    let mut first = hold(&known, "a").unwrap();
    let second = hold(&known, "a").unwrap();
    assert_eq!(wanted(&known), [("a".into(), false)]);
    known.subscriptions.settle("a", Standing::Accepted);
    first.accepted().await.unwrap();
    drop(first);
    assert_eq!(wanted(&known), [("a".into(), true)]);
    drop(second);
    assert_eq!(wanted(&known), []);
}

#[tokio::test]
async fn what_was_refused_is_asked_for_again_for_the_next_holder_and_the_next_connection() {
    let known = Arc::new(Known::default());
    let mut first = hold(&known, "a").unwrap();
    known.subscriptions.settle("a", Standing::Refused("no".into()));
    assert_eq!(first.accepted().await, Err(SubscribeError::Refused("no".into())));
    assert_eq!(wanted(&known), []);
    let _second = hold(&known, "a").unwrap();
    assert_eq!(wanted(&known), [("a".into(), false)]);
    known.subscriptions.settle("a", Standing::Refused("no".into()));
    known.subscriptions.begin();
    assert_eq!(wanted(&known), [("a".into(), false)]);
}

#[tokio::test]
async fn there_are_only_so_many_and_they_are_short() {
    let known = Arc::new(Known::default());
    let long = "x".repeat(defaults::SUBSCRIPTION_URI_MAX + 1);
    assert_eq!(hold(&known, &long).unwrap_err(), SubscribeError::TooLong);
    let share = defaults::SUBSCRIPTIONS_MAX / defaults::SHARE;
    let hold = |principal: usize, uri: usize| {
        let by = by(Owner::Nobody, Some(&principal.to_string()));
        known.subscriptions.hold(&by, &uri.to_string())
    };
    let holds: Vec<_> = (0..defaults::SUBSCRIPTIONS_MAX)
        .map(|n| hold(n / share, n).unwrap())
        .collect();
    assert_eq!(hold(9, 9999).unwrap_err(), SubscribeError::TooMany);
    assert!(hold(9, 7).is_ok());
    drop(holds);
    assert!(hold(9, 9999).is_ok());
}

#[tokio::test]
async fn nobody_takes_more_than_their_share_by_however_many_sessions() {
    let known = Arc::new(Known::default());
    for principal in [Some("alice"), None] {
        let share = share_of(principal.is_some(), defaults::SUBSCRIPTIONS_MAX);
        let hold = |n: usize, uri: usize| {
            let owner = Owner::Session(n.to_string().into());
            known.subscriptions.hold(&by(owner, principal), &uri.to_string())
        };
        let holds: Vec<_> = (0..share).map(|n| hold(n, n).unwrap()).collect();
        let error = hold(0, share).unwrap_err();
        assert_eq!(
            error,
            SubscribeError::Share {
                is_named: principal.is_some()
            }
        );
        assert!(error.to_string().contains(&share.to_string()), "{error}");
        assert!(hold(1, 0).is_ok(), "one that it has already");
        let other = by(Owner::Nobody, Some("bob"));
        assert!(known.subscriptions.hold(&other, "x").is_ok());
        drop(holds);
        assert!(hold(0, share).is_ok());
    }
}

#[tokio::test]
async fn a_burst_that_is_not_taken_in_time_is_one_change_of_the_resource() {
    let known = Arc::new(Known::default());
    let hold = hold(&known, "a").unwrap();
    let mut subscription = Subscription::new(hold, known.news.notices(), CancellationToken::new(), None);
    known.news.resource_changed(Notice::of(&"b".into()));
    known.news.resource_changed(Notice::of(&"a/1".into()));
    assert_eq!(&*subscription.updated().await.unwrap().uri, "a/1");
    for n in 0..=defaults::NOTICES_KEPT {
        known.news.resource_changed(Notice::of(&format!("a/{n}").into()));
    }
    assert_eq!(&*subscription.updated().await.unwrap().uri, "a");
}

#[tokio::test]
async fn a_subscription_ends_once_the_server_is_let_go_of_and_what_came_before() {
    let known = Arc::new(Known::default());
    let hold = hold(&known, "a").unwrap();
    let gone = CancellationToken::new();
    let mut subscription = Subscription::new(hold, known.news.notices(), gone.clone(), None);
    known.news.resource_changed(Notice::of(&"a".into()));
    gone.cancel();
    assert_eq!(&*subscription.updated().await.unwrap().uri, "a");
    assert!(subscription.updated().await.is_none());
}

#[tokio::test]
async fn each_lane_carries_what_its_owner_wants_and_the_catalogs_connection_everything() {
    let known = Arc::new(Known::default());
    let [a, b] = ["a", "b"].map(|name| Owner::Session(name.into()));
    let mine = known.subscriptions.hold(&by(a.clone(), None), "u").unwrap();
    let _theirs = known.subscriptions.hold(&by(b.clone(), None), "u").unwrap();
    let _more = known.subscriptions.hold(&by(b.clone(), None), "v").unwrap();
    let on = |origin: Origin| {
        let wanted = known.subscriptions.wanted_on(&origin).into_keys();
        wanted.map(|uri| uri.to_string()).collect::<Vec<_>>()
    };
    assert_eq!(on(Origin::Catalog), ["u", "v"]);
    assert_eq!(on(Origin::Shared), ["u", "v"]);
    assert_eq!(on(Origin::Lane(a.clone())), ["u"]);
    assert_eq!(on(Origin::Lane(b.clone())), ["u", "v"]);
    let mut changes = known.subscriptions.changes();
    assert!(mine.version() < *changes.borrow_and_update());
    drop(mine);
    assert!(changes.has_changed().unwrap());
    assert!(on(Origin::Lane(a)).is_empty());
    assert_eq!(on(Origin::Lane(b)), ["u", "v"]);
}

#[tokio::test]
async fn a_change_that_is_heard_on_several_connections_is_told_once_and_only_to_whom_it_is_for() {
    let known = Arc::new(Known::default());
    let [a, b] = ["a", "b"].map(|name| Owner::Session(name.into()));
    let subscribed = |owner: &Owner| {
        let hold = known.subscriptions.hold(&by(owner.clone(), None), "u").unwrap();
        Subscription::new(hold, known.news.notices(), CancellationToken::new(), None)
    };
    let (mut mine, mut theirs) = (subscribed(&a), subscribed(&b));
    let change = |origin: Origin| {
        known.news.resource_changed(Notice {
            origin,
            ..Notice::of(&"u".into())
        });
    };
    for origin in [
        Origin::Catalog,
        Origin::Lane(a.clone()),
        Origin::Catalog,
        Origin::Lane(a.clone()),
    ] {
        change(origin);
    }
    let told = async |of: &mut Subscription| {
        let mut count = 0;
        while timeout(Duration::from_millis(1), of.updated()).await.is_ok() {
            count += 1;
        }
        count
    };
    assert_eq!((told(&mut mine).await, told(&mut theirs).await), (2, 2));
    sleep(defaults::NOTICE_ECHO).await;
    change(Origin::Lane(a));
    assert_eq!((told(&mut mine).await, told(&mut theirs).await), (1, 0));
}
