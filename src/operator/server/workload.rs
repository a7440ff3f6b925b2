//! The Deployment and the Service of a container server: rendered from its spec alone, the same every time.

use std::collections::BTreeMap;

use k8s_openapi::api::apps::v1::{Deployment, DeploymentSpec};
use k8s_openapi::api::core::v1 as core;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, OwnerReference};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube::Resource;
use kube::api::ObjectMeta;

use crate::api::MCPServer;
use crate::api::environment::{EnvFrom, EnvVar, KeyRef, ObjectRef};
use crate::api::source::{ContainerSource, ImagePullPolicy, Resources};
use crate::operator::names::{REFERENCES_ANNOTATION, labels, selector};

/// Name of the container, and of the port in it.
pub const CONTAINER: &str = "server";
const PORT: &str = "mcp";
/// Numeric ids, since `runAsNonRoot` cannot judge an image's named user.
const UNPRIVILEGED_ID: i64 = 65532;
/// The writable home directory on the read-only root file system.
const HOME: &str = "/home/mcp";
const PROBE_PERIOD_SECONDS: i32 = 5;

/// What runs a container server.
#[derive(Clone, Debug, PartialEq)]
pub struct Workload {
    /// The name under which the gateway reaches the pods.
    pub service: core::Service,
    /// The pods. Its `replicas` are left out: they have a field manager of their own.
    pub deployment: Deployment,
}

/// Renders the workload of `server`, which runs `container`; `digest` is that of the values it takes from elsewhere.
pub fn render(server: &MCPServer, container: &ContainerSource, digest: Option<&str>) -> Workload {
    Workload {
        service: service(server, container),
        deployment: deployment(server, container, digest),
    }
}

/// Name, namespace, labels and controller reference of something that belongs to `server`.
fn metadata(server: &MCPServer) -> ObjectMeta {
    let name = server.metadata.name.clone().unwrap_or_default();
    ObjectMeta {
        labels: Some(labels(&name)),
        name: Some(name),
        namespace: server.metadata.namespace.clone(),
        owner_references: Some(vec![OwnerReference {
            api_version: MCPServer::api_version(&()).into_owned(),
            kind: MCPServer::kind(&()).into_owned(),
            name: server.metadata.name.clone().unwrap_or_default(),
            uid: server.metadata.uid.clone().unwrap_or_default(),
            controller: Some(true),
            block_owner_deletion: None,
        }]),
        ..ObjectMeta::default()
    }
}

fn service(server: &MCPServer, container: &ContainerSource) -> core::Service {
    let metadata = metadata(server);
    let selector = selector(metadata.name.as_deref().unwrap_or_default());
    core::Service {
        metadata,
        spec: Some(core::ServiceSpec {
            ports: Some(vec![core::ServicePort {
                name: Some(PORT.into()),
                port: container.transport.port.into(),
                target_port: Some(IntOrString::String(PORT.into())),
                protocol: Some("TCP".into()),
                app_protocol: Some("http".into()),
                ..core::ServicePort::default()
            }]),
            selector: Some(selector),
            ..core::ServiceSpec::default()
        }),
        status: None,
    }
}

fn deployment(server: &MCPServer, container: &ContainerSource, digest: Option<&str>) -> Deployment {
    let metadata = metadata(server);
    let name = metadata.name.clone().unwrap_or_default();
    let annotations = digest.map(|digest| BTreeMap::from([(REFERENCES_ANNOTATION.to_owned(), digest.to_owned())]));
    Deployment {
        metadata,
        spec: Some(DeploymentSpec {
            selector: LabelSelector {
                match_labels: Some(selector(&name)),
                match_expressions: None,
            },
            template: core::PodTemplateSpec {
                metadata: Some(ObjectMeta {
                    labels: Some(labels(&name)),
                    annotations,
                    ..ObjectMeta::default()
                }),
                spec: Some(pod(container)),
            },
            ..DeploymentSpec::default()
        }),
        status: None,
    }
}

