//! The pipeline of one server: look up, plan, apply, tell.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use kube::runtime::controller::Action;
use kube::runtime::reflector::ObjectRef;
use kube::{Resource, ResourceExt};

use super::apply::{Owned, Written, is_controlled_by};
use super::plan::{Basis, plan};
use super::status::{Facts, status};
use crate::api::MCPServer;
use crate::operator::context::{Children, Context};
use crate::operator::error::Error;
use crate::operator::events::{Notice, notices};
use crate::operator::names::SERVER_LABEL;
use crate::operator::publish::{is_same, publish};
use crate::operator::watch::key_of;

/// What was refused is tried again after this long, where no event would tell that it may go well now.
const REFUSED_RETRY: Duration = Duration::from_secs(30);

/// Brings the workload and the status of `server` up to date.
///
/// # Errors
/// Something failed and is worth another try.
pub(in crate::operator) async fn reconcile(server: &MCPServer, context: &Context) -> Result<Action, Error> {
    let term = &*context.term;
    // A server on its way out keeps what it has: the garbage collector takes it away.
    if !term.install.owns(server.spec.class.as_deref()) || server.metadata.deletion_timestamp.is_some() {
        return Ok(Action::await_change());
    }
    context.children.seen().await;
    let (owned, pods) = look_up(server, &context.children);
    let references = term.state.references.borrow().clone();
    let basis = Basis {
        references: &references,
        deployment: owned.deployment.as_deref(),
        key: &term.key,
        cluster_wide: term.install.cluster_wide,
    };
    let plan = plan(server, basis);
    let outcome = term.applier.apply(server, &plan.intent, owned).await?;

    let about = server.object_ref(&());
    term.events.publish(&about, told(&outcome.written)).await;

    let observations = term.state.observations.borrow().clone();
    let next = status(
        server,
        &Facts {
            plan: &plan,
            refusal: outcome.refusal.as_ref(),
            deployment: outcome.deployment.as_deref(),
            in_step: outcome.in_step,
            pods: &pods.iter().map(AsRef::as_ref).collect::<Vec<_>>(),
            observation: observations.servers.get(&key_of(&server.metadata)),
            now: Timestamp::now(),
        },
    );
    if !is_same(server.status.as_ref(), &next) {
        publish(&term.client, &term.mandate, server, &next).await?;
        let old = server.status.as_ref().map_or(&[][..], |status| &status.conditions);
        term.events.publish(&about, notices(old, &next.conditions)).await;
    }
    Ok(match outcome.refusal {
        Some(refusal) if refusal.retry => Action::requeue(REFUSED_RETRY),
        _ => Action::await_change(),
    })
}

fn look_up(server: &MCPServer, children: &Children) -> (Owned, Vec<Arc<Pod>>) {
    let name = server.name_any();
    let namespace = server.namespace().unwrap_or_default();
    let deployment = children.deployments.get(&ObjectRef::new(&name).within(&namespace));
    let service = children.services.get(&ObjectRef::new(&name).within(&namespace));
    let pods = children.pods.state_filter(|pod| {
        pod.metadata.namespace.as_ref() == Some(&namespace) && pod.labels().get(SERVER_LABEL) == Some(&name)
    });
    let owned = Owned {
        deployment: deployment.filter(|d| is_controlled_by(&**d, server)),
        service: service.filter(|s| is_controlled_by(&**s, server)),
    };
    (owned, pods)
}

/// One event for each kind of write: the recorder takes two events of the same reason for one that repeats.
fn told(written: &[Written]) -> Vec<Notice> {
    let mut notices: Vec<Notice> = Vec::new();
    for Written { verb, what } in written {
        match notices.iter_mut().find(|notice| notice.reason == *verb) {
            Some(notice) => {
                notice.note.push_str(", ");
                notice.note.push_str(what);
            }
            None => notices.push(Notice {
                warning: false,
                reason: (*verb).to_owned(),
                note: format!("{verb} {what}"),
            }),
        }
    }
    notices
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writes_of_a_kind_are_one_event() {
        let written = |verb, what: &str| Written {
            verb,
            what: what.into(),
        };
        let written = [
            written("Created", "Service web"),
            written("Scaled", "Deployment web to 2"),
            written("Created", "Deployment web"),
        ];
        let notes: Vec<_> = told(&written).into_iter().map(|notice| notice.note).collect();
        assert_eq!(
            notes,
            ["Created Service web, Deployment web", "Scaled Deployment web to 2"]
        );
    }
}
