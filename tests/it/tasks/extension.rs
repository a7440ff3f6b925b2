//! Tasks of Modern servers, for Modern clients that take some, and for those that take none.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use mcpfleet::fleet::PlanInput;
use mcpfleet::mcp::Revision;
use serde_json::{Value, json};

use super::{ask, over, refused, result, takes_tasks, task_of};
use crate::access::{ALICE, BOB, alice_and_bob, by_key};
use crate::support::event_stream::EventStream;
use crate::support::gateway::{TestGateway, plan};
use crate::support::held::{Streams, eventually, tagged};
use crate::support::legacy_client::LegacyClient;
use crate::support::upstream::{self, Answer, Seen, Upstream};

/// The tasks of a server, as it tells of them, and where it tells of changes.
#[derive(Clone, Default)]
pub(super) struct Tasks {
    pub(super) known: Arc<Mutex<HashMap<String, Value>>>,
    pub(super) streams: Streams,
    /// Whether it agrees to tell of tasks that it does not know.
    pub(super) agrees_to_all: bool,
}

const EXTENSION: &str = "io.modelcontextprotocol/tasks";

fn task(name: &str, status: &str, more: Value) -> Value {
    let mut task = json!({
        "taskId": name, "status": status, "createdAt": "2026-11-30T10:00:00Z", "lastUpdatedAt": "2026-11-30T10:00:00Z",
        "ttlMs": 600_000, "pollIntervalMs": 20,
    });
    for (name, value) in more.as_object().unwrap() {
        task[name] = value.clone();
    }
    task
}

fn declares(seen: &Seen) -> bool {
    let declared = &seen.body["params"]["_meta"]["io.modelcontextprotocol/clientCapabilities"];
    declared["extensions"][EXTENSION].is_object()
}

impl Tasks {
    /// A server whose tool `job` becomes the task `t-1` where it may, whose tool `plain` never does, and whose tool
    /// `rude` does so unasked.
    pub(super) async fn server(&self) -> Upstream {
        let tasks = self.clone();
        Upstream::start(move |seen| tasks.answer(seen)).await
    }

    pub(super) fn set(&self, status: &str, more: Value) {
        self.known
            .lock()
            .unwrap()
            .insert("t-1".into(), task("t-1", status, more));
    }

    fn answer(&self, seen: &Seen) -> Answer {
        let params = &seen.body["params"];
        let mut known = self.known.lock().unwrap();
        let task_id = params["taskId"].as_str().unwrap_or_default();
        match seen.method() {
            "server/discover" => seen.result(json!({
                "resultType": "complete", "supportedVersions": ["2026-07-28"], "ttlMs": 0, "cacheScope": "private",
                "capabilities": {"tools": {}, "extensions": {EXTENSION: {}}},
            })),
            "tools/call" => match (params["name"].as_str().unwrap(), declares(seen)) {
                ("job" | "needy", true) | ("rude", _) => {
                    known
                        .entry("t-1".into())
                        .or_insert_with(|| task("t-1", "working", json!({})));
                    seen.result(task("t-1", "working", json!({"resultType": "task", "odd": [1]})))
                }
                ("needy", false) => Answer::json(
                    400,
                    json!({"jsonrpc": "2.0", "id": seen.body["id"], "error": {
                        "code": -32021, "message": "tasks are needed",
                        "data": {"requiredCapabilities": {"extensions": {EXTENSION: {}}}},
                    }}),
                ),
                (name, _) => seen.result(json!({
                    "resultType": "complete", "content": [{"type": "text", "text": name}],
                })),
            },
            "tasks/get" => match known.get(task_id) {
                Some(task) => {
                    let mut task = task.clone();
                    task["resultType"] = json!("complete");
                    seen.result(task)
                }
                None => seen.error(400, -32602, "no such task"),
            },
            "tasks/update" | "tasks/cancel" => match known.get_mut(task_id) {
                Some(task) if seen.method() == "tasks/cancel" => {
                    *task = self::task(task_id, "cancelled", json!({}));
                    seen.result(json!({"resultType": "complete"}))
                }
                Some(task) => {
                    if task["status"] == "input_required" {
                        let answer = params["inputResponses"]["q"]["content"]["name"].to_string();
                        let result = json!({"content": [{"type": "text", "text": answer}]});
                        *task = self::task(task_id, "completed", json!({"result": result}));
                    }
                    seen.result(json!({"resultType": "complete"}))
                }
                None => seen.error(400, -32602, "no such task"),
            },
            "subscriptions/listen" => {
                let mut agreed = params["notifications"].clone();
                if let Some(tasks) = agreed["taskIds"].as_array_mut()
                    && !self.agrees_to_all
                {
                    tasks.retain(|task| known.contains_key(task.as_str().unwrap()));
                }
                self.streams.open_for(seen, Some(agreed))
            }
            _ => {
                let tool = |name: &str| json!({"name": name, "inputSchema": {"type": "object"}});
                upstream::modern(seen, &json!([tool("job"), tool("plain"), tool("rude"), tool("needy")]))
            }
        }
    }
}

