//! What a server tells of its lists reaches clients of both eras, who see the change as soon as they hear of it.

use std::sync::Mutex;
use std::time::Duration;

use ::http::Method;
use mcpfleet::mcp::{Era, Revision};
use serde_json::{Value, json};
use tokio::sync::mpsc::UnboundedSender;

use crate::support::event_stream::EventStream;
use crate::support::gateway::TestGateway;
use crate::support::held::{Streams, Tools, changed, eventually, legacy, modern, tagged};
use crate::support::upstream::{Answer, Upstream};

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
            tokio::time::sleep(Duration::from_millis(4)).await;
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
