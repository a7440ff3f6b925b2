//! Skills of the federation itself, from a ConfigMap or a directory.

use std::collections::BTreeMap;
use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use mcpfleet::fleet::{Content, Reference, ReferenceKind, References, SkillsPlan};
use mcpfleet::mcp::{Era, Revision};
use serde_json::{Value, json};
use tokio::time::{sleep, timeout};

use super::server::{Server, skill};
use super::{CLIENTS, bytes_of, capability, listed, proof, uris};
use crate::support::gateway::{TestGateway, plan_with};
use crate::support::legacy_client::LegacyClient;
use crate::support::up::Up;

const RUNBOOK: &[u8] =
    b"---\nname: restart-runbook\ndescription: Restart a wedged workload\nversion: 2.0.1\n---\n\nSteps.\n";
const ZONES: &[u8] = b"eu-west, us-east\n";

/// A federation with skills of its own from a ConfigMap, beside a member that is called as their prefix.
async fn own_skills(files: &[(&str, &str, &[u8])], ops: &Server) -> TestGateway {
    let source = json!([{"configMapRef": {"name": "runbooks"}, "prefix": ["ops", "net"], "items": items(files)}]);
    with_own_skills(&[("ops", ops.upstream.address)], source, files).await
}

/// Each key of a ConfigMap as the file that it is.
fn items(files: &[(&str, &str, &[u8])]) -> Value {
    let items = files.iter().map(|(key, path, _)| json!({"key": key, "path": path}));
    items.collect()
}

async fn with_own_skills(servers: &[(&str, SocketAddr)], source: Value, files: &[(&str, &str, &[u8])]) -> TestGateway {
    let mut plan = plan_with(servers, json!({"skills": source}));
    let values = files.iter().map(|(key, _, bytes)| ((*key).to_owned(), bytes.to_vec()));
    let reference = Reference::new(ReferenceKind::ConfigMap, "default", "runbooks");
    let references: References = [(reference, Content::Found(values.collect()))].into_iter().collect();
    let federation = &mut plan.federations[0];
    federation.skills = SkillsPlan::resolve(&federation.spec, "default", &references);
    let mut gateway = TestGateway::start(plan).await;
    gateway
        .until(|observed| {
            observed
                .federations
                .values()
                .any(|federation| federation.index.skills > 1)
        })
        .await;
    gateway
}

#[tokio::test]
async fn skills_of_the_federation_itself_are_served_beside_those_of_members() {
    let files: [(&str, &str, &[u8]); 4] = [
        ("m", "restart-runbook/SKILL.md", RUNBOOK),
        ("z", "restart-runbook/zones.txt", ZONES),
        ("b", "restart-runbook/bin/run", b"\xff\0"),
        ("bad", "alpha/SKILL.md", b"---\nname: beta\ndescription: D\n---\n"),
    ];
    let ops = Server::start(Era::Modern, skill("net/restart-runbook-2", "x")).await;
    let mut gateway = own_skills(&files, &ops).await;
    let root = "skill://ops/net/restart-runbook";
    for client in CLIENTS {
        assert_eq!(capability(&gateway, client).await, json!({"directoryRead": true}));
        let entries = listed(&gateway, client).await;
        assert_eq!(
            uris(&entries),
            [
                "skill://ops/net/restart-runbook-2/SKILL.md",
                "skill://ops/net/restart-runbook/SKILL.md",
            ]
        );
        let entry = &entries[1];
        let frontmatter =
            json!({"name": "restart-runbook", "description": "Restart a wedged workload", "version": "2.0.1"});
        assert_eq!(entry["frontmatter"], frontmatter);
        let files: BTreeMap<&str, (&str, u64)> = entry["resources"]
            .as_array()
            .unwrap()
            .iter()
            .map(|file| {
                let proof = (file["digest"].as_str().unwrap(), file["size"].as_u64().unwrap());
                (file["uri"].as_str().unwrap(), proof)
            })
            .collect();
        let manifest = "sha256:c874b52e4ac4796dec228cb2123450d7e2e892d6d56275169ffc3f39c412b949";
        let text = "sha256:3116f440fb6169a786794141c11b132b6cf346f79dd31f4458caf66cd9c25c32";
        assert_eq!(files[&*format!("{root}/SKILL.md")], (manifest, 92));
        assert_eq!(files[&*format!("{root}/zones.txt")], (text, 17));
        for uri in [format!("{root}/SKILL.md"), root.to_owned()] {
            let got = gateway.ask(client, "skills/get", json!({"uri": uri})).await;
            assert_eq!(got["result"]["skill"], *entry, "{got}");
        }
        for (uri, (digest, _)) in &files {
            let read = gateway.ask(client, "resources/read", json!({"uri": uri})).await;
            assert_eq!(proof(&bytes_of(&read)), *digest);
        }
        let read = gateway
            .ask(client, "resources/read", json!({"uri": format!("{root}/zones.txt")}))
            .await;
        let expected =
            json!([{"uri": format!("{root}/zones.txt"), "mimeType": "text/plain", "text": "eu-west, us-east\n"}]);
        assert_eq!(read["result"]["contents"], expected);
        let read = gateway
            .ask(client, "resources/directory/read", json!({"uri": root}))
            .await;
        let children = read["result"]["resources"]
            .as_array()
            .unwrap_or_else(|| panic!("{read}"))
            .clone();
        assert_eq!(
            uris(&children),
            [
                format!("{root}/SKILL.md"),
                format!("{root}/bin"),
                format!("{root}/zones.txt")
            ]
        );
        assert_eq!(children[1]["mimeType"], "inode/directory");
        let listed = gateway.ask(client, "resources/list", json!({})).await;
        let listed: Vec<_> = listed["result"]["resources"].as_array().unwrap().to_vec();
        let own = listed
            .iter()
            .find(|resource| resource["uri"] == format!("{root}/SKILL.md"))
            .unwrap();
        assert_eq!(
            (&own["name"], &own["mimeType"]),
            (&json!("restart-runbook"), &json!("text/markdown"))
        );
        // What is not its own is the member's.
        let read = gateway
            .ask(
                client,
                "resources/read",
                json!({"uri": "skill://ops/net/restart-runbook-2/picture"}),
            )
            .await;
        assert_eq!(bytes_of(&read), [0xff, 0, 0xd8, b'\n']);
    }
    assert_eq!(ops.asked("skills/get"), Vec::<String>::new());
    let observed = gateway.until(|_| true).await;
    let problems = &observed.federations.values().next().unwrap().skill_problems;
    assert_eq!(problems.len(), 1);
    assert_eq!(problems[0].0, "NameMismatch");
    assert!(
        problems[0].1.contains("ops/net/alpha") && problems[0].1.contains("runbooks"),
        "{}",
        problems[0].1
    );
    gateway.stop().await;
}

