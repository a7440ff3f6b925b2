//! Whose calls share a connection to a Legacy server, and what becomes of what such a server asks.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::future::join_all;
use http::HeaderMap;
use mcpfleet::mcp::asking::{Asking, Said};
use mcpfleet::mcp::notice::LogLevel;
use mcpfleet::mcp::{Features, Members, Method};
use mcpfleet::metrics::Metrics;
use mcpfleet::upstream::{
    Asked, Body, Call, Ear, Endpoint, Error, Health, HttpEndpoint, Owner, StdioCommand, Terms, Timeouts, Upstream,
};
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep, timeout};

use crate::support::gateway::TestGateway;
use crate::support::upstream::{self, Answer, Seen};

const PATIENCE: Duration = Duration::from_secs(20);

/// A client as the upstream sees it.
pub(crate) struct Client {
    owner: Owner,
    features: Features,
    log_level: Option<LogLevel>,
    ear: Arc<TestEar>,
    asked: tokio::sync::Mutex<mpsc::UnboundedReceiver<Asked>>,
    heard: tokio::sync::Mutex<mpsc::UnboundedReceiver<Value>>,
}

#[derive(Debug)]
struct TestEar {
    asked: mpsc::UnboundedSender<Asked>,
    heard: mpsc::UnboundedSender<Value>,
}

impl Ear for TestEar {
    fn heard(&self, notification: &[u8]) {
        drop(self.heard.send(serde_json::from_slice(notification).unwrap()));
    }

    fn asked(&self, asked: Asked) {
        drop(self.asked.send(asked));
    }
}

impl Client {
    /// Nobody can ask it anything.
    pub(crate) fn silent(owner: Owner) -> Self {
        let (asked, asked_receiver) = mpsc::unbounded_channel();
        let (heard, heard_receiver) = mpsc::unbounded_channel();
        Self {
            owner,
            features: Features::default(),
            log_level: None,
            ear: Arc::new(TestEar { asked, heard }),
            asked: asked_receiver.into(),
            heard: heard_receiver.into(),
        }
    }

    /// It can be asked for forms and roots.
    fn asking(owner: Owner) -> Self {
        Self {
            features: Features {
                roots: true,
                forms: true,
                ..Features::default()
            },
            ..Self::silent(owner)
        }
    }

    async fn call(&self, upstream: &Upstream, tool: &str) -> Result<Value, Error> {
        let text = json!({"name": tool, "arguments": {}, "_meta": {"progressToken": 1}}).to_string();
        let params = Members::parse(&text).unwrap();
        let meta = Members::parse(params.get("_meta").unwrap().get());
        let call = Call {
            method: Method::ToolsCall,
            target: tool,
            params: &params,
            meta: meta.as_ref(),
            param_headers: None,
            owner: self.owner.clone(),
            features: &self.features,
            answers: None,
            log_level: self.log_level,
            ear: Some(Arc::clone(&self.ear) as _),
        };
        let reply = upstream.call(call).await?;
        match reply.body() {
            Body::Result(result) => Ok(serde_json::from_str(result).unwrap()),
            Body::Error(error) => panic!("{error}"),
        }
    }

    /// The text of a call's result.
    pub(crate) async fn text(&self, upstream: &Upstream, tool: &str) -> String {
        let result = timeout(PATIENCE, self.call(upstream, tool)).await;
        let result = result.expect("no answer").unwrap();
        result["content"][0]["text"].as_str().unwrap().to_owned()
    }

    async fn asked(&self) -> Asked {
        let mut asked = self.asked.lock().await;
        timeout(PATIENCE, asked.recv())
            .await
            .expect("nothing is asked")
            .unwrap()
    }

    pub(crate) async fn heard(&self) -> Value {
        let mut heard = self.heard.lock().await;
        timeout(PATIENCE, heard.recv())
            .await
            .expect("nothing is heard")
            .unwrap()
    }

    pub(crate) fn has_heard(&self) -> bool {
        self.heard.try_lock().unwrap().try_recv().is_ok()
    }

    fn was_asked(&self) -> bool {
        self.asked.try_lock().unwrap().try_recv().is_ok()
    }
}

pub(crate) fn session(name: &str) -> Owner {
    Owner::Session(name.into())
}

fn principal(name: &str) -> Owner {
    Owner::Principal(name.into())
}

fn accept(name: &str) -> Said {
    Said::Result(json!({"action": "accept", "content": {"name": name}}).to_string())
}

