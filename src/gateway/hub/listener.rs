//! Streams on which a session hears what is sent to it: each message comes on exactly one of them.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use tokio::sync::Notify;
use tokio::sync::futures::Notified;

use super::listening::{Heard, Listening};
use super::sessions::SessionHub;
use crate::gateway::session::SessionId;
use crate::index::Shown;

/// One open stream; closed when dropped.
pub(in crate::gateway) struct Listener {
    hub: Arc<SessionHub>,
    session: SessionId,
    number: u64,
    changed: Arc<Notify>,
}

impl SessionHub {
    /// Opens a stream of `session`, which sees lists as `now`; `known` is what its client says that it was told of them
    /// last. Where it has too many, the one that was opened first ends.
    pub(in crate::gateway) fn listen(
        hub: &Arc<Self>,
        session: SessionId,
        now: Shown,
        known: Option<Shown>,
    ) -> Listener {
        let mut shard = hub.shards.of(session);
        let held = shard.entry(session).or_default();
        let listening = held.listening.get_or_insert_with(|| Listening::new(now));
        let number = hub.opened.fetch_add(1, Ordering::Relaxed);
        let changed = listening.open(number, known);
        Listener {
            hub: Arc::clone(hub),
            session,
            number,
            changed,
        }
    }
}

impl Listener {
    /// What comes next on this stream; `now` is what the session sees of lists, if their changes are told at all.
    pub(in crate::gateway) fn hear(&self, now: Option<Shown>) -> Heard {
        let heard = self.hub.change(self.session, |held| {
            held.listening
                .as_mut()
                .map_or(Heard::Over, |listening| listening.hear(self.number, now))
        });
        heard.unwrap_or(Heard::Over)
    }

    /// Waits for the next change. What happens after this call is not missed, awaited or not.
    pub(in crate::gateway) fn changed(&self) -> Notified<'_> {
        self.changed.notified()
    }

    /// Tells this stream from all others.
    pub(in crate::gateway) fn number(&self) -> u64 {
        self.number
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.hub.change(self.session, |held| {
            let Some(listening) = &mut held.listening else { return };
            if listening.close(self.number) {
                held.listening = None;
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;
    use crate::defaults;
    use crate::mcp::ListKind;

    const QUIET: Shown = Shown {
        tools: 1,
        resources: 1,
        prompts: 1,
    };

    fn hub() -> (Arc<SessionHub>, SessionId) {
        (Arc::new(SessionHub::new()), SessionId::random().unwrap())
    }

    fn message(text: &'static str) -> Bytes {
        Bytes::from_static(text.as_bytes())
    }

    #[test]
    fn each_message_comes_on_the_newest_stream_and_on_the_one_before_when_that_closes() {
        let (hub, session) = hub();
        assert!(!hub.send(session, message("nobody listens")));
        let first = SessionHub::listen(&hub, session, QUIET, None);
        let second = SessionHub::listen(&hub, session, QUIET, None);
        assert!(hub.is_listening(session));
        assert!(hub.send(session, message("a")) && hub.send(session, message("b")));
        assert_eq!(first.hear(Some(QUIET)), Heard::Nothing);
        assert_eq!(second.hear(Some(QUIET)), Heard::Message(message("a")));
        drop(second);
        assert_eq!(first.hear(Some(QUIET)), Heard::Message(message("b")));
        assert_eq!(first.hear(Some(QUIET)), Heard::Nothing);
        drop(first);
        assert!(!hub.is_listening(session));
        assert_eq!(hub.sessions(), 0);
    }

    #[test]
    fn a_session_that_does_not_read_is_told_of_changes_once_and_refused_more_messages() {
        let (hub, session) = hub();
        let stream = SessionHub::listen(&hub, session, QUIET, None);
        let sent = (0..1_000).filter(|_| hub.send(session, message("x"))).count();
        assert_eq!(sent, defaults::SESSION_QUEUE_MAX);
        for _ in 0..sent {
            assert_eq!(stream.hear(Some(QUIET)), Heard::Message(message("x")));
        }
        let now = Shown {
            tools: 1_000,
            prompts: 2,
            ..QUIET
        };
        let after_tools = Shown { prompts: 1, ..now };
        assert_eq!(stream.hear(Some(now)), Heard::Changed(ListKind::Tools, after_tools));
        assert_eq!(stream.hear(Some(now)), Heard::Changed(ListKind::Prompts, now));
        assert_eq!(stream.hear(Some(now)), Heard::Nothing);
    }

    #[test]
    fn what_one_stream_told_no_other_tells_unless_its_client_does_not_know() {
        let (hub, session) = hub();
        let first = SessionHub::listen(&hub, session, QUIET, None);
        let now = Shown { tools: 3, ..QUIET };
        assert_eq!(first.hear(Some(now)), Heard::Changed(ListKind::Tools, now));
        let second = SessionHub::listen(&hub, session, now, None);
        assert_eq!(second.hear(Some(now)), Heard::Nothing);
        let resumed = SessionHub::listen(&hub, session, now, Some(QUIET));
        assert_eq!(resumed.hear(Some(now)), Heard::Changed(ListKind::Tools, now));
        drop((first, second, resumed));
    }

    #[test]
    fn lists_that_come_to_be_known_are_no_change() {
        let (hub, session) = hub();
        let unknown = Shown::UNKNOWN;
        let stream = SessionHub::listen(&hub, session, unknown, None);
        assert_eq!(stream.hear(Some(unknown)), Heard::Nothing);
        assert_eq!(stream.hear(Some(QUIET)), Heard::Nothing);
        let now = Shown { tools: 3, ..QUIET };
        assert_eq!(stream.hear(Some(unknown)), Heard::Nothing);
        assert_eq!(stream.hear(Some(now)), Heard::Changed(ListKind::Tools, now));
    }

    #[test]
    fn too_many_streams_end_the_first_and_the_end_of_the_session_ends_all() {
        let (hub, session) = hub();
        let streams: Vec<_> = (0..=defaults::SESSION_STREAMS_MAX)
            .map(|_| SessionHub::listen(&hub, session, QUIET, None))
            .collect();
        assert_eq!(streams[0].hear(Some(QUIET)), Heard::Over);
        assert_eq!(streams[1].hear(Some(QUIET)), Heard::Nothing);
        hub.end(session);
        assert!(streams.iter().all(|stream| stream.hear(Some(QUIET)) == Heard::Over));
        drop(streams);
        assert_eq!(hub.sessions(), 0);
    }
}
