//! What servers ask, in the words of the client's revision, and the answers in those of the server's.

use crate::mcp::asking::{Asking, Said, Unaskable};
use crate::mcp::{Features, Members, Revision, RpcError, client_answer, elicitation, sampling};

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

/// Why a Modern server is not answered, in words for the client's model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(in crate::gateway) enum NoAnswer {
    /// The client gave none.
    #[error("The server needs an answer to {0}, and the client gave none")]
    None(&'static str),
    /// What the client gave is none.
    #[error("The server needs an answer to {0}, and the one that the client gave {1}")]
    Wrong(&'static str, &'static str),
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

/// What a client said, as it said it: whether an answer is right is for whoever asked to judge, as it would be without a
/// gateway between them. What is no result and no error of JSON-RPC becomes an error that says so. The words of the
/// server's revision are found where its connection is known.
pub(in crate::gateway) fn for_server(kind: Asking, said: Said) -> Said {
    match said {
        Said::Result(result) if result.starts_with('{') => Said::Result(result),
        Said::Error(error) if is_error(&error) => Said::Error(error),
        Said::Result(_) | Said::Error(_) => malformed(kind),
    }
}

/// What a client said, for a Modern server, which takes no errors (2026-07-28, multi round-trip requests). That a person
/// cannot be asked is a question that was closed without an answer; of anything else there is no way to tell.
///
/// # Errors
/// There is nothing to give: the client gave no answer, or one that is none, which the request that the client waits for
/// can tell it.
pub(in crate::gateway) fn for_modern_server(kind: Asking, said: Said) -> Result<String, NoAnswer> {
    let what = kind.method();
    let said = match said {
        Said::Error(_) => kind.refusal(),
        Said::Result(_) => said,
    };
    match said {
        Said::Error(_) => Err(NoAnswer::None(what)),
        Said::Result(result) => match client_answer::wrong(kind, &result) {
            None => Ok(result),
            Some(why) => Err(NoAnswer::Wrong(what, why)),
        },
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
            (Asking::Sampling, Said::Result("[]".into())),
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
    fn a_modern_server_hears_of_no_errors() {
        let error = || Said::Error(r#"{"code":-1,"message":"no"}"#.into());
        let cancelled = Ok(r#"{"action":"cancel"}"#.to_owned());
        assert_eq!(for_modern_server(Asking::Elicitation, error()), cancelled);
        for kind in [Asking::Sampling, Asking::Roots] {
            assert_eq!(for_modern_server(kind, error()), Err(NoAnswer::None(kind.method())));
        }
        let roots = r#"{"roots":[ ]}"#;
        assert_eq!(
            for_modern_server(Asking::Roots, Said::Result(roots.into())),
            Ok(roots.into())
        );
    }

    #[test]
    fn a_modern_server_is_given_no_wrong_answer() {
        for (kind, result) in [
            (Asking::Elicitation, "1"),
            (Asking::Elicitation, "{}"),
            (Asking::Sampling, r#"{"role":"assistant"}"#),
            (Asking::Roots, r#"{"roots":7}"#),
        ] {
            let error = for_modern_server(kind, Said::Result(result.into())).unwrap_err();
            assert!(matches!(error, NoAnswer::Wrong(..)), "{error}");
            let text = error.to_string();
            assert!(text.contains(kind.method()) && text.contains("must"), "{text}");
        }
    }

    #[test]
    fn an_answer_is_given_as_it_was_written_right_or_wrong() {
        for (kind, result) in [
            (Asking::Elicitation, r#"{"action":"accept","content":{"n":1.50}}"#),
            (Asking::Elicitation, r#"{"action":"maybe"}"#),
            (Asking::Sampling, r#"{"role":"assistant"}"#),
            (Asking::Sampling, r#"{"role":1,"content":7}"#),
            (Asking::Roots, r#"{"roots":{}}"#),
        ] {
            let said = Said::Result(result.into());
            assert_eq!(for_server(kind, said.clone()), said);
        }
    }
}
