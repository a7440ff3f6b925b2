//! The API server takes our custom resources as they are meant.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::PostParams;
use kube::{Api, ResourceExt};
use mcpfleet::api::MCPServer;
use serde_json::json;

use crate::support::apiserver::ApiServer;

#[tokio::test]
async fn definitions_are_installed_without_a_complaint() {
    let Some(server) = ApiServer::shared().await else {
        return;
    };
    let api: Api<CustomResourceDefinition> = Api::all(server.client().await);
    for definition in api.list(&Default::default()).await.unwrap() {
        let conditions = definition.status.unwrap_or_default().conditions.unwrap_or_default();
        let refused: Vec<_> = conditions.iter().filter(|c| c.type_ == "NonStructuralSchema").collect();
        assert!(refused.is_empty(), "{refused:?}");
    }
}

#[tokio::test]
async fn a_server_is_stored_with_its_defaults() {
    let Some(server) = ApiServer::shared().await else {
        return;
    };
    let namespace = server.namespace("stored-defaults").await;
    let api: Api<MCPServer> = Api::namespaced(server.client().await, &namespace);
    let object = json!({
        "apiVersion": "mcpfleet.dev/v1alpha1", "kind": "MCPServer", "metadata": {"name": "echo"},
        "spec": {"container": {"image": "echo:1", "transport": {"type": "StreamableHTTP"}}},
    });
    let stored = api
        .create(&PostParams::default(), &serde_json::from_value(object).unwrap())
        .await
        .unwrap();
    assert_eq!(stored.name_any(), "echo");
    assert_eq!(stored.spec.replicas, 1);
}
