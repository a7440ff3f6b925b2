//! An edit of a server: what it was serves until what it is now can.

use std::time::Duration;

use mcpfleet::fleet::UpstreamState;
use mcpfleet::mcp::Revision;
use mcpfleet::upstream::{HttpTransport, Pin};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use crate::support::gateway::{TestGateway, plan};
use crate::support::upstream::{self, Answer, Upstream, refusing_address};

async fn tools(gateway: &TestGateway) -> Vec<Value> {
    let listed = gateway.modern("tools/list", json!({})).await;
    listed["result"]["tools"].as_array().unwrap().clone()
}

async fn server() -> Upstream {
    Upstream::start(|seen| {
        let tools = json!([{"name": "a", "inputSchema": {"type": "object"}}]);
        match seen.header("mcp-protocol-version") {
            Some("2026-07-28") => upstream::modern(seen, &tools),
            _ => upstream::legacy(seen, &tools),
        }
    })
    .await
}

#[tokio::test]
async fn tools_stay_while_a_server_is_connected_to_anew() {
    let server = server().await;
    let mut input = plan(&[("s", server.address)]);
    let gateway = TestGateway::ready(&[("s", server.address)]).await;
    for pin in [
        Pin::Legacy(Revision::V2025_06_18),
        Pin::Modern("2026-07-28".into()),
        Pin::None,
    ] {
        input.servers[0].terms.pin = pin.clone();
        gateway.input.send_replace(input.clone().into());
        let until = Instant::now() + Duration::from_millis(600);
        while Instant::now() < until {
            assert_eq!(tools(&gateway).await.len(), 1, "{pin:?}");
            let answer = gateway
                .modern("tools/call", json!({"name": "s__a", "arguments": {}}))
                .await;
            assert!(answer.get("result").is_some(), "{pin:?}: {answer}");
        }
    }
    gateway.stop().await;
}

#[tokio::test]
async fn what_never_comes_up_is_not_waited_for_for_ever_and_status_tells_of_it_at_once() {
    let server = server().await;
    let mut gateway = TestGateway::ready(&[("s", server.address)]).await;
    gateway
        .input
        .send_replace(plan(&[("s", refusing_address().await)]).into());
    let is_failed = |state: &UpstreamState| matches!(state, UpstreamState::Failed { .. });
    gateway.until(|o| o.servers.values().all(|s| is_failed(&s.state))).await;
    assert_eq!(tools(&gateway).await.len(), 1);
    // Its time to connect and to list: a second each.
    let deadline = Instant::now() + Duration::from_secs(10);
    while !tools(&gateway).await.is_empty() {
        assert!(Instant::now() < deadline, "it serves for ever");
        sleep(Duration::from_millis(50)).await;
    }
    gateway.stop().await;
}

#[tokio::test]
async fn a_server_that_goes_takes_its_tools_along_at_once() {
    let server = server().await;
    let gateway = TestGateway::ready(&[("s", server.address)]).await;
    let mut input = plan(&[("s", refusing_address().await)]);
    gateway.input.send_replace(input.clone().into());
    input.servers.clear();
    gateway.input.send_replace(input.into());
    sleep(Duration::from_millis(300)).await;
    assert!(tools(&gateway).await.is_empty());
}

async fn failure(gateway: &mut TestGateway) -> String {
    let is_failed = |state: &UpstreamState| matches!(state, UpstreamState::Failed { .. });
    let observed = gateway.until(|o| o.servers.values().all(|s| is_failed(&s.state))).await;
    match &observed.servers.values().next().unwrap().state {
        UpstreamState::Failed { message, .. } => message.clone(),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_pin_that_the_server_refuses_is_named_with_what_it_offers() {
    let legacy = Upstream::start(|seen| match seen.method() {
        "initialize" if seen.body["params"]["protocolVersion"] == "2025-03-26" => {
            let error = json!({
                "code": -32602, "message": "Unsupported protocol version",
                "data": {"supported": ["2025-06-18", "2025-11-25"], "requested": "2025-03-26"},
            });
            Answer::json(400, json!({"jsonrpc": "2.0", "id": seen.body["id"], "error": error}))
        }
        _ => upstream::legacy(seen, &json!([])),
    })
    .await;
    let modern = Upstream::start(|seen| match seen.header("mcp-protocol-version") {
        Some("2026-07-28") => upstream::modern(seen, &json!([])),
        _ => {
            let error = json!({
                "code": -32022, "message": "Unsupported protocol version",
                "data": {"supported": ["2026-07-28"], "requested": "x"},
            });
            Answer::json(400, json!({"jsonrpc": "2.0", "id": seen.body["id"], "error": error}))
        }
    })
    .await;
    for (server, pin, name, offered) in [
        (
            &legacy,
            Pin::Legacy(Revision::V2025_03_26),
            "2025-03-26",
            "2025-06-18, 2025-11-25",
        ),
        (&modern, Pin::Legacy(Revision::V2025_11_25), "2025-11-25", "2026-07-28"),
        (&modern, Pin::Modern("2027-01-01".into()), "2027-01-01", "2026-07-28"),
    ] {
        let mut input = plan(&[("s", server.address)]);
        input.servers[0].terms.pin = pin;
        let mut gateway = TestGateway::start(input).await;
        let message = failure(&mut gateway).await;
        assert!(message.contains(&format!("speaks {offered}")), "{message}");
        assert!(
            message.contains(&format!("spec.protocol pins it to {name}, which is not among them")),
            "{message}"
        );
    }
    // A server that says less is told of all the same.
    let mut input = plan(&[("s", legacy.address)]);
    input.servers[0].terms.pin = Pin::Modern("2026-07-28".into());
    let mut gateway = TestGateway::start(input).await;
    let message = failure(&mut gateway).await;
    assert!(
        message.contains("spec.protocol pins it to 2026-07-28, which it may not speak"),
        "{message}"
    );
}

#[tokio::test]
async fn a_transport_that_does_not_fit_is_named_with_the_other_one() {
    let streamable = server().await;
    let silent = Upstream::start(|seen| match seen.http.clone() {
        ::http::Method::GET => Answer::live().1,
        _ => upstream::legacy(seen, &json!([])),
    })
    .await;
    let old = Upstream::start(|seen| match seen.http.clone() {
        ::http::Method::POST => Answer::status(405),
        _ => Answer::status(404),
    })
    .await;
    for (server, transport, other) in [
        (&streamable, HttpTransport::OldSse, "set it to StreamableHTTP"),
        (&silent, HttpTransport::OldSse, "set it to StreamableHTTP"),
        (&old, HttpTransport::StreamableHttp, "set it to SSE"),
    ] {
        let mut input = plan(&[("s", server.address)]);
        input.servers[0].terms.transport = transport;
        let mut gateway = TestGateway::start(input).await;
        let message = failure(&mut gateway).await;
        assert!(
            message.contains("transport.type is") && message.ends_with(other),
            "{message}"
        );
    }
}
