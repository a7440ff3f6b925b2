//! The data plane: clients' requests in, answers out.
//!
//! [`serve`] accepts connections, [`endpoint`] turns one HTTP request into one answer, [`access`] says who may ask,
//! `post` takes what is posted, `talk` what comes on a `channel` ([`stdio`], or `old_sse`, the transport of 2024-11-05).
//! Of either, `rpc` reads each `message`; [`legacy`] and [`modern`] know the rules of their era, [`session`] what Legacy
//! clients said of themselves, [`dispatch`] does what is asked, the same for both, `told` counts it, and `reply` tells it.
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
mod cursor;
pub mod dispatch;
pub mod endpoint;
mod extensions;
mod finished;
mod gate;
mod get;
pub mod hub;
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
mod own;
mod post;
mod reach;
mod reads;
mod relay;
mod reply;
mod rpc;
pub mod serve;
pub mod session;
mod show_all;
mod skills;
pub mod stdio;
mod stream;
mod talk;
mod tasks;
mod told;
mod updates;
mod viewer;
pub mod visit;
pub mod wishes;
mod work;

pub use serve::{Gateway, ServeError};
