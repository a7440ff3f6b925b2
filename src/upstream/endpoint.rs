//! Where and how one server is reached: plain data, compared to see whether a connection must be made anew.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use http::{HeaderMap, Uri};

use crate::defaults;

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
    pub program: String,
    /// Its arguments.
    pub args: Vec<String>,
    /// Variables laid over the inherited environment.
    pub env: BTreeMap<String, String>,
    /// Working directory; our own when absent.
    pub cwd: Option<PathBuf>,
}

/// How long one server is waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timeouts {
    /// Opening a connection, or starting a process and its handshake.
    pub connect: Duration,
    /// Reading one list.
    pub list: Duration,
    /// One tool call or prompt; `None` waits as long as the client does.
    pub call: Option<Duration>,
    /// Reading one resource.
    pub resource: Duration,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self {
            connect: defaults::CONNECT_TIMEOUT,
            list: defaults::LIST_TIMEOUT,
            call: None,
            resource: defaults::RESOURCE_TIMEOUT,
        }
    }
}

impl fmt::Debug for StdioCommand {
    /// Values of the environment may be secret and are left out.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StdioCommand")
            .field("program", &self.program)
            .field("args", &self.args)
            .field("env", &self.env.keys().collect::<Vec<_>>())
            .field("cwd", &self.cwd)
            .finish()
    }
}
