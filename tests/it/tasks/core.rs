//! Tasks of 2025-11-25: made where a tool wants to be called for one, and shown to nobody as they are.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use mcpfleet::mcp::Revision;
use serde_json::{Value, json};
use tokio::sync::mpsc::UnboundedSender;
use tokio::time::Instant;

use super::{ask, over, refused, result, takes_tasks, task_of};
use crate::support::gateway::{TestGateway, plan};
use crate::support::held::eventually;
use crate::support::legacy_client::LegacyClient;
use crate::support::upstream::{self, Answer, Seen, Upstream};

/// A server whose tool `job` wants to be called for a task, and whose tool `maybe` may be.
#[derive(Clone)]
pub(super) struct Server(Arc<Mutex<State>>);

struct State {
    /// What it says at each look; the last one stays.
    looks: Vec<&'static str>,
    /// What the task comes to: a result or an error.
    outcome: Value,
    sessions: usize,
    is_cancelled: bool,
    /// The stream on which the result is waited for, while a question is.
    asking: Option<(UnboundedSender<Value>, Value)>,
}

impl Server {
    pub(super) fn new(looks: &[&'static str], outcome: Value) -> Self {
        Self(Arc::new(Mutex::new(State {
            looks: looks.to_vec(),
            outcome,
            sessions: 0,
            is_cancelled: false,
            asking: None,
        })))
    }

    pub(super) async fn start(&self) -> Upstream {
        let server = self.clone();
        Upstream::start(move |seen| server.answer(seen)).await
    }

    fn answer(&self, seen: &Seen) -> Answer {
        let mut state = self.0.lock().unwrap();
        let params = &seen.body["params"];
        let is_known = params["taskId"] == "c-1";
        match seen.method() {
            "initialize" => {
                state.sessions += 1;
                seen.result(json!({
                    "protocolVersion": "2025-11-25", "serverInfo": {"name": "core", "version": "1"},
                    "capabilities": {"tools": {}, "tasks": {"cancel": {}, "requests": {"tools": {"call": {}}}}},
                }))
                .with_header("mcp-session-id", &format!("s-{}", state.sessions))
            }
            "tools/list" => seen.result(json!({"tools": [
                tool("job", "required"), tool("maybe", "optional"), tool("plain", "forbidden"), tool("rude", "forbidden"),
            ]})),
            "tools/call" => match (params["name"].as_str().unwrap(), params.get("task")) {
                ("job", None) => seen.error(200, -32601, "it wants to be called for a task"),
                (_, Some(_)) | ("rude", None) => seen.result(json!({"task": task("working")})),
                (name, None) => seen.result(json!({"content": [{"type": "text", "text": name}]})),
            },
            "tasks/get" | "tasks/result" | "tasks/cancel" if !is_known => seen.error(200, -32602, "no such task"),
            "tasks/get" if state.looks[0] == "broken" => {
                state.looks.remove(0);
                Answer::status(503)
            }
            "tasks/get" if state.looks[0] == "lost" => Answer::status(404),
            "tasks/get" if state.looks[0] == "unknown" => seen.error(200, -32602, "no such task"),
            "tasks/get" if state.is_cancelled => seen.result(task("cancelled")),
            "tasks/get" => {
                let status = state.looks[0];
                if state.looks.len() > 1 {
                    state.looks.remove(0);
                }
                seen.result(task(status))
            }
            "tasks/result" if state.looks[0] == "input_required" => {
                let (stream, answer) = Answer::live();
                let params = json!({
                    "mode": "form", "message": "Name?", "requestedSchema": {"type": "object", "properties": {}},
                    "_meta": {"io.modelcontextprotocol/related-task": {"taskId": "c-1"}},
                });
                let question = json!({"jsonrpc": "2.0", "id": 900, "method": "elicitation/create", "params": params});
                stream.send(question).unwrap();
                state.asking = Some((stream, seen.body["id"].clone()));
                answer
            }
            "" if seen.body["id"] == 900 => {
                let (stream, id) = state.asking.take().unwrap();
                let text = seen.body["result"]["content"]["name"].to_string();
                let result = json!({"content": [{"type": "text", "text": text}]});
                stream
                    .send(json!({"jsonrpc": "2.0", "id": id, "result": result}))
                    .unwrap();
                Answer::status(202)
            }
            "tasks/result" => match state.outcome.get("code") {
                None => seen.result(state.outcome.clone()),
                Some(code) => seen.error(200, code.as_i64().unwrap(), "it failed"),
            },
            "tasks/cancel" if matches!(state.looks[0], "completed" | "failed") => seen.error(200, -32602, "it is over"),
            "tasks/cancel" => {
                state.is_cancelled = true;
                seen.result(task("cancelled"))
            }
            _ => upstream::legacy(seen, &json!([])),
        }
    }
}

fn tool(name: &str, support: &str) -> Value {
    json!({"name": name, "inputSchema": {"type": "object"}, "execution": {"taskSupport": support}})
}

fn task(status: &str) -> Value {
    json!({
        "taskId": "c-1", "status": status, "statusMessage": "so far so good", "createdAt": "2026-11-30T10:00:00Z",
        "lastUpdatedAt": "2026-11-30T10:00:00Z", "ttl": 60_000, "pollInterval": 10,
    })
}

pub(super) fn done() -> Value {
    json!({
        "content": [{"type": "text", "text": "done"}],
        "_meta": {"io.modelcontextprotocol/related-task": {"taskId": "c-1"}, "k": 1},
    })
}

async fn legacy_call(gateway: &TestGateway, tool: &str) -> Value {
    gateway
        .legacy("tools/call", json!({"name": tool, "task": {"ttl": 5}}))
        .await
}

#[tokio::test]
async fn a_client_that_takes_no_tasks_gets_the_result_when_the_task_is_over() {
    let server = Server::new(&["working", "working", "completed"], done()).start().await;
    let gateway = TestGateway::ready(&[("s", server.address)]).await;
    let begun = Instant::now();
    let legacy = legacy_call(&gateway, "s__job").await;
    assert!(
        begun.elapsed() >= Duration::from_millis(750),
        "three looks, none sooner than the floor"
    );
    assert_eq!(
        legacy["result"],
        json!({"content": [{"type": "text", "text": "done"}], "_meta": {"k": 1}})
    );
    let modern = ask(&gateway, "tools/call", json!({"name": "s__job"}), json!({}), &[])
        .await
        .json();
    assert_eq!(modern["result"]["resultType"], "complete");
    assert_eq!(modern["result"]["content"][0]["text"], "done");
    assert_eq!(
        modern["result"]["_meta"].get("io.modelcontextprotocol/related-task"),
        None
    );

    let calls = server.seen_of("tools/call");
    assert!(calls.iter().all(|seen| seen.body["params"]["task"] == json!({})));
    let session = |seen: &Seen| seen.header("mcp-session-id").unwrap().to_owned();
    let looks = server.seen_of("tasks/get");
    assert_eq!(looks.len(), 4);
    assert!(
        looks[..3].iter().all(|seen| session(seen) == session(&calls[0])),
        "in the same session"
    );
    assert!(server.seen_of("tasks/cancel").is_empty());
}

#[tokio::test]
async fn tools_that_may_or_must_not_make_tasks_are_called_for_none() {
    let server = Server::new(&["working"], done()).start().await;
    let gateway = TestGateway::ready(&[("s", server.address)]).await;
    for tool in ["maybe", "plain"] {
        let answer = legacy_call(&gateway, &format!("s__{tool}")).await;
        assert_eq!(
            answer["result"]["content"][0]["text"], tool,
            "a client's own wish for a task is ignored"
        );
        let answer = result(&gateway, "tools/call", json!({"name": format!("s__{tool}")})).await;
        assert_eq!(answer["content"][0]["text"], tool);
    }
    for capabilities in [json!({}), takes_tasks()] {
        let (_, rude) = refused(&gateway, "tools/call", json!({"name": "s__rude"}), capabilities).await;
        assert_eq!(rude["code"], -32603, "{rude}");
    }
    assert_eq!(legacy_call(&gateway, "s__rude").await["error"]["code"], -32603);
    assert!(
        server
            .seen_of("tools/call")
            .iter()
            .all(|seen| seen.body["params"].get("task").is_none())
    );
}

#[tokio::test]
async fn no_client_is_told_to_call_for_a_task_of_a_kind_that_is_not_served() {
    let server = Server::new(&["working"], done()).start().await;
    let gateway = TestGateway::ready(&[("s", server.address)]).await;
    for revision in Revision::ALL {
        let listed = gateway.ask(revision, "tools/list", json!({})).await;
        for tool in listed["result"]["tools"].as_array().unwrap() {
            let support = tool["execution"]["taskSupport"].as_str();
            assert!(matches!(support, None | Some("forbidden")), "{revision}: {tool}");
        }
    }
}

#[tokio::test]
async fn what_the_task_comes_to_is_the_answer_whatever_it_is() {
    let failed = json!({"content": [], "isError": true});
    let server = Server::new(&["failed"], failed.clone()).start().await;
    let gateway = TestGateway::ready(&[("s", server.address)]).await;
    assert_eq!(legacy_call(&gateway, "s__job").await["result"], failed);

    let server = Server::new(&["failed"], json!({"code": -5})).start().await;
    let gateway = TestGateway::ready(&[("s", server.address)]).await;
    assert_eq!(legacy_call(&gateway, "s__job").await["error"]["code"], -5);

    let server = Server::new(&["cancelled"], done()).start().await;
    let gateway = TestGateway::ready(&[("s", server.address)]).await;
    let error = legacy_call(&gateway, "s__job").await["error"].take();
    assert_eq!(error["code"], -32603);
    assert!(error["message"].as_str().unwrap().contains("so far so good"), "{error}");
    assert!(server.seen_of("tasks/cancel").is_empty(), "it is over");
}

#[tokio::test]
async fn what_a_server_asks_in_a_task_reaches_whoever_waits_for_it() {
    let server = Server::new(&["working", "input_required"], done()).start().await;
    let gateway = TestGateway::ready(&[("s", server.address)]).await;
    let forms = json!({"elicitation": {"form": {}}});
    let answer = json!({"action": "accept", "content": {"name": "Ada"}});

    let client = LegacyClient::open(&gateway, Revision::V2025_11_25, forms.clone()).await;
    let mut stream = client.call("s__job").await;
    let asked = client.asked(&mut stream).await;
    assert_eq!(asked["params"]["message"], "Name?");
    assert!(
        asked["params"].get("_meta").is_none(),
        "the client knows of no task: {asked}"
    );
    client.respond(&asked, json!({"result": answer})).await;
    assert_eq!(stream.next().await["result"]["content"][0]["text"], "\"Ada\"");

    let call = json!({"name": "s__job"});
    let asked = ask(&gateway, "tools/call", call.clone(), forms.clone(), &[])
        .await
        .json();
    assert_eq!(asked["result"]["resultType"], "input_required", "{asked}");
    let (key, _) = asked["result"]["inputRequests"]
        .as_object()
        .unwrap()
        .iter()
        .next()
        .unwrap();
    let mut again = call;
    again["requestState"] = asked["result"]["requestState"].clone();
    again["inputResponses"] = json!({key: answer});
    let done = ask(&gateway, "tools/call", again, forms, &[]).await.json();
    assert_eq!(done["result"]["content"][0]["text"], "\"Ada\"", "{done}");
    assert!(server.seen_of("tasks/cancel").is_empty());
}

#[tokio::test]
async fn a_client_that_takes_tasks_is_asked_in_its_task() {
    let server = Server::new(&["working", "input_required"], done()).start().await;
    let gateway = TestGateway::ready(&[("s", server.address)]).await;
    let mut capabilities = takes_tasks();
    capabilities["elicitation"] = json!({"form": {}});
    let of_client = async |method: &str, params: Value| {
        let mut answer = ask(&gateway, method, params, capabilities.clone(), &[]).await.json();
        assert!(answer.get("result").is_some(), "{method}: {answer}");
        answer["result"].take()
    };
    let made = of_client("tools/call", json!({"name": "s__job"})).await;
    assert_eq!(
        (&made["resultType"], &made["status"]),
        (&json!("task"), &json!("working"))
    );
    let name = made["taskId"].as_str().unwrap();
    let deadline = Instant::now() + Duration::from_secs(10);
    let asking = loop {
        let task = of_client("tasks/get", json!({"taskId": name})).await;
        if task["status"] == "input_required" {
            break task;
        }
        assert!(Instant::now() < deadline, "never asked: {task}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    };
    let (key, question) = asking["inputRequests"].as_object().unwrap().iter().next().unwrap();
    assert_eq!(question["params"]["message"], "Name?");
    let answer = json!({"action": "accept", "content": {"name": "Ada"}});
    let update = json!({"taskId": name, "inputResponses": {key: answer, "other": {}}});
    of_client("tasks/update", update).await;
    let task = over(&gateway, name).await;
    assert_eq!((&task["status"], &task["taskId"]), (&json!("completed"), &json!(name)));
    assert_eq!(task["result"]["content"][0]["text"], "\"Ada\"");

    let server = Server::new(&["working"], done()).start().await;
    let gateway = TestGateway::ready(&[("s", server.address)]).await;
    let made = ask(&gateway, "tools/call", json!({"name": "s__job"}), capabilities, &[])
        .await
        .json();
    let name = made["result"]["taskId"].as_str().unwrap();
    eventually("made", || !server.seen_of("tasks/get").is_empty()).await;
    result(&gateway, "tasks/cancel", json!({"taskId": name})).await;
    assert_eq!(over(&gateway, name).await["status"], "cancelled");
    eventually("cancelled", || !server.seen_of("tasks/cancel").is_empty()).await;
}

#[tokio::test]
async fn a_task_that_waits_with_a_question_fails_when_its_server_is_held_anew() {
    let server = Server::new(&["working", "input_required"], done()).start().await;
    let mut input = plan(&[("s", server.address)]);
    let mut gateway = TestGateway::start(input.clone()).await;
    gateway
        .until(|o| !o.servers.is_empty() && o.servers.values().all(|s| s.catalog.is_some()))
        .await;
    let mut capabilities = takes_tasks();
    capabilities["elicitation"] = json!({"form": {}});
    let made = ask(&gateway, "tools/call", json!({"name": "s__job"}), capabilities, &[]).await;
    let name = made.json()["result"]["taskId"].as_str().unwrap().to_owned();
    let deadline = Instant::now() + Duration::from_secs(10);
    while result(&gateway, "tasks/get", json!({"taskId": name})).await["status"] != "input_required" {
        assert!(Instant::now() < deadline, "never asked");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    input.servers[0].terms.timeouts.call = Some(Duration::from_secs(100));
    gateway.input.send_replace(input.into());
    let mut task = json!(null);
    while task["status"] != "failed" {
        assert!(Instant::now() < deadline, "it waits on: {task}");
        tokio::time::sleep(Duration::from_millis(50)).await;
        task = result(&gateway, "tasks/get", json!({"taskId": name})).await;
    }
    assert!(
        task["error"]["message"].as_str().unwrap().contains("let go of"),
        "{task}"
    );
    eventually("cancelled", || !server.seen_of("tasks/cancel").is_empty()).await;
}

#[tokio::test]
async fn a_server_that_does_not_tell_now_and_then_is_borne_and_one_that_lost_the_task_is_called_no_second_time() {
    let server = Server::new(&["broken", "broken", "completed"], done()).start().await;
    let gateway = TestGateway::ready(&[("s", server.address)]).await;
    let answer = legacy_call(&gateway, "s__job").await;
    assert_eq!(answer["result"]["content"][0]["text"], "done", "{answer}");

    let server = Server::new(&["lost"], done()).start().await;
    let gateway = TestGateway::ready(&[("s", server.address)]).await;
    let error = legacy_call(&gateway, "s__job").await["error"].take();
    assert_eq!(error["code"], -32603);
    assert!(
        error["message"].as_str().unwrap().contains("the task was given up"),
        "{error}"
    );
    assert_eq!(server.seen_of("tools/call").len(), 1);
}

#[tokio::test]
async fn a_task_that_nobody_waits_for_any_more_is_cancelled() {
    let server = Server::new(&["working"], done()).start().await;
    let gateway = TestGateway::ready(&[("s", server.address)]).await;
    let params = json!({"name": "s__job"});
    let call = ask(&gateway, "tools/call", params, json!({}), &[]);
    let impatient = tokio::time::timeout(Duration::from_millis(600), call).await;
    assert!(impatient.is_err());
    eventually("cancelled", || !server.seen_of("tasks/cancel").is_empty()).await;
    assert_eq!(server.seen_of("tasks/cancel")[0].body["params"]["taskId"], "c-1");
}

#[tokio::test]
async fn a_call_takes_no_longer_than_it_may_and_its_task_is_cancelled() {
    let server = Server::new(&["working"], done()).start().await;
    let mut plan = plan(&[("s", server.address)]);
    plan.servers[0].terms.timeouts.call = Some(Duration::from_millis(700));
    let mut gateway = TestGateway::start(plan).await;
    gateway
        .until(|o| o.servers.values().all(|s| s.catalog.is_some()) && !o.servers.is_empty())
        .await;
    let begun = Instant::now();
    let error = legacy_call(&gateway, "s__job").await["error"].take();
    assert_eq!(error["code"], -32603);
    assert!(
        error["message"].as_str().unwrap().contains("tools/call within 700ms"),
        "{error}"
    );
    assert!(begun.elapsed() < Duration::from_secs(5));
    eventually("cancelled", || !server.seen_of("tasks/cancel").is_empty()).await;
}

#[tokio::test]
async fn a_client_that_takes_tasks_is_given_one_in_the_words_of_the_extension() {
    let server = Server::new(&["working", "input_required", "completed"], done())
        .start()
        .await;
    let gateway = TestGateway::ready(&[("s", server.address)]).await;
    let made = result(&gateway, "tools/call", json!({"name": "s__job"})).await;
    assert_eq!(
        (&made["resultType"], &made["status"]),
        (&json!("task"), &json!("working"))
    );
    assert_eq!((&made["ttlMs"], &made["pollIntervalMs"]), (&json!(60_000), &json!(10)));
    let name = made["taskId"].as_str().unwrap();
    for _ in 0..2 {
        let task = result(&gateway, "tasks/get", json!({"taskId": name})).await;
        assert_eq!((&task["taskId"], &task["status"]), (&json!(name), &json!("working")));
        assert_eq!(task["statusMessage"], "so far so good");
    }
    let completed = result(&gateway, "tasks/get", json!({"taskId": name})).await;
    assert_eq!(completed["status"], "completed");
    assert_eq!(
        completed["result"],
        json!({"resultType": "complete", "content": [{"type": "text", "text": "done"}], "_meta": {"k": 1}})
    );
    let update = json!({"taskId": name, "inputResponses": {"q": {}}});
    assert_eq!(result(&gateway, "tasks/update", update).await["resultType"], "complete");
    // One that is over is none the less cancelled, and stays what it is.
    result(&gateway, "tasks/cancel", json!({"taskId": name})).await;
    assert_eq!(over(&gateway, name).await["status"], "completed");
    let seen = server.seen_of("tools/call");
    assert_eq!((seen.len(), &seen[0].body["params"]["task"]), (1, &json!({})));
    // The first session reads the lists, and carries no call.
    let capabilities = &server.seen_of("initialize")[1].body["params"]["capabilities"];
    assert_eq!(*capabilities, json!({}));
}

#[tokio::test]
async fn whether_a_tool_or_the_task_failed_is_told_apart() {
    let failed = json!({"content": [], "isError": true});
    let server = Server::new(&["failed"], failed).start().await;
    let gateway = TestGateway::ready(&[("s", server.address)]).await;
    let task = over(&gateway, &task_of(&gateway, json!({"name": "s__job"})).await).await;
    assert_eq!(
        (&task["status"], &task["result"]["isError"]),
        (&json!("completed"), &json!(true))
    );

    let server = Server::new(&["failed"], json!({"code": -5})).start().await;
    let gateway = TestGateway::ready(&[("s", server.address)]).await;
    let task = over(&gateway, &task_of(&gateway, json!({"name": "s__job"})).await).await;
    assert_eq!(
        (&task["status"], &task["error"]["code"]),
        (&json!("failed"), &json!(-5))
    );
}

#[tokio::test]
async fn a_server_none_of_whose_tools_wants_to_be_called_for_a_task_makes_none() {
    let server = Upstream::start(|seen| match seen.method() {
        "initialize" => seen.result(json!({
            "protocolVersion": "2025-11-25", "serverInfo": {"name": "core", "version": "1"},
            "capabilities": {"tools": {}, "tasks": {"requests": {"tools": {"call": {}}}}},
        })),
        "tools/list" => seen.result(json!({"tools": [tool("maybe", "optional")]})),
        _ => upstream::legacy(seen, &json!([])),
    })
    .await;
    let gateway = TestGateway::ready(&[("s", server.address)]).await;
    let discovered = gateway.modern("server/discover", json!({})).await;
    assert!(
        discovered["result"]["capabilities"].get("extensions").is_none(),
        "{discovered}"
    );
    let (status, error) = refused(&gateway, "tasks/get", json!({"taskId": "x"}), takes_tasks()).await;
    assert_eq!((status, &error["code"]), (404, &json!(-32601)));
}

#[tokio::test]
async fn a_client_cancels_its_task() {
    let server = Server::new(&["working"], done()).start().await;
    let gateway = TestGateway::ready(&[("s", server.address)]).await;
    let name = task_of(&gateway, json!({"name": "s__job"})).await;
    result(&gateway, "tasks/cancel", json!({"taskId": name})).await;
    assert_eq!(over(&gateway, &name).await["status"], "cancelled");
}

#[tokio::test]
async fn a_task_that_the_server_forgot_is_unknown() {
    let server = Server::new(&["working"], done()).start().await;
    let gateway = TestGateway::ready(&[("s", server.address)]).await;
    let name = task_of(&gateway, json!({"name": "s__job"})).await;
    let address = server.address;
    drop(server);
    tokio::time::sleep(Duration::from_millis(100)).await;
    let forgetful = Upstream::start_at(address, |seen| match seen.method() {
        "tasks/get" | "tasks/cancel" => seen.error(200, -32602, "no such task"),
        _ => upstream::legacy(seen, &json!([])),
    })
    .await;
    for method in ["tasks/get", "tasks/update", "tasks/cancel"] {
        let params = json!({"taskId": name, "inputResponses": {}});
        let (_, error) = refused(&gateway, method, params, takes_tasks()).await;
        assert_eq!(error["code"], -32602, "{method}: {error}");
    }
    drop(forgetful);
}
