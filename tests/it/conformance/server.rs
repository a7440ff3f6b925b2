//! What clients of the gateway see, over a server of both eras, of the Legacy one only, and of the Modern one only.

use std::any::Any;
use std::collections::HashMap;
use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, LazyLock, Mutex, OnceLock};

use futures::{StreamExt, stream};
use mcpfleet::mcp::Revision;
use serde_json::json;
use tempfile::TempDir;

use super::gaps;
use super::scenarios::{self, scenarios_of_2025_06_18, scenarios_of_2025_11_25, scenarios_of_2026_07_28};
use super::suite::{self, Findings, Status};
use crate::support::http;
use crate::support::peers::Peers;
use crate::support::process::Printed;
use crate::support::remote::Remote;
use crate::support::up::Up;

/// What is behind the endpoint that the suite speaks to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Setting {
    /// A server of both eras, and no gateway before it.
    Direct,
    /// The gateway over a server of both eras.
    DualEra,
    /// The gateway over a server that speaks up to 2025-11-25.
    LegacyOnly,
    /// The gateway over a server that speaks 2026-07-28 only.
    ModernOnly,
}

impl Setting {
    /// The server that the scenarios are written for.
    fn fixture(self) -> Remote {
        match self {
            Self::Direct | Self::DualEra => Remote::DualEra,
            Self::LegacyOnly => Remote::LegacyOnly,
            Self::ModernOnly => Remote::ModernOnly,
        }
    }
}

/// One run of the suite, shared by the tests of its scenarios.
struct Run {
    findings: Findings,
    /// What the gateway printed.
    printed: Printed,
}

/// A test of each scenario.
macro_rules! tests {
    ([$setting:ident $revision:ident] $($name:ident)*) => {
        $(
            #[test]
            fn $name() {
                super::super::judge(super::super::Setting::$setting, mcpfleet::mcp::Revision::$revision, stringify!($name));
            }
        )*
    };
}

/// The tests of all revisions.
macro_rules! tests_of_revisions {
    ($setting:ident) => {
        mod at_2025_03_26 {
            super::scenarios_of_2025_06_18!(tests $setting V2025_03_26);
        }
        mod at_2025_06_18 {
            super::scenarios_of_2025_06_18!(tests $setting V2025_06_18);
        }
        mod at_2025_11_25 {
            super::scenarios_of_2025_11_25!(tests $setting V2025_11_25);
        }
        mod at_2026_07_28 {
            super::scenarios_of_2026_07_28!(tests $setting V2026_07_28);
        }
        use super::{scenarios_of_2025_06_18, scenarios_of_2025_11_25, scenarios_of_2026_07_28};
    };
}

mod dual_era {
    tests_of_revisions!(DualEra);
}
mod legacy_only {
    tests_of_revisions!(LegacyOnly);
}
mod modern_only {
    tests_of_revisions!(ModernOnly);
}

#[tokio::test(flavor = "multi_thread")]
async fn every_required_scenario_has_a_test() {
    let Some(peers) = Peers::installed() else { return };
    for (revision, ours) in [
        ("2025-11-25", scenarios::OF_2025_11_25),
        ("2026-07-28", scenarios::OF_2026_07_28),
    ] {
        let required = suite::required(&peers, revision).await.unwrap();
        assert!(required.len() >= 30, "{required:?}");
        for scenario in required {
            assert!(
                ours.contains(&&*suite::name_in_tests(&scenario)),
                "{scenario} of {revision}"
            );
        }
    }
}

#[test]
fn without_the_gateway_every_scenario_passes() {
    for (revision, names) in [
        (Revision::V2025_03_26, scenarios::OF_2025_06_18),
        (Revision::V2025_06_18, scenarios::OF_2025_06_18),
        (Revision::V2025_11_25, scenarios::OF_2025_11_25),
        (Revision::V2026_07_28, scenarios::OF_2026_07_28),
    ] {
        let Some(run) = run(Setting::Direct, revision) else {
            return;
        };
        let run = run.as_ref().as_ref().unwrap();
        for name in names {
            let faults = faults(name, &run.findings, None);
            assert!(faults.is_empty(), "{revision} {name}: {}", faults.concat());
        }
    }
}

/// Fails unless the scenario passes, or is known to be impossible and fails.
fn judge(setting: Setting, revision: Revision, scenario: &str) {
    let (Some(run), Some(direct)) = (run(setting, revision), run(Setting::Direct, revision)) else {
        return;
    };
    let run = run.as_ref().as_ref().unwrap();
    let direct = direct.as_ref().as_ref().unwrap();
    let faults = faults(scenario, &run.findings, Some(&direct.findings));
    match gaps::impossible(setting, revision, scenario) {
        None => assert!(
            faults.is_empty(),
            "{scenario}:\n{}--- the gateway\n{}",
            faults.concat(),
            run.printed.errors.join("\n")
        ),
        Some(what) => assert!(
            !faults.is_empty(),
            "{scenario} passes, so this is possible after all: {what}"
        ),
    }
}

