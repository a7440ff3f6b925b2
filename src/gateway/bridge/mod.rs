//! Requests that reach a server, and what the server asks of the client before it answers.
//!
//! Legacy servers ask by requests of their own while they work; Modern ones by a result that asks for input, and are
//! called again with it. Clients are asked in the way of their own era. So there are four ways:
//!
//! | client | server | where |
//! |---|---|---|
//! | Legacy | Legacy | [`legacy_client`]: each question becomes a request on the stream of the client's call |
//! | Legacy | Modern | [`legacy_client`]: the same, and the server is called again with the answers |
//! | Modern | Modern | [`modern_client`]: the result goes to the client, its state sealed |
//! | Modern | Legacy | [`modern_client`], [`rounds`]: the call waits while the client is given a result that asks |

mod asker;
pub(super) mod fanout;
pub(super) mod forwarded;
mod hop;
mod legacy_client;
mod modern_client;
mod named_tasks;
pub(super) mod remote_search;
mod right;
mod rounds;
mod tasks;

use self::hop::Hop;
pub(super) use self::hop::NO_COMPLETIONS;
use super::answer::Answer;
use super::request::Request;
use crate::fleet::Federation;
use crate::index::Target;
use crate::mcp::Era;

/// Lets the member that owns `target` answer.
pub(super) async fn carry(federation: &Federation, request: Request<'_>, target: &Target) -> Answer {
    let Some(member) = federation.members.get(target.member) else {
        return Answer::failed(request, "the member is gone");
    };
    let Some(upstream) = &member.upstream else {
        return Answer::failed(request, &federation.not_connected(&member.name));
    };
    let hop = Hop {
        federation,
        member,
        upstream,
        target,
        request,
    };
    match request.revision.era() {
        Era::Legacy => legacy_client::carry(hop).await,
        Era::Modern => modern_client::carry(hop).await,
    }
}
