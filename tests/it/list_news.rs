//! What a server tells of its lists reaches clients of both eras, who see the change as soon as they hear of it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use ::http::Method;
use futures::future::join_all;
use mcpfleet::fleet::PlanInput;
use mcpfleet::mcp::{Era, Revision};
use mcpfleet::upstream::Freshness;
use serde_json::{Value, json};
use tokio::sync::mpsc::UnboundedSender;
use tokio::time::{Instant, sleep};

use crate::support::event_stream::EventStream;
use crate::support::gateway::{TestGateway, plan, plan_with};
use crate::support::held::{Streams, Tools, changed, eventually, legacy, modern, tagged};
use crate::support::upstream::{self, Answer, Upstream};

const LEGACY: Revision = Revision::LATEST_LEGACY;
const WHILE: Duration = Duration::from_millis(400);
const NAMES: [&str; 20] = [
    "a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l", "m", "n", "o", "p", "q", "r", "s", "t",
];

/// A server whose tools a test adds to, and that says so.
struct Server {
    upstream: Upstream,
    tools: Tools,
    streams: Streams,
    era: Era,
}

impl Server {
    async fn start(era: Era) -> Self {
        let (tools, streams) = (Tools::default(), Streams::default());
        let (listed, opened) = (tools.clone(), streams.clone());
        let announced = || json!({"tools": {"listChanged": true}});
        // The change comes on the stream that answers the call which brings it about.
        let on_the_way = Mutex::new(Vec::<UnboundedSender<Value>>::new());
        let upstream = Upstream::start(move |seen| match (era, seen.http.clone(), seen.method()) {
            (_, _, "tools/call") => {
                let (stream, answer) = Answer::live();
                listed.add("made");
                stream.send(changed()).unwrap();
                let result = json!({"content": [], "resultType": "complete"});
                stream
                    .send(json!({"jsonrpc": "2.0", "id": seen.body["id"], "result": result}))
                    .unwrap();
                on_the_way.lock().unwrap().push(stream);
                answer
            }
            (Era::Legacy, Method::GET, _) => opened.open(),
            (Era::Modern, _, "subscriptions/listen") => opened.open_for(seen, None),
            (Era::Legacy, ..) => legacy(seen, announced(), &listed),
            (Era::Modern, ..) => modern(seen, announced(), &listed),
        })
        .await;
        Self {
            upstream,
            tools,
            streams,
            era,
        }
    }

    fn tell(&self) {
        match self.era {
            Era::Legacy => self.streams.say(changed()),
            Era::Modern => {
                let listens = self.upstream.seen_of("subscriptions/listen");
                let id = &listens.last().unwrap().body["id"];
                self.streams
                    .say(tagged("notifications/tools/list_changed", id, json!({})));
            }
        }
    }
}

struct Clients {
    gateway: TestGateway,
    session: String,
    legacy: EventStream,
    modern: EventStream,
}

impl Clients {
    async fn of(server: &Server) -> Self {
        let gateway = TestGateway::ready(&[("s", server.upstream.address)]).await;
        eventually("listened to", || server.streams.count() > 0).await;
        let session = gateway.open_session(LEGACY).await;
        let legacy = gateway.get_events(&session, LEGACY, None).await;
        let params = json!({"notifications": {"toolsListChanged": true}});
        let mut modern = gateway.modern_events(json!(1), "subscriptions/listen", params).await;
        modern.next().await;
        Self {
            gateway,
            session,
            legacy,
            modern,
        }
    }

    /// How many tools each sees right after it hears that they changed.
    async fn hear(&mut self) -> [usize; 2] {
        let count = |listed: Value| listed["result"]["tools"].as_array().unwrap().len();
        let told = self.legacy.next().await;
        assert_eq!(told["method"], "notifications/tools/list_changed");
        let ask = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"});
        let mut answer = self.gateway.post_events(&self.session, LEGACY, &ask).await;
        let headers = answer.content_type().to_owned();
        let seen = if headers == "text/event-stream" {
            count(answer.next().await)
        } else {
            count(self.gateway.legacy("tools/list", json!({})).await)
        };
        let told = self.modern.next().await;
        assert_eq!(told["method"], "notifications/tools/list_changed");
        [seen, count(self.gateway.modern("tools/list", json!({})).await)]
    }

