//! Who a call is made for, as far as it decides which of our connections to a server carries it.

use std::sync::Arc;

/// Whose connection carries a call: servers may keep state, and ask things, by connection, and neither is shared
/// between owners.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub enum Owner {
    /// Nobody that can be told from anybody else: an anonymous client without a session.
    #[default]
    Nobody,
    /// The client in this session; what it is asked reaches it on any stream of the session.
    Session(Arc<str>),
    /// Whoever access calls by this name, in requests that stand alone.
    Principal(Arc<str>),
}
