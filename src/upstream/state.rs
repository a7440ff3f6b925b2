//! What is known of an upstream now.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use crate::index::Catalog;
use crate::mcp::{Era, Revision};

use super::capabilities::Capabilities;
use super::error::Error;

/// What is known of an upstream now.
#[derive(Clone, Debug, Default)]
pub struct State {
    /// Whether it can be called.
    pub health: Health,
    /// What the server said of itself.
    pub peer: Option<Arc<Peer>>,
    /// What it offers. Kept for a while after a failure, so that a short outage takes no tool from a list.
    pub catalog: Option<Arc<Catalog>>,
}

/// Whether an upstream can be called.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Health {
    /// Nothing succeeded or failed yet.
    #[default]
    Connecting,
    /// Handshake done and catalog read.
    Ready,
    /// The last try failed.
    Failed(Error),
}

/// What a server said of itself in its handshake.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Peer {
    /// What carries the messages.
    pub transport: Transport,
    /// The revision that is spoken with it.
    pub revision: Revision,
    /// The name by which the revision is called on the wire: that of a later one, where the server speaks nothing older.
    pub revision_name: Cow<'static, str>,
    /// Its name; not unique and not trusted.
    pub name: String,
    /// Its version.
    pub version: String,
    /// How to use it, as one line.
    pub instructions: Option<Arc<str>>,
    /// What it says of itself, for where it is served alone.
    pub introduction: Introduction,
    /// What it declared that it can do.
    pub capabilities: Capabilities,
}

/// What a server says of itself to its clients, as it says it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Introduction {
    /// Its name, version and looks, as JSON; `None` where it lacks what clients demand, or is too long.
    pub info: Option<Arc<str>>,
    /// How to use it; `None` where it does not say so, or at too great a length.
    pub instructions: Option<Arc<str>>,
}

/// What carries the messages to and from a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    /// Streamable HTTP.
    StreamableHttp,
    /// The transport of 2024-11-05.
    OldSse,
    /// The standard input and output of a process.
    Stdio,
}

impl Transport {
    /// Its name in manifests and status.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::StreamableHttp => "StreamableHTTP",
            Self::OldSse => "SSE",
            Self::Stdio => "Stdio",
        }
    }
}

impl Health {
    /// One CamelCase word for metrics and conditions.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Connecting => "Connecting",
            Self::Ready => "Ready",
            Self::Failed(error) => error.reason(),
        }
    }
}

impl fmt::Display for Health {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Connecting => f.write_str("connecting"),
            Self::Ready => f.write_str("ready"),
            Self::Failed(error) => error.fmt(f),
        }
    }
}

impl Peer {
    /// The era of the revision.
    pub fn era(&self) -> Era {
        self.revision.era()
    }

    /// Whether a call of a tool can ask it for a task, in the way of 2025-11-25.
    pub(crate) fn takes_task_calls(&self) -> bool {
        self.era() == Era::Legacy && self.capabilities.tasks
    }

    /// A server that is taken to speak the Modern revision called `name`, and was not asked.
    pub(crate) fn taken_for(name: &str) -> Self {
        Self {
            transport: Transport::StreamableHttp,
            revision: Revision::LATEST,
            revision_name: name.to_owned().into(),
            name: String::new(),
            version: String::new(),
            instructions: None,
            introduction: Introduction::default(),
            capabilities: Capabilities::UNKNOWN,
        }
    }
}
