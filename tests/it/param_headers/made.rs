//! Headers toward servers, made from the arguments.

use http::{HeaderName, HeaderValue};
use mcpfleet::upstream::Endpoint;
use serde_json::json;

use super::route::{call, modern, ready, repeated, route};
use crate::support::gateway::plan;
use crate::support::upstream::{self, Upstream};

#[tokio::test]
async fn headers_toward_a_server_are_made_from_the_arguments_and_never_copied() {
    let server = Upstream::start(|seen| upstream::modern(seen, &json!([route()]))).await;
    let mut plan = plan(&[("s", server.address)]);
    for server in &mut plan.servers {
        if let Ok(Endpoint::Http(endpoint)) = &mut server.endpoint {
            for name in ["mcp-param-region", "mcp-param-dry-run", "x-own"] {
                let name = HeaderName::from_static(name);
                endpoint.headers.insert(name, HeaderValue::from_static("configured"));
            }
        }
    }
    let gateway = ready(plan).await;
    let reply = call(
        &gateway,
        "s__route",
        json!({"region": "us", "limit": 10, "q": "z"}),
        &[
            ("Mcp-Param-Region", b"=?base64?dXM=?="),
            ("Mcp-Param-Limit", b"10.0"),
            ("Mcp-Param-Q", b"z"),
            ("Mcp-Param-Other", b"secret"),
        ],
    )
    .await;
    assert_eq!(reply.status, 200, "{}", reply.text);
    let seen = server.seen_of("tools/call").pop().unwrap();
    assert_eq!(repeated(&seen), [("limit", "10"), ("region", "us")]);
    assert_eq!(seen.header("x-own"), Some("configured"));
    assert!(
        seen.text.contains(r#""arguments":{"region":"us","limit":10,"q":"z"}"#),
        "{}",
        seen.text
    );
}

#[tokio::test]
async fn arguments_that_no_header_can_repeat_are_the_clients_error() {
    let (gateway, server) = modern().await;
    for arguments in [
        json!({"region": 1}),
        json!({"region": "us", "limit": 0.5}),
        json!({"region": "us", "limit": 9_007_199_254_740_993_i64}),
        json!({"region": "us", "dry": "true"}),
        json!({"region": "a".repeat(100_000)}),
    ] {
        let answer = gateway
            .legacy("tools/call", json!({"name": "s__route", "arguments": arguments}))
            .await;
        assert_eq!(answer["error"]["code"], -32602, "{answer}");
    }
    assert!(server.seen_of("tools/call").is_empty());
    let page = gateway.metrics_page();
    assert!(
        page.contains(r#"mcpfleet_upstream_requests_total{outcome="failed",server="default/s"} 0"#),
        "{page}"
    );
}
