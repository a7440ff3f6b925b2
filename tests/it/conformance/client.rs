//! What servers behind the gateway see: the suite's own servers, used by a client through the gateway.

use std::fs;
use std::path::PathBuf;

use serde_json::json;
use tempfile::TempDir;

use super::suite::{self, Status};
use crate::support::peers::{self, Peers};

/// How the gateway finds out what the server speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Era {
    /// It asks.
    Found,
    /// It is told, because the server answers neither discovery nor a handshake.
    Pinned,
}

/// A test of each scenario: its name there and in the suite, and how the era is known.
macro_rules! tests {
    ($revision:literal: $($name:ident $scenario:literal $era:ident)*) => {
        $(
            #[tokio::test(flavor = "multi_thread")]
            async fn $name() {
                super::pass($revision, $scenario, super::Era::$era).await;
            }
        )*
    };
}

mod at_2025_06_18 {
    tests! { "2025-06-18":
        initialize "initialize" Found
        tools_call "tools_call" Found
    }
}

mod at_2025_11_25 {
    tests! { "2025-11-25":
        initialize "initialize" Found
        tools_call "tools_call" Found
        elicitation_sep1034_client_defaults "elicitation-sep1034-client-defaults" Found
        sse_retry "sse-retry" Found
        json_schema_2020_12_preservation "json-schema-2020-12-preservation" Found
    }
}

mod at_2026_07_28 {
    tests! { "2026-07-28":
        tools_call "tools_call" Found
        request_metadata "request-metadata" Found
        sep_2322_client_request_state "sep-2322-client-request-state" Pinned
        http_standard_headers "http-standard-headers" Pinned
        http_custom_headers "http-custom-headers" Pinned
        http_invalid_tool_headers "http-invalid-tool-headers" Pinned
        json_schema_ref_no_deref "json-schema-ref-no-deref" Found
        json_schema_2020_12_preservation "json-schema-2020-12-preservation" Found
    }
}

/// What the gateway cannot do yet, and the scenarios that wait for it. A scenario here must fail: as soon as it passes,
/// its test says so, and it goes.
const NOT_YET: &[(&str, &str, &[&str])] = &[];

/// Runs one scenario. The suite starts a server and our client program, and the client program the gateway.
async fn pass(revision: &str, scenario: &str, era: Era) {
    let Some(peers) = Peers::installed() else { return };
    let directory = TempDir::new().unwrap();
    let file = directory.path().join("fleet.yaml");
    fs::write(&file, manifests(revision, era)).unwrap();
    let driver = peers::sources().join("node/clients/conformance.mjs");
    let (node, program) = (peers.node_program(), PathBuf::from(env!("CARGO_BIN_EXE_mcpfleet")));
    let command = [node, driver, program, file]
        .map(|word| word.to_str().unwrap().to_owned())
        .join(" ");
    let arguments = [
        "client",
        "--command",
        &*command,
        "--scenario",
        scenario,
        "--spec-version",
        revision,
    ];
    let findings = suite::run(&peers, &arguments).await.unwrap();
    let checks = &findings[&suite::name_in_tests(scenario)];
    let mut faults: Vec<String> = checks
        .iter()
        .filter(|check| matches!(check.status, Status::Failure | Status::Warning))
        .map(ToString::to_string)
        .collect();
    if !checks.iter().any(|check| check.status == Status::Success) {
        faults.push("nothing was checked\n".to_owned());
    }
    let waits_for = |(_, at, scenarios): &&(&str, &str, &[&str])| *at == revision && scenarios.contains(&scenario);
    match NOT_YET.iter().find(waits_for) {
        None => assert!(faults.is_empty(), "{}", faults.concat()),
        Some((feature, ..)) => assert!(
            !faults.is_empty(),
            "{scenario} passes now, so {feature:?} is not missing any more: take it out of NOT_YET"
        ),
    }
}

/// A federation of one server, whose names stay as they are. The client program fills in its address.
fn manifests(revision: &str, era: Era) -> String {
    let mut server = json!({
        "apiVersion": "mcpfleet.dev/v1alpha1", "kind": "MCPServer", "metadata": {"name": "mock"},
        "spec": {"remote": {"url": "URL"}},
    });
    if era == Era::Pinned {
        server["spec"]["protocol"] = json!({"era": "Modern", "version": revision});
    }
    let federation = json!({
        "apiVersion": "mcpfleet.dev/v1alpha1", "kind": "MCPFederation", "metadata": {"name": "conformance"},
        "spec": {
            "members": [{"name": "mock", "server": {"name": "mock"}, "prefix": ""}],
            "access": {"anonymous": {}},
        },
    });
    format!("{server}\n---\n{federation}\n")
}
