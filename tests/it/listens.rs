//! `subscriptions/listen`: how Modern clients hear of changes.

use std::sync::Arc;
use std::time::Duration;

use ::http::Request;
use http_body_util::Full;
use mcpfleet::fleet::{Access, ApiKeys, PlanInput, Reference, ReferenceKind};
use mcpfleet::mcp::Revision;
use serde_json::{Value, json};
use tokio::time::{Instant, timeout};

use crate::access;
use crate::support::event_stream::EventStream;
use crate::support::gateway::{TestGateway, plan, plan_with};
use crate::support::http;
use crate::support::upstream::{self, Upstream};

const WHILE: Duration = Duration::from_millis(400);
const TAG: &str = "io.modelcontextprotocol/subscriptionId";

async fn server() -> Upstream {
    Upstream::start(|seen| upstream::modern(seen, &json!([{"name": "a", "inputSchema": {"type": "object"}}]))).await
}

async fn listen(gateway: &TestGateway, id: Value, notifications: Value) -> EventStream {
    let params = json!({"notifications": notifications});
    gateway.modern_events(id, "subscriptions/listen", params).await
}

fn all() -> Value {
    json!({"toolsListChanged": true, "resourcesListChanged": true, "promptsListChanged": true})
}

fn ended(id: &Value) -> impl Fn(&Value) -> bool + '_ {
    move |message| {
        message["id"] == *id && message["result"]["resultType"] == "complete" && message["result"]["_meta"][TAG] == *id
    }
}

#[tokio::test]
async fn the_acknowledgement_comes_first_and_names_what_is_honoured() {
    let gateway = TestGateway::start(plan(&[])).await;
    for (id, asked, honoured) in [
        (
            json!("sub-1"),
            json!({"toolsListChanged": true}),
            json!({"toolsListChanged": true}),
        ),
        (json!(7), all(), all()),
        (
            json!(8),
            json!({"promptsListChanged": true, "toolsListChanged": false, "odd": 1, "resourceSubscriptions": ["a:b"]}),
            json!({"promptsListChanged": true}),
        ),
        (json!(9), json!({}), json!({})),
    ] {
        let mut stream = listen(&gateway, id.clone(), asked).await;
        assert_eq!((stream.status, stream.content_type()), (200, "text/event-stream"));
        assert_eq!(stream.headers["x-accel-buffering"], "no");
        let first = stream.message().await.unwrap();
        assert_eq!(first["method"], "notifications/subscriptions/acknowledged");
        assert_eq!(first["params"], json!({"_meta": {TAG: id}, "notifications": honoured}));
        assert_eq!(stream.message_within(Duration::from_millis(50)).await, None);
    }
}

#[tokio::test]
async fn only_wanted_kinds_come_each_with_the_id_of_its_subscription() {
    let server = server().await;
    let gateway = TestGateway::start(plan(&[])).await;
    let mut streams = Vec::new();
    for (id, asked) in [
        (json!(1), json!({"toolsListChanged": true})),
        (json!("1"), all()),
        (json!(2), json!({"promptsListChanged": true})),
    ] {
        let mut stream = listen(&gateway, id.clone(), asked).await;
        stream.message().await.unwrap();
        streams.push((id, stream));
    }
    gateway.input.send_replace(plan(&[("s", server.address)]).into());
    for (id, stream) in &mut streams {
        if *id == json!(2) {
            assert_eq!(stream.message_within(WHILE).await, None);
        } else {
            let told = stream.message().await.unwrap();
            let expected = json!({
                "jsonrpc": "2.0", "method": "notifications/tools/list_changed", "params": {"_meta": {TAG: id}},
            });
            assert_eq!(told, expected);
            assert_eq!(stream.message_within(WHILE).await, None);
        }
    }
    let listed = gateway.modern("tools/list", json!({})).await;
    assert_eq!(listed["result"]["tools"][0]["name"], "s__a");
}

#[tokio::test]
async fn a_key_has_a_fourth_of_the_places_and_is_told_so() {
    let plan = plan_with(&[], json!({"limits": {"listens": 8}}));
    let gateway = TestGateway::start(access::by_key(plan, access::alice_and_bob())).await;
    let request = |(name, value): (&'static str, &str), id: u32| {
        let params = json!({"notifications": all()});
        let mut request = gateway.modern_request(id.into(), "subscriptions/listen", params, json!({}));
        request.headers_mut().insert(name, value.parse().unwrap());
        request
    };
    let mut held = Vec::new();
    for (key, id) in [(access::ALICE, 1), (access::ALICE, 2), (access::BOB, 3)] {
        let mut stream = EventStream::open(&gateway.client, request(key, id)).await;
        let first = stream.message().await.unwrap();
        assert_eq!(first["method"], "notifications/subscriptions/acknowledged");
        held.push(stream);
    }
    let refused = gateway.send(request(access::ALICE, 4)).await.json();
    let error = &refused["error"];
    assert_eq!(error["code"], -32603);
    assert_eq!(
        error["message"],
        "2 subscriptions of this key are open here, and no more may be; close one first"
    );
}

