//! What this process holds of Legacy sessions while something of them is going on: calls at work, streams that can be
//! resumed, and streams that hear what is sent to the session. A session of which nothing is going on takes no room.

mod at_work;
mod calls;
mod kept;
mod listener;
mod listening;
mod resumable;
mod sessions;

pub(super) use self::calls::Begun;
pub(super) use self::kept::Kept;
pub(super) use self::listener::Listener;
pub(super) use self::listening::Heard;
pub(super) use self::resumable::StreamId;
pub use self::sessions::SessionHub;
