//! The scenarios of the tasks extension, over a server on the official Rust SDK.

use serde_json::json;
use tempfile::TempDir;
use tokio::process::Command;

use super::suite::{self, Status};
use crate::support::peers::{self, Peers};
use crate::support::remote;
use crate::support::up::Up;

const SCENARIOS: [&str; 9] = [
    "tasks-lifecycle",
    "tasks-capability-negotiation",
    "tasks-wire-fields",
    "tasks-request-state-removal",
    "tasks-mrtr-input",
    "tasks-request-headers",
    "tasks-dispatch-and-envelope",
    "tasks-required-task-error",
    "tasks-mrtr-composition",
];

#[tokio::test(flavor = "multi_thread")]
async fn every_scenario_of_the_tasks_extension_passes() {
    let Some(peers) = Peers::installed() else { return };
    let Some(program) = peers::rmcp_server() else { return };
    let mut command = Command::new(program);
    command.arg("--tasks");
    let worker = remote::start_own("worker", command).await;
    let server = json!({
        "apiVersion": "mcpfleet.dev/v1alpha1", "kind": "MCPServer", "metadata": {"name": "worker"},
        "spec": {"remote": {"url": worker.url}},
    });
    let federation = json!({
        "apiVersion": "mcpfleet.dev/v1alpha1", "kind": "MCPFederation", "metadata": {"name": "conformance"},
        "spec": {
            "members": [{"name": "worker", "server": {"name": "worker"}, "prefix": ""}], "access": {"anonymous": {}},
        },
    });
    let directory = TempDir::new().unwrap();
    let file = directory.path().join("fleet.yaml");
    std::fs::write(&file, format!("{server}\n---\n{federation}\n")).unwrap();
    let up = Up::start(&[file], |_| ());
    let endpoint = up.endpoint("conformance").await.replace("127.0.0.1", "localhost");
    up.ready("worker").await;
    for scenario in SCENARIOS {
        let arguments = ["server", "--url", &endpoint, "--scenario", scenario];
        let findings = suite::run(&peers, &arguments).await.unwrap();
        let checks: Vec<_> = findings.into_values().flatten().collect();
        let failed: Vec<String> = checks
            .iter()
            .filter(|check| check.status != Status::Success)
            .map(ToString::to_string)
            .collect();
        assert!(
            !checks.is_empty() && failed.is_empty(),
            "{scenario}: {}",
            failed.concat()
        );
    }
}
