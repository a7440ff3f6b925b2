//! The metrics page, judged by Prometheus' own tool.

use std::io::Write;
use std::process::{Command, Stdio};
use std::time::Duration;

use mcpfleet::fleet::UpstreamState;
use mcpfleet::mcp::Revision;
use serde_json::json;
use tokio::time::Instant;

use crate::support::gateway::{TestGateway, plan};
use crate::support::skip::skip;
use crate::support::upstream::{self, Answer, Upstream};

#[tokio::test]
async fn promtool_accepts_the_page() {
    let server =
        Upstream::start(|seen| upstream::legacy(seen, &json!([{"name": "echo", "inputSchema": {"type": "object"}}])))
            .await;
    let gateway = TestGateway::ready(&[("s", server.address)]).await;
    gateway.legacy("tools/call", json!({"name": "s__echo"})).await;
    gateway.legacy("tools/rename", json!({})).await;
    gateway.metrics.reconciled("MCPServer", "ok", 0.01);
    let page = gateway.metrics_page();
    for line in [
        r#"mcpfleet_requests_total{federation="default/fed",method="tools/call",outcome="ok"} 1"#,
        r#"mcpfleet_requests_total{federation="default/fed",method="other",outcome="refused"} 1"#,
        r#"mcpfleet_upstream_requests_total{outcome="answered",server="default/s"} 1"#,
        r#"mcpfleet_catalog_items{list="tools",server="default/s"} 1"#,
        r#"mcpfleet_reconciles_total{kind="MCPServer",result="ok"} 1"#,
    ] {
        assert!(page.contains(line), "{line} in {page}");
    }
    let promtool = Command::new("promtool")
        .args(["check", "metrics"])
        .stdin(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let Ok(mut promtool) = promtool else {
        return skip("promtool, from Debian's package prometheus");
    };
    promtool.stdin.take().unwrap().write_all(page.as_bytes()).unwrap();
    let checked = promtool.wait_with_output().unwrap();
    assert!(checked.status.success(), "{}", String::from_utf8_lossy(&checked.stderr));
}

#[tokio::test]
async fn each_end_of_a_call_is_counted_as_what_it_was() {
    let server = Upstream::start(|seen| match seen.body["params"]["name"].as_str() {
        Some("fails") => seen.result(json!({"content": [], "isError": true})),
        Some("errs") => seen.error(200, 4711, "no"),
        Some("hangs") => Answer::Hang,
        _ => upstream::legacy(
            seen,
            &json!(
                ["works", "fails", "errs", "hangs"]
                    .map(|name| json!({"name": name, "inputSchema": {"type": "object"}}))
            ),
        ),
    })
    .await;
    let gateway = TestGateway::ready(&[("s", server.address)]).await;
    for (tool, times) in [("works", 4), ("fails", 3), ("errs", 2)] {
        for _ in 0..times {
            gateway
                .modern("tools/call", json!({"name": format!("s__{tool}")}))
                .await;
        }
    }
    let hangs = gateway.modern("tools/call", json!({"name": "s__hangs"}));
    assert!(tokio::time::timeout(Duration::from_millis(500), hangs).await.is_err());
    let counted = |outcome: &str, times: u64| {
        let labels = r#"federation="default/fed",method="tools/call""#;
        format!(r#"mcpfleet_requests_total{{{labels},outcome="{outcome}"}} {times}"#)
    };
    let expected = [("ok", 4), ("tool_error", 3), ("upstream_error", 2), ("cancelled", 1)].map(|(o, n)| counted(o, n));
    let deadline = Instant::now() + Duration::from_secs(5);
    loop {
        let page = gateway.metrics_page();
        let missing: Vec<_> = expected
            .iter()
            .filter(|line| !page.lines().any(|told| told == **line))
            .collect();
        if missing.is_empty() {
            return;
        }
        assert!(Instant::now() < deadline, "{missing:#?} in {page}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

#[tokio::test]
async fn an_error_that_a_server_answers_is_no_failure_of_it() {
    let tools = json!([{"name": "errs", "inputSchema": {"type": "object"}}, {"name": "breaks", "inputSchema": {"type": "object"}}]);
    for modern in [false, true] {
        let tools = tools.clone();
        let server = Upstream::start(move |seen| match seen.body["params"]["name"].as_str() {
            Some("errs") => seen.error(200, -32602, "no such argument"),
            Some("breaks") => Answer::status(500),
            _ if modern => upstream::modern(seen, &tools),
            _ => upstream::legacy(seen, &tools),
        })
        .await;
        let mut gateway = TestGateway::ready(&[("s", server.address)]).await;
        let requests = |outcome: &str, times: u64| {
            format!(r#"mcpfleet_upstream_requests_total{{outcome="{outcome}",server="default/s"}} {times}"#)
        };
        let asked = [Revision::LATEST_LEGACY, Revision::LATEST];
        for revision in asked {
            let answer = gateway.ask(revision, "tools/call", json!({"name": "s__errs"})).await;
            assert_eq!(answer["error"]["code"], -32602, "{answer}");
        }
        let page = gateway.metrics_page();
        for line in [
            requests("answered", 2),
            requests("failed", 0),
            r#"mcpfleet_upstream_up{server="default/s"} 1"#.to_owned(),
        ] {
            assert!(page.contains(&line), "{line} in {page}");
        }
        assert!(!page.contains("mcpfleet_upstream_failures_total{"), "{page}");
        for revision in asked {
            let answer = gateway.ask(revision, "tools/call", json!({"name": "s__breaks"})).await;
            assert_eq!(answer["error"]["code"], -32603, "{answer}");
        }
        let page = gateway.metrics_page();
        assert!(page.contains(&requests("failed", 2)), "{page}");
        gateway
            .until(|seen| seen.servers.values().all(|server| server.state == UpstreamState::Ready))
            .await;
    }
}

#[tokio::test]
async fn each_change_of_a_list_that_a_stream_tells_of_is_timed() {
    let server =
        Upstream::start(|seen| upstream::legacy(seen, &json!([{"name": "echo", "inputSchema": {"type": "object"}}])))
            .await;
    let gateway = TestGateway::start(plan(&[])).await;
    let asked = json!({"notifications": {"toolsListChanged": true}});
    let mut modern = gateway.modern_events(json!(1), "subscriptions/listen", asked).await;
    modern.message().await.unwrap();
    let session = gateway.open_session(Revision::LATEST_LEGACY).await;
    let mut legacy = gateway.get_events(&session, Revision::LATEST_LEGACY, None).await;
    let none = r#"mcpfleet_list_changed_seconds_count{federation="default/fed"} 0"#;
    assert!(gateway.metrics_page().contains(none));
    gateway.input.send_replace(plan(&[("s", server.address)]).into());
    for stream in [&mut modern, &mut legacy] {
        let told = stream.message().await.unwrap();
        assert_eq!(told["method"], "notifications/tools/list_changed");
    }
    let page = gateway.metrics_page();
    let both = r#"mcpfleet_list_changed_seconds_count{federation="default/fed"} 2"#;
    let soon = r#"mcpfleet_list_changed_seconds_bucket{federation="default/fed",le="1"} 2"#;
    assert!(page.contains(both) && page.contains(soon), "{page}");
}
