//! What passes through as it was written: numbers that readers round, and members that are not there.

use mcpfleet::fleet::UpstreamState;
use mcpfleet::mcp::{Era, Revision};
use mcpfleet::upstream::{Endpoint, StdioCommand};
use serde_json::{Value, json};

use crate::support::gateway::{TestGateway, plan};
use crate::support::shelf::Shelf;
use crate::support::upstream::{self, Answer, Seen, Upstream};

/// Numbers that a reader who keeps 64 bits, or who writes them anew, changes; and one in a string.
const NUMBERS: &str = concat!(
    r#"{"odd":9007199254740993,"whole":1.0,"text":"1e400","zero":-0.0,"big":12345678901234567890,"#,
    r#""exp":1E2,"plus":1e+2,"small":0.10,"deep":[[-9007199254740993]]}"#
);

fn tools() -> Value {
    json!([{"name": "t", "inputSchema": {"type": "object"}}])
}

/// The answer to a call, with these members as they are written.
fn answer(seen: &Seen, modern: bool) -> Answer {
    let more = if modern { r#","resultType":"complete""# } else { "" };
    let id = &seen.body["id"];
    let content = json!([{"type": "text", "text": "t"}]);
    let body = format!(
        r#"{{"jsonrpc":"2.0","id":{id},"result":{{"content":{content},"structuredContent":{NUMBERS},"_meta":{{"x.y/z":{NUMBERS}}}{more}}}}}"#
    );
    Answer::text(200, "application/json", body)
}

async fn server(modern: bool) -> Upstream {
    Upstream::start(move |seen| match seen.method() {
        "tools/call" => answer(seen, modern),
        _ if modern => upstream::modern(seen, &tools()),
        _ => upstream::legacy(seen, &tools()),
    })
    .await
}

/// A call whose arguments are `NUMBERS` as they are written, and the text of its answer.
async fn call(gateway: &TestGateway, revision: Revision, tool: &str) -> String {
    let meta = match revision.era() {
        Era::Legacy => r#"{"x.y/z":1.0}"#.to_owned(),
        Era::Modern => format!(
            r#"{{"x.y/z":1.0,"io.modelcontextprotocol/protocolVersion":"{revision}","io.modelcontextprotocol/clientCapabilities":{{}}}}"#
        ),
    };
    let body = format!(
        r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"{tool}","arguments":{NUMBERS},"_meta":{meta}}}}}"#
    );
    let headers = [
        ("mcp-protocol-version", revision.as_str()),
        ("mcp-method", "tools/call"),
        ("mcp-name", tool),
    ];
    let headers = if revision.era() == Era::Modern {
        &headers[..]
    } else {
        &headers[..1]
    };
    gateway.post(body, headers).await.text
}

