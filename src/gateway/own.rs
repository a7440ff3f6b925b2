//! The federation as whoever sends a request sees it, where servers are asked in callers' names: what of it must be known
//! first, and how long that is waited for.

use std::sync::Arc;

use super::request::Request;
use super::visit::Visit;
use crate::fleet::{Caller, Federation, OwnMember};
use crate::index::List;
use crate::mcp::subscription::Filter;
use crate::mcp::{Members, Method};

/// The federation of `visit` as `caller`, who sends `request`, sees it, with everything that the request is about. Only
/// members that it is about are asked for their lists.
pub(super) async fn federation(visit: &Visit, caller: &Caller, request: Request<'_>) -> Arc<Federation> {
    let all = &visit.federation;
    let list = match needed(request.method) {
        Needed::Nothing => return all.seen_by(caller),
        Needed::Lists => return all.ready_for(caller, |member| member.has_own_lists).await,
        Needed::All => return all.ready_for(caller, |_| true).await,
        Needed::Owner(list) => list,
    };
    let name = request.params.string("name").unwrap_or_default();
    let known = all
        .index
        .target(list, &name, request.audience)
        .map(|target| target.member);
    let may_own = |member: &OwnMember| {
        if member.has_own_lists {
            all.index.may_own(member.place, &name)
        } else {
            known == Some(member.place)
        }
    };
    let seen = all.ready_for(caller, may_own).await;
    if seen.index.target(list, &name, request.audience).is_some() || seen.absent_owner(&name).is_some() {
        return seen;
    }
    all.ready_for(caller, |_| true).await
}

/// `visit` with the federation as its client, who listens for what `params` say, sees it.
pub(super) async fn for_listen(visit: &Visit, caller: &Caller, params: Option<&Members<'_>>) -> Visit {
    // Changes of lists are told as they come; what single resources and tasks are of must be known.
    let is_of_members = |filter: Filter| !filter.uris.is_empty() || !filter.tasks.is_empty();
    let federation = match Filter::read(params).is_ok_and(is_of_members) {
        true => visit.federation.ready_for(caller, |_| true).await,
        false => visit.federation.seen_by(caller),
    };
    Visit {
        federation,
        ..visit.clone()
    }
}

/// What of callers' own must be known before a request can be answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Needed {
    Nothing,
    /// All lists.
    Lists,
    /// Whatever the owner of the tool or prompt that it names needs.
    Owner(List),
    /// Everything: any member may turn out to be meant.
    All,
}

fn needed(method: Method) -> Needed {
    match method {
        Method::Initialize
        | Method::Ping
        | Method::Discover
        | Method::SetLevel
        | Method::Unsubscribe
        | Method::Listen
        | Method::TasksResult => Needed::Nothing,
        Method::ToolsList
        | Method::ResourcesList
        | Method::ResourceTemplatesList
        | Method::PromptsList
        | Method::SkillsList => Needed::Lists,
        Method::ToolsCall => Needed::Owner(List::Tools),
        Method::PromptsGet => Needed::Owner(List::Prompts),
        Method::ResourcesRead
        | Method::Complete
        | Method::Subscribe
        | Method::TasksGet
        | Method::TasksUpdate
        | Method::TasksCancel
        | Method::SkillsGet
        | Method::DirectoryRead => Needed::All,
    }
}
