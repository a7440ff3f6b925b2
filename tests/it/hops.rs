//! Client and server are two hops: what belongs to one never reaches the other.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use ::http::{HeaderName, HeaderValue, Method};
use mcpfleet::fleet::UpstreamState;
use mcpfleet::mcp::Revision;
use mcpfleet::upstream::Endpoint;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::time::timeout;

use crate::support::gateway::{TestGateway, plan};
use crate::support::http;
use crate::support::legacy_client::LegacyClient;
use crate::support::upstream::{self, Answer, Seen, Upstream};

fn tools() -> Value {
    json!([{"name": "t", "inputSchema": {"type": "object"}}])
}

async fn both() -> (TestGateway, Upstream, Upstream) {
    let old = Upstream::start(|seen| upstream::legacy(seen, &tools())).await;
    let new = Upstream::start(|seen| upstream::modern(seen, &tools())).await;
    let gateway = TestGateway::ready(&[("old", old.address), ("new", new.address)]).await;
    (gateway, old, new)
}

#[tokio::test]
async fn a_session_with_a_server_is_opened_in_order_and_named_in_all_that_follows() {
    let (gateway, old, _new) = both().await;
    for _ in 0..2 {
        gateway.modern("tools/call", json!({"name": "old__t"})).await;
    }
    let seen: Vec<_> = old
        .seen()
        .into_iter()
        .filter(|seen| seen.http == Method::POST)
        .collect();
    let begins = seen.iter().position(|seen| seen.method() == "initialize").unwrap();
    assert_eq!(seen[begins + 1].method(), "notifications/initialized");
    let (handshakes, later): (Vec<_>, Vec<_>) = seen[begins..].iter().partition(|seen| seen.method() == "initialize");
    for handshake in handshakes {
        assert_eq!(handshake.header("mcp-session-id"), None);
        assert_eq!(handshake.header("mcp-protocol-version"), None);
        assert_eq!(handshake.body["params"]["protocolVersion"], "2025-11-25");
    }
    for later in later {
        assert_eq!(later.header("mcp-session-id"), Some("s-1"), "{later:?}");
        assert_eq!(
            later.header("mcp-protocol-version"),
            Some("2025-06-18"),
            "as it was agreed"
        );
    }
}

#[tokio::test]
async fn headers_that_an_owner_sets_go_along_and_never_replace_those_of_the_protocol() {
    let old = Upstream::start(|seen| upstream::legacy(seen, &tools())).await;
    let new = Upstream::start(|seen| upstream::modern(seen, &tools())).await;
    let mut input = plan(&[("old", old.address), ("new", new.address)]);
    // Those that not every message has are refused where they are written down.
    let owned = [
        "accept",
        "accept-encoding",
        "content-type",
        "mcp-method",
        "mcp-protocol-version",
    ];
    for server in &mut input.servers {
        let own = if server.key.name == "new" {
            &owned[..]
        } else {
            &owned[..3]
        };
        let Ok(Endpoint::Http(endpoint)) = &mut server.endpoint else {
            unreachable!()
        };
        for name in own.iter().chain([&"x-team"]) {
            let (name, value) = (HeaderName::from_static(name), HeaderValue::from_static("blue"));
            endpoint.headers.insert(name, value);
        }
    }
    let mut gateway = TestGateway::start(input).await;
    gateway
        .until(|o| o.servers.values().all(|s| s.state == UpstreamState::Ready))
        .await;
    for tool in ["old__t", "new__t"] {
        let answer = gateway.modern("tools/call", json!({"name": tool})).await;
        assert_eq!(answer["result"]["content"][0]["text"], "t", "{answer}");
    }
    let old = old.seen().into_iter().map(|seen| (&owned[..3], seen));
    let new = new.seen().into_iter().map(|seen| (&owned[..], seen));
    for (owned, seen) in old.chain(new) {
        assert_eq!(seen.header("x-team"), Some("blue"));
        if seen.http != Method::POST {
            continue;
        }
        for name in owned {
            let sent: Vec<_> = seen.headers.get_all(*name).iter().collect();
            assert!(sent.len() == 1 && *sent[0] != "blue", "{name}: {sent:?} in {seen:?}");
        }
        let accept = seen.header("accept").unwrap();
        assert!(
            accept.contains("application/json") && accept.contains("text/event-stream"),
            "{accept}"
        );
    }
}

