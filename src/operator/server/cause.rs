//! Why pods do not run, in words that stay the same while the cause does: no counters, times or pod names.

use std::collections::BTreeSet;

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{ContainerState, ContainerStatus, Pod};

use super::workload::CONTAINER;

/// Longest text taken over from the cluster.
const TEXT_MAX: usize = 512;

/// Why pods do not run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cause {
    /// One CamelCase word, Kubernetes' own where it has one.
    pub reason: &'static str,
    /// For a person: what is wrong and what to do.
    pub message: String,
}

/// Why pods of `deployment` are missing or not ready, if the cluster shows it. Newer pods are asked first.
pub fn cause<'a>(deployment: &Deployment, pods: impl IntoIterator<Item = &'a Pod>) -> Option<Cause> {
    let mut pods: Vec<&Pod> = pods.into_iter().filter(|pod| is_pending(pod)).collect();
    pods.sort_by_key(|pod| {
        let created = pod.metadata.creation_timestamp.as_ref().map(|time| time.0);
        (std::cmp::Reverse(created), pod.metadata.name.clone())
    });
    pods.into_iter()
        .find_map(pod_cause)
        .or_else(|| failed_create(deployment))
}

/// Whether the pod is not ready and is not on its way out.
fn is_pending(pod: &Pod) -> bool {
    pod.metadata.deletion_timestamp.is_none() && !has_condition(pod, "Ready", "True")
}

fn has_condition(pod: &Pod, type_: &str, status: &str) -> bool {
    let conditions = pod.status.iter().flat_map(|s| s.conditions.iter().flatten());
    conditions.into_iter().any(|c| c.type_ == type_ && c.status == status)
}

fn pod_cause(pod: &Pod) -> Option<Cause> {
    let status = pod.status.as_ref()?;
    let containers = status.container_statuses.iter().flatten();
    let inits = status.init_container_statuses.iter().flatten();
    let from_containers = inits.chain(containers).find_map(container_cause);
    from_containers.or_else(|| unschedulable(pod))
}

fn container_cause(container: &ContainerStatus) -> Option<Cause> {
    let waiting = container.state.as_ref().and_then(|state| state.waiting.as_ref());
    let reason = waiting
        .and_then(|waiting| waiting.reason.as_deref())
        .unwrap_or_default();
    let text = waiting
        .and_then(|waiting| waiting.message.as_deref())
        .unwrap_or_default();
    match reason {
        "ImagePullBackOff" | "ErrImagePull" | "InvalidImageName" | "ErrImageNeverPull" | "RegistryUnavailable" => {
            Some(Cause {
                reason: if reason == "ErrImagePull" {
                    "ImagePullBackOff"
                } else {
                    known(reason)
                },
                message: format!(
                    "the image {:?} cannot be pulled; check its name and tag, the registry, and imagePullSecrets",
                    container.image
                ),
            })
        }
        "CreateContainerConfigError" => Some(Cause {
            reason: known(reason),
            message: format!("the container cannot be made: {}", cut(text)),
        }),
        // The runtime's own words hold ids that differ each time.
        "CreateContainerError" => Some(Cause {
            reason: known(reason),
            message: "the container runtime refuses the container; kubectl describe pod says why".into(),
        }),
        _ => crash(container),
    }
}

/// A container that ended, whether it waits for its next start or has just begun it: it is not ready either way.
fn crash(container: &ContainerStatus) -> Option<Cause> {
    if container.ready {
        return None;
    }
    let terminated = |state: &Option<ContainerState>| state.as_ref().and_then(|state| state.terminated.clone());
    let ended = terminated(&container.state).or_else(|| terminated(&container.last_state))?;
    let how = match ended.reason.as_deref() {
        Some("OOMKilled") => "it ran out of memory; raise resources.limits.memory".to_owned(),
        Some("StartError" | "ContainerCannotRun") => {
            format!("it cannot start: {}", cut(ended.message.as_deref().unwrap_or_default()))
        }
        _ => format!("exit code {}", ended.exit_code),
    };
    let container = if container.name == CONTAINER {
        String::new()
    } else {
        format!(" {}", container.name)
    };
    Some(Cause {
        reason: "CrashLoopBackOff",
        message: format!("the container{container} ends again and again ({how}); its log says why"),
    })
}