#[tokio::test]
async fn who_subscribes_to_a_file_of_the_federation_s_own_is_told_how_its_changes_are_told() {
    let files: [(&str, &str, &[u8]); 2] = [
        ("m", "restart-runbook/SKILL.md", RUNBOOK),
        ("z", "restart-runbook/zones.txt", ZONES),
    ];
    let source = json!([{"configMapRef": {"name": "runbooks"}, "items": items(&files)}]);
    let beside = Server::start(Era::Modern, skill("backup", "x")).await;
    let gateway = with_own_skills(&[("ops", beside.upstream.address)], source, &files).await;
    let session = LegacyClient::open(&gateway, Revision::LATEST_LEGACY, json!({})).await;
    let subscribe = async |uri: &str| {
        let answers = session.request_to_end("resources/subscribe", json!({"uri": uri})).await;
        answers.last().unwrap()["error"].clone()
    };
    for file in ["SKILL.md", "zones.txt"] {
        let refused = subscribe(&format!("skill://restart-runbook/{file}")).await;
        assert_eq!(refused["code"], -32602, "{refused}");
        let told = refused["message"].as_str().unwrap();
        assert!(told.contains("changes of the list of resources"), "{told}");
    }
    let unknown = subscribe("skill://restart-runbook/nope").await;
    assert_eq!(unknown["code"], -32002, "{unknown}");
    gateway.stop().await;
}

