//! Servers of skills and hosts by others.

use std::fs;

use serde_json::{Value, json};

use crate::support::peers::Peers;
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