/// What is wrong with a scenario: the suite's own words on each check that failed, or that succeeds in `model` only.
fn faults(scenario: &str, findings: &Findings, model: Option<&Findings>) -> Vec<String> {
    let Some(checks) = findings.get(scenario) else {
        return vec!["the suite did not run it\n".to_owned()];
    };
    let failed = checks.iter().filter(|check| match check.status {
        Status::Failure => true,
        Status::Warning => model.is_none(),
        Status::Success | Status::Skipped | Status::Info => false,
    });
    let mut faults: Vec<String> = failed.map(ToString::to_string).collect();
    let should = model.and_then(|model| model.get(scenario)).into_iter().flatten();
    for expected in should.filter(|check| check.status == Status::Success) {
        let succeeds = |check: &&suite::Check| check.id == expected.id && check.status == Status::Success;
        if checks.iter().any(|check| succeeds(&check)) || gaps::may_differ(scenario, &expected.id) {
            continue;
        }
        let here = checks
            .iter()
            .filter(|check| check.id == expected.id)
            .map(ToString::to_string);
        faults.push(format!(
            "succeeds without the gateway: {expected}here: {}\n",
            here.collect::<String>()
        ));
    }
    faults
}

/// The run of a setting, made when its first test needs it. `None` where the peers are not installed.
fn run(setting: Setting, revision: Revision) -> Option<Arc<Result<Run, String>>> {
    type Made = Mutex<HashMap<(Setting, Revision), Arc<OnceLock<Arc<Result<Run, String>>>>>>;
    static MADE: LazyLock<Made> = LazyLock::new(Made::default);
    let peers = Peers::installed()?;
    let made = Arc::clone(MADE.lock().unwrap().entry((setting, revision)).or_default());
    // What panics inside would be made again for every test.
    let make = || {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        runtime.block_on(make(&peers, setting, revision))
    };
    let run = made.get_or_init(|| {
        let run = catch_unwind(AssertUnwindSafe(make)).unwrap_or_else(|panic| Err(words(&*panic)));
        Arc::new(run.map_err(|error| format!("{setting:?} at {revision}: {error}")))
    });
    Some(Arc::clone(run))
}

async fn make(peers: &Peers, setting: Setting, revision: Revision) -> Result<Run, String> {
    let fixture = setting.fixture().start(peers).await;
    if setting == Setting::Direct {
        let findings = findings(peers, &fixture.url.replace("127.0.0.1", "localhost"), revision).await?;
        let printed = Printed::default();
        return Ok(Run { findings, printed });
    }
    let other = Remote::TypescriptV2.start(peers).await;
    let directory = TempDir::new().unwrap();
    let file = directory.path().join("fleet.yaml");
    fs::write(&file, manifests(&fixture.url, &other.url)).unwrap();
    let up = Up::start(&[file], |_| ());
    let endpoint = up.endpoint("conformance").await;
    up.ready("fixture").await;
    up.ready("other").await;
    let findings = findings(peers, &endpoint.replace("127.0.0.1", "localhost"), revision).await?;
    // The member beside it, whose names have a prefix, works as well.
    let params = json!({"name": "other__echo", "arguments": {"message": "hello"}});
    let call = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params});
    let answer = http::post(&endpoint, &call).await;
    if answer["result"]["content"][0]["text"] != "hello" {
        return Err(format!("the other member answers {answer}"));
    }
    let printed = up.printed();
    Ok(Run { findings, printed })
}

/// Runs every scenario of a revision.
async fn findings(peers: &Peers, url: &str, revision: Revision) -> Result<Findings, String> {
    let revision = revision.as_str();
    match revision {
        "2025-11-25" | "2026-07-28" => suite::run(peers, &["server", "--url", url, "--requirements", revision]).await,
        "2025-06-18" => {
            let arguments = ["server", "--url", url, "--suite", "all", "--spec-version", revision];
            suite::run(peers, &arguments).await
        }
        // One by one, since only a single scenario can be forced on a revision that it is not meant for.
        _ => {
            let each = scenarios::OF_2025_06_18.iter().map(|name| async move {
                let scenario = name.replace('_', "-");
                let arguments = [
                    "server",
                    "--url",
                    url,
                    "--scenario",
                    &*scenario,
                    "--spec-version",
                    revision,
                    "--force",
                ];
                suite::run(peers, &arguments).await
            });
            let each: Vec<Result<Findings, String>> = stream::iter(each).buffer_unordered(2).collect().await;
            let mut all = Findings::new();
            for findings in each {
                all.extend(findings?);
            }
            Ok(all)
        }
    }
}

/// A federation of both servers. The fixture's names and URIs are its own, and win over those of the other.
fn manifests(fixture: &str, other: &str) -> String {
    let server = |name: &str, url: &str| {
        json!({
            "apiVersion": "mcpfleet.dev/v1alpha1", "kind": "MCPServer", "metadata": {"name": name},
            "spec": {"remote": {"url": url}},
        })
    };
    let federation = json!({
        "apiVersion": "mcpfleet.dev/v1alpha1", "kind": "MCPFederation", "metadata": {"name": "conformance"},
        "spec": {
            "members": [
                {"name": "fixture", "server": {"name": "fixture"}, "prefix": "", "priority": 1},
                {"name": "other", "server": {"name": "other"}},
            ],
            "access": {"anonymous": {}},
        },
    });
    format!(
        "{}\n---\n{}\n---\n{federation}\n",
        server("fixture", fixture),
        server("other", other)
    )
}

fn words(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied())
        .unwrap_or("a panic without words")
        .to_owned()
}
