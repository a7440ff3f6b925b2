//! Skills (Skills extension): those of servers under their members' prefixes, and the federation's own.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use ::http::Method;
use aws_lc_rs::digest::{SHA256, digest};
use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use mcpfleet::fleet::{Content, Reference, ReferenceKind, References, SkillsPlan};
use mcpfleet::mcp::{Era, Revision};
use serde_json::{Value, json};
use tokio::time::{sleep, timeout};

use crate::support::gateway::{TestGateway, plan_with};
use crate::support::peers::Peers;
use crate::support::remote::{RunningRemote, start_own};
use crate::support::up::Up;
use crate::support::upstream::{Answer, Seen, Upstream};

const ERAS: [Era; 2] = [Era::Legacy, Era::Modern];
const CLIENTS: [Revision; 2] = [Revision::LATEST_LEGACY, Revision::LATEST];
const EXTENSION: &str = "io.modelcontextprotocol/skills";

/// The files of a server of skills, by their URIs, and what it says falsely.
#[derive(Default)]
struct Shelf {
    files: BTreeMap<String, Vec<u8>>,
    /// What is given for some files instead.
    forged: BTreeMap<String, Vec<u8>>,
    /// Skills that are not listed.
    unlisted: Vec<String>,
    /// Entries that are listed beside those of the files.
    odd: Vec<Value>,
    no_directories: bool,
    /// Where it tells of changes.
    hearers: Vec<tokio::sync::mpsc::UnboundedSender<Value>>,
}

/// A server of skills of one era that lists two at a time.
struct Server {
    upstream: Upstream,
    shelf: Arc<Mutex<Shelf>>,
}

impl Server {
    async fn start(era: Era, shelf: Shelf) -> Self {
        let shelf = Arc::new(Mutex::new(shelf));
        let own = Arc::clone(&shelf);
        let upstream = Upstream::start(move |seen| answer(era, seen, &mut own.lock().unwrap())).await;
        Self { upstream, shelf }
    }

    fn asked(&self, method: &str) -> Vec<String> {
        let seen = self.upstream.seen_of(method);
        let uris = seen
            .iter()
            .map(|seen| seen.body["params"]["uri"].as_str().unwrap_or_default().to_owned());
        uris.collect()
    }
}

/// A skill of this path with a script and a picture.
fn skill(path: &str, text: &str) -> Shelf {
    let name = path.rsplit('/').next().unwrap();
    let manifest = format!("---\nname: {name}\ndescription: About {name}\nversion: 2.0.1\n---\r\n\n{text}\n");
    let files = [
        ("SKILL.md", manifest.into_bytes()),
        (
            "scripts/run.sh",
            format!("#!/bin/sh\necho '{text} \u{e4}'\r\n").into_bytes(),
        ),
        ("picture", vec![0xff, 0, 0xd8, b'\n']),
    ];
    Shelf {
        files: files
            .map(|(file, bytes)| (format!("skill://{path}/{file}"), bytes))
            .into(),
        ..Shelf::default()
    }
}

fn skills(paths: &[&str], text: &str) -> Shelf {
    let all = paths.iter().flat_map(|path| skill(path, text).files);
    Shelf {
        files: all.collect(),
        ..Shelf::default()
    }
}

fn proof(bytes: &[u8]) -> String {
    let hex = digest(&SHA256, bytes)
        .as_ref()
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect::<String>();
    format!("sha256:{hex}")
}

impl Shelf {
    fn entries(&self) -> Vec<Value> {
        let manifests = self.files.keys().filter_map(|uri| uri.strip_suffix("/SKILL.md"));
        manifests.filter_map(|directory| self.entry(directory)).collect()
    }

