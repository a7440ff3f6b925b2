//! `mcpfleet connect`: one remote server.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use mcpfleet::mcp::Revision;
use serde_json::{Value, json};
use tempfile::TempDir;

use super::host::Host;
use crate::support::upstream::{Answer, Upstream, modern};

#[tokio::test]
async fn a_remote_server_is_served_under_its_own_names_with_the_headers_that_are_given() {
    let remote =
        Upstream::start(|seen| modern(seen, &json!([{"name": "own", "inputSchema": {"type": "object"}}]))).await;
    let url = format!("http://{}/mcp", remote.address);
    let arguments = ["connect", &url, "--header", "X-Token=a=b", "--show-all"].map(std::ffi::OsStr::new);
    let mut host = Host::start_with(TempDir::new().unwrap(), &arguments);
    host.initialize(Revision::V2025_11_25, json!({})).await;
    host.legacy(1, "tools/list", json!({})).await;
    assert_eq!(host.next().await["result"]["tools"][0]["name"], "own");
    let seen = remote.seen_of("tools/list");
    assert_eq!(seen[0].header("x-token"), Some("a=b"));
    assert_eq!(seen[0].header("x-mcp-show-all"), Some("true"));
    assert!(host.leave().await.0.success());
}

#[tokio::test]
async fn a_remote_server_out_of_reach_is_told_of_with_what_to_do_and_served_once_it_is_there() {
    let lets_in = Arc::new(AtomicBool::new(false));
    let open = Arc::clone(&lets_in);
    let remote = Upstream::start(move |seen| match open.load(Ordering::SeqCst) {
        false => Answer::status(401),
        true => modern(seen, &json!([{"name": "own", "inputSchema": {"type": "object"}}])),
    })
    .await;
    let nobody = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let (refusing, silent) = (remote.address, nobody.local_addr().unwrap());
    drop(nobody);
    for (address, reason, words) in [
        (silent, "ConnectFailed", "check host and port"),
        (refusing, "AuthFailed", "--header"),
    ] {
        let url = format!("http://{address}/mcp");
        let mut host = Host::start_with(TempDir::new().unwrap(), &["connect".as_ref(), url.as_ref()]);
        let is_told = |answer: &Value| {
            let error = &answer["error"];
            assert_eq!(
                (&error["code"], &error["data"]["reason"]),
                (&json!(-32603), &json!(reason))
            );
            assert!(error["message"].as_str().unwrap().contains(words), "{answer}");
        };
        is_told(&host.initialize(Revision::V2025_11_25, json!({})).await);
        host.legacy(1, "tools/list", json!({})).await;
        is_told(&host.next().await);
        host.modern(2, "tools/list", json!({})).await;
        is_told(&host.next().await);
        host.legacy(3, "ping", json!({})).await;
        assert_eq!(host.next().await["result"], json!({}));
        if address == refusing {
            lets_in.store(true, Ordering::SeqCst);
            let answer = host.initialize(Revision::V2025_11_25, json!({})).await;
            assert!(answer["result"]["serverInfo"].is_object(), "{answer}");
            host.legacy(4, "tools/list", json!({})).await;
            assert_eq!(host.next().await["result"]["tools"][0]["name"], "own");
        }
        assert!(host.leave().await.0.success());
    }
}

#[tokio::test]
async fn what_fails_at_a_remote_server_is_told_without_a_name_that_nobody_gave_it() {
    let remote = Upstream::start(|seen| match (seen.method(), seen.body["params"]["name"].as_str()) {
        ("tools/call", Some("locked")) => Answer::status(401),
        ("tools/call", _) => Answer::status(503),
        _ => modern(
            seen,
            &json!([
                {"name": "locked", "inputSchema": {"type": "object"}},
                {"name": "broken", "inputSchema": {"type": "object"}},
            ]),
        ),
    })
    .await;
    let url = format!("http://{}/mcp", remote.address);
    let mut host = Host::start_with(TempDir::new().unwrap(), &["connect".as_ref(), url.as_ref()]);
    host.initialize(Revision::V2025_11_25, json!({})).await;
    for (id, name, words) in [
        (1, "broken", "HTTP status 503"),
        (2, "locked", "--header 'Authorization="),
    ] {
        host.legacy(id, "tools/call", json!({"name": name, "arguments": {}}))
            .await;
        let answer = host.next().await;
        let told = answer["error"]["message"]
            .as_str()
            .unwrap_or_else(|| panic!("{answer}"));
        assert!(told.contains(words), "{told}");
        assert!(!told.contains("member") && !told.contains("\"remote\""), "{told}");
    }
    assert!(host.leave().await.0.success());
}

#[tokio::test]
async fn a_remote_server_speaks_for_itself_and_its_skills_are_there() {
    const SKILLS: &str = "io.modelcontextprotocol/skills";
    const TEXT: &str = "First.\n\n## A heading\n\nThen.";
    let info =
        json!({"name": "far", "version": "7", "title": "Far end", "icons": [{"src": "https://a.example/i.png"}]});
    let skill = json!({
        "uri": "skill://a/SKILL.md", "frontmatter": {"name": "a", "description": "About a"},
        "resources": [{"uri": "skill://a/SKILL.md", "digest": format!("sha256:{}", "0".repeat(64)), "size": 3}],
    });
    let (said, listed) = (info.clone(), skill.clone());
    let remote = Upstream::start(move |seen| {
        // Shown only to those who know of them.
        let declared = &seen.body["params"]["_meta"]["io.modelcontextprotocol/clientCapabilities"]["extensions"];
        let knows = declared[SKILLS].is_object();
        match seen.method() {
            "server/discover" => seen.result(json!({
                "resultType": "complete", "supportedVersions": ["2026-07-28"], "ttlMs": 0, "cacheScope": "private",
                "capabilities": {"tools": {}, "extensions": if knows { json!({SKILLS: {}}) } else { json!({}) }},
                "instructions": TEXT, "_meta": {"io.modelcontextprotocol/serverInfo": said},
            })),
            "skills/list" if knows => seen.result(json!({
                "resultType": "complete", "skills": [listed], "ttlMs": 0, "cacheScope": "private",
            })),
            _ => modern(seen, &json!([])),
        }
    })
    .await;
    let url = format!("http://{}/mcp", remote.address);
    let arguments = ["connect", &url].map(std::ffi::OsStr::new);
    let mut host = Host::start_with(TempDir::new().unwrap(), &arguments);
    let answer = host.initialize(Revision::V2025_11_25, json!({})).await;
    assert_eq!(answer["result"]["serverInfo"], info);
    assert_eq!(answer["result"]["instructions"], TEXT);
    assert!(
        answer["result"]["capabilities"]["extensions"][SKILLS].is_object(),
        "{answer}"
    );
    host.legacy(1, "skills/list", json!({})).await;
    assert_eq!(host.next().await["result"]["skills"], json!([skill]));
    assert!(host.leave().await.0.success());
}
