//! The protocol on the wire, pure: envelopes, methods, revisions, headers and event streams, without IO.
//!
//! Values of others travel as raw JSON: only envelopes and the members that are rewritten are read.

pub mod apps;
pub mod asking;
pub mod batch;
pub mod client_answer;
pub mod content;
pub mod descriptor;
pub mod descriptor_types;
pub mod edits;
pub mod elicitation;
pub mod features;
pub mod headers;
pub mod input_required;
mod log_level;
pub mod message;
pub mod meta;
pub mod method;
pub mod notice;
pub mod object;
pub mod param_headers;
pub mod passed;
pub mod printable;
pub mod rpc_error;
pub mod sampling;
pub mod shape;
pub mod sse;
pub mod subscription;
pub mod task;
pub mod tool_schema;
pub mod toon;
pub mod version;

pub use features::Features;
pub use log_level::LogLevel;
pub use message::{Envelope, Id, Kind, MessageError};
pub use method::Method;
pub use object::Members;
pub use param_headers::ParamHeaders;
pub use passed::{Mark, Passed};
pub use printable::printable;
pub use rpc_error::RpcError;
pub use subscription::ListKind;
pub use version::{Era, Revision};
