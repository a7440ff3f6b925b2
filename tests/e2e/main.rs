//! End-to-end tests: the real chart puts the real image into a real node, and other people's clients use it.
//!
//! The program runs twice. As `cargo test` starts it, it makes the image and starts itself again inside the node of
//! `tests/cluster/cluster.sh`; there the tests run one after the other, against one cluster. A test is a function
//! named in [`TESTS`]; one that needs the operator asks [`install::operator`] for it, so that each also runs alone.
//!
//! Where there can be no node, the tests say what they need and count as ignored. In CI (`CI=true`) that is a failure.

#[cfg(test)]
mod client;
#[cfg(test)]
mod install;
#[cfg(test)]
mod node;
#[cfg(test)]
mod rights;
#[cfg(test)]
mod servers;

use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use libtest_mimic::{Arguments, Completion, Failed, Trial};

/// All tests, in the order in which they run.
const TESTS: &[(&str, fn())] = &[
    (
        "install::the_chart_installs_and_the_operator_is_ready",
        install::the_chart_installs_and_the_operator_is_ready,
    ),
    (
        "servers::kubectl_explains_every_field",
        servers::kubectl_explains_every_field,
    ),
    (
        "servers::an_invalid_server_is_refused_with_the_fix",
        servers::an_invalid_server_is_refused_with_the_fix,
    ),
    (
        "servers::a_container_server_is_served_to_real_clients",
        servers::a_container_server_is_served_to_real_clients,
    ),
    (
        "servers::sick_members_delay_nobody_and_are_named",
        servers::sick_members_delay_nobody_and_are_named,
    ),
    (
        "servers::a_deleted_server_takes_its_workload_along",
        servers::a_deleted_server_takes_its_workload_along,
    ),
    (
        "install::two_installs_share_a_cluster_by_class",
        install::two_installs_share_a_cluster_by_class,
    ),
    (
        "rights::what_is_granted_is_what_is_used",
        rights::what_is_granted_is_what_is_used,
    ),
    (
        "install::uninstalling_leaves_what_was_to_be_kept",
        install::uninstalling_leaves_what_was_to_be_kept,
    ),
];

/// Set for the second run, inside the node.
const INSIDE: &str = "MCPFLEET_E2E_INSIDE";
/// How the scripts of the test cluster say that the machine lacks something.
const LACKING: i32 = 77;

fn main() -> ExitCode {
    let mut arguments = Arguments::from_args();
    arguments.test_threads = Some(1);
    let tests = || -> Vec<_> {
        TESTS
            .iter()
            .map(|(name, test)| Trial::test(*name, || run(test)))
            .collect()
    };
    let none_to_run = tests()
        .iter()
        .all(|test| arguments.is_filtered_out(test) || arguments.is_ignored(test));
    if arguments.list || none_to_run || std::env::var_os(INSIDE).is_some() {
        return libtest_mimic::run(&arguments, tests()).exit_code();
    }
    match prepare() {
        Ok(image) => {
            let error = Command::new(cluster("cluster.sh"))
                .arg("run")
                .args(std::env::args_os())
                .env(INSIDE, "1")
                .env("IMAGES", image)
                .exec();
            eprintln!("cluster.sh could not be started: {error}");
            ExitCode::FAILURE
        }
        Err(lack) if std::env::var("CI").as_deref() == Ok("true") => {
            eprintln!("the end-to-end tests must run in CI: {lack}");
            ExitCode::FAILURE
        }
        Err(lack) => {
            eprintln!("SKIPPED the end-to-end tests: {lack}");
            let skipped = |name: &str| Trial::ignorable_test(name, || Ok(Completion::ignored_with("it needs a node")));
            libtest_mimic::run(&arguments, TESTS.iter().map(|(name, _)| skipped(name)).collect()).exit_code()
        }
    }
}

fn run(test: &fn()) -> Result<(), Failed> {
    node::with_diagnosis(test);
    Ok(())
}

/// Makes the archive of our image, once the machine is known to be able to run a node.
fn prepare() -> Result<PathBuf, String> {
    let check = Command::new(cluster("cluster.sh")).arg("check").output();
    let check = check.map_err(|error| error.to_string())?;
    if check.status.code() == Some(LACKING) {
        return Err(String::from_utf8_lossy(&check.stderr).trim().to_owned());
    }
    assert!(
        check.status.success(),
        "cluster.sh check: {}",
        String::from_utf8_lossy(&check.stderr)
    );
    let archive = Path::new(env!("CARGO_TARGET_TMPDIR")).join("mcpfleet.tar");
    let made = Command::new(cluster("operator-image.sh")).arg(&archive).status();
    assert!(made.is_ok_and(|status| status.success()), "our image could not be made");
    Ok(archive)
}

fn cluster(script: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cluster").join(script)
}