    fn entry(&self, directory: &str) -> Option<Value> {
        let manifest = format!("{directory}/SKILL.md");
        self.files.get(&manifest)?;
        let name = directory.rsplit('/').next()?;
        let files = self
            .files
            .iter()
            .filter(|(uri, _)| uri.starts_with(&format!("{directory}/")));
        let resources = files.map(|(uri, bytes)| json!({"uri": uri, "digest": proof(bytes), "size": bytes.len()}));
        Some(json!({
            "uri": manifest,
            "frontmatter": {"name": name, "description": format!("About {name}"), "version": "2.0.1"},
            "resources": resources.collect::<Vec<_>>(),
        }))
    }
}

fn content(uri: &str, bytes: &[u8]) -> Value {
    match std::str::from_utf8(bytes) {
        Ok(text) => json!({"uri": uri, "mimeType": "text/plain", "text": text}),
        Err(_) => json!({"uri": uri, "blob": BASE64.encode(bytes)}),
    }
}

fn answer(era: Era, seen: &Seen, shelf: &mut Shelf) -> Answer {
    let ended = |mut result: Value, cached: bool| {
        if era == Era::Modern {
            result["resultType"] = json!("complete");
            if cached {
                result["ttlMs"] = json!(1_000);
                result["cacheScope"] = json!("private");
            }
        }
        seen.result(result)
    };
    let unknown = || seen.error(200, -32602, "not found");
    let uri = seen.body["params"]["uri"].as_str().unwrap_or_default();
    let settings = if shelf.no_directories {
        json!({})
    } else {
        json!({"directoryRead": true})
    };
    let capabilities = json!({
        "tools": {}, "completions": {}, "resources": {"subscribe": true, "listChanged": true},
        "extensions": {EXTENSION: settings},
    });
    match seen.method() {
        "server/discover" if era == Era::Modern => seen.result(json!({
            "resultType": "complete", "supportedVersions": ["2026-07-28"], "capabilities": capabilities,
            "ttlMs": 0, "cacheScope": "private",
        })),
        "initialize" if era == Era::Legacy => seen.result(json!({
            "protocolVersion": "2025-11-25", "capabilities": capabilities,
            "serverInfo": {"name": "skills", "version": "1"},
        })),
        "resources/subscribe" => seen.result(json!({})),
        "subscriptions/listen" => {
            let (hearer, stream) = Answer::live();
            let id = seen.body["id"].clone();
            let meta = json!({"io.modelcontextprotocol/subscriptionId": id});
            let acknowledged = json!({"notifications": seen.body["params"]["notifications"], "_meta": meta});
            let method = "notifications/subscriptions/acknowledged";
            hearer
                .send(json!({"jsonrpc": "2.0", "method": method, "params": acknowledged}))
                .unwrap();
            shelf.hearers.push(hearer);
            stream
        }
        _ if seen.http == Method::GET => {
            let (hearer, stream) = Answer::live();
            shelf.hearers.push(hearer);
            stream
        }
        "tools/list" => ended(
            json!({"tools": [{"name": "find", "inputSchema": {"type": "object"}}]}),
            true,
        ),
        "tools/call" => {
            let link = json!({"type": "resource_link", "uri": "skill://a/x", "name": "x"});
            let within = json!({"type": "resource", "resource": {"uri": "skill://a/y", "text": "see skill://a/y"}});
            ended(
                json!({"content": [link, within, {"type": "text", "text": "skill://a"}]}),
                false,
            )
        }
        "resources/list" => {
            let listed = shelf.files.keys().map(|uri| json!({"uri": uri, "name": uri}));
            let others = [json!({"uri": "https://example.com/skill:", "name": "other"})];
            ended(json!({"resources": listed.chain(others).collect::<Vec<_>>()}), true)
        }
        "resources/templates/list" => ended(
            json!({"resourceTemplates": [{"uriTemplate": "skill://a/{name}", "name": "of a"}]}),
            true,
        ),
        "completion/complete" => {
            let of = &seen.body["params"]["ref"]["uri"];
            ended(json!({"completion": {"values": [of], "hasMore": false}}), false)
        }
        "skills/list" => {
            let entries: Vec<_> = shelf.odd.iter().cloned().chain(shelf.entries()).collect();
            let listed: Vec<_> = entries
                .into_iter()
                .filter(|entry| !shelf.unlisted.iter().any(|uri| entry["uri"] == **uri))
                .collect();
            let from: usize = seen.body["params"]["cursor"]
                .as_str()
                .map_or(0, |cursor| cursor.parse().unwrap());
            let mut page = json!({"skills": listed.iter().skip(from).take(2).collect::<Vec<_>>()});
            if from + 2 < listed.len() {
                page["nextCursor"] = json!((from + 2).to_string());
            }
            ended(page, true)
        }
        "skills/get" => match uri
            .strip_suffix("/SKILL.md")
            .and_then(|directory| shelf.entry(directory))
        {
            Some(entry) => ended(json!({"skill": entry}), true),
            None => unknown(),
        },
        "resources/directory/read" => {
            let start = format!("{uri}/");
            let inside = shelf
                .files
                .keys()
                .filter(|file| file.strip_prefix(&start).is_some_and(|rest| !rest.contains('/')));
            ended(
                json!({"resources": inside.map(|uri| json!({"uri": uri, "name": "n"})).collect::<Vec<_>>()}),
                false,
            )
        }
        "resources/read" => match shelf.forged.get(uri).or_else(|| shelf.files.get(uri)) {
            Some(bytes) => ended(json!({"contents": [content(uri, bytes)]}), true),
            None => unknown(),
        },
        method if method.starts_with("notifications/") => Answer::status(202),
        _ => seen.error(if era == Era::Modern { 404 } else { 200 }, -32601, "unknown method"),
    }
}

