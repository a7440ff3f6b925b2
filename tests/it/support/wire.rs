//! What the gateway sends, held against the wire schema of its revision (`tests/schemas`), to clients and to servers.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock, Mutex};

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::HeaderMap;
use jsonschema::Validator;
use mcpfleet::mcp::{Era, Revision};
use serde_json::{Value, json};

use super::http::Reply;

/// Panics unless `reply`, the answer to a POST of `body` with these headers, is right for the revision of the client:
/// every message in it fits the schema, and answers carry the id of what they answer.
pub(crate) fn assert_reply(headers: &HeaderMap, body: &str, reply: &Reply) {
    let messages = messages(reply);
    let asked: Vec<Value> = match serde_json::from_str(body) {
        // A batch that is refused as a whole is answered without an id.
        Ok(Value::Array(_)) if reply.status == 400 => Vec::new(),
        Ok(Value::Array(batch)) => batch,
        Ok(one) => vec![one],
        Err(_) => Vec::new(),
    };
    let revision = spoken_with_client(headers, &asked, &messages);
    // Refused before the body was read, whose id nobody knows then.
    let asked = match reply.status {
        401 | 413 | 503 => Vec::new(),
        _ => asked,
    };
    let mut problems: Vec<String> = messages
        .iter()
        .flat_map(|message| problems_to_client(revision, &asked, message))
        .collect();
    problems.dedup();
    assert!(
        problems.is_empty(),
        "this is no {revision}: {problems:#?}\nasked: {body}\nanswered: {}",
        reply.text
    );
}

/// Panics unless `message`, which came in an event stream, is right for a client of `revision` that sent `asked`.
pub(crate) fn assert_event(revision: Revision, asked: &[Value], message: &Value) {
    // The one message of ours that no revision knows, for those who ask for it.
    let is_of_old = message["method"]
        .as_str()
        .is_some_and(|method| method.ends_with("/listChanged"));
    if is_of_old && revision.era() == Era::Legacy {
        return;
    }
    let messages = match message {
        Value::Array(batch) if revision == Revision::V2025_03_26 => batch.as_slice(),
        one => std::slice::from_ref(one),
    };
    let problems: Vec<String> = messages
        .iter()
        .flat_map(|message| problems_to_client(revision, asked, message))
        .collect();
    assert!(
        problems.is_empty(),
        "this is no {revision}: {problems:#?}\nin an event: {message}"
    );
}

/// What is wrong with a message that the gateway sent to a server.
pub(crate) fn problems_to_server(headers: &HeaderMap, message: &Value) -> Vec<String> {
    let handshake = &message["params"]["protocolVersion"];
    let named = header(headers, "mcp-protocol-version").or_else(|| handshake.as_str());
    // What is sent in a later revision than any that is known here looks like the last one.
    let known = |name: &str| Revision::parse(name).or_else(|| (name > "2026-07-28").then_some(Revision::LATEST));
    let Some(revision) = named.map_or(Some(Revision::WITHOUT_HEADER), known) else {
        return vec![format!("of no known revision: {named:?}")];
    };
    if revision == Revision::LATEST && is_of_tasks(&message["method"]) {
        return [
            problems_of_tasks("TaskRequest", message),
            problems(revision, "JSONRPCRequest", message),
        ]
        .concat();
    }
    if is_of_skills(&message["method"]) {
        return problems(revision, "JSONRPCRequest", message);
    }
    let kind = match (message.get("method"), message.get("id")) {
        (Some(_), Some(_)) => "ClientRequest",
        (Some(_), None) => "ClientNotification",
        (None, _) if message.get("error").is_some() => error_definition(revision),
        (None, _) => result_definition(revision),
    };
    let mut problems = problems(revision, kind, message);
    if message.get("method").is_some() {
        let envelope = match message.get("id") {
            Some(_) => "JSONRPCRequest",
            None => "JSONRPCNotification",
        };
        problems.extend(self::problems(revision, envelope, message));
    }
    problems
}

