//! The control plane against a real API server, with Kubernetes' own controllers beside it.

use std::collections::BTreeMap;
use std::time::Duration;

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{LimitRange, Namespace, Pod, Secret, Service};
use k8s_openapi::api::events::v1::Event;
use kube::api::{DeleteParams, ListParams, ObjectMeta, Patch, PatchParams};
use kube::{Api, ResourceExt};
use mcpfleet::api::condition::find;
use mcpfleet::api::{MCPFederation, MCPServer};
use mcpfleet::fleet::UpstreamState;
use serde_json::{Value, json};

use crate::support::controllers::with_controllers;
use crate::support::replica::{Replica, options, until};
use crate::support::world::{World, container, message, running, say};

#[tokio::test(flavor = "multi_thread")]
async fn a_container_server_becomes_a_workload_and_then_ready() {
    let Some(world) = World::start("controller-create").await else {
        return;
    };
    world.container("echo").await;
    let accepted = world.server_with("echo", "Accepted", "True Accepted").await;
    let deployment = world.deployment("echo", "a Deployment", |_| true).await;
    let service = world.api::<Service>().get("echo").await.unwrap();

    for metadata in [&deployment.metadata, &service.metadata] {
        let [owner] = metadata.owner_references.as_deref().unwrap() else {
            panic!("one owner: {metadata:?}");
        };
        assert_eq!(
            (owner.controller, &owner.uid),
            (Some(true), accepted.metadata.uid.as_ref().unwrap())
        );
    }
    let port = &service.spec.as_ref().unwrap().ports.as_ref().unwrap()[0];
    assert_eq!(port.port, 8080);
    assert_eq!(
        service.spec.as_ref().unwrap().selector,
        deployment.spec.as_ref().unwrap().selector.match_labels
    );
    let settled = world
        .deployment("echo", "replica counts with a manager of their own", |deployment| {
            managers(&deployment.metadata).contains_key("mcpfleet-scale")
                && !serde_json::to_string(&owned_by(deployment, "mcpfleet"))
                    .unwrap()
                    .contains("f:replicas")
        })
        .await;
    assert_eq!(managers(&settled.metadata)["mcpfleet"], "Apply");

    world.play_pods("echo", 1, running()).await;
    let waiting = world.server_with("echo", "Available", "True PodsAvailable").await;
    assert_eq!(say(&waiting.status.unwrap().conditions, "Ready"), "Unknown Connecting");
    world.replica.tell(&world.namespace, "echo", UpstreamState::Ready);
    let ready = world.server_with("echo", "Ready", "True Callable").await;
    let status = ready.status.unwrap();
    assert_eq!(
        status.address.unwrap().url,
        "http://echo.controller-create.svc:8080/mcp"
    );
    assert_eq!(status.catalog.unwrap().tools, 3);
    assert_eq!(status.server_info.unwrap().era, "Legacy");
    assert_eq!((status.replicas, status.ready_replicas), (Some(1), Some(1)));
    assert!(
        status
            .conditions
            .iter()
            .all(|c| c.observed_generation == ready.metadata.generation)
    );
    assert_eq!(say(&status.conditions, "Reconciling"), "-");
    until("an event that tells it is ready", async || {
        let events = world.api::<Event>().list(&ListParams::default()).await.unwrap().items;
        events
            .into_iter()
            .find(|event| event.reason.as_deref() == Some("Ready"))
    })
    .await;
    world.replica.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn pods_satisfy_the_restricted_pod_security_standard() {
    let Some(world) = World::start("controller-restricted").await else {
        return;
    };
    let namespaces: Api<Namespace> = Api::all(world.client.clone());
    let label = json!({"metadata": {"labels": {"pod-security.kubernetes.io/enforce": "restricted"}}});
    namespaces
        .patch(&world.namespace, &PatchParams::default(), &Patch::Merge(&label))
        .await
        .unwrap();
    world.container("echo").await;
    world.play_pods("echo", 1, running()).await;
    world.server_with("echo", "Available", "True PodsAvailable").await;
    world.replica.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_remote_server_is_ready_when_the_gateway_says_so_and_has_no_workload() {
    let Some(world) = World::start("controller-remote").await else {
        return;
    };
    world.remote("far").await;
    world.server_with("far", "Ready", "Unknown Connecting").await;
    world.replica.tell(&world.namespace, "far", UpstreamState::Ready);
    let ready = world.server_with("far", "Ready", "True Callable").await;
    assert_eq!(say(&ready.status.as_ref().unwrap().conditions, "Available"), "-");
    let failed = UpstreamState::Failed {
        reason: "Timeout",
        message: "no answer to initialize".into(),
    };
    world.replica.tell(&world.namespace, "far", failed);
    let failed = world.server_with("far", "Ready", "False Timeout").await;
    assert_eq!(message(&failed, "Ready"), "no answer to initialize");
    assert!(
        world
            .api::<Deployment>()
            .list(&ListParams::default())
            .await
            .unwrap()
            .items
            .is_empty()
    );
    world.replica.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn somebody_elses_service_is_left_as_it_is() {
    let Some(world) = World::start("controller-conflict").await else {
        return;
    };
    // It has no selector: a plain apply of ours would meet no conflict, and make it ours.
    let theirs: Service = world
        .apply("echo", json!({"spec": {"ports": [{"name": "mcp", "port": 8080}]}}))
        .await;
    world.container("echo").await;
    let refused = world.server_with("echo", "Accepted", "False NameConflict").await;
    assert!(
        message(&refused, "Accepted").contains("a Service named \"echo\""),
        "{}",
        message(&refused, "Accepted")
    );
    assert_eq!(say(&refused.status.unwrap().conditions, "Stalled"), "True NameConflict");
    let now = world.api::<Service>().get("echo").await.unwrap();
    assert_eq!(now.metadata.resource_version, theirs.metadata.resource_version);
    assert_eq!(world.api::<Deployment>().get_opt("echo").await.unwrap(), None);

    world
        .api::<Service>()
        .delete("echo", &DeleteParams::default())
        .await
        .unwrap();
    world.annotate("echo", "mcpfleet.dev/reconcile-at", json!("now")).await;
    world.server_with("echo", "Accepted", "True Accepted").await;
    world
        .deployment("echo", "a Deployment after the name is free", |_| true)
        .await;
    world.replica.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_persons_scaling_survives_until_the_spec_changes() {
    let Some(world) = World::start("controller-scale").await else {
        return;
    };
    world.ready_container("echo").await;
    let scale = json!({"spec": {"replicas": 3}});
    let parameters = PatchParams {
        field_manager: Some("kubectl".into()),
        ..PatchParams::default()
    };
    world
        .api::<Deployment>()
        .patch_scale("echo", &parameters, &Patch::Merge(&scale))
        .await
        .unwrap();
    // Another part of the spec changes, and is applied, while the count stays.
    let mut moved = container();
    moved["transport"]["port"] = 9000.into();
    world
        .apply::<MCPServer>("echo", json!({"spec": {"container": moved}}))
        .await;
    let rolled = world
        .deployment("echo", "the new port", |deployment| {
            let pod = deployment.spec.as_ref().unwrap().template.spec.as_ref().unwrap();
            pod.containers[0].ports.as_ref().unwrap()[0].container_port == 9000
        })
        .await;
    assert_eq!(replicas(&rolled), Some(3));
    let service = world.api::<Service>().get("echo").await.unwrap().spec.unwrap();
    let ports: Vec<_> = service.ports.unwrap().iter().map(|port| port.port).collect();
    assert_eq!(ports, [9000], "the port of before is gone");
    world.annotate("echo", "mcpfleet.dev/reconcile-at", json!("now")).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(replicas(&world.api::<Deployment>().get("echo").await.unwrap()), Some(3));

    let server = json!({"spec": {"replicas": 2}});
    world
        .api::<MCPServer>()
        .patch_scale("echo", &parameters, &Patch::Merge(&server))
        .await
        .unwrap();
    world
        .deployment("echo", "the replicas of the spec", |d| replicas(d) == Some(2))
        .await;
    world.replica.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn drift_of_our_fields_is_mended_and_what_others_added_stays() {
    let Some(world) = World::start("controller-drift").await else {
        return;
    };
    world.ready_container("echo").await;
    let drift = json!({
        "metadata": {"annotations": {"example.com/theirs": "kept"}},
        "spec": {"template": {
            "metadata": {"annotations": {"kubectl.kubernetes.io/restartedAt": "2026-01-01T00:00:00Z"}},
            "spec": {"automountServiceAccountToken": true},
        }},
    });
    world
        .api::<Deployment>()
        .patch("echo", &PatchParams::default(), &Patch::Merge(&drift))
        .await
        .unwrap();
    let mended = world
        .deployment("echo", "our field mended", |deployment| {
            let pod = deployment.spec.as_ref().unwrap().template.spec.as_ref().unwrap();
            pod.automount_service_account_token == Some(false)
        })
        .await;
    assert_eq!(mended.annotations()["example.com/theirs"], "kept");
    let template = mended.spec.unwrap().template.metadata.unwrap();
    let restarted = template.annotations.unwrap_or_default();
    assert!(
        restarted.contains_key("kubectl.kubernetes.io/restartedAt"),
        "a person's restart stays: {restarted:?}"
    );
    world.replica.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_written_while_nothing_changes() {
    let Some(world) = World::start("controller-quiet").await else {
        return;
    };
    world.ready_container("echo").await;
    world.remote("far").await;
    world.replica.tell(&world.namespace, "far", UpstreamState::Ready);
    world.server_with("far", "Ready", "True Callable").await;
    let federation =
        json!({"spec": {"access": {"anonymous": {}}, "members": [{"name": "far", "server": {"name": "far"}}]}});
    world.apply::<MCPFederation>("all", federation).await;
    world.federation_with("all", "Ready", "True Serving").await;
    tokio::time::sleep(Duration::from_secs(1)).await;

    let before = world.versions().await;
    // News that change nothing, and quiet.
    world.replica.tell(&world.namespace, "far", UpstreamState::Ready);
    tokio::time::sleep(Duration::from_secs(4)).await;
    assert_eq!(world.versions().await, before);
    // A new leader finds everything in order, too.
    let Some(server) = with_controllers().await else {
        return;
    };
    world.replica.stop().await;
    let next = Replica::start(server.client().await, options(&world.namespace));
    next.input().await;
    tokio::time::sleep(Duration::from_secs(3)).await;
    let world = World { replica: next, ..world };
    assert_eq!(world.versions().await, before);
    world.replica.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_server_owns_goes_with_it() {
    let Some(world) = World::start("controller-delete").await else {
        return;
    };
    world.ready_container("echo").await;
    world
        .api::<MCPServer>()
        .delete("echo", &DeleteParams::default())
        .await
        .unwrap();
    until("nothing left", async || {
        let deployment = world.api::<Deployment>().get_opt("echo").await.unwrap();
        let service = world.api::<Service>().get_opt("echo").await.unwrap();
        let pods = world.api::<Pod>().list(&ListParams::default()).await.unwrap().items;
        (deployment.is_none() && service.is_none() && pods.iter().all(|pod| pod.metadata.deletion_timestamp.is_some()))
            .then_some(())
    })
    .await;
    assert!(world.replica.input().await.servers.is_empty());
    world.replica.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_moves_elsewhere_loses_its_workload() {
    let Some(world) = World::start("controller-moves").await else {
        return;
    };
    world.ready_container("echo").await;
    let moved = json!([
        {"op": "remove", "path": "/spec/container"},
        {"op": "add", "path": "/spec/remote", "value": {"url": "http://elsewhere.example/mcp"}},
    ]);
    let moved: Patch<()> = Patch::Json(serde_json::from_value(moved).unwrap());
    world
        .api::<MCPServer>()
        .patch("echo", &PatchParams::default(), &moved)
        .await
        .unwrap();
    until("no workload", async || {
        let deployment = world.api::<Deployment>().get_opt("echo").await.unwrap();
        let service = world.api::<Service>().get_opt("echo").await.unwrap();
        (deployment.is_none() && service.is_none()).then_some(())
    })
    .await;
    // The played gateway reaches the new address at once.
    let ready = world.server_with("echo", "Ready", "True Callable").await;
    let status = ready.status.unwrap();
    assert_eq!(status.address.unwrap().url, "http://elsewhere.example/mcp");
    assert_eq!(
        (status.replicas, say(&status.conditions, "Available")),
        (None, "-".to_owned())
    );
    world.replica.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn new_values_of_a_secret_roll_the_pods_and_a_missing_one_does_not() {
    let Some(world) = World::start("controller-secret").await else {
        return;
    };
    let mut with_secret = container();
    with_secret["env"] = json!([{"name": "TOKEN", "valueFrom": {"secretKeyRef": {"name": "token", "key": "value"}}}]);
    world
        .apply::<MCPServer>("echo", json!({"spec": {"container": with_secret}}))
        .await;
    let waiting = world.server_with("echo", "ResolvedRefs", "False RefNotFound").await;
    assert!(message(&waiting, "ResolvedRefs").starts_with("Secret \"token\" does not exist"));
    assert_eq!(world.api::<Deployment>().get_opt("echo").await.unwrap(), None);

    world
        .apply::<Secret>("token", json!({"stringData": {"value": "first-secret-value"}}))
        .await;
    world.server_with("echo", "ResolvedRefs", "True Resolved").await;
    let first = world.deployment("echo", "a Deployment", |_| true).await;
    let digest = pod_annotation(&first).unwrap();
    world
        .apply::<Secret>("token", json!({"stringData": {"value": "second-secret-value"}}))
        .await;
    let second = world
        .deployment("echo", "another digest", |deployment| {
            pod_annotation(deployment).as_ref() != Some(&digest)
        })
        .await;

    world
        .api::<Secret>()
        .delete("token", &DeleteParams::default())
        .await
        .unwrap();
    let missing = world.server_with("echo", "ResolvedRefs", "False RefNotFound").await;
    let after = world.api::<Deployment>().get("echo").await.unwrap();
    assert_eq!(pod_annotation(&after), pod_annotation(&second));
    let told = serde_json::to_string(&(missing, after)).unwrap();
    assert!(!told.contains("secret-value"), "{told}");
    let root = world.api::<Secret>().get("mcpfleet-root-key").await.unwrap();
    assert_eq!(root.data.unwrap()["key"].0.len(), 32);
    world.replica.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_paused_server_is_told_of_but_not_written() {
    let Some(world) = World::start("controller-paused").await else {
        return;
    };
    world.ready_container("echo").await;
    world.annotate("echo", "mcpfleet.dev/paused", json!("true")).await;
    world.server_with("echo", "Stalled", "True Paused").await;
    let before = world.api::<Deployment>().get("echo").await.unwrap();
    let mut changed = container();
    changed["image"] = "registry.test/echo:2".into();
    world
        .apply::<MCPServer>("echo", json!({"spec": {"container": changed}}))
        .await;
    let paused = world.server_with("echo", "Stalled", "True Paused").await;
    tokio::time::sleep(Duration::from_millis(500)).await;
    let after = world.api::<Deployment>().get("echo").await.unwrap();
    assert_eq!(after.metadata.resource_version, before.metadata.resource_version);
    let ready = find(&paused.status.as_ref().unwrap().conditions, "Ready")
        .unwrap()
        .clone();
    assert_ne!(
        ready.observed_generation, paused.metadata.generation,
        "nothing is claimed for what was not applied"
    );
    world.annotate("echo", "mcpfleet.dev/paused", Value::Null).await;
    world
        .deployment("echo", "the change after the pause", |d| {
            d.metadata.generation != before.metadata.generation
        })
        .await;
    world.replica.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_cause_of_pods_that_do_not_run_is_named() {
    let Some(world) = World::start("controller-causes").await else {
        return;
    };
    world.container("pull").await;
    let waiting = json!({"phase": "Pending", "containerStatuses": [{
        "name": "server", "image": "registry.test/echo:1", "imageID": "", "ready": false, "restartCount": 0,
        "state": {"waiting": {"reason": "ImagePullBackOff", "message": "Back-off pulling image"}},
    }]});
    world.play_pods("pull", 1, waiting).await;
    let pull = world.server_with("pull", "Ready", "False ImagePullBackOff").await;
    assert!(message(&pull, "Available").contains("registry.test/echo:1"));

    let range = json!({"spec": {"limits": [{"type": "Container", "min": {"cpu": "2"}}]}});
    world.apply::<LimitRange>("large", range).await;
    let mut small = container();
    small["resources"] = json!({"requests": {"cpu": "1"}, "limits": {"cpu": "1"}});
    world
        .apply::<MCPServer>("refused", json!({"spec": {"container": small}}))
        .await;
    let refused = world.server_with("refused", "Available", "False FailedCreate").await;
    assert!(
        message(&refused, "Available").contains("minimum cpu usage per Container is 2"),
        "{}",
        message(&refused, "Available")
    );

    let mut invalid = container();
    invalid["resources"] = json!({"requests": {"cpu": "2"}, "limits": {"cpu": "1"}});
    world
        .apply::<MCPServer>("invalid", json!({"spec": {"container": invalid}}))
        .await;
    let invalid = world.server_with("invalid", "Accepted", "False InvalidWorkload").await;
    let told = message(&invalid, "Accepted");
    assert!(told.contains("must be less than or equal to cpu limit"), "{told}");
    world.replica.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_federation_tells_of_its_members() {
    let Some(world) = World::start("controller-federation").await else {
        return;
    };
    let federation = json!({"spec": {"access": {"anonymous": {}}, "members": [
        {"name": "a", "server": {"name": "up"}},
        {"name": "b", "server": {"name": "down"}},
        {"name": "c", "server": {"name": "absent"}},
    ]}});
    world.apply::<MCPFederation>("all", federation).await;
    world.remote("up").await;
    world.remote("down").await;
    world.replica.tell(&world.namespace, "up", UpstreamState::Ready);
    let failed = UpstreamState::Failed {
        reason: "ConnectFailed",
        message: "connection refused".into(),
    };
    world.replica.tell(&world.namespace, "down", failed);
    world.federation_with("all", "Ready", "True Serving").await;
    let status = until("every member told of", async || {
        let status = world.api::<MCPFederation>().get("all").await.unwrap().status?;
        let states: Vec<_> = status
            .members
            .iter()
            .map(|m| (m.name.as_str(), m.state.as_str()))
            .collect();
        (states == [("a", "Ready"), ("b", "Failed"), ("c", "NotFound")]).then_some(status)
    })
    .await;
    assert_eq!(say(&status.conditions, "Degraded"), "True MembersNotReady");
    assert_eq!(say(&status.conditions, "ResolvedRefs"), "False NotFound");
    assert_eq!(
        status.url.as_deref(),
        Some("http://gateway.test/controller-federation/all/mcp")
    );
    assert_eq!(status.index.unwrap().tools, 3);

    world.remote("absent").await;
    world.federation_with("all", "ResolvedRefs", "True Resolved").await;
    world
        .apply::<MCPFederation>("empty", json!({"spec": {"access": {"anonymous": {}}}}))
        .await;
    world.federation_with("empty", "Ready", "True NoMembers").await;
    world.replica.stop().await;
}

/// The fields that a manager owns by apply.
fn owned_by(deployment: &Deployment, manager: &str) -> Vec<Value> {
    let entries = deployment.metadata.managed_fields.iter().flatten();
    entries
        .filter(|entry| entry.manager.as_deref() == Some(manager))
        .filter_map(|entry| entry.fields_v1.as_ref().map(|fields| fields.0.clone()))
        .collect()
}

/// Which field managers own something of an object, and by which operation.
fn managers(metadata: &ObjectMeta) -> BTreeMap<String, String> {
    let entries = metadata.managed_fields.iter().flatten();
    let named = entries.map(|entry| {
        (
            format!(
                "{}{}",
                entry.manager.clone().unwrap_or_default(),
                entry.subresource.as_ref().map(|s| format!("/{s}")).unwrap_or_default()
            ),
            entry.operation.clone().unwrap_or_default(),
        )
    });
    named.collect()
}

fn replicas(deployment: &Deployment) -> Option<i32> {
    deployment.spec.as_ref()?.replicas
}

fn pod_annotation(deployment: &Deployment) -> Option<String> {
    let template = deployment.spec.as_ref()?.template.metadata.as_ref()?;
    template.annotations.as_ref()?.get("mcpfleet.dev/references").cloned()
}