fn pod(container: &ContainerSource) -> core::PodSpec {
    core::PodSpec {
        automount_service_account_token: Some(false),
        enable_service_links: Some(false),
        security_context: Some(core::PodSecurityContext {
            run_as_non_root: Some(true),
            run_as_user: Some(UNPRIVILEGED_ID),
            run_as_group: Some(UNPRIVILEGED_ID),
            fs_group: Some(UNPRIVILEGED_ID),
            seccomp_profile: Some(core::SeccompProfile {
                type_: "RuntimeDefault".into(),
                localhost_profile: None,
            }),
            ..core::PodSecurityContext::default()
        }),
        image_pull_secrets: non_empty(&container.image_pull_secrets, |secret| core::LocalObjectReference {
            name: secret.name.clone(),
        }),
        containers: vec![main_container(container)],
        volumes: Some(WRITABLE.iter().map(|(name, _)| writable_volume(name)).collect()),
        ..core::PodSpec::default()
    }
}

/// Volumes that give the read-only root file system its writable places.
const WRITABLE: [(&str, &str); 2] = [("home", HOME), ("tmp", "/tmp")];

fn writable_volume(name: &str) -> core::Volume {
    core::Volume {
        name: name.into(),
        empty_dir: Some(core::EmptyDirVolumeSource::default()),
        ..core::Volume::default()
    }
}

fn main_container(container: &ContainerSource) -> core::Container {
    let mounts = WRITABLE.iter().map(|(name, path)| core::VolumeMount {
        name: (*name).into(),
        mount_path: (*path).into(),
        ..core::VolumeMount::default()
    });
    core::Container {
        name: CONTAINER.into(),
        image: Some(container.image.clone()),
        image_pull_policy: container.image_pull_policy.map(pull_policy),
        command: non_empty(&container.command, Clone::clone),
        args: non_empty(&container.args, Clone::clone),
        working_dir: container.working_dir.clone(),
        env: Some(environment(&container.env)),
        env_from: non_empty(&container.env_from, env_from),
        ports: Some(vec![core::ContainerPort {
            name: Some(PORT.into()),
            container_port: container.transport.port.into(),
            protocol: Some("TCP".into()),
            ..core::ContainerPort::default()
        }]),
        readiness_probe: Some(core::Probe {
            tcp_socket: Some(core::TCPSocketAction {
                host: None,
                port: IntOrString::String(PORT.into()),
            }),
            period_seconds: Some(PROBE_PERIOD_SECONDS),
            ..core::Probe::default()
        }),
        resources: container.resources.as_ref().map(resources),
        security_context: Some(core::SecurityContext {
            allow_privilege_escalation: Some(false),
            read_only_root_filesystem: Some(true),
            capabilities: Some(core::Capabilities {
                add: None,
                drop: Some(vec!["ALL".into()]),
            }),
            ..core::SecurityContext::default()
        }),
        volume_mounts: Some(mounts.collect()),
        ..core::Container::default()
    }
}

/// The server's variables, after `HOME` where it sets none of its own.
fn environment(env: &[EnvVar]) -> Vec<core::EnvVar> {
    let home = core::EnvVar {
        name: "HOME".into(),
        value: Some(HOME.into()),
        value_from: None,
    };
    let own = env.iter().map(|variable| core::EnvVar {
        name: variable.name.clone(),
        value: variable.value.clone(),
        value_from: variable.value_from.as_ref().map(|source| core::EnvVarSource {
            secret_key_ref: source.secret_key_ref.as_ref().map(secret_key),
            config_map_key_ref: source.config_map_key_ref.as_ref().map(config_map_key),
            ..core::EnvVarSource::default()
        }),
    });
    let sets_home = env.iter().any(|variable| variable.name == "HOME");
    (!sets_home).then_some(home).into_iter().chain(own).collect()
}

fn secret_key(key: &KeyRef) -> core::SecretKeySelector {
    core::SecretKeySelector {
        name: key.name.clone(),
        key: key.key.clone(),
        optional: key.optional,
    }
}

fn config_map_key(key: &KeyRef) -> core::ConfigMapKeySelector {
    core::ConfigMapKeySelector {
        name: key.name.clone(),
        key: key.key.clone(),
        optional: key.optional,
    }
}

