//! The data plane: clients' requests in, answers out.
//!
//! [`serve`] accepts connections, [`endpoint`] turns one HTTP request into one answer, [`access`] says who may ask,
//! `post` takes what is posted, `talk` what comes on a `channel` ([`stdio`], or `old_sse`, the transport of 2024-11-05).
//! Of either `intake` takes what came at a time, and `rpc` reads each `message`; [`legacy`] and [`modern`] know the rules of
//! their era, [`session`] what Legacy clients said of themselves, [`dispatch`] does what is asked in a [`request`], the same
//! for both, `told` counts it, and `reply` tells it. [`bridge`] takes to a server what is for one; what goes on over more than
//! one message of its client is held by [`conversations`].
//!
//! An answer that takes its time becomes a `stream` of what is said on a [`line`], for as long as its `work` goes on.
//! Clients hear of changes by `get` (Legacy sessions, whose streams and calls are in the [`hub`]) and by `listen`
//! (Modern ones, of `tasks` too), for as long as the `gate` is open to them.

mod accept;
pub mod access;
pub mod answer;
mod batch;
pub mod bridge;
mod channel;
mod completion;
pub mod conversations;
mod cursor;
pub mod dispatch;
pub mod endpoint;
mod extensions;
mod finished;
mod frames;
mod gate;
mod get;
pub mod hub;
mod intake;
pub mod legacy;
pub mod line;
mod listen;
mod lists;
mod message;
mod meta_tools;
pub mod modern;
mod old_sse;
pub mod old_streams;
pub mod origin;
mod outgoing;
mod own;
mod post;
mod reach;
mod reads;
mod relay;
mod reply;
pub mod request;
mod rpc;
pub mod serve;
pub mod session;
mod session_lanes;
mod show_all;
mod skills;
pub mod stdio;
mod stream;
mod subscribe;
mod talk;
mod task_name;
mod tasks;
mod told;
mod updates;
mod viewer;
pub mod visit;
pub mod wishes;
mod work;

pub use serve::{Gateway, ServeError};
