//! How a hop to a server fails.

use std::time::Duration;

use super::process::SpawnError;
use super::stdio::{ExitCause, StdioError};
use crate::mcp::param_headers::ArgumentError;

/// Why a server gave no usable answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// No connection could be made.
    #[error("cannot reach the server: {0}")]
    Connect(String),
    /// The connection broke before the answer.
    #[error("the connection to the server broke before its answer ({0}); whether it did what was asked is not known")]
    Broken(String),
    /// Nothing came in time.
    #[error("no answer to {operation} within {after:?}")]
    Timeout {
        /// The method that was asked for.
        operation: &'static str,
        /// How long was waited.
        after: Duration,
    },
    /// Our credentials were refused.
    #[error("the server refused our credentials (HTTP status {0})")]
    Auth(u16),
    /// An HTTP status that is no answer.
    #[error("the server answered with HTTP status {}{}", .0, what_to_check(*.0))]
    Status(u16),
    /// What answers does not answer with messages.
    #[error("the server answered with {came}; {check}")]
    Unexpected {
        /// What came instead.
        came: String,
        /// What to do.
        check: &'static str,
    },
    /// The server does not know the session any more.
    #[error("the server ended the session")]
    SessionLost,
    /// The server speaks a newer era by now.
    #[error("the server speaks a newer protocol now")]
    Outdated,
    /// The stream of the answer broke off before the answer.
    #[error("the server's stream ended before the answer; whether it did what was asked is not known")]
    CutOff,
    /// The answer is not what the protocol allows.
    #[error("the server broke the protocol: {0}")]
    Protocol(String),
    /// The answer is larger than allowed.
    #[error("the server's answer is larger than {0} bytes")]
    TooLarge(usize),
    /// The server speaks other revisions than we do, or than it is pinned to.
    #[error("no protocol revision in common; the server speaks {0}")]
    Revision(String),
    /// The server answered the handshake with an error.
    #[error("the server refused the handshake: {0}")]
    Refused(String),
    /// The server's process could not be started, or ended.
    #[error("{message}")]
    Process {
        /// One CamelCase word.
        reason: &'static str,
        /// What happened to it.
        message: String,
    },
    /// The client's arguments cannot be sent as the server wants them; it was not asked.
    #[error("the arguments cannot be sent: {0}")]
    Arguments(#[from] ArgumentError),
    /// The server asked something, and did not take the answer.
    #[error("the server does not take the answer to what it asked")]
    Unanswered,
    /// The server gave up a task that was waited for.
    #[error("the server cancelled the task{}{}", if .0.is_empty() { "" } else { ": " }, .0)]
    TaskCancelled(String),
    /// A task that was waited for is waited for no longer.
    #[error("the task was given up: {0}")]
    TaskGivenUp(String),
    /// As many callers as may have connections of their own have them, and use them.
    #[error("all {0} connections of callers to the server are in use; try again later")]
    NoLane(usize),
    /// A call that waited for its client was ended.
    #[error("the call was let go of, since its server or the right to use it was taken away; call again")]
    LetGo,
    /// The server is not connected now.
    #[error("the server is not connected: {0}")]
    NotConnected(String),
    /// A failure that may come of what the server's owner says of it.
    #[error("{error}; {advice}")]
    Advised {
        /// The failure.
        error: Box<Self>,
        /// What to look at.
        advice: String,
    },
}

impl Error {
    /// Whether the server refuses whoever does not say, or is not, who it wants to be asked by.
    pub(crate) fn wants_credentials(&self) -> bool {
        match self {
            Self::Auth(_) => true,
            Self::Advised { error, .. } => error.wants_credentials(),
            _ => false,
        }
    }

    /// Whether it can come of speaking to the server in an era that it is not of.
    pub(crate) fn may_come_of_the_era(&self) -> bool {
        matches!(
            self,
            Self::Status(400 | 404 | 405 | 406 | 415) | Self::Refused(_) | Self::Revision(_) | Self::Protocol(_)
        )
    }

    /// Whether the server, or its answer, failed this time, while nothing says that the connection is of no more use.
    pub(crate) fn is_passing(&self) -> bool {
        matches!(
            self,
            Self::Status(429 | 500..) | Self::Timeout { .. } | Self::TooLarge(_)
        ) || self.leaves_in_doubt()
    }

