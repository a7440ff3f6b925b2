//! The command line.

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueEnum};

use crate::api::{self, DEFAULT_NAMESPACE};
use crate::fleet::ObjectKey;

/// Fleets of MCP servers as one endpoint, on Kubernetes or on this machine.
#[derive(Debug, Parser)]
#[command(name = "mcpfleet", version, max_term_width = 100)]
pub struct Cli {
    /// How log lines are written to standard error. RUST_LOG chooses which, such as debug; by default info and above.
    #[arg(long, global = true, value_enum, default_value_t = LogFormat::Text, env = "MCPFLEET_LOG_FORMAT")]
    pub log_format: LogFormat,
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Serve manifests on this machine, without a cluster.
    Up(Up),
    /// Serve and reconcile the objects of a Kubernetes cluster.
    Run(Run),
    /// Serve one remote server on standard input and output, for MCP hosts that only start programs.
    Connect(Connect),
    /// Print the custom resource definitions.
    Crds,
}

/// How log lines are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// For people.
    Text,
    /// For programs, one object a line.
    Json,
}

/// `mcpfleet up`.
#[derive(Debug, Args)]
pub struct Up {
    /// Manifests (MCPServer, MCPFederation, Secret, ConfigMap), mcp.json files, or directories of them; `-` reads
    /// standard input.
    #[arg(required = true, value_name = "FILE|DIR")]
    pub paths: Vec<PathBuf>,
    /// Serve one federation on standard input and output too, for an MCP host that starts this program: the only one, or
    /// that of --default-federation. What is told to people goes to standard error then.
    #[arg(long)]
    pub stdio: bool,
    /// List everything to the client on standard input and output, past what is only found by search.
    #[arg(long, requires = "stdio")]
    pub show_all: bool,
    /// Where clients connect; port 0 picks a free one. On another than a loopback address each federation must say in
    /// spec.access who may connect. [default: 127.0.0.1:8080; nowhere with --stdio]
    #[arg(
        long,
        env = "MCPFLEET_LISTEN",
        value_name = "IP:PORT",
        value_parser = address
    )]
    pub listen: Option<SocketAddr>,
    /// Where metrics and health are served; port 0 picks a free one. [default: 127.0.0.1:9090; nowhere with --stdio]
    #[arg(
        long,
        env = "MCPFLEET_ADMIN_LISTEN",
        value_name = "IP:PORT",
        value_parser = address
    )]
    pub admin_listen: Option<SocketAddr>,
    /// The federation that is also served at /mcp. Without this flag it is the only one, as long as there is only one.
    #[arg(long, value_name = "[NAMESPACE/]NAME", value_parser = object_key)]
    pub default_federation: Option<ObjectKey>,
    /// How long requests in flight may take to finish when the process is asked to stop, such as 500ms, 25s or 1m30s.
    #[arg(long, default_value = "25s", value_name = "DURATION", value_parser = duration)]
    pub drain_timeout: Duration,
}

/// `mcpfleet connect`.
#[derive(Debug, Args)]
pub struct Connect {
    /// The address of the server, such as https://mcp.example.com/mcp.
    pub url: String,
    /// A header of every request to it (can be given more than once). ${VAR} in the value is replaced by a variable of
    /// the environment, so that secrets need not stand here.
    #[arg(long = "header", value_name = "NAME=VALUE", value_parser = header)]
    pub headers: Vec<Header>,
    /// Ask for everything that the server has, past what it filters: sends X-MCP-Show-All: true.
    #[arg(long)]
    pub show_all: bool,
}

/// A header that is sent to a server.
#[derive(Clone, PartialEq, Eq)]
pub struct Header {
    /// Its name.
    pub name: String,
    /// Its value, variables not yet replaced.
    pub value: String,
}

impl fmt::Debug for Header {
    /// The value may be secret and is left out.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Header")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

/// `mcpfleet run`.
#[derive(Debug, Args)]
pub struct Run {
    /// What this process does.
    #[arg(long, value_enum, default_value_t = Role::All)]
    pub role: Role,
    /// Where clients connect; port 0 picks a free one.
    #[arg(
        long,
        default_value = "0.0.0.0:8080",
        env = "MCPFLEET_LISTEN",
        value_name = "IP:PORT",
        value_parser = address
    )]
    pub listen: SocketAddr,
    /// Where metrics and health are served; port 0 picks a free one.
    #[arg(
        long,
        default_value = "0.0.0.0:9090",
        env = "MCPFLEET_ADMIN_LISTEN",
        value_name = "IP:PORT",
        value_parser = address
    )]
    pub admin_listen: SocketAddr,
    /// Serve only objects with this spec.class; without it, only those without one.
    #[arg(long, value_name = "CLASS")]
    pub class: Option<String>,
    /// Watch only this namespace (can be given more than once); without it, all of them.
    #[arg(long = "watch-namespace", value_name = "NAMESPACE")]
    pub watch_namespaces: Vec<String>,
    /// The federation that is also served at /mcp.
    #[arg(long, value_name = "[NAMESPACE/]NAME", value_parser = object_key)]
    pub default_federation: Option<ObjectKey>,
    /// What clients put before /NAMESPACE/NAME/mcp; shown in the status of federations.
    #[arg(long, value_name = "URL")]
    pub public_url: Option<String>,
    /// How long requests in flight may take to finish when the process is asked to stop, such as 500ms, 25s or 1m30s.
    #[arg(long, default_value = "25s", value_name = "DURATION", value_parser = duration)]
    pub drain_timeout: Duration,
}