fn unschedulable(pod: &Pod) -> Option<Cause> {
    let conditions = pod.status.as_ref()?.conditions.as_ref()?;
    let condition = conditions
        .iter()
        .find(|c| c.type_ == "PodScheduled" && c.status == "False" && c.reason.as_deref() == Some("Unschedulable"))?;
    let obstacles = obstacles(condition.message.as_deref().unwrap_or_default());
    Some(Cause {
        reason: "Unschedulable",
        message: match obstacles.as_str() {
            "" => "no node can take the pod".to_owned(),
            obstacles => format!("no node can take the pod: {obstacles}"),
        },
    })
}

/// What stands in the way on the nodes, from a text such as `0/3 nodes are available: 1 Insufficient cpu, 2 node(s) had
/// untolerated taint {a: b}. preemption: 0/3 nodes are …`, without its counts.
fn obstacles(message: &str) -> String {
    let Some((_, rest)) = message.split_once("nodes are available: ") else {
        return cut(message);
    };
    let (reasons, _) = rest.split_once(". ").unwrap_or((rest, ""));
    let reasons: BTreeSet<&str> = reasons
        .trim_end_matches('.')
        .split(", ")
        .map(|reason| reason.trim_start_matches(|c: char| c.is_ascii_digit()).trim_start())
        .collect();
    cut(&reasons.into_iter().collect::<Vec<_>>().join(", "))
}

/// What keeps pods from being created at all: quota, limit ranges, Pod Security, a webhook. Pods never show it; the
/// ReplicaSet does, and the Deployment repeats it.
fn failed_create(deployment: &Deployment) -> Option<Cause> {
    let conditions = deployment.status.as_ref()?.conditions.as_ref()?;
    let condition = conditions
        .iter()
        .find(|c| c.type_ == "ReplicaFailure" && c.status == "True" && c.reason.as_deref() == Some("FailedCreate"))?;
    let message = condition.message.as_deref().unwrap_or_default();
    // The text begins with a generated pod name, and a quota's ends with what others use.
    let said = message.split_once(" is forbidden: ").map_or(message, |(_, said)| said);
    let (said, _) = said.split_once(", used: ").unwrap_or((said, ""));
    Some(Cause {
        reason: "FailedCreate",
        message: format!("pods are refused: {}", cut(said)),
    })
}

/// A reason from the cluster as one of the words that we tell.
fn known(reason: &str) -> &'static str {
    match reason {
        "ImagePullBackOff" => "ImagePullBackOff",
        "InvalidImageName" => "InvalidImageName",
        "ErrImageNeverPull" => "ErrImageNeverPull",
        "RegistryUnavailable" => "RegistryUnavailable",
        "CreateContainerConfigError" => "CreateContainerConfigError",
        _ => "CreateContainerError",
    }
}

