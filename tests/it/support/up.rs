//! A running `mcpfleet up`, and what it announces on its standard output.

use std::ffi::OsStr;
use std::time::Duration;

use tokio::process::Command;

use super::process::{Printed, Process};

/// Package servers may have to be fetched first.
const START: Duration = Duration::from_secs(120);

/// A running `mcpfleet up` on ports of its own.
#[derive(Debug)]
pub(crate) struct Up {
    process: Process,
}

/// One line that `up` prints for people, and for us.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Announcement {
    /// The gateway listens.
    Listening { url: String },
    /// The admin listener listens.
    Admin { url: String },
    /// A federation is served.
    Endpoint { federation: String, url: String },
    /// A server's catalog has been read.
    Ready { server: String },
}

impl Up {
    /// Starts `mcpfleet up` with `files`; `prepare` may add to its environment.
    pub(crate) fn start(files: &[impl AsRef<OsStr>], prepare: impl FnOnce(&mut Command)) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_mcpfleet"));
        command
            .arg("up")
            .args(files)
            .args(["--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0"]);
        prepare(&mut command);
        Self {
            process: Process::start("mcpfleet up", command),
        }
    }

    /// The endpoint of a federation, once it is announced.
    pub(crate) async fn endpoint(&self, federation: &str) -> String {
        self.wait_for(
            &format!("the endpoint of {federation}"),
            |announcement| match announcement {
                Announcement::Endpoint { federation: name, url } if name == federation => Some(url),
                _ => None,
            },
        )
        .await
    }

    /// The admin listener, once it is announced.
    pub(crate) async fn admin(&self) -> String {
        self.wait_for("the admin listener", |announcement| match announcement {
            Announcement::Admin { url } => Some(url),
            _ => None,
        })
        .await
    }

    /// Waits for a line with `text` on either output, after the first `skip` lines with it.
    pub(crate) async fn says(&self, text: &str, skip: usize) -> String {
        let find = |printed: &Printed| {
            let lines = printed.output.iter().chain(&printed.errors);
            lines.filter(|line| line.contains(text)).nth(skip).cloned()
        };
        self.process.wait_for(&format!("the words {text:?}"), START, find).await
    }

    /// Its process id.
    pub(crate) fn id(&self) -> i32 {
        self.process.id()
    }

    /// Everything it has printed so far.
    pub(crate) fn printed(&self) -> Printed {
        self.process.printed()
    }

    /// Asks the process to stop, and waits until it has.
    pub(crate) async fn stop(self) -> std::process::ExitStatus {
        self.process.terminate().await
    }

    /// Waits until the catalog of `server` has been read.
    pub(crate) async fn ready(&self, server: &str) {
        self.wait_for(&format!("server {server}"), |announcement| match announcement {
            Announcement::Ready { server: name } if name == server => Some(()),
            _ => None,
        })
        .await;
    }

    async fn wait_for<T>(&self, what: &str, wanted: impl Fn(Announcement) -> Option<T>) -> T {
        let find = |printed: &Printed| {
            printed
                .output
                .iter()
                .filter_map(|line| announcement(line))
                .find_map(&wanted)
        };
        self.process.wait_for(what, START, find).await
    }
}

/// Reads a line by its words, so that a changed sentence is no broken test.
fn announcement(line: &str) -> Option<Announcement> {
    let words: Vec<&str> = line.split_whitespace().collect();
    if let ["server", server, state, ..] = words[..] {
        return (state.trim_end_matches(':') == "ready").then(|| Announcement::Ready { server: server.into() });
    }
    let url = words
        .iter()
        .find(|word| word.starts_with("http://"))?
        .trim_end_matches([',', ';', '.']);
    if ["removed", "not served"].iter().any(|gone| line.contains(gone)) {
        return None;
    }
    if let Some(path) = url.strip_suffix("/mcp") {
        let federation = path.rsplit('/').next()?.into();
        return Some(Announcement::Endpoint {
            federation,
            url: url.into(),
        });
    }
    let url = url.trim_end_matches('/').into();
    match line.to_lowercase() {
        line if line.contains("admin") => Some(Announcement::Admin { url }),
        line if line.contains("listening") => Some(Announcement::Listening { url }),
        _ => None,
    }
}

#[test]
fn announcements_are_read_by_their_words() {
    let url = String::from("http://127.0.0.1:8080");
    assert_eq!(
        announcement("listening on http://127.0.0.1:8080"),
        Some(Announcement::Listening { url: url.clone() })
    );
    assert_eq!(
        announcement("admin on http://127.0.0.1:8080/"),
        Some(Announcement::Admin { url })
    );
    assert_eq!(
        announcement("endpoint http://127.0.0.1:8080/default/tools/mcp"),
        Some(Announcement::Endpoint {
            federation: "tools".into(),
            url: "http://127.0.0.1:8080/default/tools/mcp".into()
        })
    );
    assert_eq!(
        announcement("server files ready: 14 tools"),
        Some(Announcement::Ready { server: "files".into() })
    );
    assert_eq!(
        announcement("endpoint http://127.0.0.1:8080/mcp removed: there are several federations"),
        None
    );
    assert_eq!(announcement("server files failed: connection refused"), None);
    assert_eq!(announcement("anything else"), None);
}
