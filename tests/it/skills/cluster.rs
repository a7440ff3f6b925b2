//! Skills in a ConfigMap of a real API server.

use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::DeleteParams;
use mcpfleet::api::MCPFederation;
use mcpfleet::api::condition::find;
use mcpfleet::mcp::Revision;
use serde_json::{Value, json};
use tokio::time::timeout;

use super::{CLIENTS, bytes_of, listed, proof, uris};
use crate::support::gateway::{TestGateway, plan};
use crate::support::world::World;

const CHANGED: &str = "notifications/resources/list_changed";
const SOON: Duration = Duration::from_secs(2);

fn manifest(name: &str, text: &str) -> String {
    format!("---\nname: {name}\ndescription: About {name}\n---\n{text}\n")
}

/// A gateway that serves what the replica in `world` plans.
async fn gateway_of(world: &World) -> TestGateway {
    let mut gateway = TestGateway::start(plan(&[])).await;
    gateway.turn_to(&format!("{}/fed", world.namespace));
    let (mut planned, served) = (world.replica.inputs(), gateway.input.clone());
    tokio::spawn(async move {
        loop {
            if let Some(input) = planned.borrow_and_update().clone() {
                served.send_replace(input);
            }
            if planned.changed().await.is_err() {
                return;
            }
        }
    });
    gateway
}

async fn degraded(world: &World, words: &str) -> String {
    let federation: MCPFederation = world.federation_with("fed", "Degraded", words).await;
    let conditions = federation.status.unwrap().conditions;
    find(&conditions, "Degraded").unwrap().message.clone()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_edit_of_a_config_map_is_served_and_reaches_who_listens() {
    let Some(world) = World::start("skills-config-map").await else {
        return;
    };
    let files = |text: &str, second: &str| {
        json!({
            "data": {"m": manifest("backup", text), "second": manifest(second, "x")},
            "binaryData": {"run": "/wDYCg=="},
        })
    };
    world.apply::<ConfigMap>("runbooks", files("one\r\ntwo", "beta")).await;
    let items = json!([
        {"key": "m", "path": "backup/SKILL.md"},
        {"key": "run", "path": "backup/bin/run"},
        {"key": "second", "path": "alpha/SKILL.md"},
    ]);
    let source = json!([{"configMapRef": {"name": "runbooks"}, "prefix": ["ops"], "items": items}]);
    let spec = json!({"spec": {"access": {"anonymous": {}}, "members": [], "skills": source}});
    world.apply::<MCPFederation>("fed", spec).await;

    // A skill that is none is named, and the others are served.
    let told = degraded(&world, "True SkillsLeftOut").await;
    for part in ["\"runbooks\"", "ops/alpha", "`name: beta`"] {
        assert!(told.contains(part), "{told}");
    }
    world.federation_with("fed", "ResolvedRefs", "False InvalidSkill").await;
    world.federation_with("fed", "Ready", "True Serving").await;
    let mut gateway = gateway_of(&world).await;
    gateway
        .until(|seen| seen.federations.values().any(|federation| federation.index.skills == 1))
        .await;
    for client in CLIENTS {
        let entries = listed(&gateway, client).await;
        assert_eq!(uris(&entries), ["skill://ops/backup/SKILL.md"]);
        let files = entries[0]["resources"].as_array().unwrap();
        assert_eq!(files.len(), 2);
        for file in files {
            let read = gateway.ask(client, "resources/read", json!({"uri": file["uri"]})).await;
            assert_eq!(proof(&bytes_of(&read)), file["digest"].as_str().unwrap());
        }
        let run = json!({"uri": "skill://ops/backup/bin/run"});
        let read = gateway.ask(client, "resources/read", run).await;
        assert_eq!(bytes_of(&read), [0xff, 0, 0xd8, b'\n']);
    }

    let params = json!({"notifications": {"resourcesListChanged": true}});
    let mut modern = gateway.modern_events(json!(1), "subscriptions/listen", params).await;
    modern.message().await.unwrap();
    let session = gateway.open_session(Revision::LATEST_LEGACY).await;
    let mut legacy = gateway.get_events(&session, Revision::LATEST_LEGACY, None).await;
    let mut heard = async || {
        for stream in [&mut modern, &mut legacy] {
            let told = timeout(SOON, stream.message()).await.expect("told within two seconds");
            assert_eq!(told.unwrap()["method"], CHANGED);
        }
    };

    world.apply::<ConfigMap>("runbooks", files("three", "alpha")).await;
    heard().await;
    for client in CLIENTS {
        let entries = listed(&gateway, client).await;
        assert_eq!(
            uris(&entries),
            ["skill://ops/alpha/SKILL.md", "skill://ops/backup/SKILL.md"]
        );
        let backup = proof(manifest("backup", "three").as_bytes());
        assert!(entries[1]["resources"].to_string().contains(&backup), "{entries:?}");
    }
    degraded(&world, "False AllMembersReady").await;
    world.federation_with("fed", "ResolvedRefs", "True Resolved").await;

    let deletion = DeleteParams::default();
    world.api::<ConfigMap>().delete("runbooks", &deletion).await.unwrap();
    heard().await;
    for client in CLIENTS {
        assert_eq!(listed(&gateway, client).await, Vec::<Value>::new());
    }
    world.federation_with("fed", "ResolvedRefs", "False RefNotFound").await;
    gateway.stop().await;
    world.replica.stop().await;
}
