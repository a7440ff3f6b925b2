//! Skills of several servers as one list, whose owners alone are asked.

use mcpfleet::mcp::{Era, Revision};
use serde_json::{Value, json};

use super::server::{Server, Shelf, skill, skills};
use super::{CLIENTS, ERAS, bytes_of, capability, listed, proof, uris};
use crate::support::gateway::TestGateway;

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
        // Hosts on the TypeScript SDK refuse a directory without.
        (
            "resources/directory/read",
            json!({"uri": "skill://m/a"}),
            json!("private"),
        ),
    ] {
        let modern = gateway.modern(method, params.clone()).await;
        assert_eq!(modern["result"]["resultType"], "complete", "{modern}");
        assert_eq!(
            (&modern["result"]["cacheScope"], &modern["result"]["ttlMs"]),
            (&scope, &json!(0))
        );
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
            json!({"uri": "skill://live/SKILL.md", "frontmatter": {"name": "live", "description": "Live"}, "resources": "dynamic"}),
            json!({"uri": "skill://mute/SKILL.md", "frontmatter": {"name": "mute"}, "resources": "dynamic"}),
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
    assert_eq!((catalog.skills, catalog.withheld.len()), (2, 2));
    assert_eq!(catalog.withheld[0].name, "skill://bad/SKILL.md");
    assert!(
        catalog.withheld[0].reason.contains("called \"other\""),
        "{}",
        catalog.withheld[0].reason
    );
    assert_eq!(catalog.withheld[1].name, "skill://mute/SKILL.md");
    assert!(
        catalog.withheld[1].reason.contains("`description`"),
        "{}",
        catalog.withheld[1].reason
    );
    assert_eq!(observed.federations.values().next().unwrap().index.skills, 2);
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
