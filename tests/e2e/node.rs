//! The node that the tests run in, by the programs that people use: kubectl and helm.

use std::io::Write;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::Value;
use tokio::time::Instant;

/// How long anything may take to come about in a node on a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(120);

/// The node's own address, as its pods reach it.
pub(crate) const ADDRESS: &str = "10.244.255.1";

/// Runs kubectl; its arguments are separated by blanks. Panics with what it says, if it fails.
pub(crate) fn kubectl(arguments: &str) -> String {
    try_kubectl(arguments).unwrap_or_else(|error| panic!("kubectl {arguments}: {error}"))
}

/// Runs kubectl; the error is what it says.
pub(crate) fn try_kubectl(arguments: &str) -> Result<String, String> {
    run(Command::new("kubectl").args(arguments.split_whitespace()), "")
}

/// An object as JSON.
pub(crate) fn object(namespace: &str, name: &str) -> Value {
    serde_json::from_str(&kubectl(&format!("--namespace={namespace} get {name} --output=json"))).unwrap()
}

/// Status and reason of a condition; empty where it was never told.
pub(crate) fn condition(namespace: &str, name: &str, type_: &str) -> (String, String) {
    let object = object(namespace, name);
    let conditions = object["status"]["conditions"].as_array().cloned().unwrap_or_default();
    let told = conditions.iter().find(|condition| condition["type"] == type_);
    let text = |field: &str| {
        told.and_then(|told| told[field].as_str())
            .unwrap_or_default()
            .to_owned()
    };
    (text("status"), text("reason"))
}

/// Creates a namespace.
pub(crate) fn namespace(name: &str) {
    kubectl(&format!("create namespace {name}"));
}

/// Applies a manifest, client-side as people do, with strict validation as is kubectl's default.
pub(crate) fn apply(namespace: &str, manifest: &str) {
    try_apply(namespace, manifest).unwrap_or_else(|error| panic!("{error} for {manifest}"));
}

/// Applies a manifest; the error is what kubectl says.
pub(crate) fn try_apply(namespace: &str, manifest: &str) -> Result<String, String> {
    run(
        Command::new("kubectl").args(["--namespace", namespace, "apply", "--filename=-"]),
        manifest,
    )
}

/// Waits with `kubectl wait`, and panics if the condition does not come.
pub(crate) fn wait_for(namespace: &str, what: &str) {
    kubectl(&format!(
        "--namespace={namespace} wait --timeout={}s {what}",
        PATIENCE.as_secs()
    ));
}

/// Asks again until the answer is yes.
pub(crate) fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !holds() {
        assert!(Instant::now() < end, "{what}: not within {} s", PATIENCE.as_secs());
        std::thread::sleep(Duration::from_millis(300));
    }
}

/// Runs helm; panics with what it says, if it fails.
pub(crate) fn helm(arguments: &[&str]) -> String {
    run(Command::new("helm").args(arguments), "").unwrap_or_else(|error| panic!("helm {arguments:?}: {error}"))
}

/// The folder of the chart.
pub(crate) fn chart() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("charts/mcpfleet")
}

/// Fetches a page as a user of the node's network.
pub(crate) fn fetch(url: &str) -> Result<String, String> {
    run(
        Command::new("curl").args(["--silent", "--show-error", "--fail", "--max-time", "5", url]),
        "",
    )
}

/// Runs a test; where it fails, what the cluster knows goes to standard error.
pub(crate) fn with_diagnosis(test: &fn()) {
    if let Err(failure) = catch_unwind(AssertUnwindSafe(test)) {
        let pods = "get pods --all-namespaces --selector=app.kubernetes.io/name=mcpfleet --no-headers \
                    --output=custom-columns=:.metadata.namespace,:.metadata.name";
        let pods = try_kubectl(pods).unwrap_or_default();
        let logs = pods.lines().filter_map(|line| {
            let (namespace, name) = line.trim().split_once(char::is_whitespace)?;
            Some(format!("--namespace={namespace} logs {name} --tail=50"))
        });
        let state = [
            "get mcps,mcpfed,deployments,pods --all-namespaces --output=wide".to_owned(),
            "get events --all-namespaces --sort-by=.lastTimestamp".to_owned(),
        ];
        for question in state.into_iter().chain(logs) {
            let answer = try_kubectl(&question).unwrap_or_else(|error| error);
            eprintln!("--- kubectl {question}\n{answer}");
        }
        resume_unwind(failure);
    }
}

fn run(command: &mut Command, input: &str) -> Result<String, String> {
    let command = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = command.spawn().map_err(|error| error.to_string())?;
    // A program that does not read its input says why on its standard error.
    drop(child.stdin.take().map(|mut stdin| stdin.write_all(input.as_bytes())));
    let output = child.wait_with_output().map_err(|error| error.to_string())?;
    if output.status.success() {
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    } else {
        Err(format!(
            "{}{}",
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr)
        ))
    }
}
