//! What servers ask, in the words of the client's revision, and the answers in those of the server's.

use crate::mcp::asking::{Asking, Said, Unaskable};
use crate::mcp::{Features, Members, Revision, elicitation, sampling};

/// Why a question does not reach its client.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum NotAsked {
    /// The client did not declare that it can be asked this.
    #[error("the client did not declare the capability for {0}")]
    Undeclared(&'static str),
    /// The client's revision has no words for it.
    #[error(transparent)]
    Unaskable(#[from] Unaskable),
}

/// The params of a question for a client with `features` that speaks `revision`; `id` names a page to open.
pub(super) fn for_client(
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

/// What a client said, if it is an answer. The words of the server's revision are found where its connection is known.
pub(super) fn for_server(kind: Asking, said: Said) -> Said {
    match (kind, said) {
        (_, Said::Result(result)) if !result.starts_with('{') => kind.refusal(),
        (Asking::Sampling, Said::Result(result)) => match sampling::result(&result, Revision::LATEST) {
            Ok(result) => Said::Result(result.into_owned()),
            Err(error) => {
                tracing::debug!(reason = error.reason(), "an answer is not passed on: {error}");
                kind.refusal()
            }
        },
        // A person who cannot be asked gave no answer; servers know what to do with that.
        (Asking::Elicitation, Said::Error(_)) => kind.refusal(),
        (_, said) => said,
    }
}

impl NotAsked {
    /// One CamelCase word for logs.
    pub(super) fn reason(&self) -> &'static str {
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

    #[test]
    fn what_is_no_answer_becomes_the_refusal_of_its_kind() {
        for (kind, said) in [
            (
                Asking::Elicitation,
                Said::Error(r#"{"code":-32603,"message":"m"}"#.into()),
            ),
            (Asking::Roots, Said::Result("null".into())),
            (Asking::Sampling, Said::Result(r#"{"role":"assistant"}"#.into())),
        ] {
            assert_eq!(for_server(kind, said), kind.refusal(), "{kind:?}");
        }
        let refused = Said::Error(r#"{"code":-1,"message":"no"}"#.into());
        assert_eq!(for_server(Asking::Sampling, refused.clone()), refused);
        let accepted = Said::Result(r#"{"action":"accept","content":{"n":1.50}}"#.into());
        assert_eq!(for_server(Asking::Elicitation, accepted.clone()), accepted);
    }
}