/// A Legacy server that opens a session for each handshake, and whose tools ask.
struct Desk {
    server: upstream::Upstream,
    lost: Arc<AtomicBool>,
}

/// What a call waits for before it is done.
struct Open {
    say: mpsc::UnboundedSender<Value>,
    id: Value,
    answers: BTreeMap<String, Value>,
    missing: usize,
}

impl Desk {
    async fn start() -> Self {
        let (sessions, open) = (AtomicUsize::new(0), Mutex::new(HashMap::<String, Open>::new()));
        let own_streams = Mutex::new(HashMap::new());
        let lost = Arc::new(AtomicBool::new(false));
        let is_lost = Arc::clone(&lost);
        let script = move |seen: &Seen| {
            if seen.method() == "initialize" {
                let session = format!("s-{}", sessions.fetch_add(1, Ordering::SeqCst));
                let result = json!({
                    "protocolVersion": "2025-06-18", "capabilities": {"tools": {}, "logging": {}},
                    "serverInfo": {"name": "desk", "version": "1"},
                });
                is_lost.store(false, Ordering::SeqCst);
                return seen.result(result).with_header("mcp-session-id", &session);
            }
            let Some(session) = seen.header("mcp-session-id") else {
                return Answer::text(400, "text/plain", "no session");
            };
            if is_lost.load(Ordering::SeqCst) && session != "s-0" {
                return Answer::text(404, "text/plain", "session not found");
            }
            if seen.http == http::Method::GET {
                let (say, answer) = Answer::live();
                own_streams.lock().unwrap().insert(session.to_owned(), say);
                return answer;
            }
            match (seen.method(), seen.body["params"]["name"].as_str()) {
                ("tools/call", Some("ask_aside")) => {
                    let streams = own_streams.lock().unwrap();
                    let (say, answer) = Answer::live();
                    let id = format!("{session}/{}", seen.body["id"]);
                    streams[session].send(question(&format!("{id}/0"))).unwrap();
                    let waiting = Open {
                        say,
                        id: seen.body["id"].clone(),
                        answers: BTreeMap::new(),
                        missing: 1,
                    };
                    open.lock().unwrap().insert(id, waiting);
                    answer
                }
                ("tools/call", Some(tool)) => called(seen, session, tool, &mut open.lock().unwrap()),
                ("", _) if seen.body.get("id").is_some() => answered(seen, &mut open.lock().unwrap()),
                ("logging/setLevel", _) => seen.result(json!({})),
                _ => upstream::legacy(seen, &json!([{"name": "t", "inputSchema": {"type": "object"}}])),
            }
        };
        Self {
            server: upstream::Upstream::start(script).await,
            lost,
        }
    }

    async fn upstream(&self) -> Upstream {
        ready(
            Endpoint::Http(HttpEndpoint {
                url: format!("http://{}/mcp", self.server.address).parse().unwrap(),
                headers: HeaderMap::new(),
            }),
            Timeouts::default(),
        )
        .await
    }

    /// The sessions that were opened, in their order, with what was declared.
    fn declared(&self) -> Vec<Value> {
        let seen = self.server.seen_of("initialize");
        seen.iter()
            .map(|seen| seen.body["params"]["capabilities"].clone())
            .collect()
    }

    /// What the server was told that is no request, from the first answer or cancellation on.
    fn told(&self) -> Vec<Value> {
        let seen = self.server.seen().into_iter().map(|seen| seen.body);
        seen.filter(|body| {
            body.get("method").is_none() && body.is_object() || body["method"] == "notifications/cancelled"
        })
        .collect()
    }

    /// Waits until it was told so many things.
    async fn told_at_least(&self, count: usize) -> Vec<Value> {
        until("the server is told", || self.told().len() >= count).await;
        self.told()
    }
}

fn question(id: &str) -> Value {
    let schema = json!({"type": "object", "properties": {"name": {"type": "string"}}});
    let params = json!({"message": format!("Who for {id}?"), "requestedSchema": schema});
    json!({"jsonrpc": "2.0", "id": id, "method": "elicitation/create", "params": params})
}

fn done(id: &Value, text: &str) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "result": {"content": [{"type": "text", "text": text}]}})
}

