//! The custom resources of group `mcpfleet.dev`, version `v1alpha1`: types, rules and words of their status.
//!
//! This module is data only. Validation rules live beside the fields as CEL, so that the API server and
//! `mcpfleet up` refuse the same objects with the same words.

pub mod condition;
mod definition;
mod delay;
mod duration;
pub mod environment;
pub mod federation;
mod selector;
pub mod server;
pub mod source;

use kube::core::{Message, Rule};

pub use condition::Condition;
pub use definition::definitions;
pub use delay::Delay;
pub use duration::Duration;
pub use federation::{MCPFederation, MCPFederationSpec, MCPFederationStatus};
pub use selector::LabelSelector;
pub use server::{MCPServer, MCPServerSpec, MCPServerStatus};

/// The API group of every kind here.
pub const GROUP: &str = "mcpfleet.dev";
/// The served and stored version.
pub const VERSION: &str = "v1alpha1";
/// The annotation on a server, or a federation, whose every new value has its lists read at once.
pub const REFRESH_AT: &str = "mcpfleet.dev/refresh-at";
/// Namespace of an object that names none.
pub const DEFAULT_NAMESPACE: &str = "default";
/// Longest `metadata.name` of our kinds: names of Services and pods are made from it.
pub const NAME_LENGTH_MAX: usize = 52;
/// Status lists are cut at this length; what was cut is counted in `truncated`.
pub const STATUS_LIST_MAX: usize = 100;

/// Narrower than Kubernetes' own rule for names: dots and long names pass there, and fail as names of Services.
fn name_rule() -> Rule {
    Rule::new(format!(
        "self.metadata.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$') && size(self.metadata.name) <= {NAME_LENGTH_MAX}"
    ))
    .message(Message::Message(format!(
        "metadata.name must be at most {NAME_LENGTH_MAX} characters of a-z, 0-9 and '-', start with a letter and end \
         with a letter or digit; choose another name"
    )))
}
