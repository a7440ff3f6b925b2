//! How the gateway finds out what a server speaks, what it remembers of that, and what owners can say of it.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use mcpfleet::mcp::{Era, Revision};
use mcpfleet::metrics::Metrics;
use mcpfleet::upstream::{Endpoint, Health, HttpEndpoint, Pin, State, Terms, Timeouts, Upstream as Held};
use serde_json::{Value, json};
use tokio::time::{sleep, timeout};

use crate::support::gateway::{TestGateway, plan};
use crate::support::held::{PATIENCE, until};
use crate::support::upstream::{self, Answer, Seen, Upstream};

fn tools() -> Value {
    json!([{"name": "echo", "inputSchema": {"type": "object"}}])
}

fn hold(server: &Upstream, pin: Pin) -> Held {
    let endpoint = Endpoint::Http(HttpEndpoint {
        url: format!("http://{}/mcp", server.address).parse().unwrap(),
        headers: Default::default(),
    });
    let timeouts = Timeouts {
        connect: Duration::from_secs(1),
        list: Some(Duration::from_secs(1)),
        ..Timeouts::default()
    };
    let terms = Terms {
        timeouts,
        pin,
        ..Terms::default()
    };
    let metrics = Metrics::new().unwrap().server("default/s");
    Held::start("default/s".into(), endpoint, terms, metrics)
}

async fn ready(held: &Held) -> Arc<State> {
    until(held, "ready", |state| state.health == Health::Ready).await
}

fn refuses_revision(seen: &Seen, supported: &[&str]) -> Answer {
    let error = json!({"code": -32022, "message": "unsupported", "data": {"supported": supported}});
    Answer::json(400, json!({"jsonrpc": "2.0", "id": seen.body["id"], "error": error}))
}

#[tokio::test]
async fn what_is_no_evidence_of_the_modern_era_leads_to_a_handshake() {
    let answers: [fn(&Seen) -> Answer; 8] = [
        |seen| seen.result(json!({})),
        |seen| seen.error(200, -32601, "Method not found"),
        |seen| seen.error(200, -32602, "Invalid request parameters"),
        |seen| seen.error(400, -32000, "Bad Request: Server not initialized"),
        |_| Answer::text(400, "text/plain", "bad request"),
        |_| Answer::text(404, "text/html", "<html>"),
        |seen| refuses_revision(seen, &["2025-06-18"]),
        |seen| seen.result(json!({"supportedVersions": ["2025-06-18"], "capabilities": {}})),
    ];
    for (number, answer) in answers.into_iter().enumerate() {
        let server = Upstream::start(move |seen| match seen.method() {
            "server/discover" => answer(seen),
            _ => upstream::legacy(seen, &tools()),
        })
        .await;
        let state = ready(&hold(&server, Pin::None)).await;
        assert_eq!(state.peer.as_ref().unwrap().revision, Revision::V2025_06_18, "{number}");
        let asked: Vec<_> = server.seen().iter().map(|seen| seen.method().to_owned()).collect();
        assert_eq!(asked[..2], ["server/discover", "initialize"], "{number}");
        assert_eq!(server.seen_of("server/discover").len(), 1, "{number}");
    }
}

#[tokio::test]
async fn what_says_nothing_of_the_era_is_a_failure_and_never_leads_to_a_handshake() {
    for status in [401, 403, 429, 500, 503] {
        let server = Upstream::start(move |seen| match seen.method() {
            "server/discover" => seen.error(status, -32601, "a proxy says so"),
            _ => upstream::legacy(seen, &tools()),
        })
        .await;
        let held = hold(&server, Pin::None);
        until(&held, "failed", |state| matches!(state.health, Health::Failed(_))).await;
        assert_eq!(server.seen_of("initialize").len(), 0, "{status}");
    }
}

#[tokio::test]
async fn a_later_revision_is_asked_in_once_and_named_in_all_that_follows() {
    let server = Upstream::start(|seen| {
        let named = seen.header("mcp-protocol-version");
        match (seen.method(), named) {
            ("server/discover", Some("2026-07-28")) => refuses_revision(seen, &["2027-01-15"]),
            ("server/discover", _) => seen.result(json!({
                "resultType": "complete", "supportedVersions": ["2027-01-15"], "capabilities": {"tools": {}},
                "ttlMs": 0, "cacheScope": "private",
            })),
            _ => upstream::modern(seen, &tools()),
        }
    })
    .await;
    let gateway = TestGateway::ready(&[("s", server.address)]).await;
    let answer = gateway.modern("tools/call", json!({"name": "s__echo"})).await;
    assert_eq!(answer["result"]["content"][0]["text"], "echo");
    let seen = server.seen();
    assert_eq!(server.seen_of("server/discover").len(), 2);
    assert_eq!(server.seen_of("initialize").len(), 0);
    for later in &seen[1..] {
        let meta = &later.body["params"]["_meta"];
        assert_eq!(later.header("mcp-protocol-version"), Some("2027-01-15"), "{later:?}");
        assert_eq!(
            meta["io.modelcontextprotocol/protocolVersion"], "2027-01-15",
            "{later:?}"
        );
    }
}