fn done() -> Value {
    json!({"resultType": "complete", "content": [{"type": "text", "text": "done"}], "isError": true})
}

#[tokio::test]
async fn a_task_is_given_to_a_client_that_takes_one_and_asked_for_by_another_name() {
    let tasks = Tasks::default();
    let server = tasks.server().await;
    let gateway = TestGateway::ready(&[("s", server.address)]).await;
    let made = result(&gateway, "tools/call", json!({"name": "s__job"})).await;
    let name = made["taskId"].as_str().unwrap().to_owned();
    assert!(!name.contains("t-1") && name.len() > 40, "{name}");
    for (member, value) in [
        ("resultType", json!("task")),
        ("status", json!("working")),
        ("ttlMs", json!(600_000)),
        ("pollIntervalMs", json!(20)),
        ("odd", json!([1])),
    ] {
        assert_eq!(made[member], value, "{member}");
    }
    assert!(declares(&server.seen_of("tools/call")[0]));

    let by_name = || json!({"taskId": name});
    let working = result(&gateway, "tasks/get", by_name()).await;
    assert_eq!(
        (&working["taskId"], &working["status"]),
        (&json!(name), &json!("working"))
    );
    let asks = json!({"q": {"method": "elicitation/create", "params": {"mode": "form", "message": "?", "requestedSchema": {
        "type": "object", "properties": {},
    }}}});
    tasks.set("input_required", json!({"inputRequests": asks}));
    let asking = result(&gateway, "tasks/get", by_name()).await;
    assert_eq!(asking["inputRequests"], asks);
    let answers = json!({"q": {"action": "accept", "content": {"n": 1}}});
    let update = json!({"taskId": name, "inputResponses": answers});
    result(&gateway, "tasks/update", update).await;
    tasks.set("completed", json!({"result": done()}));
    assert_eq!(over(&gateway, &name).await["result"], done());
    tasks.set("failed", json!({"error": {"code": -32_042, "message": "m"}}));
    let failed = over(&gateway, &name).await;
    assert_eq!(
        (&failed["status"], &failed["error"]["code"]),
        (&json!("failed"), &json!(-32_603))
    );
    result(&gateway, "tasks/cancel", by_name()).await;
    assert_eq!(over(&gateway, &name).await["status"], "cancelled");

    assert_eq!(
        server.seen_of("tasks/update")[0].body["params"]["inputResponses"],
        answers
    );
    for method in ["tasks/get", "tasks/update", "tasks/cancel"] {
        for seen in server.seen_of(method) {
            assert_eq!(
                (seen.header("mcp-name"), seen.header("mcp-method")),
                (Some("t-1"), Some(method))
            );
            assert_eq!(seen.body["params"]["taskId"], "t-1");
            assert!(declares(&seen));
        }
    }
}

#[tokio::test]
async fn results_of_tasks_are_encoded_as_those_of_calls() {
    let tasks = Tasks::default();
    let server = tasks.server().await;
    let spec = json!({"results": {"encoding": "TOON"}});
    let gateway = TestGateway::ready_with(&[("s", server.address)], spec).await;
    let name = task_of(&gateway, json!({"name": "s__job"})).await;
    let text = json!({"a": 1, "b": "c"}).to_string();
    let done = json!({"resultType": "complete", "content": [{"type": "text", "text": text}]});
    tasks.set("completed", json!({"result": done}));
    let result = over(&gateway, &name).await["result"].take();
    assert_eq!(result["content"][0]["text"], "a: 1\nb: c", "{result}");
}

