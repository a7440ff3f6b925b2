//! How much a Legacy server logs on one connection: for all who use it alike.

use std::sync::atomic::{AtomicU8, Ordering};

use crate::mcp::LogLevel;

/// The level that a server was told on one connection, if it was told any.
#[derive(Debug, Default)]
pub(super) struct ToldLevel(AtomicU8);

impl ToldLevel {
    /// Notes that `wanted` is told to the server. False if that is not needed: it was told the same, or, where others
    /// use the connection too, one under which it logs as much.
    pub(super) fn note(&self, wanted: LogLevel, is_shared: bool) -> bool {
        let wanted = LogLevel::ALL.into_iter().zip(1..).find(|(level, _)| *level == wanted);
        let Some((_, wanted)) = wanted else {
            return false;
        };
        let noted = self.0.fetch_update(Ordering::AcqRel, Ordering::Acquire, |told| {
            let suffices = told == wanted || (is_shared && told != NOTHING && told < wanted);
            (!suffices).then_some(wanted)
        });
        noted.is_ok()
    }
}

/// Nothing was told; levels are counted from one.
const NOTHING: u8 = 0;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_level_is_told_once_and_each_change_of_it() {
        let told = ToldLevel::default();
        let noted =
            [LogLevel::Info, LogLevel::Info, LogLevel::Error, LogLevel::Debug].map(|level| told.note(level, false));
        assert_eq!(noted, [true, false, true, true]);
    }

    #[test]
    fn where_others_listen_too_the_server_is_told_to_log_more_and_never_less() {
        let told = ToldLevel::default();
        let noted = [LogLevel::Error, LogLevel::Emergency, LogLevel::Info, LogLevel::Warning]
            .map(|level| told.note(level, true));
        assert_eq!(noted, [true, false, true, false]);
    }
}
