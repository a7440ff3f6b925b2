//! The tools: their descriptors, the list, and the calls.

use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use serde_json::{Value, json};

use crate::message::{Answer, Era, Refusal, Request, headers_as_json, mismatch, response};
use crate::server::Server;
use crate::stream::{Events, event};

/// The largest text that the tool `blob` answers with, in bytes.
const LARGEST_BLOB: u64 = 64 << 20;

/// All tools as a JSON array: the built-in ones, fillers up to `count`, and `added` more.
pub(crate) fn list_as_json(count: usize, added: usize) -> String {
    Value::Array(descriptors(count, added)).to_string()
}

/// Answers `tools/list`; `front` goes in front of the result's own members.
pub(crate) fn list(server: &Server, request: &Request<'_>, front: &str) -> Result<String, Refusal> {
    if server.args.page == 0 {
        return Ok(format!(r#"{{{front}"tools":{}}}"#, server.tool_list()));
    }
    let tools = descriptors(server.args.tools, server.added.load(Relaxed));
    let start = match request.params["cursor"].as_str() {
        None => Some(0),
        Some(cursor) => cursor.strip_prefix('o').and_then(|number| number.parse().ok()),
    };
    let rest = start
        .and_then(|start| tools.get(start..))
        .filter(|rest| !rest.is_empty());
    let (Some(start), Some(rest)) = (start, rest) else {
        return Err(Refusal::new(-32602, "Invalid cursor"));
    };
    let page: Vec<&Value> = rest.iter().take(server.args.page).collect();
    let end = start + page.len();
    let next = if end < tools.len() {
        format!(r#","nextCursor":"o{end}""#)
    } else {
        String::new()
    };
    Ok(format!(r#"{{{front}"tools":{}{next}}}"#, json!(page)))
}

/// Answers `tools/call`; `front` goes in front of the result's own members.
pub(crate) async fn call(
    server: &'static Server,
    era: Era,
    request: &Request<'_>,
    front: &str,
) -> Result<Answer, Refusal> {
    server.counters.calls.fetch_add(1, Relaxed);
    if server.args.delay_ms > 0 {
        tokio::time::sleep(Duration::from_millis(server.args.delay_ms)).await;
    }
    let given = &request.params["arguments"];
    let number = |name: &str| given[name].as_u64().unwrap_or_default();
    let string = |name: &str| request.argument(name).unwrap_or_default();
    let name = request.params["name"].as_str().unwrap_or_default();
    let result = match name {
        "echo" => match request.argument("message") {
            Some(message) => text(front, message),
            None => failure(front, "missing argument: message"),
        },
        "sleep" => {
            let unfinished = Unfinished(server);
            tokio::time::sleep(Duration::from_millis(number("ms"))).await;
            unfinished.finish();
            text(front, "slept")
        }
        "progress" => return Ok(Answer::Stream(progress(server, request, front))),
        "blob" => text(front, &"x".repeat(number("bytes").min(LARGEST_BLOB) as usize)),
        "fail" => failure(front, request.argument("message").unwrap_or("failed")),
        "structured" => structured(front, given["n"].as_i64().unwrap_or_default()),
        "query" => {
            if era == Era::Modern {
                check_region(request)?;
            }
            text(front, &format!("region={} sql={}", string("region"), string("sql")))
        }
        "whoami" => {
            let era = if era == Era::Modern { "modern" } else { "legacy" };
            let headers = headers_as_json(request.headers);
            text(
                front,
                &json!({"server": server.args.name, "era": era, "headers": headers}).to_string(),
            )
        }
        name if name.starts_with("tool_") || name.starts_with("added_") => text(front, string("message")),
        name => return Err(Refusal::new(-32602, format!("Unknown tool: {name}"))),
    };
    if !server.args.sse {
        return Ok(Answer::Result(result));
    }
    let (feed, events) = Events::open(server);
    feed.try_send(event(&response(request.id, &result))).unwrap_or_default(); // a new stream has room
    Ok(Answer::Stream(events))
}

fn descriptors(count: usize, added: usize) -> Vec<Value> {
    let string = json!({"type": "string"});
    let integer = json!({"type": "integer"});
    let tool = |name: &str, description: &str, schema: Value| json!({"name": name, "description": description, "inputSchema": schema});
    let echo = json!({
        "name": "echo",
        "description": "Echo a message back",
        "inputSchema": object(&json!({"message": string}), &["message"]),
        "annotations": {"readOnlyHint": true, "idempotentHint": true},
    });
    let squared = json!({
        "name": "structured",
        "description": "Answer with structured content",
        "inputSchema": object(&json!({"n": integer}), &["n"]),
        "outputSchema": object(&json!({"n": integer, "square": integer}), &["n", "square"]),
    });
    let region = json!({"type": "string", "x-mcp-header": "Region"});
    let mut tools = vec![
        echo,
        tool(
            "sleep",
            "Wait `ms` milliseconds, then answer",
            object(&json!({"ms": integer}), &["ms"]),
        ),
        tool(
            "progress",
            "Send `steps` progress notifications `delay_ms` apart",
            object(&json!({"steps": integer, "delay_ms": integer}), &[]),
        ),
        tool(
            "blob",
            "Answer with a text of `bytes` bytes",
            object(&json!({"bytes": integer}), &["bytes"]),
        ),
        tool("fail", "Answer with an error", object(&json!({"message": string}), &[])),
        squared,
        tool(
            "query",
            "`region` is repeated in the header Mcp-Param-Region",
            object(&json!({"region": region, "sql": string}), &["region", "sql"]),
        ),
        tool(
            "whoami",
            "The server's name and what it received",
            object(&json!({}), &[]),
        ),
    ];
    for number in tools.len()..count {
        let message = json!({"type": "string", "description": "text to echo"});
        let limit = json!({"type": "integer", "minimum": 1, "maximum": 100});
        tools.push(tool(
            &format!("tool_{number:04}"),
            &format!("Filler number {number}, behaves like echo. It is here so that lists have a realistic size."),
            object(&json!({"message": message, "limit": limit}), &[]),
        ));
    }
    for number in 0..added {
        tools.push(tool(
            &format!("added_{number}"),
            "Added at run time",
            object(&json!({}), &[]),
        ));
    }
    tools
}

fn object(properties: &Value, required: &[&str]) -> Value {
    json!({"type": "object", "properties": properties, "required": required})
}

fn text(front: &str, words: &str) -> String {
    let words = Value::from(words);
    format!(r#"{{{front}"content":[{{"type":"text","text":{words}}}]}}"#)
}

fn failure(front: &str, words: &str) -> String {
    let words = Value::from(words);
    format!(r#"{{{front}"content":[{{"type":"text","text":{words}}}],"isError":true}}"#)
}

fn structured(front: &str, n: i64) -> String {
    let value = json!({"n": n, "square": n.wrapping_mul(n)});
    let words = Value::from(value.to_string());
    format!(r#"{{{front}"content":[{{"type":"text","text":{words}}}],"structuredContent":{value}}}"#)
}

fn check_region(request: &Request<'_>) -> Result<(), Refusal> {
    let wanted = request.argument("region");
    let given = request.encoded_header("mcp-param-region");
    if wanted == given.as_deref() {
        return Ok(());
    }
    Err(mismatch(format!(
        "Mcp-Param-Region header value {given:?} does not match body value {wanted:?}"
    )))
}

fn progress(server: &'static Server, request: &Request<'_>, front: &str) -> Events {
    let given = &request.params["arguments"];
    let steps = given["steps"].as_u64().unwrap_or(5);
    let delay = Duration::from_millis(given["delay_ms"].as_u64().unwrap_or(100));
    let token = request
        .params
        .pointer("/_meta/progressToken")
        .cloned()
        .unwrap_or_default();
    let last = response(request.id, &text(front, &format!("done after {steps} steps")));
    let (feed, events) = Events::open(server);
    tokio::spawn(async move {
        let unfinished = Unfinished(server);
        for step in 1..=steps {
            tokio::select! {
                () = feed.closed() => return,
                () = tokio::time::sleep(delay) => {}
            }
            if token.is_null() {
                continue;
            }
            let message = format!("step {step} of {steps}");
            let params = json!({"progressToken": token, "progress": step, "total": steps, "message": message});
            let notification = json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": params});
            if feed.send(event(&notification.to_string())).await.is_err() {
                return;
            }
        }
        unfinished.finish();
        feed.send(event(&last)).await.unwrap_or_default(); // an error: the client just went away
    });
    events
}

/// Counts a call as cancelled when it is dropped before its end.
struct Unfinished(&'static Server);

impl Unfinished {
    fn finish(self) {
        std::mem::forget(self);
    }
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        self.0.counters.cancelled.fetch_add(1, Relaxed);
    }
}
