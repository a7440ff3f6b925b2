//! Log lines, to standard error.

use std::io::IsTerminal;

use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::LevelFilter;

use crate::args::LogFormat;

/// Starts to write log lines; `RUST_LOG` chooses which, `info` and above without it.
///
/// # Errors
/// When something else writes them already.
pub(crate) fn start(format: LogFormat) -> anyhow::Result<()> {
    let said = std::env::var(EnvFilter::DEFAULT_ENV).unwrap_or_default();
    let filter = EnvFilter::builder()
        .with_default_directive(LevelFilter::INFO.into())
        .parse_lossy(directives(&said));
    let lines = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_ansi(std::io::stderr().is_terminal())
        // Where standard error is closed, to complain of it there is a panic, in whatever was at work.
        .log_internal_errors(false)
        .with_writer(std::io::stderr);
    match format {
        LogFormat::Text => lines.with_target(false).try_init(),
        LogFormat::Json => lines.json().flatten_event(true).try_init(),
    }
    .map_err(|e| anyhow::anyhow!("log lines cannot be written: {e}"))
}

/// Which lines are written where `RUST_LOG` is `said`.
fn directives(said: &str) -> String {
    let said = Some(said.trim()).filter(|said| !said.is_empty()).unwrap_or("info");
    if said.contains(WATCHES) {
        said.to_owned()
    } else {
        format!("{said},{WATCHES}=error")
    }
}

/// Warns of every watched directory that is removed, which is no failure: what is missing is looked for (`run::watch`).
const WATCHES: &str = "notify::inotify";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_rust_log_says_is_written_without_warnings_of_directories_that_are_gone() {
        for (said, expected) in [
            ("", "info,notify::inotify=error"),
            (" ", "info,notify::inotify=error"),
            ("debug", "debug,notify::inotify=error"),
            ("warn,mcpfleet=debug", "warn,mcpfleet=debug,notify::inotify=error"),
            ("info,notify::inotify=trace", "info,notify::inotify=trace"),
        ] {
            assert_eq!(directives(said), expected);
            let filter = EnvFilter::builder().parse(directives(said)).unwrap();
            let level = if said.contains("trace") { "trace" } else { "error" };
            assert!(
                filter.to_string().contains(&format!("notify::inotify={level}")),
                "{filter}"
            );
        }
    }
}
