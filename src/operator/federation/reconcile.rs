//! The pipeline of one federation: look up and tell. There is nothing to apply.

use jiff::Timestamp;
use kube::Resource;
use kube::runtime::controller::Action;

use super::status::{Facts, status};
use crate::api::MCPFederation;
use crate::operator::context::Context;
use crate::operator::error::Error;
use crate::operator::events::notices;
use crate::operator::publish::{is_same, publish};
use crate::operator::watch::key_of;

/// Brings the status of `federation` up to date.
///
/// # Errors
/// Something failed and is worth another try.
pub(in crate::operator) async fn reconcile(federation: &MCPFederation, context: &Context) -> Result<Action, Error> {
    let term = &*context.term;
    if !term.install.owns(federation.spec.class.as_deref()) || federation.metadata.deletion_timestamp.is_some() {
        return Ok(Action::await_change());
    }
    let key = key_of(&federation.metadata);
    let input = term.state.input.borrow().clone();
    let planned_from = input.federations.iter().find(|f| f.key == key);
    let plans = term.plans.of(&input);
    let (Some(plan), true) = (
        plans.federations.get(&key),
        planned_from.is_some_and(|planned| planned.spec == federation.spec),
    ) else {
        // The plan is of an earlier or later spec; its next change comes back here.
        return Ok(Action::await_change());
    };
    let observations = term.state.observations.borrow().clone();
    let url = term.install.links.federation(&key.namespace, &key.name);
    let next = status(
        federation,
        &Facts {
            plan,
            observation: observations.federations.get(&key),
            servers: &observations.servers,
            url: url.as_deref(),
            now: Timestamp::now(),
        },
    );
    if !is_same(federation.status.as_ref(), &next) {
        publish(&term.client, &term.mandate, federation, &next).await?;
        let old = federation.status.as_ref().map_or(&[][..], |status| &status.conditions);
        term.events
            .publish(&federation.object_ref(&()), notices(old, &next.conditions))
            .await;
    }
    Ok(Action::await_change())
}
