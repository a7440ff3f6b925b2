//! The edge of the cluster: which objects are seen, and what becomes of them.

use std::time::Duration;

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Secret, Service};
use k8s_openapi::api::events::v1::Event;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{ApiResource, DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams};
use kube::{Api, Client};
use mcpfleet::api::{MCPFederation, MCPServer};
use mcpfleet::fleet::UpstreamState;
use mcpfleet::operator::server::apply::{Applier, Outcome, Owned};
use mcpfleet::operator::server::plan::Intent;
use mcpfleet::operator::server::workload::render;
use mcpfleet::operator::{Error, Mandate};
use mcpfleet::upstream::Endpoint;
use serde_json::{Value, json};

use crate::support::apiserver::ApiServer;
use crate::support::controllers::with_controllers;
use crate::support::replica::{Replica, options, until};
use crate::support::world::{World, container, message, running, say};

#[tokio::test(flavor = "multi_thread")]
async fn objects_of_another_class_are_not_touched() {
    let Some(world) = World::start("controller-class").await else {
        return;
    };
    let mut blue = options(&world.namespace);
    blue.class = Some("blue".into());
    let blue = Replica::start(world.client.clone(), blue);
    world
        .apply::<MCPServer>("theirs", json!({"spec": {"class": "green", "container": container()}}))
        .await;
    world
        .apply::<MCPServer>(
            "blues",
            json!({"spec": {"class": "blue", "remote": {"url": "http://x.example/mcp"}}}),
        )
        .await;
    world.remote("ours").await;
    world.server_with("ours", "Accepted", "True Accepted").await;
    world.server_with("blues", "Accepted", "True Accepted").await;
    let names =
        |input: &mcpfleet::fleet::PlanInput| input.servers.iter().map(|s| s.key.name.clone()).collect::<Vec<_>>();
    assert_eq!(names(&*world.replica.input().await), ["ours"]);
    assert_eq!(names(&*blue.input().await), ["blues"]);
    assert_eq!(world.api::<MCPServer>().get("theirs").await.unwrap().status, None);
    assert_eq!(world.api::<Deployment>().get_opt("theirs").await.unwrap(), None);
    blue.stop().await;
    world.replica.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_remote_servers_header_follows_its_secret() {
    let Some(world) = World::start("controller-header").await else {
        return;
    };
    world
        .apply::<Secret>("keys", json!({"stringData": {"api": "Bearer one"}}))
        .await;
    let remote = json!({"url": "http://far.example/mcp", "headers": [
        {"name": "Authorization", "valueFrom": {"secretKeyRef": {"name": "keys", "key": "api"}}},
    ]});
    world
        .apply::<MCPServer>("far", json!({"spec": {"remote": remote}}))
        .await;
    for value in ["Bearer one", "Bearer two"] {
        world
            .apply::<Secret>("keys", json!({"stringData": {"api": value}}))
            .await;
        until(value, async || {
            let input = world.replica.input().await;
            let Ok(Endpoint::Http(http)) = &input.servers.first()?.endpoint else {
                return None;
            };
            (http.headers["authorization"] == value).then_some(())
        })
        .await;
    }
    world.replica.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_package_server_says_what_works_instead() {
    let Some(world) = World::start("controller-package").await else {
        return;
    };
    let package = json!({"runner": "npm", "name": "@modelcontextprotocol/server-everything", "version": "2026.1.1"});
    world
        .apply::<MCPServer>("npm", json!({"spec": {"package": package}}))
        .await;
    let refused = world.server_with("npm", "Accepted", "False PackageUnsupported").await;
    assert!(message(&refused, "Accepted").contains("mcpfleet up"));
    world.replica.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_namespace_on_its_way_out_is_left_alone() {
    let Some(server) = with_controllers().await else {
        return;
    };
    let namespace = server.namespace("edge-terminating").await;
    let client = server.client().await;
    // Something that does not go away keeps the namespace in between.
    let held: Api<ConfigMap> = Api::namespaced(client.clone(), &namespace);
    let map = json!({"metadata": {"name": "held", "finalizers": ["example.com/held"]}});
    let map = serde_json::from_value(map).unwrap();
    held.create(&PostParams::default(), &map).await.unwrap();
    let namespaces: Api<Namespace> = Api::all(client.clone());
    namespaces.delete(&namespace, &DeleteParams::default()).await.unwrap();

    let late: MCPServer = serde_json::from_value(late(&namespace)).unwrap();
    let outcome = apply_a_workload(client, &late, true).await.unwrap();
    let refusal = outcome.refusal.unwrap();
    assert_eq!((refusal.reason, refusal.retry), ("NamespaceTerminating", false));

    let release = json!({"metadata": {"finalizers": null}});
    held.patch("held", &PatchParams::default(), &Patch::Merge(&release))
        .await
        .unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_mandate_nothing_is_written() {
    let Some(server) = ApiServer::shared().await else {
        return;
    };
    let namespace = server.namespace("edge-mandate").await;
    let client = server.client().await;
    // A real one: what an owner that does not exist owns is taken away at once.
    let servers: Api<MCPServer> = Api::namespaced(client.clone(), &namespace);
    let late = servers
        .create(
            &PostParams::default(),
            &serde_json::from_value(late(&namespace)).unwrap(),
        )
        .await
        .unwrap();
    let refused = apply_a_workload(client.clone(), &late, false).await.unwrap_err();
    assert_eq!(refused.reason(), "NotLeading");
    let services: Api<Service> = Api::namespaced(client.clone(), &namespace);
    assert_eq!(services.get_opt("late").await.unwrap(), None);
    let outcome = apply_a_workload(client, &late, true).await.unwrap();
    assert!(outcome.deployment.is_some() && outcome.in_step);
}

/// A container server that belongs to no install which runs here.
fn late(namespace: &str) -> Value {
    json!({
        "apiVersion": "mcpfleet.dev/v1alpha1", "kind": "MCPServer",
        "metadata": {"name": "late", "namespace": namespace, "uid": "00000000-0000-0000-0000-000000000001"},
        "spec": {"class": "nobody", "container": container()},
    })
}

/// Writes the workload of `server`, as a leader whose mandate holds or not.
async fn apply_a_workload(client: Client, server: &MCPServer, mandate: bool) -> Result<Outcome, Error> {
    let workload = render(server, server.spec.container.as_ref().unwrap(), None);
    let intent = Intent::Run {
        workload: Box::new(workload),
        scale: Some(1),
    };
    let applier = Applier::new(client, Mandate::new(move || mandate));
    applier.apply(server, &intent, Owned::default()).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_wide_install_reads_the_labels_of_namespaces() {
    let Some(server) = ApiServer::shared().await else {
        return;
    };
    let (home, guest) = (
        server.namespace("edge-wide").await,
        server.namespace("edge-wide-guest").await,
    );
    let client = server.client().await;
    let mut wide = options(&home);
    wide.namespaces.clear();
    wide.class = Some("wide".into());
    let replica = Replica::start(client.clone(), wide);
    let parameters = PatchParams::apply("kubectl");
    let servers: Api<MCPServer> = Api::namespaced(client.clone(), &home);
    let far = json!({
        "apiVersion": "mcpfleet.dev/v1alpha1", "kind": "MCPServer", "metadata": {"name": "far"},
        "spec": {
            "class": "wide", "remote": {"url": "http://far.example/mcp"},
            "federation": {"allowedNamespaces": {"from": "Selector", "selector": {"matchLabels": {"guest": "yes"}}}},
        },
    });
    servers.patch("far", &parameters, &Patch::Apply(&far)).await.unwrap();
    replica.tell(&home, "far", UpstreamState::Ready);
    let federations: Api<MCPFederation> = Api::namespaced(client.clone(), &guest);
    let all = json!({
        "apiVersion": "mcpfleet.dev/v1alpha1", "kind": "MCPFederation", "metadata": {"name": "all"},
        "spec": {
            "class": "wide", "access": {"anonymous": {}},
            "members": [{"name": "far", "server": {"name": "far", "namespace": home}}],
        },
    });
    federations
        .patch("all", &parameters, &Patch::Apply(&all))
        .await
        .unwrap();
    let told = async |type_: &str, words: &str| {
        until(words, async || {
            let status = federations.get("all").await.unwrap().status?;
            (say(&status.conditions, type_) == words).then_some(())
        })
        .await;
    };
    told("ResolvedRefs", "False NotPermitted").await;
    let namespaces: Api<Namespace> = Api::all(client);
    let label = json!({"metadata": {"labels": {"guest": "yes"}}});
    namespaces
        .patch(&guest, &PatchParams::default(), &Patch::Merge(&label))
        .await
        .unwrap();
    told("ResolvedRefs", "True Resolved").await;
    told("Ready", "True Serving").await;
    replica.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_malformed_object_is_skipped_and_the_others_go_on() {
    let Some(server) = ApiServer::alone().await else {
        return;
    };
    let namespace = server.namespace("edge-malformed").await;
    let client = server.client().await;
    // As if an older version, with another schema, had stored it.
    let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
    let lax = json!([{
        "op": "replace", "path": "/spec/versions/0/schema/openAPIV3Schema",
        "value": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
    }]);
    let lax: Patch<()> = Patch::Json(serde_json::from_value(lax).unwrap());
    definitions
        .patch("mcpservers.mcpfleet.dev", &PatchParams::default(), &lax)
        .await
        .unwrap();
    let resource = ApiResource::erase::<MCPServer>(&());
    let objects: Api<DynamicObject> = Api::namespaced_with(client.clone(), &namespace, &resource);
    let create = async |name: &str, spec: Value| {
        let object = json!({
            "apiVersion": "mcpfleet.dev/v1alpha1", "kind": "MCPServer", "metadata": {"name": name}, "spec": spec,
        });
        until("the other schema", async || {
            let object = serde_json::from_value(object.clone()).unwrap();
            objects.create(&PostParams::default(), &object).await.ok()
        })
        .await
    };
    create("before", json!({"container": "of another shape"})).await;
    let replica = Replica::start(client.clone(), options(&namespace));
    create(
        "good",
        json!({"replicas": 1, "remote": {"url": "http://good.example/mcp"}}),
    )
    .await;
    create("after", json!({"remote": {"url": ["of another shape"]}})).await;
    create(
        "best",
        json!({"replicas": 1, "remote": {"url": "http://best.example/mcp"}}),
    )
    .await;
    for name in ["good", "best"] {
        until("a status", async || {
            objects.get(name).await.unwrap().data.get("status").cloned()
        })
        .await;
    }
    let input = replica.input().await;
    let seen: Vec<_> = input.servers.iter().map(|server| server.key.name.as_str()).collect();
    assert_eq!(seen, ["best", "good"]);
    replica.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn without_the_custom_resources_it_waits_for_them() {
    let Some(server) = ApiServer::bare().await else {
        return;
    };
    let namespace = server.namespace("edge-late").await;
    let client = server.client().await;
    let replica = Replica::start(client.clone(), options(&namespace));
    let early = tokio::time::timeout(Duration::from_secs(1), replica.input()).await;
    assert!(early.is_err(), "nothing can be planned yet");
    server.install().await;
    assert!(replica.input().await.servers.is_empty());
    replica.stop().await;
}

/// What a replica of both roles may do in a namespace that it watches, which here is its own as well.
fn rights() -> Value {
    json!([
        {"apiGroups": ["mcpfleet.dev"], "resources": ["mcpservers", "mcpfederations"], "verbs": ["list", "watch"]},
        {"apiGroups": ["mcpfleet.dev"], "resources": ["mcpservers/status", "mcpfederations/status"], "verbs": ["patch"]},
        {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "list", "watch"]},
        // The root key is created; the others are only read.
        {"apiGroups": [""], "resources": ["secrets"], "verbs": ["get", "list", "watch", "create"]},
        {"apiGroups": [""], "resources": ["services"], "verbs": ["get", "list", "watch", "create", "patch", "delete"]},
        {"apiGroups": ["apps"], "resources": ["deployments"], "verbs": ["get", "list", "watch", "create", "patch", "delete"]},
        {"apiGroups": [""], "resources": ["pods"], "verbs": ["list", "watch"]},
        {"apiGroups": ["events.k8s.io"], "resources": ["events"], "verbs": ["create", "patch"]},
        {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["get", "create", "update"]},
    ])
}

#[tokio::test(flavor = "multi_thread")]
async fn these_rights_are_enough() {
    let Some(world) = World::start_with_rights("edge-rights", rights()).await else {
        return;
    };
    world
        .apply::<Secret>("token", json!({"stringData": {"value": "x"}}))
        .await;
    let mut with_secret = container();
    with_secret["env"] = json!([{"name": "TOKEN", "valueFrom": {"secretKeyRef": {"name": "token", "key": "value"}}}]);
    world
        .apply::<MCPServer>("echo", json!({"spec": {"container": with_secret}}))
        .await;
    world.play_pods("echo", 1, running()).await;
    world.replica.tell(&world.namespace, "echo", UpstreamState::Ready);
    world.server_with("echo", "Ready", "True Callable").await;
    let federation = json!({"spec": {
        "access": {"anonymous": {}}, "members": [{"name": "echo", "server": {"name": "echo"}}],
    }});
    world.apply::<MCPFederation>("all", federation).await;
    world.federation_with("all", "Ready", "True Serving").await;
    until("an event", async || {
        let events = world.api::<Event>().list(&ListParams::default()).await.unwrap().items;
        events
            .into_iter()
            .find(|event| event.reason.as_deref() == Some("Ready"))
    })
    .await;
    let moved = json!([
        {"op": "remove", "path": "/spec/container"},
        {"op": "add", "path": "/spec/remote", "value": {"url": "http://elsewhere.example/mcp"}},
    ]);
    let moved: Patch<()> = Patch::Json(serde_json::from_value(moved).unwrap());
    let servers = world.api::<MCPServer>();
    servers.patch("echo", &PatchParams::default(), &moved).await.unwrap();
    until("no Deployment", async || {
        let deployment = world.api::<Deployment>().get_opt("echo").await.unwrap();
        deployment.is_none().then_some(())
    })
    .await;
    let leases = world.api::<Lease>();
    world.replica.stop().await;
    let lease = leases.get("mcpfleet").await.unwrap();
    assert_eq!(lease.spec.unwrap().holder_identity, None, "the lease is given back");
}