#[tokio::test]
async fn an_extension_that_a_client_declares_and_the_gateway_carries_is_declared_to_servers() {
    let (gateway, _old, new) = both().await;
    let declared = json!({"extensions": {
        "io.modelcontextprotocol/ui": {"mimeTypes": ["text/html;profile=mcp-app"]}, "com.example/own": {},
    }});
    gateway
        .modern_declaring(declared, "tools/call", json!({"name": "new__t"}))
        .await;
    gateway.modern("tools/call", json!({"name": "new__t"})).await;
    let calls = new.seen_of("tools/call");
    let heard = |seen: &Seen| seen.body["params"]["_meta"]["io.modelcontextprotocol/clientCapabilities"].clone();
    let carried = json!({"extensions": {"io.modelcontextprotocol/ui": {"mimeTypes": ["text/html;profile=mcp-app"]}}});
    assert_eq!(heard(&calls[0]), carried);
    assert_eq!(heard(&calls[1]), json!({}), "another client's are not remembered");
}

#[tokio::test]
async fn statuses_of_a_server_are_never_those_of_the_answer_to_a_client() {
    type Case = (&'static str, fn(&Seen) -> Answer);
    let cases: [Case; 7] = [
        ("unknown method", |seen| seen.error(404, -32601, "unknown method")),
        ("no session", |_| Answer::text(404, "text/plain", "Session not found")),
        ("bad session", |seen| {
            seen.error(400, -32000, "Bad Request: no valid session ID provided")
        }),
        ("unauthorised", |_| {
            Answer::text(401, "text/plain", "who?").with_header("www-authenticate", "Bearer x=y")
        }),
        ("forbidden", |seen| seen.error(403, -32001, "not you")),
        ("too many", |_| Answer::status(429).with_header("retry-after", "3600")),
        ("redirected", |_| {
            Answer::status(307).with_header("location", "http://127.0.0.1:1/")
        }),
    ];
    for (what, answer) in cases {
        for modern in [false, true] {
            let server = Upstream::start(move |seen| match seen.method() {
                "tools/call" => answer(seen),
                _ if modern => upstream::modern(seen, &tools()),
                _ => upstream::legacy(seen, &tools()),
            })
            .await;
            let gateway = TestGateway::ready(&[("s", server.address)]).await;
            let call = json!({"name": "s__t", "arguments": {}});
            let legacy = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call});
            let session = gateway.open_session(Revision::LATEST_LEGACY).await;
            let of_session = [("mcp-session-id", session.as_str())];
            let reply = gateway.send(http::legacy(&gateway.url(), &legacy, of_session)).await;
            assert_eq!(
                reply.status, 200,
                "{what}: a client with a session opens no other: {}",
                reply.text
            );
            assert!(reply.json()["error"].is_object(), "{what}: {}", reply.text);
            let mut reply = vec![reply];
            let mut params = call.clone();
            params["_meta"] = json!({
                "io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {},
            });
            let body = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params});
            let headers = [
                ("mcp-protocol-version", "2026-07-28"),
                ("mcp-method", "tools/call"),
                ("mcp-name", "s__t"),
            ];
            reply.push(gateway.post(body, &headers).await);
            assert_eq!(reply[1].status, 200, "{what}: {}", reply[1].text);
            assert!(reply[1].json()["error"].is_object(), "{what}: {}", reply[1].text);
            for reply in reply {
                for name in ["www-authenticate", "retry-after", "location"] {
                    assert_eq!(reply.header(name), None, "{what}");
                }
            }
        }
    }
}

#[tokio::test]
async fn errors_that_speak_of_our_hop_are_not_taken_for_the_clients_fault() {
    for code in [-32020, -32021, -32022] {
        let server = Upstream::start(move |seen| match seen.method() {
            "tools/call" => {
                let data = json!({"supported": ["2026-07-28"], "requested": "x", "requiredCapabilities": {}});
                let error = json!({"code": code, "message": "our hop", "data": data});
                Answer::json(400, json!({"jsonrpc": "2.0", "id": seen.body["id"], "error": error}))
            }
            _ => upstream::modern(seen, &tools()),
        })
        .await;
        let gateway = TestGateway::ready(&[("s", server.address)]).await;
        let call = json!({"name": "s__t", "arguments": {}});
        for answer in [
            gateway.legacy("tools/call", call.clone()).await,
            gateway.modern("tools/call", call).await,
        ] {
            assert_eq!(answer["error"]["code"], -32603, "{answer}");
            assert_eq!(answer["error"]["data"]["upstream"]["code"], code, "{answer}");
        }
    }
}

