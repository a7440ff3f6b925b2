use std::collections::BTreeMap;

use serde_json::json;

use super::*;
use crate::api::condition::find;
use crate::fleet::References;
use crate::operator::names::PAUSED_ANNOTATION;
use crate::operator::server::digest::DigestKey;
use crate::operator::server::plan::{Basis, plan};
use crate::upstream::HttpEndpoint;

fn server(generation: i64, spec: &serde_json::Value) -> MCPServer {
    serde_json::from_value(json!({
        "apiVersion": "mcpfleet.dev/v1alpha1", "kind": "MCPServer",
        "metadata": {"name": "web", "namespace": "team", "uid": "0b1c", "generation": generation},
        "spec": spec,
    }))
    .unwrap()
}

fn container(generation: i64) -> MCPServer {
    server(
        generation,
        &json!({"container": {"image": "x:1", "transport": {"type": "StreamableHTTP"}}}),
    )
}

fn remote(generation: i64, url: &str) -> MCPServer {
    server(generation, &json!({"remote": {"url": url}}))
}

fn deployment(observed: i64, total: i32, updated: i32, available: i32) -> Deployment {
    serde_json::from_value(json!({
        "metadata": {"generation": 2}, "spec": {"replicas": 1, "selector": {}, "template": {}},
        "status": {
            "observedGeneration": observed, "replicas": total, "updatedReplicas": updated,
            "readyReplicas": available, "availableReplicas": available,
        },
    }))
    .unwrap()
}

fn observed(url: &str, state: UpstreamState) -> ServerObservation {
    ServerObservation {
        endpoint: Endpoint::Http(HttpEndpoint {
            url: url.parse().unwrap(),
            headers: http::HeaderMap::new(),
        }),
        state,
        transport: None,
        server_info: None,
        catalog: Some(CatalogStatus {
            tools: 4,
            ..CatalogStatus::default()
        }),
    }
}

fn failed() -> UpstreamState {
    UpstreamState::Failed {
        reason: "Timeout",
        message: "no answer".into(),
    }
}

const SERVICE: &str = "http://web.team.svc:8080/mcp";

#[derive(Default)]
struct World {
    deployment: Option<Deployment>,
    drifted: bool,
    observation: Option<ServerObservation>,
    refusal: Option<Refusal>,
    pods: Vec<Pod>,
}

impl World {
    fn tell(&self, server: &MCPServer) -> MCPServerStatus {
        let key = DigestKey::derive(&[7; 32]).unwrap();
        let basis = Basis {
            references: &References::default(),
            deployment: self.deployment.as_ref(),
            key: &key,
            cluster_wide: true,
        };
        let plan = plan(server, basis);
        let facts = Facts {
            plan: &plan,
            refusal: self.refusal.as_ref(),
            deployment: self.deployment.as_ref(),
            in_step: self.deployment.is_some() && !self.drifted,
            pods: &self.pods.iter().collect::<Vec<_>>(),
            observation: self.observation.as_ref(),
            now: Timestamp::from_second(1_800_000_000).unwrap(),
        };
        status(server, &facts)
    }
}

/// `Type=Status Reason` of every condition.
fn words(status: &MCPServerStatus) -> BTreeMap<&str, String> {
    let words = status
        .conditions
        .iter()
        .map(|c| (c.type_.as_str(), format!("{:?} {}", c.status, c.reason)));
    words.collect()
}

fn expect(status: &MCPServerStatus, expected: &[(&str, &str)]) {
    let expected: BTreeMap<&str, String> = expected.iter().map(|(t, w)| (*t, (*w).to_owned())).collect();
    assert_eq!(words(status), expected);
}

fn with(mut server: MCPServer, status: &MCPServerStatus) -> MCPServer {
    server.status = Some(status.clone());
    server
}

#[test]
fn a_new_container_server_is_accepted_and_on_its_way() {
    expect(
        &World::default().tell(&container(1)),
        &[
            (ACCEPTED, "True Accepted"),
            (RESOLVED_REFS, "True Resolved"),
            (AVAILABLE, "False Progressing"),
            (VERIFIED, "Unknown Connecting"),
            (READY, "False Progressing"),
            (RECONCILING, "True Progressing"),
        ],
    );
}

