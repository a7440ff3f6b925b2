//! Streams that their session can resume.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::OwnedSemaphorePermit;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use super::resumable::{Resumable, StreamId};
use super::sessions::SessionHub;
use crate::defaults;
use crate::gateway::finished::Content;
use crate::gateway::line::Line;
use crate::gateway::session::SessionId;

/// A stream that can be resumed, for as long as this lives, there is room for what it carries, and its session has not
/// opened too many others since.
pub(in crate::gateway) struct Kept {
    hub: Arc<SessionHub>,
    session: SessionId,
    /// The stream.
    pub(in crate::gateway) stream: StreamId,
    line: Line,
    /// Cancelled when nobody can resume it any more.
    forgotten: CancellationToken,
    _place: OwnedSemaphorePermit,
}

impl SessionHub {
    /// Lets `session` resume what is said on `line`; `None` where too many streams are kept.
    pub(in crate::gateway) fn keep(hub: &Arc<Self>, session: SessionId, stream: StreamId, line: &Line) -> Option<Kept> {
        let place = hub.place()?;
        line.keep(&hub.budget);
        let forgotten = CancellationToken::new();
        let mut shard = hub.shards.of(session);
        let streams = &mut shard.entry(session).or_default().streams;
        if streams.len() >= defaults::RESUMABLE_PER_SESSION_MAX
            && let Some(first) = streams.pop_front()
        {
            first.line.let_go();
        }
        streams.push_back(Resumable {
            stream,
            line: line.clone(),
            _forgotten: forgotten.clone().drop_guard(),
        });
        Some(Kept {
            hub: Arc::clone(hub),
            session,
            stream,
            line: line.clone(),
            forgotten,
            _place: place,
        })
    }

    /// What is said on `stream`, if it is one that `session` can resume.
    pub(in crate::gateway) fn resumable(&self, session: SessionId, stream: StreamId) -> Option<Line> {
        let shard = self.shards.of(session);
        let mut streams = shard.get(&session)?.streams.iter();
        streams.find(|kept| kept.stream == stream).map(|kept| kept.line.clone())
    }
}

impl Kept {
    /// Says what the work came to, and keeps it for as long as `patience`. Where that cannot be, it goes to who reads now and
    /// is not kept.
    pub(in crate::gateway) async fn finish(self, content: Content, patience: Duration) {
        self.line.finish(content);
        if !self.line.is_kept() {
            return;
        }
        tokio::select! {
            () = self.forgotten.cancelled() => {}
            () = sleep(patience) => {}
        }
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        self.line.let_go();
        self.hub.change(self.session, |held| {
            held.streams.retain(|kept| kept.stream != self.stream);
        });
    }
}

#[cfg(test)]
mod tests {
    use futures::poll;

    use super::*;

    fn keep(hub: &Arc<SessionHub>, session: SessionId) -> Kept {
        SessionHub::keep(hub, session, StreamId::random().unwrap(), &Line::new()).unwrap()
    }

    #[test]
    fn only_the_session_that_opened_a_stream_resumes_it_and_only_while_it_is_kept() {
        let hub = Arc::new(SessionHub::new());
        let (mine, other) = (SessionId::random().unwrap(), SessionId::random().unwrap());
        let (kept, foreign) = (keep(&hub, mine), keep(&hub, other));
        assert!(hub.resumable(mine, kept.stream).is_some());
        assert!(hub.resumable(other, kept.stream).is_none());
        assert!(hub.resumable(mine, foreign.stream).is_none());
        let stream = kept.stream;
        drop(kept);
        assert!(hub.resumable(mine, stream).is_none());
        drop(foreign);
        assert_eq!(hub.sessions(), 0);
    }

    #[test]
    fn of_one_session_the_last_streams_are_kept_and_of_all_so_many() {
        let hub = Arc::new(SessionHub::new());
        let session = SessionId::random().unwrap();
        let mut all: Vec<_> = (0..=defaults::RESUMABLE_PER_SESSION_MAX)
            .map(|_| keep(&hub, session))
            .collect();
        assert!(hub.resumable(session, all[0].stream).is_none());
        assert!(hub.resumable(session, all[1].stream).is_some());
        while all.len() < defaults::RESUMABLE_MAX {
            all.push(keep(&hub, SessionId::random().unwrap()));
        }
        assert!(SessionHub::keep(&hub, session, all[0].stream, &Line::new()).is_none());
        all.clear();
        assert_eq!(hub.sessions(), 0);
        keep(&hub, session);
    }

    #[tokio::test]
    async fn answers_are_kept_as_far_as_there_is_room() {
        let hub = Arc::new(SessionHub::new());
        let session = SessionId::random().unwrap();
        let answer = || Content::Message(vec![b' '; defaults::RESUMABLE_BYTES_MAX / 2].into());
        let finish = |kept: Kept| {
            let (stream, line) = (kept.stream, kept.line.clone());
            line.attend(None).unwrap();
            let keeping = Box::pin(kept.finish(answer(), Duration::from_secs(60)));
            (stream, line, keeping)
        };
        let (first, _, mut first_kept) = finish(keep(&hub, session));
        let (second, _, mut second_kept) = finish(keep(&hub, session));
        let (third, line, mut third_kept) = finish(keep(&hub, session));
        assert!(poll!(&mut first_kept).is_pending() && poll!(&mut second_kept).is_pending());
        assert!(poll!(&mut third_kept).is_ready(), "nothing is kept, nor its place");
        assert!(hub.resumable(session, first).is_some() && hub.resumable(session, second).is_some());
        assert!(hub.resumable(session, third).is_none());
        assert!(line.has_news(), "who reads now gets it");
        drop(first_kept);
        assert!(hub.resumable(session, first).is_none());
        let (fourth, _, mut fourth_kept) = finish(keep(&hub, session));
        assert!(poll!(&mut fourth_kept).is_pending());
        assert!(hub.resumable(session, fourth).is_some());
    }

    #[tokio::test]
    async fn nothing_is_held_of_a_stream_that_was_forgotten() {
        let hub = Arc::new(SessionHub::new());
        let session = SessionId::random().unwrap();
        let answer = || Content::Message(vec![b' '; 1_000].into());
        for at_work in [false, true] {
            let first = keep(&hub, session);
            let line = first.line.clone();
            line.leave(line.attend(None).unwrap());
            let mut keeping = Box::pin(first.finish(answer(), Duration::from_secs(60)));
            if !at_work {
                assert!(poll!(&mut keeping).is_pending());
                assert!(line.has_news());
            }
            let others: Vec<_> = (0..defaults::RESUMABLE_PER_SESSION_MAX)
                .map(|_| keep(&hub, session))
                .collect();
            assert!(poll!(&mut keeping).is_ready());
            assert!(!line.is_kept());
            drop(others);
        }
        assert_eq!(hub.sessions(), 0);
        let line = Line::new();
        let mut kept = Box::pin(
            SessionHub::keep(&hub, session, StreamId::random().unwrap(), &line)
                .unwrap()
                .finish(answer(), Duration::from_secs(60)),
        );
        assert!(poll!(&mut kept).is_pending());
        hub.end(session);
        assert!(poll!(&mut kept).is_ready(), "it has ended with its session");
    }
}