/// All skills that a client sees, over all pages.
async fn listed(gateway: &TestGateway, client: Revision) -> Vec<Value> {
    let (mut all, mut params) = (Vec::new(), json!({}));
    loop {
        let answer = gateway.ask(client, "skills/list", params).await;
        let result = &answer["result"];
        all.extend(
            result["skills"]
                .as_array()
                .unwrap_or_else(|| panic!("{answer}"))
                .iter()
                .cloned(),
        );
        match result.get("nextCursor") {
            Some(cursor) => params = json!({"cursor": cursor}),
            None => return all,
        }
    }
}

fn uris(entries: &[Value]) -> Vec<&str> {
    entries.iter().map(|entry| entry["uri"].as_str().unwrap()).collect()
}

fn bytes_of(answer: &Value) -> Vec<u8> {
    let content = &answer["result"]["contents"][0];
    match content["text"].as_str() {
        Some(text) => text.as_bytes().to_vec(),
        None => BASE64
            .decode(content["blob"].as_str().unwrap_or_else(|| panic!("{answer}")))
            .unwrap(),
    }
}

async fn capability(gateway: &TestGateway, client: Revision) -> Value {
    let answer = match client.era() {
        Era::Modern => gateway.ask(client, "server/discover", json!({})).await,
        Era::Legacy => {
            let params = json!({
                "protocolVersion": client.as_str(), "capabilities": {}, "clientInfo": {"name": "c", "version": "1"},
            });
            gateway.ask(client, "initialize", params).await
        }
    };
    assert!(answer["result"]["capabilities"]["resources"].is_object(), "{answer}");
    answer["result"]["capabilities"]["extensions"][EXTENSION].clone()
}

