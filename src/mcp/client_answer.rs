//! Whether what a client says to a server's question is an answer to it.

use super::asking::Asking;
use super::object::Members;
use super::sampling;
use super::version::Revision;

/// Why `json`, a result, is no answer to a question of this kind, in words that go on after what it is about.
pub fn wrong(kind: Asking, json: &str) -> Option<&'static str> {
    let Some(members) = Members::parse(json) else {
        return Some("must be an object that names no member twice");
    };
    let begins_with = |name: &str, with| members.get(name).is_some_and(|raw| raw.get().starts_with(with));
    match kind {
        Asking::Elicitation => {
            let action = members.string("action");
            let is_known = matches!(action.as_deref(), Some("accept" | "decline" | "cancel"));
            let has_content = members.get("content").is_some_and(|content| content.get() != "null");
            match (is_known, has_content && !begins_with("content", '{')) {
                (false, _) => Some("must have an action: accept, decline or cancel"),
                (true, true) => Some("has a content that is no object"),
                (true, false) => None,
            }
        }
        Asking::Sampling => {
            let is_known = members.string("role").is_some() && sampling::result(json, Revision::LATEST).is_ok();
            (!is_known).then_some("must have a role, and content that is known")
        }
        Asking::Roots => (!begins_with("roots", '[')).then_some("must have roots, a list"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_answer_is_told_to_who_gave_it() {
        for (kind, json, is_right) in [
            (Asking::Elicitation, "1", false),
            (Asking::Elicitation, "{}", false),
            (Asking::Elicitation, r#"{"action":"maybe"}"#, false),
            (Asking::Elicitation, r#"{"action":"accept","content":[1]}"#, false),
            (Asking::Elicitation, r#"{"action":"accept","content":{}}"#, true),
            (Asking::Elicitation, r#"{"action":"decline","content":null}"#, true),
            (Asking::Sampling, r#"{"content":{"type":"text","text":"t"}}"#, false),
            (Asking::Sampling, r#"{"role":"assistant","content":"t"}"#, false),
            (
                Asking::Sampling,
                r#"{"role":"assistant","model":"m","content":{"type":"text","text":"t"}}"#,
                true,
            ),
            (Asking::Roots, r#"{"roots":{}}"#, false),
            (Asking::Roots, r#"{"roots":[]}"#, true),
        ] {
            assert_eq!(wrong(kind, json).is_none(), is_right, "{kind:?} {json}");
        }
    }
}
