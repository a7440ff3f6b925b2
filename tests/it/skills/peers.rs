//! Servers of skills and hosts by others.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use rmcp::model::{
    GetSkillRequestParams, ProtocolVersion, ReadResourceDirectoryRequestParams, ReadResourceRequestParams,
    ResourceContents, SkillResources, validate_skills,
};
use rmcp::transport::StreamableHttpClientTransport;
use rmcp::{ClientLifecycleMode, ClientServiceExt};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::process::Command;

use crate::support::peers::{self, Peers, Python};
use crate::support::remote::{RunningRemote, start_own};
use crate::support::up::Up;

#[tokio::test(flavor = "multi_thread")]
async fn a_host_of_the_official_sdk_verifies_every_file_of_servers_of_the_same_sdk() {
    let Some(peers) = Peers::installed() else { return };
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in [("backup", "one\r\ntwo\r\n"), ("restore", "Grüße\n")] {
        let directory = folder.path().join(name);
        fs::create_dir_all(directory.join("bin")).unwrap();
        let manifest = format!("---\nname: {name}\ndescription: About {name}\nmetadata:\n  owner: ops\n---\n{text}");
        fs::write(directory.join("SKILL.md"), manifest).unwrap();
        fs::write(directory.join("bin/run"), b"\xff\x00\xd8\n").unwrap();
    }
    let serve = async |prefix: &str| -> RunningRemote {
        let mut command = peers.node("servers/skills.mjs");
        command.arg("--directory").arg(folder.path()).args(["--page", "1"]);
        if !prefix.is_empty() {
            command.args(["--prefix", prefix]);
        }
        start_own("the server of skills", command).await
    };
    let (one, two) = (serve("").await, serve("team").await);
    let file = folder.path().join("fleet.json");
    let servers = json!({"mcpServers": {"one": {"url": one.url}, "two": {"url": two.url}}});
    fs::write(&file, servers.to_string()).unwrap();
    let up = Up::start(&[&file], |_| {});
    up.ready("one").await;
    up.ready("two").await;
    let url = up.endpoint("default").await;
    for (mode, era) in [("modern", "modern"), ("legacy", "legacy")] {
        let mut command = peers.node("clients/skills.mjs");
        let output = command.args(["--url", &url, "--mode", mode]).output().await.unwrap();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{mode}: {errors}");
        let seen: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(seen["era"], era, "{seen}");
        let skills = seen["skills"].as_object().unwrap();
        let uris: Vec<_> = skills.keys().map(String::as_str).collect();
        assert_eq!(
            uris,
            [
                "skill://one/backup/SKILL.md",
                "skill://one/restore/SKILL.md",
                "skill://two/team/backup/SKILL.md",
                "skill://two/team/restore/SKILL.md",
            ]
        );
        for (uri, skill) in skills {
            assert_eq!(skill["files"].as_array().unwrap().len(), 2, "{uri}: {skill}");
            assert_eq!(skill["children"].as_array().unwrap().len(), 2, "{uri}: {skill}");
        }
        assert_eq!(seen["directoryRead"], true);
    }
    assert!(up.stop().await.success());
}

/// Skills with files of every kind: with both ends of line, with names that have to be encoded, in skills of others.
fn write_skills(root: &Path, of: &str) {
    let write = |path: &str, bytes: &[u8]| {
        let path = root.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
    };
    let manifest = |name: &str| {
        let text = format!(
            "---\nname: {name}\ndescription: \"About {name}, of {of}\"\nversion: 2.0.1\nratio: 1.50 # of two\nflags: [a, 2, true, null, {{b: -1}}]\nnote: >\n  two\n  lines\nmetadata:\n  rank: \"3\"\nallowed-tools: Read\n---\n\r\nGrüße\r\n"
        );
        text.into_bytes()
    };
    write("backup/SKILL.md", &manifest("backup"));
    write("backup/bin/run", b"\xff\x00\xd8\n");
    write("backup/a b/größe.txt", "one\r\ntwo".as_bytes());
    write("backup/empty.txt", b"");
    write("ops/restore/SKILL.md", &manifest("restore"));
    write("ops/restore/nested/inner/SKILL.md", &manifest("inner"));
    write("ops/restore/nested/inner/notes.md", b"\xef\xbb\xbfwith a mark\n");
}