    /// How often each still hears of it.
    async fn rest(&mut self) -> [usize; 2] {
        let mut counts = [0, 0];
        for (stream, count) in [&mut self.legacy, &mut self.modern].into_iter().zip(&mut counts) {
            while stream.message_within(WHILE * 3).await.is_some() {
                *count += 1;
            }
        }
        counts
    }
}

#[tokio::test]
async fn who_hears_of_a_change_sees_it() {
    for era in [Era::Legacy, Era::Modern] {
        let server = Server::start(era).await;
        let mut clients = Clients::of(&server).await;
        for (count, name) in (1..).zip(&NAMES[..2]) {
            server.tools.add(name);
            server.tell();
            assert_eq!(clients.hear().await, [count, count], "{era:?}");
        }
        assert_eq!(clients.rest().await, [0, 0], "{era:?}");
    }
}

#[tokio::test]
async fn a_burst_of_changes_is_told_once_or_twice() {
    for era in [Era::Legacy, Era::Modern] {
        let server = Server::start(era).await;
        let mut clients = Clients::of(&server).await;
        for name in NAMES {
            server.tools.add(name);
            server.tell();
            sleep(Duration::from_millis(4)).await;
        }
        clients.hear().await;
        assert!(clients.rest().await.iter().all(|more| *more <= 1), "{era:?}");
        let listed = clients.gateway.modern("tools/list", json!({})).await;
        assert_eq!(listed["result"]["tools"].as_array().unwrap().len(), NAMES.len());
    }
}

#[tokio::test]
async fn a_change_that_is_told_on_the_stream_of_a_call_counts_as_well() {
    for era in [Era::Legacy, Era::Modern] {
        let server = Server::start(era).await;
        server.tools.add("make");
        let mut clients = Clients::of(&server).await;
        let call = json!({"name": "s__make", "arguments": {}});
        let answer = clients.gateway.modern("tools/call", call).await;
        assert!(answer.get("result").is_some(), "{answer}");
        assert_eq!(clients.hear().await, [2, 2], "{era:?}");
    }
}

#[tokio::test]
async fn a_change_that_clients_do_not_see_is_told_to_nobody() {
    let server = Server::start(Era::Legacy).await;
    let mut clients = Clients::of(&server).await;
    server.tell();
    assert_eq!(clients.rest().await, [0, 0]);
    assert!(server.upstream.seen_of("tools/list").len() > 1);
}

/// One kind of lists: what is asked for it, where its entries stand, and what tells that it has changed.
#[derive(Clone, Copy)]
struct Kind {
    method: &'static str,
    entries: &'static str,
    key: &'static str,
    changed: &'static str,
}

const KINDS: [Kind; 4] = [
    Kind {
        method: "tools/list",
        entries: "tools",
        key: "name",
        changed: "notifications/tools/list_changed",
    },
    Kind {
        method: "prompts/list",
        entries: "prompts",
        key: "name",
        changed: "notifications/prompts/list_changed",
    },
    Kind {
        method: "resources/list",
        entries: "resources",
        key: "uri",
        changed: "notifications/resources/list_changed",
    },
    Kind {
        method: "resources/templates/list",
        entries: "resourceTemplates",
        key: "uriTemplate",
        changed: "notifications/resources/list_changed",
    },
];

/// A server with one list that a test changes; the others are empty.
struct Library {
    upstream: Upstream,
    kind: Kind,
    entries: Arc<Mutex<Vec<&'static str>>>,
    streams: Streams,
    era: Era,
}

