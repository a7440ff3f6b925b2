//! A Legacy server over HTTP that opens a session for each handshake, and whose tools ask.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use http::HeaderMap;
use mcpfleet::upstream::{Endpoint, HttpEndpoint, Timeouts, Upstream};
use serde_json::{Value, json};
use tokio::sync::mpsc;

use super::caller::{ready, until};
use crate::support::upstream::{self, Answer, Seen};

/// A Legacy server that opens a session for each handshake, and whose tools ask.
pub(super) struct Desk {
    pub(super) server: upstream::Upstream,
    pub(super) lost: Arc<AtomicBool>,
}

/// What a call waits for before it is done.
struct Open {
    say: mpsc::UnboundedSender<Value>,
    id: Value,
    answers: BTreeMap<String, Value>,
    missing: usize,
}

impl Desk {
    pub(super) async fn start() -> Self {
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

    pub(super) async fn upstream(&self) -> Upstream {
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
    pub(super) fn declared(&self) -> Vec<Value> {
        let seen = self.server.seen_of("initialize");
        seen.iter()
            .map(|seen| seen.body["params"]["capabilities"].clone())
            .collect()
    }

    /// What the server was told that is no request, from the first answer or cancellation on.
    pub(super) fn told(&self) -> Vec<Value> {
        let seen = self.server.seen().into_iter().map(|seen| seen.body);
        seen.filter(|body| {
            body.get("method").is_none() && body.is_object() || body["method"] == "notifications/cancelled"
        })
        .collect()
    }

    /// Waits until it was told so many things.
    pub(super) async fn told_at_least(&self, count: usize) -> Vec<Value> {
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