/// The messages in a reply, whole or as events; none in one that is not of the protocol.
pub(crate) fn messages(reply: &Reply) -> Vec<Value> {
    let kind = reply.headers.get("content-type").map(|v| v.to_str().unwrap());
    match kind.and_then(|kind| kind.split(';').next()) {
        Some("application/json") => match reply.json() {
            Value::Array(batch) => batch,
            one => vec![one],
        },
        Some("text/event-stream") => {
            let events = reply.text.replace("\r\n", "\n");
            let data = events.split("\n\n").map(|event| {
                let lines = event.lines().filter_map(|line| line.strip_prefix("data:"));
                lines
                    .map(|line| line.strip_prefix(' ').unwrap_or(line))
                    .collect::<Vec<_>>()
                    .join("\n")
            });
            data.filter(|data| !data.is_empty())
                .map(|data| serde_json::from_str(&data).unwrap_or_else(|e| panic!("{e} in event {data:?}")))
                .collect()
        }
        _ => Vec::new(),
    }
}

/// By which revision a client is judged that sends these headers and messages: that of the message itself, or of its
/// session; else what a header says, or that of the times without header.
fn spoken_with_client(headers: &HeaderMap, asked: &[Value], answered: &[Value]) -> Revision {
    let claims = |message: &Value| {
        message["params"]["_meta"]
            .get("io.modelcontextprotocol/protocolVersion")
            .is_some()
    };
    let handshakes = asked.iter().any(|message| message["method"] == "initialize");
    let named = header(headers, "mcp-protocol-version");
    let negotiated = answered
        .iter()
        .filter(|_| handshakes)
        .find_map(|message| Revision::parse(message["result"]["protocolVersion"].as_str()?));
    if asked.iter().any(claims) || headers.contains_key("mcp-method") {
        return Revision::LATEST;
    }
    let session = header(headers, "mcp-session-id").and_then(agreed_on);
    match (negotiated.or(session), named.map(|name| (name, Revision::parse(name)))) {
        (Some(negotiated), _) => negotiated,
        (None, None) => Revision::WITHOUT_HEADER,
        (None, Some((_, Some(revision)))) => revision,
        (None, Some((name, None))) if name > Revision::LATEST.as_str() => Revision::LATEST,
        (None, Some((_, None))) => Revision::LATEST_LEGACY,
    }
}

/// The revision that stands in the token of a session.
fn agreed_on(token: &str) -> Option<Revision> {
    let claims = URL_SAFE_NO_PAD.decode(token.split('.').nth(1)?).ok()?;
    let claims: Value = serde_json::from_slice(&claims).ok()?;
    Revision::parse(claims["protocol"].as_str()?)
}

fn problems_to_client(revision: Revision, asked: &[Value], message: &Value) -> Vec<String> {
    match (message.get("method"), message.get("id")) {
        (Some(method), Some(_)) if revision == Revision::LATEST => {
            return vec![format!("a Modern client is asked for {method}")];
        }
        (Some(_), Some(_)) => return problems(revision, "ServerRequest", message),
        (Some(method), None) if revision == Revision::LATEST && method == "notifications/tasks" => {
            return problems_of_tasks("TaskNotification", message);
        }
        (Some(_), None) => return problems(revision, "ServerNotification", message),
        (None, _) => {}
    }
    let mut problems = Vec::new();
    let mut judged = message.clone();
    let question = asked.iter().find(|question| question.get("id") == message.get("id"));
    let is_id = |id: &Value| id.is_string() || id.is_number();
    match message.get("id") {
        // Revisions up to 2025-06-18 demand an id even where there is none to echo; JSON-RPC has null for that.
        Some(Value::Null) if revision <= Revision::V2025_06_18 && message.get("error").is_some() => {
            judged["id"] = json!(0);
        }
        Some(_) if question.is_none() => problems.push("the id is not that of a question".to_owned()),
        // It is echoed even where it is a number that the schema does not allow.
        Some(id) if id.is_f64() => judged["id"] = json!(0),
        None if asked.iter().any(|question| question.get("id").is_some_and(is_id)) && asked.len() == 1 => {
            problems.push("the id is missing".to_owned());
        }
        _ => {}
    }
    if message.get("error").is_some() {
        problems.extend(self::problems(revision, error_definition(revision), &judged));
        if let Some(definition) = modern_error(revision, &message["error"]["code"]) {
            problems.extend(self::problems(revision, definition, &judged));
        }
        return problems;
    }
    problems.extend(self::problems(revision, result_definition(revision), &judged));
    let method = question
        .and_then(|question| question["method"].as_str())
        .unwrap_or_default();
    let result = &message["result"];
    let definition = match result["resultType"].as_str() {
        Some("input_required") if revision == Revision::LATEST => "InputRequiredResult",
        Some("task") if revision == Revision::LATEST => "Result",
        _ => result_of(method),
    };
    if let (true, Some(definition)) = (revision == Revision::LATEST, task_result_of(method, result)) {
        problems.extend(problems_of_tasks(definition, result));
    }
    if result["resultType"] == "task" && !question.is_some_and(takes_tasks) {
        problems.push("a task for a client that takes none".to_owned());
    }
    problems.extend(self::problems(revision, definition, result));
    if revision < Revision::LATEST {
        let of_modern = ["resultType", "ttlMs", "cacheScope"]
            .into_iter()
            .filter(|name| result.get(name).is_some());
        problems.extend(of_modern.map(|name| format!("{name} is not for Legacy clients")));
    }
    problems
}