#[tokio::test]
async fn a_call_that_becomes_no_task_is_answered_as_ever() {
    let server = Tasks::default().server().await;
    let gateway = TestGateway::ready(&[("s", server.address)]).await;
    let plain = result(&gateway, "tools/call", json!({"name": "s__plain", "task": {"ttl": 1}})).await;
    assert_eq!(plain["content"][0]["text"], "plain");
    assert!(server.seen_of("tools/call")[0].body["params"].get("task").is_none());
}

#[tokio::test]
async fn no_task_reaches_a_client_that_declares_none() {
    let server = Tasks::default().server().await;
    let gateway = TestGateway::ready(&[("s", server.address)]).await;
    let modern = ask(&gateway, "tools/call", json!({"name": "s__job"}), json!({}), &[]).await;
    assert_eq!(modern.json()["result"]["content"][0]["text"], "job");
    let legacy = gateway
        .legacy("tools/call", json!({"name": "s__job", "task": {}}))
        .await;
    assert_eq!(legacy["result"]["content"][0]["text"], "job");
    assert!(!server.seen_of("tools/call").iter().any(declares));

    let (_, rude) = refused(&gateway, "tools/call", json!({"name": "s__rude"}), json!({})).await;
    assert_eq!(rude["code"], -32603, "{rude}");
    let rude = gateway.legacy("tools/call", json!({"name": "s__rude"})).await;
    assert_eq!(rude["error"]["code"], -32603, "{rude}");

    let (status, needy) = refused(&gateway, "tools/call", json!({"name": "s__needy"}), json!({})).await;
    let required = json!({"extensions": {EXTENSION: {}}});
    assert_eq!((status, &needy["code"]), (400, &json!(-32021)));
    assert_eq!(needy["data"]["requiredCapabilities"], required);
    for method in ["tasks/get", "tasks/update", "tasks/cancel"] {
        let params = json!({"taskId": "x", "inputResponses": {}});
        let (status, error) = refused(&gateway, method, params, json!({"extensions": {}})).await;
        assert_eq!((status, &error["code"]), (400, &json!(-32021)), "{method}");
        assert_eq!(error["data"]["requiredCapabilities"], required, "{method}");
    }
    assert!(server.seen_of("tasks/get").is_empty());
}

#[tokio::test]
async fn a_legacy_client_uses_a_tool_that_answers_with_nothing_but_a_task() {
    let tasks = Tasks::default();
    let server = tasks.server().await;
    let gateway = TestGateway::ready(&[("s", server.address)]).await;
    tasks.set("completed", json!({"result": done()}));
    let answer = gateway.legacy("tools/call", json!({"name": "s__needy"})).await;
    assert_eq!(answer["result"], json!({"content": done()["content"], "isError": true}));
    tasks.set("failed", json!({"error": {"code": -5, "message": "m"}}));
    let answer = gateway.legacy("tools/call", json!({"name": "s__needy"})).await;
    assert_eq!(answer["error"]["code"], -5);

    let question = json!({"method": "elicitation/create", "params": {
        "mode": "form", "message": "Name?", "requestedSchema": {"type": "object", "properties": {}},
    }});
    tasks.set("input_required", json!({"inputRequests": {"q": question}}));
    let client = LegacyClient::open(&gateway, Revision::V2025_06_18, json!({"elicitation": {}})).await;
    let mut stream = client.call("s__needy").await;
    let asked = client.asked(&mut stream).await;
    assert_eq!(asked["params"]["message"], "Name?");
    client
        .respond(
            &asked,
            json!({"result": {"action": "accept", "content": {"name": "Ada"}}}),
        )
        .await;
    assert_eq!(stream.next().await["result"]["content"][0]["text"], "\"Ada\"");
    assert!(server.seen_of("tasks/cancel").is_empty());

    tasks.set("working", json!({}));
    drop(client.call("s__needy").await);
    client
        .tell(json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": "q"}}))
        .await;
    eventually("cancelled", || !server.seen_of("tasks/cancel").is_empty()).await;
    assert!(declares(&server.seen_of("tasks/cancel")[0]));
}

#[tokio::test]
async fn a_name_that_is_unknown_forged_or_forgotten_names_no_task() {
    let tasks = Tasks::default();
    let server = tasks.server().await;
    let gateway = TestGateway::ready(&[("s", server.address)]).await;
    let name = task_of(&gateway, json!({"name": "s__job"})).await;
    for wrong in ["t-1", "", "a.b", &format!("{name}x"), &name.replacen('.', "", 1)] {
        for method in ["tasks/get", "tasks/update", "tasks/cancel"] {
            let params = json!({"taskId": wrong, "inputResponses": {}});
            let (_, error) = refused(&gateway, method, params, takes_tasks()).await;
            assert_eq!(error["code"], -32602, "{method} {wrong:?}: {error}");
        }
    }
    assert!(server.seen_of("tasks/get").is_empty(), "strangers reach no server");
    tasks.known.lock().unwrap().clear();
    let (_, forgotten) = refused(&gateway, "tasks/get", json!({"taskId": name}), takes_tasks()).await;
    assert_eq!(forgotten["code"], -32602);
    let unread = refused(
        &gateway,
        "tasks/update",
        json!({"taskId": name, "inputResponses": 1}),
        takes_tasks(),
    )
    .await;
    assert_eq!(unread.1["code"], -32602);
    for method in ["tasks/result", "tasks/list"] {
        let (status, error) = refused(&gateway, method, json!({"taskId": name}), takes_tasks()).await;
        assert_eq!((status, &error["code"]), (404, &json!(-32601)), "{method}");
        let legacy = gateway.legacy(method, json!({"taskId": name})).await;
        assert_eq!(legacy["error"]["code"], -32601, "{method}");
    }
    let other = [("mcp-name", "other")];
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": "tasks/get", "params": {"taskId": name, "_meta": {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": takes_tasks(),
    }}});
    let usual = [("mcp-protocol-version", "2026-07-28"), ("mcp-method", "tasks/get")];
    for headers in [usual.to_vec(), [&usual[..], &other[..]].concat()] {
        let reply = gateway.post(&body, &headers).await;
        assert_eq!(
            (reply.status, &reply.json()["error"]["code"]),
            (400, &json!(-32020)),
            "{headers:?}"
        );
    }
}