#[tokio::test]
async fn a_skill_without_a_prefix_stands_at_its_own_name() {
    let files: [(&str, &str, &[u8]); 2] = [
        ("m", "restart-runbook/SKILL.md", RUNBOOK),
        ("z", "restart-runbook/zones.txt", ZONES),
    ];
    let source = json!([{"configMapRef": {"name": "runbooks"}, "items": items(&files)}]);
    // A member may be called as the skill is.
    let beside = Server::start(Era::Modern, skill("backup", "x")).await;
    let servers = [("restart-runbook", beside.upstream.address)];
    let gateway = with_own_skills(&servers, source, &files).await;
    let uri = "skill://restart-runbook/SKILL.md";
    for client in CLIENTS {
        let entries = listed(&gateway, client).await;
        assert_eq!(uris(&entries), [uri, "skill://restart-runbook/backup/SKILL.md"]);
        for asked in [uri, "skill://restart-runbook"] {
            let got = gateway.ask(client, "skills/get", json!({"uri": asked})).await;
            assert_eq!(got["result"]["skill"], entries[0], "{got}");
        }
        for asked in ["skill://nope/SKILL.md", "skill://nope", "skill://restart-runbook/nope"] {
            let got = gateway.ask(client, "skills/get", json!({"uri": asked})).await;
            assert_eq!(got["error"]["code"], -32602, "{got}");
        }
        for (file, bytes) in [("zones.txt", ZONES), ("backup/picture", &[0xff, 0, 0xd8, b'\n'])] {
            let uri = format!("skill://restart-runbook/{file}");
            let read = gateway.ask(client, "resources/read", json!({"uri": uri})).await;
            assert_eq!(bytes_of(&read), bytes);
        }
    }
    assert!(
        beside
            .asked("skills/get")
            .iter()
            .all(|uri| uri == "skill://nope/SKILL.md")
    );
    gateway.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_directory_of_skills_is_served_and_an_edit_is_served_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples");
    copy(&example.join("skills"), &folder.path().join("skills"));
    fs::copy(example.join("skills.yaml"), folder.path().join("skills.yaml")).unwrap();
    let up = Up::start(&[folder.path().join("skills.yaml")], |_| {});
    let url = up.endpoint("runbooks").await;
    let uri = "skill://ops/restart-runbook/SKILL.md";
    let first = serve(&url, uri).await;
    assert_eq!(first["frontmatter"]["license"], "Apache-2.0");
    assert_eq!(first["resources"].as_array().unwrap().len(), 3);
    fs::write(folder.path().join("skills/ops/restart-runbook/zones.txt"), "eu-north\n").unwrap();
    let edited = timeout(Duration::from_secs(10), async {
        loop {
            let now = serve(&url, uri).await;
            if now != first {
                return now;
            }
            sleep(Duration::from_millis(50)).await;
        }
    });
    let edited = edited.await.expect("the edit is not served");
    assert!(
        edited["resources"].to_string().contains(&proof(b"eu-north\n")),
        "{edited}"
    );
    let bad = folder.path().join("skills/alpha");
    fs::create_dir(&bad).unwrap();
    fs::write(bad.join("SKILL.md"), "---\nname: beta\ndescription: D\n---\n").unwrap();
    let told = up.says("skill of runbooks left out", 0).await;
    assert!(told.contains("NameMismatch") && told.contains("alpha"), "{told}");
    assert_eq!(serve(&url, uri).await, edited);
    fs::remove_dir_all(&bad).unwrap();
    up.says("manifests changed", 2).await;
    let errors = up.printed().errors;
    assert!(!errors.iter().any(|line| line.contains("WARN")), "{errors:?}");
    assert!(up.stop().await.success());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_path_that_cannot_be_read_takes_its_skill_alone_and_only_for_as_long() {
    let folder = tempfile::tempdir().unwrap();
    let skills = folder.path().join("skills");
    for name in ["alpha", "beta"] {
        fs::create_dir_all(skills.join(name)).unwrap();
        let manifest = format!("---\nname: {name}\ndescription: D\n---\n");
        fs::write(skills.join(name).join("SKILL.md"), manifest).unwrap();
    }
    let link = skills.join("beta/notes.txt");
    std::os::unix::fs::symlink("notes", &link).unwrap();
    fs::copy(
        Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/skills.yaml"),
        folder.path().join("skills.yaml"),
    )
    .unwrap();
    let up = Up::start(&[folder.path().join("skills.yaml")], |_| {});
    let url = up.endpoint("runbooks").await;
    let told = up.says("skill of runbooks left out", 0).await;
    assert!(
        told.contains("RefUnreadable") && told.contains("beta/notes.txt is a link to nothing"),
        "{told}"
    );
    let served = async |name: &str, is_served: bool| {
        let uri = format!("skill://{name}/SKILL.md");
        let seen = timeout(Duration::from_secs(10), async {
            while serve(&url, &uri).await.is_object() != is_served {
                sleep(Duration::from_millis(50)).await;
            }
        });
        seen.await.unwrap_or_else(|_| panic!("{name} {is_served}"));
    };
    served("alpha", true).await;
    assert_eq!(serve(&url, "skill://beta/SKILL.md").await, Value::Null);
    fs::write(skills.join("beta/notes"), "n").unwrap();
    served("beta", true).await;
    fs::remove_file(&link).unwrap();
    std::os::unix::fs::symlink(".", &link).unwrap();
    served("beta", false).await;
    assert!(serve(&url, "skill://alpha/SKILL.md").await.is_object());
    fs::remove_file(&link).unwrap();
    served("beta", true).await;
    assert!(up.stop().await.success());
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap().flatten() {
        let (path, to) = (entry.path(), to.join(entry.file_name()));
        if path.is_dir() {
            copy(&path, &to);
        } else {
            fs::copy(path, to).unwrap();
        }
    }
}

/// The entry that the endpoint gives of a skill.
async fn serve(url: &str, uri: &str) -> Value {
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": "skills/get", "params": {"uri": uri, "_meta": {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {},
    }}});
    let request = ::http::Request::post(url)
        .header("content-type", "application/json")
        .header("accept", "application/json, text/event-stream")
        .header("mcp-protocol-version", "2026-07-28")
        .header("mcp-method", "skills/get")
        .body(http_body_util::Full::new(bytes::Bytes::from(body.to_string())))
        .unwrap();
    let answer = crate::support::http::exchange(&crate::support::http::client(), request)
        .await
        .json();
    answer["result"]["skill"].clone()
}
