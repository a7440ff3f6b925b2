use super::*;
use crate::manifest::objects::Manifests;

const SERVER: &str = "apiVersion: mcpfleet.dev/v1alpha1
kind: MCPServer
metadata:
  name: github
spec:
  remote:
    url: https://mcp.example.com/mcp
";
const FEDERATION: &str = "apiVersion: mcpfleet.dev/v1alpha1
kind: MCPFederation
metadata: {name: tools}
spec:
  members:
  - name: gh
    server: {name: github}
";

fn reading(files: &[(&str, &str)], loopback: bool) -> Reading {
    let files: Vec<File> = files
        .iter()
        .map(|(name, text)| File {
            name: (*name).into(),
            text: (*text).into(),
        })
        .collect();
    read(
        &files,
        &Options {
            loopback,
            had_federation: false,
            ..Options::default()
        },
    )
}

fn good(files: &[(&str, &str)]) -> Manifests {
    let reading = reading(files, true);
    assert_eq!(reading.warnings, []);
    reading.manifests.unwrap()
}

fn bad(files: &[(&str, &str)]) -> Vec<String> {
    let problems = reading(files, true).manifests.unwrap_err().0;
    problems.iter().map(Problem::to_string).collect()
}

#[test]
fn objects_of_several_files_and_documents_are_read() {
    let rest = format!(
        "{FEDERATION}---\n# nothing\n---\napiVersion: v1\nkind: Secret\nmetadata: {{name: s}}\ndata: {{a: aGk=}}\nstringData: {{b: ho}}\n---\napiVersion: v1\nkind: ConfigMap\nmetadata: {{name: c, namespace: other}}\ndata: {{k: v}}\nbinaryData: {{b: AAE=}}\n"
    );
    let manifests = good(&[("a.yaml", SERVER), ("b.yaml", &rest)]);
    let server = &manifests.servers[0];
    assert_eq!(server.metadata.namespace.as_deref(), Some("default"));
    assert_eq!(server.spec.remote.as_ref().unwrap().url, "https://mcp.example.com/mcp");
    assert_eq!(manifests.federations[0].spec.members[0].name, "gh");
    let secret = &manifests.secrets[0];
    assert_eq!(
        (
            secret.namespace.as_str(),
            secret.data["a"].as_slice(),
            secret.data["b"].as_slice()
        ),
        ("default", &b"hi"[..], &b"ho"[..])
    );
    let config_map = &manifests.config_maps[0];
    assert_eq!(
        (
            config_map.namespace.as_str(),
            config_map.data["k"].as_slice(),
            config_map.data["b"].as_slice()
        ),
        ("other", &b"v"[..], &[0, 1][..])
    );
}

#[test]
fn json_and_lists_are_read() {
    let json = r#"{
      // as kubectl get -o json writes it, with a comment
      "apiVersion": "v1", "kind": "List", "metadata": {"resourceVersion": ""}, "items": [
        {"apiVersion": "mcpfleet.dev/v1alpha1", "kind": "MCPServer",
         "metadata": {"name": "github", "uid": "1", "resourceVersion": "5", "generation": 1,
           "creationTimestamp": "2026-11-30T00:00:00Z", "managedFields": [{"manager": "kubectl", "fieldsV1": {"f:spec": {}}}]},
         "spec": {"remote": {"url": "https://mcp.example.com/mcp"}}, "status": {"anything": 1}},
      ],
    }"#;
    assert_eq!(good(&[("a.json", json)]).servers.len(), 1);
    let broken = json.replace("\"url\"", "\"uri\"");
    let problems = bad(&[("a.json", &broken)]);
    assert_eq!(
        problems,
        [
            "a.json:7: spec.remote.url: is required",
            "a.json:7: spec.remote.uri: unknown field; did you mean `url`?"
        ]
    );
    assert_eq!(
        bad(&[("a.yaml", "kind: List\napiVersion: v1\n")])[0],
        "a.yaml:1: items: a List has its objects here; add them or remove the List"
    );
}

#[test]
fn all_problems_of_all_files_are_told_at_once() {
    let one = SERVER.replace("https://mcp.example.com/mcp", "mcp.example.com") + "  timeouts: {list: soon}\n";
    let two = FEDERATION.replace("name: gh", "name: GH") + "    prefix: a__b\n---\na: [\n---\nkind: Deployment\n";
    let problems = bad(&[("one.yaml", &one), ("dir/two.yaml", &two)]);
    let starts: Vec<_> = problems
        .iter()
        .map(|problem| problem.splitn(4, ':').take(3).collect::<Vec<_>>().join(":"))
        .collect();
    assert_eq!(
        starts,
        [
            "one.yaml:7: spec.remote.url",
            "one.yaml:8: spec.timeouts.list",
            "dir/two.yaml:6: spec.members[0].name",
            "dir/two.yaml:8: spec.members[0].prefix",
            "dir/two.yaml:10: not valid YAML",
            "dir/two.yaml:12: kind",
        ],
        "{problems:#?}"
    );
}

