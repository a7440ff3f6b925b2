//! What subscriptions are told of tasks whose servers lose them, or are lost themselves.

use std::time::Duration;

use mcpfleet::fleet::{ObjectKey, PlanInput};
use serde_json::{Value, json};

use super::changes::{listen, told};
use super::core::{Server, done};
use super::extension::Tasks;
use super::{ask, refused, takes_tasks, task_of};
use crate::support::event_stream::EventStream;
use crate::support::gateway::{TestGateway, plan};
use crate::support::upstream::Upstream;

/// That the task `name` is lost is told next, for this reason and once.
async fn is_lost(stream: &mut EventStream, name: &str, why: &str) {
    let params = told(stream, name).await;
    assert_eq!(params["status"], "failed", "{params}");
    assert_eq!(params["error"]["code"], -32602, "{params}");
    let text = params["error"]["message"].as_str().unwrap();
    assert!(text.contains(why), "{params}");
    assert_eq!(stream.message_within(Duration::from_millis(500)).await, None);
}

#[tokio::test]
async fn a_task_is_lost_that_its_server_does_not_know_any_more() {
    let server = Server::new(&["working", "unknown", "working", "unknown"], done());
    let server = server.start().await;
    let gateway = TestGateway::ready(&[("s", server.address)]).await;
    let name = task_of(&gateway, json!({"name": "s__job"})).await;
    let (mut stream, agreed) = listen(&gateway, json!([name]), None).await;
    assert_eq!(agreed, json!({"taskIds": [name]}));
    is_lost(&mut stream, &name, "does not know it any more").await;
    let looks = server.seen_of("tasks/get").len();
    tokio::time::sleep(Duration::from_millis(1_500)).await;
    assert_eq!(server.seen_of("tasks/get").len(), looks, "it is asked for no more");
    let (_, error) = refused(&gateway, "tasks/get", json!({"taskId": name}), takes_tasks()).await;
    assert_eq!(error["code"], -32602, "whoever asks hears the same: {error}");
}

#[tokio::test]
async fn a_first_look_that_fails_is_repeated() {
    let server = Server::new(&["broken", "broken", "completed"], done()).start().await;
    let gateway = TestGateway::ready(&[("s", server.address)]).await;
    let name = task_of(&gateway, json!({"name": "s__job"})).await;
    let (mut stream, agreed) = listen(&gateway, json!([name]), None).await;
    assert_eq!(agreed, json!({"taskIds": [name]}));
    assert_eq!(told(&mut stream, &name).await["status"], "completed");
}

#[tokio::test]
async fn a_task_is_lost_that_its_server_forgets_while_its_listen_is_away() {
    for agrees_to_all in [false, true] {
        let tasks = Tasks {
            agrees_to_all,
            ..Tasks::default()
        };
        let server = tasks.server().await;
        let gateway = TestGateway::ready(&[("s", server.address)]).await;
        let name = task_of(&gateway, json!({"name": "s__job"})).await;
        let (mut stream, agreed) = listen(&gateway, json!([name]), None).await;
        assert_eq!(agreed, json!({"taskIds": [name]}));
        tasks.known.lock().unwrap().clear();
        tasks.streams.close();
        is_lost(&mut stream, &name, "does not know it any more").await;
    }
}

#[tokio::test]
async fn what_came_of_a_task_before_its_server_agreed_to_tell_of_it_is_told_once() {
    let tasks = Tasks::default();
    let server = tasks.server().await;
    let gateway = TestGateway::ready(&[("s", server.address)]).await;
    let name = task_of(&gateway, json!({"name": "s__job"})).await;
    tasks.set("completed", json!({"result": {"content": []}}));
    let (mut stream, agreed) = listen(&gateway, json!([name]), None).await;
    assert_eq!(agreed, json!({"taskIds": [name]}));
    assert_eq!(told(&mut stream, &name).await["status"], "completed");
    assert_eq!(stream.message_within(Duration::from_secs(1)).await, None);
}

#[tokio::test]
async fn a_task_is_lost_that_its_server_agrees_to_tell_of_and_does_not_know() {
    let tasks = Tasks {
        agrees_to_all: true,
        ..Tasks::default()
    };
    let server = tasks.server().await;
    let gateway = TestGateway::ready(&[("s", server.address)]).await;
    let name = task_of(&gateway, json!({"name": "s__job"})).await;
    tasks.known.lock().unwrap().clear();
    let (mut stream, agreed) = listen(&gateway, json!([name]), None).await;
    assert_eq!(agreed, json!({"taskIds": [name]}));
    is_lost(&mut stream, &name, "does not know it any more").await;
}

/// A second federation of the same servers, which holds them whatever becomes of the first.
fn and_another(mut input: PlanInput) -> PlanInput {
    let mut other = input.federations[0].clone();
    other.key = ObjectKey::new("default", "other");
    input.federations.push(other);
    input
}

async fn started(server: &Upstream) -> TestGateway {
    let mut gateway = TestGateway::start(and_another(plan(&[("s", server.address)]))).await;
    gateway
        .until(|o| !o.servers.is_empty() && o.servers.values().all(|s| s.catalog.is_some()))
        .await;
    gateway
}

#[tokio::test]
async fn a_task_is_lost_whose_server_is_taken_out_of_the_federation() {
    for is_held in [false, true] {
        let server = Server::new(&["working"], done()).start().await;
        let gateway = started(&server).await;
        let name = task_of(&gateway, json!({"name": "s__job"})).await;
        let (mut stream, agreed) = listen(&gateway, json!([name]), None).await;
        assert_eq!(agreed, json!({"taskIds": [name]}));
        let mut edited = and_another(plan(&[("s", server.address)]));
        edited.federations[0].spec.members = Default::default();
        if !is_held {
            edited = plan(&[]);
        }
        gateway.input.send_replace(edited.into());
        is_lost(&mut stream, &name, "is not served here any more").await;
    }
}

#[tokio::test]
async fn a_task_that_is_kept_here_is_lost_when_its_server_is_taken_out() {
    let server = Server::new(&["working"], done()).start().await;
    let gateway = started(&server).await;
    let mut capabilities = takes_tasks();
    capabilities["elicitation"] = json!({"form": {}});
    let made: Value = ask(&gateway, "tools/call", json!({"name": "s__job"}), capabilities, &[])
        .await
        .json();
    let name = made["result"]["taskId"].as_str().unwrap().to_owned();
    let (mut stream, agreed) = listen(&gateway, json!([name]), None).await;
    assert_eq!(agreed, json!({"taskIds": [name]}));
    gateway.input.send_replace(plan(&[]).into());
    is_lost(&mut stream, &name, "is not served here any more").await;
}
