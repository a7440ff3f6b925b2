use crate::manifest::{File, Options, Problem, Reading, read};

fn reading(documents: &[&str]) -> Reading {
    let text = documents.join("\n---\n");
    read(
        &[File {
            name: "a.yaml".into(),
            text,
        }],
        &Options {
            loopback: true,
            had_federation: false,
            ..Options::default()
        },
    )
}

fn problems(documents: &[&str]) -> Vec<String> {
    let problems = reading(documents)
        .manifests
        .err()
        .map(|problems| problems.0)
        .unwrap_or_default();
    problems.iter().map(Problem::to_string).collect()
}

fn server(namespace: &str, rest: &str) -> String {
    format!(
        "apiVersion: mcpfleet.dev/v1alpha1\nkind: MCPServer\nmetadata: {{name: github, namespace: {namespace}, labels: {{team: a}}}}\nspec:\n{rest}"
    )
}

fn federation(member: &str) -> String {
    format!(
        "apiVersion: mcpfleet.dev/v1alpha1\nkind: MCPFederation\nmetadata: {{name: tools}}\nspec:\n  members:\n  - {member}\n"
    )
}

const REMOTE: &str = "  remote: {url: \"https://a\"}\n";

#[test]
fn a_member_of_no_server_is_an_error_with_the_nearest_name() {
    let problem = problems(&[
        &server("default", REMOTE),
        &federation("{name: a, server: {name: gihub}}"),
    ]);
    assert_eq!(
        problem,
        [
            "a.yaml:13: spec.members[0].server.name: there is no MCPServer default/gihub in any file; did you mean `github`?"
        ]
    );
    let problem = problems(&[
        &server("default", REMOTE),
        &federation("{name: a, server: {name: files}}"),
    ]);
    assert!(
        problem[0].ends_with("in any file; add the file that has the MCPServer"),
        "{problem:?}"
    );
    let problem = problems(&[
        &server("other", REMOTE),
        &federation("{name: a, server: {name: github}}"),
    ]);
    assert!(
        problem[0].ends_with("but one in namespace other; add `namespace: other`"),
        "{problem:?}"
    );
}

#[test]
fn a_member_that_will_not_come_is_a_warning() {
    let member = federation("{name: a, server: {name: github, namespace: other}}");
    let reading_one = reading(&[&server("other", REMOTE), &member]);
    assert!(reading_one.manifests.is_ok());
    assert!(
        reading_one.warnings[0]
            .message
            .contains("set spec.federation.allowedNamespaces there")
    );
    let open = server(
        "other",
        &format!("{REMOTE}  federation: {{allowedNamespaces: {{from: All}}}}\n"),
    );
    assert_eq!(reading(&[&open, &member]).warnings, []);
    let chosen = |label: &str| {
        let policy = format!("{{from: Selector, selector: {{matchLabels: {{{label}}}}}}}");
        server(
            "other",
            &format!("{REMOTE}  federation: {{allowedNamespaces: {policy}}}\n"),
        )
    };
    let by_name = chosen("kubernetes.io/metadata.name: default");
    assert_eq!(reading(&[&by_name, &member]).warnings, []);
    for label in ["team: red", "kubernetes.io/metadata.name: another"] {
        let kept_out = reading(&[&chosen(label), &member]).warnings;
        let told = kept_out[0].to_string();
        assert!(told.contains("by labels that default does not have"), "{told}");
        let fix = "or to {from: Selector, selector: {matchLabels: {kubernetes.io/metadata.name: default}}}";
        assert!(told.ends_with(fix), "{told}");
    }
    let selector = |label: &str| federation(&format!("{{name: a, selector: {{matchLabels: {{team: {label}}}}}}}"));
    assert_eq!(reading(&[&server("default", REMOTE), &selector("a")]).warnings, []);
    let none = reading(&[&server("default", REMOTE), &selector("b")]).warnings;
    assert!(
        none[0]
            .to_string()
            .ends_with("spec.members[0].selector: no server in namespace default has these labels"),
        "{none:?}"
    );
}

#[test]
fn values_that_are_in_no_file_are_an_error() {
    let package = "  package:
    runner: npm
    name: a
    version: 1.0.0
    env:
    - {name: A, valueFrom: {secretKeyRef: {name: token, key: kee}}}
    - {name: B, valueFrom: {secretKeyRef: {name: tokn, key: key}}}
    - {name: C, valueFrom: {configMapKeyRef: {name: nowhere, key: key}}}
    - {name: D, valueFrom: {configMapKeyRef: {name: nowhere, key: key, optional: true}}}
    envFrom:
    - secretRef: {name: token}
    - configMapRef: {name: nowhere}
    - configMapRef: {name: nowhere, optional: true}
";
    let secret = "apiVersion: v1\nkind: Secret\nmetadata: {name: token}\nstringData: {key: x}";
    let told = problems(&[&server("default", package), secret]);
    assert_eq!(
        told,
        [
            "a.yaml:10: spec.package.env[0].valueFrom.secretKeyRef.key: Secret default/token has no key `kee`; did you mean `key`?",
            "a.yaml:11: spec.package.env[1].valueFrom.secretKeyRef.name: there is no Secret default/tokn in any file; did you mean `token`?, or set optional: true",
            "a.yaml:12: spec.package.env[2].valueFrom.configMapKeyRef.name: there is no ConfigMap default/nowhere in any file; add the file that has the ConfigMap, or set optional: true",
            "a.yaml:16: spec.package.envFrom[1].configMapRef.name: there is no ConfigMap default/nowhere in any file; add the file that has the ConfigMap, or set optional: true",
        ]
    );
    let elsewhere = problems(&[&server("other", package), secret]);
    assert_eq!(
        elsewhere.len(),
        5,
        "a Secret of another namespace is no help: {elsewhere:?}"
    );
    let disabled = format!("{package}  disabled: true\n");
    assert_eq!(
        problems(&[&server("default", &disabled), secret]),
        Vec::<String>::new(),
        "a disabled server needs nothing"
    );
}

#[test]
fn headers_are_values_too() {
    let remote = "  remote:\n    url: https://a\n    headers:\n    - name: Authorization\n      valueFrom: {secretKeyRef: {name: token, key: key}}\n";
    let told = problems(&[&server("default", remote)]);
    assert!(
        told[0].starts_with(
            "a.yaml:9: spec.remote.headers[0].valueFrom.secretKeyRef.name: there is no Secret default/token"
        ),
        "{told:?}"
    );
}

#[test]
fn api_keys_of_no_secret_are_an_error() {
    let federation = "apiVersion: mcpfleet.dev/v1alpha1\nkind: MCPFederation\nmetadata: {name: tools}\nspec:\n  access:\n    apiKeys: {secretRef: {name: kyes}}\n";
    let secret = "apiVersion: v1\nkind: Secret\nmetadata: {name: keys}\nstringData: {alice: one}\n";
    assert_eq!(
        problems(&[federation, secret]),
        [
            "a.yaml:6: spec.access.apiKeys.secretRef.name: there is no Secret default/kyes in any file; did you mean `keys`?"
        ]
    );
    let elsewhere = secret.replace("name: keys", "name: kyes, namespace: other");
    assert_eq!(problems(&[federation, &elsewhere]).len(), 1);
    let here = secret.replace("keys", "kyes");
    assert_eq!(problems(&[federation, &here]), Vec::<String>::new());
}
