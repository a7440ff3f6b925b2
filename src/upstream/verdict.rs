//! What was found out of a server's era, kept between its connections.

use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::time::Instant;

use crate::defaults;

/// The verdict on a server that is remembered, so that not every connection to a Legacy server begins with a question
/// that it does not know.
///
/// It expires, so that a server that learnt something new is noticed, and it is dropped when a connection fails, since
/// another server may stand there now. That a server is Modern is never remembered: to ask costs one request, which is
/// also how it tells what it can do.
#[derive(Debug, Default)]
pub(crate) struct VerdictMemory(Mutex<Option<Remembered>>);

/// How a Legacy server is spoken to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LegacyWay {
    /// By a handshake, over Streamable HTTP or standard input and output.
    Handshake,
    /// By a handshake over the transport of 2024-11-05.
    OldSse,
}

#[derive(Clone, Copy, Debug)]
struct Remembered {
    way: LegacyWay,
    at: Instant,
}

impl VerdictMemory {
    /// What was found out lately.
    pub(crate) fn recall(&self) -> Option<LegacyWay> {
        self.recall_at(Instant::now())
    }

    /// Keeps what was just found out.
    pub(crate) fn remember(&self, way: LegacyWay) {
        *self.lock() = Some(Remembered {
            way,
            at: Instant::now(),
        });
    }

    /// Drops what was found out.
    pub(crate) fn forget(&self) {
        *self.lock() = None;
    }

    fn recall_at(&self, now: Instant) -> Option<LegacyWay> {
        let is_fresh = |known: &Remembered| now.saturating_duration_since(known.at) < defaults::ERA_VERDICT_TTL;
        (*self.lock()).filter(is_fresh).map(|known| known.way)
    }

    fn lock(&self) -> MutexGuard<'_, Option<Remembered>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_verdict_lasts_a_while_and_no_longer() {
        let memory = VerdictMemory::default();
        assert_eq!(memory.recall(), None);
        memory.remember(LegacyWay::Handshake);
        assert_eq!(memory.recall(), Some(LegacyWay::Handshake));
        let almost = Instant::now() + defaults::ERA_VERDICT_TTL - Duration::from_secs(1);
        assert_eq!(memory.recall_at(almost), Some(LegacyWay::Handshake));
        assert_eq!(memory.recall_at(almost + Duration::from_secs(1)), None);
        memory.forget();
        assert_eq!(memory.recall(), None);
    }
}
