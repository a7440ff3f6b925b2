//! What servers ask of clients, in what the client's revision knows: what all such requests have in common.
//!
//! Forms and pages are in [`elicitation`](super::elicitation), questions to a model in [`sampling`](super::sampling).
//! `roots/list` has no params but `_meta` and the same answer in all revisions.

use super::meta;
use super::object::{Members, ObjectWriter};
use super::rpc_error::RpcError;
use super::version::{Era, Revision};

/// What a server may ask of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Asking {
    /// Something of the person: a form to fill, or a page to open.
    Elicitation,
    /// Something of the client's model.
    Sampling,
    /// Which directories it works on.
    Roots,
}

/// What is answered to a request, as JSON.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Said {
    /// A result object.
    Result(String),
    /// An error object.
    Error(String),
}

impl Asking {
    /// The kind of request that `method` is, if it is one of a server to a client.
    pub fn of_method(method: &str) -> Option<Self> {
        Some(match method {
            "elicitation/create" => Self::Elicitation,
            "sampling/createMessage" => Self::Sampling,
            "roots/list" => Self::Roots,
            _ => return None,
        })
    }

    /// Its method.
    pub const fn method(self) -> &'static str {
        match self {
            Self::Elicitation => "elicitation/create",
            Self::Sampling => "sampling/createMessage",
            Self::Roots => "roots/list",
        }
    }

    /// What a server is told where nobody can be asked: of a person, that they closed the question without an answer;
    /// otherwise an error, since the others have no other way to say no.
    pub fn refusal(self) -> Said {
        let error =
            |code, text: &str| Said::Error(String::from_utf8_lossy(&RpcError::new(code, text).to_json()).into());
        match self {
            Self::Elicitation => Said::Result(r#"{"action":"cancel"}"#.to_owned()),
            Self::Sampling => error(USER_REJECTED, "The client cannot be asked now"),
            Self::Roots => error(RpcError::METHOD_NOT_FOUND, "The client cannot be asked now"),
        }
    }
}

/// The code by which a person's refusal of sampling is told (2025-11-25, sampling).
const USER_REJECTED: i64 = -1;

/// Why a server's request cannot be put to a client, or the client's answer not be given to the server.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unaskable {
    /// It is not what the protocol says it is.
    #[error("{0} is malformed")]
    Malformed(&'static str),
    /// The client's revision has nothing like it.
    #[error("protocol revision {0} has no elicitation")]
    Elicitation(Revision),
    /// The client's revision opens no pages.
    #[error("protocol revision {0} has no elicitation by URL")]
    Page(Revision),
    /// The client's revision lets a person choose one of several, not some.
    #[error("protocol revision {revision} has no multiple choice, which field {field:?} asks for")]
    MultipleChoice {
        /// The field of the form.
        field: String,
        /// The client's.
        revision: Revision,
    },
    /// The revision's models use no tools.
    #[error("protocol revision {0} has no tools in sampling")]
    Tools(Revision),
    /// The revision takes one block of content, and these cannot become one.
    #[error("protocol revision {0} takes one block of content, not several of different kinds")]
    Several(Revision),
}

impl Unaskable {
    /// One CamelCase word for metrics and logs.
    pub const fn reason(&self) -> &'static str {
        match self {
            Self::Malformed(_) => "Malformed",
            Self::Elicitation(_) => "NoElicitation",
            Self::Page(_) => "NoUrlElicitation",
            Self::MultipleChoice { .. } => "NoMultipleChoice",
            Self::Tools(_) => "NoSamplingTools",
            Self::Several(_) => "SeveralBlocks",
        }
    }
}

/// Writes the members of `params` for a client of revision `to`, except those that `own` has written or dropped, for
/// which it gives true. `task` is never asked for, and `_meta` loses what is true of one hop; a Modern client gets
/// requests inside of a result, where they have none (2026-07-28, multi round-trip requests).
pub(super) fn write_params<'a>(
    object: &mut ObjectWriter<'_>,
    params: &Members<'a>,
    to: Revision,
    mut own: impl FnMut(&mut ObjectWriter<'_>, &str, &'a str) -> Result<bool, Unaskable>,
) -> Result<(), Unaskable> {
    for (name, value) in params.iter() {
        match name {
            "task" => {}
            "_meta" => write_meta(object, value.get(), to),
            _ if own(object, name, value.get())? => {}
            _ => object.member(name, value.get()),
        }
    }
    Ok(())
}

fn write_meta(object: &mut ObjectWriter<'_>, own: &str, to: Revision) {
    let members = Members::parse(own)
        .filter(|_| to.era() == Era::Legacy)
        .unwrap_or_default();
    let kept = || members.iter().filter(|(name, _)| !meta::is_of_one_hop(name));
    if kept().next().is_none() {
        return;
    }
    let mut out = ObjectWriter::open(object.name("_meta"));
    for (name, value) in kept() {
        out.member(name, value.get());
    }
    out.close();
}
