//! Which calls share a connection: the rule, without IO.

use super::caller::Owner;
use crate::mcp::Features;

/// What a server keeps for one connection, and so what is shared by all whose calls it carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Holds {
    /// Nothing: what it must know comes with each request, and it can ask nothing.
    Nothing,
    /// A session.
    Session,
    /// A process: one is shared by all who cannot be asked anything, since each costs much.
    Process,
}

/// Who may use a lane at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sharing {
    /// All calls of its owner: whatever the server asks, it asks the same client.
    Together,
    /// One call, so that it is known which one the server asks about.
    Alone,
    /// All calls of all owners who cannot be asked anything, as far as they declare the same.
    Everybody,
}

/// How the lane is shared that a call needs; `None` if it goes over the connection that reads the catalog. What is
/// declared there is no client's: calls go over it only where the server keeps nothing of it.
pub(crate) fn lane_for(holds: Holds, owner: &Owner, features: &Features) -> Option<Sharing> {
    match (holds, owner, features.is_interactive()) {
        (Holds::Nothing, ..) => None,
        (Holds::Process, _, false) | (Holds::Session, Owner::Nobody, false) => Some(Sharing::Everybody),
        (_, Owner::Session(_), _) | (Holds::Session, Owner::Principal(_), false) => Some(Sharing::Together),
        (_, Owner::Nobody | Owner::Principal(_), true) => Some(Sharing::Alone),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lanes_are_for_servers_that_keep_something_and_owners_that_are_told_apart() {
        let (silent, asked) = (
            Features::default(),
            Features {
                roots: true,
                ..Features::default()
            },
        );
        let owners = [Owner::Nobody, Owner::Principal("p".into()), Owner::Session("s".into())];
        let ways = |holds, features| owners.each_ref().map(|owner| lane_for(holds, owner, features));
        let [together, alone, everybody] = [Sharing::Together, Sharing::Alone, Sharing::Everybody].map(Some);
        assert_eq!(ways(Holds::Nothing, &silent), [None, None, None]);
        assert_eq!(ways(Holds::Nothing, &asked), [None, None, None]);
        assert_eq!(ways(Holds::Session, &silent), [everybody, together, together]);
        assert_eq!(ways(Holds::Session, &asked), [alone, alone, together]);
        assert_eq!(ways(Holds::Process, &silent), [everybody, everybody, everybody]);
        assert_eq!(ways(Holds::Process, &asked), [alone, alone, together]);
    }
}