#[test]
fn ready_means_pods_and_handshake() {
    let mut world = World {
        deployment: Some(deployment(2, 1, 1, 1)),
        ..World::default()
    };
    let status = world.tell(&container(1));
    assert_eq!(words(&status)[READY], "Unknown Connecting");
    world.observation = Some(observed(SERVICE, UpstreamState::Ready));
    let status = world.tell(&container(1));
    expect(
        &status,
        &[
            (ACCEPTED, "True Accepted"),
            (RESOLVED_REFS, "True Resolved"),
            (AVAILABLE, "True PodsAvailable"),
            (VERIFIED, "True HandshakeDone"),
            (READY, "True Callable"),
        ],
    );
    assert_eq!(status.catalog.as_ref().unwrap().tools, 4);
    assert_eq!(status.address.as_ref().unwrap().url, SERVICE);
    assert_eq!((status.replicas, status.ready_replicas), (Some(1), Some(1)));
    assert_eq!(status.selector.as_deref(), Some("mcpfleet.dev/server=web"));
}

#[test]
fn the_failing_part_is_the_reason_for_not_ready() {
    let mut world = World {
        deployment: Some(deployment(2, 1, 1, 1)),
        observation: Some(observed(SERVICE, failed())),
        ..World::default()
    };
    assert_eq!(words(&world.tell(&container(1)))[READY], "False Timeout");
    world.deployment = Some(deployment(2, 1, 1, 0));
    assert_eq!(words(&world.tell(&container(1)))[READY], "False Progressing");
}

#[test]
fn while_a_rollout_runs_the_old_pods_are_told_for_the_old_generation() {
    let mut world = World {
        deployment: Some(deployment(2, 1, 1, 1)),
        observation: Some(observed(SERVICE, UpstreamState::Ready)),
        ..World::default()
    };
    let before = world.tell(&container(1));
    for unfinished in [deployment(1, 1, 1, 1), deployment(2, 2, 1, 1)] {
        world.deployment = Some(unfinished);
        let during = world.tell(&with(container(2), &before));
        assert_eq!(words(&during)[READY], "True Callable");
        assert_eq!(find(&during.conditions, READY).unwrap().observed_generation, Some(1));
        assert_eq!(
            find(&during.conditions, AVAILABLE).unwrap().observed_generation,
            Some(1)
        );
        assert_eq!(words(&during)[RECONCILING], "True RollingOut");
        assert_eq!(during.observed_generation, Some(2));
    }
    world.deployment = Some(deployment(2, 1, 1, 1));
    let after = world.tell(&with(container(2), &before));
    assert_eq!(find(&after.conditions, READY).unwrap().observed_generation, Some(2));
    assert!(find(&after.conditions, RECONCILING).is_none());
}

#[test]
fn the_cause_of_missing_pods_is_named() {
    let pod = json!({"metadata": {"name": "web-1"}, "status": {"containerStatuses": [{
        "name": "server", "image": "x:1", "imageID": "", "ready": false, "restartCount": 0,
        "state": {"waiting": {"reason": "ErrImagePull"}},
    }]}});
    let world = World {
        deployment: Some(deployment(2, 1, 1, 0)),
        pods: vec![serde_json::from_value(pod).unwrap()],
        ..World::default()
    };
    let status = world.tell(&container(1));
    assert_eq!(words(&status)[AVAILABLE], "False ImagePullBackOff");
    assert_eq!(words(&status)[READY], "False ImagePullBackOff");
    assert_eq!(words(&status)[RECONCILING], "True ImagePullBackOff");
}

#[test]
fn an_observation_of_another_address_proves_nothing() {
    let mut world = World {
        observation: Some(observed("http://one.example/mcp", UpstreamState::Ready)),
        ..World::default()
    };
    let before = world.tell(&remote(1, "http://one.example/mcp"));
    assert_eq!(words(&before)[READY], "True Callable");
    let moved = with(remote(2, "http://two.example/mcp"), &before);
    let during = world.tell(&moved);
    assert_eq!(words(&during)[VERIFIED], "Unknown Connecting");
    assert_eq!(words(&during)[READY], "Unknown Connecting");
    world.observation = Some(observed("http://two.example/mcp", UpstreamState::Ready));
    assert_eq!(words(&world.tell(&moved))[READY], "True Callable");
}

#[test]
fn a_new_leader_takes_nothing_back_before_it_has_seen_for_itself() {
    let url = "http://one.example/mcp";
    let mut world = World {
        observation: Some(observed(url, UpstreamState::Ready)),
        ..World::default()
    };
    let before = world.tell(&remote(1, url));
    for unseen in [None, Some(observed(url, UpstreamState::Connecting))] {
        world.observation = unseen;
        assert_eq!(world.tell(&with(remote(1, url), &before)), before);
    }
    world.observation = Some(observed(url, failed()));
    assert_eq!(
        words(&world.tell(&with(remote(1, url), &before)))[READY],
        "False Timeout"
    );
}

