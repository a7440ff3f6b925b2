//! The command line.

use std::net::SocketAddr;

use clap::{Parser, ValueEnum};

/// A small, fast MCP server of both eras, to put behind a gateway under load.
///
/// POST /mcp (GET and DELETE too with --sessions); GET /healthz, /stats and /admin/requests; POST /admin/bump (adds a
/// tool) and /admin/touch (a resource changed).
#[derive(Clone, Debug, Parser)]
#[command(name = "echo-upstream")]
pub(crate) struct Args {
    /// Where to listen; port 0 takes a free one. The address is printed once it listens.
    #[arg(long, default_value = "127.0.0.1:0")]
    pub(crate) listen: SocketAddr,
    /// What the server calls itself.
    #[arg(long, default_value = "echo")]
    pub(crate) name: String,
    /// How many tools it has: the built-in ones, and fillers up to this number.
    #[arg(long, default_value_t = 8)]
    pub(crate) tools: usize,
    /// How many tools stand on one page of the list; 0 puts all on one.
    #[arg(long, default_value_t = 0)]
    pub(crate) page: usize,
    /// Answer tool calls as an event stream with one event.
    #[arg(long)]
    pub(crate) sse: bool,
    /// Issue and demand Legacy session ids.
    #[arg(long)]
    pub(crate) sessions: bool,
    /// Wait this many milliseconds before each tool's answer.
    #[arg(long, default_value_t = 0)]
    pub(crate) delay_ms: u64,
    /// The eras it speaks.
    #[arg(long, value_enum, default_value_t = Eras::Both)]
    pub(crate) era: Eras,
    /// Demand this bearer token.
    #[arg(long)]
    pub(crate) token: Option<String>,
    /// Listen on any address and take any Host and Origin, as in a container.
    #[arg(long)]
    pub(crate) any_host: bool,
    /// Seconds between the comments that keep a stream alive.
    #[arg(long, default_value_t = 15)]
    pub(crate) keepalive_s: u64,
    /// Keep the last N requests for GET /admin/requests.
    #[arg(long, default_value_t = 0)]
    pub(crate) record: usize,
    /// Worker threads; 0 means one for each core.
    #[arg(long, default_value_t = 0)]
    pub(crate) threads: usize,
}

/// Which eras a server speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Eras {
    Both,
    Legacy,
    Modern,
}
