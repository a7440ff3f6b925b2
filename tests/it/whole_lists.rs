//! Lists are whole: every page of every kind is read, and where there is nothing to see they are empty and lists all the
//! same.

use mcpfleet::mcp::{Era, Revision};
use serde_json::{Value, json};

use crate::access::{ALICE, BOB, alice_and_bob, by_key};
use crate::support::gateway::{TestGateway, plan, plan_with};
use crate::support::upstream::{Answer, Seen, Upstream, refusing_address};

const COUNT: usize = 25;
const PAGE: usize = 10;
const CLIENTS: [Revision; 2] = [Revision::LATEST_LEGACY, Revision::LATEST];
const SKILLS: &str = "io.modelcontextprotocol/skills";
/// The lists, by their methods, and what they call their items and the keys of those.
const LISTS: [(&str, &str, &str); 5] = [
    ("tools/list", "tools", "name"),
    ("prompts/list", "prompts", "name"),
    ("resources/list", "resources", "uri"),
    ("resources/templates/list", "resourceTemplates", "uriTemplate"),
    ("skills/list", "skills", "uri"),
];

/// What a server lists as number `i`.
fn item(list: &str, i: usize) -> Value {
    match list {
        "tools" => json!({"name": format!("t{i:02}"), "inputSchema": {"type": "object"}}),
        "prompts" => json!({"name": format!("p{i:02}")}),
        "resources" => json!({"uri": format!("r://{i:02}"), "name": "r"}),
        "resourceTemplates" => json!({"uriTemplate": format!("of{i:02}://{{x}}"), "name": "of"}),
        _ => json!({
            "uri": format!("skill://s{i:02}/SKILL.md"), "resources": "dynamic",
            "frontmatter": {"name": format!("s{i:02}"), "description": "D"},
        }),
    }
}

/// A server of `era` that lists 25 of each kind, ten on a page, and serves each by what it calls it.
fn script(seen: &Seen, era: Era) -> Answer {
    let params = &seen.body["params"];
    let capabilities = json!({"tools": {}, "prompts": {}, "resources": {}, "extensions": {SKILLS: {}}});
    let mut result = match seen.method() {
        "initialize" if era == Era::Legacy => json!({
            "protocolVersion": "2025-11-25", "capabilities": capabilities,
            "serverInfo": {"name": "many", "version": "1"},
        }),
        "server/discover" if era == Era::Modern => {
            json!({"supportedVersions": ["2026-07-28"], "capabilities": capabilities})
        }
        "tools/call" => json!({"content": [{"type": "text", "text": params["name"]}]}),
        "prompts/get" => json!({"messages": [], "description": params["name"]}),
        "resources/read" => json!({"contents": [{"uri": params["uri"], "text": params["uri"]}]}),
        "skills/get" => {
            let mut skills = (0..COUNT).map(|i| item("skills", i));
            json!({"skill": skills.find(|skill| skill["uri"] == params["uri"])})
        }
        method if method.starts_with("notifications/") => return Answer::status(202),
        method => {
            let list = LISTS.iter().find(|(own, ..)| *own == method);
            let Some((_, list, _)) = list else {
                return seen.error(if era == Era::Modern { 404 } else { 200 }, -32601, "unknown method");
            };
            let page = match params["cursor"].as_str() {
                None => 0,
                Some("c1") => 1,
                Some("c2") => 2,
                Some(_) => return seen.error(200, -32602, "no such cursor"),
            };
            let items = (page * PAGE..COUNT.min((page + 1) * PAGE)).map(|i| item(list, i));
            let mut result = json!({*list: items.collect::<Vec<_>>()});
            if page < 2 {
                result["nextCursor"] = json!(format!("c{}", page + 1));
            }
            result
        }
    };
    if era == Era::Modern {
        result["resultType"] = json!("complete");
        if !matches!(seen.method(), "tools/call" | "prompts/get") {
            (result["ttlMs"], result["cacheScope"]) = (json!(0), json!("private"));
        }
    }
    seen.result(result)
}

/// The keys of a list, over all its pages.
async fn keys(gateway: &TestGateway, client: Revision, (method, list, key): (&str, &str, &str)) -> Vec<String> {
    let (mut all, mut params) = (Vec::new(), json!({}));
    loop {
        let answer = gateway.ask(client, method, params).await;
        let items = answer["result"][list].as_array().unwrap_or_else(|| panic!("{answer}"));
        all.extend(items.iter().map(|item| item[key].as_str().unwrap().to_owned()));
        match answer["result"].get("nextCursor") {
            Some(cursor) => params = json!({"cursor": cursor}),
            None => return all,
        }
    }
}