/// The files of such skills.
const FILES: [&str; 7] = [
    "backup/SKILL.md",
    "backup/bin/run",
    "backup/a%20b/gr%C3%B6%C3%9Fe.txt",
    "backup/empty.txt",
    "ops/restore/SKILL.md",
    "ops/restore/nested/inner/SKILL.md",
    "ops/restore/nested/inner/notes.md",
];

fn files_of(servers: &[&str]) -> BTreeSet<String> {
    let of_each = servers
        .iter()
        .flat_map(|server| FILES.map(|file| format!("skill://{server}/{file}")));
    of_each.collect()
}

/// The URIs of all files that a host on the Rust SDK verified.
async fn verified_by_rust(url: &str, era: ClientLifecycleMode) -> BTreeSet<String> {
    // The HTTP client asks for one even where no TLS is spoken; a second installation changes nothing.
    drop(rustls::crypto::aws_lc_rs::default_provider().install_default());
    let transport = StreamableHttpClientTransport::from_uri(url);
    let host = ().serve_with_lifecycle(transport, era).await.unwrap();
    let reads_directories = host.peer_info().unwrap().capabilities.supports_directory_read();
    let skills = host.list_all_skills().await.unwrap();
    validate_skills(&skills).unwrap();
    let mut verified = BTreeSet::new();
    for skill in skills {
        let got = host.get_skill(GetSkillRequestParams::new(&skill.uri)).await.unwrap();
        assert_eq!(got.skill, skill);
        let SkillResources::Files(files) = &skill.resources else {
            panic!("{skill:?}")
        };
        for file in files {
            let read = ReadResourceRequestParams::new(&file.uri);
            let contents = host.read_resource(read).await.unwrap().contents;
            let bytes = match &contents[..] {
                [ResourceContents::TextResourceContents { text, .. }] => text.clone().into_bytes(),
                [ResourceContents::BlobResourceContents { blob, .. }] => BASE64.decode(blob).unwrap(),
                other => panic!("{other:?}"),
            };
            file.verify(&bytes).unwrap();
            verified.insert(file.uri.clone());
        }
        if reads_directories {
            let root = skill.uri.strip_suffix("/SKILL.md").unwrap();
            let directory = ReadResourceDirectoryRequestParams::new(root);
            let children = host.read_resource_directory(directory).await.unwrap().resources;
            assert!(children.iter().any(|child| child.uri == skill.uri), "{children:?}");
            assert!(children.iter().all(|child| child.uri.starts_with(root)), "{children:?}");
        }
    }
    host.cancel().await.unwrap();
    verified
}

/// The URIs of all files that the host verified which this program is.
async fn verified_by(mut host: Command, url: &str) -> BTreeSet<String> {
    let output = host.args(["--url", url]).output().await.unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    let seen: Value = serde_json::from_slice(&output.stdout).unwrap();
    let skills = seen["skills"].as_object().unwrap().values();
    let files = skills.flat_map(|skill| skill["files"].as_array().unwrap());
    files.map(|uri| uri.as_str().unwrap().to_owned()).collect()
}

fn typescript(peers: &Peers, mode: &str) -> Command {
    let mut host = peers.node("clients/skills.mjs");
    host.args(["--mode", mode]);
    host
}

/// Hosts of two SDKs, each in both eras, find exactly these files behind `url`, and each of them as its entry says.
async fn hosts_of_two_sdks_verify(peers: &Peers, url: &str, expected: &BTreeSet<String>) {
    for era in [ClientLifecycleMode::Initialize, modern()] {
        assert_eq!(verified_by_rust(url, era).await, *expected);
    }
    for mode in ["legacy", "modern"] {
        assert_eq!(verified_by(typescript(peers, mode), url).await, *expected, "{mode}");
    }
}

