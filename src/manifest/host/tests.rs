use std::path::Path as FilePath;

use super::*;
use crate::api::source::RemoteTransportType;
use crate::manifest::{File, Manifests, Options, Problem, Reading, read as read_files};

fn reading(text: &str) -> Reading {
    let environment = [("TOKEN", "hunter2"), ("HOST", "mcp.example.com")];
    let options = Options {
        loopback: true,
        had_federation: false,
        environment: environment
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .into(),
    };
    read_files(
        &[File {
            name: "conf/mcp.json".into(),
            text: text.into(),
        }],
        &options,
    )
}

fn good(text: &str) -> Manifests {
    let reading = reading(text);
    assert_eq!(reading.warnings, []);
    reading.manifests.unwrap()
}

fn bad(text: &str) -> Vec<String> {
    let problems = reading(text).manifests.unwrap_err().0;
    problems.iter().map(Problem::to_string).collect()
}

/// One entry of a map of servers.
fn entry(body: &str) -> String {
    format!("{{\"mcpServers\": {{\n\"a\": {{{body}}}\n}}}}")
}

#[test]
fn an_address_of_the_old_transport_is_used_by_it() {
    let transport = |kind: &str| {
        let manifests = good(&entry(&format!(r#""type": "{kind}", "url": "http://x/sse""#)));
        let remote = manifests.servers[0].spec.remote.clone().unwrap();
        remote.transport.unwrap_or_default().type_
    };
    assert_eq!(transport("sse"), RemoteTransportType::SSE);
    assert_eq!(transport("http"), RemoteTransportType::Auto);
}

#[test]
fn commands_and_addresses_become_servers_of_one_federation() {
    let manifests = good(
        r#"{
  // what every host has
  "mcpServers": {
    "File System": {"command": "npx", "args": ["-y", "fs@1", "${HOST}", 8080, true], "cwd": "data",
      "env": {"TOKEN": "${TOKEN}", "LEVEL": "${LEVEL:-info}", "PORT": 80, "NONE": null}},
    "remote": {"url": "https://${HOST}/mcp", "headers": {"Authorization": "Bearer ${env:TOKEN}"}},
    "off": {"command": "${UNSET}", "disabled": true},
  },
}"#,
    );
    let command = &manifests.commands[0];
    assert_eq!(
        (command.name.as_str(), command.program.as_str()),
        ("file-system", "npx")
    );
    assert_eq!(command.args, ["-y", "fs@1", "mcp.example.com", "8080", "true"]);
    let env: Vec<_> = command
        .env
        .iter()
        .map(|(name, value)| (name.as_str(), value.as_str()))
        .collect();
    assert_eq!(env, [("LEVEL", "info"), ("PORT", "80"), ("TOKEN", "hunter2")]);
    assert_eq!(command.cwd.as_deref(), Some(FilePath::new("conf/data")));
    let remote = manifests.servers[0].spec.remote.as_ref().unwrap();
    assert_eq!(remote.url, "https://mcp.example.com/mcp");
    let members = &manifests.federations[0].spec.members;
    assert_eq!(
        members.iter().map(|member| member.name.as_str()).collect::<Vec<_>>(),
        ["file-system", "remote"]
    );
}

#[test]
fn header_values_go_through_a_secret() {
    let manifests = good(&entry(
        r#""url": "http://x", "headers": {"Authorization": "Bearer ${TOKEN}"}"#,
    ));
    let header = &manifests.servers[0].spec.remote.as_ref().unwrap().headers[0];
    let reference = header.value_from.as_ref().unwrap().secret_key_ref.as_ref().unwrap();
    let secret = &manifests.secrets[0];
    assert_eq!(
        (header.value.as_ref(), &reference.name, secret.namespace.as_str()),
        (None, &secret.name, "default")
    );
    assert_eq!(secret.data[&reference.key], b"Bearer hunter2");
    assert!(!format!("{manifests:?}").contains("hunter2"));
}

#[test]
fn the_form_of_vs_code_is_read_too() {
    let manifests = good(
        r#"{"inputs": [], "servers": {
          "one": {"type": "stdio", "command": "a"},
          "two": {"type": "http", "url": "http://localhost:1/mcp"},
          "three": {"type": "streamable-http", "url": "http://[::1]:1/"}}}"#,
    );
    assert_eq!((manifests.commands.len(), manifests.servers.len()), (1, 2));
    let asks = bad(&entry(r#""command": "a", "env": {"T": "${input:token}"}"#));
    assert!(asks[0].contains("nobody is asked here"), "{asks:?}");
}

#[test]
fn an_unset_variable_names_itself_its_entry_and_the_file() {
    let text = "{\"mcpServers\": {\"git hub\": {\n\"command\": \"x\",\n\"args\": [\"${NOWHERE}\"],\n\"env\": {\"T\": \"${NOWHERE}\"}}}}";
    assert_eq!(
        bad(text),
        [
            "conf/mcp.json:3: mcpServers.git hub.args[0]: the variable NOWHERE is not set; set it, or give it a default: ${NOWHERE:-value}",
            "conf/mcp.json:4: mcpServers.git hub.env.T: the variable NOWHERE is not set; set it, or give it a default: ${NOWHERE:-value}",
        ]
    );
}

#[test]
fn keys_become_names() {
    for (key, name) in [
        ("github", Some("github")),
        ("GitHub (work)", Some("github-work")),
        ("@acme/tools_2", Some("acme-tools-2")),
        ("21st-dev", Some("mcp-21st-dev")),
        ("--", None),
        ("文件", None),
    ] {
        assert_eq!(slug(key).as_deref(), name, "{key}");
    }
    assert_eq!(
        slug(&"a-".repeat(40)).unwrap().len(),
        52 - 1,
        "cut, and no dash at the end"
    );
    let collision = bad("{\"mcpServers\": {\n\"Git Hub\": {\"command\": \"a\"},\n\"git-hub\": {\"command\": \"b\"}}}");
    assert_eq!(
        collision,
        [
            "conf/mcp.json:3: mcpServers.git-hub: the keys `Git Hub` (conf/mcp.json:2) and `git-hub` both become the name git-hub; rename one of them"
        ]
    );
    assert!(bad("{\"servers\": {\"文件\": {\"command\": \"a\"}}}")[0].contains("rename it"));
}

#[test]
fn what_is_wrong_with_an_entry_is_told() {
    for (body, told) in [
        ("", "a: has neither command nor url"),
        (r#""serverUrl": "http://x""#, "write `serverUrl` as `url`"),
        (
            r#""command": "a", "url": "http://x""#,
            "has both command and url; remove one of them",
        ),
        (
            r#""type": "ws", "url": "http://x""#,
            "a.type: must be stdio, http or sse",
        ),
        (r#""type": "sse", "command": "a""#, "a.type: goes with url"),
        (r#""type": "http", "command": "a""#, "a.type: goes with url"),
        (r#""type": "stdio", "url": "http://x""#, "a.type: goes with command"),
        (r#""command": """#, "a.command: must not be empty"),
        (r#""command": ["a"]"#, "a.command: must be a string"),
        (r#""command": "a", "args": "b""#, "a.args: must be a list of strings"),
        (r#""command": "a", "args": [null]"#, "a.args[0]: must be a string"),
        (r#""command": "a", "env": ["A=b"]"#, "a.env: must be a map of strings"),
        (r#""command": "a", "env": {"A": {}}"#, "a.env.A: must be a string"),
        (
            r#""command": "a", "disabled": "yes""#,
            "a.disabled: must be true or false",
        ),
        (
            r#""url": "localhost""#,
            "a.url: url must be an absolute http or https address",
        ),
        (
            r#""url": "http://x", "headers": {"a b": ""}"#,
            "a.headers.a b: must be a header name",
        ),
        (
            r#""url": "http://x", "headers": {"A": "x\ny"}"#,
            "a.headers.A: a header's value must be printable ASCII",
        ),
    ] {
        let problems = bad(&entry(body));
        assert!(
            problems[0].starts_with("conf/mcp.json:2: mcpServers.") && problems[0].contains(told),
            "{body}: {problems:?}"
        );
    }
    assert!(bad("{\"mcpServers\": {\"a\": \"npx\"}}")[0].contains("mcpServers.a: must be a map with command or url"));
    assert!(bad("{\"mcpServers\": []}")[0].contains("mcpServers: must be a map of servers by name"));
}

#[test]
fn no_message_speaks_of_what_only_manifests_have() {
    let long = "a".repeat(5_000);
    for body in [
        r#""url": "https://me:pw@example.com/mcp""#.to_owned(),
        r#""url": "https://${TOKEN}@example.com/mcp""#.to_owned(),
        r#""url": "localhost""#.to_owned(),
        r#""url": """#.to_owned(),
        format!(r#""url": "https://{long}""#),
        r#""url": "http://x", "headers": {"a b": "", "": "", "A": "é"}"#.to_owned(),
        format!(r#""url": "http://x", "headers": {{"A": "{long}{long}", "{long}": ""}}"#),
        format!(
            r#""url": "http://x", "headers": {{{}}}"#,
            (0..200)
                .map(|n| format!("\"h{n}\": \"\""))
                .collect::<Vec<_>>()
                .join(",")
        ),
    ] {
        let problems = bad(&entry(&body));
        for problem in &problems {
            let words = ["valueFrom", "secretKeyRef", "spec.", "pw@", "hunter2"];
            assert!(!words.iter().any(|word| problem.contains(word)), "{problem}");
        }
    }
    let credentials = bad(&entry(r#""url": "https://me:pw@example.com/mcp""#));
    let told = "conf/mcp.json:2: mcpServers.a.url: url must not hold a user name or password; send them in headers, with \
                their value from a variable: \"headers\": {\"Authorization\": \"Bearer ${TOKEN}\"}";
    assert_eq!(credentials, [told]);
}

#[test]
fn a_program_from_a_variable_is_called_by_what_the_file_says() {
    let manifests = good(&entry(r#""command": "/opt/${TOKEN}/serve""#));
    let command = &manifests.commands[0];
    assert_eq!(command.program, "/opt/hunter2/serve");
    assert_eq!(command.written, "/opt/${TOKEN}/serve");
    assert!(!format!("{manifests:?}").contains("hunter2"));
    assert_eq!(good(&entry(r#""command": "npx""#)).commands[0].written, "npx");
}

#[test]
fn what_a_host_keeps_for_itself_is_ignored_with_a_warning() {
    let own = reading(&entry(r#""command": "a", "alwaysAllow": [], "timeout": 5"#));
    assert_eq!(own.manifests.unwrap().commands.len(), 1);
    let warnings: Vec<_> = own.warnings.iter().map(Problem::to_string).collect();
    assert_eq!(
        warnings,
        [
            "conf/mcp.json:2: mcpServers.a.alwaysAllow: is not known here and is ignored",
            "conf/mcp.json:2: mcpServers.a.timeout: is not known here and is ignored"
        ]
    );
    let headers = reading(&entry(
        r#""url": "http://x", "headers": {"Accept": "*/*", "Mcp-Param-A": "", "X": "y"}"#,
    ));
    assert_eq!(headers.warnings.len(), 2);
    assert_eq!(
        headers.manifests.unwrap().servers[0]
            .spec
            .remote
            .as_ref()
            .unwrap()
            .headers
            .len(),
        1
    );
}

#[test]
fn manifests_and_mcp_json_work_together() {
    let manifest = "apiVersion: mcpfleet.dev/v1alpha1\nkind: MCPFederation\nmetadata: {name: tools}\nspec:\n  members: [{name: a, server: {name: a}}]\n";
    let files = [
        ("mcp.json", entry(r#""command": "x""#)),
        ("b.yaml", manifest.to_owned()),
    ];
    let files = files.map(|(name, text)| File {
        name: name.into(),
        text,
    });
    let options = Options {
        loopback: true,
        had_federation: false,
        ..Options::default()
    };
    let manifests = read_files(&files, &options).manifests.unwrap();
    assert_eq!((manifests.commands.len(), manifests.federations.len()), (1, 1));
    assert_eq!(manifests.federations[0].metadata.name.as_deref(), Some("tools"));
    let twice = "apiVersion: mcpfleet.dev/v1alpha1\nkind: MCPServer\nmetadata: {name: a}\nspec: {remote: {url: \"http://x\"}}\n";
    let files = [
        files[0].clone(),
        File {
            name: "c.yaml".into(),
            text: twice.into(),
        },
    ];
    let problems = read_files(&files, &options).manifests.unwrap_err().to_string();
    assert!(
        problems.contains("c.yaml:3: metadata.name: MCPServer default/a stands already at mcp.json:2"),
        "{problems}"
    );
}

#[test]
fn a_directory_of_work_is_beside_the_file() {
    assert_eq!(beside("conf/mcp.json", "x/y"), FilePath::new("conf/x/y"));
    assert_eq!(beside("mcp.json", "x"), FilePath::new("x"));
    assert_eq!(beside("conf/mcp.json", "/abs"), FilePath::new("/abs"));
    assert_eq!(beside("-", "x"), FilePath::new("x"));
}