#[tokio::test]
async fn wrong_requests_open_nothing() {
    let gateway = TestGateway::start(plan_with(&[], json!({"limits": {"listens": 1}}))).await;
    for notifications in [
        json!("all"),
        Value::Null,
        json!({"toolsListChanged": "yes"}),
        json!({"resourceSubscriptions": [1]}),
    ] {
        let headers = [
            ("mcp-protocol-version", "2026-07-28"),
            ("mcp-method", "subscriptions/listen"),
        ];
        let reply = gateway.post(request(json!(1), &notifications), &headers).await;
        assert_eq!((reply.status, &reply.json()["error"]["code"]), (400, &json!(-32602)));
    }
    let headers = [
        ("accept", "application/json"),
        ("mcp-protocol-version", "2026-07-28"),
        ("mcp-method", "subscriptions/listen"),
    ];
    let reply = gateway.post_accepting(request(json!(1), &all()), &headers).await;
    assert_eq!(reply.status, 406);
    // The only place is still free.
    let mut open = listen(&gateway, json!(1), all()).await;
    open.message().await.unwrap();

    let headers = [
        ("mcp-protocol-version", "2026-07-28"),
        ("mcp-method", "subscriptions/listen"),
    ];
    let refused = gateway.post(request(json!(2), &all()), &headers).await;
    assert_eq!(
        (refused.status, &refused.json()["error"]["code"]),
        (200, &json!(-32603))
    );
    drop(open);
    let deadline = Instant::now() + Duration::from_secs(5);
    loop {
        let next = listen(&gateway, json!(3), all()).await;
        if next.content_type() == "text/event-stream" {
            break;
        }
        assert!(Instant::now() < deadline, "the place is never given back");
    }
    let legacy = gateway
        .legacy("subscriptions/listen", json!({"notifications": all()}))
        .await;
    assert_eq!(legacy["error"]["code"], -32601);
}

fn request(id: Value, notifications: &Value) -> Value {
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {},
    });
    let params = json!({"notifications": notifications, "_meta": meta});
    json!({"jsonrpc": "2.0", "id": id, "method": "subscriptions/listen", "params": params})
}

#[tokio::test]
async fn subscriptions_end_with_a_result_when_the_process_stops_or_the_federation_goes() {
    let gateway = TestGateway::start(plan(&[])).await;
    let (a, b) = (json!("a"), json!(2));
    let mut first = listen(&gateway, a.clone(), all()).await;
    let mut second = listen(&gateway, b.clone(), json!({})).await;
    first.message().await.unwrap();
    second.message().await.unwrap();
    let asked = Instant::now();
    gateway.stop_serving();
    for (id, stream) in [(&a, &mut first), (&b, &mut second)] {
        let rest = stream.rest().await;
        assert!(rest.len() == 1 && ended(id)(&rest[0]), "{rest:?}");
    }
    assert!(
        asked.elapsed() < Duration::from_millis(500),
        "it does not hold up the drain"
    );

    let gateway = TestGateway::start(plan(&[])).await;
    let mut stream = listen(&gateway, a.clone(), all()).await;
    stream.message().await.unwrap();
    gateway.input.send_replace(Arc::new(PlanInput::default()));
    let rest = stream.rest().await;
    assert!(rest.len() == 1 && ended(&a)(&rest[0]), "{rest:?}");
}

#[tokio::test]
async fn a_silent_subscription_beats() {
    let gateway = TestGateway::start(plan_with(&[], json!({"notifications": {"heartbeat": "50ms"}}))).await;
    let mut stream = listen(&gateway, json!(1), all()).await;
    stream.message().await.unwrap();
    assert_eq!(stream.message_within(Duration::from_millis(500)).await, None);
    assert!(stream.comments >= 4, "{}", stream.comments);
}

