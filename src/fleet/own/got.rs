//! What a caller has for itself of a member.

use std::sync::Arc;

use super::pool::OwnUpstream;
use super::room::NoRoom;
use crate::upstream::State;

/// What a caller has of a member.
#[derive(Clone, Debug)]
pub(in crate::fleet) enum Got {
    /// Nothing, or nothing any more.
    Nothing,
    /// A connection.
    Connection(Arc<OwnUpstream>),
    /// Nothing, since there is no room.
    Refused(NoRoom),
}

/// What a caller has of a member, as it is at a time.
#[derive(Clone, Debug)]
pub(in crate::fleet) enum Part {
    Nothing,
    /// The connection of this number, and what is known by it.
    Known(u64, Arc<State>),
    Refused(NoRoom),
}

impl Part {
    /// That of what the caller has now.
    pub(in crate::fleet) fn of(got: &Got) -> Self {
        match got {
            Got::Nothing => Self::Nothing,
            Got::Connection(held) => Self::Known(held.number, held.state()),
            Got::Refused(why) => Self::Refused(*why),
        }
    }

    /// What is known of the server.
    pub(in crate::fleet) fn state(&self) -> Option<&Arc<State>> {
        match self {
            Self::Known(_, state) => Some(state),
            Self::Nothing | Self::Refused(_) => None,
        }
    }

    /// Whether what is made of both is the same.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Nothing, Self::Nothing) => true,
            (Self::Known(a, then), Self::Known(b, now)) => a == b && Arc::ptr_eq(then, now),
            (Self::Refused(a), Self::Refused(b)) => a == b,
            _ => false,
        }
    }
}
