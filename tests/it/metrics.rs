//! The metrics page, judged by Prometheus' own tool.

use std::io::Write;
use std::process::{Command, Stdio};

use serde_json::json;

use crate::support::gateway::TestGateway;
use crate::support::skip::skip;
use crate::support::upstream::{self, Upstream};

#[tokio::test]
async fn promtool_accepts_the_page() {
    let server = Upstream::start(|seen| upstream::legacy(seen, &json!([{"name": "echo"}]))).await;
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
