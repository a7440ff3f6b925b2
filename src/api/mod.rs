//! The custom resources of group `mcpfleet.dev`, version `v1alpha1`: types, rules and words of their status.
//!
//! This module is data only. Validation rules live beside the fields as CEL, so that the API server and
//! `mcpfleet up` refuse the same objects with the same words.

pub mod condition;
mod definition;
pub mod environment;
pub mod federation;
pub mod server;
pub mod source;

pub use condition::Condition;
pub use definition::definitions;
pub use federation::{MCPFederation, MCPFederationSpec, MCPFederationStatus};
pub use server::{MCPServer, MCPServerSpec, MCPServerStatus};

/// The API group of every kind here.
pub const GROUP: &str = "mcpfleet.dev";
/// The served and stored version.
pub const VERSION: &str = "v1alpha1";
/// Status lists are cut at this length; what was cut is counted in `truncated`.
pub const STATUS_LIST_MAX: usize = 100;