#[tokio::test]
async fn every_page_of_every_list_is_read_and_what_is_on_the_last_is_served_like_the_rest() {
    for era in [Era::Legacy, Era::Modern] {
        let server = Upstream::start(move |seen| script(seen, era)).await;
        for spec in [json!({}), json!({"limits": {"pageSize": 7}})] {
            let mut gateway = TestGateway::ready_with(&[("s", server.address)], spec).await;
            let observed = gateway.until(|_| true).await;
            let catalog = observed.servers.values().next().unwrap().catalog.clone().unwrap();
            let counts = [
                catalog.tools,
                catalog.prompts,
                catalog.resources,
                catalog.templates,
                catalog.skills,
            ];
            assert_eq!((counts, catalog.complete), ([25; 5], true), "{era:?}");
            for client in CLIENTS {
                for list in LISTS {
                    let mut listed = keys(&gateway, client, list).await;
                    assert_eq!(listed.len(), COUNT, "{era:?} {client} {}", list.0);
                    listed.dedup();
                    assert_eq!(listed.len(), COUNT, "{era:?} {client} {}", list.0);
                    assert!(listed.is_sorted());
                }
            }
            for client in CLIENTS {
                for (method, params, told, expected) in [
                    ("tools/call", json!({"name": "s__t24"}), "/content/0/text", "t24"),
                    ("prompts/get", json!({"name": "s__p24"}), "/description", "p24"),
                    ("resources/read", json!({"uri": "r://24"}), "/contents/0/text", "r://24"),
                    (
                        "resources/read",
                        json!({"uri": "of24://x"}),
                        "/contents/0/text",
                        "of24://x",
                    ),
                    (
                        "skills/get",
                        json!({"uri": "skill://s/s24/SKILL.md"}),
                        "/skill/uri",
                        "skill://s/s24/SKILL.md",
                    ),
                ] {
                    let answer = gateway.ask(client, method, params).await;
                    let found = answer["result"].pointer(told);
                    assert_eq!(found, Some(&json!(expected)), "{era:?} {client} {method}: {answer}");
                }
            }
        }
    }
}

/// What each list shows to who sends these headers.
async fn shown(gateway: &TestGateway, key: Option<(&str, &str)>) -> Vec<Value> {
    let mut all = Vec::new();
    for (method, list, _) in LISTS {
        for client in CLIENTS {
            let mut headers = vec![("mcp-protocol-version", client.as_str())];
            headers.extend(key);
            let mut params = json!({});
            let session;
            match client.era() {
                Era::Modern => {
                    headers.push(("mcp-method", method));
                    params["_meta"] = json!({
                        "io.modelcontextprotocol/protocolVersion": client.as_str(),
                        "io.modelcontextprotocol/clientCapabilities": {},
                    });
                }
                Era::Legacy => {
                    let own: Vec<_> = key.into_iter().collect();
                    session = crate::support::http::open_session(&gateway.client, &gateway.url(), client, &own).await;
                    headers.extend(session.as_deref().map(|session| ("mcp-session-id", session)));
                }
            }
            let body = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
            let reply = gateway.bare_post(&body.to_string(), headers).await;
            assert_eq!(reply.status, 200, "{}", reply.text);
            let result = reply.json()["result"].take();
            assert!(result.get("nextCursor").is_none(), "{result}");
            all.push(result[list].clone());
        }
    }
    all
}

#[tokio::test]
async fn where_nothing_is_to_be_seen_every_list_is_empty_and_none_is_missing() {
    let server = Upstream::start(|seen| script(seen, Era::Modern)).await;
    let servers = [("s", server.address)];
    let nothing = vec![json!([]); LISTS.len() * CLIENTS.len()];

    let empty = TestGateway::start(plan(&[])).await;
    assert_eq!(shown(&empty, None).await, nothing, "no member");
    let away = TestGateway::start(plan(&[("s", refusing_address().await)])).await;
    assert_eq!(shown(&away, None).await, nothing, "no server that is ready");

    let mut ruled = by_key(plan(&servers), alice_and_bob());
    let access = ruled.federations[0].spec.access.as_mut().unwrap();
    access.rules = serde_json::from_value(json!([{"principals": ["alice"]}])).unwrap();
    let mut gateway = TestGateway::start(ruled).await;
    gateway
        .until(|o| o.federations.values().all(|f| f.index.skills == 25))
        .await;
    assert_eq!(shown(&gateway, Some(BOB)).await, nothing, "no rule for him");
    assert!(
        shown(&gateway, Some(ALICE))
            .await
            .iter()
            .all(|list| list.as_array().unwrap().len() == COUNT)
    );

    let denied = json!({"members": [{"name": "s", "server": {"name": "s"}, "tools": {"deny": ["*"]}}]});
    let mut gateway = TestGateway::start(plan_with(&servers, denied)).await;
    gateway
        .until(|o| o.federations.values().all(|f| f.index.prompts == 25))
        .await;
    assert_eq!(shown(&gateway, None).await[..2], nothing[..2], "every tool is denied");
}

#[tokio::test]
async fn a_list_that_goes_on_for_ever_is_served_as_far_as_it_was_read_and_is_told_to_be_cut() {
    let server = Upstream::start(|seen| match (seen.method(), &seen.body["params"]["cursor"]) {
        ("tools/list", cursor) => {
            let page: u32 = cursor.as_str().map_or(0, |cursor| cursor.parse().unwrap());
            let tool = json!({"name": format!("t{page:05}"), "inputSchema": {"type": "object"}});
            seen.result(json!({"tools": [tool], "nextCursor": (page + 1).to_string()}))
        }
        ("skills/list" | "prompts/list" | "resources/list" | "resources/templates/list", _) => {
            seen.error(200, -32601, "unknown method")
        }
        _ => script(seen, Era::Legacy),
    })
    .await;
    let mut gateway = TestGateway::ready(&[("s", server.address)]).await;
    let observed = gateway.until(|_| true).await;
    let catalog = observed.servers.values().next().unwrap().catalog.clone().unwrap();
    assert_eq!((catalog.tools, catalog.complete), (1_000, false));
    let told = &catalog.withheld[0];
    assert_eq!(told.name, "tools/list");
    assert!(told.reason.contains("after 1000 pages"), "{}", told.reason);
    let page = gateway.metrics_page();
    let line = r#"mcpfleet_catalog_complete{server="default/s"} 0"#;
    assert!(page.contains(line), "{page}");
    assert_eq!(keys(&gateway, Revision::LATEST, LISTS[0]).await.len(), 1_000);
}