/// A gateway for `plan` that has read all lists.
async fn listed(plan: PlanInput) -> TestGateway {
    let mut gateway = TestGateway::start(plan).await;
    gateway
        .until(|o| o.servers.values().all(|s| s.catalog.is_some()) && !o.servers.is_empty())
        .await;
    gateway
}

/// The plan for a server at `address` whose tools of this name Alice may use, and nobody else any.
fn for_alice(address: SocketAddr, tools: &str) -> PlanInput {
    let mut plan = by_key(plan(&[("s", address)]), alice_and_bob());
    let rules = json!([{"principals": ["alice"], "names": [tools]}]);
    plan.federations[0].spec.access.as_mut().unwrap().rules = serde_json::from_value(rules).unwrap();
    plan
}

/// What a call of Alice's became.
async fn task_of_alice(gateway: &TestGateway) -> String {
    let call = json!({"name": "s__job"});
    let made = ask(gateway, "tools/call", call, takes_tasks(), &[ALICE]).await;
    made.json()["result"]["taskId"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn a_task_is_of_the_principal_whose_call_became_it() {
    let server = Tasks::default().server().await;
    let plan = by_key(plan(&[("s", server.address)]), alice_and_bob());
    let gateway = listed(plan).await;
    let name = task_of_alice(&gateway).await;
    let get = async |key| {
        let params = json!({"taskId": name});
        ask(&gateway, "tasks/get", params, takes_tasks(), &[key]).await.json()
    };
    assert_eq!(get(ALICE).await["result"]["status"], "working");
    assert_eq!(get(BOB).await["error"]["code"], -32602);
    assert_eq!(server.seen_of("tasks/get").len(), 1);
}

#[tokio::test]
async fn a_task_is_out_of_reach_for_whoever_may_not_use_its_tool_any_more() {
    let server = Tasks::default().server().await;
    let ruled = |tools: &str| for_alice(server.address, tools);
    let gateway = listed(ruled("*")).await;
    let name = task_of_alice(&gateway).await;
    let get = async || {
        let params = json!({"taskId": name});
        ask(&gateway, "tasks/get", params, takes_tasks(), &[ALICE]).await.json()
    };
    assert_eq!(get().await["result"]["status"], "working");
    gateway.input.send_replace(ruled("plain").into());
    let deadline = tokio::time::Instant::now() + Duration::from_secs(10);
    while get().await["error"]["code"] != -32602 {
        assert!(tokio::time::Instant::now() < deadline, "still within reach");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test]
async fn nothing_is_heard_of_a_task_by_whoever_may_not_use_its_tool_any_more() {
    let tasks = Tasks::default();
    let server = tasks.server().await;
    let ruled = |tools: &str| for_alice(server.address, tools);
    let gateway = listed(ruled("*")).await;
    let name = task_of_alice(&gateway).await;
    let params = json!({"notifications": {"taskIds": [name]}});
    let mut request = gateway.modern_request(json!("sub"), "subscriptions/listen", params.clone(), takes_tasks());
    request.headers_mut().insert(ALICE.0, ALICE.1.parse().unwrap());
    let mut stream = EventStream::open(&gateway.client, request).await;
    assert_eq!(stream.next().await["params"]["notifications"], params["notifications"]);
    let theirs = server.seen_of("subscriptions/listen").pop().unwrap().body["id"].clone();
    for (tools, heard) in [("*", true), ("plain", false), ("j*", true)] {
        gateway.input.send_replace(ruled(tools).into());
        let deadline = tokio::time::Instant::now() + Duration::from_secs(10);
        loop {
            let params = json!({"taskId": name});
            let got = ask(&gateway, "tasks/get", params, takes_tasks(), &[ALICE]).await.json();
            if got.get("result").is_some() == heard {
                break;
            }
            assert!(tokio::time::Instant::now() < deadline, "the rules never hold");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        tasks.streams.say(tagged(
            "notifications/tasks",
            &theirs,
            task("t-1", "working", json!({})),
        ));
        let told = stream
            .message_within(Duration::from_millis(if heard { 5_000 } else { 300 }))
            .await;
        assert_eq!(
            told.map(|told| told["params"]["taskId"].clone()),
            heard.then(|| json!(name)),
            "{tools}"
        );
    }
}

#[tokio::test]
async fn a_task_of_a_tool_that_is_run_by_name_is_as_one_of_a_call() {
    let tasks = Tasks::default();
    let server = tasks.server().await;
    let gateway = TestGateway::ready(&[("s", server.address)]).await;
    let run = json!({"name": "execute_tool", "arguments": {"name": "s__job", "parameters": {"a": 1}}});
    let name = task_of(&gateway, run.clone()).await;
    let called = server.seen_of("tools/call").pop().unwrap();
    assert_eq!(
        (&called.body["params"]["name"], &called.body["params"]["arguments"]),
        (&json!("job"), &json!({"a": 1}))
    );
    let asked = result(&gateway, "tasks/get", json!({"taskId": name})).await;
    assert_eq!((&asked["taskId"], &asked["status"]), (&json!(name), &json!("working")));
    tasks.set("completed", json!({"result": done()}));
    assert_eq!(over(&gateway, &name).await["result"]["content"], done()["content"]);
    // Who takes none gets what the tool says at once.
    let plain = ask(&gateway, "tools/call", run, json!({}), &[]).await.json();
    assert_eq!(plain["result"]["content"][0]["text"], "job", "{plain}");
}

#[tokio::test]
async fn tasks_are_offered_in_discovery_where_a_member_makes_some() {
    let server = Tasks::default().server().await;
    let without = Upstream::start(|seen| upstream::modern(seen, &json!([]))).await;
    for (address, offered) in [(server.address, true), (without.address, false)] {
        let gateway = TestGateway::ready(&[("s", address)]).await;
        let discovered = gateway.modern("server/discover", json!({})).await;
        let extensions = &discovered["result"]["capabilities"]["extensions"];
        assert_eq!(extensions.get(EXTENSION), offered.then_some(&json!({})));
        for revision in Revision::LEGACY {
            let params = json!({
                "protocolVersion": revision.as_str(), "capabilities": {}, "clientInfo": {"name": "c", "version": "1"},
            });
            let answer = gateway.ask(revision, "initialize", params).await;
            let capabilities = &answer["result"]["capabilities"];
            assert!(capabilities.get("tasks").is_none() && capabilities.get("extensions").is_none());
        }
        if !offered {
            let (status, error) = refused(&gateway, "tasks/get", json!({"taskId": "x"}), takes_tasks()).await;
            assert_eq!((status, &error["code"]), (404, &json!(-32601)));
        }
    }
}

#[tokio::test]
async fn a_subscription_goes_on_to_tell_of_tasks_when_their_server_is_edited() {
    let tasks = Tasks::default();
    let server = tasks.server().await;
    let gateway = TestGateway::ready(&[("s", server.address)]).await;
    let name = task_of(&gateway, json!({"name": "s__job"})).await;
    let params = json!({"notifications": {"taskIds": [name]}});
    let request = gateway.modern_request(json!("sub"), "subscriptions/listen", params.clone(), takes_tasks());
    let mut stream = EventStream::open(&gateway.client, request).await;
    assert_eq!(stream.next().await["params"]["notifications"], params["notifications"]);
    let listens = || {
        let mut seen = server.seen_of("subscriptions/listen");
        seen.retain(declares);
        seen
    };
    let before = listens().len();
    let mut edited = plan(&[("s", server.address)]);
    edited.servers[0].terms.timeouts.resource += Duration::from_secs(1);
    gateway.input.send_replace(edited.into());
    let deadline = tokio::time::Instant::now() + Duration::from_secs(10);
    while listens().len() == before {
        assert!(tokio::time::Instant::now() < deadline, "nobody asks again");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let theirs = listens().pop().unwrap().body["id"].clone();
    tasks.streams.say(tagged(
        "notifications/tasks",
        &theirs,
        task("t-1", "working", json!({})),
    ));
    assert_eq!(stream.message().await.unwrap()["params"]["taskId"], json!(name));
}

#[tokio::test]
async fn a_subscription_tells_of_tasks_by_the_names_that_the_client_has_for_them() {
    let tasks = Tasks::default();
    let server = tasks.server().await;
    let gateway = TestGateway::ready(&[("s", server.address)]).await;
    let name = task_of(&gateway, json!({"name": "s__job"})).await;
    let listen = async |names: Value, capabilities: Value| {
        let params = json!({"notifications": {"taskIds": names, "toolsListChanged": true}});
        let request = gateway.modern_request(json!("sub"), "subscriptions/listen", params, capabilities);
        EventStream::open(&gateway.client, request).await
    };
    let undeclared = listen(json!([name]), json!({})).await;
    assert_eq!(undeclared.status, 400);
    let mut stream = listen(json!(["forged", name, "t-1"]), takes_tasks()).await;
    let acknowledged = stream.message().await.unwrap();
    assert_eq!(
        acknowledged["params"]["notifications"],
        json!({"toolsListChanged": true, "taskIds": [name]})
    );
    let asked = server.seen_of("subscriptions/listen");
    let of_tasks: Vec<_> = asked.iter().filter(|seen| declares(seen)).collect();
    assert_eq!(of_tasks.len(), 1);
    assert_eq!(of_tasks[0].body["params"]["notifications"], json!({"taskIds": ["t-1"]}));

    let theirs = of_tasks[0].body["id"].clone();
    let tell = |name: &str, status: &str, more: Value| {
        tasks
            .streams
            .say(tagged("notifications/tasks", &theirs, task(name, status, more)));
    };
    tell("t-2", "working", json!({}));
    tell("t-1", "working", json!({"statusMessage": "half of it"}));
    let told = stream.message().await.unwrap();
    assert_eq!(told["method"], "notifications/tasks");
    let params = &told["params"];
    assert_eq!(
        (&params["taskId"], &params["statusMessage"]),
        (&json!(name), &json!("half of it"))
    );
    assert_eq!(
        params["_meta"],
        json!({"io.modelcontextprotocol/subscriptionId": "sub"})
    );

    // Where the server's stream ends, another one is opened.
    tasks.streams.close();
    let listens = || server.seen_of("subscriptions/listen").len();
    eventually("asked again", || listens() == 2).await;
    tokio::time::sleep(Duration::from_millis(50)).await;
    let theirs = server.seen_of("subscriptions/listen")[1].body["id"].clone();
    tasks.streams.say(tagged(
        "notifications/tasks",
        &theirs,
        task("t-1", "completed", json!({"result": done()})),
    ));
    let told = stream.message().await.unwrap();
    assert_eq!(told["params"]["status"], "completed");
    assert_eq!(told["params"]["result"], done());
    eventually("nothing more is to be heard", || !tasks.streams.is_read(0)).await;
}
