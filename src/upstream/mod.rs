//! One hop to one MCP server: connecting in the era it speaks, reading its catalog, carrying requests to it.

pub mod caller;
pub(crate) mod child_log;
mod connection;
mod ear;
pub mod endpoint;
pub mod error;
mod handshake;
mod http;
mod lanes;
mod lines;
mod lists;
mod log_level;
mod open;
pub(crate) mod process;
mod questions;
mod request;
mod reread;
mod state;
pub(crate) mod stdio;
mod supervise;

pub use caller::Owner;
pub use ear::{Asked, Asker, Ear};
pub use endpoint::{Endpoint, HttpEndpoint, StdioCommand, Timeouts};
pub use error::Error;
pub use request::{Answers, Body, Call, Reply};
pub use state::{Health, Peer, State};
pub use supervise::Upstream;
