//! The Helm chart, rendered by a real Helm.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use assert_json_diff::{CompareMode, Config, NumericMode, assert_json_matches};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::PodSpec;
use kube::ResourceExt;
use serde::Deserialize;
use serde_json::Value;

use crate::support::skip::skip;

/// Sets of values that the chart is linted and rendered with.
const VALUE_SETS: [&[&str]; 4] = [
    &[],
    &[
        "crds.keep=false",
        "logging.format=text",
        "replicas=2",
        "serviceMonitor.enabled=true",
    ],
    &[
        "crds.install=false",
        "userRoles.view=false",
        "watchNamespaces={team-a,team-b}",
        "class=blue",
    ],
    &[
        "rbac.create=false",
        "serviceAccount.create=false",
        "serviceAccount.name=other",
        "userRoles.edit=true",
    ],
];

#[test]
fn lint_finds_nothing() {
    let Some(helm) = Helm::find() else { return };
    for values in VALUE_SETS {
        let output = helm.run("lint", &["--strict", chart().to_str().unwrap()], values);
        assert!(output.status.success(), "{values:?}: {}", text(&output));
    }
}

#[test]
fn every_set_of_values_renders_objects_in_the_right_namespace() {
    let Some(helm) = Helm::find() else { return };
    for values in VALUE_SETS {
        for object in helm.render(values) {
            let namespaced =
                !["ClusterRole", "ClusterRoleBinding", "CustomResourceDefinition"].contains(&object.kind());
            assert_eq!(object.namespace().is_some(), namespaced, "{values:?}: {}", object.id());
        }
    }
}

#[test]
fn a_plain_install_renders_as_recorded() {
    let Some(helm) = Helm::find() else { return };
    recorded(|| insta::assert_snapshot!(helm.template(&["crds.install=false"])));
}

#[test]
fn a_namespaced_install_renders_as_recorded() {
    let Some(helm) = Helm::find() else { return };
    let rendered = helm.template(&[
        "crds.install=false",
        "userRoles.view=false",
        "watchNamespaces={team-a,team-b,team-a}",
        "class=blue",
        "replicas=2",
        "serviceMonitor.enabled=true",
        "serviceMonitor.labels.release=prometheus",
        "publicURL=https://mcp.example.com",
        "extraArgs={--default-federation=team-a/tools}",
    ]);
    recorded(|| insta::assert_snapshot!(rendered));
}

#[test]
fn a_namespaced_install_needs_no_cluster_wide_rights() {
    let Some(helm) = Helm::find() else { return };
    let objects = helm.render(&["crds.install=false", "userRoles.view=false", "watchNamespaces={team-a}"]);
    let outside: Vec<_> = objects
        .iter()
        .filter(|object| object.namespace().is_none())
        .map(Object::id)
        .collect();
    assert_eq!(outside, Vec::<String>::new());
}

#[test]
fn definitions_are_those_of_the_program() {
    let generated = mcpfleet::commands::crds::files().unwrap();
    for file in &generated {
        let path = chart().join("files/crds").join(&file.name);
        if std::env::var_os("UPDATE").is_some() {
            std::fs::write(&path, &file.yaml).unwrap();
        }
        let is_same = std::fs::read_to_string(&path).unwrap_or_default() == file.yaml;
        assert!(is_same, "{} is not up to date; UPDATE=1 writes it anew", path.display());
    }
    let files = std::fs::read_dir(chart().join("files/crds")).unwrap();
    assert_eq!(files.count(), generated.len());
}

#[test]
fn definitions_come_through_the_template_unchanged() {
    let Some(helm) = Helm::find() else { return };
    let rendered = definitions(&helm.render(&[]));
    for definition in mcpfleet::api::definitions() {
        let expected = serde_json::to_value(&definition.spec).unwrap();
        assert_json_matches!(
            rendered[&definition.name_any()]["spec"],
            expected,
            Config::new(CompareMode::Strict).numeric_mode(NumericMode::AssumeFloat)
        );
    }
}

#[test]
fn definitions_are_kept_unless_told_otherwise() {
    let Some(helm) = Helm::find() else { return };
    for (values, policy) in [(&[][..], Some("keep")), (&["crds.keep=false"][..], None)] {
        for definition in definitions(&helm.render(values)).values() {
            assert_eq!(
                definition["metadata"]["annotations"]["helm.sh/resource-policy"].as_str(),
                policy
            );
        }
    }
    assert_eq!(definitions(&helm.render(&["crds.install=false"])).len(), 0);
}

