//! Messages on their way out. What many clients are told alike, a page of a list, goes out from where it lies: no message
//! has a copy of its own, however many wait to be read.

use std::borrow::Cow;

use bytes::Bytes;

use crate::defaults;
use crate::mcp::sse;

/// A message on its way out, in one piece or in several that follow each other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outgoing(Form);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Form {
    Whole(Bytes),
    /// None of them is empty.
    Parts(Vec<Bytes>),
}

/// Puts a message together from texts, which are copied, and large pieces, which are not.
struct Assembly {
    parts: Vec<Bytes>,
    /// What follows the last part.
    text: Vec<u8>,
}

impl Outgoing {
    /// `text` with `shared` in this place of it.
    pub(super) fn around(text: Vec<u8>, place: usize, shared: Bytes) -> Self {
        let mut after = Bytes::from(text);
        let before = after.split_to(place.min(after.len()));
        let parts = [before, shared, after];
        Self(Form::Parts(parts.into_iter().filter(|part| !part.is_empty()).collect()))
    }

    /// A batch of `answers`.
    pub(super) fn batch(answers: Vec<Self>) -> Self {
        let copied: usize = answers.iter().map(|answer| answer.copied() + 1).sum();
        let mut batch = Assembly::with_room(copied + 1);
        let mut before = b'[';
        for answer in answers {
            batch.text.push(before);
            before = b',';
            for part in answer.into_parts() {
                batch.add(part);
            }
        }
        batch.text.push(b']');
        batch.finish()
    }

    /// The event that carries it; `id` is what to resume from.
    pub(super) fn in_event(self, id: Option<&str>) -> Self {
        let mut event = Assembly::with_room(self.copied() + 64);
        sse::open(&mut event.text, id);
        for part in self.into_parts() {
            if part.len() < defaults::SHARED_MIN || part.iter().any(sse::is_line_end) {
                sse::write_data(&mut event.text, &part);
            } else {
                event.add(part);
            }
        }
        sse::close(&mut event.text);
        event.finish()
    }

    /// How many bytes it has.
    pub(super) fn len(&self) -> usize {
        self.parts().iter().map(Bytes::len).sum()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Its pieces.
    pub(super) fn parts(&self) -> &[Bytes] {
        match &self.0 {
            Form::Whole(whole) => std::slice::from_ref(whole),
            Form::Parts(parts) => parts,
        }
    }

    /// Its pieces.
    pub(super) fn into_parts(self) -> impl Iterator<Item = Bytes> + Send {
        let (first, rest) = match self.0 {
            Form::Whole(whole) => (Some(whole), Vec::new()),
            Form::Parts(parts) => (None, parts),
        };
        first.into_iter().chain(rest)
    }

    /// Itself, if it is in one piece.
    pub(super) fn whole(self) -> Result<Bytes, Self> {
        match self.0 {
            Form::Whole(whole) => Ok(whole),
            Form::Parts(_) => Err(self),
        }
    }

    /// All of it; copied where it is in several pieces.
    pub(super) fn joined(&self) -> Cow<'_, [u8]> {
        match &self.0 {
            Form::Whole(whole) => Cow::Borrowed(whole),
            Form::Parts(parts) => Cow::Owned(parts.concat()),
        }
    }

    /// How many bytes of it an assembly copies.
    fn copied(&self) -> usize {
        let sizes = self.parts().iter().map(Bytes::len);
        sizes.filter(|size| *size < defaults::SHARED_MIN).sum()
    }
}

impl Assembly {
    fn with_room(bytes: usize) -> Self {
        Self {
            parts: Vec::new(),
            text: Vec::with_capacity(bytes),
        }
    }

    fn add(&mut self, part: Bytes) {
        if part.len() < defaults::SHARED_MIN {
            self.text.extend_from_slice(&part);
        } else {
            self.end_text();
            self.parts.push(part);
        }
    }

