//! The command line.

use std::time::Duration;

use clap::{Parser, ValueEnum};
use mcpfleet_load::{LEGACY, MODERN};
use serde_json::Value;

/// A closed-loop MCP load generator: each connection sends one request after the other and checks every answer.
///
/// Prints one line of JSON. Fails when an answer was wrong or missing.
#[derive(Clone, Debug, Parser)]
#[command(name = "mcpload")]
pub(crate) struct Args {
    /// The endpoint, on loopback: http://127.0.0.1:PORT/PATH
    #[arg(long, value_parser = parse_target)]
    pub(crate) url: Target,
    /// The era to speak.
    #[arg(long, value_enum, default_value_t = Era::Legacy)]
    pub(crate) era: Era,
    /// The method to call.
    #[arg(long, default_value = "tools/call")]
    pub(crate) method: String,
    /// The tool to call.
    #[arg(long, default_value = "echo")]
    pub(crate) tool: String,
    /// Its arguments.
    #[arg(long, default_value = r#"{"message":"hello"}"#, value_parser = parse_json)]
    pub(crate) arguments: Value,
    /// The text that the tool must answer with; empty for any.
    #[arg(long, default_value = "hello")]
    pub(crate) expect: String,
    /// Get what is at the address instead, as from any web server.
    #[arg(long)]
    pub(crate) get: bool,
    /// How many connections to keep busy.
    #[arg(short, long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(0..=4096))]
    pub(crate) connections: u16,
    /// How many streams to hold open beside them, on which the endpoint tells of changes.
    #[arg(short, long, default_value_t = 0, value_parser = clap::value_parser!(u16).range(0..=16384))]
    pub(crate) listeners: u16,
    /// Let every other one of these streams be of the other era.
    #[arg(long)]
    pub(crate) mixed: bool,
    /// Where, on the same machine, something is changed by a POST every other second while it is measured: told is how long the
    /// streams take to say so.
    #[arg(long, value_parser = parse_target)]
    pub(crate) bump: Option<Target>,
    /// How long to measure, in seconds.
    #[arg(short, long, default_value = "5", value_parser = parse_seconds)]
    pub(crate) duration: Duration,
    /// How long to run before measuring, in seconds.
    #[arg(short, long, default_value = "1", value_parser = parse_seconds)]
    pub(crate) warm_up: Duration,
    /// How long to wait for an answer, in seconds.
    #[arg(long, default_value = "30", value_parser = parse_seconds)]
    pub(crate) timeout: Duration,
    /// A process whose CPU time and memory, with all its descendants', to report.
    #[arg(long)]
    pub(crate) pid: Option<u32>,
}

/// Where the requests go.
#[derive(Clone, Debug)]
pub(crate) struct Target {
    /// Host and port.
    pub(crate) authority: String,
    /// The path, with its slash.
    pub(crate) path: String,
}

/// The era to speak.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Era {
    Legacy,
    Modern,
}

impl Args {
    /// The same in the other era.
    pub(crate) fn of_other_era(&self) -> Self {
        let era = match self.era {
            Era::Legacy => Era::Modern,
            Era::Modern => Era::Legacy,
        };
        Self { era, ..self.clone() }
    }
}

impl Era {
    /// The newest revision of the era.
    pub(crate) fn revision(self) -> &'static str {
        match self {
            Self::Legacy => LEGACY[0],
            Self::Modern => MODERN,
        }
    }
}

fn parse_target(url: &str) -> Result<Target, String> {
    let rest = url.strip_prefix("http://").ok_or("it must start with http://")?;
    let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
    let host = authority.rsplit_once(':').map_or(authority, |(host, _)| host);
    if host != "localhost" && !host.starts_with("127.") {
        return Err("only this machine may be put under load".into());
    }
    Ok(Target {
        authority: authority.into(),
        path: format!("/{path}"),
    })
}

fn parse_seconds(text: &str) -> Result<Duration, String> {
    let seconds: f64 = text.parse().map_err(|error| format!("{error}"))?;
    if !(0.0..=300.0).contains(&seconds) {
        return Err("between 0 and 300 seconds".into());
    }
    Ok(Duration::from_secs_f64(seconds))
}

fn parse_json(text: &str) -> Result<Value, String> {
    serde_json::from_str(text).map_err(|error| error.to_string())
}
