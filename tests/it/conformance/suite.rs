//! Runs of the suite's program, and what it found.

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use serde::Deserialize;
use serde_json::Value;
use tempfile::TempDir;
use tokio::process::Command;

use crate::support::peers::Peers;

/// How long the suite waits for one scenario, in milliseconds.
const SCENARIO_LIMIT: &str = "20000";
const RUN_LIMIT: Duration = Duration::from_secs(180);

/// What the suite found, by the scenario's name in the tests: the suite's own with underscores.
pub(super) type Findings = BTreeMap<String, Vec<Check>>;

/// One check of a scenario.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Check {
    pub(super) id: String,
    pub(super) status: Status,
    #[serde(default)]
    description: String,
    error_message: Option<String>,
    #[serde(default)]
    details: Value,
}

#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "UPPERCASE")]
pub(super) enum Status {
    Success,
    Failure,
    Warning,
    Skipped,
    Info,
}

/// Runs the suite with `arguments` and reads what it found. The error is for a person.
pub(super) async fn run(peers: &Peers, arguments: &[&str]) -> Result<Findings, String> {
    let reports = TempDir::new().unwrap();
    let output = output(peers.conformance(), |command| {
        command
            .args(arguments)
            .args(["--timeout", SCENARIO_LIMIT, "--output-dir"])
            .arg(reports.path());
    })
    .await?;
    let findings = read(reports.path());
    if findings.is_empty() {
        return Err(format!("the suite ran nothing with {arguments:?}:\n{output}"));
    }
    Ok(findings)
}

/// The names of the server scenarios that `revision` requires, as the suite writes them.
pub(super) async fn required(peers: &Peers, revision: &str) -> Result<Vec<String>, String> {
    let listed = output(peers.conformance(), |command| {
        command.args(["list", "--requirements", revision]);
    });
    let listed = listed.await?;
    let of_servers = listed.lines().skip_while(|line| !line.starts_with("Server scenarios"));
    let names = of_servers.skip(1).map_while(|line| line.trim().strip_prefix("- "));
    Ok(names.map(str::to_owned).collect())
}

/// The name that a scenario has in the tests.
pub(super) fn name_in_tests(scenario: &str) -> String {
    scenario.replace('-', "_")
}

/// What a program prints on both outputs. That the suite ends with an error says only that a scenario failed.
async fn output(mut command: Command, prepare: impl FnOnce(&mut Command)) -> Result<String, String> {
    prepare(&mut command);
    let running = command.stdin(Stdio::null()).kill_on_drop(true).output();
    let ended = tokio::time::timeout(RUN_LIMIT, running).await;
    let ended = ended.map_err(|_| "the suite did not come to an end")?;
    let ended = ended.map_err(|error| format!("the suite does not start: {error}"))?;
    let printed = [ended.stdout, ended.stderr].concat();
    Ok(String::from_utf8_lossy(&printed).into_owned())
}

/// Reads `[server-]SCENARIO-TIMESTAMP/checks.json` of every scenario.
fn read(reports: &Path) -> Findings {
    let mut findings = Findings::new();
    for entry in fs::read_dir(reports).unwrap() {
        let directory = entry.unwrap().path();
        let name = directory.file_name().unwrap().to_str().unwrap();
        let Ok(checks) = fs::read_to_string(directory.join("checks.json")) else {
            continue;
        };
        let name = name.get(..name.len() - "-2026-01-01T00-00-00-000Z".len()).unwrap();
        let scenario = name.strip_prefix("server-server-").map_or_else(
            || name.strip_prefix("server-").unwrap_or(name).to_owned(),
            |rest| format!("server-{rest}"),
        );
        findings.insert(name_in_tests(&scenario), serde_json::from_str(&checks).unwrap());
    }
    findings
}

impl fmt::Display for Check {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let status = self.status;
        writeln!(f, "[{}] {status:?} {}", self.id, self.description)?;
        if let Some(message) = &self.error_message {
            writeln!(f, "    {message}")?;
        }
        if status != Status::Success && !self.details.is_null() {
            writeln!(f, "    {}", self.details)?;
        }
        Ok(())
    }
}
