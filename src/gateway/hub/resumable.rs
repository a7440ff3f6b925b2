//! A stream that can be resumed, and its name.

use std::fmt;

use aws_lc_rs::rand;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use tokio_util::sync::DropGuard;

use crate::gateway::line::Line;

/// A stream that can be resumed.
pub(super) struct Resumable {
    pub(super) stream: StreamId,
    pub(super) line: Line,
    /// Tells whoever keeps it when it is forgotten.
    pub(super) _forgotten: DropGuard,
}

/// The name of a stream that can be resumed: 128 random bits.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(in crate::gateway) struct StreamId([u8; 16]);

impl StreamId {
    /// A name that nobody can guess, or `None` where the system gives no random bytes.
    pub(in crate::gateway) fn random() -> Option<Self> {
        let mut bytes = [0; 16];
        rand::fill(&mut bytes).ok()?;
        Some(Self(bytes))
    }

    /// The id of the event that carries the message of this number.
    pub(in crate::gateway) fn event(self, number: u64) -> String {
        format!("{self}-{number}")
    }

    /// The stream and the number in an event's id.
    pub(in crate::gateway) fn of_event(id: &str) -> Option<(Self, u64)> {
        let (stream, number) = id.rsplit_once('-')?;
        let bytes = URL_SAFE_NO_PAD.decode(stream).ok()?;
        Some((Self(bytes.try_into().ok()?), number.parse().ok()?))
    }
}

impl fmt::Display for StreamId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&URL_SAFE_NO_PAD.encode(self.0))
    }
}

impl fmt::Debug for StreamId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("StreamId")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_events_id_names_its_stream_and_its_message() {
        let stream = StreamId::random().unwrap();
        let id = stream.event(17);
        assert_eq!(StreamId::of_event(&id), Some((stream, 17)));
        assert!(id.bytes().all(|byte| byte.is_ascii_graphic()));
        assert_ne!(StreamId::random().unwrap().event(17), id);
        for wrong in [
            "",
            "-",
            "1",
            "abc-1",
            &format!("x{id}"),
            &format!("{id}x"),
            &format!("{id}-1"),
        ] {
            assert_eq!(StreamId::of_event(wrong), None, "{wrong}");
        }
    }
}
