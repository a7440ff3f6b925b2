//! One hop to one MCP server.

pub mod endpoint;
mod lines;
pub(crate) mod process;
pub(crate) mod stdio;

pub use endpoint::{Endpoint, HttpEndpoint, StdioCommand, Timeouts};