fn cut(text: &str) -> String {
    text.chars().take(TEXT_MAX).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn pod(name: &str, created: &str, status: &serde_json::Value) -> Pod {
        serde_json::from_value(json!({
            "metadata": {"name": name, "creationTimestamp": created}, "status": status,
        }))
        .unwrap()
    }

    fn container(state: &serde_json::Value, last_state: &serde_json::Value) -> serde_json::Value {
        json!({"containerStatuses": [{
            "name": "server", "image": "x:1", "imageID": "", "ready": false, "restartCount": 4,
            "state": state, "lastState": last_state,
        }]})
    }

    fn waiting(reason: &str, message: &str) -> serde_json::Value {
        container(&json!({"waiting": {"reason": reason, "message": message}}), &json!({}))
    }

    fn of(status: &serde_json::Value) -> Option<Cause> {
        cause(&Deployment::default(), &[pod("web-1", "2026-01-01T00:00:00Z", status)])
    }

    fn reason(status: &serde_json::Value) -> Option<&'static str> {
        of(status).map(|cause| cause.reason)
    }

    #[test]
    fn both_stages_of_a_failing_pull_read_the_same() {
        let first = of(&waiting("ErrImagePull", "rpc error: code = NotFound desc = 17:03:11"));
        let second = of(&waiting("ImagePullBackOff", "Back-off pulling image \"x:1\""));
        assert_eq!(first, second);
        assert_eq!(first.unwrap().reason, "ImagePullBackOff");
    }

    #[test]
    fn all_stages_of_a_crash_loop_read_the_same() {
        let ended = json!({"terminated": {"exitCode": 2, "reason": "Error"}});
        let back_off = json!({"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 5m0s restarting web-1"}});
        let stages = [
            container(&ended, &json!({})),
            container(&back_off, &ended),
            container(&json!({"running": {}}), &ended),
        ];
        for stage in stages {
            let cause = of(&stage).unwrap();
            assert_eq!(cause.reason, "CrashLoopBackOff");
            assert_eq!(
                cause.message,
                "the container ends again and again (exit code 2); its log says why"
            );
        }
    }

    #[test]
    fn running_out_of_memory_is_told() {
        let ended = json!({"terminated": {"exitCode": 137, "reason": "OOMKilled"}});
        assert!(
            of(&container(&ended, &json!({})))
                .unwrap()
                .message
                .contains("resources.limits.memory")
        );
    }

    #[test]
    fn a_command_that_does_not_exist_is_told_in_the_runtimes_words() {
        let ended =
            json!({"terminated": {"exitCode": 128, "reason": "StartError", "message": "exec: \"/web\": no such file"}});
        let message = of(&container(&ended, &json!({}))).unwrap().message;
        assert!(
            message.contains("it cannot start: exec: \"/web\": no such file"),
            "{message}"
        );
    }

    #[test]
    fn obstacles_to_scheduling_lose_their_counts() {
        let message = "0/5 nodes are available: 2 Insufficient cpu, 3 node(s) had untolerated taint {a: b}. \
                       preemption: 0/5 nodes are available: 5 No preemption victims found.";
        let status = json!({"conditions": [
            {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message},
        ]});
        assert_eq!(
            of(&status).unwrap().message,
            "no node can take the pod: Insufficient cpu, node(s) had untolerated taint {a: b}"
        );
    }

    #[test]
    fn refused_pods_are_told_without_generated_names_and_counts() {
        let failing = |message: &str| {
            let deployment = serde_json::from_value(json!({"metadata": {}, "status": {"conditions": [
                {"type": "ReplicaFailure", "status": "True", "reason": "FailedCreate", "message": message},
            ]}}))
            .unwrap();
            cause(&deployment, &[]).unwrap().message
        };
        assert_eq!(
            failing(
                "pods \"web-6d4cf-\" is forbidden: exceeded quota: small, requested: pods=1, used: pods=3, limited: pods=3"
            ),
            "pods are refused: exceeded quota: small, requested: pods=1"
        );
        assert_eq!(
            failing("admission webhook \"w\" denied the request"),
            "pods are refused: admission webhook \"w\" denied the request"
        );
    }

    #[test]
    fn ready_and_leaving_pods_are_not_asked_and_newer_ones_first() {
        let mut leaving = pod("a", "2026-01-03T00:00:00Z", &waiting("InvalidImageName", ""));
        leaving.metadata.deletion_timestamp = leaving.metadata.creation_timestamp.clone();
        let mut ready = waiting("InvalidImageName", "");
        ready["conditions"] = json!([{"type": "Ready", "status": "True"}]);
        let pods = [
            leaving,
            pod("b", "2026-01-04T00:00:00Z", &ready),
            pod("c", "2026-01-01T00:00:00Z", &waiting("ErrImagePull", "")),
            pod(
                "d",
                "2026-01-02T00:00:00Z",
                &waiting("CreateContainerConfigError", "no secret"),
            ),
        ];
        let cause = cause(&Deployment::default(), &pods).unwrap();
        assert_eq!(
            (cause.reason, cause.message.as_str()),
            ("CreateContainerConfigError", "the container cannot be made: no secret")
        );
    }

    #[test]
    fn a_pod_that_is_just_starting_has_no_cause() {
        assert_eq!(reason(&waiting("ContainerCreating", "")), None);
        assert_eq!(reason(&json!({})), None);
    }
}