#[tokio::test]
async fn skills_of_two_servers_are_one_list_and_every_file_is_what_its_entry_says() {
    for era in ERAS {
        let one = Server::start(era, skills(&["backup", "ops/restore", "z"], "one")).await;
        let two = Server::start(era, skills(&["backup", "deploy", "net/dns"], "two")).await;
        let servers = [("one", one.upstream.address), ("two", two.upstream.address)];
        let gateway = TestGateway::ready_with(&servers, json!({"limits": {"pageSize": 4}})).await;
        for client in CLIENTS {
            assert_eq!(capability(&gateway, client).await, json!({"directoryRead": true}));
            let entries = listed(&gateway, client).await;
            assert_eq!(
                uris(&entries),
                [
                    "skill://one/backup/SKILL.md",
                    "skill://one/ops/restore/SKILL.md",
                    "skill://one/z/SKILL.md",
                    "skill://two/backup/SKILL.md",
                    "skill://two/deploy/SKILL.md",
                    "skill://two/net/dns/SKILL.md",
                ]
            );
            for entry in &entries {
                let uri = entry["uri"].as_str().unwrap();
                let server = if uri.starts_with("skill://one/") { &one } else { &two };
                let original = uri.replacen("one/", "", 1).replacen("two/", "", 1);
                let own = server
                    .shelf
                    .lock()
                    .unwrap()
                    .entry(original.strip_suffix("/SKILL.md").unwrap())
                    .unwrap();
                assert_eq!(entry["frontmatter"], own["frontmatter"]);
                let got = gateway.ask(client, "skills/get", json!({"uri": uri})).await;
                assert_eq!(got["result"]["skill"], *entry);
                let by_root = json!({"uri": uri.strip_suffix("/SKILL.md").unwrap()});
                assert_eq!(
                    gateway.ask(client, "skills/get", by_root).await["result"]["skill"],
                    *entry
                );
                let files = entry["resources"].as_array().unwrap();
                assert_eq!(files.len(), 3);
                for (file, own) in files.iter().zip(own["resources"].as_array().unwrap()) {
                    assert_eq!((&file["digest"], &file["size"]), (&own["digest"], &own["size"]));
                    let read = gateway.ask(client, "resources/read", json!({"uri": file["uri"]})).await;
                    assert_eq!(read["result"]["contents"][0]["uri"], file["uri"]);
                    assert_eq!(proof(&bytes_of(&read)), file["digest"].as_str().unwrap());
                }
            }
        }
        let status = gateway.metrics_page();
        assert!(status.contains(r#"list="skills",server="default/one"} 3"#), "{status}");
        gateway.stop().await;
    }
}

#[tokio::test]
async fn modern_answers_say_how_long_they_hold_and_legacy_ones_do_not() {
    let server = Server::start(Era::Modern, skill("a", "x")).await;
    let gateway = TestGateway::ready(&[("m", server.upstream.address)]).await;
    let uri = json!({"uri": "skill://m/a/SKILL.md"});
    for (method, params, scope) in [
        ("skills/list", json!({}), json!("public")),
        ("skills/get", uri.clone(), json!("private")),
        ("resources/directory/read", json!({"uri": "skill://m/a"}), Value::Null),
    ] {
        let modern = gateway.modern(method, params.clone()).await;
        assert_eq!(modern["result"]["resultType"], "complete", "{modern}");
        assert_eq!(modern["result"]["cacheScope"], scope);
        assert_eq!(modern["result"].get("ttlMs"), (!scope.is_null()).then_some(&json!(0)));
        // Legacy answers with any of these fail the check of every message.
        assert!(gateway.legacy(method, params).await["result"].is_object());
    }
    gateway.stop().await;
}

#[tokio::test]
async fn only_the_owner_is_asked_and_nobody_for_what_is_under_no_prefix() {
    let (one, two) = (
        Server::start(Era::Modern, skill("a", "one")).await,
        Server::start(Era::Legacy, skill("a", "two")).await,
    );
    let servers = [("one", one.upstream.address), ("two", two.upstream.address)];
    let gateway = TestGateway::ready(&servers).await;
    for client in CLIENTS {
        let read = gateway
            .ask(client, "resources/read", json!({"uri": "skill://two/a/picture"}))
            .await;
        assert_eq!(bytes_of(&read), [0xff, 0, 0xd8, b'\n']);
        for method in ["skills/get", "resources/read", "resources/directory/read"] {
            for uri in [
                "skill://zzz/a/SKILL.md",
                "skill://a/SKILL.md",
                "skill://one",
                "skill://a/x",
            ] {
                let refused = gateway.ask(client, method, json!({"uri": uri})).await;
                let code = match (method, client.era()) {
                    ("resources/read", Era::Legacy) => -32002,
                    _ => -32602,
                };
                assert_eq!(refused["error"]["code"], code, "{method} {uri}: {refused}");
            }
        }
    }
    assert_eq!(one.asked("resources/read"), Vec::<String>::new());
    assert_eq!(two.asked("resources/read"), ["skill://a/picture", "skill://a/picture"]);
    for server in [&one, &two] {
        assert_eq!(server.asked("skills/get"), Vec::<String>::new());
        assert_eq!(server.asked("resources/directory/read"), Vec::<String>::new());
    }
    gateway.stop().await;
}

#[tokio::test]
async fn a_skill_that_is_not_listed_is_got_and_read_from_its_owner() {
    for era in ERAS {
        let mut shelf = skills(&["a", "hidden"], "x");
        shelf.unlisted = vec!["skill://hidden/SKILL.md".into()];
        let server = Server::start(era, shelf).await;
        let gateway = TestGateway::ready(&[("m", server.upstream.address)]).await;
        for client in CLIENTS {
            assert_eq!(uris(&listed(&gateway, client).await), ["skill://m/a/SKILL.md"]);
            let got = gateway
                .ask(client, "skills/get", json!({"uri": "skill://m/hidden/SKILL.md"}))
                .await;
            assert_eq!(got["result"]["skill"]["uri"], "skill://m/hidden/SKILL.md", "{got}");
            let files = got["result"]["skill"]["resources"].as_array().unwrap();
            assert!(
                files
                    .iter()
                    .all(|file| file["uri"].as_str().unwrap().starts_with("skill://m/hidden/"))
            );
            let read = gateway
                .ask(client, "resources/read", json!({"uri": files[0]["uri"]}))
                .await;
            assert_eq!(proof(&bytes_of(&read)), files[0]["digest"].as_str().unwrap());
            let nope = gateway
                .ask(client, "skills/get", json!({"uri": "skill://m/nope/SKILL.md"}))
                .await;
            assert_eq!(nope["error"]["code"], -32602, "{nope}");
        }
        gateway.stop().await;
    }
}

#[tokio::test]
async fn directories_are_read_where_every_server_of_skills_lists_them() {
    let one = Server::start(Era::Modern, skill("a", "x")).await;
    let two = Server::start(
        Era::Modern,
        Shelf {
            no_directories: true,
            ..skill("a", "x")
        },
    )
    .await;
    let gateway = TestGateway::ready(&[("one", one.upstream.address)]).await;
    for client in CLIENTS {
        let read = gateway
            .ask(
                client,
                "resources/directory/read",
                json!({"uri": "skill://one/a/scripts"}),
            )
            .await;
        let expected = json!([{"uri": "skill://one/a/scripts/run.sh", "name": "n"}]);
        assert_eq!(read["result"]["resources"], expected, "{read}");
    }
    gateway.stop().await;
    let gateway = TestGateway::ready(&[("one", one.upstream.address), ("two", two.upstream.address)]).await;
    for client in CLIENTS {
        assert_eq!(capability(&gateway, client).await, json!({}));
        let read = gateway
            .ask(client, "resources/directory/read", json!({"uri": "skill://one/a"}))
            .await;
        assert_eq!(read["error"]["code"], -32601, "{read}");
    }
    gateway.stop().await;
}

#[tokio::test]
async fn a_file_that_is_not_what_its_entry_says_is_never_served() {
    for era in ERAS {
        let server = Server::start(era, skill("a", "x")).await;
        let gateway = TestGateway::ready(&[("m", server.upstream.address)]).await;
        let file = json!({"uri": "skill://m/a/scripts/run.sh"});
        let whole = server.shelf.lock().unwrap().files["skill://a/scripts/run.sh"].clone();
        let mut longer = whole.clone();
        longer.push(b'x');
        let mut other = whole.clone();
        other[3] ^= 1;
        for client in CLIENTS {
            for forged in [&longer, &other] {
                let forged = [("skill://a/scripts/run.sh".to_owned(), forged.clone())];
                server.shelf.lock().unwrap().forged = forged.into();
                let asked = server.asked("skills/get").len();
                let refused = gateway.ask(client, "resources/read", file.clone()).await;
                let text = refused["error"]["message"]
                    .as_str()
                    .unwrap_or_else(|| panic!("{refused}"));
                assert!(text.contains("entry") && text.contains("not passed on"), "{text}");
                assert_eq!(
                    server.asked("skills/get").len(),
                    asked + 1,
                    "the entry is looked up once"
                );
            }
            server.shelf.lock().unwrap().forged.clear();
            let read = gateway.ask(client, "resources/read", file.clone()).await;
            assert_eq!(bytes_of(&read), whole);
        }
        gateway.stop().await;
    }
}

#[tokio::test]
async fn a_file_that_has_changed_with_its_entry_is_served_as_it_is_now() {
    for era in ERAS {
        let server = Server::start(era, skill("a", "x")).await;
        let gateway = TestGateway::ready(&[("m", server.upstream.address)]).await;
        let uri = "skill://a/scripts/run.sh".to_owned();
        for (client, text) in CLIENTS.into_iter().zip([b"first".to_vec(), b"second".to_vec()]) {
            server.shelf.lock().unwrap().files.insert(uri.clone(), text.clone());
            let read = gateway
                .ask(client, "resources/read", json!({"uri": "skill://m/a/scripts/run.sh"}))
                .await;
            assert_eq!(bytes_of(&read), text);
            // What is listed follows, though nothing was announced.
            let follows = async {
                loop {
                    let listed = listed(&gateway, client).await;
                    let files = listed[0]["resources"].as_array().unwrap();
                    if files.iter().any(|file| file["digest"] == proof(&text)) {
                        return;
                    }
                    sleep(Duration::from_millis(50)).await;
                }
            };
            timeout(Duration::from_secs(5), follows)
                .await
                .expect("the list is still the old one");
        }
        gateway.stop().await;
    }
}

#[tokio::test]
async fn a_member_without_skills_contributes_none_and_nothing_is_declared() {
    let server = Server::start(Era::Modern, skill("a", "x")).await;
    let address = server.upstream.address;
    let members = |more: Value| {
        let mut member = json!({"name": "m", "server": {"name": "m"}});
        member
            .as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        json!({"members": [member]})
    };
    for (more, noted) in [
        (json!({"skills": false}), false),
        (json!({"prefix": ""}), false),
        (json!({"prefix": "Big"}), true),
    ] {
        let mut gateway = TestGateway::ready_with(&[("m", address)], members(more.clone())).await;
        for client in CLIENTS {
            assert_eq!(capability(&gateway, client).await, Value::Null, "{more}");
            assert_eq!(listed(&gateway, client).await, Vec::<Value>::new(), "{more}");
        }
        let observed = gateway.until(|_| true).await;
        let note = observed.federations.values().next().unwrap().members[0].note.clone();
        assert_eq!(note.is_some_and(|note| note.contains("\"Big\"")), noted, "{more}");
        gateway.stop().await;
    }
    let never = json!({"naming": {"prefix": "Never"}});
    let gateway = TestGateway::ready_with(&[("m", address)], never).await;
    assert_eq!(
        uris(&listed(&gateway, Revision::LATEST).await),
        ["skill://m/a/SKILL.md"]
    );
    gateway.stop().await;
}

#[tokio::test]
async fn entries_that_hosts_could_not_use_are_withheld_and_named() {
    let shelf = Shelf {
        odd: vec![
            json!({"uri": "skill://bad/SKILL.md", "frontmatter": {"name": "other"}, "resources": "dynamic"}),
            json!({"uri": "skill://live/SKILL.md", "frontmatter": {"name": "live"}, "resources": "dynamic"}),
        ],
        ..skill("a", "x")
    };
    let server = Server::start(Era::Modern, shelf).await;
    let mut gateway = TestGateway::ready(&[("m", server.upstream.address)]).await;
    let entries = listed(&gateway, Revision::LATEST).await;
    assert_eq!(uris(&entries), ["skill://m/a/SKILL.md", "skill://m/live/SKILL.md"]);
    assert_eq!(entries[1]["resources"], "dynamic");
    let observed = gateway.until(|_| true).await;
    let catalog = observed.servers.values().next().unwrap().catalog.clone().unwrap();
    assert_eq!((catalog.skills, catalog.withheld.len()), (2, 1));
    assert_eq!(catalog.withheld[0].name, "skill://bad/SKILL.md");
    assert!(
        catalog.withheld[0].reason.contains("called \"other\""),
        "{}",
        catalog.withheld[0].reason
    );
    assert_eq!(observed.federations.values().next().unwrap().index.skills, 2);
    gateway.stop().await;
}

#[tokio::test]
async fn a_list_that_was_read_once_is_served_while_the_server_is_away() {
    let server = Server::start(Era::Modern, skill("a", "x")).await;
    let mut gateway = TestGateway::ready(&[("m", server.upstream.address)]).await;
    drop(server);
    let found = gateway
        .modern("resources/read", json!({"uri": "skill://m/a/picture"}))
        .await;
    assert!(found["error"].is_object());
    gateway
        .until(|observed| {
            let mut servers = observed.servers.values();
            servers.all(|server| matches!(server.state, mcpfleet::fleet::UpstreamState::Failed { .. }))
        })
        .await;
    for client in CLIENTS {
        assert_eq!(uris(&listed(&gateway, client).await), ["skill://m/a/SKILL.md"]);
    }
    gateway.stop().await;
}

#[tokio::test]
async fn uris_of_skills_are_told_alike_wherever_they_stand() {
    for era in ERAS {
        let server = Server::start(era, skill("a", "x")).await;
        let gateway = TestGateway::ready(&[("m", server.upstream.address)]).await;
        for client in CLIENTS {
            let called = gateway
                .ask(client, "tools/call", json!({"name": "m__find", "arguments": {}}))
                .await;
            let content = &called["result"]["content"];
            assert_eq!(content[0]["uri"], "skill://m/a/x", "{called}");
            assert_eq!(content[1]["resource"]["uri"], "skill://m/a/y");
            assert_eq!(content[1]["resource"]["text"], "see skill://a/y");
            assert_eq!(content[2]["text"], "skill://a");
            let resources = gateway.ask(client, "resources/list", json!({})).await;
            let resources: Vec<_> = resources["result"]["resources"].as_array().unwrap().to_vec();
            assert_eq!(
                uris(&resources),
                [
                    "https://example.com/skill:",
                    "skill://m/a/SKILL.md",
                    "skill://m/a/picture",
                    "skill://m/a/scripts/run.sh",
                ]
            );
            let templates = gateway.ask(client, "resources/templates/list", json!({})).await;
            assert_eq!(
                templates["result"]["resourceTemplates"][0]["uriTemplate"],
                "skill://m/a/{name}"
            );
            let completed = gateway
                .ask(
                    client,
                    "completion/complete",
                    json!({"ref": {"type": "ref/resource", "uri": "skill://m/a/{name}"}, "argument": {"name": "name", "value": ""}}),
                )
                .await;
            assert_eq!(
                completed["result"]["completion"]["values"],
                json!(["skill://a/{name}"]),
                "{completed}"
            );
        }
        gateway.stop().await;
    }
}

#[tokio::test]
async fn an_update_of_a_file_names_it_as_its_client_does() {
    for era in ERAS {
        let server = Server::start(era, skill("a", "x")).await;
        let gateway = TestGateway::ready(&[("m", server.upstream.address)]).await;
        let uri = "skill://m/a/SKILL.md";
        let params = json!({"notifications": {"resourceSubscriptions": [uri]}});
        let mut events = gateway.modern_events(json!(7), "subscriptions/listen", params).await;
        let acknowledged = events.next().await;
        assert_eq!(
            acknowledged["params"]["notifications"]["resourceSubscriptions"],
            json!([uri]),
            "{acknowledged}"
        );
        let hearers = server.shelf.lock().unwrap().hearers.clone();
        for hearer in hearers {
            let updated = json!({"jsonrpc": "2.0", "method": "notifications/resources/updated", "params": {"uri": "skill://a/SKILL.md"}});
            drop(hearer.send(updated));
        }
        let told = timeout(Duration::from_secs(5), events.next()).await.unwrap();
        assert_eq!(
            (&told["method"], &told["params"]["uri"]),
            (&json!("notifications/resources/updated"), &json!(uri))
        );
        gateway.stop().await;
    }
}

#[tokio::test]
async fn a_change_of_skills_is_told_as_one_of_resources() {
    let server = Server::start(Era::Modern, skill("a", "x")).await;
    let gateway = TestGateway::ready(&[("m", server.upstream.address)]).await;
    let params = json!({"notifications": {"resourcesListChanged": true, "toolsListChanged": true}});
    let mut events = gateway.modern_events(json!(1), "subscriptions/listen", params).await;
    events.next().await;
    server.shelf.lock().unwrap().unlisted = vec!["skill://a/SKILL.md".into()];
    let hearers = server.shelf.lock().unwrap().hearers.clone();
    for hearer in hearers {
        drop(hearer.send(json!({"jsonrpc": "2.0", "method": "notifications/resources/list_changed"})));
    }
    let told = timeout(Duration::from_secs(5), events.next()).await.unwrap();
    assert_eq!(told["method"], "notifications/resources/list_changed");
    assert_eq!(listed(&gateway, Revision::LATEST).await, Vec::<Value>::new());
    gateway.stop().await;
}

#[tokio::test]
async fn what_no_rule_covers_is_neither_listed_nor_got_nor_read() {
    let server = Server::start(Era::Modern, skills(&["open", "closed"], "x")).await;
    let rules = json!({"access": {"anonymous": {}, "rules": [{"names": ["skill://open/*", "find"]}]}});
    let gateway = TestGateway::ready_with(&[("m", server.upstream.address)], rules).await;
    for client in CLIENTS {
        assert_eq!(uris(&listed(&gateway, client).await), ["skill://m/open/SKILL.md"]);
        for (method, uri) in [
            ("skills/get", "skill://m/closed/SKILL.md"),
            ("resources/read", "skill://m/closed/picture"),
            ("resources/directory/read", "skill://m/closed/scripts"),
        ] {
            let refused = gateway.ask(client, method, json!({"uri": uri})).await;
            assert!(refused["error"].is_object(), "{refused}");
        }
        let read = gateway
            .ask(client, "resources/read", json!({"uri": "skill://m/open/picture"}))
            .await;
        assert!(read["result"].is_object(), "{read}");
    }
    assert_eq!(server.asked("skills/get"), Vec::<String>::new());
    gateway.stop().await;
}

/// A federation with skills of its own from a ConfigMap, beside a member that is called as their prefix.
async fn own_skills(files: &[(&str, &str, &[u8])], ops: &Server) -> TestGateway {
    let items: Vec<_> = files
        .iter()
        .map(|(key, path, _)| json!({"key": key, "path": path}))
        .collect();
    let source = json!([{"configMapRef": {"name": "runbooks"}, "prefix": ["ops", "net"], "items": items}]);
    let mut plan = plan_with(&[("ops", ops.upstream.address)], json!({"skills": source}));
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
    let runbook =
        b"---\nname: restart-runbook\ndescription: Restart a wedged workload\nversion: 2.0.1\n---\n\nSteps.\n";
    let zones = b"eu-west, us-east\n";
    let files: [(&str, &str, &[u8]); 4] = [
        ("m", "restart-runbook/SKILL.md", runbook),
        ("z", "restart-runbook/zones.txt", zones),
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
