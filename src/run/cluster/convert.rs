//! From the objects of a cluster to what the fleet is planned from. Pure.

use std::collections::{BTreeMap, BTreeSet};

use crate::api::{MCPFederation, MCPServer};
use crate::fleet::access::access_reference;
use crate::fleet::input::{federation_input, server_input};
use crate::fleet::skills::skill_references;
use crate::fleet::{PlanInput, Reference, ReferenceKind, References};
use crate::operator::server::address::{endpoint, endpoint_references};
use crate::operator::server::references;

/// The objects of one install.
#[derive(Clone, Debug, Default)]
pub struct Objects {
    /// Its servers.
    pub servers: Vec<MCPServer>,
    /// Its federations.
    pub federations: Vec<MCPFederation>,
    /// Labels of each namespace; `None` where single namespaces are watched.
    pub namespaces: Option<BTreeMap<String, BTreeMap<String, String>>>,
}

/// What the fleet is planned from: the same objects give the same input, in whatever order they come. What is being
/// deleted is served no longer.
pub fn plan_input(objects: &Objects, references: &References) -> PlanInput {
    let cluster_wide = objects.namespaces.is_some();
    let mut servers: Vec<_> = objects
        .servers
        .iter()
        .filter(|server| server.metadata.deletion_timestamp.is_none())
        .map(|server| server_input(server, endpoint(server, references, cluster_wide)))
        .collect();
    servers.sort_by(|a, b| a.key.cmp(&b.key));
    let mut federations: Vec<_> = objects
        .federations
        .iter()
        .filter(|federation| federation.metadata.deletion_timestamp.is_none())
        .map(|federation| federation_input(federation, references))
        .collect();
    federations.sort_by(|a, b| a.key.cmp(&b.key));
    PlanInput {
        servers,
        federations,
        namespaces: objects.namespaces.clone().unwrap_or_default(),
    }
}

/// The Secrets and ConfigMaps to read: what the gateway sends and asks for and, where workloads are written, what pods
/// take.
pub fn wanted(objects: &Objects, workloads: bool) -> BTreeSet<Reference> {
    let of = if workloads { references } else { endpoint_references };
    let of_federations = objects.federations.iter().flat_map(|federation| {
        let namespace = federation.metadata.namespace.as_deref().unwrap_or_default();
        let skills = skill_references(&federation.spec, namespace);
        // There are no directories in a cluster.
        let skills = skills.filter(|reference| reference.kind != ReferenceKind::Directory);
        access_reference(&federation.spec, namespace).into_iter().chain(skills)
    });
    objects.servers.iter().flat_map(of).chain(of_federations).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::fleet::{Access, Content};
    use crate::upstream::Endpoint;

    fn server(name: &str, spec: &serde_json::Value) -> MCPServer {
        serde_json::from_value(json!({
            "apiVersion": "mcpfleet.dev/v1alpha1", "kind": "MCPServer",
            "metadata": {"name": name, "namespace": "team"}, "spec": spec,
        }))
        .unwrap()
    }

    fn objects() -> Objects {
        let pods_only = json!([{"name": "T", "valueFrom": {"secretKeyRef": {"name": "pods", "key": "k"}}}]);
        let header = json!([{"name": "Authorization", "valueFrom": {"secretKeyRef": {"name": "keys", "key": "k"}}}]);
        Objects {
            servers: vec![
                server(
                    "c",
                    &json!({"container": {
                        "image": "x", "env": pods_only,
                        "transport": {"type": "StreamableHTTP", "port": 9000, "path": "/x"},
                    }}),
                ),
                server(
                    "b",
                    &json!({"remote": {"url": "https://example.com/mcp", "headers": header}}),
                ),
                server(
                    "a",
                    &json!({"package": {"runner": "npm", "name": "x", "version": "1.0.0"}}),
                ),
            ],
            ..Objects::default()
        }
    }

    #[test]
    fn each_source_has_its_address_or_the_reason_why_not() {
        let input = plan_input(&objects(), &References::default());
        let told: Vec<_> = input
            .servers
            .iter()
            .map(|server| (server.key.name.as_str(), server.endpoint.as_ref()))
            .collect();
        assert_eq!(told[0].1.unwrap_err().reason, "PackageUnsupported");
        assert_eq!(told[1].1.unwrap_err().reason, "RefPending");
        let Ok(Endpoint::Http(http)) = told[2].1 else {
            panic!("a container server has an address");
        };
        assert_eq!(
            (told[2].0, http.url.to_string().as_str()),
            ("c", "http://c.team.svc:9000/x")
        );
    }

    #[test]
    fn order_does_not_matter() {
        let mut reversed = objects();
        reversed.servers.reverse();
        let references = References::default();
        assert_eq!(plan_input(&objects(), &references), plan_input(&reversed, &references));
    }

    #[test]
    fn what_is_being_deleted_is_not_served() {
        let mut objects = objects();
        objects.servers[0].metadata.deletion_timestamp = serde_json::from_value(json!("2026-01-01T00:00:00Z")).unwrap();
        assert_eq!(plan_input(&objects, &References::default()).servers.len(), 2);
    }

    #[test]
    fn every_replica_reads_the_api_keys_of_federations() {
        let mut objects = objects();
        let federation = json!({
            "apiVersion": "mcpfleet.dev/v1alpha1", "kind": "MCPFederation",
            "metadata": {"name": "all", "namespace": "team"},
            "spec": {"access": {"apiKeys": {"secretRef": {"name": "clients"}}}},
        });
        objects.federations = vec![serde_json::from_value(federation).unwrap()];
        let secret = Reference::new(ReferenceKind::Secret, "team", "clients");
        assert!(wanted(&objects, false).contains(&secret) && wanted(&objects, true).contains(&secret));
        let access = |references| plan_input(&objects, &references).federations.remove(0).access;
        assert!(matches!(access(References::default()), Access::Closed(_)));
        let values = [("alice".to_owned(), b"one".to_vec())].into();
        let references = [(secret, Content::Found(values))].into_iter().collect();
        assert!(matches!(access(references), Access::ApiKeys(_)));
    }

    #[test]
    fn gateways_read_only_what_they_send() {
        let secret = |name| Reference::new(ReferenceKind::Secret, "team", name);
        assert_eq!(wanted(&objects(), false), BTreeSet::from([secret("keys")]));
        assert_eq!(
            wanted(&objects(), true),
            BTreeSet::from([secret("keys"), secret("pods")])
        );
    }
}
