//! Tests that need something which this machine may not have.

use std::io::Write;

/// Says on standard error, past the test runner's capture, that the running test is skipped and what it `needs`.
///
/// In CI (`CI=true`) nothing may be missing, and the test fails instead.
pub(crate) fn skip(needs: &str) {
    let current = std::thread::current();
    let test = current.name().unwrap_or("a test");
    assert!(
        std::env::var("CI").as_deref() != Ok("true"),
        "{test} must run in CI, but needs {needs}"
    );
    writeln!(std::io::stderr(), "SKIPPED {test}: it needs {needs}").expect("standard error is open");
}