#[test]
fn a_disabled_server_is_not_ready_and_comes_back_only_when_seen() {
    let url = "http://one.example/mcp";
    let mut disabled = remote(2, url);
    disabled.spec.disabled = true;
    let world = World {
        observation: Some(observed(url, UpstreamState::Ready)),
        ..World::default()
    };
    let status = world.tell(&with(disabled, &world.tell(&remote(1, url))));
    assert_eq!(words(&status)[READY], "False Disabled");
    assert!(find(&status.conditions, RECONCILING).is_none() && find(&status.conditions, STALLED).is_none());
    let unseen = World::default().tell(&with(remote(2, url), &status));
    assert_eq!(words(&unseen)[READY], "Unknown Connecting");
}

#[test]
fn a_package_server_is_not_accepted() {
    let package = server(
        1,
        &json!({"package": {"runner": "npm", "name": "x", "version": "1.0.0"}}),
    );
    let status = World::default().tell(&package);
    expect(
        &status,
        &[
            (ACCEPTED, "False PackageUnsupported"),
            (RESOLVED_REFS, "True Resolved"),
            (READY, "False PackageUnsupported"),
            (STALLED, "True PackageUnsupported"),
        ],
    );
    assert_eq!(status.address, None);
}

#[test]
fn a_taken_name_is_not_accepted() {
    let world = World {
        refusal: Some(Refusal {
            reason: "NameConflict",
            message: "taken".into(),
            of_the_spec: true,
            retry: true,
        }),
        ..World::default()
    };
    let status = world.tell(&container(1));
    assert_eq!(words(&status)[ACCEPTED], "False NameConflict");
    assert_eq!(words(&status)[STALLED], "True NameConflict");
}

#[test]
fn a_refused_change_leaves_the_pods_of_before_at_work_and_ready() {
    let mut world = World {
        deployment: Some(deployment(2, 1, 1, 1)),
        observation: Some(observed(SERVICE, UpstreamState::Ready)),
        ..World::default()
    };
    let before = world.tell(&container(1));
    world.drifted = true;
    world.refusal = Some(Refusal {
        reason: "InvalidWorkload",
        message: "bad".into(),
        of_the_spec: true,
        retry: false,
    });
    let after = world.tell(&with(container(2), &before));
    assert_eq!(words(&after)[ACCEPTED], "False InvalidWorkload");
    assert_eq!(words(&after)[STALLED], "True InvalidWorkload");
    assert_eq!(words(&after)[READY], "True Callable");
    assert_eq!(find(&after.conditions, READY).unwrap().observed_generation, Some(1));
}

#[test]
fn a_missing_reference_of_a_remote_server_is_the_reason_for_not_ready() {
    let remote = server(
        1,
        &json!({"remote": {"url": "http://one.example/mcp", "headers": [
            {"name": "Authorization", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}},
        ]}}),
    );
    let status = World::default().tell(&remote);
    assert_eq!(words(&status)[RESOLVED_REFS], "Unknown RefPending");
    assert_eq!(words(&status)[ACCEPTED], "True Accepted");
}

#[test]
fn a_paused_server_says_so_and_claims_nothing_for_what_was_not_applied() {
    let mut world = World {
        deployment: Some(deployment(2, 1, 1, 1)),
        observation: Some(observed(SERVICE, UpstreamState::Ready)),
        ..World::default()
    };
    let before = world.tell(&container(1));
    world.drifted = true;
    let mut paused = with(container(2), &before);
    paused.metadata.annotations = Some(BTreeMap::from([(PAUSED_ANNOTATION.into(), "true".into())]));
    let status = world.tell(&paused);
    assert_eq!(words(&status)[STALLED], "True Paused");
    assert_eq!(
        find(&status.conditions, AVAILABLE).unwrap().observed_generation,
        Some(1)
    );
}

#[test]
fn scaled_to_zero_is_a_state_and_not_a_problem() {
    let mut none = deployment(2, 0, 0, 0);
    none.spec.as_mut().unwrap().replicas = Some(0);
    let world = World {
        deployment: Some(none),
        observation: Some(observed(SERVICE, failed())),
        ..World::default()
    };
    let status = world.tell(&container(1));
    assert_eq!(words(&status)[READY], "False ScaledToZero");
    assert!(find(&status.conditions, RECONCILING).is_none());
}

#[test]
fn telling_twice_tells_the_same() {
    let world = World {
        deployment: Some(deployment(2, 1, 1, 1)),
        observation: Some(observed(SERVICE, UpstreamState::Ready)),
        ..World::default()
    };
    let once = world.tell(&container(1));
    assert_eq!(world.tell(&with(container(1), &once)), once);
}

#[test]
fn the_query_of_an_address_stays_out_of_the_status() {
    let status = World::default().tell(&remote(1, "http://one.example/mcp?key=hidden"));
    assert_eq!(status.address.unwrap().url, "http://one.example/mcp");
}