    /// Whether the server may have done what it was asked, and gave no answer because the way back broke.
    pub(crate) fn leaves_in_doubt(&self) -> bool {
        matches!(self, Self::Broken(_) | Self::CutOff)
    }

    /// Whether it may be of the one answer that was waited for, and of no other.
    pub(crate) fn is_of_one_answer(&self) -> bool {
        self.is_passing()
            || matches!(
                self,
                Self::Auth(_) | Self::Status(_) | Self::Protocol(_) | Self::Unexpected { .. }
            )
    }

    /// What happened, without words of others, in which addresses might stand.
    pub fn outline(&self) -> String {
        match self {
            Self::Timeout { .. }
            | Self::Auth(_)
            | Self::Status(_)
            | Self::SessionLost
            | Self::Outdated
            | Self::CutOff
            | Self::TooLarge(_)
            | Self::Unanswered
            | Self::LetGo
            | Self::NoLane(_) => self.to_string(),
            Self::Advised { error, .. } => error.outline(),
            Self::Connect(_) => "the server cannot be reached".to_owned(),
            Self::Broken(_) => {
                "the connection broke before the answer; whether the server did what was asked is not known".to_owned()
            }
            Self::NotConnected(_) => "the server is not connected".to_owned(),
            Self::Unexpected { .. }
            | Self::Protocol(_)
            | Self::Revision(_)
            | Self::Refused(_)
            | Self::Process { .. }
            | Self::Arguments(_)
            | Self::TaskCancelled(_)
            | Self::TaskGivenUp(_) => self.reason().to_owned(),
        }
    }

    /// One CamelCase word for metrics, events and conditions.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Connect(_) => "ConnectFailed",
            Self::Broken(_) => "ConnectionBroken",
            Self::Timeout { .. } => "Timeout",
            Self::Auth(_) => "AuthFailed",
            Self::Status(_) => "BadStatus",
            Self::Unexpected { .. } => "UnexpectedContent",
            Self::SessionLost => "SessionLost",
            Self::Outdated => "Outdated",
            Self::CutOff => "CutOff",
            Self::Protocol(_) | Self::Revision(_) => "ProtocolError",
            Self::TooLarge(_) => "TooLarge",
            Self::Refused(_) => "HandshakeRefused",
            Self::Process { reason, .. } => reason,
            Self::Arguments(_) => "InvalidArguments",
            Self::Unanswered => "Unanswered",
            Self::TaskCancelled(_) => "TaskCancelled",
            Self::TaskGivenUp(_) => "TaskGivenUp",
            Self::NoLane(_) => "NoLane",
            Self::LetGo => "LetGo",
            Self::NotConnected(_) => "NotConnected",
            Self::Advised { error, .. } => error.reason(),
        }
    }
}

/// What to do about an HTTP status that a wrong address is answered with.
fn what_to_check(status: u16) -> &'static str {
    match status {
        300..=399 => {
            ", which leads elsewhere and is not followed; write the address that it leads to, often one with or without a \
             slash at its end"
        }
        404 | 405 => "; check the address: the path of an MCP endpoint is often /mcp",
        _ => "",
    }
}

impl From<SpawnError> for Error {
    fn from(error: SpawnError) -> Self {
        Self::Process {
            reason: error.reason(),
            message: error.to_string(),
        }
    }
}

impl From<StdioError> for Error {
    fn from(error: StdioError) -> Self {
        match error {
            StdioError::TooLarge(limit) => Self::TooLarge(limit),
            StdioError::Ended(_) | StdioError::IdInUse(_) => Self::Process {
                reason: error.reason(),
                message: error.to_string(),
            },
        }
    }
}

impl From<ExitCause> for Error {
    fn from(cause: ExitCause) -> Self {
        StdioError::Ended(cause).into()
    }
}

/// The innermost cause of a failed request, which says more than the outermost, and no address in it.
pub(crate) fn cause(error: &dyn std::error::Error) -> String {
    let mut innermost = error;
    while let Some(source) = innermost.source() {
        innermost = source;
    }
    innermost.to_string()
}