/// A server that tells of progress twice, under the token of the call, and then answers with the arguments.
fn telling(seen: &Seen, modern: bool) -> Answer {
    let token = &seen.body["params"]["_meta"]["progressToken"];
    let who = &seen.body["params"]["arguments"]["who"];
    let mut result = json!({"content": [{"type": "text", "text": who}]});
    if modern {
        result["resultType"] = json!("complete");
    }
    let told = |n: u32| {
        let params = json!({"progressToken": token, "progress": n, "message": who});
        json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": params})
    };
    let answer = json!({"jsonrpc": "2.0", "id": seen.body["id"], "result": result});
    Answer::Stream(
        [told(1), told(2), answer]
            .map(|message| (Duration::from_millis(100), message))
            .into(),
    )
}

#[tokio::test]
async fn clients_with_the_same_ids_and_tokens_hear_of_their_own_calls_only() {
    let old = Upstream::start(|seen| match seen.method() {
        "tools/call" => telling(seen, false),
        _ => upstream::legacy(seen, &tools()),
    })
    .await;
    let new = Upstream::start(|seen| match seen.method() {
        "tools/call" => telling(seen, true),
        _ => upstream::modern(seen, &tools()),
    })
    .await;
    let gateway = TestGateway::ready(&[("old", old.address), ("new", new.address)]).await;
    let clients: Vec<_> =
        futures::future::join_all((0..4).map(|_| LegacyClient::open(&gateway, Revision::LATEST_LEGACY, json!({}))))
            .await;
    let calls = (0..16).map(async |number: usize| {
        let (server, who) = (["old", "new"][number / 2 % 2], format!("caller {number}"));
        // Widespread clients call everything 1.
        let params = json!({"name": format!("{server}__t"), "arguments": {"who": who}, "_meta": {"progressToken": 1}});
        let messages = if number.is_multiple_of(2) {
            clients[number / 2 % 4].request_to_end("tools/call", params).await
        } else {
            gateway.modern_declaring(json!({}), "tools/call", params).await
        };
        let [first, second, answer] = &messages[..] else {
            panic!("{messages:?}")
        };
        assert_eq!(
            first["params"],
            json!({"progressToken": 1, "progress": 1, "message": who})
        );
        assert_eq!(
            second["params"],
            json!({"progressToken": 1, "progress": 2, "message": who})
        );
        assert_eq!(answer["result"]["content"][0]["text"], *who);
    });
    futures::future::join_all(calls).await;
    // To one connection at least, no two calls have the same token.
    let calls = new.seen_of("tools/call");
    let tokens = calls
        .iter()
        .map(|seen| seen.body["params"]["_meta"]["progressToken"].to_string());
    assert_eq!(tokens.collect::<BTreeSet<_>>().len(), calls.len());
}

#[tokio::test]
async fn progress_goes_on_growing_where_a_server_begins_anew_in_each_round() {
    let rounds = AtomicUsize::new(0);
    let server = Upstream::start(move |seen| match seen.method() {
        "tools/call" => {
            let round = rounds.fetch_add(1, Ordering::SeqCst);
            let token = &seen.body["params"]["_meta"]["progressToken"];
            let result = match round {
                2 => json!({"resultType": "complete", "content": []}),
                _ => json!({"resultType": "input_required", "requestState": "more"}),
            };
            let told = [0.0, 0.5, 1.0].map(|n| {
                let params = json!({"progressToken": token, "progress": n, "total": 1});
                json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": params})
            });
            let answer = json!({"jsonrpc": "2.0", "id": seen.body["id"], "result": result});
            Answer::Stream(
                told.into_iter()
                    .chain([answer])
                    .map(|message| (Duration::ZERO, message))
                    .collect(),
            )
        }
        _ => upstream::modern(seen, &tools()),
    })
    .await;
    let gateway = TestGateway::ready(&[("s", server.address)]).await;
    let client = LegacyClient::open(&gateway, Revision::LATEST_LEGACY, json!({})).await;
    let call = json!({"name": "s__t", "_meta": {"progressToken": "p"}});
    let messages = client.request_to_end("tools/call", call).await;
    let told: Vec<_> = messages
        .iter()
        .filter_map(|message| message["params"]["progress"].as_f64())
        .collect();
    assert!(told.len() >= 3, "{messages:?}");
    assert!(told.windows(2).all(|two| two[0] < two[1]), "{told:?}");
    assert_eq!(messages.last().unwrap()["result"], json!({"content": []}));
}