/// What a process does in a cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Role {
    /// Reconciles workloads and status.
    Controller,
    /// Serves clients.
    Gateway,
    /// Both.
    All,
}

fn object_key(text: &str) -> Result<ObjectKey, String> {
    let (namespace, name) = text.split_once('/').unwrap_or((DEFAULT_NAMESPACE, text));
    if namespace.is_empty() || name.is_empty() || name.contains('/') {
        return Err("must be the name of an MCPFederation, such as tools or, in namespace team, team/tools".into());
    }
    Ok(ObjectKey::new(namespace, name))
}

/// An address to listen on. Names are not looked up: what they lead to may change, and may be more than one address.
fn address(text: &str) -> Result<SocketAddr, String> {
    text.parse().map_err(|_| {
        let port = text.rsplit(':').next().filter(|port| port.parse::<u16>().is_ok());
        let port = port.unwrap_or("8080");
        format!(
            "must be an IP address and a port: 127.0.0.1:{port} for this machine only, 0.0.0.0:{port} for all others too, \
             [::1]:{port} for IPv6"
        )
    })
}

fn header(text: &str) -> Result<Header, String> {
    let (name, value) = text
        .split_once('=')
        .ok_or("must be a name and a value, such as 'Authorization=Bearer ${TOKEN}'")?;
    Ok(Header {
        name: name.into(),
        value: value.into(),
    })
}

fn duration(text: &str) -> Result<Duration, String> {
    let parsed: Result<api::Duration, _> = text.parse();
    parsed.map(Duration::from).map_err(|refused| refused.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn names_and_durations_are_read() {
        assert_eq!(object_key("team/a"), Ok(ObjectKey::new("team", "a")));
        assert_eq!(object_key("a"), Ok(ObjectKey::new("default", "a")));
        assert!(object_key("/a").is_err());
        assert!(object_key("a/b/c").is_err());
        assert_eq!(duration("1m30s"), Ok(Duration::from_secs(90)));
    }

    /// What is told of `flag` with `value`, of both commands, which must tell the same.
    fn told(flag: &str, value: &str) -> String {
        let up = vec!["mcpfleet", "up", "a.yaml"];
        let flag = format!("{flag}={value}");
        let told = [up, vec!["mcpfleet", "run"]].map(|mut line| {
            line.push(&flag);
            Cli::try_parse_from(line).unwrap_err().to_string()
        });
        assert_eq!(told[0].lines().next(), told[1].lines().next());
        told[0].clone()
    }

    #[test]
    fn a_wrong_value_of_a_flag_is_answered_with_the_form_and_an_example() {
        for flag in ["--listen", "--admin-listen"] {
            for value in [
                "8081",
                ":8081",
                "localhost:8081",
                "http://127.0.0.1:8081",
                "::1:8081x",
                "0.0.0.0",
                "",
            ] {
                let told = told(flag, value);
                let port = if value.ends_with("8081") { "8081" } else { "8080" };
                assert!(
                    told.contains(flag) && told.contains(&format!("127.0.0.1:{port} for this machine")),
                    "{told}"
                );
            }
        }
        // The last two would make arithmetic overflow, were they taken.
        for value in ["5", "-1s", "soon", "1 s", "", "99999999999999999999h", "1s-9s"] {
            let told = told("--drain-timeout", value);
            assert!(
                told.contains("--drain-timeout") && told.contains("such as 500ms, 10s or 1h30m"),
                "{told}"
            );
        }
        for value in ["/a", "a/", "a/b/c", ""] {
            let told = told("--default-federation", value);
            assert!(told.contains("such as tools or"), "{told}");
        }
    }

    #[test]
    fn the_longest_wait_is_taken() {
        let line = ["mcpfleet", "run", "--drain-timeout", "999999999h999999999h"];
        let Command::Run(run) = Cli::try_parse_from(line).unwrap().command else {
            panic!("it is run")
        };
        assert_eq!(run.drain_timeout, Duration::from(api::Duration::MAX));
    }
}
