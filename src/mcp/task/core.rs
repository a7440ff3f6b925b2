//! Tasks of 2025-11-25, as its servers speak of them.

use std::borrow::Cow;

use super::{Kind, Task};
use crate::mcp::meta;
use crate::mcp::object::{Members, ObjectWriter};

/// The task that `result`, the answer to a call that asked for one, says was made; `None` if it is a result of the tool.
pub fn created(result: &str) -> Option<Task<'_>> {
    if !result.contains("\"task\"") {
        return None;
    }
    let members = Members::parse(result)?;
    match members.get("content") {
        None => Task::read(members.get("task")?.get(), Kind::Core),
        Some(_) => None,
    }
}

/// `result` without the mark that it belongs to a task: whoever gets it knows of none.
pub fn unrelated(result: &str) -> Cow<'_, str> {
    if !result.contains(meta::RELATED_TASK) {
        return Cow::Borrowed(result);
    }
    let Some(members) = Members::parse(result) else {
        return Cow::Borrowed(result);
    };
    let mut out = Vec::with_capacity(result.len());
    let mut object = ObjectWriter::open(&mut out);
    for (name, value) in members.iter() {
        let own = Members::parse(value.get()).filter(|own| name == "_meta" && own.get(meta::RELATED_TASK).is_some());
        let Some(own) = own else {
            object.member(name, value.get());
            continue;
        };
        let kept = || own.iter().filter(|(name, _)| *name != meta::RELATED_TASK);
        if kept().next().is_some() {
            let mut own = ObjectWriter::open(object.name(name));
            for (name, value) in kept() {
                own.member(name, value.get());
            }
            own.close();
        }
    }
    object.close();
    String::from_utf8(out).map_or(Cow::Borrowed(result), Cow::Owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_task_is_told_from_a_result_of_the_tool() {
        let made = r#"{"task":{"taskId":"t","status":"working","ttl":null},"_meta":{}}"#;
        assert_eq!(created(made).unwrap().id, "t");
        for result in [
            r#"{"content":[]}"#,
            r#"{"content":[],"task":{"taskId":"t","status":"working"}}"#,
            r#"{"structuredContent":{"task":{"taskId":"t","status":"working"}}}"#,
            r#"{"task":"t"}"#,
        ] {
            assert!(created(result).is_none(), "{result}");
        }
    }

    #[test]
    fn the_mark_of_a_task_goes_and_everything_else_stays() {
        let marked = |more: &str| {
            format!(
                r#"{{"content":[ ],"_meta":{{"io.modelcontextprotocol/related-task":{{"taskId":"t"}}{more}}},"x":1.0}}"#
            )
        };
        assert_eq!(unrelated(&marked("")), r#"{"content":[ ],"x":1.0}"#);
        assert_eq!(
            unrelated(&marked(r#","k":[ ]"#)),
            r#"{"content":[ ],"_meta":{"k":[ ]},"x":1.0}"#
        );
        let elsewhere = r#"{"structuredContent":{"_meta":{"io.modelcontextprotocol/related-task":1}}}"#;
        assert_eq!(unrelated(elsewhere), elsewhere);
    }
}
