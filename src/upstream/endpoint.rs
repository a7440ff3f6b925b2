//! Where and how one server is reached: plain data, compared to see whether a connection must be made anew.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use http::{HeaderMap, Uri};

use crate::defaults;
use crate::mcp::Method;

/// Where a server is reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Endpoint {
    /// An address that speaks Streamable HTTP.
    Http(HttpEndpoint),
    /// A child process that speaks on its standard input and output.
    Stdio(StdioCommand),
}

/// An address that speaks Streamable HTTP.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HttpEndpoint {
    /// The MCP endpoint, absolute.
    pub url: Uri,
    /// Headers of the manifest, sent with every request; values that came from Secrets are marked sensitive.
    pub headers: HeaderMap,
}

/// A child process that speaks on its standard input and output.
#[derive(Clone, PartialEq, Eq)]
pub struct StdioCommand {
    /// The program, looked up on `PATH`.
    pub program: Program,
    /// Its arguments.
    pub args: Vec<String>,
    /// Variables laid over the inherited environment.
    pub env: BTreeMap<String, String>,
    /// Working directory; our own when absent.
    pub cwd: Option<PathBuf>,
}

/// A program, and what messages call it.
#[derive(Clone, PartialEq, Eq)]
pub struct Program {
    path: String,
    shown: String,
}

/// How long one server is waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timeouts {
    /// Opening a connection, or starting a process and its handshake.
    pub connect: Duration,
    /// Reading one page of a list; `None` waits for as long as it takes.
    pub list: Option<Duration>,
    /// One tool call or prompt; `None` waits as long as the client does.
    pub call: Option<Duration>,
    /// Reading one resource.
    pub resource: Duration,
}

/// How long single requests may take, where somebody says otherwise than the server's owner.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// As [`Timeouts::call`].
    pub call: Option<Duration>,
    /// As [`Timeouts::resource`].
    pub resource: Option<Duration>,
}

impl Limits {
    /// `otherwise`, but as is said here.
    pub fn over(self, otherwise: Timeouts) -> Timeouts {
        Timeouts {
            call: self.call.or(otherwise.call),
            resource: self.resource.unwrap_or(otherwise.resource),
            ..otherwise
        }
    }
}

impl Timeouts {
    /// How long a request of this method may take.
    pub(super) fn of_request(&self, method: Method) -> Option<Duration> {
        match method {
            Method::ResourcesRead | Method::SkillsGet | Method::DirectoryRead => Some(self.resource),
            _ if method.is_of_tasks() => Some(self.resource),
            _ => self.call,
        }
    }

    /// What a server has to say that is as short as a page of a list, and that is never waited for without an end.
    pub fn word(&self) -> Duration {
        self.list.unwrap_or(defaults::LIST_TIMEOUT)
    }
}

impl Program {
    /// The program at `path`, or of that name, which messages call `shown`: the path may hold what is not for logs.
    pub fn shown_as(path: impl Into<String>, shown: impl Into<String>) -> Self {
        Self {
            path: path.into(),
            shown: shown.into(),
        }
    }

    /// What is started.
    pub fn path(&self) -> &str {
        &self.path
    }
}

impl<T: Into<String>> From<T> for Program {
    fn from(path: T) -> Self {
        let path = path.into();
        Self::shown_as(path.clone(), path)
    }
}

impl fmt::Display for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.shown)
    }
}

impl fmt::Debug for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.shown, f)
    }
}

impl Default for Timeouts {
    fn default() -> Self {
        Self {
            connect: defaults::CONNECT_TIMEOUT,
            list: Some(defaults::LIST_TIMEOUT),
            call: None,
            resource: defaults::RESOURCE_TIMEOUT,
        }
    }
}

impl fmt::Debug for StdioCommand {
    /// Values of the environment and arguments may be secret and are left out.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StdioCommand")
            .field("program", &self.program)
            .field("args", &self.args.len())
            .field("env", &self.env.keys().collect::<Vec<_>>())
            .field("cwd", &self.cwd)
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_may_be_secret_does_not_show_in_debug_output() {
        let command = StdioCommand {
            program: Program::shown_as("/opt/hunter2/serve", "${SERVER}"),
            args: vec!["--token=hunter2".into()],
            env: BTreeMap::from([("TOKEN".into(), "hunter2".into())]),
            cwd: None,
        };
        let shown = format!("{command:?} {}", command.program);
        assert!(shown.contains("${SERVER}") && shown.contains("TOKEN"), "{shown}");
        assert!(!shown.contains("hunter2"), "{shown}");
    }
}