#[tokio::test]
async fn what_a_server_cannot_do_is_not_asked_of_it() {
    let (gateway, old, new) = both().await;
    let client = LegacyClient::open(
        &gateway,
        Revision::LATEST_LEGACY,
        json!({"roots": {"listChanged": true}}),
    )
    .await;
    client
        .request_to_end("logging/setLevel", json!({"level": "debug"}))
        .await;
    for tool in ["old__t", "new__t"] {
        client.call_to_end(tool).await;
    }
    client
        .tell(json!({"jsonrpc": "2.0", "method": "notifications/roots/list_changed"}))
        .await;
    client.call_to_end("new__t").await;
    assert_eq!(old.seen_of("logging/setLevel").len(), 0, "it does not log");
    for never in [
        "initialize",
        "ping",
        "logging/setLevel",
        "notifications/initialized",
        "notifications/roots/list_changed",
    ] {
        assert_eq!(new.seen_of(never).len(), 0, "{never} is not of its era");
    }
    assert_eq!(old.seen_of("notifications/roots/list_changed").len(), 1);
    for list in [
        "prompts/list",
        "resources/list",
        "resources/templates/list",
        "completion/complete",
    ] {
        assert_eq!((old.seen_of(list).len(), new.seen_of(list).len()), (0, 0), "{list}");
    }
}

#[tokio::test]
async fn the_first_revision_is_asked_to_complete_and_may_not_know_how() {
    for completes in [true, false] {
        let server = Upstream::start(move |seen| match seen.method() {
            "initialize" => seen.result(json!({
                "protocolVersion": "2024-11-05", "serverInfo": {"name": "l", "version": "1"},
                "capabilities": {"prompts": {}},
            })),
            "prompts/list" => seen.result(json!({"prompts": [{"name": "p"}]})),
            "completion/complete" if completes => seen.result(json!({"completion": {"values": ["a"]}})),
            method if method.starts_with("notifications/") => Answer::status(202),
            _ => seen.error(200, -32601, "unknown method"),
        })
        .await;
        let gateway = TestGateway::ready(&[("s", server.address)]).await;
        let params = json!({"ref": {"type": "ref/prompt", "name": "s__p"}, "argument": {"name": "n", "value": ""}});
        let expected = if completes { json!(["a"]) } else { json!([]) };
        for revision in Revision::LEGACY.into_iter().chain([Revision::LATEST]) {
            let answer = gateway.ask(revision, "completion/complete", params.clone()).await;
            assert_eq!(
                answer["result"]["completion"]["values"], expected,
                "{revision}: {answer}"
            );
        }
    }
}

