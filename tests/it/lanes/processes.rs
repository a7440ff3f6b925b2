//! What becomes of what a Legacy process asks, which cannot say whose call it is about.

use std::time::Duration;

use mcpfleet::mcp::asking::{Asking, Said};
use tokio::time::{sleep, timeout};

use super::caller::{Client, PATIENCE, accept, session, withdrawn};
use super::process_desk::process_desk;

#[tokio::test]
async fn two_users_of_a_process_server_never_get_each_others_questions() {
    let upstream = process_desk().await;
    let (a, b) = (Client::form_filler(session("a")), Client::form_filler(session("b")));
    let person = async |client: &Client, name: &str| client.asked().await.answer(accept(name));
    let (from_a, from_b, (), ()) = tokio::join!(
        a.text(&upstream, "ask"),
        b.text(&upstream, "ask"),
        person(&a, "ann"),
        person(&b, "bob"),
    );
    assert!(from_a.contains("ann") && from_b.contains("bob"), "{from_a} {from_b}");
    assert!(!a.was_asked() && !b.was_asked());
}

#[tokio::test]
async fn a_process_that_asks_right_after_its_handshake_asks_whom_it_was_started_for() {
    let upstream = process_desk().await;
    let client = Client::asking(session("a"));
    let person = async {
        let asked = client.asked().await;
        assert_eq!(asked.kind, Asking::Roots);
        asked.answer(Said::Result(r#"{"roots":[{"uri":"file:///a"}]}"#.into()));
    };
    let (_, ()) = tokio::join!(client.text(&upstream, "slow"), person);
    assert_eq!(
        client.text(&upstream, "roots").await,
        r#"{"roots": [{"uri": "file:///a"}]}"#
    );
}

#[tokio::test]
async fn a_question_that_comes_after_its_call_is_put_to_nobody() {
    let upstream = process_desk().await;
    let client = Client::form_filler(session("a"));
    assert_eq!(client.text(&upstream, "ask_late").await, "done");
    sleep(Duration::from_millis(500)).await;
    assert!(!client.was_asked());
    assert_eq!(client.text(&upstream, "late").await, r#"{"action": "cancel"}"#);
}

#[tokio::test]
async fn a_process_that_dies_while_a_question_waits_fails_the_call_and_is_started_again() {
    let upstream = process_desk().await;
    let client = Client::form_filler(session("a"));
    let error = timeout(PATIENCE, client.call(&upstream, "die"))
        .await
        .unwrap()
        .unwrap_err();
    assert_eq!(error.to_string(), "the process ended with exit code 3");
    withdrawn(&client.asked().await).await;
    client.text(&upstream, "plain").await;
}

#[tokio::test]
async fn a_client_of_a_process_that_goes_away_refuses_before_it_cancels() {
    let upstream = process_desk().await;
    let client = Client::form_filler(session("a"));
    tokio::select! {
        _ = client.call(&upstream, "ask") => panic!("it answers"),
        _ = client.asked() => {}
    }
    let told = client.text(&upstream, "cancelled").await;
    let told: Vec<String> = serde_json::from_str(&told).unwrap();
    assert_eq!(told.len(), 2, "{told:?}");
    assert!(told[0].starts_with('q') && told[1] == "cancelled", "{told:?}");
}

#[tokio::test]
async fn log_messages_of_a_process_reach_the_only_call() {
    let upstream = process_desk().await;
    let client = Client::silent(session("a"));
    client.text(&upstream, "log").await;
    assert_eq!(client.heard().await["params"]["data"], "hello");
}
