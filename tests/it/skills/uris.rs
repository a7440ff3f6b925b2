//! URIs of skills outside of their lists.

use serde_json::json;

use super::server::{Server, skill};
use super::{CLIENTS, ERAS, uris};
use crate::support::gateway::TestGateway;

#[tokio::test]
async fn uris_of_skills_are_told_alike_wherever_they_stand() {
    for era in ERAS {
        let server = Server::start(era, skill("a", "x")).await;
        let gateway = TestGateway::ready(&[("m", server.upstream.address)]).await;
        for client in CLIENTS {
            let called = gateway
                .ask(client, "tools/call", json!({"name": "m__find", "arguments": {}}))
                .await;
            let content = &called["result"]["content"];
            assert_eq!(content[0]["uri"], "skill://m/a/x", "{called}");
            assert_eq!(content[1]["resource"]["uri"], "skill://m/a/y");
            assert_eq!(content[1]["resource"]["text"], "see skill://a/y");
            assert_eq!(content[2]["text"], "skill://a");
            let resources = gateway.ask(client, "resources/list", json!({})).await;
            let resources: Vec<_> = resources["result"]["resources"].as_array().unwrap().to_vec();
            assert_eq!(
                uris(&resources),
                [
                    "https://example.com/skill:",
                    "skill://m/a/SKILL.md",
                    "skill://m/a/picture",
                    "skill://m/a/scripts/run.sh",
                ]
            );
            let templates = gateway.ask(client, "resources/templates/list", json!({})).await;
            assert_eq!(
                templates["result"]["resourceTemplates"][0]["uriTemplate"],
                "skill://m/a/{name}"
            );
            let completed = gateway
                .ask(
                    client,
                    "completion/complete",
                    json!({"ref": {"type": "ref/resource", "uri": "skill://m/a/{name}"}, "argument": {"name": "name", "value": ""}}),
                )
                .await;
            assert_eq!(
                completed["result"]["completion"]["values"],
                json!(["skill://a/{name}"]),
                "{completed}"
            );
        }
        gateway.stop().await;
    }
}