/// What the tasks extension calls the result of `method`, if it is one of its own.
fn task_result_of(method: &str, result: &Value) -> Option<&'static str> {
    match method {
        "tasks/get" => Some("GetTaskResult"),
        "tasks/update" | "tasks/cancel" => Some("Acknowledgement"),
        _ => (result["resultType"] == "task").then_some("CreateTaskResult"),
    }
}

fn takes_tasks(question: &Value) -> bool {
    let declared = &question["params"]["_meta"]["io.modelcontextprotocol/clientCapabilities"]["extensions"];
    question["method"] == "tools/call" && declared["io.modelcontextprotocol/tasks"].is_object()
}

fn is_of_tasks(method: &Value) -> bool {
    method.as_str().is_some_and(|method| method.starts_with("tasks/"))
}

fn is_of_skills(method: &Value) -> bool {
    matches!(
        method.as_str(),
        Some("skills/list" | "skills/get" | "resources/directory/read")
    )
}

fn result_definition(revision: Revision) -> &'static str {
    if revision <= Revision::V2025_06_18 {
        "JSONRPCResponse"
    } else {
        "JSONRPCResultResponse"
    }
}

fn error_definition(revision: Revision) -> &'static str {
    if revision <= Revision::V2025_06_18 {
        "JSONRPCError"
    } else {
        "JSONRPCErrorResponse"
    }
}

fn modern_error(revision: Revision, code: &Value) -> Option<&'static str> {
    match code.as_i64() {
        Some(-32020) => Some("HeaderMismatchError"),
        Some(-32021) => Some("MissingRequiredClientCapabilityError"),
        Some(-32022) => Some("UnsupportedProtocolVersionError"),
        _ => None,
    }
    .filter(|_| revision == Revision::LATEST)
}

fn result_of(method: &str) -> &'static str {
    match method {
        "initialize" => "InitializeResult",
        "server/discover" => "DiscoverResult",
        "tools/list" => "ListToolsResult",
        "tools/call" => "CallToolResult",
        "resources/list" => "ListResourcesResult",
        "resources/templates/list" => "ListResourceTemplatesResult",
        "resources/read" => "ReadResourceResult",
        "prompts/list" => "ListPromptsResult",
        "prompts/get" => "GetPromptResult",
        "completion/complete" => "CompleteResult",
        "subscriptions/listen" => "SubscriptionsListenResult",
        _ => "Result",
    }
}

/// Why `value` is not what the schema of `revision` calls `definition`.
pub(crate) fn problems(revision: Revision, definition: &'static str, value: &Value) -> Vec<String> {
    found_by(&validator(Some(revision), definition), definition, value)
}

/// Why `value` is not what the tasks extension calls `definition`.
fn problems_of_tasks(definition: &'static str, value: &Value) -> Vec<String> {
    found_by(&validator(None, definition), definition, value)
}

