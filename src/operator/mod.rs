//! The control plane: turns `MCPServer` objects into workloads and tells, in the status of both kinds, how things are.
//!
//! One reconcile is a pipeline: what is there is looked up in memory ([`watch`] keeps it), what is to be done is
//! planned ([`server::plan`]), that is carried out ([`server::apply`]), and the outcome is told ([`server::status`],
//! [`federation::status`]) and written if it is news ([`publish`]). Planning and telling are pure. Only the replica
//! that leads runs this ([`lead`]); what the gateway sees comes in as plain data ([`crate::fleet::Observations`]).

pub mod conditions;
pub mod context;
pub mod error;
pub mod events;
pub mod federation;
pub mod lead;
pub mod mandate;
pub mod names;
pub mod publish;
pub mod root_key;
pub mod server;
pub mod watch;

pub use context::{Install, Links, Scope, State};
pub use error::Error;
pub use lead::lead;
pub use mandate::Mandate;