    fn finish(mut self) -> Outgoing {
        if self.parts.is_empty() {
            return Outgoing::from(self.text);
        }
        self.end_text();
        Outgoing(Form::Parts(self.parts))
    }

    fn end_text(&mut self) {
        if !self.text.is_empty() {
            self.parts.push(Bytes::from(std::mem::take(&mut self.text)));
        }
    }
}

impl From<Bytes> for Outgoing {
    fn from(message: Bytes) -> Self {
        Self(Form::Whole(message))
    }
}

impl From<Vec<u8>> for Outgoing {
    fn from(message: Vec<u8>) -> Self {
        Self::from(Bytes::from(message))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(filling: u8) -> Bytes {
        Bytes::from(vec![filling; defaults::SHARED_MIN])
    }

    /// Where `page` lies, as often as it is a part of `message`.
    fn lies_in(message: &Outgoing, page: &Bytes) -> usize {
        let is_it = |part: &&Bytes| part.as_ptr() == page.as_ptr() && part.len() == page.len();
        message.parts().iter().filter(is_it).count()
    }

    #[test]
    fn however_many_messages_have_a_page_it_lies_in_one_place() {
        let page = page(b'x');
        let all: Vec<_> = (0..60)
            .map(|_| Outgoing::around(b"[]".to_vec(), 1, page.clone()))
            .collect();
        assert!(all.iter().all(|message| lies_in(message, &page) == 1));
        let whole = [&b"["[..], &page, b"]"].concat();
        assert!(all.iter().all(|message| *message.joined() == *whole));
        assert!(all.iter().all(|message| message.len() == whole.len()));
        let batch = Outgoing::batch(all.clone());
        assert_eq!(lies_in(&batch, &page), 60);
        let events: Vec<_> = all.into_iter().map(|message| message.in_event(Some("a-1"))).collect();
        assert!(events.iter().all(|event| lies_in(event, &page) == 1));
        assert_eq!(events[0].joined(), sse::encode(&whole, Some("a-1")));
        drop((batch, events));
        assert!(page.is_unique(), "nothing holds it any more");
    }

    #[test]
    fn a_small_message_is_in_one_piece_whatever_it_goes_in() {
        let small = || Outgoing::from(b"{}".to_vec());
        for (message, text) in [
            (small(), "{}"),
            (Outgoing::batch(vec![small(), small()]), "[{},{}]"),
            (small().in_event(None), "event: message\ndata: {}\n\n"),
            (small().in_event(Some("a-1")), "id: a-1\nevent: message\ndata: {}\n\n"),
        ] {
            assert_eq!(message.whole().unwrap(), text);
        }
    }

    #[test]
    fn in_an_event_every_line_is_one_of_data_however_it_is_cut() {
        let mut lines = page(b' ').to_vec();
        lines[7] = b'\n';
        lines[9] = b'\r';
        let (large, plain) = (Bytes::from(lines), page(b'1'));
        for (text, shared) in [("[\n]", &large), ("[\n]", &plain), ("[]", &large)] {
            let message = Outgoing::around(text.as_bytes().to_vec(), 1, shared.clone());
            let whole = message.joined().into_owned();
            assert_eq!(message.in_event(None).joined(), sse::encode(&whole, None));
        }
    }

    #[test]
    fn a_batch_of_large_and_small_answers_is_an_array_of_them() {
        let page = page(b'1');
        let large = || Outgoing::around(b"{}".to_vec(), 1, page.clone());
        let batch = Outgoing::batch(vec![Outgoing::from(b"0".to_vec()), large(), large()]);
        let text = String::from_utf8_lossy(&page).into_owned();
        assert_eq!(batch.joined(), format!("[0,{{{text}}},{{{text}}}]").into_bytes());
        assert_eq!(batch.parts().len(), 5);
    }

    #[test]
    fn pieces_without_anything_in_them_are_left_out() {
        let page = page(b'1');
        let message = Outgoing::around(Vec::new(), 0, page.clone());
        assert_eq!(message.parts(), [page]);
    }
}
