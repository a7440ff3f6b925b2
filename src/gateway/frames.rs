//! The pieces of an answer on their way into a connection, so many bytes at a time: whoever is sent much does not keep
//! others waiting that are served by the same thread.

use std::task::{Context, Poll, ready};

use bytes::Bytes;
use tokio::task::coop;

use super::outgoing::Outgoing;
use crate::defaults;

/// What is left of messages to be sent.
#[derive(Debug, Default)]
pub struct Frames {
    /// Turned around, so that the next one is the last; none of them is empty.
    parts: Vec<Bytes>,
    /// Bytes that were sent since others last had their turn.
    sent: usize,
}

impl Frames {
    /// Those of `message`.
    pub(super) fn of(message: Outgoing) -> Self {
        let mut parts: Vec<Bytes> = message.into_parts().filter(|part| !part.is_empty()).collect();
        parts.reverse();
        Self { parts, sent: 0 }
    }

    /// The next piece, at most [`defaults::FRAME_MAX`] bytes of it; `None` at the end.
    pub(super) fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<Bytes>> {
        ready!(coop::poll_proceed(cx)).made_progress();
        if self.sent >= defaults::FRAME_MAX && !self.is_empty() {
            self.sent = 0;
            ready!(wait_for_others(cx));
        }
        Poll::Ready(self.next())
    }

    /// Whether nothing is left.
    pub(super) fn is_empty(&self) -> bool {
        self.parts.is_empty()
    }

    /// How many bytes are left.
    pub(super) fn left(&self) -> u64 {
        self.parts.iter().map(|part| part.len() as u64).sum()
    }

    fn next(&mut self) -> Option<Bytes> {
        let mut part = self.parts.pop()?;
        let piece = part.split_to(part.len().min(defaults::FRAME_MAX));
        if !part.is_empty() {
            self.parts.push(part);
        }
        self.sent += piece.len();
        Some(piece)
    }
}

/// Uses up what this turn of the task has left, so that it goes on when others have had theirs: to be pending would not
/// do, as the connection asks again in the same turn. Where turns have no end, it goes on.
fn wait_for_others(cx: &mut Context<'_>) -> Poll<()> {
    for _ in 0..TURN {
        ready!(coop::poll_proceed(cx)).made_progress();
    }
    Poll::Ready(())
}

/// More than the runtime lets a task do in one turn.
const TURN: usize = 256;

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    fn large(frames: usize) -> Outgoing {
        Outgoing::around(b"[]".to_vec(), 1, Bytes::from(vec![b' '; frames * defaults::FRAME_MAX]))
    }

    #[tokio::test]
    async fn all_of_a_message_comes_in_its_order_and_no_piece_is_too_large() {
        let message = Outgoing::batch(vec![large(3), Outgoing::from(b"1".to_vec())]);
        let mut frames = Frames::of(message.clone());
        assert_eq!(frames.left(), message.len() as u64);
        let mut all = Vec::new();
        while let Some(piece) = poll_fn(|cx| frames.poll_next(cx)).await {
            assert!((1..=defaults::FRAME_MAX).contains(&piece.len()));
            all.extend_from_slice(&piece);
            assert_eq!(frames.left() as usize, message.len() - all.len());
        }
        assert!(frames.is_empty() && all == *message.joined());
    }

    #[test]
    fn pieces_of_what_is_shared_are_not_copied() {
        let page = Bytes::from(vec![b' '; 2 * defaults::FRAME_MAX + 1]);
        let mut frames = Frames::of(Outgoing::around(b"[]".to_vec(), 1, page.clone()));
        let within = page.as_ptr_range();
        let pieces: Vec<_> = std::iter::from_fn(|| frames.next()).collect();
        let shared = pieces.iter().filter(|piece| within.contains(&piece.as_ptr()));
        assert_eq!(shared.map(Bytes::len).sum::<usize>(), page.len());
        assert_eq!(pieces.len(), 5);
    }

    #[tokio::test]
    async fn whoever_is_sent_much_lets_others_have_their_turn_though_it_is_asked_again_at_once() {
        const FRAMES: usize = 8;
        let turns = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&turns);
        let other = tokio::spawn(async move {
            loop {
                counted.fetch_add(1, Ordering::Relaxed);
                tokio::task::yield_now().await;
            }
        });
        let mut frames = Frames::of(large(FRAMES));
        // A connection that could write more asks several times in a turn.
        let mut piece = |cx: &mut Context<'_>| (0..16).map(|_| frames.poll_next(cx)).find(Poll::is_ready);
        while let Some(piece) = poll_fn(|cx| piece(cx).unwrap_or(Poll::Pending)).await {
            assert!(piece.len() <= defaults::FRAME_MAX);
        }
        let turns = turns.load(Ordering::Relaxed);
        assert!((FRAMES - 1..4 * FRAMES).contains(&turns), "{turns}");
        other.abort();
    }
}
