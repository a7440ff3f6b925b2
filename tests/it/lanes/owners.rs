//! Whose calls share a connection to a Legacy server.

use futures::future::join_all;
use mcpfleet::upstream::Owner;
use serde_json::{Value, json};

use super::caller::{Client, principal, session, until};
use super::desk::Desk;
use super::process_desk::process_desk;
use crate::support::upstream::Seen;

#[tokio::test]
async fn each_owner_has_a_session_of_its_own_that_declares_what_its_client_can_do() {
    let desk = Desk::start().await;
    let upstream = desk.upstream().await;
    let clients = [
        Client::silent(Owner::Nobody),
        Client::silent(session("a")),
        Client::asking(session("a")),
        Client::asking(session("b")),
        Client::silent(principal("p")),
        Client::asking(principal("p")),
        Client::asking(principal("q")),
    ];
    for _ in 0..3 {
        let mut sessions = Vec::new();
        for client in &clients {
            sessions.push(client.text(&upstream, "plain").await);
        }
        assert_eq!(sessions, ["s-1", "s-2", "s-3", "s-4", "s-5", "s-6", "s-7"]);
    }
    let (none, all) = (json!({}), json!({"roots": {}, "elicitation": {}}));
    // The first one reads the catalog, and carries no call.
    assert_eq!(
        desk.declared()[1..],
        [&none, &none, &all, &all, &none, &all, &all].map(Value::clone)
    );

    let before = desk.server.seen().len();
    for client in &clients {
        client.text(&upstream, "plain").await;
    }
    assert_eq!(
        desk.server.seen().len() - before,
        clients.len(),
        "one request for each call"
    );
    upstream.stop().await;
    let ended = desk
        .server
        .seen()
        .into_iter()
        .filter(|seen| seen.http == http::Method::DELETE);
    let mut ended: Vec<_> = ended
        .map(|seen| seen.header("mcp-session-id").unwrap().to_owned())
        .collect();
    ended.sort();
    assert_eq!(ended, ["s-0", "s-1", "s-2", "s-3", "s-4", "s-5", "s-6", "s-7"]);
}

#[tokio::test]
async fn calls_of_a_session_share_a_lane_that_is_opened_once_and_others_that_can_be_asked_do_not() {
    let desk = Desk::start().await;
    let upstream = desk.upstream().await;
    let together = Client::asking(session("a"));
    let sessions = join_all((0..8).map(|_| together.text(&upstream, "slow"))).await;
    assert!(sessions.iter().all(|session| session == "s-1"), "{sessions:?}");
    assert_eq!(desk.declared().len(), 2);

    let alone = Client::asking(principal("p"));
    let mut sessions = join_all((0..4).map(|_| alone.text(&upstream, "slow"))).await;
    sessions.sort();
    assert_eq!(
        sessions,
        ["s-2", "s-3", "s-4", "s-5"],
        "so that it is known whose question it is"
    );
    let mut again = join_all((0..4).map(|_| alone.text(&upstream, "slow"))).await;
    again.sort();
    assert_eq!(again, sessions, "lanes that are free are used again");
}

#[tokio::test]
async fn of_callers_without_a_name_each_call_has_a_connection_that_nobody_had_before() {
    let desk = Desk::start().await;
    let upstream = desk.upstream().await;
    let client = Client::asking(Owner::Nobody);
    for session in ["s-1", "s-2", "s-3"] {
        assert_eq!(client.text(&upstream, "plain").await, session);
        let is_ended =
            |seen: &Seen| seen.http == http::Method::DELETE && seen.header("mcp-session-id") == Some(session);
        until("the session is ended", || desk.server.seen().iter().any(is_ended)).await;
    }
    upstream.stop().await;
    let upstream = process_desk().await;
    let client = Client::form_filler(Owner::Nobody);
    assert_ne!(
        client.text(&upstream, "plain").await,
        client.text(&upstream, "plain").await
    );
    upstream.stop().await;
}

#[tokio::test]
async fn a_process_is_shared_by_those_who_cannot_be_asked_and_by_nobody_else() {
    let upstream = process_desk().await;
    let silent = [Owner::Nobody, session("a"), principal("p")].map(Client::silent);
    let shared = silent[0].text(&upstream, "plain").await;
    for client in &silent {
        assert_eq!(client.text(&upstream, "plain").await, shared);
    }
    let asked = [session("a"), session("b"), principal("p")].map(Client::form_filler);
    let mut processes = vec![shared];
    for client in &asked {
        let process = client.text(&upstream, "plain").await;
        assert_eq!(client.text(&upstream, "plain").await, process);
        processes.push(process);
    }
    processes.sort();
    processes.dedup();
    assert_eq!(processes.len(), 4);
    upstream.stop().await;
    for process in processes {
        assert!(
            !std::path::Path::new("/proc").join(&process).exists(),
            "{process} still runs"
        );
    }
}

#[tokio::test]
async fn at_the_bound_the_session_that_was_not_used_for_the_longest_time_gives_way() {
    let desk = Desk::start().await;
    let upstream = desk.upstream().await;
    for number in 0..1_024 + 3 {
        Client::silent(session(&number.to_string()))
            .text(&upstream, "plain")
            .await;
    }
    let ended = || {
        desk.server
            .seen()
            .into_iter()
            .filter(|seen| seen.http == http::Method::DELETE)
            .count()
    };
    until("three are ended", || ended() == 3).await;
    for (number, expected) in [(3, "s-4"), (0, "s-1028")] {
        let client = Client::silent(session(&number.to_string()));
        assert_eq!(client.text(&upstream, "plain").await, expected);
    }
}