#[test]
fn pods_meet_the_restricted_pod_security_standard() {
    let Some(helm) = Helm::find() else { return };
    let pod = pod(&helm.render(&[]));
    let of_pod = pod.security_context.unwrap();
    assert_eq!(of_pod.run_as_non_root, Some(true));
    assert_eq!(of_pod.run_as_user, Some(65532));
    assert_eq!(of_pod.seccomp_profile.unwrap().type_, "RuntimeDefault");
    let of_container = pod.containers[0].security_context.clone().unwrap();
    assert_eq!(of_container.allow_privilege_escalation, Some(false));
    assert_eq!(of_container.read_only_root_filesystem, Some(true));
    assert_eq!(of_container.capabilities.unwrap().drop, Some(vec!["ALL".to_owned()]));
}

#[test]
fn the_grace_period_covers_the_drain() {
    let Some(helm) = Helm::find() else { return };
    for (values, expected) in [(&[][..], 35), (&["drainSeconds=60"][..], 70)] {
        assert_eq!(
            pod(&helm.render(values)).termination_grace_period_seconds,
            Some(expected)
        );
    }
}

#[test]
fn the_image_takes_registry_tag_and_digest() {
    let Some(helm) = Helm::find() else { return };
    let digest = format!("sha256:{}", "a".repeat(64));
    let with_digest = format!("image.digest={digest}");
    for (values, expected) in [
        (&[][..], format!("mcpfleet/mcpfleet:{}", env!("CARGO_PKG_VERSION"))),
        (&["image.tag=v2", "image.repository=mine"][..], "mine:v2".to_owned()),
        (
            &[
                "global.imageRegistry=registry.example:5000/a",
                "image.tag=v2",
                &with_digest,
            ][..],
            format!("registry.example:5000/a/mcpfleet/mcpfleet@{digest}"),
        ),
    ] {
        assert_eq!(pod(&helm.render(values)).containers[0].image, Some(expected));
    }
}

#[test]
fn a_disruption_budget_comes_with_the_second_replica() {
    let Some(helm) = Helm::find() else { return };
    for (values, expected) in [("replicas=0", 0), ("replicas=1", 0), ("replicas=2", 1)] {
        let objects = helm.render(&[values]);
        let budgets = objects.iter().filter(|object| object.kind() == "PodDisruptionBudget");
        assert_eq!(budgets.count(), expected, "{values}");
    }
}

#[test]
fn wrong_values_are_refused_by_their_name() {
    let Some(helm) = Helm::find() else { return };
    for (value, expected) in [
        ("replicaCount=2", "additional properties 'replicaCount' not allowed"),
        ("image.name=x", "at '/image': additional properties 'name' not allowed"),
        ("image.digest=latest", "at '/image/digest'"),
        ("replicas=-1", "at '/replicas'"),
        ("drainSeconds=25s", "at '/drainSeconds'"),
        ("watchNamespaces={Team}", "at '/watchNamespaces/0'"),
        ("watchNamespaces=team", "at '/watchNamespaces'"),
        ("imagePullSecrets={pull}", "at '/imagePullSecrets/0'"),
        ("publicURL=mcp.example.com", "at '/publicURL'"),
        ("service.type=ExternalName", "at '/service/type'"),
        ("logging.format=yaml", "at '/logging/format'"),
        (
            "serviceAccount.create=false",
            "serviceAccount.name is needed when serviceAccount.create is false",
        ),
    ] {
        let output = helm.run("template", &["mcpfleet", chart().to_str().unwrap()], &[value]);
        assert!(!output.status.success(), "{value} was taken");
        assert!(text(&output).contains(expected), "{value}: {}", text(&output));
    }
}

#[test]
fn a_parent_chart_may_share_globals_and_a_condition() {
    let Some(helm) = Helm::find() else { return };
    helm.template(&["enabled=true", "global.storageClass=fast"]);
}

