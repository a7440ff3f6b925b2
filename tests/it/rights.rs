//! What waits for its client ends with that one's right to it: nobody goes on with what it could not begin any more.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use mcpfleet::fleet::{ObjectKey, PlanInput};
use serde_json::{Value, json};
use tokio::time::{sleep, timeout};

use crate::access::{ALICE, alice_and_bob, by_key};
use crate::support::gateway::{TestGateway, plan, plan_with};
use crate::support::held::{PATIENCE, Streams, eventually};
use crate::support::upstream::{self, Answer, Upstream};

/// A Legacy server whose tool `ask` asks before it answers, and what it was told of each call.
async fn asking() -> (Upstream, Streams) {
    let calls = Streams::default();
    let streams = calls.clone();
    let server = Upstream::start(move |seen| match seen.method() {
        "initialize" => {
            let answer = seen.result(json!({
                "protocolVersion": "2025-11-25", "capabilities": {"tools": {}},
                "serverInfo": {"name": "s", "version": "1"},
            }));
            answer.with_header("mcp-session-id", "s-1")
        }
        "tools/list" => seen.result(json!({"tools": [
            {"name": "ask", "inputSchema": {"type": "object"}}, {"name": "other", "inputSchema": {"type": "object"}},
        ]})),
        "tools/call" if seen.body["params"]["name"] == "other" => seen.result(json!({"content": []})),
        "tools/call" => {
            let answer = streams.open();
            let form = json!({"message": "m", "requestedSchema": {"type": "object", "properties": {}}});
            streams.say(json!({"jsonrpc": "2.0", "id": "q", "method": "elicitation/create", "params": form}));
            answer
        }
        "server/discover" => seen.error(200, -32601, "unknown method"),
        _ => Answer::status(202),
    })
    .await;
    (server, calls)
}

/// A Modern request of Alice's, with more in its params.
async fn send(gateway: &TestGateway, method: &str, mut params: Value, more: &Value) -> Value {
    for (name, value) in more.as_object().unwrap() {
        params[name] = value.clone();
    }
    params["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {
            "elicitation": {}, "extensions": {"io.modelcontextprotocol/tasks": {}},
        },
    });
    let name = ["name", "uri", "taskId"]
        .into_iter()
        .find_map(|name| params[name].as_str().map(str::to_owned));
    let name = name.unwrap_or_default();
    let headers = [
        ("mcp-protocol-version", "2026-07-28"),
        ("mcp-method", method),
        ("mcp-name", &name),
        ALICE,
    ];
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
    let answer = timeout(PATIENCE * 2, gateway.post(body, &headers)).await;
    answer.expect("no answer").json()
}

/// The state that continues a request which asks, and an answer to all that it asks.
fn answer_to(asked: &Value) -> Value {
    assert_eq!(asked["result"]["resultType"], "input_required", "{asked}");
    let questions = asked["result"]["inputRequests"].as_object();
    let said = questions.into_iter().flat_map(|questions| questions.keys());
    let said = said.map(|key| (key.clone(), json!({"action": "accept", "content": {}})));
    let responses: serde_json::Map<_, _> = said.collect();
    json!({"requestState": asked["result"]["requestState"], "inputResponses": responses})
}

async fn ready(input: PlanInput) -> TestGateway {
    let mut gateway = TestGateway::start(input).await;
    gateway
        .until(|o| !o.servers.is_empty() && o.servers.values().all(|server| server.catalog.is_some()))
        .await;
    gateway
}

/// The plan for a server `s`, which a second federation holds whatever becomes of the first.
fn open(address: SocketAddr) -> PlanInput {
    let mut input = by_key(plan(&[("s", address)]), alice_and_bob());
    let mut other = input.federations[0].clone();
    other.key = ObjectKey::new("default", "other");
    input.federations.push(other);
    input
}

