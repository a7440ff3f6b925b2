//! The examples are what the API server takes.

use std::fs;
use std::path::Path;

use kube::api::{DynamicObject, Patch, PatchParams};
use kube::{Api, ResourceExt};
use mcpfleet::api::{MCPFederation, MCPServer};
use serde::Deserialize;

use crate::support::apiserver::ApiServer;

#[tokio::test]
async fn the_api_server_takes_every_example() {
    let Some(server) = ApiServer::shared().await else {
        return;
    };
    let namespace = server.namespace("examples").await;
    let strict = PatchParams::apply("examples").validation_strict();
    let mut taken = 0;
    for file in fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("examples")).unwrap() {
        let path = file.unwrap().path();
        if path.extension().is_none_or(|extension| extension != "yaml") {
            continue;
        }
        let text = fs::read_to_string(&path).unwrap();
        for document in serde_yaml::Deserializer::from_str(&text) {
            let object = DynamicObject::deserialize(document).unwrap();
            let kind = match object.types.as_ref().map(|types| &*types.kind) {
                Some("MCPServer") => kube::api::ApiResource::erase::<MCPServer>(&()),
                Some("MCPFederation") => kube::api::ApiResource::erase::<MCPFederation>(&()),
                other => panic!("{}: {other:?}", path.display()),
            };
            let api: Api<DynamicObject> = Api::namespaced_with(server.client().await, &namespace, &kind);
            let name = object.name_any();
            if let Err(refused) = api.patch(&name, &strict, &Patch::Apply(&object)).await {
                panic!("{} in {}: {refused}", name, path.display());
            }
            taken += 1;
        }
    }
    assert!(taken > 0);
}
