//! Which lanes are listened to beside the answers to their calls.

use super::pool::Lane;
use crate::mcp::Era;
use crate::upstream::connection::Connection;
use crate::upstream::state::Transport;

/// Whether there may be something to hear on `lane` beside the answers to its calls.
pub(super) fn is_listened_to(lane: &Lane<Connection>, connection: &Connection) -> bool {
    let is_wanted = || {
        let wanted = connection.known().subscriptions.wanted_on(lane.questions.origin());
        tells_of_resources(connection) && !wanted.is_empty()
    };
    lane.questions.declared().is_interactive() || connection.peer().transport == Transport::Stdio || is_wanted()
}

/// Whether resources can be subscribed to on `connection` so that it makes a difference.
pub(super) fn tells_of_resources(connection: &Connection) -> bool {
    connection.known().news.are_heeded()
        && connection.peer().era() == Era::Legacy
        && connection.peer().capabilities.subscribe
}
