//! The rights that the chart grants, compared with those that the operator uses: what the API server's audit log
//! holds of everything that ran before, and of a server that meets every turn of events here.

use std::collections::BTreeSet;
use std::fmt;
use std::path::Path;

use serde::Deserialize;
use serde_json::Value;

use crate::install::{SYSTEM, operator};
use crate::node::{apply, helm, kubectl, namespace, try_kubectl, until, wait_for};
use crate::servers::{everything, federation, remote};

/// Rights that are needed although the log does not show them, and why.
const UNSEEN: [(&str, &str); 2] = [
    (
        "create deployments.apps",
        "an apply that makes an object needs it, and is logged as patch",
    ),
    (
        "create services",
        "an apply that makes an object needs it, and is logged as patch",
    ),
];

pub(crate) fn what_is_granted_is_what_is_used() {
    operator();
    live_through_every_turn();
    let audited = audited("system:serviceaccount:mcpfleet-system:mcpfleet");
    assert_eq!(
        audited.refused,
        BTreeSet::new(),
        "asked for, but not granted, by any install"
    );

    let granted = granted("mcpfleet", SYSTEM);
    let unseen: BTreeSet<_> = UNSEEN.iter().map(|(right, _)| (*right).to_owned()).collect();
    let unused: BTreeSet<_> = granted.difference(&audited.used).map(Right::to_string).collect();
    let unexplained: Vec<_> = unused.difference(&unseen).collect();
    assert!(unexplained.is_empty(), "granted, but not used: {unexplained:?}");
    let gone: Vec<_> = unseen
        .iter()
        .filter(|right| !granted.iter().any(|granted| granted.to_string() == **right))
        .collect();
    assert!(gone.is_empty(), "explained, but not granted: {gone:?}");
}

fn live_through_every_turn() {
    namespace("turns");
    kubectl("--namespace=turns create secret generic keys --from-literal=token=a");
    kubectl("--namespace=turns create configmap modes --from-literal=mode=a");
    let with_references = everything("turning", "")
        + "    env:
    - {name: TOKEN, valueFrom: {secretKeyRef: {name: keys, key: token}}}
    - {name: MODE, valueFrom: {configMapKeyRef: {name: modes, key: mode}}}
";
    apply("turns", &federation("tools", &["turning"], ""));
    // An image that is not there, and its cause; then one that is.
    apply(
        "turns",
        &with_references.replace("local/mcp-everything:1", "local/missing:1"),
    );
    wait_for("turns", "--for=condition=Available=false mcpserver/turning");
    apply("turns", &with_references);
    wait_for("turns", "--for=condition=Ready mcpserver/turning mcpfederation/tools");

    // The next leader finds everything as it is.
    kubectl(&format!("--namespace={SYSTEM} rollout restart deployment/mcpfleet"));
    kubectl(&format!(
        "--namespace={SYSTEM} rollout status deployment/mcpfleet --timeout=2m"
    ));

    // A server that moves out of the cluster needs no workload any more.
    kubectl("--namespace=turns delete mcpserver/turning --wait");
    apply("turns", &everything("moving", ""));
    wait_for("turns", "--for=condition=Ready mcpserver/moving");
    apply("turns", &remote("moving", "http://mcp.example.com/mcp"));
    until("the workload is gone", || {
        try_kubectl("--namespace=turns get deployment/moving").is_err()
    });
}

/// One thing that may be done to one kind of object.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Right {
    verb: String,
    resource: String,
    group: String,
}

impl fmt::Display for Right {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} {}", self.verb, self.resource)?;
        if self.group.is_empty() {
            Ok(())
        } else {
            write!(formatter, ".{}", self.group)
        }
    }
}

/// What was asked of the API server.
#[derive(Debug, Default)]
struct Audited {
    /// By one account.
    used: BTreeSet<Right>,
    /// To whomever.
    refused: BTreeSet<String>,
}

fn audited(account: &str) -> Audited {
    let log = Path::new(&std::env::var_os("STATE").unwrap()).join("log/audit.log");
    let mut audited = Audited::default();
    for line in std::fs::read_to_string(log).unwrap().lines() {
        let event: Value = serde_json::from_str(line).unwrap();
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let [user, verb, uri] = [&event["user"]["username"], &event["verb"], &event["requestURI"]].map(text);
        if event["annotations"]["authorization.k8s.io/decision"] == "forbid" {
            audited.refused.insert(format!("{user}: {verb} {uri}"));
        } else if user == account && event["objectRef"]["resource"].is_string() {
            let [resource, subresource, group] =
                ["resource", "subresource", "apiGroup"].map(|part| text(&event["objectRef"][part]));
            audited.used.insert(Right {
                verb,
                resource: [resource, subresource].join("/").trim_end_matches('/').to_owned(),
                group,
            });
        }
    }
    audited
}

/// What the roles of a release allow its ServiceAccount, the roles for people left out.
fn granted(release: &str, namespace: &str) -> BTreeSet<Right> {
    let manifest = helm(&["get", "manifest", release, "--namespace", namespace]);
    let objects: Vec<Value> = serde_yaml::Deserializer::from_str(&manifest)
        .map(|document| Value::deserialize(document).unwrap())
        .collect();
    let bound: BTreeSet<_> = objects
        .iter()
        .filter_map(|object| object["roleRef"]["name"].as_str())
        .collect();
    let roles = objects.iter().filter(|object| object["rules"].is_array());
    let mut granted = BTreeSet::new();
    for role in roles.filter(|role| bound.contains(role["metadata"]["name"].as_str().unwrap())) {
        for rule in role["rules"].as_array().unwrap() {
            let list = |name: &str| {
                rule[name]
                    .as_array()
                    .unwrap()
                    .iter()
                    .map(|item| item.as_str().unwrap().to_owned())
                    .collect::<Vec<_>>()
            };
            for group in list("apiGroups") {
                for resource in list("resources") {
                    granted.extend(list("verbs").into_iter().map(|verb| Right {
                        verb,
                        resource: resource.clone(),
                        group: group.clone(),
                    }));
                }
            }
        }
    }
    granted
}