#[test]
fn other_kinds_are_refused_by_name() {
    let kind = |text: &str| bad(&[("a.yaml", text)]).remove(0);
    let deployment = kind("apiVersion: apps/v1\nkind: Deployment\n");
    assert_eq!(
        deployment,
        "a.yaml:2: kind: `Deployment` is not taken here; accepted are MCPServer and MCPFederation \
         (apiVersion mcpfleet.dev/v1alpha1), Secret and ConfigMap (apiVersion v1)"
    );
    assert!(kind("kind: MCPSever\n").contains("did you mean `MCPServer`?"));
    assert!(kind("apiVersion: v1\n").starts_with("a.yaml:1: kind: is required; accepted are"));
    assert!(kind("- a\n").starts_with("a.yaml:1: kind: is required"));
    assert!(kind("just text\n").starts_with("a.yaml:1: kind: is required"));
    let version = kind("kind: MCPServer\napiVersion: mcpfleet.dev/v1\n");
    assert_eq!(
        version,
        "a.yaml:2: apiVersion: must be mcpfleet.dev/v1alpha1 for MCPServer"
    );
    assert_eq!(kind("kind: Secret\n"), "a.yaml:1: apiVersion: must be v1 for Secret");
}

#[test]
fn an_object_that_stands_twice_names_both_places() {
    let problems = bad(&[("a.yaml", SERVER), ("b.yaml", &format!("---\n{SERVER}"))]);
    assert_eq!(
        problems,
        [
            "b.yaml:5: metadata.name: MCPServer default/github stands already at a.yaml:4; remove one of them or rename it, \
             or serve b.yaml without a.yaml"
        ]
    );
    let problems = bad(&[("a.yaml", &format!("{SERVER}---\n{SERVER}"))]);
    assert!(problems[0].ends_with("remove one of them or rename it"), "{problems:?}");
    let elsewhere = SERVER.replace("name: github", "name: github\n  namespace: other");
    assert_eq!(
        good(&[("a.yaml", SERVER), ("b.yaml", &elsewhere), ("c.yaml", FEDERATION)])
            .servers
            .len(),
        2
    );
}

#[test]
fn on_loopback_a_federation_without_access_is_open() {
    let manifests = good(&[("a.yaml", SERVER), ("b.yaml", FEDERATION)]);
    assert!(
        manifests.federations[0]
            .spec
            .access
            .as_ref()
            .unwrap()
            .anonymous
            .is_some()
    );
    let problems = reading(&[("a.yaml", SERVER), ("b.yaml", FEDERATION)], false)
        .manifests
        .unwrap_err();
    assert_eq!(
        problems.to_string(),
        "b.yaml:4: spec.access: access is required, nothing is open by omission; set access: {anonymous: {}} to let \
         everyone in who reaches the gateway, or access: {apiKeys: {secretRef: {name: NAME}}} to let in who has a key of \
         that Secret"
    );
    let given = FEDERATION.replace("spec:", "spec:\n  access: {}");
    assert!(
        bad(&[("a.yaml", SERVER), ("b.yaml", &given)])[0]
            .contains("spec.access: set exactly one of anonymous and apiKeys"),
        "what is given is not made up for"
    );
}

#[test]
fn servers_without_a_federation_form_one() {
    let second = SERVER.replace("name: github", "name: other");
    let manifests = good(&[("a.yaml", SERVER), ("b.yaml", &second)]);
    let federation = &manifests.federations[0];
    assert_eq!(
        (
            federation.metadata.name.as_deref(),
            federation.metadata.namespace.as_deref()
        ),
        (Some("default"), Some("default"))
    );
    let members: Vec<_> = federation
        .spec
        .members
        .iter()
        .map(|member| member.name.as_str())
        .collect();
    assert_eq!(members, ["github", "other"]);
    let exposed = reading(&[("a.yaml", SERVER)], false).manifests.unwrap_err().to_string();
    assert!(
        exposed.starts_with("a.yaml: no MCPFederation is in the files") && exposed.contains("such as 127.0.0.1:8080"),
        "{exposed}"
    );
    let (_, example) = exposed.split_once("for example spec: ").unwrap();
    let written = format!(
        "apiVersion: mcpfleet.dev/v1alpha1\nkind: MCPFederation\nmetadata: {{name: a}}\nspec: {}",
        example.replace("NAME", "keys")
    );
    let keys = "apiVersion: v1\nkind: Secret\nmetadata: {name: keys}\nstringData: {me: secret}\n";
    let followed = reading(&[("a.yaml", SERVER), ("b.yaml", &written), ("c.yaml", keys)], false);
    assert_eq!(
        followed.manifests.unwrap().federations.len(),
        1,
        "the example is what works"
    );
}

