//! MCP clients and servers of other people, installed by `tests/peers/install`.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use tokio::process::Command;

use super::skip::skip;

/// Where the peers are.
#[derive(Clone, Debug)]
pub(crate) struct Peers {
    directories: HashMap<String, PathBuf>,
}

/// A set of Python packages; they exclude each other.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Python {
    /// The official SDK v1.
    McpV1,
    /// The official SDK v2.
    McpV2,
    /// fastmcp.
    FastMcp,
}

impl Peers {
    /// The installed peers.
    ///
    /// `None` where they are not installed: the test says so and returns. (In CI that is a failure.)
    pub(crate) fn installed() -> Option<Self> {
        static FOUND: LazyLock<Result<Peers, String>> = LazyLock::new(Peers::find);
        match &*FOUND {
            Ok(peers) => Some(peers.clone()),
            Err(missing) => {
                skip(&format!("the test peers: {missing}"));
                None
            }
        }
    }

    /// Looks for them; the error says what is missing.
    fn find() -> Result<Self, String> {
        let check = std::process::Command::new(sources().join("install"))
            .arg("--check")
            .output()
            .unwrap();
        if !check.status.success() {
            return Err(String::from_utf8_lossy(&check.stderr).trim().to_owned());
        }
        let directories = String::from_utf8(check.stdout)
            .unwrap()
            .lines()
            .filter_map(|line| line.split_once('\t'))
            .map(|(name, directory)| (name.into(), directory.into()))
            .collect();
        Ok(Self { directories })
    }

    /// Runs one of our programs on the TypeScript SDKs; `script` is its path in `tests/peers/node`.
    pub(crate) fn node(&self, script: &str) -> Command {
        let mut command = Command::new(self.node_program());
        command.arg(sources().join("node").join(script));
        command
    }

    /// Runs a server that is an npm package of `server-NAME`.
    pub(crate) fn npm_server(&self, name: &str) -> Command {
        let mut command = Command::new(self.node_program());
        command.arg(self.npm_package(&format!("server-{name}")));
        command
    }

    /// The program of an npm package of the protocol's own.
    pub(crate) fn npm_package(&self, name: &str) -> PathBuf {
        let packages = self.directory("node").join("node_modules/@modelcontextprotocol");
        packages.join(name).join("dist/index.js")
    }

    /// Runs the official conformance suite.
    pub(crate) fn conformance(&self) -> Command {
        let mut command = Command::new(self.node_program());
        command.arg(self.npm_package("conformance"));
        command
    }

    /// Runs one of our programs on a Python SDK; `script` is its path in `tests/peers/python`.
    pub(crate) fn python(&self, packages: Python, script: &str) -> Command {
        let words = self.python_command(packages, script);
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]);
        command
    }

    /// The words of that command.
    pub(crate) fn python_command(&self, packages: Python, script: &str) -> Vec<PathBuf> {
        let name = match packages {
            Python::McpV1 => "mcp-v1",
            Python::McpV2 => "mcp-v2",
            Python::FastMcp => "fastmcp",
        };
        let script = sources().join("python").join(script);
        vec![self.directory(name).join("bin/python"), "-B".into(), script]
    }

    /// A program on the official Go SDK: our `client`, or its own example server, `everything`.
    pub(crate) fn go_program(&self, name: &str) -> PathBuf {
        self.directory("go").join("bin").join(name)
    }

    /// The Node that the lock file pins.
    pub(crate) fn node_program(&self) -> PathBuf {
        self.directory("node").join("bin/node")
    }

    /// A cache for npx that has the package servers of the examples.
    pub(crate) fn npm_cache(&self) -> PathBuf {
        self.directory("node").join("npm-cache")
    }

    fn directory(&self, name: &str) -> &Path {
        &self.directories[name]
    }
}

/// Our own programs on the peers.
pub(crate) fn sources() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/peers")
}

/// Our server on the official Rust SDK, which cargo builds with all tests.
///
/// `None` where only some tests were built: the test says so and returns. (In CI that is a failure.)
pub(crate) fn rmcp_server() -> Option<PathBuf> {
    let tests = std::env::current_exe().unwrap(); // DIRECTORY/deps/it-HASH
    let built = tests.parent().unwrap().with_file_name("examples").join("rmcp-server");
    if !built.exists() {
        skip("our server on rmcp: cargo build --example rmcp-server");
        return None;
    }
    Some(built)
}
