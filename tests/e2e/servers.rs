//! From a manifest to an answered call, and back.

use serde_json::json;

use crate::client::{self, Era};
use crate::install::{SYSTEM, gateway, operator};
use crate::node::{apply, kubectl, namespace, object, try_apply, try_kubectl, until, wait_for};

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

/// A federation with one member, open to everyone.
pub(crate) fn federation(name: &str, server: &str, class: &str) -> String {
    format!(
        "apiVersion: mcpfleet.dev/v1alpha1
kind: MCPFederation
metadata: {{name: {name}}}
spec:
  class: '{class}'
  members: [{{name: {server}, server: {{name: {server}}}}}]
  access: {{anonymous: {{}}}}
"
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
    apply("served", &federation("tools", "hello", ""));
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

pub(crate) fn a_broken_image_is_named_and_harms_nobody() {
    operator();
    namespace("broken");
    apply("broken", &everything("well", ""));
    apply(
        "broken",
        &everything("sick", "").replace("local/mcp-everything:1", "local/missing:1"),
    );
    let both = federation("tools", "well", "").replace("}}]", "}}, {name: sick, server: {name: sick}}]");
    apply("broken", &both);
    wait_for("broken", "--for=condition=Ready mcpserver/well mcpfederation/tools");
    wait_for("broken", "--for=condition=Degraded mcpfederation/tools");
    until("the cause is in the status", || {
        let conditions = object("broken", "mcpserver/sick")["status"]["conditions"].to_string();
        conditions.contains("ImagePullBackOff")
            || conditions.contains("ErrImagePull")
            || conditions.contains("ErrImageNeverPull")
    });
    let tools = client::tools(&gateway(SYSTEM, "mcpfleet", "broken", "tools"), Era::Legacy);
    assert_eq!(tools.len(), 10, "{tools:?}");
}

pub(crate) fn a_deleted_server_takes_its_workload_along() {
    operator();
    namespace("deleted");
    apply("deleted", &everything("hello", ""));
    apply("deleted", &federation("tools", "hello", ""));
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
