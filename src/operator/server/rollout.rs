//! How far a Deployment has come.

use k8s_openapi::api::apps::v1::Deployment;

/// How far a Deployment has come with what was last asked of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rollout {
    /// Pods that it shall have.
    pub desired: i32,
    /// Pods that it has.
    pub total: i32,
    /// Pods that are ready.
    pub ready: i32,
    /// Pods that have been ready for long enough, of any version.
    pub available: i32,
    /// At least one available pod has the latest version, and that is the one which our plan asks for.
    pub current: bool,
    /// Every pod has that version and is available.
    pub complete: bool,
    /// It gave up making progress.
    pub stuck: bool,
}

impl Rollout {
    /// Reads `deployment`; `in_step` says that its spec is the one which our plan asks for.
    pub fn of(deployment: &Deployment, in_step: bool) -> Self {
        let status = deployment.status.clone().unwrap_or_default();
        let desired = deployment.spec.as_ref().and_then(|spec| spec.replicas).unwrap_or(1);
        let total = status.replicas.unwrap_or(0);
        let updated = status.updated_replicas.unwrap_or(0);
        let available = status.available_replicas.unwrap_or(0);
        let observed = in_step && status.observed_generation >= deployment.metadata.generation;
        let stuck = status.conditions.iter().flatten().any(|condition| {
            condition.type_ == "Progressing"
                && condition.status == "False"
                && condition.reason.as_deref() == Some("ProgressDeadlineExceeded")
        });
        // Counts do not say of which version the available pods are: at worst all old ones are among them.
        let old = total.saturating_sub(updated);
        Self {
            desired,
            total,
            ready: status.ready_replicas.unwrap_or(0),
            available,
            current: observed && available.saturating_sub(old) >= 1,
            complete: observed && old == 0 && updated >= desired && available >= desired && total <= desired,
            stuck: observed && stuck,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn rollout(generation: i64, observed: i64, total: i32, updated: i32, available: i32) -> Rollout {
        let deployment = json!({
            "metadata": {"generation": generation},
            "spec": {"replicas": 2, "selector": {}, "template": {}},
            "status": {
                "observedGeneration": observed, "replicas": total, "updatedReplicas": updated,
                "availableReplicas": available, "readyReplicas": available,
            },
        });
        Rollout::of(&serde_json::from_value(deployment).unwrap(), true)
    }

    #[test]
    fn nothing_is_claimed_before_the_deployment_was_observed() {
        let before = rollout(2, 1, 2, 2, 2);
        assert!(!before.current && !before.complete);
        let after = rollout(2, 2, 2, 2, 2);
        assert!(after.current && after.complete);
    }

    #[test]
    fn available_pods_of_the_old_version_do_not_count() {
        assert!(!rollout(2, 2, 3, 1, 2).current);
        let partly = rollout(2, 2, 3, 2, 2);
        assert!(partly.current && !partly.complete);
    }

    #[test]
    fn a_spec_that_is_not_ours_is_never_current() {
        let deployment = json!({"spec": {"selector": {}, "template": {}}, "status": {"replicas": 1, "updatedReplicas": 1, "availableReplicas": 1}});
        let deployment: Deployment = serde_json::from_value(deployment).unwrap();
        assert!(!Rollout::of(&deployment, false).current);
        assert!(Rollout::of(&deployment, true).complete);
    }
}
