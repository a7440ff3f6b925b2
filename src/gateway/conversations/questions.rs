//! What servers ask, in the words of the client's revision, and the answers in those of the server's.

use std::borrow::Cow;

use crate::mcp::asking::{Asking, Said, Unaskable};
use crate::mcp::{Features, Members, Revision, RpcError, elicitation, sampling};

/// Why a question does not reach its client.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(in crate::gateway) enum NotAsked {
    /// The client did not declare that it can be asked this.
    #[error("the client did not declare the capability for {0}")]
    Undeclared(&'static str),
    /// The client's revision has no words for it.
    #[error(transparent)]
    Unaskable(#[from] Unaskable),
}

/// The params of a question for a client with `features` that speaks `revision`; `id` names a page to open.
pub(in crate::gateway) fn for_client(
    kind: Asking,
    params: &str,
    features: &Features,
    revision: Revision,
    id: &str,
) -> Result<String, NotAsked> {
    let members = Members::parse(params).ok_or(Unaskable::Malformed("the request"))?;
    if !features.can_be_asked(kind, &members) {
        return Err(NotAsked::Undeclared(kind.method()));
    }
    Ok(match kind {
        Asking::Elicitation => elicitation::params(params, revision, id)?,
        Asking::Sampling => sampling::params(params, revision)?,
        Asking::Roots => "{}".to_owned(),
    })
}

/// What a client said, or the error that says that it is no answer. The words of the server's revision are found where
/// its connection is known.
pub(in crate::gateway) fn for_server(kind: Asking, said: Said) -> Said {
    match said {
        Said::Result(result) => match answer(kind, &result) {
            Ok(result) => Said::Result(result.into_owned()),
            Err(error) => {
                tracing::debug!(reason = error.reason(), "an answer is not passed on: {error}");
                malformed(kind)
            }
        },
        Said::Error(error) if is_error(&error) => Said::Error(error),
        Said::Error(_) => malformed(kind),
    }
}

/// What a client said, for a Modern server, which takes no errors (2026-07-28, multi round-trip requests). That a person
/// cannot be asked, or gave what is no answer, is a question that was closed without one; of anything else there is no
/// way to tell, and nothing is given.
pub(in crate::gateway) fn for_modern_server(kind: Asking, said: Said) -> Option<String> {
    match (kind, for_server(kind, said)) {
        (_, Said::Result(result)) => Some(result),
        (Asking::Elicitation, Said::Error(_)) => match kind.refusal() {
            Said::Result(result) => Some(result),
            Said::Error(_) => None,
        },
        (Asking::Sampling | Asking::Roots, Said::Error(_)) => None,
    }
}

/// Why `json` is no answer to a question of this kind, in words for whoever gave it.
pub(in crate::gateway) fn wrong(kind: Asking, json: &str) -> Option<&'static str> {
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
        Asking::Sampling => answer(kind, json)
            .is_err()
            .then_some("must have a role, and content that is known"),
        Asking::Roots => (!begins_with("roots", '[')).then_some("must have roots, a list"),
    }
}

fn answer(kind: Asking, result: &str) -> Result<Cow<'_, str>, Unaskable> {
    let has = |name| Members::parse(result).is_some_and(|members| members.string(name).is_some());
    match kind {
        Asking::Sampling if has("role") => sampling::result(result, Revision::LATEST),
        Asking::Elicitation | Asking::Roots if result.starts_with('{') => Ok(Cow::Borrowed(result)),
        Asking::Sampling | Asking::Elicitation | Asking::Roots => Err(Unaskable::Malformed("the answer")),
    }
}

fn is_error(error: &str) -> bool {
    let members = Members::parse(error);
    members.is_some_and(|error| {
        let code = error.get("code").map(|code| code.get().parse::<i64>());
        code.is_some_and(|code| code.is_ok()) && error.string("message").is_some()
    })
}