fn called(seen: &Seen, session: &str, tool: &str, open: &mut HashMap<String, Open>) -> Answer {
    let id = seen.body["id"].clone();
    let (say, answer) = Answer::live();
    let question_id = |n: usize| format!("{session}/{id}/{n}");
    let ask = |count: usize| {
        for n in 0..count {
            say.send(question(&question_id(n))).unwrap();
        }
    };
    let count = match tool {
        "ask" | "ask_and_end" => 1,
        "ask_twice" => 2,
        "flood" => 40,
        "impatient" => {
            ask(1);
            say.send(done(&id, session)).unwrap();
            return answer;
        }
        "withdraw" => {
            ask(1);
            let params = json!({"requestId": question_id(0)});
            say.send(json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params}))
                .unwrap();
            say.send(done(&id, session)).unwrap();
            return answer;
        }
        "log" => {
            let params = json!({"level": "info", "data": session});
            say.send(json!({"jsonrpc": "2.0", "method": "notifications/message", "params": params}))
                .unwrap();
            say.send(done(&id, session)).unwrap();
            return answer;
        }
        "slow" => return Answer::Stream(vec![(Duration::from_millis(300), done(&id, session))]),
        "hang" => return Answer::Hang,
        _ => return seen.result(json!({"content": [{"type": "text", "text": session}]})),
    };
    ask(count);
    let params = json!({"progressToken": id, "progress": 1});
    say.send(json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": params}))
        .unwrap();
    if tool == "ask_and_end" {
        // The stream ends, as that of a server that dies.
        return answer;
    }
    let waiting = Open {
        say: say.clone(),
        id: id.clone(),
        answers: BTreeMap::new(),
        missing: count,
    };
    open.insert(format!("{session}/{id}"), waiting);
    answer
}

fn answered(seen: &Seen, open: &mut HashMap<String, Open>) -> Answer {
    let id = seen.body["id"].as_str().unwrap();
    let (call, _) = id.rsplit_once('/').unwrap();
    if let Some(waiting) = open.get_mut(call) {
        waiting.answers.insert(id.to_owned(), seen.body.clone());
        if waiting.answers.len() == waiting.missing {
            let names = waiting.answers.values().map(|answer| {
                let name = &answer["result"]["content"]["name"];
                let action = &answer["result"]["action"];
                name.as_str().or_else(|| action.as_str()).unwrap_or("error")
            });
            let text = names.collect::<Vec<_>>().join("+");
            drop(waiting.say.send(done(&waiting.id, &text)));
            open.remove(call);
        }
    }
    Answer::status(202)
}

pub(crate) async fn ready(endpoint: Endpoint, timeouts: Timeouts) -> Upstream {
    let metrics = Metrics::new().unwrap().server("default/s");
    let terms = Terms {
        timeouts,
        ..Terms::default()
    };
    let upstream = Upstream::start("default/s".into(), endpoint, terms, metrics);
    let mut state = upstream.state();
    let is_ready = state.wait_for(|state| state.health == Health::Ready);
    timeout(PATIENCE, is_ready).await.expect("it never got ready").unwrap();
    upstream
}

async fn withdrawn(asked: &Asked) {
    timeout(PATIENCE, asked.withdrawn().cancelled())
        .await
        .expect("it still waits");
}

