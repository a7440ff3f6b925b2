//! Streams that their session can resume.

use std::sync::Arc;

use tokio::sync::OwnedSemaphorePermit;

use super::resumable::{Resumable, StreamId};
use super::sessions::SessionHub;
use crate::defaults;
use crate::gateway::finished::Content;
use crate::gateway::line::Line;
use crate::gateway::session::SessionId;

/// A stream that can be resumed for as long as this lives.
pub(in crate::gateway) struct Kept {
    hub: Arc<SessionHub>,
    session: SessionId,
    /// The stream.
    pub(in crate::gateway) stream: StreamId,
    line: Line,
    /// Bytes of its answer that are counted.
    bytes: usize,
    _place: OwnedSemaphorePermit,
}

impl SessionHub {
    /// Lets `session` resume what is said on `line`; `None` where too many streams are kept.
    pub(in crate::gateway) fn keep(hub: &Arc<Self>, session: SessionId, stream: StreamId, line: &Line) -> Option<Kept> {
        let place = hub.place()?;
        line.keep();
        let mut shard = hub.shards.of(session);
        let streams = &mut shard.entry(session).or_default().streams;
        if streams.len() >= defaults::RESUMABLE_PER_SESSION_MAX {
            streams.pop_front();
        }
        let line = line.clone();
        streams.push_back(Resumable {
            stream,
            line: line.clone(),
        });
        Some(Kept {
            hub: Arc::clone(hub),
            session,
            stream,
            line,
            bytes: 0,
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
    /// Says what the work came to. Where there is no room for the answer, it goes to who reads now and is not kept.
    pub(in crate::gateway) fn finish(&mut self, content: Content) {
        let bytes = content.len();
        if self.hub.take_room(bytes) {
            self.bytes += bytes;
        } else {
            self.forget();
        }
        self.line.finish(content);
    }

    fn forget(&self) {
        self.hub.change(self.session, |held| {
            held.streams.retain(|kept| kept.stream != self.stream);
        });
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        self.forget();
        self.hub.give_room(self.bytes);
    }
}

#[cfg(test)]
mod tests {
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

    #[test]
    fn answers_are_kept_as_far_as_there_is_room() {
        let hub = Arc::new(SessionHub::new());
        let session = SessionId::random().unwrap();
        let answer = || Content::Message(vec![b' '; defaults::RESUMABLE_BYTES_MAX / 2].into());
        let (mut first, mut second, mut third) = (keep(&hub, session), keep(&hub, session), keep(&hub, session));
        first.finish(answer());
        second.finish(answer());
        third.finish(answer());
        assert!(hub.resumable(session, second.stream).is_some());
        assert!(hub.resumable(session, third.stream).is_none());
        assert!(third.line.has_news(), "who reads now gets it");
        drop(first);
        let mut fourth = keep(&hub, session);
        fourth.finish(answer());
        assert!(hub.resumable(session, fourth.stream).is_some());
    }
}
