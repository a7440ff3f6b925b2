//! What becomes of what a Legacy server over HTTP asks.

use std::sync::atomic::Ordering;
use std::time::Duration;

use http::HeaderMap;
use mcpfleet::mcp::asking::Asking;
use mcpfleet::upstream::{Endpoint, HttpEndpoint, Owner, Timeouts};
use serde_json::json;
use tokio::time::{sleep, timeout};

use super::caller::{Client, PATIENCE, accept, principal, ready, session, until, withdrawn};
use super::desk::Desk;
use crate::support::upstream::Seen;

#[tokio::test]
async fn questions_on_the_stream_of_a_call_reach_its_client_and_the_answers_the_server() {
    let desk = Desk::start().await;
    let upstream = desk.upstream().await;
    let client = Client::asking(session("a"));
    let person = async {
        let (first, second) = (client.asked().await, client.asked().await);
        assert_eq!(first.kind, Asking::Elicitation);
        assert!(first.params.contains("Who for s-1/"), "{}", first.params);
        assert_eq!(client.heard().await["params"]["progress"], 1, "the stream is read on");
        second.answer(accept("second"));
        first.answer(accept("first"));
    };
    let (text, ()) = tokio::join!(client.text(&upstream, "ask_twice"), person);
    assert_eq!(text, "first+second");
}

#[tokio::test]
async fn what_the_client_did_not_declare_is_refused() {
    let desk = Desk::start().await;
    let upstream = desk.upstream().await;
    for client in [
        Client::silent(Owner::Nobody),
        Client::silent(session("a")),
        Client::rooted(session("b")),
    ] {
        assert_eq!(client.text(&upstream, "ask").await, "error");
        assert!(!client.was_asked());
    }
    assert!(desk.told().iter().all(|told| told["error"]["code"] == -32601));
}

#[tokio::test]
async fn a_flood_of_questions_is_refused_beyond_its_bound_and_the_call_goes_on() {
    let desk = Desk::start().await;
    let upstream = desk.upstream().await;
    let client = Client::asking(session("a"));
    let person = async {
        let mut asked = Vec::new();
        for _ in 0..16 {
            asked.push(client.asked().await);
        }
        desk.told_at_least(24).await;
        for question in asked {
            question.answer(accept("x"));
        }
    };
    let (text, ()) = tokio::join!(client.text(&upstream, "flood"), person);
    let count = |what| text.split('+').filter(|answer| *answer == what).count();
    assert_eq!((count("x"), count("cancel")), (16, 24), "{text}");
}

#[tokio::test]
async fn a_question_is_withdrawn_when_the_server_takes_it_back_or_does_not_wait_for_it() {
    let desk = Desk::start().await;
    let upstream = desk.upstream().await;
    let client = Client::asking(session("a"));
    assert_eq!(client.text(&upstream, "withdraw").await, "s-1");
    let asked = client.asked().await;
    withdrawn(&asked).await;
    asked.answer(accept("late"));

    assert_eq!(client.text(&upstream, "impatient").await, "s-1");
    let asked = client.asked().await;
    withdrawn(&asked).await;
    asked.answer(accept("late"));
    let told = desk.told_at_least(1).await;
    assert_eq!(told.len(), 1, "{told:?}");
    assert_eq!(told[0]["result"], json!({"action": "cancel"}));
}

#[tokio::test]
async fn a_client_that_goes_away_refuses_before_it_cancels() {
    let desk = Desk::start().await;
    let upstream = desk.upstream().await;
    let client = Client::asking(principal("p"));
    let asked = tokio::select! {
        _ = client.call(&upstream, "ask") => panic!("it answers"),
        asked = client.asked() => asked,
    };
    withdrawn(&asked).await;
    asked.answer(accept("late"));
    let told = desk.told_at_least(2).await;
    assert_eq!(told[0]["result"], json!({"action": "cancel"}), "{told:?}");
    assert_eq!(told[1]["method"], "notifications/cancelled", "{told:?}");
    assert_eq!(told.len(), 2, "{told:?}");
    let ended = || desk.server.seen().iter().any(|seen| seen.http == http::Method::DELETE);
    until("what may still ask about the call is closed", ended).await;
    assert_eq!(client.text(&upstream, "plain").await, "s-2");
}

#[tokio::test]
async fn a_stream_that_ends_while_a_question_waits_fails_the_call() {
    let desk = Desk::start().await;
    let upstream = desk.upstream().await;
    let client = Client::asking(session("a"));
    let error = timeout(PATIENCE, client.call(&upstream, "ask_and_end"))
        .await
        .unwrap()
        .unwrap_err();
    assert_eq!(error.reason(), "CutOff");
    withdrawn(&client.asked().await).await;
    assert_eq!(client.text(&upstream, "plain").await, "s-1");
}

#[tokio::test]
async fn a_session_lost_while_a_question_waits_fails_the_call_and_the_next_gets_another() {
    let desk = Desk::start().await;
    let upstream = desk.upstream().await;
    let client = Client::asking(session("a"));
    let person = async {
        let asked = client.asked().await;
        desk.lost.store(true, Ordering::SeqCst);
        asked.answer(accept("in vain"));
    };
    let (answer, ()) = tokio::join!(timeout(PATIENCE, client.call(&upstream, "ask")), person);
    assert_eq!(answer.unwrap().unwrap_err().reason(), "Unanswered");
    assert_eq!(client.text(&upstream, "plain").await, "s-2");
}

#[tokio::test]
async fn time_stands_still_while_a_person_is_asked() {
    let desk = Desk::start().await;
    let endpoint = Endpoint::Http(HttpEndpoint {
        url: format!("http://{}/mcp", desk.server.address).parse().unwrap(),
        headers: HeaderMap::new(),
    });
    let timeouts = Timeouts {
        call: Some(Duration::from_millis(300)),
        ..Timeouts::default()
    };
    let upstream = ready(endpoint, timeouts).await;
    let client = Client::asking(session("a"));
    let person = async {
        let asked = client.asked().await;
        sleep(Duration::from_millis(900)).await;
        asked.answer(accept("slow"));
    };
    let (text, ()) = tokio::join!(client.text(&upstream, "ask"), person);
    assert_eq!(text, "slow");
    assert_eq!(client.call(&upstream, "hang").await.unwrap_err().reason(), "Timeout");
}

#[tokio::test]
async fn what_is_asked_beside_all_calls_reaches_the_only_call_of_the_lane() {
    let desk = Desk::start().await;
    let upstream = desk.upstream().await;
    for (client, session) in [
        (Client::asking(session("a")), "s-1"),
        (Client::asking(principal("p")), "s-2"),
    ] {
        client.text(&upstream, "plain").await;
        let has_stream = |seen: &Seen| seen.http == http::Method::GET && seen.header("mcp-session-id") == Some(session);
        until("the lane is listened to", || desk.server.seen().iter().any(has_stream)).await;
        let person = async { client.asked().await.answer(accept("aside")) };
        let (text, ()) = tokio::join!(client.text(&upstream, "ask_aside"), person);
        assert_eq!(text, "aside");
    }
}
