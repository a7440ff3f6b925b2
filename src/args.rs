//! The command line.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueEnum};

use crate::fleet::ObjectKey;

/// Fleets of MCP servers as one endpoint, on Kubernetes or on this machine.
#[derive(Debug, Parser)]
#[command(name = "mcpfleet", version, about, max_term_width = 100)]
pub struct Cli {
    /// How log lines are written to standard error. RUST_LOG chooses which.
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
    /// Where clients connect; port 0 picks a free one.
    #[arg(
        long,
        default_value = "127.0.0.1:8080",
        env = "MCPFLEET_LISTEN",
        value_name = "ADDRESS"
    )]
    pub listen: SocketAddr,
    /// Where metrics and health are served; port 0 picks a free one.
    #[arg(
        long,
        default_value = "127.0.0.1:9090",
        env = "MCPFLEET_ADMIN_LISTEN",
        value_name = "ADDRESS"
    )]
    pub admin_listen: SocketAddr,
    /// The federation that is also served at /mcp; the only one, if there is only one.
    #[arg(long, value_name = "[NAMESPACE/]NAME", value_parser = object_key)]
    pub default_federation: Option<ObjectKey>,
    /// How long requests in flight may take to finish when the process is asked to stop.
    #[arg(long, default_value = "25s", value_name = "DURATION", value_parser = duration)]
    pub drain_timeout: Duration,
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
        value_name = "ADDRESS"
    )]
    pub listen: SocketAddr,
    /// Where metrics and health are served; port 0 picks a free one.
    #[arg(
        long,
        default_value = "0.0.0.0:9090",
        env = "MCPFLEET_ADMIN_LISTEN",
        value_name = "ADDRESS"
    )]
    pub admin_listen: SocketAddr,
    /// Serve only objects with this spec.class; without it, only those without one.
    #[arg(long, value_name = "CLASS")]
    pub class: Option<String>,
    /// Watch only this namespace (can be given more than once); without it, all of them.
    #[arg(long = "watch-namespace", value_name = "NAMESPACE")]
    pub watch_namespaces: Vec<String>,
    /// The federation that is also served at /mcp.
    #[arg(long, value_name = "NAMESPACE/NAME", value_parser = object_key)]
    pub default_federation: Option<ObjectKey>,
    /// What clients put before /NAMESPACE/NAME/mcp; shown in the status of federations.
    #[arg(long, value_name = "URL")]
    pub public_url: Option<String>,
    /// How long requests in flight may take to finish when the process is asked to stop.
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
    let (namespace, name) = text.split_once('/').unwrap_or(("default", text));
    if namespace.is_empty() || name.is_empty() || name.contains('/') {
        return Err("expected NAMESPACE/NAME".into());
    }
    Ok(ObjectKey::new(namespace, name))
}

fn duration(text: &str) -> Result<Duration, String> {
    let parsed: kube::core::Duration = text
        .parse()
        .map_err(|e| format!("{e}; for example 500ms, 10s or 1h30m"))?;
    if parsed.is_negative() {
        return Err("a duration must not be negative".into());
    }
    Ok(parsed.into())
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
        assert!(duration("-1s").is_err());
        assert!(duration("5").is_err());
    }
}