fn found_by(validator: &Validator, definition: &str, value: &Value) -> Vec<String> {
    validator
        .iter_errors(value)
        .map(|error| {
            format!(
                "{definition} at {:?}: {}",
                error.instance_path().to_string(),
                error.masked()
            )
        })
        .collect()
}

/// The validator of one definition, of a revision or else of the tasks extension, made once.
fn validator(revision: Option<Revision>, definition: &'static str) -> Arc<Validator> {
    type Made = Mutex<HashMap<(Option<Revision>, &'static str), Arc<Validator>>>;
    static MADE: LazyLock<Made> = LazyLock::new(Made::default);
    let mut made = MADE.lock().unwrap();
    Arc::clone(made.entry((revision, definition)).or_insert_with(|| {
        let text = match revision {
            Some(Revision::V2024_11_05) => include_str!("../../schemas/2024-11-05.json"),
            Some(Revision::V2025_03_26) => include_str!("../../schemas/2025-03-26.json"),
            Some(Revision::V2025_06_18) => include_str!("../../schemas/2025-06-18.json"),
            Some(Revision::V2025_11_25) => include_str!("../../schemas/2025-11-25.json"),
            Some(Revision::V2026_07_28) => include_str!("../../schemas/2026-07-28.json"),
            None => include_str!("../../schemas/tasks-extension.json"),
        };
        let mut schema: Value = serde_json::from_str(text).unwrap();
        let definitions = if schema.get("$defs").is_some() {
            "$defs"
        } else {
            "definitions"
        };
        assert!(
            schema[definitions].get(definition).is_some(),
            "{revision:?} has no {definition}"
        );
        schema["allOf"] = json!([{"$ref": format!("#/{definitions}/{definition}")}]);
        Arc::new(jsonschema::validator_for(&schema).unwrap())
    }))
}

fn header<'h>(headers: &'h HeaderMap, name: &str) -> Option<&'h str> {
    headers.get(name).and_then(|value| value.to_str().ok()).map(str::trim)
}

#[test]
fn what_does_not_fit_a_revision_is_found() {
    let asked = [json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "a"}})];
    let found = |revision, answer: Value| problems_to_client(revision, &asked, &answer).len();
    let answer = |result: Value| json!({"jsonrpc": "2.0", "id": 1, "result": result});
    let link = answer(json!({"content": [{"type": "resource_link", "uri": "a:b", "name": "n"}]}));
    assert_eq!(found(Revision::V2025_06_18, link.clone()), 0);
    assert_eq!(found(Revision::V2025_03_26, link), 1);
    let structured = answer(json!({"content": [], "structuredContent": 1, "resultType": "complete"}));
    assert_eq!(found(Revision::V2026_07_28, structured.clone()), 0);
    assert_eq!(found(Revision::V2025_11_25, structured), 2, "the value and resultType");
    let null = json!({"jsonrpc": "2.0", "id": null, "error": {"code": 1, "message": ""}});
    assert_eq!(found(Revision::V2025_06_18, null.clone()), 0);
    assert!(found(Revision::V2025_11_25, null) > 0);
    let other = json!({"jsonrpc": "2.0", "id": "1", "result": {"content": []}});
    assert!(found(Revision::V2025_11_25, other) > 0, "1 and \"1\" are two ids");
    let bare = json!({"jsonrpc": "2.0", "id": 1, "error": {"code": -32022, "message": ""}});
    assert!(found(Revision::V2026_07_28, bare.clone()) > 0, "the code demands data");
    assert_eq!(found(Revision::V2025_11_25, bare), 0);

    let mut headers = HeaderMap::new();
    headers.insert("mcp-protocol-version", "2026-07-28".parse().unwrap());
    assert!(
        !problems_to_server(&headers, &asked[0]).is_empty(),
        "a Modern request has an envelope"
    );
    headers.insert("mcp-protocol-version", "2025-06-18".parse().unwrap());
    assert!(problems_to_server(&headers, &asked[0]).is_empty());
}