/// Ways to take everything but the tool `other` from Alice.
fn taken(address: SocketAddr) -> [(&'static str, PlanInput); 3] {
    let edited = |edit: &dyn Fn(&mut PlanInput)| {
        let mut input = open(address);
        edit(&mut input);
        input
    };
    let rules = json!([{"principals": ["alice"], "names": ["other"]}]);
    let spec = |members: Value| plan_with(&[], json!({ "members": members })).federations.remove(0).spec;
    let denied = json!([{"name": "s", "server": {"name": "s"}, "tools": {"deny": ["ask", "t", "job"]}}]);
    [
        (
            "rules",
            edited(&|input| {
                let access = input.federations[0].spec.access.as_mut().unwrap();
                access.rules = serde_json::from_value(rules.clone()).unwrap();
            }),
        ),
        (
            "denied",
            edited(&|input| input.federations[0].spec.members = spec(denied.clone()).members),
        ),
        (
            "removed",
            edited(&|input| input.federations[0].spec.members = spec(json!([])).members),
        ),
    ]
}

/// Puts `input` in force, which is so once this call is refused as one of an unknown tool is.
async fn put_in_force(gateway: &TestGateway, input: PlanInput, method: &str, params: &Value) {
    gateway.input.send_replace(input.into());
    for _ in 0..500 {
        let answer = send(gateway, method, params.clone(), &json!({})).await;
        if answer["error"]["code"] == -32602 {
            return;
        }
        sleep(Duration::from_millis(20)).await;
    }
    panic!("the edit is never in force");
}

#[tokio::test]
async fn a_call_that_waits_ends_with_the_right_to_it_whether_its_client_comes_back_or_not() {
    for way in 0..3 {
        let (server, calls) = asking().await;
        let gateway = ready(open(server.address)).await;
        let call = json!({"name": "s__ask"});
        let asked = send(&gateway, "tools/call", call.clone(), &json!({})).await;
        let (what, edited) = taken(server.address).into_iter().nth(way).unwrap();
        gateway.input.send_replace(edited.into());
        eventually("the question is refused", || {
            server.seen().iter().any(|seen| seen.body["id"] == "q")
        })
        .await;
        let refused = server.seen().into_iter().find(|seen| seen.body["id"] == "q").unwrap();
        assert_eq!(refused.body["result"], json!({"action": "cancel"}), "{what}");
        eventually("and the call cancelled", || {
            server.seen_of("notifications/cancelled").len() == 1 && !calls.is_read(0)
        })
        .await;
        let over = send(&gateway, "tools/call", call, &answer_to(&asked)).await;
        assert_eq!(over["error"]["code"], -32602, "{what}: {over}");
        assert!(
            over["error"]["message"].as_str().unwrap().starts_with("Unknown tool"),
            "{what}: {over}"
        );
        gateway.stop().await;
    }
}

#[tokio::test]
async fn a_call_that_waits_ends_when_another_server_takes_the_place_of_its_own_though_every_list_is_as_before() {
    let ((server, calls), (twin, _)) = (asking().await, asking().await);
    let of = |server: &str| {
        let members = json!([{"name": "s", "server": {"name": server}}]);
        plan_with(&[], json!({ "members": members }))
            .federations
            .remove(0)
            .spec
            .members
    };
    let mut input = by_key(plan(&[("s", server.address), ("twin", twin.address)]), alice_and_bob());
    // Both servers are held all the time.
    let mut both = input.federations[0].clone();
    both.key = ObjectKey::new("default", "both");
    input.federations.push(both);
    input.federations[0].spec.members = of("s");
    let gateway = ready(input.clone()).await;
    let call = json!({"name": "s__ask"});
    let asked = send(&gateway, "tools/call", call.clone(), &json!({})).await;
    input.federations[0].spec.members = of("twin");
    gateway.input.send_replace(input.into());
    eventually("the call is cancelled", || {
        server.seen_of("notifications/cancelled").len() == 1 && !calls.is_read(0)
    })
    .await;
    let over = send(&gateway, "tools/call", call, &answer_to(&asked)).await;
    assert!(over.get("error").is_some(), "{over}");
    assert!(twin.seen_of("tools/call").is_empty());
    gateway.stop().await;
}

#[tokio::test]
async fn a_right_that_is_away_twice_for_a_short_while_is_not_taken_for_gone() {
    let (server, calls) = asking().await;
    let gateway = ready(open(server.address)).await;
    let call = json!({"name": "s__ask"});
    let asked = send(&gateway, "tools/call", call.clone(), &json!({})).await;
    let [_, _, (_, removed)] = taken(server.address);
    for _ in 0..2 {
        gateway.input.send_replace(removed.clone().into());
        sleep(Duration::from_millis(1_800)).await;
        gateway.input.send_replace(open(server.address).into());
        sleep(Duration::from_millis(1_000)).await;
    }
    assert!(server.seen_of("notifications/cancelled").is_empty());
    assert!(!server.seen().iter().any(|seen| seen.body["id"] == "q"));
    let id = server.seen_of("tools/call")[0].body["id"].clone();
    let result = json!({"content": [{"type": "text", "text": "done"}]});
    calls.say(json!({"jsonrpc": "2.0", "id": id, "result": result}));
    let done = send(&gateway, "tools/call", call, &answer_to(&asked)).await;
    assert_eq!(done["result"]["content"][0]["text"], "done", "{done}");
    gateway.stop().await;
}

#[tokio::test]
async fn a_call_that_waits_goes_on_through_an_edit_that_leaves_the_right_to_it() {
    let (server, calls) = asking().await;
    let gateway = ready(open(server.address)).await;
    let call = json!({"name": "s__ask"});
    let asked = send(&gateway, "tools/call", call.clone(), &json!({})).await;
    let mut edited = open(server.address);
    let rules = json!([{"principals": ["alice"], "names": ["ask"]}]);
    edited.federations[0].spec.access.as_mut().unwrap().rules = serde_json::from_value(rules).unwrap();
    put_in_force(&gateway, edited, "tools/call", &json!({"name": "s__other"})).await;
    sleep(Duration::from_secs(4)).await;
    assert!(calls.is_read(0));
    let id = server.seen_of("tools/call")[0].body["id"].clone();
    let result = json!({"content": [{"type": "text", "text": "done"}]});
    calls.say(json!({"jsonrpc": "2.0", "id": id, "result": result}));
    let done = send(&gateway, "tools/call", call, &answer_to(&asked)).await;
    assert_eq!(done["result"]["content"][0]["text"], "done", "{done}");
    gateway.stop().await;
}

#[tokio::test]
async fn a_call_that_waits_is_not_gone_on_with_by_a_name_that_has_come_to_stand_for_another_tool() {
    let ((a, calls), (b, _)) = (asking().await, asking().await);
    let members = |deny: Value| {
        json!([
            {"name": "a", "server": {"name": "a"}, "prefix": "", "tools": {"deny": deny}},
            {"name": "b", "server": {"name": "b"}, "prefix": ""},
        ])
    };
    let input = |deny: Value| {
        let servers = [("a", a.address), ("b", b.address)];
        by_key(plan_with(&servers, json!({"members": members(deny)})), alice_and_bob())
    };
    let gateway = ready(input(json!([]))).await;
    let call = json!({"name": "ask"});
    let asked = send(&gateway, "tools/call", call.clone(), &json!({})).await;
    assert_eq!((a.seen_of("tools/call").len(), b.seen_of("tools/call").len()), (1, 0));
    gateway.input.send_replace(input(json!(["ask"])).into());
    for _ in 0..500 {
        if !b.seen_of("tools/call").is_empty() {
            break;
        }
        send(&gateway, "tools/call", call.clone(), &json!({})).await;
    }
    let refused = send(&gateway, "tools/call", call, &answer_to(&asked)).await;
    assert_eq!(refused["error"]["code"], -32602, "{refused}");
    let answered = |seen: &upstream::Seen| seen.body["result"]["action"] == "accept";
    assert!(!a.seen().iter().chain(&b.seen()).any(answered));
    eventually("the call at the first is given up", || !calls.is_read(0)).await;
    gateway.stop().await;
}

/// A Modern server with a tool, a prompt and a resource that each want another round.
async fn wanting_rounds() -> Upstream {
    Upstream::start(|seen| {
        let list = |name: &str, items: Value| {
            seen.result(json!({"resultType": "complete", name: items, "ttlMs": 0, "cacheScope": "private"}))
        };
        match seen.method() {
            "server/discover" => seen.result(json!({
                "resultType": "complete", "supportedVersions": ["2026-07-28"], "ttlMs": 0, "cacheScope": "private",
                "capabilities": {"tools": {}, "prompts": {}, "resources": {}},
            })),
            "prompts/list" => list("prompts", json!([{"name": "p"}])),
            "resources/list" => list("resources", json!([{"uri": "a://b", "name": "r"}])),
            "resources/templates/list" => list("resourceTemplates", json!([])),
            "tools/call" | "prompts/get" | "resources/read" => {
                seen.result(json!({"resultType": "input_required", "requestState": "theirs"}))
            }
            _ => upstream::modern(seen, &json!([{"name": "t", "inputSchema": {"type": "object"}}])),
        }
    })
    .await
}

#[tokio::test]
async fn a_state_of_a_modern_server_continues_nothing_that_its_client_may_not_use_any_more() {
    for way in 0..3 {
        let server = wanting_rounds().await;
        let gateway = ready(open(server.address)).await;
        let requests = [
            ("tools/call", json!({"name": "s__t"})),
            ("prompts/get", json!({"name": "s__p"})),
            ("resources/read", json!({"uri": "a://b"})),
        ];
        let mut asked = Vec::new();
        for (method, params) in &requests {
            asked.push(send(&gateway, method, params.clone(), &json!({})).await);
        }
        let (what, edited) = taken(server.address).into_iter().nth(way).unwrap();
        put_in_force(&gateway, edited, "tools/call", &requests[0].1).await;
        // Filters of a member are for its tools alone.
        let lost = if what == "denied" { 1 } else { requests.len() };
        for ((method, params), asked) in requests.iter().zip(&asked).take(lost) {
            let before = server.seen_of(method).len();
            let over = send(&gateway, method, params.clone(), &answer_to(asked)).await;
            assert_eq!(over["error"]["code"], -32602, "{what}, {method}: {over}");
            assert_eq!(server.seen_of(method).len(), before, "{what}, {method}");
        }
        gateway.stop().await;
    }
}

#[tokio::test]
async fn a_task_that_is_kept_here_is_out_of_reach_and_asks_nobody_any_more_without_the_right_to_its_tool() {
    let asked = Arc::new(Mutex::new(None));
    let stream = Arc::clone(&asked);
    let server = Upstream::start(move |seen| {
        let task = json!({
            "taskId": "c-1", "status": "input_required", "createdAt": "2026-11-30T10:00:00Z",
            "lastUpdatedAt": "2026-11-30T10:00:00Z", "ttl": 60_000, "pollInterval": 10,
        });
        match seen.method() {
            "initialize" => seen
                .result(json!({
                    "protocolVersion": "2025-11-25", "serverInfo": {"name": "core", "version": "1"},
                    "capabilities": {"tools": {}, "tasks": {"cancel": {}, "requests": {"tools": {"call": {}}}}},
                }))
                .with_header("mcp-session-id", "s-1"),
            "tools/list" => seen.result(json!({"tools": [{
                "name": "job", "inputSchema": {"type": "object"}, "execution": {"taskSupport": "required"},
            }]})),
            "tools/call" => seen.result(json!({ "task": task })),
            "tasks/get" | "tasks/cancel" => seen.result(task),
            "tasks/result" => {
                let (sender, answer) = Answer::live();
                let params = json!({
                    "mode": "form", "message": "Name?", "requestedSchema": {"type": "object", "properties": {}},
                    "_meta": {"io.modelcontextprotocol/related-task": {"taskId": "c-1"}},
                });
                let question = json!({"jsonrpc": "2.0", "id": "q", "method": "elicitation/create", "params": params});
                sender.send(question).unwrap();
                *stream.lock().unwrap() = Some(sender);
                answer
            }
            "" => Answer::status(202),
            _ => upstream::legacy(seen, &json!([])),
        }
    })
    .await;
    let gateway = ready(open(server.address)).await;
    let made = send(&gateway, "tools/call", json!({"name": "s__job"}), &json!({})).await;
    let task = json!({"taskId": made["result"]["taskId"]});
    for _ in 0..500 {
        let got = send(&gateway, "tasks/get", task.clone(), &json!({})).await;
        if got["result"]["status"] == "input_required" {
            break;
        }
        sleep(Duration::from_millis(20)).await;
    }
    let (_, edited) = taken(server.address).into_iter().next().unwrap();
    put_in_force(&gateway, edited, "tasks/get", &task).await;
    for method in ["tasks/get", "tasks/update", "tasks/cancel"] {
        let answer = json!({"inputResponses": {}});
        let refused = send(&gateway, method, task.clone(), &answer).await;
        assert_eq!(refused["error"]["code"], -32602, "{method}: {refused}");
    }
    eventually("the question is refused", || {
        server.seen().iter().any(|seen| seen.body["id"] == "q")
    })
    .await;
    let refused = server.seen().into_iter().find(|seen| seen.body["id"] == "q").unwrap();
    assert_eq!(refused.body["result"], json!({"action": "cancel"}));
    assert!(asked.lock().unwrap().is_some());
    gateway.stop().await;
}