#[test]
fn the_chart_has_the_version_of_the_program() {
    let chart: Value = serde_yaml::from_str(&read("Chart.yaml")).unwrap();
    assert_eq!(chart["appVersion"], env!("CARGO_PKG_VERSION"));
    assert_eq!(chart["version"], env!("CARGO_PKG_VERSION"));
}

#[test]
fn every_value_has_a_default_a_schema_and_a_line_in_the_readme() {
    let values: Value = serde_yaml::from_str(&read("values.yaml")).unwrap();
    let schema: Value = serde_json::from_str(&read("values.schema.json")).unwrap();
    let mut described: Vec<_> = schema["properties"].as_object().unwrap().keys().collect();
    described.retain(|key| *key != "enabled"); // belongs to parent charts
    let defaults: Vec<_> = values.as_object().unwrap().keys().collect();
    assert_eq!(sorted(&defaults), sorted(&described));
    let readme = read("README.md");
    for key in defaults {
        let in_table = readme.lines().filter(|line| line.starts_with("| `"));
        assert!(
            in_table.clone().any(|line| line.contains(&format!("`{key}"))),
            "{key} is not in the README's table"
        );
    }
}

/// The Helm that `tests/cluster/build.sh` makes.
struct Helm(PathBuf);

impl Helm {
    fn find() -> Option<Self> {
        let cache = std::env::var_os("CACHE").map(PathBuf::from);
        let home = std::env::var_os("HOME").map(|home| Path::new(&home).join(".cache/mcpfleet-testcluster"));
        let helm = cache
            .or(home)
            .map(|cache| cache.join("bin/helm"))
            .filter(|helm| helm.is_file());
        if helm.is_none() {
            skip("helm: build it once with PROGRAMS=helm tests/cluster/build.sh");
        }
        helm.map(Self)
    }

    /// The objects of an install, and no error.
    fn render(&self, values: &[&str]) -> Vec<Object> {
        serde_yaml::Deserializer::from_str(&self.template(values))
            .map(|document| Value::deserialize(document).unwrap())
            .filter(|document| !document.is_null())
            .map(Object)
            .collect()
    }

    fn template(&self, values: &[&str]) -> String {
        let output = self.run(
            "template",
            &["mcpfleet", chart().to_str().unwrap(), "--namespace=system"],
            values,
        );
        assert!(output.status.success(), "{values:?}: {}", text(&output));
        String::from_utf8(output.stdout).unwrap()
    }

    fn run(&self, command: &str, arguments: &[&str], values: &[&str]) -> Output {
        let values = values.iter().flat_map(|value| ["--set", value]);
        Command::new(&self.0)
            .arg(command)
            .args(arguments)
            .args(values)
            .output()
            .unwrap()
    }
}

/// A rendered object.
struct Object(Value);

impl Object {
    fn kind(&self) -> &str {
        self.0["kind"].as_str().unwrap()
    }

    fn name(&self) -> &str {
        self.0["metadata"]["name"].as_str().unwrap()
    }

    fn namespace(&self) -> Option<&str> {
        self.0["metadata"]["namespace"].as_str()
    }

    fn id(&self) -> String {
        format!("{}/{}", self.kind(), self.name())
    }
}

/// Compares with the file beside this one that bears the test's name; INSTA_UPDATE=always writes it.
fn recorded(compare: impl FnOnce()) {
    let mut settings = insta::Settings::clone_current();
    settings.set_omit_expression(true);
    settings.bind(compare);
}

fn definitions(objects: &[Object]) -> BTreeMap<String, Value> {
    let definitions = objects
        .iter()
        .filter(|object| object.kind() == "CustomResourceDefinition");
    definitions
        .map(|object| (object.name().to_owned(), object.0.clone()))
        .collect()
}

fn pod(objects: &[Object]) -> PodSpec {
    let deployment = objects.iter().find(|object| object.kind() == "Deployment").unwrap();
    let deployment: Deployment = serde_json::from_value(deployment.0.clone()).unwrap();
    deployment.spec.unwrap().template.spec.unwrap()
}

fn chart() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("charts/mcpfleet")
}

fn read(file: &str) -> String {
    std::fs::read_to_string(chart().join(file)).unwrap()
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

fn sorted<'a>(keys: &[&'a String]) -> Vec<&'a String> {
    let mut keys = keys.to_vec();
    keys.sort();
    keys
}
