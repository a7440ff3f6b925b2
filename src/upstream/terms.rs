//! How a server is dealt with, as its owner says.

use std::time::Duration;

use http::HeaderName;

use super::endpoint::Timeouts;
use super::pin::Pin;
use crate::defaults;

/// How a server is dealt with, as its owner says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Terms {
    /// How long it is waited for.
    pub timeouts: Timeouts,
    /// Which protocol is spoken with it.
    pub pin: Pin,
    /// How it is reached, if over HTTP.
    pub transport: HttpTransport,
    /// Whether changes are listened for. Without, its lists are read again when they are old, and no resource is
    /// subscribed to.
    pub notifications: bool,
    /// How fresh its lists are kept.
    pub freshness: Freshness,
    /// Whether nothing of the server is offered as long as one of its tools cannot be.
    pub withholds_whole: bool,
    /// Whether its lists are read. Where not, it is only called, and asked now and then whether it is there.
    pub lists: bool,
    /// What of callers' requests goes on to it, if anything does: then each caller has connections of its own.
    pub forwards: Option<Forwarding>,
}

/// What of callers' requests goes on to a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Forwarding {
    /// The headers that do, sorted.
    pub headers: Vec<HeaderName>,
    /// Whether each caller has lists of its own, too.
    pub own_lists: bool,
}

/// How fresh the lists of a server are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Freshness {
    /// They are read again when they are so old, as often as may be where this is zero.
    pub ttl: Duration,
    /// The last good ones are served so long while the server is away.
    pub stale_for: Duration,
}

/// How a server is reached over HTTP.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum HttpTransport {
    /// By Streamable HTTP, and by the transport of 2024-11-05 where there is no such thing.
    #[default]
    Auto,
    /// By Streamable HTTP.
    StreamableHttp,
    /// By the transport of 2024-11-05.
    OldSse,
}

impl Terms {
    /// How long a server that takes the place of another may take until it has listed what it has.
    pub fn patience(&self) -> Duration {
        self.timeouts.connect + self.timeouts.list.unwrap_or(self.freshness.stale_for)
    }
}

impl Default for Terms {
    fn default() -> Self {
        Self {
            timeouts: Timeouts::default(),
            pin: Pin::None,
            transport: HttpTransport::Auto,
            notifications: true,
            freshness: Freshness::default(),
            withholds_whole: false,
            lists: true,
            forwards: None,
        }
    }
}

impl Default for Freshness {
    fn default() -> Self {
        Self {
            ttl: defaults::CATALOG_TTL,
            stale_for: defaults::STALE_FOR,
        }
    }
}