#[tokio::test]
async fn a_burst_of_changes_is_one_or_two_messages() {
    let server = server().await;
    let gateway = TestGateway::start(plan_with(&[], json!({"notifications": {"coalesce": "250ms"}}))).await;
    let mut stream = listen(&gateway, json!(1), all()).await;
    stream.message().await.unwrap();
    for round in 0..21 {
        let members: &[_] = if round % 2 == 0 { &[("s", server.address)] } else { &[] };
        let plan = plan_with(members, json!({"notifications": {"coalesce": "250ms"}}));
        gateway.input.send_replace(plan.into());
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let mut told = 0;
    while stream.message_within(Duration::from_secs(1)).await.is_some() {
        told += 1;
    }
    assert!((1..=2).contains(&told), "{told}");
}

#[tokio::test]
async fn a_key_that_is_taken_away_ends_its_streams_and_no_others() {
    let gateway = TestGateway::start(by_keys(&[("alice", "one"), ("bob", "two")])).await;
    let listen = async |key: &str| {
        let message = request(json!(1), &all());
        let bearer = format!("Bearer {key}");
        let headers = [
            ("authorization", bearer.as_str()),
            ("mcp-protocol-version", "2026-07-28"),
            ("mcp-method", "subscriptions/listen"),
        ];
        let request = http::legacy(&gateway.url(), &message, headers);
        EventStream::open(&gateway.client, request).await
    };
    let (mut alice, mut bob) = (listen("one").await, listen("two").await);
    alice.message().await.unwrap();
    bob.message().await.unwrap();
    gateway
        .input
        .send_replace(by_keys(&[("alice", "three"), ("bob", "two")]).into());
    assert_eq!(alice.message().await, None, "her key is another one now");
    assert_eq!(bob.message_within(WHILE).await, None);
    gateway.input.send_replace(by_keys(&[("alice", "three")]).into());
    assert_eq!(bob.message().await, None);
}

#[tokio::test]
async fn a_page_that_is_let_in_no_more_hears_nothing_more_and_others_do() {
    const ONE: &str = "https://one.example";
    const TWO: &str = "https://two.example";
    let with = |allow: &[&str]| {
        let access = json!({"anonymous": {}, "origins": {"policy": "AllowList", "allow": allow}});
        plan_with(&[], json!({"access": access}))
    };
    let gateway = TestGateway::start(with(&[ONE, TWO])).await;
    let session = gateway.open_session(Revision::LATEST_LEGACY).await;
    let listen = async |origin: Option<&str>| {
        let headers = [
            ("mcp-protocol-version", "2026-07-28"),
            ("mcp-method", "subscriptions/listen"),
        ];
        let headers = headers.into_iter().chain(origin.map(|origin| ("origin", origin)));
        let request = http::legacy(&gateway.url(), &request(json!(1), &all()), headers);
        let mut stream = EventStream::open(&gateway.client, request).await;
        stream.message().await.unwrap();
        stream
    };
    let hear = async |origin: &str, session: &str| {
        let request = Request::get(gateway.url())
            .header("accept", "text/event-stream")
            .header("mcp-session-id", session)
            .header("origin", origin);
        EventStream::open(&gateway.client, request.body(Full::default()).unwrap()).await
    };
    let (mut one, mut two, mut no_page) = (listen(Some(ONE)).await, listen(Some(TWO)).await, listen(None).await);
    let other = gateway.open_session(Revision::LATEST_LEGACY).await;
    let (mut old_one, mut old_two) = (hear(ONE, &session).await, hear(TWO, &other).await);
    gateway.input.send_replace(with(&[TWO]).into());
    assert_eq!(one.message().await, None);
    assert_eq!(old_one.message().await, None);
    for stream in [&mut two, &mut old_two, &mut no_page] {
        timeout(WHILE, stream.message()).await.expect_err("it is let in still");
    }
    gateway.input.send_replace(with(&[]).into());
    assert_eq!(two.message().await, None);
    assert_eq!(old_two.message().await, None);
    timeout(WHILE, no_page.message()).await.expect_err("it is no page");
}

fn by_keys(keys: &[(&str, &str)]) -> PlanInput {
    let mut plan = plan(&[]);
    let values = keys
        .iter()
        .map(|(name, key)| ((*name).to_owned(), key.as_bytes().to_vec()));
    let secret = Reference::new(ReferenceKind::Secret, "default", "keys");
    plan.federations[0].access = Access::ApiKeys(ApiKeys::read(&values.collect(), &secret));
    plan
}

#[tokio::test]
async fn who_does_not_read_holds_up_nobody_and_is_told_of_many_changes_at_once() {
    const CHANGES: usize = 200;
    let legacy = Revision::LATEST_LEGACY;
    let server = server().await;
    let filtered = |round: usize| {
        let tools = if round.is_multiple_of(2) {
            json!({})
        } else {
            json!({"deny": ["a"]})
        };
        let members = json!([{"name": "s", "server": {"name": "s"}, "tools": tools}]);
        let spec = json!({"members": members, "notifications": {"coalesce": "1ms"}});
        plan_with(&[("s", server.address)], spec)
    };
    let mut gateway = TestGateway::start(filtered(0)).await;
    gateway
        .until(|o| o.federations.values().all(|federation| federation.index.tools == 1))
        .await;
    let mut silent = listen(&gateway, json!(1), all()).await;
    let session = gateway.open_session(legacy).await;
    let mut silent_session = gateway.get_events(&session, legacy, None).await;
    let mut reader = listen(&gateway, json!(2), all()).await;
    reader.message().await.unwrap();
    for round in 1..=CHANGES {
        let changed = Instant::now();
        gateway.input.send_replace(filtered(round).into());
        assert_eq!(
            reader.message().await.unwrap()["method"],
            "notifications/tools/list_changed",
            "round {round}"
        );
        assert!(changed.elapsed() < Duration::from_secs(2), "round {round}");
    }
    silent.message().await.unwrap();
    for stream in [&mut silent, &mut silent_session] {
        let mut told = 0;
        while stream.message_within(WHILE).await.is_some() {
            told += 1;
        }
        assert!((1..=CHANGES).contains(&told), "{told}");
    }
}