async fn until(what: &str, holds: impl Fn() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !holds() {
        assert!(Instant::now() < deadline, "never: {what}");
        sleep(Duration::from_millis(10)).await;
    }
}

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
        Client {
            features: Features {
                roots: true,
                ..Features::default()
            },
            ..Client::silent(session("b"))
        },
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
async fn a_lost_session_is_made_again_once_for_all_calls_of_its_owner() {
    let desk = Desk::start().await;
    let upstream = desk.upstream().await;
    let (a, b) = (Client::asking(session("a")), Client::silent(principal("b")));
    a.text(&upstream, "plain").await;
    b.text(&upstream, "plain").await;
    desk.lost.store(true, Ordering::SeqCst);
    let sessions = join_all((0..4).map(|_| a.text(&upstream, "plain"))).await;
    assert!(sessions.iter().all(|session| session == "s-3"), "{sessions:?}");
    assert_eq!(desk.declared().len(), 4);
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
async fn a_server_logs_what_a_caller_wants_and_is_told_so_once() {
    let desk = Desk::start().await;
    let upstream = desk.upstream().await;
    let wants = |client, level| Client {
        log_level: Some(level),
        ..client
    };
    let client = wants(Client::silent(session("a")), LogLevel::Info);
    for _ in 0..2 {
        client.text(&upstream, "log").await;
        assert_eq!(client.heard().await["params"]["data"], "s-1");
    }
    for level in [LogLevel::Warning, LogLevel::Error, LogLevel::Debug] {
        wants(Client::silent(Owner::Nobody), level)
            .text(&upstream, "plain")
            .await;
    }
    let levels = desk.server.seen_of("logging/setLevel").into_iter().map(|seen| {
        let session = seen.header("mcp-session-id").unwrap().to_owned();
        (session, seen.body["params"]["level"].as_str().unwrap().to_owned())
    });
    let expected = [("s-1", "info"), ("s-2", "warning"), ("s-2", "debug")];
    assert_eq!(
        levels.collect::<Vec<_>>(),
        expected.map(|(session, level)| (session.to_owned(), level.to_owned()))
    );
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

#[tokio::test]
async fn changed_roots_are_told_on_the_lanes_of_their_session_only() {
    let desk = Desk::start().await;
    let upstream = desk.upstream().await;
    for client in [
        Client::asking(session("a")),
        Client::silent(session("a")),
        Client::asking(session("b")),
    ] {
        client.text(&upstream, "plain").await;
    }
    upstream.roots_changed(&session("a")).await;
    upstream.roots_changed(&session("c")).await;
    let told = desk.server.seen_of("notifications/roots/list_changed");
    let sessions: Vec<_> = told.iter().map(|seen| seen.header("mcp-session-id")).collect();
    assert_eq!(sessions, [Some("s-1")]);
}

#[tokio::test]
async fn what_a_client_tells_of_its_session_reaches_the_lanes_of_that_session() {
    let desk = Desk::start().await;
    let gateway = TestGateway::ready(&[("s", desk.server.address)]).await;
    let post = async |body: Value, session: Option<&str>| {
        let usual = [
            ("accept", "application/json, text/event-stream"),
            ("mcp-protocol-version", "2025-06-18"),
        ];
        let own = session.map(|session| ("mcp-session-id", session));
        gateway.bare_post(&body.to_string(), usual.into_iter().chain(own)).await
    };
    let mut clients = Vec::new();
    for _ in 0..2 {
        let params = json!({
            "protocolVersion": "2025-06-18", "capabilities": {"roots": {"listChanged": true}},
            "clientInfo": {"name": "c", "version": "1"},
        });
        let opened = post(
            json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params}),
            None,
        )
        .await;
        let client = opened.header("mcp-session-id").unwrap().to_owned();
        let params = json!({"name": "s__t", "arguments": {}});
        let call = json!({"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": params});
        let text = post(call, Some(&client)).await.json()["result"]["content"][0]["text"].clone();
        clients.push((client, text.as_str().unwrap().to_owned()));
    }
    let [(first, lane), (_, other)] = &clients[..] else {
        panic!("{clients:?}");
    };
    assert_ne!(lane, other);
    assert_eq!(desk.declared()[1], json!({"roots": {"listChanged": true}}));

    let changed = json!({"jsonrpc": "2.0", "method": "notifications/roots/list_changed"});
    assert_eq!(post(changed, Some(first)).await.status, 202);
    let told = desk.server.seen_of("notifications/roots/list_changed");
    let sessions: Vec<_> = told.iter().map(|seen| seen.header("mcp-session-id")).collect();
    assert_eq!(sessions, [Some(lane.as_str())]);

    let delete = http::Request::delete(gateway.url()).header("mcp-session-id", first);
    let delete = delete.header("mcp-protocol-version", "2025-06-18");
    gateway.send(delete.body(Default::default()).unwrap()).await;
    let ended = || {
        let seen = desk
            .server
            .seen()
            .into_iter()
            .filter(|seen| seen.http == http::Method::DELETE);
        seen.map(|seen| seen.header("mcp-session-id").unwrap().to_owned())
            .collect::<Vec<_>>()
    };
    until("the server's session is ended", || !ended().is_empty()).await;
    assert_eq!(ended(), std::slice::from_ref(lane));
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

/// A Legacy server on standard input and output. `ask` asks who calls and gives the answer back.
const DESK: &str = r#"
import json, os, sys, threading, time
lock, answers = threading.Lock(), {}
def say(message):
    with lock: sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n"); sys.stdout.flush()
def ask(id, method, params):
    answers[id] = [threading.Event(), None]
    say({"id": id, "method": method, "params": params})
    answers[id][0].wait()
    return answers[id][1]
form = {"message": "Who?", "requestedSchema": {"type": "object", "properties": {}}}
roots, cancelled, declared = None, [], {}
def call(r):
    tool, text = r["params"]["name"], None
    if tool == "plain": text = str(os.getpid())
    if tool == "slow": time.sleep(0.5); text = str(os.getpid())
    if tool == "ask": text = json.dumps(ask("q%s" % r["id"], "elicitation/create", form))
    if tool == "ask_late": threading.Timer(0.2, lambda: ask("late", "elicitation/create", form)).start(); text = "done"
    if tool == "late": time.sleep(0.4); text = json.dumps(answers["late"][1])
    if tool == "roots": text = json.dumps(roots)
    if tool == "log": say({"method": "notifications/message", "params": {"level": "info", "data": "hello"}}); text = ""
    if tool == "die": threading.Thread(target=ask, args=("q", "elicitation/create", form)).start(); time.sleep(0.2); os._exit(3)
    if tool == "cancelled": text = json.dumps(cancelled)
    say({"id": r["id"], "result": {"content": [{"type": "text", "text": text}]}})
def ask_roots():
    global roots
    roots = ask("r", "roots/list", {})
for line in sys.stdin:
    m = json.loads(line)
    method = m.get("method")
    if method == "initialize":
        declared = m["params"]["capabilities"]
        say({"id": m["id"], "result": {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": {"name": "desk", "version": "1"}}})
    elif method == "notifications/initialized":
        if "roots" in declared: threading.Thread(target=ask_roots).start()
    elif method == "notifications/cancelled": cancelled.append("cancelled")
    elif method == "tools/list": say({"id": m["id"], "result": {"tools": [{"name": "ask", "inputSchema": {"type": "object"}}]}})
    elif method == "tools/call": threading.Thread(target=call, args=(m,), daemon=True).start()
    elif method: say({"id": m["id"], "error": {"code": -32601, "message": "unknown"}})
    else:
        cancelled.append(m["id"])
        answers[m["id"]][1] = m.get("result") or m["error"]["code"]; answers[m["id"]][0].set()
"#;

async fn process_desk() -> Upstream {
    let command = StdioCommand {
        program: "python3".into(),
        args: vec!["-c".into(), DESK.into()],
        env: BTreeMap::new(),
        cwd: None,
    };
    let timeouts = Timeouts {
        connect: PATIENCE,
        ..Timeouts::default()
    };
    ready(Endpoint::Stdio(command), timeouts).await
}

/// A client that fills forms and has no roots.
pub(crate) fn form_filler(owner: Owner) -> Client {
    Client {
        features: Features {
            forms: true,
            ..Features::default()
        },
        ..Client::silent(owner)
    }
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
    let client = form_filler(Owner::Nobody);
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
    let asked = [session("a"), session("b"), principal("p")].map(form_filler);
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
async fn two_users_of_a_process_server_never_get_each_others_questions() {
    let upstream = process_desk().await;
    let (a, b) = (form_filler(session("a")), form_filler(session("b")));
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
    let client = form_filler(session("a"));
    assert_eq!(client.text(&upstream, "ask_late").await, "done");
    sleep(Duration::from_millis(500)).await;
    assert!(!client.was_asked());
    assert_eq!(client.text(&upstream, "late").await, r#"{"action": "cancel"}"#);
}

#[tokio::test]
async fn a_process_that_dies_while_a_question_waits_fails_the_call_and_is_started_again() {
    let upstream = process_desk().await;
    let client = form_filler(session("a"));
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
    let client = form_filler(session("a"));
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

#[tokio::test]
async fn a_server_that_became_modern_meanwhile_is_spoken_to_as_one() {
    let is_new = Arc::new(AtomicBool::new(false));
    let was_replaced = Arc::clone(&is_new);
    let server = upstream::Upstream::start(move |seen| {
        let tools = json!([{"name": "t", "inputSchema": {"type": "object"}}]);
        if was_replaced.load(Ordering::SeqCst) {
            return upstream::modern(seen, &tools);
        }
        upstream::legacy(seen, &tools)
    })
    .await;
    let endpoint = Endpoint::Http(HttpEndpoint {
        url: format!("http://{}/mcp", server.address).parse().unwrap(),
        headers: HeaderMap::new(),
    });
    let upstream = ready(endpoint, Timeouts::default()).await;
    is_new.store(true, Ordering::SeqCst);
    let client = Client::asking(session("a"));
    assert_eq!(client.text(&upstream, "t").await, "t");
    let called = server.seen_of("tools/call").pop().unwrap();
    assert_eq!(called.header("mcp-protocol-version"), Some("2026-07-28"));
    let capabilities = &called.body["params"]["_meta"]["io.modelcontextprotocol/clientCapabilities"];
    assert_eq!(*capabilities, json!({"roots": {}, "elicitation": {"form": {}}}));
}