fn malformed(kind: Asking) -> Said {
    let text = format!("The client's answer to {} is malformed", kind.method());
    let error = RpcError::new(RpcError::INTERNAL, text).to_json();
    Said::Error(String::from_utf8_lossy(&error).into_owned())
}

impl NotAsked {
    /// One CamelCase word for logs.
    pub(in crate::gateway) fn reason(&self) -> &'static str {
        match self {
            Self::Undeclared(_) => "Undeclared",
            Self::Unaskable(error) => error.reason(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_is_asked_in_its_own_words_and_only_what_it_declared() {
        let forms = Features {
            forms: true,
            ..Features::default()
        };
        let form = r#"{"mode":"form","message":"m","requestedSchema":{"type":"object","properties":{}}}"#;
        let asked = |features: &Features, to| for_client(Asking::Elicitation, form, features, to, "e");
        assert_eq!(
            asked(&forms, Revision::V2025_06_18).unwrap(),
            r#"{"message":"m","requestedSchema":{"type":"object","properties":{}}}"#
        );
        assert_eq!(asked(&forms, Revision::LATEST).unwrap(), form);
        let refused = asked(&Features::default(), Revision::LATEST).unwrap_err();
        assert_eq!(refused.reason(), "Undeclared");
    }

    const KINDS: [Asking; 3] = [Asking::Elicitation, Asking::Sampling, Asking::Roots];

    #[test]
    fn an_error_of_the_client_is_the_servers_to_hear() {
        for error in [
            r#"{"code":-1,"message":"no"}"#,
            r#"{"code":-32603,"message":"m","data":{"far":1e400}}"#,
        ] {
            for kind in KINDS {
                let said = Said::Error(error.into());
                assert_eq!(for_server(kind, said.clone()), said, "{kind:?}");
            }
        }
    }

    #[test]
    fn what_is_no_answer_becomes_an_error_that_says_so() {
        let cases = [
            (Asking::Elicitation, Said::Result("null".into())),
            (Asking::Roots, Said::Result("null".into())),
            (Asking::Sampling, Said::Result("7".into())),
            (Asking::Sampling, Said::Result(r#"{"role":"assistant"}"#.into())),
            (
                Asking::Sampling,
                Said::Result(r#"{"content":{"type":"text","text":"t"}}"#.into()),
            ),
            (Asking::Sampling, Said::Error("\"no\"".into())),
            (Asking::Roots, Said::Error(r#"{"code":1}"#.into())),
            (Asking::Elicitation, Said::Error(r#"{"code":"1","message":"m"}"#.into())),
        ];
        for (kind, said) in cases {
            let Said::Error(error) = for_server(kind, said.clone()) else {
                panic!("{kind:?}: {said:?}")
            };
            let expected = format!("answer to {} is malformed", kind.method());
            assert!(error.contains(&expected) && error.contains("-32603"), "{error}");
        }
    }

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

    #[test]
    fn a_modern_server_hears_of_no_errors() {
        let error = || Said::Error(r#"{"code":-1,"message":"no"}"#.into());
        let cancelled = Some(r#"{"action":"cancel"}"#.to_owned());
        assert_eq!(for_modern_server(Asking::Elicitation, error()), cancelled);
        assert_eq!(
            for_modern_server(Asking::Elicitation, Said::Result("1".into())),
            cancelled
        );
        for kind in [Asking::Sampling, Asking::Roots] {
            assert_eq!(for_modern_server(kind, error()), None);
        }
        let roots = r#"{"roots":[ ]}"#;
        assert_eq!(
            for_modern_server(Asking::Roots, Said::Result(roots.into())),
            Some(roots.into())
        );
    }

    #[test]
    fn an_answer_is_given_as_it_was_written() {
        let accepted = Said::Result(r#"{"action":"accept","content":{"n":1.50}}"#.into());
        assert_eq!(for_server(Asking::Elicitation, accepted.clone()), accepted);
    }
}