fn env_from(source: &EnvFrom) -> core::EnvFromSource {
    let secret = |object: &ObjectRef| core::SecretEnvSource {
        name: object.name.clone(),
        optional: object.optional,
    };
    let config_map = |object: &ObjectRef| core::ConfigMapEnvSource {
        name: object.name.clone(),
        optional: object.optional,
    };
    core::EnvFromSource {
        prefix: source.prefix.clone(),
        secret_ref: source.secret_ref.as_ref().map(secret),
        config_map_ref: source.config_map_ref.as_ref().map(config_map),
    }
}

fn resources(resources: &Resources) -> core::ResourceRequirements {
    let quantities = |of: &BTreeMap<String, String>| {
        let quantities = of.iter().map(|(name, amount)| (name.clone(), Quantity(amount.clone())));
        (!of.is_empty()).then(|| quantities.collect())
    };
    core::ResourceRequirements {
        limits: quantities(&resources.limits),
        requests: quantities(&resources.requests),
        claims: None,
    }
}

fn pull_policy(policy: ImagePullPolicy) -> String {
    match policy {
        ImagePullPolicy::Always => "Always",
        ImagePullPolicy::IfNotPresent => "IfNotPresent",
        ImagePullPolicy::Never => "Never",
    }
    .to_owned()
}

/// `None` for an empty list, so that an absent field is not owned.
fn non_empty<T, U>(items: &[T], convert: impl Fn(&T) -> U) -> Option<Vec<U>> {
    (!items.is_empty()).then(|| items.iter().map(convert).collect())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn server(container: &serde_json::Value) -> MCPServer {
        serde_json::from_value(json!({
            "apiVersion": "mcpfleet.dev/v1alpha1", "kind": "MCPServer",
            "metadata": {"name": "web", "namespace": "team", "uid": "0b1c"},
            "spec": {"container": container},
        }))
        .unwrap()
    }

    fn rendered(server: &MCPServer) -> Workload {
        render(server, server.spec.container.as_ref().unwrap(), Some("d1"))
    }

    #[test]
    fn a_full_container_server_renders_as_recorded() {
        let server = server(&json!({
            "image": "registry.example.com/web:1", "command": ["/web"], "args": ["--http"], "workingDir": "/srv",
            "env": [
                {"name": "LEVEL", "value": "info"},
                {"name": "TOKEN", "valueFrom": {"secretKeyRef": {"name": "keys", "key": "token"}}},
                {"name": "MODE", "valueFrom": {"configMapKeyRef": {"name": "modes", "key": "mode", "optional": true}}},
            ],
            "envFrom": [{"prefix": "P_", "secretRef": {"name": "all"}}, {"configMapRef": {"name": "more"}}],
            "resources": {"limits": {"memory": "64Mi"}, "requests": {"cpu": "10m"}},
            "imagePullPolicy": "IfNotPresent", "imagePullSecrets": [{"name": "pull"}],
            "transport": {"type": "StreamableHTTP", "port": 9000, "path": "/x"},
        }));
        let Workload { service, deployment } = rendered(&server);
        insta::assert_yaml_snapshot!("full_service", service);
        insta::assert_yaml_snapshot!("full_deployment", deployment);
    }

    #[test]
    fn rendering_is_deterministic_and_leaves_replicas_to_their_own_manager() {
        let server = server(&json!({"image": "x", "transport": {"type": "StreamableHTTP"}}));
        let text = |workload: Workload| serde_json::to_string(&workload.deployment).unwrap();
        assert_eq!(text(rendered(&server)), text(rendered(&server)));
        assert!(!text(rendered(&server)).contains("replicas"));
    }

    #[test]
    fn a_server_keeps_its_own_home() {
        let server = server(&json!({
            "image": "x", "env": [{"name": "HOME", "value": "/data"}], "transport": {"type": "StreamableHTTP"},
        }));
        let env = environment(&server.spec.container.as_ref().unwrap().env);
        assert_eq!(env.len(), 1);
        assert_eq!(env[0].value.as_deref(), Some("/data"));
    }
}