#[tokio::test]
async fn a_server_is_known_for_what_it_declares_to_clients_that_can_do_everything() {
    const APPS: &str = "io.modelcontextprotocol/ui";
    const TASKS: &str = "io.modelcontextprotocol/tasks";
    let server = Upstream::start(|seen| match seen.method() {
        // What it can do, it says to those only that can use it.
        "server/discover" => {
            let declared = &seen.body["params"]["_meta"]["io.modelcontextprotocol/clientCapabilities"];
            let extensions = &declared["extensions"];
            let both = extensions[APPS].is_object() && extensions[TASKS].is_object();
            let can_be_asked = declared["elicitation"].is_object() && declared["sampling"].is_object();
            let capabilities = match both && can_be_asked {
                true => json!({"tools": {}, "logging": {}, "extensions": {TASKS: {}}}),
                false => json!({}),
            };
            seen.result(json!({
                "resultType": "complete", "supportedVersions": ["2026-07-28"], "capabilities": capabilities,
                "ttlMs": 0, "cacheScope": "private",
            }))
        }
        _ => upstream::modern(seen, &tools()),
    })
    .await;
    let gateway = TestGateway::ready(&[("s", server.address)]).await;
    let discovered = gateway.modern("server/discover", json!({})).await;
    let capabilities = &discovered["result"]["capabilities"];
    assert!(capabilities["logging"].is_object(), "{discovered}");
    assert!(capabilities["extensions"][TASKS].is_object(), "{discovered}");
}

#[tokio::test]
async fn a_server_that_refuses_the_later_revision_too_is_asked_no_third_time() {
    let server = Upstream::start(|seen| refuses_revision(seen, &["2027-01-15", "2028-01-15"])).await;
    let held = hold(&server, Pin::None);
    until(&held, "failed", |state| matches!(state.health, Health::Failed(_))).await;
    assert_eq!(server.seen().len(), 2);
}

#[tokio::test]
async fn a_server_pinned_to_modern_is_asked_for_its_lists_and_nothing_before() {
    let server = Upstream::start(|seen| match seen.method() {
        "tools/list" | "tools/call" => upstream::modern(seen, &tools()),
        "prompts/list" => seen.error(200, -32601, "unknown method"),
        _ => seen.error(404, -32601, "unknown method"),
    })
    .await;
    let mut input = plan(&[("s", server.address)]);
    input.servers[0].terms.pin = Pin::Modern("2026-07-28".into());
    let mut gateway = TestGateway::start(input).await;
    gateway
        .until(|o| {
            o.servers
                .values()
                .all(|s| s.catalog.as_ref().is_some_and(|c| c.tools == 1))
        })
        .await;
    let answer = gateway.modern("tools/call", json!({"name": "s__echo"})).await;
    assert_eq!(answer["result"]["content"][0]["text"], "echo");
    for never in ["server/discover", "initialize", "subscriptions/listen"] {
        assert_eq!(server.seen_of(never).len(), 0, "{never}");
    }
    for list in [
        "tools/list",
        "resources/list",
        "resources/templates/list",
        "prompts/list",
    ] {
        assert_eq!(server.seen_of(list).len(), 1, "{list}");
    }
}

#[tokio::test]
async fn a_server_pinned_to_legacy_is_offered_that_revision_at_once() {
    let server = Upstream::start(|seen| upstream::legacy(seen, &tools())).await;
    let held = hold(&server, Pin::Legacy(Revision::V2025_03_26));
    let state = ready(&held).await;
    assert_eq!(server.seen_of("server/discover").len(), 0);
    let handshake = server.seen_of("initialize").remove(0);
    assert_eq!(handshake.body["params"]["protocolVersion"], "2025-03-26");
    assert_eq!(handshake.header("mcp-protocol-version"), None);
    assert_eq!(
        state.peer.as_ref().unwrap().revision,
        Revision::V2025_06_18,
        "its counter-offer holds"
    );
    let listed = server.seen_of("tools/list").remove(0);
    assert_eq!(listed.header("mcp-protocol-version"), Some("2025-06-18"));
}