fn modern() -> ClientLifecycleMode {
    ClientLifecycleMode::Discover {
        preferred_versions: vec![ProtocolVersion::V_2026_07_28],
    }
}

/// A federation over these servers, under the names that they have here; its address, and the directory of its file.
async fn over(servers: &[(&str, &RunningRemote)]) -> (Up, String, TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("fleet.json");
    let named = servers
        .iter()
        .map(|(name, server)| ((*name).to_owned(), json!({"url": server.url})));
    let named: serde_json::Map<_, _> = named.collect();
    fs::write(&file, json!({"mcpServers": named}).to_string()).unwrap();
    let up = Up::start(&[&file], |_| {});
    for (name, _) in servers {
        up.ready(name).await;
    }
    let url = up.endpoint("default").await;
    (up, url, folder)
}

#[tokio::test(flavor = "multi_thread")]
async fn hosts_of_two_sdks_verify_every_file_of_servers_of_both() {
    let Some(peers) = Peers::installed() else { return };
    let Some(server) = peers::rmcp_server() else { return };
    let (of_node, of_rust) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    write_skills(of_node.path(), "node");
    write_skills(of_rust.path(), "rust");
    let mut node = peers.node("servers/skills.mjs");
    node.arg("--directory").arg(of_node.path());
    let mut rust = Command::new(server);
    rust.arg("--skills").arg(of_rust.path());
    let (node, rust) = (
        start_own("skills of node", node).await,
        start_own("skills of rust", rust).await,
    );
    let (up, url, _folder) = over(&[("node", &node), ("rust", &rust)]).await;
    let expected = files_of(&["node", "rust"]);
    hosts_of_two_sdks_verify(&peers, &url, &expected).await;
    assert!(up.stop().await.success());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_knows_skills_in_one_era_serves_hosts_of_both() {
    let Some(peers) = Peers::installed() else { return };
    let Some(rust) = peers::rmcp_server() else { return };
    let (of_python, of_rust) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    write_skills(of_python.path(), "python");
    write_skills(of_rust.path(), "rust");
    let mut python = peers.python(Python::FastMcp, "servers/fastmcp_skills.py");
    python.arg("--directory").arg(of_python.path());
    let mut rust = Command::new(rust);
    rust.arg("--skills").arg(of_rust.path());
    let (python, rust) = (
        start_own("skills of python", python).await,
        start_own("skills of rust", rust).await,
    );
    let (up, url, _folder) = over(&[("python", &python), ("rust", &rust)]).await;
    let expected = files_of(&["python", "rust"]);
    let host = peers.python(Python::FastMcp, "clients/fastmcp_skills.py");
    assert_eq!(verified_by(host, &url).await, expected);
    hosts_of_two_sdks_verify(&peers, &url, &expected).await;
    assert!(up.stop().await.success());
}

#[tokio::test(flavor = "multi_thread")]
async fn hosts_of_all_sdks_verify_every_file_of_the_federations_own_skills() {
    let Some(peers) = Peers::installed() else { return };
    let folder = tempfile::tempdir().unwrap();
    write_skills(&folder.path().join("skills/own"), "a federation");
    let file = folder.path().join("fleet.yaml");
    let manifest = json!({
        "apiVersion": "mcpfleet.dev/v1alpha1", "kind": "MCPFederation", "metadata": {"name": "own"},
        "spec": {"access": {"anonymous": {}}, "skills": [{"directory": "skills"}]},
    });
    fs::write(&file, manifest.to_string()).unwrap();
    let up = Up::start(&[&file], |_| {});
    let url = up.endpoint("own").await;
    let expected = files_of(&["own"]);
    let host = peers.python(Python::FastMcp, "clients/fastmcp_skills.py");
    assert_eq!(verified_by(host, &url).await, expected);
    hosts_of_two_sdks_verify(&peers, &url, &expected).await;
    assert!(up.stop().await.success());
}