#[tokio::test]
async fn schemas_are_passed_as_they_are_and_nothing_is_fetched_for_them() {
    let elsewhere = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = elsewhere.local_addr().unwrap();
    let away = format!("http://{address}/schema.json");
    let schemas = [
        json!({"type": "object", "properties": {"a": {"$ref": away}}, "$schema": away}),
        json!({"$schema": "http://json-schema.org/draft-07/schema#", "type": "object",
            "properties": {"a": {"type": "array", "items": [{"type": "string"}, {"type": "number"}]}},
            "dependencies": {"a": ["b"]}, "definitions": {"x": {"$id": away}}}),
    ];
    let listed: Vec<_> = schemas
        .iter()
        .enumerate()
        .map(|(number, schema)| {
            let icons = json!([{"src": format!("http://{address}/icon.png")}]);
            let mut tool = json!({"name": format!("t{number}"), "inputSchema": schema, "icons": icons});
            // Clients make a validator of it when they list the tool, and could not of one that is elsewhere.
            if schema["$schema"] != away {
                tool["outputSchema"] = schema.clone();
            }
            tool
        })
        .collect();
    let expected: Vec<_> = listed
        .iter()
        .map(|tool| {
            let mut tool = tool.clone();
            tool["name"] = json!(format!("s__{}", tool["name"].as_str().unwrap()));
            tool
        })
        .collect();
    let server = Upstream::start(move |seen| upstream::modern(seen, &json!(listed))).await;
    let gateway = TestGateway::ready(&[("s", server.address)]).await;
    for revision in [Revision::V2025_11_25, Revision::LATEST] {
        let answer = gateway.ask(revision, "tools/list", json!({})).await;
        assert_eq!(answer["result"]["tools"], json!(expected), "{revision}");
        gateway
            .ask(revision, "tools/call", json!({"name": "s__t0", "arguments": {"a": 1}}))
            .await;
    }
    let fetched = timeout(Duration::from_millis(300), elsewhere.accept()).await;
    assert!(fetched.is_err(), "somebody came for it");
}

#[tokio::test]
async fn lists_are_the_same_on_every_connection_and_whatever_was_called_before() {
    let (gateway, _old, _new) = both().await;
    let first = gateway.modern("tools/list", json!({})).await;
    for _ in 0..3 {
        gateway.modern("tools/call", json!({"name": "new__t"})).await;
        gateway.modern("tools/call", json!({"name": "old__t"})).await;
        gateway.modern("tools/call", json!({"name": "no_such"})).await;
        let ui = json!({"extensions": {"io.modelcontextprotocol/ui": {"mimeTypes": ["text/html;profile=mcp-app"]}}});
        let listed = gateway
            .modern_declaring(ui, "tools/list", json!({}))
            .await
            .pop()
            .unwrap();
        assert_eq!(listed["result"], first["result"]);
    }
    let lists = (0..3).map(async |_| {
        let client = LegacyClient::open(&gateway, Revision::LATEST_LEGACY, json!({"roots": {}})).await;
        client.call_to_end("old__t").await;
        client.request_to_end("tools/list", json!({})).await.pop().unwrap()
    });
    for listed in futures::future::join_all(lists).await {
        assert_eq!(listed["result"]["tools"], first["result"]["tools"]);
    }
}

#[tokio::test]
async fn metrics_do_not_grow_with_what_clients_call_themselves_and_what_they_ask_for() {
    let (gateway, _old, _new) = both().await;
    let series = || -> BTreeSet<String> {
        let page = gateway.metrics_page();
        let lines = page.lines().filter(|line| !line.starts_with('#'));
        lines
            .filter_map(|line| Some(line.rsplit_once(' ')?.0.to_owned()))
            .collect()
    };
    let visit = async |number: usize| {
        let params = json!({
            "protocolVersion": "2025-11-25", "capabilities": {},
            "clientInfo": {"name": format!("client-{number}"), "version": number.to_string()},
        });
        let handshake = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params});
        let opened = gateway
            .bare_post(&handshake.to_string(), [("user-agent", &*format!("agent-{number}"))])
            .await;
        let session = opened.header("mcp-session-id").unwrap().to_owned();
        for (method, params) in [
            (format!("odd/{number}"), json!({})),
            ("tools/call".into(), json!({"name": format!("none-{number}")})),
            ("tools/call".into(), json!({"name": "old__t"})),
            ("resources/read".into(), json!({"uri": format!("a://{number}")})),
        ] {
            let body = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
            gateway
                .bare_post(&body.to_string(), [("mcp-session-id", &*session)])
                .await;
        }
        let elsewhere = format!("http://{}/default/fed-{number}/mcp", gateway.address);
        let reply = gateway.send(http::legacy(&elsewhere, &handshake, [])).await;
        assert_eq!(reply.status, 404);
    };
    visit(0).await;
    let before = series();
    for number in 1..50 {
        visit(number).await;
    }
    let added: Vec<_> = series().difference(&before).cloned().collect();
    assert!(added.is_empty(), "{added:#?}");
}