impl Library {
    async fn start(era: Era, kind: Kind) -> Self {
        let (entries, streams) = (Arc::<Mutex<Vec<&'static str>>>::default(), Streams::default());
        let (own, opened) = (Arc::clone(&entries), streams.clone());
        let lists = json!({"listChanged": true});
        let capabilities = json!({"tools": lists, "prompts": lists, "resources": lists});
        let upstream = Upstream::start(move |seen| {
            let asked = KINDS.into_iter().find(|known| known.method == seen.method());
            match (era, seen.http.clone(), asked) {
                (Era::Legacy, Method::GET, _) => opened.open(),
                (_, _, Some(asked)) => {
                    let own = own.lock().unwrap();
                    let names = own.iter().filter(|_| asked.method == kind.method);
                    let entries = names.map(|name| {
                        let mut entry = json!({"name": name});
                        match asked.entries {
                            "tools" => entry["inputSchema"] = json!({"type": "object"}),
                            "prompts" => {}
                            _ => entry[asked.key] = json!(format!("x://{name}")),
                        }
                        entry
                    });
                    let mut result = json!({asked.entries: entries.collect::<Vec<_>>()});
                    if era == Era::Modern {
                        let more = json!({"resultType": "complete", "ttlMs": 0, "cacheScope": "private"});
                        result
                            .as_object_mut()
                            .unwrap()
                            .extend(more.as_object().unwrap().clone());
                    }
                    seen.result(result)
                }
                (Era::Modern, ..) if seen.method() == "subscriptions/listen" => opened.open_for(seen, None),
                (Era::Legacy, ..) => legacy(seen, capabilities.clone(), &Tools::default()),
                (Era::Modern, ..) => modern(seen, capabilities.clone(), &Tools::default()),
            }
        })
        .await;
        Self {
            upstream,
            kind,
            entries,
            streams,
            era,
        }
    }

    fn set(&self, entries: &[&'static str]) {
        *self.entries.lock().unwrap() = entries.to_vec();
    }

    fn tell(&self) {
        let changed = json!({"jsonrpc": "2.0", "method": self.kind.changed});
        self.streams.say(match self.era {
            Era::Legacy => changed,
            Era::Modern => {
                let listens = self.upstream.seen_of("subscriptions/listen");
                tagged(self.kind.changed, &listens.last().unwrap().body["id"], json!({}))
            }
        });
    }

    /// Changes the list, and lets it be told `times`; clients of both eras hear of it once or twice, and see it then.
    async fn changes(&self, clients: &mut [EventStream; 2], gateway: &TestGateway, to: &[&'static str], times: u32) {
        let read = || self.upstream.seen_of(self.kind.method).len();
        let (before, since) = (read(), Instant::now());
        self.set(to);
        for _ in 0..times {
            self.tell();
            sleep(Duration::from_millis(4)).await;
        }
        let took = since.elapsed();
        for (stream, revision) in clients.iter_mut().zip([LEGACY, Revision::LATEST]) {
            assert_eq!(stream.next().await["method"], self.kind.changed);
            let listed = gateway.ask(revision, self.kind.method, json!({})).await;
            let entries = listed["result"][self.kind.entries].as_array().unwrap().iter();
            let names: Vec<_> = entries.map(|entry| entry["name"].as_str().unwrap()).collect();
            let bare: Vec<_> = names.iter().map(|name| name.trim_start_matches("s__")).collect();
            assert_eq!(bare, to, "{revision} {listed}");
        }
        for stream in clients.iter_mut() {
            assert_eq!(stream.message_within(WHILE * 4).await, None, "one change is told once");
        }
        let most = 2 + usize::try_from(took.as_secs()).unwrap();
        assert!(read() - before <= most, "read {} times for {took:?}", read() - before);
    }
}

#[tokio::test]
async fn lists_of_every_kind_are_told_once_and_right_whatever_comes_and_goes() {
    let all = KINDS
        .into_iter()
        .flat_map(|kind| [(Era::Legacy, kind), (Era::Modern, kind)]);
    join_all(all.map(async |(era, kind)| {
        let library = Library::start(era, kind).await;
        let gateway = TestGateway::ready(&[("s", library.upstream.address)]).await;
        eventually("listened to", || library.streams.count() > 0).await;
        let session = gateway.open_session(LEGACY).await;
        let legacy = gateway.get_events(&session, LEGACY, None).await;
        let wanted = json!({"toolsListChanged": true, "promptsListChanged": true, "resourcesListChanged": true});
        let params = json!({"notifications": wanted});
        let mut modern = gateway.modern_events(json!(1), "subscriptions/listen", params).await;
        modern.next().await;
        let mut clients = [legacy, modern];
        library.changes(&mut clients, &gateway, &["a"], 1).await;
        library.changes(&mut clients, &gateway, &["a", "b"], 1).await;
        library.changes(&mut clients, &gateway, &["b"], 1).await;
        library.changes(&mut clients, &gateway, &["b", "c"], 200).await;
        library.changes(&mut clients, &gateway, &[], 1).await;
    }))
    .await;
}

/// What happens, how it is brought about, in what time it must be told, and the tools that there are then.
type Step<'s> = (&'s str, &'s dyn Fn(), Duration, &'s [&'s str]);

#[tokio::test]
async fn each_change_of_the_fleet_is_told_in_time_and_seen_then() {
    let (tools, is_away) = (Tools::default(), Arc::new(AtomicBool::new(false)));
    tools.add("stop");
    let away = Arc::clone(&is_away);
    let first = Upstream::start(move |seen| modern(seen, json!({"tools": {}}), &tools)).await;
    let second = Upstream::start(move |seen| match away.load(Ordering::SeqCst) {
        true => Answer::status(503),
        false => upstream::legacy(seen, &json!([{"name": "logs", "inputSchema": {"type": "object"}}])),
    })
    .await;
    let with_second = |tools: Value| {
        let members = json!([
            {"name": "a", "server": {"name": "a"}}, {"name": "b", "server": {"name": "b"}, "tools": tools},
        ]);
        let servers = [("a", first.address), ("b", second.address)];
        let mut plan = plan_with(&servers, json!({"members": members}));
        plan.servers[1].terms.freshness = Freshness {
            ttl: Duration::from_millis(200),
            stale_for: Duration::from_millis(1_500),
        };
        plan
    };
    let alone = || plan(&[("a", first.address)]);
    let gateway = TestGateway::ready(&[("a", first.address)]).await;
    let session = gateway.open_session(LEGACY).await;
    let legacy = gateway.get_events(&session, LEGACY, None).await;
    let params = json!({"notifications": {"toolsListChanged": true, "resourcesListChanged": true}});
    let mut modern = gateway.modern_events(json!(1), "subscriptions/listen", params).await;
    modern.next().await;
    let mut clients = [legacy, modern];

    let (both, one) = (&["a__stop", "b__logs"][..], &["a__stop"][..]);
    let set = |plan: PlanInput| drop(gateway.input.send_replace(plan.into()));
    let sick = |sick: bool| is_away.store(sick, Ordering::SeqCst);
    let disabled = |disabled: bool| {
        let mut plan = with_second(json!({}));
        plan.servers[1].disabled = disabled;
        set(plan);
    };
    let soon = Duration::from_secs(2);
    // That lists are kept for a while, and that who fails is tried less often, comes on top.
    let later = Duration::from_secs(6);
    let steps: [Step<'_>; 8] = [
        ("a server is added", &|| set(with_second(json!({}))), soon, both),
        ("it is taken out of service", &|| disabled(true), soon, one),
        ("it is put into service", &|| disabled(false), soon, both),
        (
            "it is sick for longer than its lists are kept",
            &|| sick(true),
            later,
            one,
        ),
        ("it is well again", &|| sick(false), later, both),
        (
            "a filter hides its tool",
            &|| set(with_second(json!({"deny": ["logs"]}))),
            soon,
            one,
        ),
        ("the filter goes", &|| set(with_second(json!({}))), soon, both),
        ("it is removed", &|| set(alone()), soon, one),
    ];
    for (what, step, patience, expected) in steps {
        let since = Instant::now();
        step();
        for (stream, revision) in clients.iter_mut().zip([LEGACY, Revision::LATEST]) {
            assert_eq!(
                stream.next().await["method"],
                "notifications/tools/list_changed",
                "{what}"
            );
            assert!(since.elapsed() < patience, "{what}: {:?}", since.elapsed());
            let listed = gateway.ask(revision, "tools/list", json!({})).await;
            let tools = listed["result"]["tools"].as_array().unwrap().iter();
            let names: Vec<_> = tools.map(|tool| tool["name"].as_str().unwrap()).collect();
            assert_eq!(names, expected, "{what}");
        }
        // A server that is sick for a moment loses nothing, so that there is nothing to tell.
        if expected.len() == 2 {
            sick(true);
            sleep(Duration::from_millis(250)).await;
            sick(false);
        }
        for stream in &mut clients {
            assert_eq!(stream.message_within(WHILE).await, None, "{what}: told once");
        }
    }
}

#[tokio::test]
async fn gateways_that_are_members_of_each_other_come_to_rest() {
    let one_tool = |name: &'static str| {
        Upstream::start(move |seen| upstream::modern(seen, &json!([{"name": name, "inputSchema": {"type": "object"}}])))
    };
    let (at_one, at_other, at_third) = (one_tool("t").await, one_tool("u").await, one_tool("v").await);
    let gateways = [(); 3].map(async |()| TestGateway::start(plan(&[])).await);
    let [one, other, third] = gateways;
    let (one, other, third) = (one.await, other.await, third.await);
    // Each is a member of the next, and two are of each other.
    let plans = [
        (
            &one,
            plan(&[
                ("s", at_one.address),
                ("other", other.address),
                ("third", third.address),
            ]),
        ),
        (&other, plan(&[("s", at_other.address), ("one", one.address)])),
        (&third, plan(&[("s", at_third.address), ("other", other.address)])),
    ];
    for (gateway, plan) in plans {
        gateway.input.send_replace(plan.into());
    }
    let names = async |gateway: &TestGateway, revision: Revision| -> Vec<String> {
        let answer = gateway.ask(revision, "tools/list", json!({})).await;
        assert!(
            !answer.to_string().contains("dev.mcpfleet/passed"),
            "clients are not told"
        );
        let tools = answer["result"]["tools"].as_array().unwrap().iter();
        tools.map(|tool| tool["name"].as_str().unwrap().to_owned()).collect()
    };
    let expected = [
        (&one, &["other__s__u", "s__t", "third__other__s__u", "third__s__v"][..]),
        (&other, &["one__s__t", "one__third__s__v", "s__u"]),
        (&third, &["other__one__s__t", "other__s__u", "s__v"]),
    ];
    let deadline = Instant::now() + Duration::from_secs(20);
    for (gateway, tools) in expected {
        while names(gateway, Revision::LATEST).await != tools {
            let seen = names(gateway, Revision::LATEST).await;
            assert!(Instant::now() < deadline, "{seen:?} and not {tools:?}");
            sleep(Duration::from_millis(100)).await;
        }
    }
    let params = json!({"notifications": {"toolsListChanged": true}});
    let mut stream = one.modern_events(json!(1), "subscriptions/listen", params).await;
    stream.next().await;
    assert_eq!(
        stream.message_within(Duration::from_secs(4)).await,
        None,
        "it is at rest"
    );
    for (gateway, tools) in expected {
        for revision in [LEGACY, Revision::LATEST] {
            assert_eq!(names(gateway, revision).await, tools);
        }
    }
    let call = json!({"name": "third__other__s__u", "arguments": {}});
    let called = one.modern("tools/call", call).await;
    assert_eq!(called["result"]["content"][0]["text"], "u", "{called}");
}