#[tokio::test]
async fn every_number_arrives_as_it_was_written_in_both_directions_and_eras() {
    let (old, new) = (server(false).await, server(true).await);
    let gateway = TestGateway::ready(&[("old", old.address), ("new", new.address)]).await;
    for revision in [Revision::V2025_06_18, Revision::V2025_11_25, Revision::V2026_07_28] {
        for (tool, server) in [("old__t", &old), ("new__t", &new)] {
            let text = call(&gateway, revision, tool).await;
            for member in ["\"structuredContent\"", "\"x.y/z\""] {
                assert!(
                    text.contains(&format!("{member}:{NUMBERS}")),
                    "{revision} {tool}: {text}"
                );
            }
            let seen = server.seen_of("tools/call").pop().unwrap();
            assert!(
                seen.text.contains(&format!(r#""arguments":{NUMBERS}"#)),
                "{revision} {tool}: {}",
                seen.text
            );
            assert!(seen.text.contains(r#""x.y/z":1.0"#), "{revision} {tool}: {}", seen.text);
        }
    }
}

#[tokio::test]
async fn a_client_that_knows_no_structure_reads_its_numbers_in_a_text() {
    let (old, new) = (server(false).await, server(true).await);
    let gateway = TestGateway::ready(&[("old", old.address), ("new", new.address)]).await;
    for tool in ["old__t", "new__t"] {
        let answer: Value = serde_json::from_str(&call(&gateway, Revision::V2025_03_26, tool).await).unwrap();
        let texts: Vec<_> = answer["result"]["content"]
            .as_array()
            .unwrap()
            .iter()
            .map(|it| &it["text"])
            .collect();
        assert!(texts.contains(&&json!(NUMBERS)), "{tool}: {answer}");
    }
}

/// A Legacy server on standard input and output that gives the arguments of a call back as they are written.
const ECHO: &str = r#"
import json, sys
for line in sys.stdin:
    m = json.loads(line)
    id, say = json.dumps(m.get("id")), lambda result: print('{"jsonrpc":"2.0","id":%s,"result":%s}' % (id, result), flush=True)
    if m["method"] == "initialize":
        say('{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"s","version":"1"}}')
    elif m["method"] == "tools/list": say('{"tools":[{"name":"t","inputSchema":{"type":"object"}}]}')
    elif m["method"] == "tools/call":
        begin = line.index('"arguments":') + len('"arguments":')
        say('{"content":[],"structuredContent":%s}' % line[begin:line.index("]]}", begin) + 3])
    elif "id" in m: print('{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"no"}}' % id, flush=True)
"#;

#[tokio::test]
async fn numbers_pass_a_process_as_they_pass_http() {
    let mut input = plan(&[("s", "127.0.0.1:1".parse().unwrap())]);
    input.servers[0].endpoint = Ok(Endpoint::Stdio(StdioCommand {
        program: "python3".into(),
        args: vec!["-c".into(), ECHO.into()],
        env: Default::default(),
        cwd: None,
    }));
    input.servers[0].terms.timeouts.connect = std::time::Duration::from_secs(20);
    let mut gateway = TestGateway::start(input).await;
    gateway
        .until(|o| o.servers.values().all(|s| s.state == UpstreamState::Ready))
        .await;
    for revision in [Revision::V2025_11_25, Revision::V2026_07_28] {
        let text = call(&gateway, revision, "s__t").await;
        assert!(
            text.contains(&format!(r#""structuredContent":{NUMBERS}"#)),
            "{revision}: {text}"
        );
    }
    gateway.stop().await;
}

#[tokio::test]
async fn nothing_is_added_to_what_a_server_says_but_what_the_era_demands() {
    let bare = |mut result: Value, modern: bool| {
        if modern {
            result["resultType"] = json!("complete");
        }
        result
    };
    let start = async |modern: bool| {
        Upstream::start(
            move |seen| match (seen.method(), seen.body["params"]["name"].as_str()) {
                ("tools/call", Some("empty")) => seen.result(bare(json!({"content": []}), modern)),
                ("tools/call", _) => seen.result(bare(
                    json!({"content": [{"type": "text", "text": "{\"a\":1}"}]}),
                    modern,
                )),
                _ => {
                    let tools = ["empty", "json"].map(|name| json!({"name": name, "inputSchema": {"type": "object"}}));
                    if modern {
                        upstream::modern(seen, &json!(tools))
                    } else {
                        upstream::legacy(seen, &json!(tools))
                    }
                }
            },
        )
        .await
    };
    let (old, new) = (start(false).await, start(true).await);
    let gateway = TestGateway::ready(&[("new", new.address), ("old", old.address)]).await;
    let expected: Vec<_> = ["new__empty", "new__json", "old__empty", "old__json"]
        .map(|name| json!({"name": name, "inputSchema": {"type": "object"}}))
        .into();
    for revision in Revision::LEGACY.into_iter().chain([Revision::LATEST]) {
        let listed = gateway.ask(revision, "tools/list", json!({})).await;
        assert_eq!(listed["result"]["tools"], json!(expected), "{revision}");
        for server in ["new", "old"] {
            for (tool, content) in [
                ("empty", json!([])),
                ("json", json!([{"type": "text", "text": "{\"a\":1}"}])),
            ] {
                let call = json!({"name": format!("{server}__{tool}")});
                let mut result = gateway.ask(revision, "tools/call", call).await["result"].take();
                if revision == Revision::LATEST {
                    let added = result.as_object_mut().unwrap();
                    assert_eq!(added.remove("resultType"), Some(json!("complete")));
                    let meta = added.remove("_meta").unwrap();
                    let names: Vec<_> = meta.as_object().unwrap().keys().collect();
                    assert_eq!(names, ["io.modelcontextprotocol/serverInfo"]);
                }
                assert_eq!(result, json!({"content": content}), "{revision} {server} {tool}");
            }
        }
    }
}

#[tokio::test]
async fn bytes_of_a_resource_arrive_as_the_server_wrote_them() {
    let contents = json!([
        {"uri": "x://bytes", "mimeType": "application/octet-stream", "blob": "AAEC/w=="},
        {"uri": "x://bytes#empty", "text": ""},
        {"uri": "x://bytes#nothing", "blob": ""},
    ]);
    let shelf = |modern| {
        let mut shelf = Shelf::empty();
        shelf.resources = vec![json!({"uri": "x://bytes", "name": "bytes"})];
        let contents = contents.clone();
        Upstream::start(move |seen| match seen.method() {
            "resources/read" if modern => seen.result(json!({
                "resultType": "complete", "contents": contents, "ttlMs": 0, "cacheScope": "private",
            })),
            "resources/read" => seen.result(json!({"contents": contents})),
            _ if modern => shelf.answer_modern(seen),
            _ => shelf.answer_legacy(seen),
        })
    };
    for modern in [false, true] {
        let server = shelf(modern).await;
        let gateway = TestGateway::ready(&[("s", server.address)]).await;
        for revision in [Revision::V2024_11_05, Revision::LATEST_LEGACY, Revision::LATEST] {
            let read = gateway
                .ask(revision, "resources/read", json!({"uri": "x://bytes"}))
                .await;
            assert_eq!(read["result"]["contents"], contents, "{revision}");
        }
    }
}
