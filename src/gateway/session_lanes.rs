//! What servers are told of a Legacy client's session, on the connections that they have for it.

use futures::future::join_all;

use super::access::Principal;
use super::session::SessionId;
use crate::fleet::Federation;
use crate::upstream::Owner;

/// Whose connections carry the calls of `session`.
pub(super) fn owner(session: SessionId) -> Owner {
    Owner::Session(session.to_string().into())
}

/// Whose connections carry the calls of `principal` outside a session: clients without a name share nothing that could
/// be told apart.
pub(super) fn owner_without_session(principal: &Principal) -> Owner {
    let name = principal.name();
    name.map_or(Owner::Nobody, |name| Owner::Principal(name.into()))
}

/// The client works on other directories now.
pub(super) async fn roots_changed(federation: &Federation, session: SessionId) {
    let owner = owner(session);
    let upstreams = federation.members.iter().filter_map(|member| member.upstream.as_ref());
    join_all(upstreams.map(|upstream| upstream.roots_changed(&owner))).await;
}

/// The client has left: what servers keep for it is let go of.
pub(super) fn ended(federation: &Federation, session: SessionId) {
    let owner = owner(session);
    for upstream in federation.members.iter().filter_map(|member| member.upstream.as_ref()) {
        upstream.session_ended(&owner);
    }
}
