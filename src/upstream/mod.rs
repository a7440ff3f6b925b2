//! One hop to one MCP server: connecting in the era it speaks, reading its catalog, carrying requests to it.

pub(crate) mod child_log;
mod connection;
pub mod endpoint;
pub mod error;
mod handshake;
mod http;
mod lines;
mod lists;
mod open;
pub(crate) mod process;
mod request;
mod reread;
mod serve;
mod sink;
mod state;
pub(crate) mod stdio;
mod supervise;

pub use endpoint::{Endpoint, HttpEndpoint, StdioCommand, Timeouts};
pub use error::Error;
pub use request::{Body, Call, Reply};
pub use sink::Sink;
pub use state::{Health, Peer, State};
pub use supervise::Upstream;
