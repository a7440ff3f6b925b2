//! What is said when it is started: which federation, and how much is listed.

use std::process::Stdio;

use mcpfleet::mcp::Revision;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::process::Command;

use super::host::{Host, fleet};

#[tokio::test]
async fn which_of_several_federations_is_served_must_be_said() {
    let files = TempDir::new().unwrap();
    let federation = |name: &str| {
        format!(
            "apiVersion: mcpfleet.dev/v1alpha1\nkind: MCPFederation\nmetadata: {{name: {name}}}\nspec: {{members: [{{name: \
             all, selector: {{}}}}], access: {{anonymous: {{}}}}}}\n---\n"
        )
    };
    let path = files.path().join("two.yaml");
    std::fs::write(&path, federation("a") + &federation("b")).unwrap();
    let up = |more: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_mcpfleet"));
        command.args(["up", "--stdio"]).arg(&path).args(more);
        command.stdin(Stdio::null()).kill_on_drop(true);
        command
    };
    let refused = up(&[]).output().await.unwrap();
    let told = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(
        !refused.status.success() && told.contains("--default-federation"),
        "{told}"
    );
    assert!(refused.stdout.is_empty());
    let served = up(&["--default-federation", "b"]).output().await.unwrap();
    assert!(served.status.success() && served.stdout.is_empty(), "{served:?}");
}

#[tokio::test]
async fn who_wants_to_be_listed_everything_says_so_at_the_start() {
    for (wish, listed) in [
        (None, ["execute_tool", "tool_search"]),
        (Some("--show-all"), ["s__ask", "s__echo"]),
    ] {
        let files = fleet();
        let server = json!({"apiVersion": "mcpfleet.dev/v1alpha1", "kind": "MCPFederation", "metadata": {"name": "f"},
            "spec": {"access": {"anonymous": {}}, "members": [{
                "name": "s", "server": {"name": "s"}, "visibility": "Discoverable",
                "tools": {"allow": ["ask", "echo"]},
            }]},
        });
        std::fs::write(files.path().join("fed.yaml"), server.to_string()).unwrap();
        let (servers, federation) = (files.path().join("mcp.json"), files.path().join("fed.yaml"));
        let mut arguments = vec![
            "up".as_ref(),
            "--stdio".as_ref(),
            servers.as_os_str(),
            federation.as_os_str(),
        ];
        arguments.extend(wish.map(std::ffi::OsStr::new));
        let mut host = Host::start_with(files, &arguments);
        let names = |answer: Value| -> Vec<String> {
            let tools = answer["result"]["tools"].as_array().unwrap().iter();
            tools.map(|tool| tool["name"].as_str().unwrap().to_owned()).collect()
        };
        host.modern(1, "tools/list", json!({})).await;
        assert_eq!(names(host.next().await), listed, "{wish:?}");
        let opened = host.initialize(Revision::V2025_11_25, json!({})).await;
        assert_eq!(
            opened["result"].get("instructions").is_some(),
            wish.is_none(),
            "{opened}"
        );
        host.legacy(2, "tools/list", json!({})).await;
        assert_eq!(names(host.next().await), listed, "{wish:?}");
        assert_eq!(host.call(3, "echo", json!({"text": "a"})).await, "a", "listed or not");
        assert!(host.leave().await.0.success());
    }
}
