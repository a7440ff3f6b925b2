//! One hop to one MCP server.

pub mod endpoint;

pub use endpoint::{Endpoint, HttpEndpoint, StdioCommand, Timeouts};
