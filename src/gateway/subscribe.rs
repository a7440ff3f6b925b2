//! `resources/subscribe` and `resources/unsubscribe`: what Legacy sessions wish to hear of.

use serde_json::json;

use super::answer::Answer;
use super::request::Request;
use super::session_lanes;
use super::updates::{NotSubscribed, subscribe};
use super::viewer::Standing;
use super::wishes::NoRoom;
use crate::fleet::Federation;
use crate::mcp::{Method, RpcError};
use crate::upstream::{Party, Subscriber};

/// Subscribes a Legacy session to a resource, or ends that.
pub(super) async fn change(federation: &Federation, request: Request<'_>) -> Answer {
    let Some(session) = request.session else {
        return Answer::refused(request, &RpcError::method_not_found(request.method.as_str()));
    };
    let Some(uri) = request.params.string("uri").filter(|uri| !uri.is_empty()) else {
        let error = RpcError::new(RpcError::INVALID_PARAMS, "params.uri must be a non-empty string");
        return Answer::refused(request, &error);
    };
    let wishes = &request.conversations.wishes;
    if request.method == Method::Unsubscribe {
        wishes.unsubscribe(session.id, &uri);
        return Answer::ok(request, b"{}");
    }
    let standing = Standing::new(request.viewer.clone(), request.fleet, &federation.name);
    let by = Subscriber {
        owner: session_lanes::owner(session.id),
        party: Party::of(&federation.name, request.principal.name()),
    };
    match subscribe(federation, &by, &uri, standing).await {
        Ok(subscription) => match wishes.subscribe(session.id, &by.party, &uri, subscription) {
            Ok(()) => Answer::ok(request, b"{}"),
            Err(no_room @ NoRoom::Resources) => {
                Answer::refused(request, &RpcError::new(RpcError::INVALID_PARAMS, no_room.to_string()))
            }
            Err(no_room @ NoRoom::Sessions) => Answer::failed(request, &no_room.to_string()),
        },
        Err(NotSubscribed::Unknown) => {
            let error = RpcError::new(RpcError::RESOURCE_NOT_FOUND, format!("Resource {uri:?} not found"));
            Answer::refused(request, &error.with_data(json!({"uri": uri})))
        }
        Err(error @ NotSubscribed::Own) => {
            let error = RpcError::new(RpcError::INVALID_PARAMS, format!("Resource {uri:?}: {error}"));
            Answer::refused(request, &error.with_data(json!({"uri": uri})))
        }
        Err(error) => Answer::failed(request, &error.to_string()),
    }
}