/// A server that is another one from time to time.
async fn changing(servers: impl Fn(usize, &Seen) -> Answer + Send + Sync + 'static) -> (Upstream, Arc<AtomicUsize>) {
    let generation = Arc::new(AtomicUsize::new(0));
    let current = Arc::clone(&generation);
    let server = Upstream::start(move |seen| servers(current.load(Ordering::SeqCst), seen)).await;
    (server, generation)
}

#[tokio::test]
async fn a_failure_makes_the_gateway_ask_again_what_the_server_speaks() {
    let server = Upstream::start(|seen| upstream::legacy(seen, &tools())).await;
    let (held, address) = (hold(&server, Pin::None), server.address);
    ready(&held).await;
    drop(server);
    let failed = async {
        // The kept-alive connection may take one more request.
        while call(&held).await.is_ok() {}
    };
    timeout(PATIENCE, failed).await.unwrap();
    until(&held, "failed", |state| matches!(state.health, Health::Failed(_))).await;
    let server = Upstream::start_at(address, |seen| upstream::modern(seen, &tools())).await;
    let state = ready(&held).await;
    assert_eq!(state.peer.as_ref().unwrap().era(), Era::Modern);
    assert_eq!(server.seen_of("initialize").len(), 0);
}

#[tokio::test]
async fn a_legacy_server_that_became_modern_is_one_from_then_on_even_with_the_same_lists() {
    let (server, generation) = changing(|generation, seen| match (generation, seen.method()) {
        (0, _) => upstream::legacy(seen, &tools()),
        (_, "initialize") => refuses_revision(seen, &["2026-07-28"]),
        _ if seen.header("mcp-session-id").is_some() => Answer::status(404),
        _ => upstream::modern(seen, &tools()),
    })
    .await;
    let held = hold(&server, Pin::None);
    assert_eq!(ready(&held).await.catalog.as_ref().unwrap().era, Era::Legacy);
    generation.store(1, Ordering::SeqCst);
    call(&held).await.ok();
    let state = until(&held, "modern", |state| {
        state.peer.as_ref().is_some_and(|peer| peer.era() == Era::Modern)
    })
    .await;
    assert_eq!(
        state.catalog.as_ref().unwrap().era,
        Era::Modern,
        "the catalog says so too"
    );
    call(&held).await.unwrap();
}

#[tokio::test]
async fn a_modern_server_that_was_put_back_to_an_older_one_is_found_out_by_its_errors() {
    for by_status in [true, false] {
        let (server, generation) = changing(move |generation, seen| match (generation, seen.method()) {
            (0, _) => upstream::modern(seen, &tools()),
            (_, "initialize") => upstream::legacy(seen, &tools()),
            _ if seen.header("mcp-session-id").is_some() => upstream::legacy(seen, &tools()),
            _ if by_status => Answer::text(400, "text/plain", "Bad Request: no session"),
            _ => Answer::json(
                400,
                json!({"jsonrpc": "2.0", "id": null, "error": {"code": -32000, "message": "Server not initialized"}}),
            ),
        })
        .await;
        let held = hold(&server, Pin::None);
        assert_eq!(ready(&held).await.peer.as_ref().unwrap().era(), Era::Modern);
        generation.store(1, Ordering::SeqCst);
        sleep(Duration::from_millis(50)).await;
        call(&held).await.ok();
        until(&held, "legacy", |state| {
            state.peer.as_ref().is_some_and(|peer| peer.era() == Era::Legacy)
        })
        .await;
        assert_eq!(call(&held).await, Ok(true));
        let calls = server.seen_of("tools/call");
        assert_eq!(calls.len(), 2, "no call is sent again in another era: {calls:?}");
    }
}

/// Calls the tool; whether there is a result.
async fn call(held: &Held) -> Result<bool, mcpfleet::upstream::Error> {
    use mcpfleet::mcp::{Features, Members, Method};
    use mcpfleet::upstream::{Body, Call, Fanout, Owner, TaskCall};
    let params = Members::parse(r#"{"name":"echo"}"#).unwrap();
    let reply = held
        .call(Call {
            method: Method::ToolsCall,
            target: "echo",
            params: &params,
            meta: None,
            param_headers: None,
            owner: Owner::Nobody,
            features: &Features::default(),
            answers: None,
            task: TaskCall::No,
            log_level: None,
            ear: None,
            fanout: Fanout::No,
        })
        .await?;
    Ok(matches!(reply.body(), Body::Result(_)))
}