#[test]
fn the_formed_federation_keeps_servers_of_one_name_apart() {
    let teams =
        ["red", "blue"].map(|team| SERVER.replace("name: github", &format!("name: github\n  namespace: {team}")));
    let reading = reading(&[("a.yaml", &teams[0]), ("b.yaml", &teams[1])], true);
    assert_eq!(reading.warnings.len(), 2, "{:?}", reading.warnings);
    let federation = &reading.manifests.unwrap().federations[0];
    let prefixes: Vec<_> = federation
        .spec
        .members
        .iter()
        .map(|member| member.prefix.clone().unwrap())
        .collect();
    assert_eq!(prefixes, ["blue-github", "red-github"]);
    let alone = good(&[("a.yaml", &teams[0])]);
    assert_eq!(alone.federations[0].metadata.namespace.as_deref(), Some("red"));
}

#[test]
fn files_without_servers_are_an_error() {
    assert!(bad(&[("a.yaml", "")])[0].contains("hold no MCPServer"));
    assert!(bad(&[("a.yaml", "apiVersion: v1\nkind: Secret\nmetadata: {name: s}\n")])[0].contains("hold no MCPServer"));
    assert!(bad(&[])[0].contains("hold no MCPServer"));
}

#[test]
fn secrets_are_never_repeated_in_a_message() {
    let text = "apiVersion: v1\nkind: Secret\nmetadata: {name: s}\ndata: {a: hunter2!}\nstringData: {b: [hunter2], c: {x: hunter2}}\n";
    let problems = bad(&[("a.yaml", text)]);
    assert_eq!(problems.len(), 3, "{problems:?}");
    assert!(!problems.join("").contains("hunter2"));
    let key = "apiVersion: v1\nkind: Secret\nmetadata: {name: s}\nstringData: {\"a b\": x}\n";
    assert_eq!(
        bad(&[("a.yaml", key)])[0],
        "a.yaml:4: stringData[a b]: the key must be at most 253 letters, digits, '-', '_' or '.'"
    );
}

#[test]
fn an_unquoted_word_means_what_it_means_to_kubectl() {
    let text = SERVER.replace(
        "remote:\n    url: https://mcp.example.com/mcp",
        "package: {runner: npm, name: a, version: 1.0.0, env: [{name: A, value: on}]}",
    );
    assert_eq!(
        bad(&[("a.yaml", &text)]),
        ["a.yaml:6: spec.package.env[0].value: must be a string, not a boolean; put it in quotes"]
    );
}

#[test]
fn what_cannot_be_read_leaves_references_unjudged() {
    let problems = bad(&[("a.yaml", FEDERATION), ("b.yaml", "a: [\n")]);
    assert_eq!(problems.len(), 1, "{problems:?}");
    let wrong = SERVER.replace("url: https", "uri: https");
    let problems = bad(&[("a.yaml", FEDERATION), ("b.yaml", &wrong)]);
    assert!(
        problems.iter().all(|problem| problem.starts_with("b.yaml")),
        "{problems:?}"
    );
}

#[test]
fn a_text_that_is_neither_yaml_nor_json_says_so() {
    assert_eq!(
        bad(&[("a.json", "{\"a\": {")])[0],
        "a.json:1: not valid JSON: unclosed bracket '{'"
    );
    assert_eq!(
        bad(&[("a.yaml", "a: [")])[0],
        "a.yaml:1: not valid YAML: unclosed bracket '['"
    );
}

#[test]
fn ids_of_extensions_are_a_domain_turned_round_and_a_name() {
    let declaring = |id: &str| format!("{FEDERATION}  extensions: [{{id: \"{id}\"}}]\n");
    for id in [
        "io.modelcontextprotocol/tasks",
        "com.example/a.b.c",
        "org.example.api.v2/thing",
        "com.example/a_b",
        "com.example-2/a-1",
        "example/x",
    ] {
        good(&[("a.yaml", SERVER), ("b.yaml", &declaring(id))]);
    }
    for id in [
        "tasks",
        "com.example/",
        "/tasks",
        "1com.example/x",
        "com.1example/x",
        "com.example-/x",
        "com..example/x",
        "com.example/.x",
        "com.example/x-",
        "com.example/my ext",
        "com.example/x/y",
        "com.modelcontextprotocol/x",
        "dev.mcp.tools/x",
        "io.modelcontextprotocol/other",
    ] {
        let problems = bad(&[("a.yaml", SERVER), ("b.yaml", &declaring(id))]);
        let [problem] = &problems[..] else {
            panic!("{id}: {problems:?}")
        };
        assert!(
            problem.contains("extensions[0].id") && problem.contains("domain of yours"),
            "{problem}"
        );
    }
}
