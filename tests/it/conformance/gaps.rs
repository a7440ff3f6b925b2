//! Where the gateway and the suite do not agree, and why.

use mcpfleet::mcp::Revision;

use super::server::Setting;

/// What the gateway cannot do yet, and the server scenarios that wait for it. A scenario here must fail: as soon as it
/// passes, its test says so, and it goes.
const NOT_YET: &[Gap] = &[Gap {
    missing: "-32021 for what a client cannot be asked",
    at: MODERN,
    on: &[Setting::LegacyOnly],
    scenarios: &["server_stateless"],
}];

/// What no gateway can do between these two eras, and the server scenarios that ask for it. They must fail too.
const IMPOSSIBLE: &[Gap] = &[Gap {
    missing: "names of questions: the suite wants those of the server, and a Legacy server gives none",
    at: MODERN,
    on: &[Setting::LegacyOnly],
    scenarios: &["input_required_result_basic_elicitation"],
}];

/// Checks that succeed without the gateway and need not succeed with it.
const DIFFERS: &[(&str, &str)] = &[
    // The gateway answers without a stream where nothing is said before the answer.
    ("server_sse_multiple_streams", "server-sse-streams-functional"),
    // It answers before it was asked, by the name that the server will give its question: a Legacy server gives none.
    (
        "input_required_result_ignore_extra_params",
        "sep-2322-ignore-unexpected-params",
    ),
];

const MODERN: &[Revision] = &[Revision::V2026_07_28];

/// A feature that is not there yet.
struct Gap {
    missing: &'static str,
    at: &'static [Revision],
    on: &'static [Setting],
    scenarios: &'static [&'static str],
}

/// The feature that a scenario waits for.
pub(super) fn missing(setting: Setting, revision: Revision, scenario: &str) -> Option<&'static str> {
    let gap = NOT_YET
        .iter()
        .chain(IMPOSSIBLE)
        .find(|gap| gap.at.contains(&revision) && gap.on.contains(&setting) && gap.scenarios.contains(&scenario));
    gap.map(|gap| gap.missing)
}

/// Whether a check of a scenario may succeed only without the gateway.
pub(super) fn may_differ(scenario: &str, check: &str) -> bool {
    DIFFERS.contains(&(scenario, check))
}
