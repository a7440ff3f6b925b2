//! Installing, sharing a cluster, uninstalling.

use std::sync::OnceLock;

use serde_json::json;

use crate::client::{self, Era};
use crate::node::{apply, chart, fetch, helm, kubectl, namespace, object, try_kubectl, until, wait_for};
use crate::servers;

/// Namespace of the first install, which serves the whole cluster.
pub(crate) const SYSTEM: &str = "mcpfleet-system";

/// Installs the chart as the README says, the first time it is asked for.
pub(crate) fn operator() {
    static INSTALLED: OnceLock<()> = OnceLock::new();
    INSTALLED.get_or_init(|| install("mcpfleet", SYSTEM, &["--create-namespace"]));
}

pub(crate) fn the_chart_installs_and_the_operator_is_ready() {
    operator();
    for page in ["livez", "readyz"] {
        admin_page(page);
    }
    assert!(metrics().contains("# TYPE mcpfleet_"), "{}", metrics());
    let lease = object(SYSTEM, "lease/mcpfleet");
    let holder = lease["spec"]["holderIdentity"].as_str().unwrap();
    assert!(holder.starts_with("mcpfleet-"), "held by {holder}");
}

/// An install for some namespaces has no cluster-wide rights, and serves objects of its class alone.
pub(crate) fn two_installs_share_a_cluster_by_class() {
    operator();
    namespace("team-blue");
    install(
        "blue",
        "blue-system",
        &[
            "--create-namespace",
            "--set=class=blue,watchNamespaces={team-blue}",
            "--set=crds.install=false,userRoles.view=false",
        ],
    );
    apply("team-blue", &servers::everything("own", "blue"));
    apply("team-blue", &servers::federation("tools", &["own"], "blue"));
    wait_for("team-blue", "--for=condition=Ready mcpserver/own mcpfederation/tools");

    let here = gateway("blue-system", "blue-mcpfleet", "team-blue", "tools");
    let answer = client::call(&here, Era::Modern, "own__greet", json!({"name": "Blue"}));
    assert_eq!(answer, "Hi Blue");
    let there = gateway(SYSTEM, "mcpfleet", "team-blue", "tools");
    let refused = fetch(&there).unwrap_err();
    assert!(refused.contains("404"), "the other install answers for it: {refused}");
}

/// Definitions stay, and a release of another name takes them over; with `crds.keep=false` they go.
pub(crate) fn uninstalling_leaves_what_was_to_be_kept() {
    operator();
    namespace("kept");
    apply("kept", &servers::everything("hello", ""));
    wait_for("kept", "--for=condition=Ready mcpserver/hello");
    let before = object("kept", "deployment/hello")["metadata"]["uid"].clone();

    helm(&["uninstall", "mcpfleet", "--namespace", SYSTEM, "--wait"]);
    assert_eq!(
        object("kept", "deployment/hello")["metadata"]["uid"],
        before,
        "the workload went"
    );

    install("second", SYSTEM, &["--take-ownership"]);
    kubectl("--namespace=kept annotate mcpserver/hello test=seen");
    wait_for("kept", "--for=condition=Ready mcpserver/hello");
    assert_eq!(
        object("kept", "deployment/hello")["metadata"]["uid"],
        before,
        "the workload was replaced"
    );

    let chart = chart();
    helm(&[
        "upgrade",
        "second",
        chart.to_str().unwrap(),
        "--namespace",
        SYSTEM,
        "--reuse-values",
        "--set=crds.keep=false",
    ]);
    helm(&["uninstall", "second", "--namespace", SYSTEM, "--wait"]);
    until("the definitions are gone", || {
        try_kubectl("get mcpservers --all-namespaces").is_err()
    });
    until("the workload is gone", || {
        try_kubectl("--namespace=kept get deployment/hello").is_err()
    });
}

/// What the first install's metrics page says.
pub(crate) fn metrics() -> String {
    admin_page("metrics")
}

fn admin_page(page: &str) -> String {
    let pods = object(SYSTEM, "endpoints/mcpfleet-admin");
    let address = pods["subsets"][0]["addresses"][0]["ip"].as_str().unwrap();
    fetch(&format!("http://{address}:9090/{page}")).unwrap()
}

/// The address of a federation's endpoint at the gateway's Service.
pub(crate) fn gateway(system: &str, service: &str, namespace: &str, federation: &str) -> String {
    let address = object(system, &format!("service/{service}"))["spec"]["clusterIP"].clone();
    format!("http://{}:8080/{namespace}/{federation}/mcp", address.as_str().unwrap())
}

fn install(release: &str, namespace: &str, arguments: &[&str]) {
    let chart = chart();
    let common = [
        "install",
        release,
        chart.to_str().unwrap(),
        "--namespace",
        namespace,
        "--wait",
        "--timeout=2m",
        "--set=image.repository=local/mcpfleet,image.tag=test",
    ];
    helm(&[&common, arguments].concat());
}
