//! From a manifest to an answered call, and back.

use std::net::TcpListener;
use std::time::Duration;

use serde_json::json;
use tokio::time::Instant;

use crate::client::{self, Era};
use crate::install::{SYSTEM, gateway, metrics, operator};
use crate::node::{
    ADDRESS as NODE, apply, condition, kubectl, namespace, object, try_apply, try_kubectl, until, wait_for,
};

/// The everything server of the official Go SDK, which serves MCP at any path.
pub(crate) fn everything(name: &str, class: &str) -> String {
    format!(
        "apiVersion: mcpfleet.dev/v1alpha1
kind: MCPServer
metadata: {{name: {name}}}
spec:
  class: '{class}'
  container:
    image: local/mcp-everything:1
    args: ['-http', ':8080']
    transport: {{type: StreamableHTTP}}
"
    )
}

/// A server that runs elsewhere.
pub(crate) fn remote(name: &str, url: &str) -> String {
    format!(
        "apiVersion: mcpfleet.dev/v1alpha1
kind: MCPServer
metadata: {{name: {name}}}
spec: {{remote: {{url: '{url}'}}}}
"
    )
}

/// A federation of these servers, open to everyone.
pub(crate) fn federation(name: &str, servers: &[&str], class: &str) -> String {
    let member = |server: &&str| format!("{{name: {server}, server: {{name: {server}}}}}");
    let members: Vec<_> = servers.iter().map(member).collect();
    format!(
        "apiVersion: mcpfleet.dev/v1alpha1
kind: MCPFederation
metadata: {{name: {name}}}
spec:
  class: '{class}'
  members: [{}]
  access: {{anonymous: {{}}}}
",
        members.join(", ")
    )
}

pub(crate) fn kubectl_explains_every_field() {
    operator();
    // The API server publishes the schemas of new definitions a moment later.
    until("the schemas are published", || try_kubectl("explain mcpserver").is_ok());
    for (resource, field) in [
        ("mcpserver.spec", "container"),
        ("mcpserver.spec.container.transport", "path"),
        ("mcpserver.status", "conditions"),
        ("mcpfederation.spec.members", "prefix"),
    ] {
        let explanation = kubectl(&format!("explain {resource}"));
        assert!(explanation.contains(field), "{explanation}");
        let undescribed = explanation.matches("<no description>").count();
        assert_eq!(undescribed, 0, "{explanation}");
    }
}

pub(crate) fn an_invalid_server_is_refused_with_the_fix() {
    operator();
    namespace("invalid");
    let both = everything("both", "") + "  remote: {url: 'https://mcp.example.com/mcp'}\n";
    let error = try_apply("invalid", &both).unwrap_err();
    assert!(
        error.contains("spec") && error.contains("exactly one of container, package"),
        "{error}"
    );
    let misspelt = everything("misspelt", "").replace("args:", "arg:");
    let error = try_apply("invalid", &misspelt).unwrap_err();
    assert!(error.contains("unknown field \"spec.container.arg\""), "{error}");
}

pub(crate) fn a_container_server_is_served_to_real_clients() {
    operator();
    namespace("served");
    apply("served", &everything("hello", ""));
    apply("served", &federation("tools", &["hello"], ""));
    wait_for("served", "--for=condition=Ready mcpserver/hello mcpfederation/tools");

    let rows = kubectl("--namespace=served get mcps");
    let columns: Vec<_> = rows.lines().flat_map(str::split_whitespace).collect();
    let (head, row) = columns.split_at(columns.len() / 2);
    assert_eq!(
        head,
        ["NAME", "READY", "REASON", "TOOLS", "ERA", "REPLICAS", "AGE"],
        "{rows}"
    );
    assert_eq!(
        (row[0], row[1], row[3], row[4], row[5]),
        ("hello", "True", "10", "Legacy", "1"),
        "{rows}"
    );
    let rows = kubectl("--namespace=served get mcpfed");
    assert!(
        rows.lines()
            .nth(1)
            .is_some_and(|row| row.contains("tools") && row.contains("True")),
        "{rows}"
    );

    let url = gateway(SYSTEM, "mcpfleet", "served", "tools");
    for era in [Era::Legacy, Era::Modern] {
        let tools = client::tools(&url, era);
        assert_eq!(tools.len(), 10, "{era:?}: {tools:?}");
        assert!(tools.contains(&"hello__greet".to_owned()), "{era:?}: {tools:?}");
        assert_eq!(
            client::call(&url, era, "hello__greet", json!({"name": "Ada"})),
            "Hi Ada",
            "{era:?}"
        );
    }

    // The published address, by name, from a pod.
    let published = object("served", "mcpfederation/tools")["status"]["url"].clone();
    let published = published.as_str().unwrap();
    kubectl(&format!(
        "--namespace=served run client --image=local/listfeatures:1 --restart=Never -- -http={published}"
    ));
    wait_for("served", "--for=jsonpath={.status.phase}=Succeeded pod/client");
    let listed = kubectl("--namespace=served logs client");
    assert!(listed.lines().any(|line| line.trim() == "hello__greet"), "{listed}");
}

