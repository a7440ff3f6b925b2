//! Tasks of the extension, as Modern clients are told of them: those of Modern servers as these wrote them, those of
//! 2025-11-25 in the extension's words, all of them under a name of the gateway's.

use super::{Kind, Status, TYPE, Task, unrelated};
use crate::mcp::message::{self, Id};
use crate::mcp::method::Method;
use crate::mcp::object::{Members, ObjectWriter};
use crate::mcp::version::{Era, Revision};
use crate::mcp::{content, meta, shape};

/// What a task of 2025-11-25 waits for, or came to.
#[derive(Clone, Copy, Debug)]
pub enum Detail<'a> {
    /// Whatever the task itself says: nothing, of one of 2025-11-25.
    Own,
    /// The object of questions that it waits with.
    Questions(&'a str),
    /// The result of the tool, whether it failed or not.
    Result(&'a str),
    /// A JSON-RPC error.
    Error(&'a str),
}

/// The whole response to a call that became `task`, which the client knows as `name`.
pub fn created_response(id: Id<'_>, task: &Task<'_>, name: &str, server_info: &str) -> Vec<u8> {
    // What one that is over came to is told when it is asked for.
    let status = match (task.kind, task.status) {
        (Kind::Core, Status::InputRequired | Status::Completed | Status::Failed) => Status::Working,
        (_, status) => status,
    };
    response(id, server_info, |result| {
        result.string("resultType", TYPE);
        write_state(result, task, name, status);
        write_others(result, task, |name| !is_detail(name));
    })
}

/// The whole response that tells all of `task`, which the client knows as `name`.
pub fn detailed_response(id: Id<'_>, task: &Task<'_>, detail: Detail<'_>, name: &str, server_info: &str) -> Vec<u8> {
    response(id, server_info, |result| {
        result.string("resultType", shape::COMPLETE);
        write_detailed(result, task, detail, name);
    })
}

/// The whole notification that tells all of `task`, which the client knows as `name`, as a message of the `subscription`.
pub fn changed(task: &Task<'_>, detail: Detail<'_>, name: &str, subscription: &str) -> Vec<u8> {
    let mut out = Vec::with_capacity(512);
    let mut message = ObjectWriter::open(&mut out);
    message.string("jsonrpc", "2.0");
    message.string("method", super::CHANGED);
    let mut params = ObjectWriter::open(message.name("params"));
    write_detailed(&mut params, task, detail, name);
    let own = task.members.get("_meta").and_then(|raw| Members::parse(raw.get()));
    let own = own.unwrap_or_default();
    let mut tags = ObjectWriter::open(params.name("_meta"));
    for (name, value) in own.iter().filter(|(name, _)| !meta::is_of_one_hop(name)) {
        tags.member(name, value.get());
    }
    tags.member(meta::SUBSCRIPTION_ID, subscription);
    tags.close();
    params.close();
    message.close();
    out
}

/// The whole response to what only has to be acknowledged.
pub fn acknowledged(id: Id<'_>, server_info: &str) -> Vec<u8> {
    response(id, server_info, |result| result.string("resultType", shape::COMPLETE))
}

fn response(id: Id<'_>, server_info: &str, write: impl FnOnce(&mut ObjectWriter<'_>)) -> Vec<u8> {
    let mut out = Vec::with_capacity(512);
    let mut result = ObjectWriter::open(&mut out);
    write(&mut result);
    let mut own = ObjectWriter::open(result.name("_meta"));
    own.member(meta::SERVER_INFO, server_info);
    own.close();
    result.close();
    message::response(id.as_json(), &out)
}

fn write_detailed(object: &mut ObjectWriter<'_>, task: &Task<'_>, detail: Detail<'_>, name: &str) {
    let status = match (detail, task.kind, task.status) {
        (Detail::Result(_), ..) => Status::Completed,
        (Detail::Error(_), ..) => Status::Failed,
        (Detail::Questions(_), ..) => Status::InputRequired,
        // Nothing is asked of the client of such a task.
        (Detail::Own, Kind::Core, Status::InputRequired) => Status::Working,
        (Detail::Own, _, status) => status,
    };
    write_state(object, task, name, status);
    match detail {
        Detail::Own => {
            write_others(object, task, |name| name != "error");
            if let Some(error) = task.error() {
                write_error(object, error);
            }
        }
        Detail::Questions(questions) => object.member("inputRequests", questions),
        Detail::Result(result) => {
            write_others(object, task, |name| !is_detail(name));
            write_result(object, result);
        }
        Detail::Error(error) => {
            write_others(object, task, |name| !is_detail(name));
            write_error(object, error);
        }
    }
}

fn write_state(object: &mut ObjectWriter<'_>, task: &Task<'_>, name: &str, status: Status) {
    object.string("taskId", name);
    object.string("status", status.as_str());
    if task.kind == Kind::Core {
        for name in ["statusMessage", "createdAt", "lastUpdatedAt"] {
            if let Some(value) = task.members.get(name) {
                object.member(name, value.get());
            }
        }
        let ttl = task
            .millis("ttl")
            .map_or_else(|| "null".to_owned(), |ttl| ttl.to_string());
        object.member("ttlMs", &ttl);
        if let Some(pause) = task.millis("pollInterval").filter(|pause| *pause > 0) {
            object.member("pollIntervalMs", &pause.to_string());
        }
    }
}

/// Of a task of the extension, what is not rewritten, as far as it is `wanted`.
fn write_others(object: &mut ObjectWriter<'_>, task: &Task<'_>, wanted: impl Fn(&str) -> bool) {
    if task.kind == Kind::Core {
        return;
    }
    for (name, value) in task.members.iter() {
        match name {
            "taskId" | "status" | "resultType" | "_meta" | "requestState" => {}
            _ if wanted(name) => object.member(name, value.get()),
            _ => {}
        }
    }
}

/// The result of a Legacy server's tool, as a Modern one has it.
fn write_result(object: &mut ObjectWriter<'_>, result: &str) {
    let result = unrelated(result);
    let result = content::for_client(&result, Method::ToolsCall, Revision::LATEST);
    let members = Members::parse(&result).unwrap_or_default();
    let mut own = ObjectWriter::open(object.name("result"));
    own.string("resultType", shape::COMPLETE);
    for (name, value) in members.iter().filter(|(name, _)| *name != "resultType") {
        own.member(name, value.get());
    }
    own.close();
}

fn write_error(object: &mut ObjectWriter<'_>, error: &str) {
    let error = shape::error(error, Method::ToolsCall, &Members::default(), Era::Modern);
    object.name("error").extend_from_slice(&error);
}

/// What is told of a task when it is asked for, and not before.
fn is_detail(name: &str) -> bool {
    matches!(name, "result" | "error" | "inputRequests")
}

#[cfg(test)]
mod tests {
    use serde_json::value::RawValue;
    use serde_json::{Value, json};

    use super::*;

    const INFO: &str = r#"{"name":"f","version":"1"}"#;

    fn with_id<T>(take: impl FnOnce(Id<'_>) -> T) -> T {
        let id: &RawValue = serde_json::from_str("7").unwrap();
        take(Id::from_raw(id).unwrap())
    }

    fn result_of(response: Vec<u8>) -> Value {
        let mut response: Value = serde_json::from_slice(&response).unwrap();
        assert_eq!(response["id"], 7);
        let mut result = response["result"].take();
        let own = result.as_object_mut().unwrap().remove("_meta").unwrap();
        assert_eq!(
            own,
            json!({"io.modelcontextprotocol/serverInfo": {"name": "f", "version": "1"}})
        );
        result
    }

    fn created(task: &Value, kind: Kind) -> Value {
        let text = task.to_string();
        let task = Task::read(&text, kind).unwrap();
        result_of(with_id(|id| created_response(id, &task, "ours", INFO)))
    }

    fn detailed(task: &Value, kind: Kind, detail: Detail<'_>) -> Value {
        let text = task.to_string();
        let task = Task::read(&text, kind).unwrap();
        result_of(with_id(|id| detailed_response(id, &task, detail, "ours", INFO)))
    }

    fn extension(status: &str, more: Value) -> Value {
        let mut task = json!({
            "resultType": "task", "taskId": "theirs", "status": status, "createdAt": "2026-11-30T10:00:00Z",
            "lastUpdatedAt": "2026-11-30T10:00:00Z", "ttlMs": null, "pollIntervalMs": 20, "odd": [1],
            "requestState": "s", "_meta": {"io.modelcontextprotocol/serverInfo": {"name": "s", "version": "2"}},
        });
        for (name, value) in more.as_object().unwrap() {
            task[name] = value.clone();
        }
        task
    }

    fn core(status: &str) -> Value {
        json!({
            "taskId": "theirs", "status": status, "statusMessage": "m", "createdAt": "2026-11-30T10:00:00Z",
            "lastUpdatedAt": "2026-11-30T10:00:01Z", "ttl": 60_000, "pollInterval": 1_500,
        })
    }

    #[test]
    fn a_modern_servers_task_gets_another_name_and_keeps_the_rest() {
        let expected = json!({
            "resultType": "task", "taskId": "ours", "status": "working", "createdAt": "2026-11-30T10:00:00Z",
            "lastUpdatedAt": "2026-11-30T10:00:00Z", "ttlMs": null, "pollIntervalMs": 20, "odd": [1],
        });
        let whole = extension("working", json!({"result": {}, "error": {}, "inputRequests": {}}));
        assert_eq!(created(&whole, Kind::Extension), expected);
        let answered = detailed(
            &extension("completed", json!({"result": {"content": [], "isError": true}})),
            Kind::Extension,
            Detail::Own,
        );
        assert_eq!(
            (&answered["resultType"], &answered["status"]),
            (&json!("complete"), &json!("completed"))
        );
        assert_eq!(answered["result"], json!({"content": [], "isError": true}));
        assert_eq!(
            (answered["taskId"].as_str(), answered.get("requestState")),
            (Some("ours"), None)
        );
        let asks = json!({"q": {"method": "elicitation/create", "params": {"message": "?"}}});
        let asking = extension("input_required", json!({"inputRequests": asks}));
        let asking = detailed(&asking, Kind::Extension, Detail::Own);
        assert_eq!(asking["inputRequests"], asks);
    }

    #[test]
    fn a_result_in_other_words_takes_the_place_of_the_servers_own() {
        let whole = extension("completed", json!({"result": {"content": [1]}}));
        let told = detailed(&whole, Kind::Extension, Detail::Result(r#"{"content":[]}"#));
        assert_eq!(told["result"], json!({"resultType": "complete", "content": []}));
        assert_eq!((&told["status"], &told["odd"]), (&json!("completed"), &json!([1])));
    }

    #[test]
    fn an_error_in_a_task_is_in_modern_words() {
        let failed = extension("failed", json!({"error": {"code": -32_042, "message": "m"}}));
        let failed = detailed(&failed, Kind::Extension, Detail::Own);
        assert_eq!(
            (&failed["status"], &failed["error"]["code"]),
            (&json!("failed"), &json!(-32_603))
        );
    }

    #[test]
    fn a_task_of_2025_11_25_is_told_in_the_extensions_words() {
        let expected = json!({
            "resultType": "task", "taskId": "ours", "status": "working", "statusMessage": "m",
            "createdAt": "2026-11-30T10:00:00Z", "lastUpdatedAt": "2026-11-30T10:00:01Z", "ttlMs": 60_000,
            "pollIntervalMs": 1_500,
        });
        for status in ["working", "input_required", "completed", "failed"] {
            assert_eq!(created(&core(status), Kind::Core), expected, "{status}");
        }
        assert_eq!(created(&core("cancelled"), Kind::Core)["status"], "cancelled");
        let mut unlimited = core("working");
        unlimited["ttl"] = Value::Null;
        unlimited["pollInterval"] = json!(0);
        let unlimited = created(&unlimited, Kind::Core);
        assert_eq!(
            (&unlimited["ttlMs"], unlimited.get("pollIntervalMs")),
            (&Value::Null, None)
        );
    }

    #[test]
    fn whether_it_failed_is_told_by_what_it_came_to() {
        let result = r#"{"content":[],"isError":true,"_meta":{"io.modelcontextprotocol/related-task":{"taskId":"t"}}}"#;
        for status in ["completed", "failed"] {
            let told = detailed(&core(status), Kind::Core, Detail::Result(result));
            assert_eq!(told["status"], "completed");
            assert_eq!(
                told["result"],
                json!({"resultType": "complete", "content": [], "isError": true})
            );
        }
        let told = detailed(
            &core("failed"),
            Kind::Core,
            Detail::Error(r#"{"code":-5,"message":"m"}"#),
        );
        assert_eq!(
            (&told["status"], &told["error"]["code"]),
            (&json!("failed"), &json!(-5))
        );
        assert!(told.get("result").is_none());
        let questions = r#"{"q":{"method":"roots/list","params":{}}}"#;
        let asking = detailed(&core("working"), Kind::Core, Detail::Questions(questions));
        assert_eq!(asking["status"], "input_required");
        assert_eq!(asking["inputRequests"]["q"]["method"], "roots/list");
        let waiting = detailed(&core("input_required"), Kind::Core, Detail::Own);
        assert_eq!(waiting["status"], "working", "it would have to name its questions");
    }

    #[test]
    fn a_change_is_a_message_of_its_subscription() {
        let text = extension(
            "working",
            json!({"_meta": {
                "io.modelcontextprotocol/subscriptionId": 4, "k": 1,
            }}),
        )
        .to_string();
        let task = Task::read(&text, Kind::Extension).unwrap();
        let told: Value = serde_json::from_slice(&changed(&task, Detail::Own, "ours", "\"s\"")).unwrap();
        assert_eq!(told["method"], "notifications/tasks");
        assert_eq!(told["params"]["taskId"], "ours");
        assert_eq!(
            told["params"]["_meta"],
            json!({"k": 1, "io.modelcontextprotocol/subscriptionId": "s"})
        );
        assert!(told["params"].get("resultType").is_none());
    }
}
