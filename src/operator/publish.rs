//! Writes the status of our own objects, and only when it says something new.

use std::fmt::Debug;

use kube::api::{Patch, PatchParams};
use kube::core::NamespaceResourceScope;
use kube::{Api, Client, Resource, ResourceExt};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::json;

use super::error::Error;
use super::mandate::Mandate;
use super::names::FIELD_MANAGER;
use crate::api::condition::{
    ACCEPTED, AVAILABLE, Condition, DEGRADED, READY, RECONCILING, RESOLVED_REFS, STALLED, VERIFIED,
};
use crate::api::{MCPFederationStatus, MCPServerStatus};

/// The condition types that this program tells; others belong to whoever set them.
const OURS: [&str; 8] = [
    ACCEPTED,
    RESOLVED_REFS,
    AVAILABLE,
    VERIFIED,
    READY,
    DEGRADED,
    RECONCILING,
    STALLED,
];

/// A status with conditions.
pub trait Told: Clone + PartialEq + Serialize {
    /// Its conditions.
    fn conditions_mut(&mut self) -> &mut Vec<Condition>;
}

impl Told for MCPServerStatus {
    fn conditions_mut(&mut self) -> &mut Vec<Condition> {
        &mut self.conditions
    }
}

impl Told for MCPFederationStatus {
    fn conditions_mut(&mut self) -> &mut Vec<Condition> {
        &mut self.conditions
    }
}

/// Whether `new` says nothing that `old` does not say already.
pub fn is_same<S: Told>(old: Option<&S>, new: &S) -> bool {
    let Some(mut old) = old.cloned() else {
        return false;
    };
    old.conditions_mut()
        .retain(|condition| OURS.contains(&condition.type_.as_str()));
    old.conditions_mut().sort_by(|a, b| a.type_.cmp(&b.type_));
    let mut new = new.clone();
    new.conditions_mut().sort_by(|a, b| a.type_.cmp(&b.type_));
    old == new
}

/// Writes `status` of `object`, unless the object has changed since it was read.
///
/// # Errors
/// The API server failed, the object changed, or this replica leads no longer.
pub async fn publish<K, S>(client: &Client, mandate: &Mandate, object: &K, status: &S) -> Result<(), Error>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + Debug + DeserializeOwned,
    S: Told,
{
    let name = object.name_any();
    let patch = json!({
        "apiVersion": K::api_version(&()), "kind": K::kind(&()),
        "metadata": {"name": name, "resourceVersion": object.resource_version()},
        "status": status,
    });
    let api: Api<K> = Api::namespaced(client.clone(), &object.namespace().unwrap_or_default());
    if !mandate.holds() {
        return Err(Error::NotLeading);
    }
    let parameters = PatchParams::apply(FIELD_MANAGER).force();
    match api.patch_status(&name, &parameters, &Patch::Apply(&patch)).await {
        Ok(_) => Ok(()),
        // It is gone, and its status with it.
        Err(kube::Error::Api(answer)) if answer.is_not_found() => Ok(()),
        Err(kube::Error::Api(answer)) if answer.is_conflict() => Err(Error::Changed(name)),
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn status(conditions: &[(&str, &str)]) -> MCPServerStatus {
        let conditions: Vec<_> = conditions
            .iter()
            .map(|(type_, reason)| {
                json!({"type": type_, "status": "True", "reason": reason, "lastTransitionTime": "2026-01-01T00:00:00Z"})
            })
            .collect();
        serde_json::from_value(json!({ "conditions": conditions })).unwrap()
    }

    #[test]
    fn order_and_other_peoples_conditions_do_not_matter() {
        let old = status(&[("Theirs", "X"), (READY, "A"), (ACCEPTED, "A")]);
        assert!(is_same(Some(&old), &status(&[(ACCEPTED, "A"), (READY, "A")])));
    }

    #[test]
    fn any_other_difference_is_news() {
        let old = status(&[(READY, "A"), (STALLED, "A")]);
        assert!(!is_same(Some(&old), &status(&[(READY, "B"), (STALLED, "A")])));
        assert!(!is_same(Some(&old), &status(&[(READY, "A")])));
        assert!(!is_same(None, &MCPServerStatus::default()));
    }
}