/// One member is well, one has an image that is not there, one refuses connections, and one takes them and is silent.
/// A gateway that meets all four as it starts answers at once with what there is, and says who is sick.
pub(crate) fn sick_members_delay_nobody_and_are_named() {
    operator();
    namespace("sick");
    let silent = TcpListener::bind((NODE, 0)).unwrap();
    let silent_port = silent.local_addr().unwrap().port();
    apply("sick", &everything("well", ""));
    apply(
        "sick",
        &everything("absent", "").replace("local/mcp-everything:1", "local/missing:1"),
    );
    apply("sick", &remote("down", &format!("http://{NODE}:1/mcp")));
    apply("sick", &remote("silent", &format!("http://{NODE}:{silent_port}/mcp")));
    apply("sick", &federation("tools", &["well", "absent", "down", "silent"], ""));
    wait_for("sick", "--for=condition=Ready mcpserver/well mcpfederation/tools");

    restart_operator();
    let url = gateway(SYSTEM, "mcpfleet", "sick", "tools");
    for era in [Era::Legacy, Era::Modern] {
        let asked = Instant::now();
        assert_eq!(client::tools(&url, era).len(), 10, "{era:?}");
        assert!(
            asked.elapsed() < Duration::from_secs(2),
            "{era:?}: {:?}",
            asked.elapsed()
        );
    }

    wait_for("sick", "--for=condition=Degraded mcpfederation/tools");
    for (server, reason) in [
        ("absent", "ImagePullBackOff"),
        ("down", "ConnectFailed"),
        ("silent", "Timeout"),
    ] {
        until(&format!("{server} is not ready: {reason}"), || {
            condition("sick", &format!("mcpserver/{server}"), "Ready") == ("False".to_owned(), reason.to_owned())
        });
    }
    let metrics = metrics();
    for (server, up) in [("well", 1), ("absent", 0), ("down", 0), ("silent", 0)] {
        let line = format!("mcpfleet_upstream_up{{server=\"sick/{server}\"}} {up}");
        assert!(metrics.lines().any(|told| told == line), "{line} is not in {metrics}");
    }
}

pub(crate) fn a_deleted_server_takes_its_workload_along() {
    operator();
    namespace("deleted");
    apply("deleted", &everything("hello", ""));
    apply("deleted", &federation("tools", &["hello"], ""));
    wait_for("deleted", "--for=condition=Ready mcpserver/hello mcpfederation/tools");
    let url = gateway(SYSTEM, "mcpfleet", "deleted", "tools");
    assert_eq!(client::tools(&url, Era::Legacy).len(), 10);

    kubectl("--namespace=deleted delete mcpserver/hello");
    for workload in ["deployment/hello", "service/hello"] {
        until(&format!("{workload} is gone"), || {
            try_kubectl(&format!("--namespace=deleted get {workload}")).is_err()
        });
    }
    until("its tools are gone", || client::tools(&url, Era::Legacy).is_empty());
}

/// Restarts the operator, and waits until the replica before is gone: it leads, and writes what it sees into status,
/// while it takes no new clients any more.
fn restart_operator() {
    let selector = "--selector=app.kubernetes.io/instance=mcpfleet";
    let before = kubectl(&format!("--namespace={SYSTEM} get pods {selector} --output=name"));
    kubectl(&format!("--namespace={SYSTEM} rollout restart deployment/mcpfleet"));
    kubectl(&format!(
        "--namespace={SYSTEM} rollout status deployment/mcpfleet --timeout=2m"
    ));
    for pod in before.lines() {
        kubectl(&format!("--namespace={SYSTEM} wait --for=delete {pod} --timeout=1m"));
    }
}
